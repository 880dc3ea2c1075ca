//! Cases that fail: what both sides computed for them, and simpler ones that fail too.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_ir::scalar::Literal;
use accelerd_tensor::TensorType;
use accelerd_verify::{Bound, Domain, Input, Shrinker};
use bytes::Bytes;

use super::{
    cases::{Cases, Inputs, Named},
    column::{Column, Port},
    evaluate::{Evaluated, Evaluator, SideResult},
    generated::column,
    header::Header,
    outcome::CaseOutcome,
    service::blocking,
};

/// The most candidates that are evaluated at once.
const CANDIDATES: usize = 256;

/// The most elements of candidates that are evaluated at once.
const CANDIDATE_ELEMENTS: usize = 1 << 20;

/// The most elements of a case that is shrunk. Planning the changes of a larger one takes too much time and memory.
const MAX_SHRUNK_ELEMENTS: usize = 1 << 14;

/// Maximum time for which a case is shrunk.
const SHRINK_TIME: Duration = Duration::from_secs(5);

/// The most bytes of a case in a response, without its values.
const DESCRIPTION_BYTES: usize = 1 << 10;

/// A case that fails, and a simpler one that does.
#[derive(Debug)]
pub(crate) struct Counterexample {
    /// The number of the case as it was found.
    pub(crate) case_index: u64,
    pub(crate) found: CaseResult,
    /// `None` if there is no simpler one.
    pub(crate) shrunk: Option<CaseResult>,
    /// The required end of the subject, if it is stated.
    pub(crate) expected_outcome: Option<CaseOutcome>,
}

/// The results of both sides for a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CaseResult {
    pub(crate) inputs: Vec<Named>,
    pub(crate) actual: Vec<Named>,
    pub(crate) expected: Vec<Named>,
    /// Names of outcomes.
    pub(crate) subject_outcome: &'static str,
    pub(crate) reference_outcome: &'static str,
}

impl Counterexample {
    /// The simplest case.
    pub(super) fn simplest(&self) -> &CaseResult {
        self.shrunk.as_ref().unwrap_or(&self.found)
    }
}

/// A case that fails.
pub(super) struct Found {
    case_index: u64,
    result: CaseResult,
    /// `None` if it is not shrunk.
    start: Option<Start>,
    /// Expected outcome of the subject.
    expected_outcome: Option<CaseOutcome>,
}

/// A case that is shrunk.
struct Start {
    inputs: Vec<Input>,
    values: Vec<Vec<u8>>,
}

/// Finds the cases of a chunk that fail.
pub(super) struct Counterexamples<'a> {
    pub(super) header: &'a Header,
    pub(super) first_case: u64,
    /// Maximum counterexamples of a call.
    pub(super) limit: usize,
}

/// The most counterexamples of a call that fit into this many bytes of its response.
pub(super) fn most_that_fit(header: &Header, evaluated: &Evaluated, bytes: usize) -> usize {
    let values = evaluated.inputs.iter().map(Column::case_bytes).sum::<usize>() + evaluated.result_bytes();
    let copies = if header.shrinks && is_shrinkable(&evaluated.inputs) { 2 } else { 1 };
    header.max_counterexamples.min(bytes / (copies * (values + DESCRIPTION_BYTES)))
}

fn is_shrinkable(columns: &[Column]) -> bool {
    elements(columns) <= MAX_SHRUNK_ELEMENTS
}

/// Elements of a case.
fn elements(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.length.unwrap_or(1)).fold(0, usize::saturating_add)
}

impl Counterexamples<'_> {
    /// Adds the first that fail.
    pub(super) fn find(&self, evaluated: &Evaluated, found: &mut Vec<Found>) {
        let wanted = self.limit.saturating_sub(found.len());
        let failing = (0..evaluated.count).filter(|case| evaluated.fails(*case)).take(wanted);
        found.extend(failing.map(|case| self.case(evaluated, case)));
    }

    fn case(&self, evaluated: &Evaluated, case: usize) -> Found {
        let ports = &self.header.sides.inputs;
        let start = (self.header.shrinks && is_shrinkable(&evaluated.inputs)).then(|| Start {
            inputs: self.shrink_inputs(&evaluated.inputs),
            values: evaluated.inputs.iter().map(|column| column.case(case).into()).collect(),
        });
        let result = case_result(ports, evaluated, case);
        let expected_outcome = self.header.expected_outcome(&evaluated.expected_outcomes, case);
        Found { case_index: evaluated.number(case, self.first_case), result, start, expected_outcome }
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
    pub(super) async fn counterexample(self, evaluator: &Arc<Evaluator>) -> Counterexample {
        let shrunk = match self.start {
            Some(start) => shrink(start, self.expected_outcome, evaluator).await,
            None => None,
        };
        let Self { case_index, result, expected_outcome, .. } = self;
        Counterexample { case_index, found: result, shrunk, expected_outcome }
    }
}

