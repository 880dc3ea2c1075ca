//! The report of kernels on an execution: the first index that one of them found out of range.
//!
//! Three words: the node that read the index, 0 if there is no report; the index; the extent of the dimension that it indexes. Only plans
//! with operations that check indices have them. They are cleared before the first launch and copied to the host with the outputs.

use std::ops::Range;

use accelerd_tensor::{IndexStep, Plan, Step};
use bytes::Bytes;

use super::{super::out_of_range, download::download};
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// The words before an execution.
const CLEAR: [u8; 24] = [0; 24];

/// Bytes of the words of a plan's execution.
pub(super) fn bytes(plan: &Plan) -> usize {
    if index_steps(plan).next().is_some() { CLEAR.len() } else { 0 }
}

fn index_steps(plan: &Plan) -> impl Iterator<Item = &IndexStep> {
    plan.steps.iter().filter_map(|step| if let Step::Index(step) = step { Some(step) } else { None })
}

/// The words before an execution of a plan.
pub(super) fn cleared(plan: &Plan) -> &'static [u8] {
    &CLEAR[..bytes(plan)]
}

/// A range of device memory.
pub(super) type Part<'a> = (&'a Buffer<u8>, Range<usize>);

/// Copies outputs and status of a plan after all work enqueued so far, and waits for them. Fails with the error that the status reports.
pub(super) fn download_checked(
    plan: &Plan,
    outputs: &[Part<'_>],
    status: Part<'_>,
    worker: &Worker,
) -> Result<Vec<Bytes>, OpError> {
    let is_checked = !status.1.is_empty();
    let parts: Vec<_> = outputs.iter().cloned().chain(is_checked.then_some(status)).collect();
    let mut downloaded = if parts.is_empty() { vec![] } else { download(&parts, worker)? };
    if is_checked {
        check(plan, &downloaded.pop().unwrap_or_default())?;
    }
    Ok(downloaded)
}

/// The number of a step's report. The steps of a node share a report: only those whose indices are the caller's can fail, and a node has
/// one.
pub(super) fn report_of(step: &IndexStep) -> usize {
    step.node + 1
}

/// The error that downloaded words report.
fn check(plan: &Plan, words: &[u8]) -> Result<(), OpError> {
    let mut words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let (Some(report), Some(index), Some(extent)) = (words.next(), words.next(), words.next()) else { return Ok(()) };
    match index_steps(plan).find(|step| report_of(step) as u64 == report) {
        Some(step) => Err(out_of_range(step, index.cast_signed(), usize::try_from(extent).unwrap_or(usize::MAX))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Dtype, IndexOp, Layout, Location, View};

    use super::*;

    fn step((node, op): (usize, IndexOp)) -> Step {
        let view = View { location: Location::Input(0), dtype: Dtype::I64, layout: Layout::contiguous(&[1]) };
        Step::Index(IndexStep { op, node, input: view.clone(), index: view.clone(), output: view })
    }

    #[test]
    fn a_report_names_node_operation_index_and_extent() {
        let steps = (3..).zip(IndexOp::ALL).map(step).collect();
        let plan = Plan { inputs: vec![], outputs: vec![], arena_bytes: 0, steps };
        let check = |words: &[u64]| check(&plan, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[0, 0, 0]), Ok(()));
        for step in index_steps(&plan) {
            let report = [report_of(step) as u64, (-7_i64).cast_unsigned(), 5];
            let node = step.node;
            let input = step.op.index_input();
            let reason = step.op.out_of_range(-7, 5);
            assert_eq!(check(&report), Err(OpError::IndexOutOfRange { node, input, reason }));
        }
        let error = check(&[4, 9, 5]).expect_err("a report").to_string();
        assert_eq!(error, "gather: expected indices of at least 0 and less than 5, got 9");
    }
}
