//! Executes plans on the CPU.
//!
//! Each step reads and writes views that are validated first; its work is cut into slices of the worker. Results do not depend on the
//! number of threads.

use accelerd_tensor::{Plan, Step};

use crate::{OpError, cpu::Worker};

mod attention;
pub(super) mod benchmark;
mod buffer;
mod cast;
mod conv;
mod extent;
mod index;
mod instruction;
mod lanes;
mod map;
mod matmul;
mod memory;
mod norm;
mod number;
mod pool;
mod program;
mod reduce;
mod region;
mod row_source;
mod rows;
mod scan;
mod softmax;
mod sort;
#[cfg(test)]
mod tests;

pub(super) use buffer::AlignedBuffer;
use memory::Memory;

/// Executes a plan on inputs of any alignment; returns its outputs, little-endian.
pub(super) fn execute(plan: &Plan, inputs: &[&[u8]], worker: &Worker) -> Result<Vec<AlignedBuffer>, OpError> {
    let run = || {
        let memory = Memory::new(plan, inputs)?;
        run_steps(plan, &memory, worker)?;
        Ok(memory.into_outputs())
    };
    run().map_err(|error| with_planned(error, plan))
}

/// Bytes that the step with the most of them takes besides the memory of the plan, if it runs on as many threads as the machine has.
pub(super) fn scratch_bytes(plan: &Plan) -> u64 {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let of_step = |step: &Step| match step {
        Step::Softmax(step) => row_source::scratch_bytes(&step.output, threads),
        Step::Norm(step) => row_source::scratch_bytes(&step.output, threads),
        Step::Sort(step) => sort::scratch_bytes(step, threads),
        Step::Conv(step) => conv::scratch_bytes(step, threads),
        Step::Pool(step) => pool::scratch_bytes(step, threads),
        // They work in blocks whose size does not depend on their operands.
        Step::Map(_)
        | Step::Reduce(_)
        | Step::ArgReduce(_)
        | Step::MatMul(_)
        | Step::Index(_)
        | Step::Scan(_)
        | Step::Attention(_) => 0,
    };
    plan.steps.iter().map(of_step).max().unwrap_or(0)
}

/// The error of an allocation, with the memory that the plan needs in total.
fn with_planned(error: OpError, plan: &Plan) -> OpError {
    let OpError::OutOfMemory { device, requested, free } = error else { return error };
    OpError::OutOfMemory { device, requested: requested.max(plan.allocated_bytes() as u64), free }
}

fn run_steps(plan: &Plan, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let mut steps = plan.steps.iter();
    steps.try_for_each(|step| {
        worker.pool().time_moving(name(step), step.workload().moved(), || run(step, memory, worker))
    })
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Map(_) => "tensor_map",
        Step::Reduce(_) => "tensor_reduce",
        Step::ArgReduce(_) => "tensor_arg_reduce",
        Step::Softmax(_) => "tensor_softmax",
        Step::Norm(_) => "tensor_norm",
        Step::MatMul(_) => "tensor_matmul",
        Step::Index(_) => "tensor_index",
        Step::Scan(_) => "tensor_scan",
        Step::Sort(_) => "tensor_sort",
        Step::Conv(_) => "tensor_conv",
        Step::Pool(_) => "tensor_pool",
        Step::Attention(_) => "tensor_attention",
    }
}

fn run(step: &Step, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    match step {
        Step::Map(step) => map::run(step, memory, worker),
        Step::Reduce(step) => reduce::run(step, memory, worker),
        Step::ArgReduce(step) => reduce::run_arg(step, memory, worker),
        Step::Softmax(step) => softmax::run(step, memory, worker),
        Step::Norm(step) => norm::run(step, memory, worker),
        Step::MatMul(step) => matmul::run(step, memory, worker),
        Step::Index(step) => index::run(step, memory, worker),
        Step::Scan(step) => scan::run(step, memory, worker),
        Step::Sort(step) => sort::run(step, memory, worker),
        Step::Conv(step) => conv::run(step, memory, worker),
        Step::Pool(step) => pool::run(step, memory, worker),
        Step::Attention(step) => attention::run(step, memory, worker),
    }
}
