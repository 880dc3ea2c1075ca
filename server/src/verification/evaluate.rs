//! Evaluates cases: runs the functions, compares the outputs of both sides, and says which cases fail.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::Context;
use accelerd_kernels::ops::{compare::Comparison, tensor::TensorInput};
use accelerd_tensor::TensorType;

use super::{
    cases::{Cases, Inputs, Named},
    column::{Column, compared_in},
    function::Ran,
    header::Header,
    outcome::CaseOutcome,
    outputs::{Decoded, Decoder, Output, Outputs},
    service::{VerificationService, blocking},
    sides::{Computed, Side, Sides},
};
use crate::{
    auth::caller::Caller,
    error::ApiError,
    sandbox::{Turn, Turns},
};

/// Prefix of the fields of a chunk.
pub(super) const CASES: &str = "cases.";

/// The result of cases.
pub(super) struct Evaluated {
    /// Number of cases.
    pub(super) count: usize,
    /// Their numbers among all cases; `None` if they follow one another.
    pub(super) numbers: Option<Arc<[u64]>>,
    /// In the order of the verification's inputs.
    pub(super) inputs: Vec<Column>,
    pub(super) outputs: Vec<Output>,
    /// One for each output that can be compared.
    pub(super) compared: Vec<Option<Comparison>>,
    /// A bit for each case.
    pub(super) failed_cases: Vec<u8>,
    pub(super) actual: SideResult,
    pub(super) expected: SideResult,
    pub(super) expected_outcomes: Vec<Option<CaseOutcome>>,
    /// Cases that fail because of how they ended.
    pub(super) outcome_mismatches: u64,
    /// Cases for which the subject had different results when it ran again.
    pub(super) nondeterministic: u64,
    /// Time that the functions ran, without the wait for their turn.
    pub(super) run_time: Duration,
}

/// The results of a side for the cases.
#[derive(Clone, Debug, Default)]
pub(super) struct SideResult {
    pub(super) tensors: Vec<Named>,
    pub(super) outcomes: Vec<CaseOutcome>,
}

/// Evaluates cases of one call.
pub(super) struct Evaluator {
    pub(super) service: Arc<VerificationService>,
    pub(super) caller: Caller,
    pub(super) context: Context,
    pub(super) header: Header,
    pub(super) turns: Turns,
}

/// The results of the functions.
struct Runs {
    inputs: Vec<Column>,
    time: Duration,
    subject: Option<Ran>,
    nondeterministic: u64,
    reference: Option<Ran>,
}

/// The results of both sides, to be compared.
struct Results {
    inputs: Vec<Column>,
    run_time: Duration,
    actual: SideResult,
    expected: SideResult,
    expected_outcomes: Vec<Option<CaseOutcome>>,
    /// The tensors of both sides, with zeros for cases in which one of them has no result.
    decoded: [Vec<Decoded>; 2],
    /// Cases that fail because of how they ended.
    rejected: Vec<usize>,
    nondeterministic: u64,
}

