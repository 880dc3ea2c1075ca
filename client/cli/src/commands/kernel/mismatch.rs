//! An element that differs from the expected one, in reports of benchmarks and evaluations.

use accelerd_client::proto::BenchmarkMismatch;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Mismatch {
    pub(super) output: String,
    pub(super) run: u32,
    pub(super) failed: u64,
    pub(super) index: u64,
    pub(super) actual: f64,
    pub(super) expected: f64,
}

impl From<BenchmarkMismatch> for Mismatch {
    fn from(mismatch: BenchmarkMismatch) -> Self {
        Self {
            output: mismatch.output,
            run: mismatch.run,
            failed: mismatch.failed_count,
            index: mismatch.index,
            actual: mismatch.actual,
            expected: mismatch.expected,
        }
    }
}
