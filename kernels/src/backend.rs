//! The devices of this machine, how they are found, and the worker's view of one.

use std::{fmt, path::PathBuf, sync::Arc};

use crate::{DiscoverError, OpError, cpu, cuda};

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

/// Which backend to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CUDA where it works, else the CPU.
    #[default]
    Auto,
    /// The CPU pool only.
    Cpu,
    /// CUDA, or an error.
    Cuda,
}

/// What device discovery needs to know.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which backend to use.
    pub choice: Choice,
    /// Threads of the CPU pool; 0 takes the container's CPU quota.
    pub cpu_threads: usize,
    /// CUDA ordinals to use; empty takes all.
    pub cuda_ordinals: Vec<u32>,
    /// Folders with libnvrtc and libcublasLt, where the loader does not find them by itself.
    pub cuda_library_paths: Vec<PathBuf>,
    /// Folder of the compiled-kernel cache; `None` compiles anew at each start.
    pub kernel_cache: Option<PathBuf>,
    /// Most bytes the kernel cache may hold.
    pub kernel_cache_bytes: u64,
    /// Most bytes the memory pool of a GPU may take; 0 means no cap.
    pub pool_limit_bytes: u64,
    /// Bytes of each worker's pinned staging buffer.
    pub staging_bytes: usize,
    /// Most bytes of pinned blocks that the workers of a GPU share for what they copy beside their kernels.
    pub pinned_bytes: usize,
}

/// What is known of a device from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name here.
    pub id: DeviceId,
    /// The product's name.
    pub product: String,
    /// CUDA compute capability.
    pub compute_capability: Option<(u32, u32)>,
    /// Multiprocessors, or threads of the CPU pool.
    pub units: u32,
    /// All memory.
    pub memory_bytes: u64,
}

/// State of a device's memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Handed out now.
    pub used_bytes: u64,
    /// Taken from the driver.
    pub reserved_bytes: u64,
    /// Most that was ever handed out.
    pub peak_bytes: u64,
    /// Most it may take; 0 means no cap.
    pub limit_bytes: u64,
    /// Allocations since the start.
    pub allocations: u64,
}

/// How often a kernel ran on a device, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelStats {
    /// Its name.
    pub name: &'static str,
    /// Launches since the start.
    pub calls: u64,
    /// Device time, summed over the launches that were timed and scaled to all of them.
    pub nanos: u64,
}

/// Work that a device left to the CPU because it could not finish it exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftStats {
    /// The operation.
    pub op: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Items since the start, as the operation counts them.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A device of this machine, shared by its workers.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU pool.
    Cpu(Arc<cpu::Pool>),
    /// A GPU.
    Cuda(Arc<cuda::Device>),
}

/// What one worker thread computes with. Not shared, and never leaves its thread.
#[expect(clippy::large_enum_variant, reason = "a few live as long as the process, and none is moved")]
#[derive(Debug)]
pub enum Backend {
    /// Runs on the CPU pool.
    Cpu(cpu::Worker),
    /// Runs on a stream of its own.
    Cuda(cuda::Worker),
}

/// The devices found.
#[derive(Debug)]
pub struct Discovered {
    /// GPUs by ordinal, then the CPU pool.
    pub devices: Vec<Device>,
    /// Why there is no GPU among them, if there is none.
    pub fallback: Option<String>,
}

/// Finds the devices of this machine. Never panics where a driver or library is missing: that is the fallback's reason.
pub fn discover(settings: &Settings) -> Result<Discovered, DiscoverError> {
    let pool = cpu::Pool::start(settings.cpu_threads).map_err(DiscoverError::Cpu)?;
    let (mut devices, fallback) = match settings.choice {
        Choice::Cpu => (vec![], Some("backend is \"cpu\"".to_owned())),
        Choice::Auto => match cuda::discover(settings, &pool) {
            Ok(found) => (found, None),
            Err(reason) => (vec![], Some(reason)),
        },
        Choice::Cuda => (cuda::discover(settings, &pool).map_err(DiscoverError::NoCuda)?, None),
    };
    let mut devices: Vec<_> = devices.drain(..).map(Device::Cuda).collect();
    devices.push(Device::Cpu(pool));
    Ok(Discovered { devices, fallback })
}

impl Device {
    /// Its name.
    pub fn id(&self) -> DeviceId {
        self.info().id
    }

    /// What is known of it from the start.
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Cpu(pool) => pool.info(),
            Self::Cuda(device) => device.info(),
        }
    }

    /// Its memory pool, if it has one.
    pub fn pool_stats(&self) -> Option<PoolStats> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(device) => Some(device.pool_stats()),
        }
    }

    /// The kernels that ran on it, by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        match self {
            Self::Cpu(pool) => pool.kernel_stats(),
            Self::Cuda(device) => device.kernel_stats(),
        }
    }

    /// What it left to the CPU, by operation and reason.
    pub fn left_stats(&self) -> Vec<LeftStats> {
        match self {
            Self::Cpu(_) => vec![],
            Self::Cuda(device) => device.left_stats(),
        }
    }

    /// Makes a worker's backend; called on the worker's own thread.
    pub fn open(&self) -> Result<Backend, OpError> {
        match self {
            Self::Cpu(pool) => Ok(Backend::Cpu(cpu::Worker::new(Arc::clone(pool)))),
            Self::Cuda(device) => cuda::Worker::open(Arc::clone(device)).map(Backend::Cuda),
        }
    }
}

impl Backend {
    /// Gives back memory that nobody needs any more: copies of what is gone on the host, recorded launches of what is gone,
    /// and what the pool holds unused.
    pub fn give_back(&self) -> Result<(), OpError> {
        match self {
            // Its memory is the process's own, and was freed when it was dropped.
            Self::Cpu(_) => Ok(()),
            Self::Cuda(worker) => worker.give_back(),
        }
    }

    /// The device it runs on.
    pub fn device(&self) -> DeviceId {
        match self {
            Self::Cpu(_) => DeviceId::Cpu,
            Self::Cuda(worker) => worker.device().info().id,
        }
    }
}
