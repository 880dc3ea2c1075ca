//! Loaded kernels with their call counts and times, and counters of CPU fallbacks.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use cudarc::driver::sys::{self, CUresult};

use super::driver::{self, event};
use crate::{FallbackStats, KernelStats};

/// The first launches of a kernel are all timed, then one in `EVERY`.
const FIRST: u64 = 8;
const EVERY: u64 = 32;
/// Maximum number of pending timings; further launches are not timed.
const MAX_PENDING: usize = 256;

/// A kernel on one device.
pub(super) struct Function {
    /// The driver's handle, as an integer because pointers are not `Send`.
    handle: usize,
    /// Current limit of dynamic shared memory.
    pub(super) shared_bytes: AtomicU32,
    /// Held while the limit is raised, so that no worker lowers what another one set.
    pub(super) raising: Mutex<()>,
    /// Maximum number of active clusters; 0 before the first query.
    pub(super) clusters: AtomicU32,
    counter: Arc<LaunchCounter>,
}

impl Function {
    pub(super) fn new(counter: Arc<LaunchCounter>, handle: sys::CUfunction) -> Self {
        Self {
            handle: handle as usize,
            shared_bytes: AtomicU32::new(48 << 10),
            raising: Mutex::default(),
            clusters: AtomicU32::new(0),
            counter,
        }
    }

    /// Name in errors and statistics: the kernel's, or the template's of generated kernels.
    pub(super) fn name(&self) -> &'static str {
        self.counter.name
    }

    pub(super) fn handle(&self) -> sys::CUfunction {
        self.handle as sys::CUfunction
    }

    pub(super) fn counter(&self) -> &Arc<LaunchCounter> {
        &self.counter
    }
}

/// Counts and times launches under one name.
pub(super) struct LaunchCounter {
    name: &'static str,
    calls: AtomicU64,
    timed: AtomicU64,
    nanos: AtomicU64,
    moved_bytes: AtomicU64,
}

impl LaunchCounter {
    pub(super) fn new(name: &'static str) -> Arc<Self> {
        let (calls, timed, nanos, moved_bytes) = Default::default();
        Arc::new(Self { name, calls, timed, nanos, moved_bytes })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Counts a launch, and the bytes that it moves; returns whether to time it.
    fn count(&self, moved_bytes: u64) -> bool {
        self.moved_bytes.fetch_add(moved_bytes, Relaxed);
        let before = self.calls.fetch_add(1, Relaxed);
        before < FIRST || before.is_multiple_of(EVERY)
    }

    /// Counts a launch as part of a graph, which is not timed.
    pub(super) fn count_replay(&self, moved_bytes: u64) {
        self.moved_bytes.fetch_add(moved_bytes, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    fn add(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Relaxed);
        self.timed.fetch_add(1, Relaxed);
    }

    /// Statistics; `None` if nothing was launched.
    pub(super) fn stats(&self) -> Option<KernelStats> {
        let calls = self.calls.load(Relaxed);
        let timed = self.timed.load(Relaxed);
        let scaled = u128::from(self.nanos.load(Relaxed)) * u128::from(calls) / u128::from(timed.max(1));
        let nanos = u64::try_from(scaled).unwrap_or(u64::MAX);
        let moved_bytes = self.moved_bytes.load(Relaxed);
        (calls > 0).then_some(KernelStats { name: self.name, calls, nanos, moved_bytes })
    }
}

/// Launch counters of the templates of generated kernels, and of libraries. They outlive the
/// kernels that they count.
#[derive(Default)]
pub(super) struct LaunchCounters(Mutex<BTreeMap<&'static str, Arc<LaunchCounter>>>);

impl LaunchCounters {
    pub(super) fn get(&self, name: &'static str) -> Arc<LaunchCounter> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(counters.entry(name).or_insert_with(|| LaunchCounter::new(name)))
    }

    pub(super) fn stats(&self) -> Vec<KernelStats> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.values().filter_map(|counter| counter.stats()).collect()
    }
}

/// Items and bytes that a device's operations finished on the CPU, by operation and reason. Each item takes the lock once,
/// which costs far less than the item.
#[derive(Default)]
pub(crate) struct FallbackCounters(Mutex<BTreeMap<OpReason, (u64, u64)>>);

/// An operation and a reason.
type OpReason = (&'static str, &'static str);

impl FallbackCounters {
    /// Counts an item of an operation.
    pub(crate) fn count(&self, op: &'static str, reason: &'static str, bytes: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = counts.entry((op, reason)).or_default();
        *entry = (entry.0 + 1, entry.1.saturating_add(bytes));
    }

    pub(crate) fn stats(&self) -> Vec<FallbackStats> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(&(op, reason), &(items, bytes))| FallbackStats { op, reason, items, bytes }).collect()
    }
}

