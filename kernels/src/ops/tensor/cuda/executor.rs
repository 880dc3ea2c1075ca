//! Runs the steps of a plan on a worker's stream, between the upload of the inputs and the download of the outputs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_tensor::Plan;

use super::{
    super::{Executed, ResidentTensor, TensorInput},
    buffers::{Memory, Span},
    graph_cache,
    prepared::PreparedPlan,
    status,
};
use crate::{
    OpError,
    cuda::{Buffer, Worker},
    ledger::Reservation,
};

/// Executes a plan on inputs of any alignment; returns its outputs, little-endian, in the pinned memory that they were downloaded to. An
/// output with a reservation is kept on the device instead. `reserved` has an entry for each output.
pub(crate) fn execute(
    plan: &Arc<Plan>,
    inputs: &[TensorInput],
    reserved: Vec<Option<Reservation>>,
    worker: &Worker,
) -> Result<Executed, OpError> {
    check_inputs(plan, inputs)?;
    let prepared = PreparedPlan::of(plan, worker)?;
    let inline: Option<Vec<_>> = inputs.iter().map(TensorInput::inline).collect();
    let inline = inline.filter(|_| reserved.iter().all(Option::is_none));
    let is_shared = inline.is_none();
    if let Some(inline) = inline
        && let Some(returned) = graph_cache::execute(plan, &prepared, &inline, worker)?
    {
        return Ok(Executed { returned, kept: vec![] });
    }
    let done = run(plan, &prepared, inputs, reserved, worker);
    // Other streams read the tensors that are kept, and free those that were read.
    let synchronized = if is_shared { worker.synchronize() } else { Ok(()) };
    done.and_then(|outputs| synchronized.map(|()| outputs)).map_err(|error| with_planned(error, plan, inputs, worker))
}

fn run(
    plan: &Plan,
    prepared: &PreparedPlan,
    inputs: &[TensorInput],
    reserved: Vec<Option<Reservation>>,
    worker: &Worker,
) -> Result<Executed, OpError> {
    let buffers = Buffers::new(plan, prepared, inputs, worker)?;
    prepared.run(&prepared.bind(&buffers.memory())?, worker)?;
    buffers.into_outputs(plan, reserved, worker)
}

/// The error of an allocation, with the memory that the plan needs in total and the bytes that are free without it.
fn with_planned(error: OpError, plan: &Plan, inputs: &[TensorInput], worker: &Worker) -> OpError {
    let OpError::OutOfMemory { device, requested, free } = error else { return error };
    let inline = inputs.iter().map(TensorInput::inline_bytes).sum::<u64>();
    let planned = inline.saturating_add(plan.allocated_bytes() as u64);
    // The memory of the execution is dropped, and free once it is reclaimed.
    let free = worker.reclaim().map_or(free, |()| worker.free_bytes());
    OpError::OutOfMemory { device, requested: planned.max(requested), free }
}

/// Device memory of an execution.
pub(super) struct Buffers<'a> {
    arena: Buffer<u8>,
    workspace: Buffer<u8>,
    inputs: Vec<Input<'a>>,
    pub(super) outputs: Vec<Buffer<u8>>,
    status: Buffer<u8>,
}

/// The device memory of an input.
pub(super) enum Input<'a> {
    /// Uploaded or generated for the execution.
    Owned(Buffer<u8>),
    /// The buffer of a resident tensor, which outlives the execution.
    Resident(&'a Buffer<u8>),
}

impl Input<'_> {
    fn buffer(&self) -> &Buffer<u8> {
        match self {
            Self::Owned(buffer) => buffer,
            Self::Resident(buffer) => buffer,
        }
    }
}

impl<'a> Buffers<'a> {
    /// Allocates it, and uploads the inputs that are not resident.
    fn new(plan: &Plan, prepared: &PreparedPlan, inputs: &'a [TensorInput], worker: &Worker) -> Result<Self, OpError> {
        let input = |input: &'a TensorInput| match input {
            TensorInput::Inline(bytes) => worker.upload_new(bytes).map(Input::Owned),
            TensorInput::Resident(tensor) => tensor.on(worker).map(Input::Resident),
        };
        let inputs = inputs.iter().map(input).collect::<Result<_, _>>()?;
        Self::with_inputs(plan, prepared, inputs, worker)
    }

    /// Allocates it; the inputs are there.
    pub(super) fn with_inputs(
        plan: &Plan,
        prepared: &PreparedPlan,
        inputs: Vec<Input<'a>>,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let arena = worker.alloc(plan.arena_bytes)?;
        let workspace = worker.alloc(prepared.workspace_bytes)?;
        let outputs = plan.outputs.iter().map(|output| worker.alloc(output.bytes())).collect::<Result<_, _>>()?;
        Ok(Self { arena, workspace, inputs, outputs, status: worker.upload_new(status::cleared(plan))? })
    }

    pub(super) fn memory(&self) -> Memory<'_> {
        Memory {
            inputs: self.inputs.iter().map(|input| Span::of(input.buffer())).collect(),
            outputs: self.outputs.iter().map(Span::of).collect(),
            arena: Span::of(&self.arena),
            workspace: Span::of(&self.workspace),
            status: Span::of(&self.status),
        }
    }

    /// Waits for the execution, and fails with what its status reports.
    pub(super) fn check(&self, plan: &Plan, worker: &Worker) -> Result<(), OpError> {
        status::download_checked(plan, &[], (&self.status, 0..self.status.len()), worker)?;
        worker.synchronize()
    }

    /// Downloads the outputs that are not kept.
    fn into_outputs(
        self,
        plan: &Plan,
        reserved: Vec<Option<Reservation>>,
        worker: &Worker,
    ) -> Result<Executed, OpError> {
        let mut returned = vec![];
        let mut kept = vec![];
        for ((buffer, ty), reserved) in self.outputs.into_iter().zip(&plan.outputs).zip(reserved) {
            match reserved {
                Some(reserved) => kept.push(ResidentTensor::on_gpu(ty.clone(), buffer, worker, reserved)),
                None => returned.push(buffer),
            }
        }
        let parts: Vec<_> = returned.iter().map(|buffer| (buffer, 0..buffer.len())).collect();
        let returned = status::download_checked(plan, &parts, (&self.status, 0..self.status.len()), worker)?;
        Ok(Executed { returned, kept })
    }
}

fn check_inputs(plan: &Plan, inputs: &[TensorInput]) -> Result<(), OpError> {
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

/// The time of each of `samples` samples of `runs` runs, on inputs that are on the device and with kernels that are loaded, for one run.
pub(crate) fn time(
    plan: &Arc<Plan>,
    inputs: &[TensorInput],
    worker: &Worker,
    samples: usize,
    runs: u32,
) -> Result<Vec<Duration>, OpError> {
    check_inputs(plan, inputs)?;
    let prepared = PreparedPlan::of(plan, worker)?;
    let buffers = Buffers::new(plan, &prepared, inputs, worker)?;
    let bindings = prepared.bind(&buffers.memory())?;
    prepared.run(&bindings, worker)?;
    worker.synchronize()?;
    let sample = |_| {
        let start = Instant::now();
        (0..runs).try_for_each(|_| prepared.run(&bindings, worker))?;
        worker.synchronize()?;
        Ok(start.elapsed() / runs)
    };
    (0..samples).map(sample).collect()
}
