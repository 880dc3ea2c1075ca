//! Runs kernels in the sandbox.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, SubmitError};
use accelerd_ir::kernel::{FaultKind, FaultRecord, cuda::ParamBlock, wasm::RESERVED};
use accelerd_kernels::{DeviceId, OpError, ledger::Limit};
use accelerd_proto::v1::{self as pb, tensor_input::Source};
use accelerd_sandbox::{
    CudaTarget, FaultCause, Launch, LaunchFault, LaunchResult, Module, OnFault, Outcome, SandboxError,
};
use bytes::Bytes;
use tonic::Status;

use super::arguments::{BoundLaunch, BoundOutput, NamedArgument, bind};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    grpc::{convert::tensor_of, dtype::dtype_to_proto, resident_tensors::ResidentTensors, tensor::inline},
    kernels::{CompiledKernel, Gpu},
    ledger::RequestMemory,
    sandbox::{Turn, Turns},
    status::response_too_large,
};

/// The most iterations of all loops of a thread, unless the client sets it.
const LOOP_BUDGET: u64 = 1 << 32;

/// Runs kernels.
#[derive(Clone)]
pub(super) struct Launcher {
    app: Arc<App>,
    resident: ResidentTensors,
}

/// Where a kernel runs, and the turns of a call there.
pub(super) struct Target<'a> {
    gpu: Option<&'a Gpu>,
    turns: Turns,
    /// The memory of a launch.
    pub(super) limit: Limit,
}

impl Target<'_> {
    /// The GPU, unless it is the CPU.
    pub(super) fn gpu(&self) -> Option<&Gpu> {
        self.gpu
    }

    pub(super) fn device(&self) -> pb::KernelDevice {
        if self.gpu.is_some() { pb::KernelDevice::Cuda } else { pb::KernelDevice::Cpu }
    }

    /// Peak bandwidth of the memory of a GPU, in bytes per second.
    pub(super) fn memory_bandwidth(&self) -> Option<f64> {
        self.gpu.map(|gpu| gpu.properties.memory_bandwidth)
    }
}

