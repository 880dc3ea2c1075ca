//! Settings of the engine and its lanes, and the context of a request.

use std::time::{Duration, Instant};

#[cfg(not(loom))]
use accelerd_kernels::DeviceId;

/// Settings of the engine as a whole.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads of each GPU, each with its own stream. If there are several, one of them runs short batches only.
    pub cuda_workers: usize,
    /// Worker threads that feed the CPU pool. If there are several, one of them runs short batches only.
    pub cpu_workers: usize,
    /// Further worker threads of the CPU, for long batches that are paused while others have their turn.
    pub cpu_paused_batches: usize,
    /// Maximum number of items admitted and not answered, over all lanes.
    pub max_items: u64,
    /// Maximum number of bytes admitted and not answered, over all lanes.
    pub max_bytes: u64,
    /// Time that a batch runs on the CPU before others get their turn.
    pub cpu_slice: Duration,
    /// Time that a batch runs on a GPU before others get their turn.
    pub cuda_slice: Duration,
    /// Time that requests of a kind run on the CPU after a GPU had no memory for one. Then the GPU is tried again. With zero, every
    /// request tries the GPU.
    pub memory_retry: Duration,
    /// A GPU whose launch or slice takes longer than this is lost; zero disables the watchdog.
    pub hang_timeout: Duration,
}

#[cfg(not(loom))]
impl EngineConfig {
    /// Time that a batch runs on a device before others get their turn.
    pub(crate) fn slice(&self, device: DeviceId) -> Duration {
        match device {
            DeviceId::Cpu => self.cpu_slice,
            DeviceId::Cuda(_) => self.cuda_slice,
        }
    }
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
    /// Once a request has waited this long, its priority gets a tenth of the time of higher ones.
    pub max_age: Duration,
    /// Maximum expected time of a batch of several requests.
    pub max_batch_time: Duration,
    /// Requests without a device affinity of at most this many bytes run on the CPU even if there is a GPU; zero for
    /// none.
    pub cpu_max_bytes: u64,
    /// Requests that are expected to take longer than a slice are *large*: they have their own queue and batches, and one
    /// worker never runs them. Until times are known, requests of more than this many bytes are; zero for none.
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

/// Urgency of a request.
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

    /// All levels, in the order of their indices.
    pub(crate) const ASCENDING: [Self; Self::COUNT] = [Self::Low, Self::Normal, Self::High];

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
    /// With whom the call shares its part of what callers take turns at for long: its principal or, if it has none, its connection.
    pub sharer: u64,
    /// The caller asked for the device: where it has no memory, the request fails instead of running on the CPU.
    pub no_cpu_fallback: bool,
    /// A part of a call that follows others: it is refused for its deadline only if it takes too long by itself, since theirs would be
    /// wasted.
    pub is_continuation: bool,
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// True if every admitted request was answered in time.
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
            max_batch_time: Duration::ZERO,
            cpu_max_bytes: 0,
            large_request_bytes: 0,
        };
        assert_eq!([DeviceId::Cpu, DeviceId::Cuda(0)].map(|device| config.batch_bytes(device)), [2, 3]);
    }
}
