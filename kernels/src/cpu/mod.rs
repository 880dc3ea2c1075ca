//! The CPU backend: a rayon pool sized by the container's CPU quota, and the vector kernels that run on it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use crate::{DeviceId, DeviceInfo, KernelStats, OpError, preemption::Preemption};

#[cfg(target_arch = "x86_64")]
mod amx;
pub(crate) mod f64_sums;
pub(crate) mod gemm;
pub(crate) mod gemm_bf16;
mod info;
pub(crate) mod math;
pub(crate) mod observe;
pub(crate) mod pace;
pub(crate) mod simd;
pub(crate) mod slices;

/// The threads that CPU work runs on.
pub struct Pool {
    threads: rayon::ThreadPool,
    info: DeviceInfo,
    /// Calls and nanoseconds by kernel name. Locked once per kernel and batch, never inside a kernel.
    kernels: Mutex<BTreeMap<&'static str, KernelStats>>,
    reservations: AtomicUsize,
    /// True for a stand-in of a GPU whose memory is full.
    is_full: AtomicBool,
}

/// A reservation of the pool's threads for long work; dropping it releases them.
#[derive(Debug)]
pub struct Reservation<'a>(&'a Pool);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.reservations.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts a pool of `threads` threads; 0 means as many as the container may use.
    pub fn start(threads: usize) -> Result<Arc<Self>, String> {
        Self::stand_in(DeviceId::Cpu, threads)
    }

    /// As [`Self::start`], under another id, for tests of the loss of GPUs that run without one.
    #[doc(hidden)]
    pub fn stand_in(id: DeviceId, threads: usize) -> Result<Arc<Self>, String> {
        // The standard library considers the CPU quota of the control group as well as the affinity mask.
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) } else { threads };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|e| e.to_string())?;
        let info = DeviceInfo {
            id,
            product: info::product(),
            compute_capability: None,
            compute_units: u32::try_from(threads).unwrap_or(u32::MAX),
            memory_bytes: info::memory_bytes(),
        };
        let reservations = AtomicUsize::new(0);
        let is_full = AtomicBool::new(false);
        Ok(Arc::new(Self { threads: pool, info, kernels: Mutex::default(), reservations, is_full }))
    }

    /// Sets whether the memory of the GPU that the pool stands in for is full. The pool launches nothing while it is.
    #[doc(hidden)]
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, SeqCst);
    }

    /// Fails if the memory of the GPU that it stands in for is full.
    pub(crate) fn check_memory(&self) -> Result<(), OpError> {
        let full = OpError::OutOfMemory { device: self.info.id, requested: 0, free: 0 };
        if self.is_full.load(SeqCst) { Err(full) } else { Ok(()) }
    }

    /// The CPU as a device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Runs `work` on the pool's threads and waits for it.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let mut work = Some(work);
        let mut done = None;
        self.install_dyn(&mut || done = work.take().map(|work| work()));
        done.expect("the pool runs the work once")
    }

    /// As [`Self::install`]. The code of rayon exists once for all work, not once for each closure, which doubled the code that the crate compiles.
    fn install_dyn(&self, work: &mut (dyn FnMut() + Send)) {
        self.threads.install(work);
    }

    /// Runs `work` on the calling thread and the tasks it spawns on the pool's threads; waits for both.
    pub fn scope<'s, R>(&self, work: impl FnOnce(&rayon::Scope<'s>) -> R) -> R {
        let mut work = Some(work);
        let mut done = None;
        self.scope_dyn(&mut |scope| done = work.take().map(|work| work(scope)));
        done.expect("the pool runs the work once")
    }

    fn scope_dyn<'s>(&self, work: &mut dyn FnMut(&rayon::Scope<'s>)) {
        self.threads.in_place_scope(work);
    }

    /// Runs `work` concurrently `parts` times and returns the results in no particular order. One run takes place on
    /// the calling thread, which does not wait for a pool thread to wake; the others run on the pool's threads.
    pub fn run_parallel<R: Send>(&self, parts: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
        let done = Mutex::new(Vec::with_capacity(parts));
        self.run_parallel_dyn(parts, &|| {
            let result = work();
            done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_parallel_dyn(&self, parts: usize, run: &(dyn Fn() + Sync)) {
        self.scope(|scope| {
            (1..parts).for_each(|_| scope.spawn(|_| run()));
            run();
        });
    }

    /// Runs `work` on the pool's threads without waiting for it.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn(work);
    }

    /// Marks the threads as taken by long work until the reservation is dropped. Short work then runs elsewhere.
    pub fn reserve(&self) -> Reservation<'_> {
        self.reservations.fetch_add(1, SeqCst);
        Reservation(self)
    }

    /// Returns true if long work has reserved the threads.
    pub fn is_reserved(&self) -> bool {
        self.reservations.load(SeqCst) > 0
    }

    /// Runs `work` on the pool's threads and records it as a call of the kernel `name`.
    pub fn time<R: Send>(&self, name: &'static str, work: impl FnOnce() -> R + Send) -> R {
        self.time_inline(name, || self.install(work))
    }

    /// Runs `work` on the calling thread and records it as a call of the kernel `name`.
    pub fn time_inline<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        self.time_moving(name, 0, work)
    }

    /// As [`Self::time_inline`], of work that reads and writes these bytes.
    pub fn time_moving<R>(&self, name: &'static str, moved_bytes: u64, work: impl FnOnce() -> R) -> R {
        let _observed = observe::begin(name);
        let start = Instant::now();
        let done = work();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = kernels.entry(name).or_insert(KernelStats { name, calls: 0, nanos: 0, moved_bytes: 0 });
        stats.calls += 1;
        stats.nanos = stats.nanos.saturating_add(nanos);
        stats.moved_bytes = stats.moved_bytes.saturating_add(moved_bytes);
        done
    }

    /// Calls, total time and bytes of each kernel that ran, ordered by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.values().cloned().collect()
    }
}

/// An engine worker on the CPU backend.
#[derive(Debug)]
pub struct Worker {
    pool: Arc<Pool>,
    pub(crate) preemption: Preemption,
}

impl Worker {
    /// A worker on the pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool, preemption: Preemption::default() }
    }

    /// Lets other work run if it is due; fails if no caller awaits the running batch any more. Operations call it between
    /// slices of about 10 ms, outside of the pool's threads.
    pub(crate) fn preemption_point(&self) -> Result<(), OpError> {
        self.preemption.point()
    }

    /// The pool that runs this worker's kernels.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_work_runs_once_per_part_and_once_on_the_caller() {
        let pool = Pool::start(2).expect("two threads");
        let here = std::thread::current().id();
        for parts in [1, 2, 5] {
            let ran = pool.run_parallel(parts, || std::thread::current().id());
            assert_eq!(ran.len(), parts);
            assert_eq!(ran.iter().filter(|id| **id == here).count(), 1);
        }
    }

    #[test]
    fn kernels_are_counted_by_name() {
        let pool = Pool::start(2).expect("two threads");
        assert_eq!(pool.threads(), 2);
        assert_eq!(pool.time("b", || 7), 7);
        pool.time("a", || ());
        pool.time("b", || ());
        let stats: Vec<_> = pool.kernel_stats().into_iter().map(|s| (s.name, s.calls)).collect();
        assert_eq!(stats, [("a", 1), ("b", 2)]);
    }
}