/// A simpler case. What goes wrong meanwhile, such as a deadline, only ends the search: the case as it was found is a result.
async fn shrink(start: Start, expected_outcome: Option<CaseOutcome>, evaluator: &Arc<Evaluator>) -> Option<CaseResult> {
    let until = Instant::now() + SHRINK_TIME;
    let Start { inputs, values } = start;
    let elements: usize = inputs.iter().map(Input::elements).sum();
    let max_candidates = CANDIDATES.min(CANDIDATE_ELEMENTS / elements.max(1));
    let of = inputs.clone();
    let mut shrinker = blocking(move || Shrinker::new(&of, &values)).await.ok()?.ok()?;
    let mut simplest = None;
    let mut evaluated = None::<Evaluated>;
    let mut fails = vec![];
    loop {
        let steps = shrinker.steps();
        let Ok((next, columns)) = blocking(move || advance(shrinker, &fails, max_candidates)).await else {
            return simplest;
        };
        shrinker = next;
        if let Some(evaluated) = evaluated.filter(|_| shrinker.steps() > steps) {
            simplest = result_of(&shrinker.case(), &evaluated, &evaluator.header.sides.inputs).or(simplest);
        }
        if columns.is_empty() || Instant::now() >= until {
            return simplest;
        }
        let columns: Vec<_> = inputs.iter().zip(columns).map(column).collect();
        let count = shrinker.pending();
        let mut cases = Cases::of_functions(count, Inputs::Columns(columns));
        cases.expected_outcomes = vec![expected_outcome; count];
        let Ok(candidates) = evaluator.evaluate(cases, false).await else { return simplest };
        fails = (0..count).map(|case| candidates.fails(case)).collect();
        evaluated = Some(candidates);
    }
}

/// Records which candidates fail, and proposes the next ones.
fn advance(mut shrinker: Shrinker, fails: &[bool], max_candidates: usize) -> (Shrinker, Vec<Vec<u8>>) {
    shrinker.record(fails);
    let columns = shrinker.candidates(max_candidates);
    (shrinker, columns)
}

/// The result of the candidate with these inputs.
fn result_of(values: &[Vec<u8>], evaluated: &Evaluated, ports: &[Port]) -> Option<CaseResult> {
    let has = |case: &usize| evaluated.inputs.iter().zip(values).all(|(column, value)| column.case(*case) == *value);
    (0..evaluated.count).find(has).map(|case| case_result(ports, evaluated, case))
}

fn case_result(ports: &[Port], evaluated: &Evaluated, case: usize) -> CaseResult {
    let input = |(port, column): (&Port, &Column)| {
        let of = TensorType { dtype: column.dtype, shape: column.length.into_iter().collect() };
        named(&port.name, of, &column.case(case))
    };
    let outcome = |side: &SideResult| side.outcomes.get(case).map_or("ok", |outcome| outcome.name());
    CaseResult {
        inputs: ports.iter().zip(&evaluated.inputs).map(input).collect(),
        actual: results(&evaluated.actual, case),
        expected: results(&evaluated.expected, case),
        subject_outcome: outcome(&evaluated.actual),
        reference_outcome: outcome(&evaluated.expected),
    }
}

/// The results of a case, if it has any.
fn results(side: &SideResult, case: usize) -> Vec<Named> {
    if !side.outcomes.get(case).is_some_and(|outcome| outcome.is_ok()) {
        return vec![];
    }
    let result = |(name, of, data): &Named| {
        let of = TensorType { dtype: of.dtype, shape: of.shape.get(1..).unwrap_or_default().to_vec() };
        let bytes = of.bytes();
        named(name, of, &data[case * bytes..(case + 1) * bytes])
    };
    side.tensors.iter().map(result).collect()
}

/// A copy, so that a case does not keep its chunk.
fn named(name: &str, of: TensorType, data: &[u8]) -> Named {
    (name.to_owned(), of, Bytes::copy_from_slice(data))
}
