//! Plain data of a device: its id, properties and counters, and the settings of discovery.

use std::{fmt, path::PathBuf, sync::Arc};

use accelerd_ledger::{Ledger, Place};

use crate::LoadProgress;

/// Names a device, as in `cpu` or `cuda:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceId {
    /// An NVIDIA GPU, by ordinal.
    Cuda(u32),
    /// The CPU pool.
    Cpu,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl DeviceId {
    /// Where the memory of its tensors is.
    pub fn place(self) -> Place {
        match self {
            Self::Cuda(ordinal) => Place::Cuda(ordinal),
            Self::Cpu => Place::Host,
        }
    }
}

/// Selects the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CUDA if it is usable, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU pool only.
    Cpu,
    /// CUDA; discovery fails if it is unusable.
    Cuda,
}

/// Settings of device discovery.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Backend selection.
    pub choice: Choice,
    /// Threads of the CPU pool; 0 uses the container's CPU quota.
    pub cpu_threads: usize,
    /// CUDA ordinals to use; empty uses all.
    pub cuda_ordinals: Vec<u32>,
    /// Folders searched for libnvrtc and libcublasLt before all others.
    pub cuda_library_paths: Vec<PathBuf>,
    /// Folder of compiled kernels that the installation contains, if it does; it is only read.
    pub installed_kernels: Option<PathBuf>,
    /// Folder of the compiled-kernel cache; `None` compiles the kernels at every start.
    pub kernel_cache: Option<PathBuf>,
    /// Maximum size of the kernel cache.
    pub kernel_cache_bytes: u64,
    /// Maximum size of the part of the kernel cache that has the kernels generated at run time; 0 means unlimited.
    pub jit_cache_bytes: u64,
    /// Maximum size of a GPU's memory pool; 0 means unlimited.
    pub pool_limit_bytes: u64,
    /// The newest compute capability whose kernels are chosen, for comparisons on a newer GPU; `None` is that of the GPU.
    pub max_compute_capability: Option<(u32, u32)>,
    /// Size of each worker's pinned staging buffer.
    pub staging_bytes: usize,
    /// Maximum size of the pinned blocks that the workers of a GPU share for copies concurrent with kernels.
    pub pinned_bytes: usize,
    /// Counts the memory of all devices, and evicts caches where a device has none left.
    pub ledger: Arc<Ledger>,
    /// Shows how many of the built-in kernels of GPUs are loaded.
    pub load_progress: Arc<LoadProgress>,
}

/// Fixed properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its id.
    pub id: DeviceId,
    /// Product name.
    pub product: String,
    /// CUDA compute capability (major, minor); `None` for the CPU.
    pub compute_capability: Option<(u32, u32)>,
    /// Multiprocessors of a GPU, or threads of the CPU pool.
    pub compute_units: u32,
    /// Total memory.
    pub memory_bytes: u64,
}

/// State of a device's memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes currently allocated.
    pub used_bytes: u64,
    /// Bytes reserved from the driver.
    pub reserved_bytes: u64,
    /// High-water mark of `used_bytes`.
    pub peak_bytes: u64,
    /// Limit of `reserved_bytes`; 0 means unlimited.
    pub limit_bytes: u64,
    /// Allocations since the start.
    pub allocations: u64,
}

/// Launch count and device time of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelStats {
    /// Kernel name.
    pub name: &'static str,
    /// Launches since the start.
    pub calls: u64,
    /// Device time in nanoseconds: the sum over the sampled launches, scaled to all launches.
    pub nanos: u64,
    /// Bytes that the launches read and wrote at least; 0 for kernels that do not count them.
    pub moved_bytes: u64,
}

/// Work that a device passed to the CPU because it could not compute it exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackStats {
    /// The operation.
    pub op: &'static str,
    /// Reason.
    pub reason: &'static str,
    /// Items since the start, as the operation counts them.
    pub items: u64,
    /// Bytes of these items.
    pub bytes: u64,
}
