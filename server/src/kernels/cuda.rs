//! Kernels on GPUs: compiled in a process of their own, and run in one for each GPU.

use std::sync::{Arc, Mutex, PoisonError};

use accelerd_engine::Context;
use accelerd_ir::kernel::cuda::{DeviceCode, prelude};
use accelerd_kernels::{
    Device, DeviceId,
    cuda::{Arch, GpuProperties},
    ledger::{Account, Kind, Ledger, Limit, Place},
};
use accelerd_sandbox::{CudaCode, CudaResources, Module};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::kept::{CacheEntry, Kept};
use crate::{
    config::{Config, SandboxGpu},
    error::ApiError,
    sandbox::{Sandboxes, Turn, Turns},
};

/// The architecture whose code every supported GPU runs as PTX.
const OLDEST: Arch = Arch::new(7, 5);

/// Processes that compile kernels that run once.
pub(crate) const MAX_QUICK_COMPILERS: usize = 4;

/// Compiles kernels for GPUs, keeps them, and has the processes that run them.
pub(crate) struct CudaKernels {
    compiler: Sandboxes,
    /// Of kernels that run once.
    quick_compilers: Sandboxes,
    /// Of sources of clients.
    source_compiler: Sandboxes,
    gpus: Vec<Gpu>,
    /// Why there is no GPU for kernels.
    reason: String,
    memory: Limit,
    kept: Arc<Mutex<Kept<CudaKernel>>>,
    account: Account,
}

/// A GPU that runs kernels.
pub(crate) struct Gpu {
    pub(crate) processes: Sandboxes,
    /// The process of an evaluation of CUDA C++.
    pub(crate) evaluators: Sandboxes,
    pub(crate) properties: GpuProperties,
}

/// A kernel compiled for an architecture.
#[derive(Debug)]
pub(crate) struct CudaKernel {
    key: CudaKernelKey,
    pub(crate) arch: Arch,
    /// Code that a GPU loads.
    pub(crate) image: Module,
    pub(crate) ptx: String,
    pub(crate) resources: Option<CudaResources>,
}

/// SHA-256 of the source, and the compute capability.
type CudaKernelKey = ([u8; 32], (u32, u32));

impl CacheEntry for CudaKernel {
    type Key = CudaKernelKey;

    fn key(&self) -> &CudaKernelKey {
        &self.key
    }

    fn size_bytes(&self) -> u64 {
        (self.image.binary().len() + self.ptx.len() + size_of::<Self>()) as u64
    }
}

impl CudaKernels {
    /// No process starts before it is needed. `sandboxes` count what happens to the processes; `fallback` says why the daemon has no GPU.
    pub(crate) fn new(
        config: &Config,
        ledger: &Ledger,
        sandboxes: &Sandboxes,
        (devices, fallback): (&[Device], Option<&str>),
    ) -> Self {
        let (gpus, reason) = match config.sandbox.gpu {
            SandboxGpu::Off => (vec![], "sandbox.gpu is off".to_owned()),
            SandboxGpu::Auto => {
                let reason = fallback.unwrap_or("the daemon uses no GPU").to_owned();
                (devices.iter().filter_map(ordinal_of).filter_map(found).collect(), reason)
            }
            SandboxGpu::Ordinal(ordinal) => {
                (found(ordinal).into_iter().collect(), format!("sandbox.gpu: there is no GPU {ordinal}"))
            }
        };
        let gpu = |(ordinal, properties)| Gpu {
            processes: sandboxes.for_gpu(config, ledger, ordinal),
            evaluators: sandboxes.for_cuda_subjects(config, ledger, ordinal),
            properties,
        };
        let limits = &config.limits;
        Self {
            compiler: sandboxes.for_cuda_compiler(config, ledger, false),
            quick_compilers: sandboxes.for_quick_cuda_compilers(config, ledger, MAX_QUICK_COMPILERS),
            source_compiler: sandboxes.for_cuda_compiler(config, ledger, true),
            gpus: gpus.into_iter().map(gpu).collect(),
            reason,
            memory: Limit { bytes: config.sandbox.gpu_memory.as_u64(), setting: "sandbox.gpu_memory" },
            kept: Arc::new(Mutex::new(Kept::new(limits.max_kept_kernels, limits.max_kept_kernel_bytes.as_u64()))),
            account: ledger.account(Place::Host, Kind::Sandbox),
        }
    }

    /// The memory of a launch.
    pub(crate) fn memory(&self) -> Limit {
        self.memory
    }

