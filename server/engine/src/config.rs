//! What the engine and its callers are told.

use std::time::{Duration, Instant};

#[cfg(not(loom))]
use accelerd_kernels::DeviceId;

/// Settings of the engine as a whole.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads (streams) of each GPU.
    pub cuda_workers: usize,
    /// Worker threads that feed the CPU pool.
    pub cpu_workers: usize,
    /// Most items admitted and not answered, over all lanes.
    pub max_items: u64,
    /// Most bytes admitted and not answered, over all lanes.
    pub max_bytes: u64,
}

/// Settings of one lane.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Most items in a batch.
    pub max_batch_items: u64,
    /// Most bytes in a batch on the CPU.
    pub max_batch_bytes: u64,
    /// Most bytes in a batch on a GPU.
    pub gpu_max_batch_bytes: u64,
    /// Longest that an open batch may wait for joiners while a worker is free; zero never waits.
    pub max_wait: Duration,
    /// Batches of this lane that one device runs at once.
    pub concurrency: usize,
    /// Requests whose key was passed over this long go before all others.
    pub max_age: Duration,
    /// Stateless requests of at most this many bytes run on the CPU pool although there is a GPU; zero never.
    pub cpu_below_bytes: u64,
    /// Requests of more than this many bytes are *long*: they queue apart, share no batch with others, and leave one
    /// worker of the CPU to those; zero: none is.
    pub long_above_bytes: u64,
}

#[cfg(not(loom))]
impl LaneConfig {
    /// Most bytes in a batch on a device.
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
    /// Somebody waits for it.
    High,
}

impl Priority {
    /// How many there are.
    pub(crate) const COUNT: usize = 3;

    /// All of them, the most urgent first.
    pub(crate) const DESCENDING: [Self; Self::COUNT] = [Self::High, Self::Normal, Self::Low];

    /// Its place in an array with one element per level.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Normal => 1,
            Self::High => 2,
        }
    }
}

/// What comes with a request.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// How urgent it is.
    pub priority: Priority,
    /// Whose it is: principals of equal priority share fairly. Zero is everybody without a name.
    pub principal: u64,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Every admitted request was answered in time.
    pub complete: bool,
    /// Requests that were not.
    pub remaining: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_on_a_gpu_has_a_bound_of_its_own() {
        let config = LaneConfig {
            max_batch_items: 1,
            max_batch_bytes: 2,
            gpu_max_batch_bytes: 3,
            max_wait: Duration::ZERO,
            concurrency: 1,
            max_age: Duration::ZERO,
            cpu_below_bytes: 0,
            long_above_bytes: 0,
        };
        assert_eq!([DeviceId::Cpu, DeviceId::Cuda(0)].map(|device| config.batch_bytes(device)), [2, 3]);
    }
}
