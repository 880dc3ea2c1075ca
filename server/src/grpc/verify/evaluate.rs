//! Evaluates cases: runs the functions, compares the outputs of both sides, and says which cases fail.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::Context;
use accelerd_kernels::ops::{compare::Comparison, tensor::TensorInput};
use accelerd_sandbox::SandboxError;
use accelerd_tensor::TensorType;
use tonic::Status;

use super::{
    State,
    cases::{Cases, Inputs, Named},
    column::{Column, compared_in},
    function::Ran,
    header::Header,
    outcome::CaseOutcome,
    outputs::{Decoder, Output},
    sides::{Computed, Side},
};
use crate::{error::ApiError, sandbox::Turn};

/// The result of cases.
pub(super) struct Evaluated {
    /// In the order of the verification's inputs.
    pub(super) inputs: Vec<Column>,
    pub(super) outputs: Vec<Output>,
    /// One for each output that can be compared.
    pub(super) compared: Vec<Option<Comparison>>,
    /// A bit for each case.
    pub(super) failed_cases: Vec<u8>,
    pub(super) actual: SideResult,
    pub(super) expected: SideResult,
    /// Cases that fail because of how they ended.
    pub(super) outcome_mismatches: u64,
    /// Cases for which the subject had different results when it ran again.
    pub(super) nondeterministic: u64,
    /// How long the functions ran, without the wait for their turn.
    pub(super) run_time: Duration,
}

/// What a side has for the cases.
#[derive(Clone, Debug, Default)]
pub(super) struct SideResult {
    pub(super) tensors: Vec<Named>,
    pub(super) outcomes: Vec<CaseOutcome>,
}

/// Evaluates cases of one call.
pub(super) struct Evaluator<'a> {
    pub(super) service: &'a State,
    pub(super) decoder: Decoder<'a>,
    pub(super) header: &'a Arc<Header>,
    pub(super) context: &'a Context,
    /// Whether functions of the call ran before.
    pub(super) had_turn: bool,
}

/// What the functions computed.
#[derive(Default)]
struct Runs {
    inputs: Vec<Column>,
    time: Duration,
    subject: Option<Ran>,
    /// The subject once more, if that was requested.
    again: Option<Ran>,
    reference: Option<Ran>,
}

impl Evaluator<'_> {
    pub(super) async fn evaluate(&self, cases: Cases, checks_determinism: bool) -> Result<Evaluated, Status> {
        let header = self.header;
        let runs = self.run(&cases, checks_determinism).await?;
        let nondeterministic = match (&runs.subject, &runs.again) {
            (Some(first), Some(again)) => different_cases(first, again),
            _ => 0,
        };
        let mut actual = side_result(&header.sides.subject, runs.subject, cases.actual, cases.count);
        let mut expected = side_result(&header.sides.reference, runs.reference, cases.expected, cases.count);
        align(&mut actual.tensors, &mut expected.tensors);
        let outcomes = || actual.outcomes.iter().zip(&expected.outcomes);
        let is_rejected = outcomes().map(|(actual, expected)| header.outcome_policy.rejects(*actual, *expected));
        let is_rejected: Vec<_> = is_rejected.collect();
        let is_missing: Vec<_> = outcomes().map(|(actual, expected)| !(actual.is_ok() && expected.is_ok())).collect();

        let decoded = |side: &SideResult| side.tensors.iter().map(|tensor| decoded(tensor, &is_missing)).collect();
        let outputs = self.decoder.matched(decoded(&actual), decoded(&expected))?;
        let pairs = outputs.iter().map(|output| output.pair(header.max_mismatches, cases.count)).collect();
        let mut compared = self.service.compare(pairs, self.context.clone()).await?;
        let mut failed_cases = take_failed_cases(&mut compared, cases.count);
        let rejected = is_rejected.iter().enumerate().filter(|(_, is_rejected)| **is_rejected);
        let outcome_mismatches = rejected.map(|(case, _)| mark(&mut failed_cases, case)).count() as u64;
        Ok(Evaluated {
            inputs: runs.inputs,
            outputs,
            compared,
            failed_cases,
            actual,
            expected,
            outcome_mismatches,
            nondeterministic,
            run_time: runs.time,
        })
    }

    /// Runs the functions of both sides in one turn of a child process.
    async fn run(&self, cases: &Cases, checks_determinism: bool) -> Result<Runs, ApiError> {
        if !self.header.sides.has_functions() {
            return Ok(Runs::default());
        }
        let (header, inputs, count) = (Arc::clone(self.header), cases.inputs.clone(), cases.count);
        let job = move |turn: &Turn| -> Result<Runs, SandboxError> {
            let started = Instant::now();
            let inputs = match (inputs, &header.generated) {
                (Inputs::Columns(columns), _) => columns,
                (Inputs::Generated(first), Some(generated)) => generated.columns(first, count),
                (Inputs::Generated(_), None) => vec![],
            };
            let run = |side: &Side| {
                let run = |computed: &Computed| computed.run(turn, &inputs, count, &header.limits);
                side.function().map(run).transpose()
            };
            let subject = run(&header.sides.subject)?;
            let again = if checks_determinism { run(&header.sides.subject)? } else { None };
            let reference = run(&header.sides.reference)?;
            Ok(Runs { inputs, time: started.elapsed(), subject, again, reference })
        };
        self.service
            .sandboxes
            .run_turn(self.context, self.had_turn, job)
            .await
            .map_err(|error| error.refused_in("header.subject"))
    }
}

impl SideResult {
    /// Bytes of a case, of which there are this many.
    pub(super) fn case_bytes(&self, cases: usize) -> usize {
        self.tensors.iter().map(|(_, _, data)| data.len()).sum::<usize>() / cases.max(1)
    }
}

impl Evaluated {
    pub(super) fn fails(&self, case: usize) -> bool {
        self.failed_cases.get(case / 8).is_some_and(|byte| byte >> (case % 8) & 1 == 1)
    }
}

/// A bit for each case: 1 if an output fails, or cannot be compared.
pub(super) fn take_failed_cases(compared: &mut [Option<Comparison>], cases: usize) -> Vec<u8> {
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
    let differs = |case: usize| {
        let is_ok = first.outcomes[case].is_ok();
        let mut columns = first.outputs.iter().zip(&again.outputs);
        first.outcomes[case] != again.outcomes[case]
            || is_ok && columns.any(|(first, again)| first.case(case) != again.case(case))
    };
    let cases = first.outcomes.len().min(again.outcomes.len());
    (0..cases).filter(|case| differs(*case)).count() as u64
}
