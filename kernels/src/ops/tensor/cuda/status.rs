//! What kernels report of an execution: the first index that one of them found out of range.
//!
//! Three words: the operation, 0 if there is no report; the index; the extent of the dimension that it indexes. Only plans with operations
//! that check indices have them. They are cleared before the first launch and copied to the host with the outputs.

use std::ops::Range;

use accelerd_tensor::{IndexOp, Plan, Step};
use bytes::Bytes;

use super::download::download;
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// The words before an execution.
const CLEAR: [u8; 24] = [0; 24];

/// Bytes of the words of a plan's execution.
pub(super) fn bytes(plan: &Plan) -> usize {
    if plan.steps.iter().any(|step| matches!(step, Step::Index(_))) { CLEAR.len() } else { 0 }
}

/// The words before an execution of a plan.
pub(super) fn cleared(plan: &Plan) -> &'static [u8] {
    &CLEAR[..bytes(plan)]
}

/// A range of device memory.
pub(super) type Part<'a> = (&'a Buffer<u8>, Range<usize>);

/// Copies outputs and status after all work enqueued so far, and waits for them. Fails with what the status reports.
pub(super) fn download_checked(outputs: &[Part<'_>], status: Part<'_>, worker: &Worker) -> Result<Vec<Bytes>, OpError> {
    let is_checked = !status.1.is_empty();
    let parts: Vec<_> = outputs.iter().cloned().chain(is_checked.then_some(status)).collect();
    let mut downloaded = if parts.is_empty() { vec![] } else { download(&parts, worker)? };
    if is_checked {
        check(&downloaded.pop().unwrap_or_default())?;
    }
    Ok(downloaded)
}

/// How an operation is reported.
pub(super) fn report_of(op: IndexOp) -> usize {
    op.code() + 1
}

/// The error that downloaded words report.
fn check(words: &[u8]) -> Result<(), OpError> {
    let mut words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let (Some(report), Some(index), Some(extent)) = (words.next(), words.next(), words.next()) else { return Ok(()) };
    match IndexOp::ALL.into_iter().find(|op| report_of(*op) as u64 == report) {
        Some(op) => {
            Err(OpError::Invalid(op.out_of_range(index.cast_signed(), usize::try_from(extent).unwrap_or(usize::MAX))))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_operation_index_and_extent() {
        let check = |words: &[u64]| check(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[0, 0, 0]), Ok(()));
        for op in IndexOp::ALL {
            let report = [report_of(op) as u64, (-7_i64).cast_unsigned(), 5];
            assert_eq!(check(&report), Err(OpError::Invalid(op.out_of_range(-7, 5))));
        }
        let error = check(&[1, 9, 5]).expect_err("a report").to_string();
        assert_eq!(error, "gather: expected indices of at least 0 and less than 5, got 9");
    }
}
