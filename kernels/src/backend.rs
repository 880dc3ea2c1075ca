//! The devices of this machine, and a worker's handle to one.

use std::sync::Arc;

use crate::{
    DeviceId, DeviceInfo, FallbackStats, KernelStats, LossScope, OpError, PoolStats, PreemptionHook, cpu, cuda,
    preemption::Preemption,
};

/// A device of this machine, shared by its workers.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU pool.
    Cpu(Arc<cpu::Pool>),
    /// A GPU.
    Cuda(Arc<cuda::Device>),
}

/// A worker thread's execution context on a device. It is neither shared nor moved between threads.
#[expect(clippy::large_enum_variant, reason = "a few exist for the process's lifetime, and none is moved")]
#[derive(Debug)]
pub enum Backend {
    /// Runs on the CPU pool.
    Cpu(cpu::Worker),
    /// Runs on a stream owned by the worker.
    Cuda(cuda::Worker),
}

impl Device {
    /// Its id.
    pub fn id(&self) -> DeviceId {
        self.info().id
    }

    /// Its fixed properties.
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Cpu(pool) => pool.info(),
            Self::Cuda(device) => device.info(),
        }
    }

    /// State of its memory pool; `None` for the CPU.
    pub fn pool_stats(&self) -> Option<PoolStats> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(device) => Some(device.pool_stats()),
        }
    }

    /// Counters of the kernels that ran on it, by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        match self {
            Self::Cpu(pool) => pool.kernel_stats(),
            Self::Cuda(device) => device.kernel_stats(),
        }
    }

    /// Work that it passed to the CPU, by operation and reason.
    pub fn fallback_stats(&self) -> Vec<FallbackStats> {
        match self {
            Self::Cpu(_) => vec![],
            Self::Cuda(device) => device.fallback_stats(),
        }
    }

    /// Takes a GPU out of service: later calls on it fail at once, as with [`OpError::DeviceLost`]. Nothing on the CPU.
    pub fn mark_lost(&self, scope: LossScope, reason: &str) {
        match self {
            Self::Cpu(_) => {}
            Self::Cuda(device) => device.mark_lost(scope, reason),
        }
    }

    /// Opens a backend for the calling worker thread.
    pub fn open(&self) -> Result<Backend, OpError> {
        match self {
            Self::Cpu(pool) => Ok(Backend::Cpu(cpu::Worker::new(Arc::clone(pool)))),
            Self::Cuda(device) => cuda::Worker::open(Arc::clone(device)).map(Backend::Cuda),
        }
    }

    /// As [`Self::open`], for short work: on a GPU its kernels are scheduled before those of other workers.
    pub fn open_for_short_work(&self) -> Result<Backend, OpError> {
        match self {
            Self::Cpu(_) => self.open(),
            Self::Cuda(device) => {
                cuda::Worker::open_with_priority(Arc::clone(device), cuda::StreamPriority::High).map(Backend::Cuda)
            }
        }
    }
}

impl Backend {
    /// Sets what happens at the preemption points of the operations that it runs.
    pub fn set_preemption(&mut self, hook: PreemptionHook) {
        match self {
            Self::Cpu(worker) => worker.preemption = Preemption::new(hook),
            Self::Cuda(worker) => worker.preemption = Preemption::new(hook),
        }
    }

    /// A preemption point, for an operation outside of this crate: lets other work run if it is due, and fails with
    /// [`OpError::Cancelled`] if no caller awaits the running batch any more.
    pub fn preemption_point(&self) -> Result<(), OpError> {
        match self {
            Self::Cpu(worker) => worker.preemption_point(),
            Self::Cuda(worker) => worker.preemption_point(),
        }
    }

    /// Fails where a CPU pool stands in for a GPU whose memory is full. A GPU finds that out as it allocates.
    #[doc(hidden)]
    pub fn check_memory(&self) -> Result<(), OpError> {
        match self {
            Self::Cpu(worker) => worker.pool().check_memory(),
            Self::Cuda(_) => Ok(()),
        }
    }

    /// Frees idle memory: copies of tensors dropped on the host, graphs that refer to dropped tensors, and unused pool
    /// memory.
    pub fn trim(&self) -> Result<(), OpError> {
        match self {
            // CPU memory is freed on drop.
            Self::Cpu(_) => Ok(()),
            Self::Cuda(worker) => worker.trim(),
        }
    }

    /// The device it runs on.
    pub fn device(&self) -> DeviceId {
        match self {
            Self::Cpu(worker) => worker.pool().info().id,
            Self::Cuda(worker) => worker.device().info().id,
        }
    }
}
