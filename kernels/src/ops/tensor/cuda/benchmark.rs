//! Times plans on a GPU, by events on the stream.

use std::time::Duration;

use super::{
    super::benchmark::{BenchmarkRequest, Benchmarked, Budget, Subject, copy_bytes},
    executor::{Buffers, Input},
    prepared::PreparedPlan,
};
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// Two buffers, larger than the cache.
struct CopyBuffers {
    from: Buffer<u8>,
    to: Buffer<u8>,
}

impl CopyBuffers {
    fn new(worker: &Worker) -> Result<Self, OpError> {
        let bytes = copy_bytes(worker.device().info().id);
        Ok(Self { from: worker.alloc_zeroed(bytes)?, to: worker.alloc_zeroed(bytes)? })
    }

    fn copy(&self, worker: &Worker) -> Result<(), OpError> {
        worker.copy(&self.from, &self.to, self.from.len())
    }
}

/// Measures a plan, and the rates of the device.
pub(in super::super) fn measure(request: &BenchmarkRequest, worker: &Worker) -> Result<Benchmarked, OpError> {
    let buffers = CopyBuffers::new(worker)?;
    let times = time(&request.subject, &request.budget(), &buffers, worker)?;
    let copies = request.reference_budget().sample(|| {
        worker.preemption_point()?;
        worker.time(|| buffers.copy(worker))
    })?;
    let product = request.product.as_ref();
    let products = product.map(|product| time(product, &request.reference_budget(), &buffers, worker)).transpose()?;
    let launches = PreparedPlan::of(&request.subject.plan, worker)?.launch_count();
    Ok(Benchmarked::new(request, times, launches, &copies, products))
}

/// The times of repetitions, after one that is not timed. The flush keeps the device busy while the host enqueues the launches, so that the
/// time is not that of the host.
fn time(subject: &Subject, budget: &Budget, flushed: &CopyBuffers, worker: &Worker) -> Result<Vec<Duration>, OpError> {
    let inputs = generate(subject, worker)?;
    let prepared = PreparedPlan::of(&subject.plan, worker)?;
    let buffers = Buffers::with_inputs(&subject.plan, &prepared, inputs, worker)?;
    let bindings = prepared.bind(&buffers.memory())?;
    prepared.run(&bindings, worker)?;
    buffers.check(&subject.plan, worker)?;
    budget.sample(|| {
        worker.preemption_point()?;
        flushed.copy(worker)?;
        worker.time(|| prepared.run(&bindings, worker))
    })
}

/// The inputs of a plan.
fn generate(subject: &Subject, worker: &Worker) -> Result<Vec<Input<'static>>, OpError> {
    let prepared = PreparedPlan::of(&subject.generator, worker)?;
    let buffers = Buffers::with_inputs(&subject.generator, &prepared, vec![], worker)?;
    prepared.run(&prepared.bind(&buffers.memory())?, worker)?;
    Ok(buffers.outputs.into_iter().map(Input::Owned).collect())
}
