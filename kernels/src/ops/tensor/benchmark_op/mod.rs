//! The operation that measures a plan.

use std::sync::Arc;

use super::{
    benchmark::{BenchmarkRequest, Benchmarked, Subject, copy_bytes},
    cpu, cuda as tensor_cuda,
};
use crate::{Backend, DeviceId, Op, OpError, Size};

/// The operation.
#[derive(Debug)]
pub struct Benchmark;

impl Op for Benchmark {
    const NAME: &'static str = "tensor_benchmark";
    type Request = BenchmarkRequest;
    type Response = Benchmarked;
    /// The address of the plan, which lives as long as its requests.
    type Key = usize;

    fn key(request: &BenchmarkRequest) -> usize {
        Arc::as_ptr(&request.subject.plan).addr()
    }

    fn size(request: &BenchmarkRequest) -> Size {
        let products = request.product.as_ref().map_or(0, Subject::bytes);
        let copies = 2 * copy_bytes(request.device) as u64;
        Size { items: 1, bytes: request.subject.bytes().max(products).saturating_add(copies) }
    }

    fn device_affinity(request: &BenchmarkRequest) -> Option<DeviceId> {
        Some(request.device)
    }

    /// The microseconds that it may take, because repetitions fill them.
    fn cost(request: &BenchmarkRequest) -> u64 {
        u64::try_from(request.max_time.as_micros()).unwrap_or(u64::MAX).max(1)
    }

    fn run(batch: &[&BenchmarkRequest], on: &mut Backend) -> Result<Vec<Benchmarked>, OpError> {
        let measure = |request: &&BenchmarkRequest| match on {
            Backend::Cpu(worker) => cpu::benchmark::measure(request, worker),
            Backend::Cuda(worker) => tensor_cuda::benchmark::measure(request, worker),
        };
        batch.iter().map(measure).collect()
    }
}

#[cfg(test)]
mod tests;
