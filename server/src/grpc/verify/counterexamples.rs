//! Cases that fail: what both sides computed for them, and simpler ones that fail too.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_ir::{Dtype, scalar::Literal};
use accelerd_proto::v1 as pb;
use accelerd_verify::{Bound, Domain, Input, Shrinker};
use bytes::Bytes;

use super::{
    cases::{Cases, Inputs, Named},
    column::{Column, Port},
    evaluate::{Evaluated, Evaluator, SideResult},
    generated::column,
    header::Header,
    outcome::CaseOutcome,
};
use crate::grpc::{convert::tensor_of, dtype::dtype_to_proto};

/// Candidates that are evaluated at once.
const CANDIDATES: usize = 256;

/// How long a case is made simpler.
const SHRINK_TIME: Duration = Duration::from_secs(5);

/// A case that fails.
pub(super) struct Found {
    case_index: u64,
    result: pb::CaseResult,
    /// What it is shrunk from; `None` if it is not shrunk.
    shrinker: Option<Shrinker>,
    inputs: Vec<Input>,
    /// How the subject must end.
    expected_outcome: Option<CaseOutcome>,
}

/// Finds the cases of a chunk that fail.
pub(super) struct Counterexamples<'a> {
    pub(super) header: &'a Header,
    pub(super) first_case: u64,
}

impl Counterexamples<'_> {
    /// Adds the first that fail, up to the number that the header asks for.
    pub(super) fn find(&self, evaluated: &Evaluated, found: &mut Vec<Found>) {
        let wanted = self.header.max_counterexamples.saturating_sub(found.len());
        let failing = (0..evaluated.count).filter(|case| evaluated.fails(*case)).take(wanted);
        found.extend(failing.map(|case| self.case(evaluated, case)));
    }

    fn case(&self, evaluated: &Evaluated, case: usize) -> Found {
        let ports = &self.header.sides.inputs;
        let inputs = if self.header.shrinks { self.shrink_inputs(&evaluated.inputs) } else { vec![] };
        let values: Vec<Vec<u8>> = evaluated.inputs.iter().map(|column| column.case(case).into()).collect();
        let shrinker = if self.header.shrinks { Shrinker::new(&inputs, &values).ok() } else { None };
        let result = case_result(ports, evaluated, case);
        let expected_outcome = self.header.expected_outcome(&evaluated.expected_outcomes, case);
        Found { case_index: evaluated.number(case, self.first_case), result, shrinker, inputs, expected_outcome }
    }

    /// The domains of simpler values: those of the generator, or the range of the chunk's values.
    fn shrink_inputs(&self, columns: &[Column]) -> Vec<Input> {
        if let Some(generated) = &self.header.generated {
            return generated.inputs().to_vec();
        }
        let ports = self.header.sides.inputs.iter().zip(columns);
        ports.filter_map(|(port, column)| input_of(port, column)).collect()
    }
}

/// An input whose values are between the smallest and the largest of a column.
fn input_of(port: &Port, column: &Column) -> Option<Input> {
    let values = column.data.chunks_exact(column.dtype.size()).map(|value| {
        let mut bits = [0; 8];
        bits[..value.len()].copy_from_slice(value);
        Literal::from_bits(column.dtype, u64::from_le_bytes(bits))
    });
    let is_float = column.dtype.is_float();
    let bound = |value: Literal| {
        if is_float { Bound::Float(value.as_f64()) } else { Bound::Integer(value.as_i64()) }
    };
    let mut domain = Domain::default();
    for value in values {
        if is_float && !value.as_f64().is_finite() {
            domain.allow_nan |= value.as_f64().is_nan();
            domain.allow_infinity |= value.as_f64().is_infinite();
            continue;
        }
        let is_below = |bound: Bound| match bound {
            Bound::Integer(bound) => value.as_i64() < bound,
            Bound::Float(bound) => value.as_f64() < bound,
        };
        let is_above = |bound: Bound| match bound {
            Bound::Integer(bound) => value.as_i64() > bound,
            Bound::Float(bound) => value.as_f64() > bound,
        };
        if domain.lower.is_none_or(is_below) {
            domain.lower = Some(bound(value));
        }
        if domain.upper.is_none_or(is_above) {
            domain.upper = Some(bound(value));
        }
    }
    let length = column.length.map(|length| u32::try_from(length).unwrap_or(u32::MAX));
    Input::new(&port.name, column.dtype, length, domain).ok()
}