impl Launcher {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), resident: ResidentTensors::new(app) }
    }

    pub(super) async fn launch(
        &self,
        caller: &Caller,
        context: &Context,
        kernel: &Arc<CompiledKernel>,
        request: pb::LaunchRequest,
    ) -> Result<pb::LaunchResponse, Status> {
        let pb::LaunchRequest { grid, arguments, outputs, loop_budget, device, .. } = request;
        let target = self.target("device", device)?;
        let mut copies = self.copies();
        let arguments = self.arguments(caller, context, "", (arguments, target.limit), &mut copies).await?;
        let bound = bind(kernel, &grid, arguments, outputs, target.limit, &mut copies)?;
        self.check_response(&bound.outputs)?;
        let result = self.launch_bound(&target, kernel, &bound, loop_budget, true, context).await?;
        let response = response(kernel, &bound.grid, bound.outputs, result)?;
        Ok(pb::LaunchResponse { device: target.device().into(), ..response })
    }

    /// Runs a kernel, and reads its outputs if they are wanted.
    pub(super) async fn launch_bound(
        &self,
        target: &Target<'_>,
        kernel: &CompiledKernel,
        bound: &BoundLaunch,
        loop_budget: Option<u64>,
        reads: bool,
        context: &Context,
    ) -> Result<LaunchResult, ApiError> {
        let compiled = match target.gpu {
            Some(gpu) => Some(self.app.cuda_kernels.compile_for(gpu, &kernel.device, context).await),
            None => None,
        };
        let compiled = compiled.transpose().map_err(|error| error.refused_in("program.source"))?;
        let mut launch = launch(kernel, bound, loop_budget.unwrap_or(LOOP_BUDGET));
        if !reads {
            launch.outputs.clear();
        }
        let code = compiled.as_deref().map(|compiled| &compiled.image);
        let launched = self.run(target, (kernel, code), bound, launch, context).await;
        launched.map_err(|error| error.refused_in("arguments"))
    }

    /// Runs a kernel on an example. On a GPU `code` has it.
    pub(super) async fn launch_example(
        &self,
        target: &Target<'_>,
        (kernel, code): (&CompiledKernel, Option<&Module>),
        bound: &BoundLaunch,
        context: &Context,
    ) -> Result<LaunchResult, ApiError> {
        self.run(target, (kernel, code), bound, launch(kernel, bound, LOOP_BUDGET), context).await
    }

    async fn run(
        &self,
        target: &Target<'_>,
        (kernel, code): (&CompiledKernel, Option<&Module>),
        bound: &BoundLaunch,
        launch: Launch,
        context: &Context,
    ) -> Result<LaunchResult, ApiError> {
        let launch = match code {
            Some(code) => on_gpu(launch, kernel, bound, code),
            None => launch,
        };
        let job = move |turn: Turn| Ok(turn.launch(&Launch { timeout: turn.time_left(), ..launch })?);
        let result = target.turns.run(context, job).await?;
        ended(result.outcome)?;
        Ok(result)
    }

    /// Where a request wants to run.
    pub(super) fn target(&self, field: &str, device: i32) -> Result<Target<'_>, ApiError> {
        match pb::KernelDevice::try_from(device) {
            Ok(pb::KernelDevice::Unspecified | pb::KernelDevice::Cpu) => Ok(self.cpu()),
            Ok(pb::KernelDevice::Cuda) => {
                let gpu = self.app.cuda_kernels.gpu()?;
                Ok(Target { gpu: Some(gpu), turns: gpu.processes.turns(), limit: self.app.cuda_kernels.memory() })
            }
            Err(_) => Err(ApiError::invalid(field, format!("expected a device, got {device}"))),
        }
    }

    pub(super) fn cpu(&self) -> Target<'_> {
        let sandboxes = &self.app.sandboxes;
        Target { gpu: None, turns: sandboxes.turns(), limit: sandboxes.case_memory() }
    }

    pub(super) fn app(&self) -> &App {
        &self.app
    }

    pub(super) fn default_deadline(&self) -> Duration {
        self.app.sandboxes.limits().default_deadline
    }

    /// Host memory for copies of arguments.
    pub(super) fn copies(&self) -> RequestMemory {
        RequestMemory::new(&self.app.requests)
    }

    /// Decodes the arguments, which may have the bytes of the limit. Resident ones on a GPU are copied, which is added to `copies`.
    pub(super) async fn arguments(
        &self,
        caller: &Caller,
        context: &Context,
        prefix: &str,
        (arguments, limit): (Vec<pb::TensorInput>, Limit),
        copies: &mut RequestMemory,
    ) -> Result<Vec<NamedArgument>, ApiError> {
        let mut decoded = Vec::with_capacity(arguments.len());
        for (nth, pb::TensorInput { name, source }) in arguments.into_iter().enumerate() {
            let field = format!("{prefix}arguments[{nth}]");
            let (of, data) = match source {
                Some(Source::Value(tensor)) => inline(&format!("{field}.value"), tensor)?,
                Some(Source::Handle(handle)) => {
                    let tensor = Arc::clone(&self.resident.get(caller, &handle)?.kept.tensor);
                    let (of, asked) = (tensor.of().clone(), tensor.of().bytes() as u64);
                    if tensor.host_bytes().is_none() {
                        let asked = asked.saturating_add(copies.bytes());
                        if asked > limit.bytes {
                            return Err(ApiError::CaseMemory { asked, limit });
                        }
                        copies.try_resize(asked)?;
                    }
                    (of, self.resident.read_all(&tensor, context).await?)
                }
                None => {
                    let reason = "expected a tensor or a handle, got none";
                    return Err(ApiError::invalid(format!("{field}.value"), reason));
                }
            };
            decoded.push(NamedArgument { name, field, of, data });
        }
        Ok(decoded)
    }

    /// Refuses outputs that would exceed the maximum message size.
    fn check_response(&self, outputs: &[BoundOutput]) -> Result<(), Status> {
        let size = |output: &BoundOutput| output.of.bytes().saturating_add(output.name.len() + 64);
        let bytes = outputs.iter().map(size).fold(64_usize, usize::saturating_add);
        let limit = self.app.config.server.max_message();
        if bytes > limit { Err(response_too_large(bytes, limit)) } else { Ok(()) }
    }
}

/// What the sandbox runs.
fn launch(kernel: &CompiledKernel, bound: &BoundLaunch, loop_budget: u64) -> Launch {
    let image = &bound.image;
    let head = (RESERVED, Bytes::copy_from_slice(&image.head));
    let outputs = bound.outputs.iter().filter_map(|output| image.arrays[output.param].clone());
    Launch {
        module: kernel.module.clone(),
        segments: std::iter::once(head).chain(image.data.iter().cloned()).collect(),
        memory_bytes: image.memory_bytes,
        arguments: image.arguments,
        grid: image.grid,
        first_thread: 0,
        thread_count: image.thread_count,
        loop_budget,
        on_fault: OnFault::Stop,
        timeout: Duration::MAX,
        outputs: outputs.collect(),
        cuda: None,
    }
}

