//! Settings of the engine and its lanes, and the context of a request.

use std::time::{Duration, Instant};

#[cfg(not(loom))]
use accelerd_kernels::DeviceId;

/// Settings of the engine as a whole.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads of each GPU, each with its own stream.
    pub cuda_workers: usize,
    /// Worker threads that feed the CPU pool.
    pub cpu_workers: usize,
    /// Maximum number of items admitted and not answered, over all lanes.
    pub max_items: u64,
    /// Maximum number of bytes admitted and not answered, over all lanes.
    pub max_bytes: u64,
    /// A GPU whose launch or slice takes longer than this is lost; zero disables the watchdog.
    pub hang_timeout: Duration,
}

/// Settings of one lane.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Maximum number of items in a batch.
    pub max_batch_items: u64,
    /// Maximum number of bytes in a batch on the CPU.
    pub max_batch_bytes: u64,
    /// Maximum number of bytes in a batch on a GPU.
    pub gpu_max_batch_bytes: u64,
    /// Maximum time that a batch is held open for more requests while a worker is free; zero for none.
    pub max_wait: Duration,
    /// Maximum number of this lane's batches that run at once on a device.
    pub concurrency: usize,
    /// A request that has waited this long precedes all others, whatever their priority.
    pub max_age: Duration,
    /// Requests without a device affinity of at most this many bytes run on the CPU even if there is a GPU; zero for
    /// none.
    pub cpu_max_bytes: u64,
    /// Requests of more than this many bytes are *large*: they have their own queue and batches, and one CPU worker is
    /// reserved for the others. Zero disables the distinction.
    pub large_request_bytes: u64,
}

#[cfg(not(loom))]
impl LaneConfig {
    /// Maximum number of bytes in a batch on a device.
    pub(crate) fn batch_bytes(&self, device: DeviceId) -> u64 {
        match device {
            DeviceId::Cpu => self.max_batch_bytes,
            DeviceId::Cuda(_) => self.gpu_max_batch_bytes,
        }
    }
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Bulk work.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Interactive work.
    High,
}

impl Priority {
    pub(crate) const COUNT: usize = 3;

    /// All levels, most urgent first.
    pub(crate) const DESCENDING: [Self; Self::COUNT] = [Self::High, Self::Normal, Self::Low];

    /// Index into an array with one element per level.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Normal => 1,
            Self::High => 2,
        }
    }
}

/// The context of a request.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// When the caller stops waiting; `None` for never.
    pub deadline: Option<Instant>,
    /// Scheduling priority.
    pub priority: Priority,
    /// The principal; principals of equal priority share fairly. Zero stands for all anonymous callers.
    pub principal: u64,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether every admitted request was answered in time.
    pub complete: bool,
    /// Number of requests that were not.
    pub remaining: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_gpu_batches_have_separate_byte_limits() {
        let config = LaneConfig {
            max_batch_items: 1,
            max_batch_bytes: 2,
            gpu_max_batch_bytes: 3,
            max_wait: Duration::ZERO,
            concurrency: 1,
            max_age: Duration::ZERO,
            cpu_max_bytes: 0,
            large_request_bytes: 0,
        };
        assert_eq!([DeviceId::Cpu, DeviceId::Cuda(0)].map(|device| config.batch_bytes(device)), [2, 3]);
    }
}