impl Found {
    /// The message of a case, with the simplest one that was found in [`SHRINK_TIME`].
    pub(super) async fn counterexample(mut self, evaluator: &Arc<Evaluator>) -> pb::Counterexample {
        let shrunk = match &mut self.shrinker {
            Some(shrinker) => shrink(shrinker, &self.inputs, self.expected_outcome, evaluator).await,
            None => None,
        };
        let expected_outcome = self.expected_outcome.map_or_else(String::new, |outcome| outcome.name().to_owned());
        pb::Counterexample { case_index: self.case_index, found: Some(self.result), shrunk, expected_outcome }
    }
}

/// A simpler case. What goes wrong meanwhile, such as a deadline, only ends the search: the case as it was found is a result.
async fn shrink(
    shrinker: &mut Shrinker,
    inputs: &[Input],
    expected_outcome: Option<CaseOutcome>,
    evaluator: &Arc<Evaluator>,
) -> Option<pb::CaseResult> {
    let until = Instant::now() + SHRINK_TIME;
    let mut simplest = None;
    while Instant::now() < until {
        let columns = shrinker.candidates(CANDIDATES);
        if columns.is_empty() {
            break;
        }
        let columns: Vec<_> = inputs.iter().zip(columns).map(column).collect();
        let count = shrinker.pending();
        let mut cases = Cases::of_functions(count, Inputs::Columns(columns));
        cases.expected_outcomes = vec![expected_outcome; count];
        let Ok(evaluated) = evaluator.evaluate(cases, false).await else { break };
        let fails: Vec<_> = (0..count).map(|case| evaluated.fails(case)).collect();
        let steps = shrinker.steps();
        shrinker.record(&fails);
        if shrinker.steps() > steps {
            let simpler = shrinker.case();
            let is_taken = |case: &usize| {
                evaluated.inputs.iter().zip(&simpler).all(|(column, value)| column.case(*case) == *value)
            };
            let ports = &evaluator.header.sides.inputs;
            simplest = (0..count).find(is_taken).map(|case| case_result(ports, &evaluated, case)).or(simplest);
        }
    }
    simplest
}

fn case_result(ports: &[Port], evaluated: &Evaluated, case: usize) -> pb::CaseResult {
    let input = |(port, column): (&Port, &Column)| {
        let shape: Vec<_> = column.length.into_iter().collect();
        named(&port.name, column.dtype, &shape, &column.case(case))
    };
    let outcome = |side: &SideResult| side.outcomes.get(case).map_or("ok", |outcome| outcome.name()).to_owned();
    pb::CaseResult {
        inputs: ports.iter().zip(&evaluated.inputs).map(input).collect(),
        actual: results(&evaluated.actual, case),
        expected: results(&evaluated.expected, case),
        subject_outcome: outcome(&evaluated.actual),
        reference_outcome: outcome(&evaluated.expected),
    }
}

/// The results of a case, if it has any.
fn results(side: &SideResult, case: usize) -> Vec<pb::NamedTensor> {
    if !side.outcomes.get(case).is_some_and(|outcome| outcome.is_ok()) {
        return vec![];
    }
    let result = |(name, of, data): &Named| {
        let shape = of.shape.get(1..).unwrap_or_default();
        let bytes = shape.iter().product::<usize>() * of.dtype.size();
        named(name, of.dtype, shape, &data[case * bytes..(case + 1) * bytes])
    };
    side.tensors.iter().map(result).collect()
}

/// A copy, so that a case does not keep its chunk.
fn named(name: &str, dtype: Dtype, shape: &[usize], data: &[u8]) -> pb::NamedTensor {
    let value = tensor_of(dtype_to_proto(dtype), shape, Bytes::copy_from_slice(data));
    pb::NamedTensor { name: name.to_owned(), value: Some(value) }
}