impl Evaluator {
    pub(super) fn decoder(&self) -> Decoder<'_> {
        self.service.decoder(&self.caller, &self.header.policies, CASES)
    }

    /// Evaluates cases of functions.
    pub(super) async fn evaluate(
        self: &Arc<Self>,
        cases: Cases,
        checks_determinism: bool,
    ) -> Result<Evaluated, ApiError> {
        let count = cases.count;
        let numbers = cases.numbers.clone();
        let results = self.run(cases, checks_determinism).await?;
        let [actual, expected] = results.decoded;
        let outputs = self.decoder().matched(actual, expected)?;
        let (compared, mut failed_cases) = self.compare(&outputs, count).await?;
        for case in &results.rejected {
            mark(&mut failed_cases, *case);
        }
        Ok(Evaluated {
            count,
            numbers,
            inputs: results.inputs,
            outputs,
            compared,
            failed_cases,
            actual: results.actual,
            expected: results.expected,
            expected_outcomes: results.expected_outcomes,
            outcome_mismatches: results.rejected.len() as u64,
            nondeterministic: results.nondeterministic,
            run_time: results.run_time,
        })
    }

    /// Compares cases of two lists that the client sent.
    pub(super) async fn evaluate_given(&self, sent: Outputs, count: usize) -> Result<Evaluated, ApiError> {
        let outputs = sent.outputs;
        let (compared, failed_cases) = self.compare(&outputs, count).await?;
        Ok(Evaluated {
            count,
            numbers: None,
            inputs: vec![],
            outputs,
            compared,
            failed_cases,
            actual: SideResult::default(),
            expected: SideResult::default(),
            expected_outcomes: vec![],
            outcome_mismatches: 0,
            nondeterministic: 0,
            run_time: Duration::ZERO,
        })
    }

    async fn compare(&self, outputs: &[Output], count: usize) -> Result<(Vec<Option<Comparison>>, Vec<u8>), ApiError> {
        let pairs = outputs.iter().map(|output| output.pair(self.header.max_mismatches, count)).collect();
        let mut compared = self.service.compare_by_order(outputs, pairs, count, &self.context).await?;
        let failed_cases = take_failed_cases(&mut compared, count);
        Ok((compared, failed_cases))
    }

    /// Makes the inputs of cases whose turn has not come.
    pub(super) async fn generate(self: &Arc<Self>, cases: Cases) -> Result<Cases, ApiError> {
        let this = Arc::clone(self);
        let generate = move || {
            let inputs = Inputs::Columns(this.columns(cases.inputs, cases.count));
            Cases { inputs, ..cases }
        };
        blocking(generate).await
    }

    /// Runs the functions of both sides in one turn.
    async fn run(self: &Arc<Self>, cases: Cases, checks_determinism: bool) -> Result<Results, ApiError> {
        let this = Arc::clone(self);
        let job = move |turn: Turn| {
            let Cases { count, inputs, actual, expected, expected_outcomes, .. } = cases;
            let runs = this.runs(&turn, inputs, count, checks_determinism)?;
            // The process serves others while the results are made ready for the comparison.
            drop(turn);
            let sides = &this.header.sides;
            let actual = side_result(&sides.subject, runs.subject, actual, count);
            let expected = side_result(&sides.reference, runs.reference, expected, count);
            let mut results = Results::new(actual, expected, expected_outcomes, &this.header);
            (results.inputs, results.run_time, results.nondeterministic) =
                (runs.inputs, runs.time, runs.nondeterministic);
            Ok(results)
        };
        self.turns.run(&self.context, job).await
    }

    fn runs(&self, turn: &Turn, inputs: Inputs, count: usize, checks_determinism: bool) -> Result<Runs, ApiError> {
        let started = Instant::now();
        let inputs = self.columns(inputs, count);
        let run = |side: &Side| {
            let run = |computed: &Computed| computed.run(turn, &inputs, count, &self.header.limits);
            side.function().map(run).transpose()
        };
        let Sides { subject: side, reference, .. } = &self.header.sides;
        let subject = run(side)?;
        let again = if checks_determinism { run(side)? } else { None };
        let reference = run(reference)?;
        let time = started.elapsed().saturating_sub(turn.paused());
        let nondeterministic = subject.as_ref().zip(again).map_or(0, |(first, again)| different_cases(first, &again));
        Ok(Runs { inputs, time, subject, nondeterministic, reference })
    }

    fn columns(&self, inputs: Inputs, count: usize) -> Vec<Column> {
        match (inputs, &self.header.generated) {
            (Inputs::Columns(columns), _) => columns,
            (Inputs::Generated(first), Some(generated)) => generated.columns(first, count),
            (Inputs::Numbered(numbers), Some(generated)) => generated.numbered_columns(&numbers),
            (Inputs::Generated(_) | Inputs::Numbered(_), None) => vec![],
        }
    }
}

impl Results {
    fn new(
        mut actual: SideResult,
        mut expected: SideResult,
        expected_outcomes: Vec<Option<CaseOutcome>>,
        header: &Header,
    ) -> Self {
        align(&mut actual.tensors, &mut expected.tensors);
        let outcomes = || actual.outcomes.iter().zip(&expected.outcomes);
        let is_rejected = |(case, (subject, reference)): &(usize, (&CaseOutcome, &CaseOutcome))| match header
            .expected_outcome(&expected_outcomes, *case)
        {
            Some(wanted) => **subject != wanted,
            None => header.outcome_policy.rejects(**subject, **reference),
        };
        let rejected = outcomes().enumerate().filter(is_rejected).map(|(case, _)| case).collect();
        let is_missing: Vec<_> = outcomes().map(|(actual, expected)| !(actual.is_ok() && expected.is_ok())).collect();
        let decoded = |side: &SideResult| side.tensors.iter().map(|tensor| decoded(tensor, &is_missing)).collect();
        let decoded = [decoded(&actual), decoded(&expected)];
        Self {
            inputs: vec![],
            run_time: Duration::ZERO,
            actual,
            expected,
            expected_outcomes,
            decoded,
            rejected,
            nondeterministic: 0,
        }
    }
}