/// The same on a GPU, whose memory has no head.
fn on_gpu(launch: Launch, kernel: &CompiledKernel, bound: &BoundLaunch, code: &Module) -> Launch {
    let block = ParamBlock::new(&kernel.kernel, &bound.image);
    let mut grid = [1; 4];
    for (to, extent) in grid.iter_mut().zip(&bound.grid) {
        *to = u32::try_from(*extent).expect("the image has checked it");
    }
    let addresses = block.addresses.iter().map(|at| u32::try_from(*at).expect("a small block"));
    let entry = kernel.device.entry.clone();
    let target = CudaTarget { entry, params: block.bytes, addresses: addresses.collect(), grid };
    Launch { module: code.clone(), segments: bound.image.data.clone(), cuda: Some(target), ..launch }
}

fn response(
    kernel: &CompiledKernel,
    grid: &[u64],
    outputs: Vec<BoundOutput>,
    result: LaunchResult,
) -> Result<pb::LaunchResponse, ApiError> {
    let LaunchResult { faults, outputs: values, execution_time, .. } = result;
    let execution_time = Some(execution_time.try_into().unwrap_or_default());
    if let Some(fault) = faults.first() {
        let fault = Some(describe_fault(kernel, grid, fault)?);
        return Ok(pb::LaunchResponse { outputs: vec![], fault, execution_time, ..Default::default() });
    }
    let outputs = outputs.into_iter().zip(values).map(|(output, data)| pb::NamedTensor {
        name: output.name,
        value: Some(tensor_of(dtype_to_proto(output.of.dtype), &output.of.shape, data.into())),
    });
    Ok(pb::LaunchResponse { outputs: outputs.collect(), fault: None, execution_time, ..Default::default() })
}

/// An error unless the module did what modules of kernels do.
fn ended(outcome: Outcome) -> Result<(), ApiError> {
    if outcome == Outcome::Ok {
        return Ok(());
    }
    Err(if outcome == Outcome::Timeout {
        SandboxError::Timeout { killed: false }.into()
    } else if outcome == Outcome::OutOfMemory {
        SandboxError::OutOfMemory("no memory for the arguments".to_owned()).into()
    } else {
        failed(format!("the module of the kernel ended with {outcome}"))
    })
}

fn failed(reason: String) -> ApiError {
    let error = OpError::Failed { device: DeviceId::Cpu, kernel: "launch", reason };
    ApiError::Submit(SubmitError::Op(error))
}

pub(super) fn describe_fault(
    kernel: &CompiledKernel,
    grid: &[u64],
    fault: &LaunchFault,
) -> Result<pb::KernelFault, ApiError> {
    let record = match &fault.cause {
        FaultCause::Record(bytes) => FaultRecord::from_bytes(bytes),
        FaultCause::Outcome(outcome) => return Err(failed(format!("thread {} ended with {outcome}", fault.thread))),
    };
    let grid: Vec<_> = grid.iter().map(|extent| u32::try_from(*extent).unwrap_or(u32::MAX)).collect();
    let unknown = || failed(format!("thread {} ended with an unknown fault", fault.thread));
    let resolved = record.resolve(&kernel.kernel, &grid).ok_or_else(unknown)?;
    let kind = match resolved.kind {
        FaultKind::OutOfBounds => pb::KernelFaultKind::OutOfBounds,
        FaultKind::DivisionByZero => pb::KernelFaultKind::DivisionByZero,
        FaultKind::Assertion => pb::KernelFaultKind::Assertion,
        FaultKind::InvalidValue => pb::KernelFaultKind::InvalidValue,
        FaultKind::BudgetExhausted => pb::KernelFaultKind::LoopBudget,
    };
    let mut described = pb::KernelFault {
        kind: kind.into(),
        thread: fault.thread,
        line: resolved.site.map_or(0, |site| site.line),
        column: resolved.site.map_or(0, |site| site.column),
        ..pb::KernelFault::default()
    };
    if let Some(access) = resolved.access {
        described.array = access.array;
        described.dimension = access.axis.into();
        described.index = access.index;
        described.extent = access.extent.into();
    }
    Ok(described)
}
