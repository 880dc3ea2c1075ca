//! The launches of each step of a plan.

use accelerd_tensor::Step;

use super::{
    arg_reduce, attention, buffers::BufferSizes, conv, index, launches::Launches, map, matmul, norm, pool, reduce,
    scan, softmax, sort,
};
use crate::{OpError, cuda::Worker};

/// The launches of a step. Only shapes, strides and alignments decide on them, so that they serve every execution of the plan.
pub(super) fn prepare(step: &Step, sizes: &BufferSizes, worker: &Worker) -> Result<Launches, OpError> {
    match step {
        Step::Map(step) => map::prepare(step, sizes),
        Step::MatMul(step) => matmul::prepare(step, sizes, worker),
        Step::Reduce(step) => reduce::prepare(step, sizes),
        Step::ArgReduce(step) => arg_reduce::prepare(step, sizes),
        Step::Softmax(step) => softmax::prepare(step, sizes),
        Step::Norm(step) => norm::prepare(step, sizes),
        Step::Index(step) => index::prepare(step, sizes),
        Step::Scan(step) => scan::prepare(step, sizes),
        Step::Sort(step) => sort::prepare(step, sizes),
        Step::Conv(step) => conv::prepare(step, sizes, worker.compute_capability()),
        Step::Pool(step) => pool::prepare(step, sizes),
        Step::Attention(step) => attention::prepare(step, sizes, worker.compute_capability()),
    }
}