impl Evaluated {
    /// Bytes of the outputs of both sides for a case.
    pub(super) fn result_bytes(&self) -> usize {
        let tensors = [&self.actual, &self.expected].into_iter().flat_map(|side| &side.tensors);
        tensors.map(|(_, _, data)| data.len()).sum::<usize>() / self.count.max(1)
    }

    /// The number of a case, if the first one has number `first`.
    pub(super) fn number(&self, case: usize, first: u64) -> u64 {
        self.numbers.as_ref().map_or(first + case as u64, |numbers| numbers[case])
    }

    pub(super) fn fails(&self, case: usize) -> bool {
        self.failed_cases.get(case / 8).is_some_and(|byte| byte >> (case % 8) & 1 == 1)
    }
}

/// A bit for each case: 1 if an output fails, or cannot be compared.
fn take_failed_cases(compared: &mut [Option<Comparison>], cases: usize) -> Vec<u8> {
    let mut failed_cases = vec![0; cases.div_ceil(8)];
    for compared in compared {
        match compared {
            None => (0..cases).for_each(|case| mark(&mut failed_cases, case)),
            Some(compared) => {
                let failed_rows = std::mem::take(&mut compared.failed_rows);
                failed_cases.iter_mut().zip(failed_rows).for_each(|(to, failed)| *to |= failed);
            }
        }
    }
    failed_cases
}

fn mark(cases: &mut [u8], case: usize) {
    cases[case / 8] |= 1 << (case % 8);
}

/// The tensors of a side: those of its function, or those that the client sent.
fn side_result(side: &Side, ran: Option<Ran>, given: Vec<Named>, cases: usize) -> SideResult {
    match (side, ran) {
        (Side::Function(computed), Some(ran)) => {
            let named = computed.outputs.iter().zip(ran.outputs);
            let named = named.map(|(name, column)| (name.clone(), column.tensor_type(cases), column.data));
            SideResult { tensors: named.collect(), outcomes: ran.outcomes }
        }
        (Side::Function(_) | Side::Given, _) => SideResult { tensors: given, outcomes: vec![CaseOutcome::OK; cases] },
    }
}

/// Converts tensors of different types to the one in which they are compared, if there is one.
fn align(actual: &mut [Named], expected: &mut [Named]) {
    for actual in actual {
        let Some(expected) = expected.iter_mut().find(|expected| expected.0 == actual.0) else { continue };
        let Some(to) = compared_in(actual.1.dtype, expected.1.dtype) else { continue };
        for (_, of, data) in [actual, expected] {
            let column = Column { dtype: of.dtype, length: None, data: std::mem::take(data) };
            *data = column.convert(to).data;
            of.dtype = to;
        }
    }
}

/// A tensor to compare, with zeros for cases in which a side has no result.
fn decoded((name, of, data): &Named, is_missing: &[bool]) -> (String, TensorType, TensorInput) {
    let mut data = data.clone();
    if is_missing.contains(&true) {
        let length = of.shape.get(1..).map(|extents| extents.iter().product());
        let mut column = Column { dtype: of.dtype, length, data };
        column.clear(is_missing);
        data = column.data;
    }
    (name.clone(), of.clone(), TensorInput::Inline(data))
}

/// The number of cases with other outcomes or results.
fn different_cases(first: &Ran, again: &Ran) -> u64 {
    let mut columns = first.outputs.iter().zip(&again.outputs);
    if first.outcomes == again.outcomes && columns.all(|(first, again)| first.data == again.data) {
        return 0;
    }
    let differs = |case: usize| {
        let is_ok = first.outcomes[case].is_ok();
        let mut columns = first.outputs.iter().zip(&again.outputs);
        first.outcomes[case] != again.outcomes[case]
            || is_ok && columns.any(|(first, again)| first.case(case) != again.case(case))
    };
    let cases = first.outcomes.len().min(again.outcomes.len());
    (0..cases).filter(|case| differs(*case)).count() as u64
}