/// A worker's timings: pairs of events around some launches, read once both are done.
#[derive(Default)]
pub(super) struct Timers {
    /// True if all launches are timed.
    pub(super) is_timing_all: bool,
    free: Vec<(sys::CUevent, sys::CUevent)>,
    pending: VecDeque<Timing>,
}

struct Timing {
    counter: Arc<LaunchCounter>,
    start: sys::CUevent,
    stop: sys::CUevent,
}

impl Timers {
    /// Calls `launch`, which moves these bytes, and times it if it is sampled or all are timed.
    pub(super) fn around<E>(
        &mut self,
        counter: &Arc<LaunchCounter>,
        moved_bytes: u64,
        stream: sys::CUstream,
        launch: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !counter.count(moved_bytes) && !self.is_timing_all {
            return launch();
        }
        self.collect();
        let Some((start, stop)) = self.pair() else { return launch() };
        // SAFETY: the events and the stream are alive and of the current context.
        let started = unsafe { sys::cuEventRecord(start, stream) };
        let result = launch();
        // SAFETY: as above.
        let stopped = unsafe { sys::cuEventRecord(stop, stream) };
        let recorded = [started, stopped] == [CUresult::CUDA_SUCCESS; 2];
        if recorded && result.is_ok() {
            self.pending.push_back(Timing { counter: Arc::clone(counter), start, stop });
        } else {
            self.free.push((start, stop));
        }
        result
    }

    /// Reads the timings that are done, without waiting.
    pub(super) fn collect(&mut self) {
        while let Some(first) = self.pending.front() {
            // SAFETY: the event is alive; the call does not block.
            if unsafe { sys::cuEventQuery(first.stop) } != CUresult::CUDA_SUCCESS {
                return;
            }
            if let Some(ms) = driver::elapsed_ms(first.start, first.stop) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, not negative")]
                first.counter.add((f64::from(ms) * 1e6) as u64);
            }
            self.free.push((first.start, first.stop));
            self.pending.pop_front();
        }
    }

    /// Two unused events, unless the driver fails or too many are pending.
    fn pair(&mut self) -> Option<(sys::CUevent, sys::CUevent)> {
        if let Some(pair) = self.free.pop() {
            return Some(pair);
        }
        let more = self.pending.len() < MAX_PENDING;
        let start = more.then(|| event(sys::CUevent_flags::CU_EVENT_DEFAULT).ok())??;
        let stop = event(sys::CUevent_flags::CU_EVENT_DEFAULT).ok()?;
        Some((start, stop))
    }

    /// Destroys the events; the stream was synchronised.
    pub(super) fn destroy(&mut self) {
        let pending = self.pending.drain(..).map(|timing| (timing.start, timing.stop));
        for (start, stop) in self.free.drain(..).chain(pending) {
            // SAFETY: created by `event`, destroyed once, and nothing waits for them.
            unsafe {
                let _ = sys::cuEventDestroy_v2(start);
                let _ = sys::cuEventDestroy_v2(stop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_counted_by_operation_and_reason() {
        let counters = FallbackCounters::default();
        for (op, reason, bytes) in [("b", "x", 1), ("a", "y", 2), ("b", "x", 3)] {
            counters.count(op, reason, bytes);
        }
        let counted: Vec<_> = counters.stats().into_iter().map(|s| (s.op, s.reason, s.items, s.bytes)).collect();
        assert_eq!(counted, [("a", "y", 1, 2), ("b", "x", 2, 4)]);
    }

    #[test]
    fn times_are_scaled_to_all_launches() {
        let counter = LaunchCounter::new("k");
        assert_eq!(counter.stats(), None);
        let timed = (0..65).filter(|_| counter.count(2)).count();
        assert_eq!(timed, 10, "the first eight, the 33rd and the 65th");
        (0..timed).for_each(|_| counter.add(100));
        let stats = KernelStats { name: "k", calls: 65, nanos: 6500, moved_bytes: 130 };
        assert_eq!(counter.stats(), Some(stats));
    }

    #[test]
    fn kernels_of_one_template_share_a_counter() {
        let counters = LaunchCounters::default();
        counters.get("unused");
        let functions = [0, 1].map(|_| Function::new(counters.get("tensor_elementwise"), std::ptr::null_mut()));
        for function in &functions {
            function.counter().count_replay(3);
        }
        let named: Vec<_> =
            counters.stats().into_iter().map(|stats| (stats.name, stats.calls, stats.moved_bytes)).collect();
        assert_eq!(named, [("tensor_elementwise", 2, 6)]);
    }
}
