//! Runs the steps of a plan on a worker's stream, between the upload of the inputs and the download of the outputs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_tensor::{Plan, Step};
use bytes::Bytes;

use super::{arg_reduce, buffers::Buffers, map, matmul, norm, pace::Pace, reduce, softmax};
use crate::{
    OpError,
    cuda::{Buffer, DownloadPlan, HostBuffer, Layout, Region, StreamKind, Worker},
};

/// Executes a plan on inputs of any alignment; returns its outputs, little-endian, in the pinned memory that they were downloaded to.
pub(crate) fn execute(plan: &Plan, inputs: &[&[u8]], worker: &Worker) -> Result<Vec<Bytes>, OpError> {
    check_inputs(plan, inputs)?;
    let memory = Memory::new(plan, inputs, worker)?;
    run(plan, &memory.buffers(), worker)?;
    download(&memory.outputs, worker)
}

/// Device memory of an execution.
struct Memory {
    arena: Buffer<u8>,
    inputs: Vec<Buffer<u8>>,
    outputs: Vec<Buffer<u8>>,
}

impl Memory {
    /// Allocates it, and uploads the inputs.
    fn new(plan: &Plan, inputs: &[&[u8]], worker: &Worker) -> Result<Self, OpError> {
        let arena = worker.alloc(plan.arena_bytes)?;
        let outputs = plan.outputs.iter().map(|output| worker.alloc(output.bytes())).collect::<Result<_, _>>()?;
        let inputs = inputs.iter().map(|input| worker.upload_new(input)).collect::<Result<_, _>>()?;
        Ok(Self { arena, inputs, outputs })
    }

    fn buffers(&self) -> Buffers<'_> {
        Buffers::new(&self.inputs, &self.outputs, &self.arena)
    }
}

fn check_inputs(plan: &Plan, inputs: &[&[u8]]) -> Result<(), OpError> {
    if inputs.len() != plan.inputs.len() {
        let reason = format!("expected {} inputs, got {}", plan.inputs.len(), inputs.len());
        return Err(OpError::Invalid(reason));
    }
    for (nth, (expected, input)) in plan.inputs.iter().zip(inputs).enumerate() {
        if expected.bytes() != input.len() {
            let reason = format!("inputs[{nth}]: expected {} bytes, got {}", expected.bytes(), input.len());
            return Err(OpError::Invalid(reason));
        }
    }
    Ok(())
}

/// A launch that takes longer has compiled a kernel.
const COMPILED: Duration = Duration::from_millis(5);

/// Enqueues all steps, with preemption points between them: after slices of work on the device, and after each compilation, of which a
/// graph may need hundreds.
fn run(plan: &Plan, buffers: &Buffers<'_>, worker: &Worker) -> Result<(), OpError> {
    let mut pace = Pace::new();
    for step in &plan.steps {
        let start = Instant::now();
        launch(step, buffers, worker)?;
        if start.elapsed() > COMPILED {
            worker.preemption_point()?;
        }
        pace.queued(worker, step.cost())?;
    }
    Ok(())
}

fn launch(step: &Step, buffers: &Buffers<'_>, worker: &Worker) -> Result<(), OpError> {
    match step {
        Step::Map(step) => map::launch(step, buffers, worker),
        Step::MatMul(step) => matmul::launch(step, buffers, worker),
        Step::Reduce(step) => reduce::launch(step, buffers, worker),
        Step::ArgReduce(step) => arg_reduce::launch(step, buffers, worker),
        Step::Softmax(step) => softmax::launch(step, buffers, worker),
        Step::Norm(step) => norm::launch(step, buffers, worker),
    }
}

/// Copies the outputs to one pinned block, which lives as long as any of the returned slices.
fn download(outputs: &[Buffer<u8>], worker: &Worker) -> Result<Vec<Bytes>, OpError> {
    let (mut layout, mut plan) = (Layout::default(), DownloadPlan::default());
    let regions: Vec<Region<u8>> = outputs.iter().map(|output| layout.add(output.len())).collect();
    for (output, region) in outputs.iter().zip(&regions) {
        plan.add(output, 0, *region);
    }
    let mut pending = worker.pending_download(&layout)?;
    worker.download_async(&plan, &mut pending, StreamKind::Compute)?;
    let block = Arc::new(pending.wait()?);
    let output = |region| Bytes::from_owner(Downloaded { block: Arc::clone(&block), region });
    Ok(regions.into_iter().map(output).collect())
}

/// An output in the block of all outputs.
struct Downloaded {
    block: Arc<HostBuffer>,
    region: Region<u8>,
}

impl AsRef<[u8]> for Downloaded {
    fn as_ref(&self) -> &[u8] {
        self.block.get(self.region)
    }
}

/// The time of each of `samples` samples of `runs` runs, on inputs that are on the device and with kernels that are loaded, for one run.
pub(crate) fn time(
    plan: &Plan,
    inputs: &[&[u8]],
    worker: &Worker,
    samples: usize,
    runs: u32,
) -> Result<Vec<Duration>, OpError> {
    check_inputs(plan, inputs)?;
    let memory = Memory::new(plan, inputs, worker)?;
    let buffers = memory.buffers();
    run(plan, &buffers, worker)?;
    worker.synchronize()?;
    let sample = |_| {
        let start = Instant::now();
        (0..runs).try_for_each(|_| run(plan, &buffers, worker))?;
        worker.synchronize()?;
        Ok(start.elapsed() / runs)
    };
    (0..samples).map(sample).collect()
}
