//! Runs kernels in the sandbox.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, SubmitError};
use accelerd_ir::kernel::{Fault, FaultRecord, cuda::ParamBlock, wasm::RESERVED};
use accelerd_kernels::{
    DeviceId, OpError,
    ledger::{Allowance, Limit},
    ops::translate::Translate,
};
use accelerd_sandbox::{
    CudaTarget, FaultCause, Launch, LaunchFault, LaunchResult, Module, OnFault, Outcome, SandboxError,
};
use bytes::Bytes;

use super::{
    CompiledKernel, CudaKernels, Gpu, KernelCache, Program,
    arguments::{BoundLaunch, BoundOutput, KernelOutput, KernelView, NamedArgument, bind},
};
use crate::{
    auth::caller::Caller,
    error::ApiError,
    ledger::RequestMemory,
    sandbox::{Sandboxes, Turn, Turns},
    tensors::{resident_tensors::ResidentTensors, source::TensorSource},
};

/// The most iterations of all loops of a thread, unless the client sets it.
const LOOP_BUDGET: u64 = 1 << 32;

/// Runs kernels of clients.
#[derive(Clone)]
pub(crate) struct Launcher {
    pub(crate) kernels: KernelCache,
    pub(crate) cuda_kernels: Arc<CudaKernels>,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) translate: Lane<Translate>,
    pub(crate) resident: ResidentTensors,
    /// Memory of admitted requests.
    pub(crate) requests: Arc<Allowance>,
    /// True if the settings allow CUDA C++ of clients.
    pub(crate) runs_cuda_source: bool,
    /// The most bytes of a source.
    pub(crate) max_source: usize,
    /// The most bytes of a response.
    pub(crate) max_message: usize,
}

/// A kernel that a client names or describes.
#[derive(Debug)]
pub(crate) enum KernelReference {
    Id(String),
    Program(Program),
}

/// Where a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelDevice {
    Cpu,
    Cuda,
}

/// A kernel to run.
#[derive(Debug)]
pub(crate) struct LaunchRequest {
    pub(crate) kernel: KernelReference,
    pub(crate) grid: Vec<u64>,
    pub(crate) arguments: Vec<(String, TensorSource)>,
    pub(crate) views: Vec<KernelView>,
    pub(crate) outputs: Vec<KernelOutput>,
    pub(crate) loop_budget: Option<u64>,
    pub(crate) device: KernelDevice,
}

/// The results of a launch.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The requested arrays, or the fault of a thread.
    pub(crate) outputs: Result<Vec<(BoundOutput, Bytes)>, KernelFault>,
    pub(crate) execution_time: Duration,
    pub(crate) device: KernelDevice,
}

/// A fault of a thread.
#[derive(Clone, Debug)]
pub(crate) struct KernelFault {
    /// The number of the thread.
    pub(crate) thread: u64,
    pub(crate) fault: Fault,
}

impl KernelFault {
    /// The line of the source; 0 if it has none.
    pub(crate) fn line(&self) -> u32 {
        self.fault.site.map_or(0, |site| site.line)
    }
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

    pub(super) fn device(&self) -> KernelDevice {
        if self.gpu.is_some() { KernelDevice::Cuda } else { KernelDevice::Cpu }
    }

    /// Peak bandwidth of the memory of a GPU, in bytes per second.
    pub(super) fn memory_bandwidth(&self) -> Option<f64> {
        self.gpu.map(|gpu| gpu.properties.memory_bandwidth)
    }
}

impl Launcher {
    /// Runs a kernel.
    pub(crate) async fn launch(
        &self,
        caller: &Caller,
        context: &Context,
        request: LaunchRequest,
    ) -> Result<Launched, ApiError> {
        let LaunchRequest { kernel, grid, arguments, views, outputs, loop_budget, device } = request;
        let kernel = self.kernel(kernel, "", context).await?;
        let target = self.target(device)?;
        let mut copies = self.copies();
        let arguments = self.arguments(caller, context, "", (arguments, target.limit), &mut copies).await?;
        let bound = bind(&kernel, &grid, (arguments, views), outputs, target.limit, &mut copies)?;
        self.check_response(&bound.outputs)?;
        let result = self.launch_bound(&target, &kernel, &bound, loop_budget, true, context).await?;
        let LaunchResult { faults, outputs, execution_time, .. } = result;
        let outputs = match faults.first() {
            Some(fault) => Err(kernel_fault(&kernel, &bound.grid, fault)?),
            None => Ok(bound.outputs.into_iter().zip(outputs.into_iter().map(Bytes::from)).collect()),
        };
        Ok(Launched { outputs, execution_time, device: target.device() })
    }

