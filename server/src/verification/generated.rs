//! Cases that the daemon makes.

use std::collections::BTreeMap;

use accelerd_ir::Kind;
use accelerd_verify::{Domain, Generator, Input};

use super::{
    cases::{Cases, Inputs},
    column::{Column, Extent, Port},
    sides::Sides,
};
use crate::error::ApiError;

/// Elements of a list without a stated length.
const DEFAULT_LENGTH: u32 = 8;

/// The most elements of a generated list.
const MAX_LENGTH: u32 = 1 << 16;

/// The most bytes of the inputs of a chunk.
const CHUNK_BYTES: usize = 8 << 20;

/// The most cases of a chunk.
const CHUNK_CASES: usize = 1 << 16;

/// Cases that a client wants to be made.
#[derive(Debug)]
pub(crate) struct CaseGenerator {
    pub(crate) case_count: u64,
    pub(crate) seed: u64,
    /// By the names of inputs.
    pub(crate) domains: BTreeMap<String, InputDomain>,
}

/// The values of an input.
#[derive(Debug, Default)]
pub(crate) struct InputDomain {
    pub(crate) domain: Domain,
    /// Elements of a list.
    pub(crate) length: Option<u32>,
}

/// Generated cases.
#[derive(Debug)]
pub(super) struct Generated {
    generator: Generator,
    case_count: u64,
    case_bytes: usize,
    /// The most cases of a chunk.
    chunk_cases: usize,
}

impl Generated {
    pub(super) fn new(stated: CaseGenerator, sides: &Sides, limit: u64) -> Result<Self, ApiError> {
        if !sides.are_functions() {
            let reason = "expected two functions, got outputs of the client, whose inputs are not known";
            return Err(ApiError::invalid("header.generator", reason));
        }
        let CaseGenerator { case_count, seed, mut domains } = stated;
        if case_count > limit {
            let reason = format!("expected at most {limit} cases, got {case_count}");
            return Err(ApiError::invalid("header.generator.case_count", reason));
        }
        let inputs = sides.inputs.iter().map(|port| input(port, &mut domains)).collect::<Result<Vec<_>, _>>()?;
        if let Some(name) = domains.into_keys().next() {
            let names: Vec<_> = sides.inputs.iter().map(|port| port.name.as_str()).collect();
            let reason = format!("expected an input of [{}]", names.join(", "));
            return Err(ApiError::invalid(format!("header.generator.domains[{name:?}]"), reason));
        }
        let case_bytes: usize = inputs.iter().map(Input::case_bytes).sum();
        let chunk_cases = (CHUNK_BYTES / case_bytes.max(1)).clamp(1, CHUNK_CASES);
        let (floats, integers) = constants(sides);
        let generator = Generator::new(inputs, seed).with_constants(&floats, &integers);
        Ok(Self { generator, case_count, case_bytes, chunk_cases })
    }

    /// At most `max_cases` cases from `first` on; `None` if there are no more.
    pub(super) fn cases(&self, first: u64, max_cases: usize) -> Option<Cases> {
        let count = self.left(first).min(max_cases).min(self.chunk_cases);
        (count > 0).then(|| Cases::of_functions(count, Inputs::Generated(first)))
    }

    /// Cases from `first` on.
    pub(super) fn left(&self, first: u64) -> usize {
        usize::try_from(self.case_count.saturating_sub(first)).unwrap_or(usize::MAX)
    }

    /// Bytes of the inputs of a case.
    pub(super) fn case_bytes(&self) -> usize {
        self.case_bytes
    }

    /// The inputs of `count` cases from `first` on.
    pub(super) fn columns(&self, first: u64, count: usize) -> Vec<Column> {
        self.generator.inputs().iter().zip(self.generator.cases(first, count)).map(column).collect()
    }

    /// The inputs of the cases of these numbers.
    pub(super) fn numbered_columns(&self, numbers: &[u64]) -> Vec<Column> {
        let columns = self.generator.numbered_cases(&numbers.iter().copied());
        self.generator.inputs().iter().zip(columns).map(column).collect()
    }

    pub(super) fn generator(&self) -> &Generator {
        &self.generator
    }

    pub(super) fn case_count(&self) -> u64 {
        self.case_count
    }

    /// The most cases of a chunk that are evaluated.
    pub(super) fn chunk_cases(&self) -> usize {
        self.chunk_cases
    }

    pub(super) fn inputs(&self) -> &[Input] {
        self.generator.inputs()
    }
}

/// A column of an input.
pub(super) fn column((input, data): (&Input, Vec<u8>)) -> Column {
    let length = input.length().map(|length| length as usize);
    Column { dtype: input.dtype(), length, data: data.into() }
}

fn input(port: &Port, domains: &mut BTreeMap<String, InputDomain>) -> Result<Input, ApiError> {
    let field = format!("header.generator.domains[{:?}]", port.name);
    let stated = domains.remove(&port.name).unwrap_or_default();
    let length = match (port.extent, stated.length) {
        (Extent::Scalar, None) => None,
        (Extent::Scalar, Some(_)) => {
            return Err(ApiError::invalid(format!("{field}.length"), format!("expected none, for {port} is no list")));
        }
        (Extent::List(Some(fixed)), Some(length)) if fixed != length => {
            return Err(ApiError::invalid(format!("{field}.length"), format!("expected {fixed}, got {length}")));
        }
        (Extent::List(Some(length)), _) => Some(length),
        (Extent::List(None), stated) => Some(stated.unwrap_or(DEFAULT_LENGTH)),
    };
    if let Some(got) = length.filter(|length| *length > MAX_LENGTH) {
        return Err(ApiError::invalid(format!("{field}.length"), format!("expected at most {MAX_LENGTH}, got {got}")));
    }
    Input::new(&port.name, port.dtype, length, stated.domain)
        .map_err(|error| ApiError::invalid(field, error.to_string()))
}

/// Numbers in the code of the functions, whose neighbours are worth a case: those of functions in Python first, which have few others.
fn constants(sides: &Sides) -> (Vec<f64>, Vec<i64>) {
    let functions = [&sides.reference, &sides.subject].into_iter().filter_map(|side| side.function());
    let functions: Vec<_> = functions.map(|computed| &computed.function).collect();
    let mut floats = vec![];
    let mut integers = vec![];
    for literal in functions.iter().filter_map(|function| function.literals()).flatten() {
        match literal.dtype().kind() {
            Kind::Float => floats.push(literal.as_f64()),
            Kind::Integer => integers.push(literal.as_i64()),
            Kind::Bool => {}
        }
    }
    for constants in functions.iter().filter_map(|function| function.constants()) {
        floats.extend(constants.floats());
        integers.extend(&constants.integers);
    }
    (floats, integers)
}
