//! Times plans on the CPU.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::{
    super::benchmark::{BenchmarkRequest, Benchmarked, Budget, Subject, copy_bytes},
    buffer::AlignedBuffer,
    execute,
    memory::Memory,
    run_steps,
};
use crate::{DeviceId, OpError, cpu::Worker};

/// Bytes that a thread copies at a time.
const CHUNK: usize = 1 << 20;

/// Two buffers, larger together than most caches.
struct CopyBuffers {
    from: AlignedBuffer,
    to: AlignedBuffer,
}

impl CopyBuffers {
    fn new() -> Result<Self, OpError> {
        let bytes = copy_bytes(DeviceId::Cpu);
        Ok(Self { from: AlignedBuffer::zeros(bytes)?, to: AlignedBuffer::zeros(bytes)? })
    }

    fn copy(&mut self, worker: &Worker) {
        let Self { from, to } = self;
        let chunks = to.bytes_mut().par_chunks_mut(CHUNK).zip(from.as_ref().par_chunks(CHUNK));
        worker.pool().install(|| chunks.for_each(|(to, from)| to.copy_from_slice(from)));
    }

    /// Evicts everything else from the caches.
    fn flush(&mut self, worker: &Worker) {
        std::mem::swap(&mut self.from, &mut self.to);
        self.copy(worker);
    }
}

/// Measures a plan, and the rates of the CPU.
pub(in super::super) fn measure(request: &BenchmarkRequest, worker: &Worker) -> Result<Benchmarked, OpError> {
    let mut buffers = CopyBuffers::new()?;
    let times = time(&request.subject, &request.budget(), &mut buffers, worker)?;
    buffers.flush(worker);
    let copies = request.reference_budget().sample(|| {
        worker.preemption_point()?;
        Ok(timed(|| buffers.copy(worker)).1)
    })?;
    let product = request.product.as_ref();
    let products = product.map(|product| time(product, &request.reference_budget(), &mut buffers, worker));
    Ok(Benchmarked::new(request, times, request.subject.plan.steps.len(), &copies, products.transpose()?))
}

/// The times of repetitions, after one that is not timed.
fn time(
    subject: &Subject,
    budget: &Budget,
    buffers: &mut CopyBuffers,
    worker: &Worker,
) -> Result<Vec<Duration>, OpError> {
    let generated = execute(&subject.generator, &[], worker)?;
    let inputs: Vec<_> = generated.iter().map(AlignedBuffer::as_ref).collect();
    let memory = Memory::new(&subject.plan, &inputs)?;
    run_steps(&subject.plan, &memory, worker)?;
    budget.sample(|| {
        worker.preemption_point()?;
        buffers.flush(worker);
        let (done, time) = timed(|| run_steps(&subject.plan, &memory, worker));
        done.map(|()| time)
    })
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
