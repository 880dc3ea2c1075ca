//! Requests that run on the CPU because their GPU has no memory for them: another process may hold it. They are counted and
//! logged, and for a while requests of their kind go to the CPU directly.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, OpError, Size};

/// Time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The most kinds of requests that a lane avoids a GPU for.
const MAX_KINDS: usize = 1024;

/// Requests of a lane that ran on the CPU because a GPU had no memory for them, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuFallback {
    /// The operation.
    pub lane: &'static str,
    /// The GPU.
    pub device: DeviceId,
    /// Requests.
    pub requests: u64,
    /// Their items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl CpuFallback {
    /// The label of metrics.
    pub const REASON: &str = "out_of_memory";
}

/// An allocation that a GPU had no memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) device: DeviceId,
    pub(crate) requested: u64,
    pub(crate) free: u64,
}

impl Shortage {
    /// The shortage that an error of a GPU reports.
    pub(crate) fn of(error: &OpError) -> Option<Self> {
        match *error {
            OpError::OutOfMemory { device: device @ DeviceId::Cuda(_), requested, free } => {
                Some(Self { device, requested, free })
            }
            OpError::OutOfMemory { device: DeviceId::Cpu, .. }
            | OpError::MemoryLimit(_)
            | OpError::Invalid(_)
            | OpError::IndexOutOfRange { .. }
            | OpError::Failed { .. }
            | OpError::DeviceLost { .. }
            | OpError::Cancelled => None,
        }
    }
}

/// The fallbacks of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: BTreeMap<(&'static str, DeviceId), CpuFallback>,
    logged: Option<Instant>,
    /// Since the last line of the log.
    unlogged: u64,
}

impl Fallbacks {
    /// Counts a request. The log gets a line a minute at most.
    pub(crate) fn record(&self, now: Instant, lane: &'static str, size: Size, shortage: Shortage) {
        let Shortage { device, requested, free } = shortage;
        let mut inner = lock(&self.inner);
        inner.add(lane, device, size);
        if let Some(count) = inner.due(now) {
            drop(inner);
            tracing::warn!(
                lane,
                %device,
                requested,
                free,
                count,
                "a GPU has no memory for requests, which run on the CPU"
            );
        }
    }

    /// The counts by lane and GPU.
    pub(crate) fn counts(&self) -> Vec<CpuFallback> {
        lock(&self.inner).counts.values().copied().collect()
    }
}

impl Inner {
    fn add(&mut self, lane: &'static str, device: DeviceId, size: Size) {
        let none = CpuFallback { lane, device, requests: 0, items: 0, bytes: 0 };
        let count = self.counts.entry((lane, device)).or_insert(none);
        count.requests += 1;
        count.items += size.items;
        count.bytes = count.bytes.saturating_add(size.bytes);
        self.unlogged += 1;
    }

    /// The requests since the last line, if another is due.
    fn due(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.logged.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL);
        is_due.then(|| {
            self.logged = Some(now);
            std::mem::take(&mut self.unlogged)
        })
    }
}

/// The kinds of requests, by their keys, that a GPU had no memory for a moment ago. An attempt may allocate gigabytes before it
/// fails, so not every request makes one.
#[derive(Debug)]
pub(crate) struct MemoryBackoff<K> {
    interval: Duration,
    /// True if there are any.
    is_active: AtomicBool,
    kinds: Mutex<HashMap<K, Avoided>>,
}

#[derive(Clone, Copy, Debug)]
struct Avoided {
    until: Instant,
    /// Requests of at least this size.
    from_bytes: u64,
    shortage: Shortage,
}