    /// The GPU with the fewest calls.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn gpu(&self) -> Result<&Gpu, ApiError> {
        let least = self.gpus.iter().min_by_key(|gpu| gpu.processes.calls() + gpu.evaluators.calls());
        least.ok_or_else(|| ApiError::NoGpu(self.reason.clone()))
    }

    /// The architecture of a name such as `sm_90`. Without a name, that of a GPU that runs kernels, or else the oldest one.
    pub(crate) fn arch(&self, field: &str, name: &str) -> Result<Arch, ApiError> {
        if name.is_empty() {
            return Ok(self.gpus.first().map_or(OLDEST, |gpu| gpu.properties.arch));
        }
        let arch = name.parse::<Arch>().ok().filter(|_| name.starts_with("sm_"));
        arch.filter(|arch| *arch >= OLDEST)
            .ok_or_else(|| ApiError::invalid(field, format!("expected an architecture from {OLDEST} on, got {name:?}")))
    }

    /// Compiles a kernel for a GPU, unless it is kept.
    ///
    /// # Errors
    /// There is no compiler, it does not know the architecture, or it takes too long or too much memory.
    pub(crate) async fn compile(
        &self,
        code: &DeviceCode,
        arch: Arch,
        context: &Context,
    ) -> Result<Arc<CudaKernel>, ApiError> {
        self.compile_text([prelude(), code.source.clone()].join("\n"), arch, context).await
    }

    /// As [`Self::compile`], for a whole program of generated code.
    pub(crate) async fn compile_text(
        &self,
        source: String,
        arch: Arch,
        context: &Context,
    ) -> Result<Arc<CudaKernel>, ApiError> {
        let key = (Sha256::digest(source.as_bytes()).into(), arch.capability());
        if let Some(kernel) = get(&self.kept, &key) {
            return Ok(kernel);
        }
        let source = Bytes::from(source);
        let kept = Arc::clone(&self.kept);
        let account = self.account.clone();
        let owner = context.principal;
        let job = move |turn: &crate::sandbox::Turn| {
            // The call before may have compiled it.
            if let Some(kernel) = get(&kept, &key) {
                return Ok(kernel);
            }
            let CudaCode { image, ptx, resources } = turn.compile(source, arch.capability(), None)?;
            let kernel = Arc::new(CudaKernel { key, arch, image: Module::new(image), ptx, resources });
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&kernel), owner, &account);
            Ok(kernel)
        };
        self.compiler.run(context, job).await
    }

    /// As [`Self::compile`], for a GPU that runs kernels.
    pub(crate) async fn compile_for(
        &self,
        gpu: &Gpu,
        code: &DeviceCode,
        context: &Context,
    ) -> Result<Arc<CudaKernel>, ApiError> {
        self.compile(code, gpu.properties.arch, context).await
    }

    /// Compiles kernels of different names together, in little time to slower code, which is not kept. Calls share several processes.
    ///
    /// # Errors
    /// As [`Self::compile`], if that is true of one of them.
    pub(crate) async fn compile_together(
        &self,
        codes: &[&DeviceCode],
        arch: Arch,
        (turns, context): (&Turns, &Context),
    ) -> Result<CudaCode, ApiError> {
        let prelude = prelude();
        let sources = std::iter::once(prelude.as_str()).chain(codes.iter().map(|code| code.source.as_str()));
        let source = Bytes::from(sources.collect::<Vec<_>>().join("\n"));
        let job = move |turn: Turn| Ok(turn.compile(source, arch.capability(), None)?);
        turns.run(context, job).await
    }

    /// The turns of a call at the processes of [`Self::compile_together`].
    pub(crate) fn quick_turns(&self) -> Turns {
        self.quick_compilers.turns()
    }

    /// Compiles CUDA C++ of a client, which is not kept.
    ///
    /// # Errors
    /// As [`Self::compile`], or the source is wrong.
    pub(crate) async fn compile_source(
        &self,
        source: Bytes,
        entry: String,
        arch: Arch,
        context: &Context,
    ) -> Result<CudaCode, ApiError> {
        let job = move |turn: &crate::sandbox::Turn| turn.compile(source, arch.capability(), Some(&entry));
        self.source_compiler.run(context, job).await
    }

    /// All groups of processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Sandboxes> {
        let of_gpus = self.gpus.iter().flat_map(|gpu| [&gpu.processes, &gpu.evaluators]);
        [&self.compiler, &self.quick_compilers, &self.source_compiler].into_iter().chain(of_gpus)
    }
}

fn get(kept: &Mutex<Kept<CudaKernel>>, key: &CudaKernelKey) -> Option<Arc<CudaKernel>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner).get(key)
}

fn ordinal_of(device: &Device) -> Option<u32> {
    match device.id() {
        DeviceId::Cuda(ordinal) => Some(ordinal),
        DeviceId::Cpu => None,
    }
}

/// A GPU and its properties, if the driver has it.
fn found(ordinal: u32) -> Option<(u32, GpuProperties)> {
    let properties = GpuProperties::of(ordinal);
    let properties = properties.inspect_err(|reason| tracing::warn!(ordinal, reason, "kernels of clients have no GPU"));
    Some((ordinal, properties.ok()?))
}