    /// The kernel of a launch, whose fields have a prefix.
    pub(super) async fn kernel(
        &self,
        kernel: KernelReference,
        prefix: &str,
        context: &Context,
    ) -> Result<Arc<CompiledKernel>, ApiError> {
        self.sandboxes.check_enabled()?;
        match kernel {
            KernelReference::Id(id) => self.kernels.get(&id),
            KernelReference::Program(program) => {
                self.kernels.compile(program, &format!("{prefix}program"), context).await
            }
        }
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
            Some(gpu) => Some(self.cuda_kernels.compile_for(gpu, &kernel.device, context).await),
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
    pub(super) fn target(&self, device: KernelDevice) -> Result<Target<'_>, ApiError> {
        match device {
            KernelDevice::Cpu => Ok(self.cpu()),
            KernelDevice::Cuda => {
                let gpu = self.cuda_kernels.gpu()?;
                Ok(Target { gpu: Some(gpu), turns: gpu.processes.turns(), limit: self.cuda_kernels.memory() })
            }
        }
    }

    pub(super) fn cpu(&self) -> Target<'_> {
        Target { gpu: None, turns: self.sandboxes.turns(), limit: self.sandboxes.case_memory() }
    }

    pub(super) fn default_deadline(&self) -> Duration {
        self.sandboxes.limits().default_deadline
    }

    /// Host memory for copies of arguments.
    pub(super) fn copies(&self) -> RequestMemory {
        RequestMemory::new(&self.requests)
    }

    /// Reads the arguments, which may have the bytes of the limit. Resident ones on a GPU are copied, which is added to `copies`.
    pub(super) async fn arguments(
        &self,
        caller: &Caller,
        context: &Context,
        prefix: &str,
        (arguments, limit): (Vec<(String, TensorSource)>, Limit),
        copies: &mut RequestMemory,
    ) -> Result<Vec<NamedArgument>, ApiError> {
        let mut read = Vec::with_capacity(arguments.len());
        for (nth, (name, source)) in arguments.into_iter().enumerate() {
            let field = format!("{prefix}arguments[{nth}]");
            let (of, data) = self.resident.read_source(caller, source, (&mut *copies, limit), context).await?;
            read.push(NamedArgument { name, field, of, data });
        }
        Ok(read)
    }

    /// Refuses outputs that would exceed the maximum message size.
    fn check_response(&self, outputs: &[BoundOutput]) -> Result<(), ApiError> {
        let size = |output: &BoundOutput| output.of.bytes().saturating_add(output.name.len() + 64);
        let bytes = outputs.iter().map(size).fold(64_usize, usize::saturating_add);
        let limit = self.max_message;
        if bytes > limit { Err(ApiError::OutputsTooLarge { bytes, limit }) } else { Ok(()) }
    }
}

/// The launch that the sandbox runs.
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

/// A fault by the source of the kernel.
pub(super) fn kernel_fault(
    kernel: &CompiledKernel,
    grid: &[u64],
    fault: &LaunchFault,
) -> Result<KernelFault, ApiError> {
    let record = match &fault.cause {
        FaultCause::Record(bytes) => FaultRecord::from_bytes(bytes),
        FaultCause::Outcome(outcome) => return Err(failed(format!("thread {} ended with {outcome}", fault.thread))),
    };
    let grid: Vec<_> = grid.iter().map(|extent| u32::try_from(*extent).unwrap_or(u32::MAX)).collect();
    let unknown = || failed(format!("thread {} ended with an unknown fault", fault.thread));
    let resolved = record.resolve(&kernel.kernel, &grid).ok_or_else(unknown)?;
    Ok(KernelFault { thread: fault.thread, fault: resolved })
}