impl<K: Clone + Eq + Hash> MemoryBackoff<K> {
    /// None yet. A GPU is tried again after `interval`.
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, is_active: AtomicBool::new(false), kinds: Mutex::default() }
    }

    /// Records that there was no memory for a request of this kind and size.
    pub(crate) fn record(&self, now: Instant, key: K, bytes: u64, shortage: Shortage) {
        if self.interval.is_zero() {
            return;
        }
        let mut kinds = lock(&self.kinds);
        kinds.retain(|_, avoided| avoided.until > now);
        let from_bytes = kinds.get(&key).map_or(bytes, |avoided| avoided.from_bytes.min(bytes));
        if kinds.len() < MAX_KINDS || kinds.contains_key(&key) {
            kinds.insert(key, Avoided { until: now + self.interval, from_bytes, shortage });
            self.is_active.store(true, SeqCst);
        }
    }

    /// Returns true if there may be any. Costs one load.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(SeqCst)
    }

    /// The shortage that a request would meet again, as far as that is known.
    pub(crate) fn shortage(&self, now: Instant, key: &K, bytes: u64) -> Option<Shortage> {
        let mut kinds = lock(&self.kinds);
        kinds.retain(|_, avoided| avoided.until > now);
        self.is_active.store(!kinds.is_empty(), SeqCst);
        let avoided = kinds.get(key)?;
        (bytes >= avoided.from_bytes).then_some(avoided.shortage)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTAGE: Shortage = Shortage { device: DeviceId::Cuda(1), requested: 500, free: 300 };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_log_gets_a_line_a_minute_with_the_requests_since_the_last() {
        let mut inner = Inner::default();
        let start = Instant::now();
        let lines: Vec<_> = (0..200_u32)
            .filter_map(|second| {
                inner.add("search", DeviceId::Cuda(0), Size { items: 2, bytes: 10 });
                inner.due(start + second * SECOND)
            })
            .collect();
        assert_eq!(lines, [1, 60, 60, 60]);
        let counted = CpuFallback { lane: "search", device: DeviceId::Cuda(0), requests: 200, items: 400, bytes: 2000 };
        assert_eq!(inner.counts.into_values().collect::<Vec<_>>(), [counted]);
    }

    #[test]
    fn requests_of_a_kind_avoid_the_gpu_until_the_interval_is_over_unless_they_are_smaller() {
        let backoff = MemoryBackoff::new(2 * SECOND);
        let start = Instant::now();
        let met = |after, key: u32, bytes| backoff.shortage(start + after, &key, bytes);
        assert_eq!(met(Duration::ZERO, 1, u64::MAX), None);
        backoff.record(start, 1, 100, SHORTAGE);
        assert_eq!((met(SECOND, 1, 100), met(SECOND, 1, 99)), (Some(SHORTAGE), None));
        assert_eq!(met(SECOND, 2, 100), None, "another kind");
        backoff.record(start + SECOND, 1, 50, SHORTAGE);
        backoff.record(start + SECOND, 1, 80, SHORTAGE);
        assert_eq!((met(SECOND, 1, 50), met(3 * SECOND, 1, 50)), (Some(SHORTAGE), None));
        assert!(!backoff.is_active(), "later requests take no lock");
    }

    #[test]
    fn without_an_interval_every_request_tries_the_gpu() {
        let backoff = MemoryBackoff::new(Duration::ZERO);
        let now = Instant::now();
        backoff.record(now, 1, 1, SHORTAGE);
        assert_eq!(backoff.shortage(now, &1, 1), None);
    }

    #[test]
    fn the_kinds_that_avoid_a_gpu_are_bounded() {
        let backoff = MemoryBackoff::new(SECOND);
        let now = Instant::now();
        (0..2 * MAX_KINDS).for_each(|key| backoff.record(now, key, 1, SHORTAGE));
        assert_eq!(lock(&backoff.kinds).len(), MAX_KINDS);
        assert_eq!(backoff.shortage(now, &0, 1), Some(SHORTAGE));
        assert_eq!(backoff.shortage(now, &(2 * MAX_KINDS - 1), 1), None);
    }

    #[test]
    fn only_a_gpus_memory_is_short() {
        let of = |device| Shortage::of(&OpError::OutOfMemory { device, requested: 500, free: 300 });
        assert_eq!((of(DeviceId::Cuda(1)), of(DeviceId::Cpu)), (Some(SHORTAGE), None));
        assert_eq!(Shortage::of(&OpError::Cancelled), None);
    }
}
