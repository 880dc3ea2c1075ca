//! The operation: executes the plan of a graph.

use std::{sync::Arc, time::Duration};

use accelerd_tensor::{Plan, TensorType};
use bytes::Bytes;

use super::{Executed, ResidentTensor, TensorAccount, TensorInput, cpu, cuda as tensor_cuda};
use crate::{Backend, DeviceId, Op, OpError, Size, cuda, ledger::Reservation};

/// A graph to execute.
#[derive(Clone, Debug)]
pub struct ExecuteRequest {
    plan: Arc<Plan>,
    inputs: Vec<TensorInput>,
    device: Option<DeviceId>,
    keep: Option<Keep>,
}

/// Which outputs are kept, and where their memory is reserved.
#[derive(Clone, Debug)]
struct Keep {
    outputs: Vec<bool>,
    account: TensorAccount,
}

impl ExecuteRequest {
    /// `inputs` are those of the plan, in its order. [`Execute`] checks their lengths. A GPU executes a plan faster if it has executed the
    /// same one, not an equal one, before: see [`PlanCache`](super::PlanCache).
    pub fn new(plan: Arc<Plan>, inputs: Vec<impl Into<TensorInput>>) -> Self {
        let inputs: Vec<TensorInput> = inputs.into_iter().map(Into::into).collect();
        let device = inputs.iter().find_map(TensorInput::device);
        Self { plan, inputs, device, keep: None }
    }

    /// The device to run on. Without this call it is that of the first resident input, or any.
    #[must_use]
    pub fn on(self, device: Option<DeviceId>) -> Self {
        Self { device: device.or(self.device), ..self }
    }

    /// Keeps the outputs whose entry is true as resident tensors, whose memory is reserved in `account`.
    #[must_use]
    pub fn keeping(self, outputs: Vec<bool>, account: TensorAccount) -> Self {
        Self { keep: Some(Keep { outputs, account }), ..self }
    }
}

/// The operation.
#[derive(Debug)]
pub struct Execute;

impl Op for Execute {
    const NAME: &'static str = "tensor";
    type Request = ExecuteRequest;
    type Response = Executed;
    /// The address of the plan, which lives as long as its requests.
    type Key = usize;

    fn key(request: &ExecuteRequest) -> usize {
        Arc::as_ptr(&request.plan).addr()
    }

    fn size(request: &ExecuteRequest) -> Size {
        let inputs: u64 = request.inputs.iter().map(TensorInput::inline_bytes).sum();
        let scratch = match request.device {
            Some(DeviceId::Cuda(_)) => 0,
            Some(DeviceId::Cpu) | None => cpu::scratch_bytes(&request.plan),
        };
        let planned = scratch.saturating_add(request.plan.allocated_bytes() as u64);
        Size { items: 1, bytes: inputs.saturating_add(planned) }
    }

    fn device_affinity(request: &ExecuteRequest) -> Option<DeviceId> {
        request.device
    }

    fn cpu_fallback(request: &ExecuteRequest) -> bool {
        request.inputs.iter().all(TensorInput::is_on_host)
    }

    fn cost(request: &ExecuteRequest) -> u64 {
        request.plan.cost()
    }

    fn run(batch: &[&ExecuteRequest], on: &mut Backend) -> Result<Vec<Executed>, OpError> {
        batch.iter().map(|request| request.run(on)).collect()
    }

    fn release(mut request: ExecuteRequest) -> Option<ExecuteRequest> {
        request.inputs.retain(|input| matches!(input, TensorInput::Inline(_)));
        Some(request)
    }
}

impl ExecuteRequest {
    /// Measures the steps of the plan alone, on a GPU: the time of one run in each of `samples` samples of `runs` runs, with inputs on
    /// the device and kernels loaded.
    pub fn time_on_gpu(&self, on: &cuda::Worker, samples: usize, runs: u32) -> Result<Vec<Duration>, OpError> {
        tensor_cuda::executor::time(&self.plan, &self.inputs, on, samples, runs)
    }

    fn run(&self, on: &Backend) -> Result<Executed, OpError> {
        let reserved = self.reserve(on.device())?;
        match on {
            Backend::Cpu(worker) => self.run_on_cpu(reserved, worker),
            Backend::Cuda(worker) => tensor_cuda::executor::execute(&self.plan, &self.inputs, reserved, worker),
        }
    }

    /// For each output that is kept, its memory.
    fn reserve(&self, device: DeviceId) -> Result<Vec<Option<Reservation>>, OpError> {
        let Some(Keep { outputs, account }) = &self.keep else {
            return Ok(self.plan.outputs.iter().map(|_| None).collect());
        };
        let reserve = |(nth, ty): (usize, &TensorType)| {
            let is_kept = outputs.get(nth).copied().unwrap_or_default();
            is_kept.then(|| account.reserve(device, ty.bytes())).transpose()
        };
        self.plan.outputs.iter().enumerate().map(reserve).collect()
    }

    fn run_on_cpu(&self, reserved: Vec<Option<Reservation>>, worker: &crate::cpu::Worker) -> Result<Executed, OpError> {
        let inputs = self.inputs.iter().map(TensorInput::on_host).collect::<Result<Vec<_>, _>>()?;
        let outputs = cpu::execute(&self.plan, &inputs, worker)?;
        let mut executed = Executed { returned: vec![], kept: vec![] };
        for ((output, ty), reserved) in outputs.into_iter().zip(&self.plan.outputs).zip(reserved) {
            let output = Bytes::from_owner(output);
            match reserved {
                Some(reserved) => executed.kept.push(ResidentTensor::on_host(ty.clone(), output, reserved)),
                None => executed.returned.push(output),
            }
        }
        Ok(executed)
    }
}
