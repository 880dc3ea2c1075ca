//! Graphs of tensor operations: executes the plans of `accelerd-tensor`, on tensors of the request and on resident ones.

mod benchmark;
mod benchmark_op;
mod cpu;
pub(crate) mod cuda;
mod op;
pub mod oracle;
mod plan_cache;
mod resident;
mod transfer;
mod values;

pub use benchmark::{BenchmarkBound, BenchmarkRequest, Benchmarked};
pub use benchmark_op::Benchmark;
pub use op::{Execute, ExecuteRequest};
pub use plan_cache::PlanCache;
pub use resident::{HostUpload, ResidentTensor, TensorAccount};
pub use transfer::{Download, DownloadRequest, Upload, UploadRequest};
pub use values::{Executed, TensorInput};

use accelerd_tensor::IndexStep;

use crate::OpError;

/// The error of an index that a step cannot read by.
fn out_of_range(step: &IndexStep, index: i64, extent: usize) -> OpError {
    let reason = step.op.out_of_range(index, extent);
    OpError::IndexOutOfRange { node: step.node, input: step.op.index_input(), reason }
}
