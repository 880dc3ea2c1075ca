//! The CPU pool: rayon threads of our own, sized by the container's CPU quota, and the vector kernels that run on them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use crate::{DeviceId, DeviceInfo, KernelStats};

#[cfg(target_arch = "x86_64")]
mod amx;
pub(crate) mod exact;
pub(crate) mod halves;
mod info;
pub(crate) mod math;
pub(crate) mod observe;
pub(crate) mod products;
pub(crate) mod simd;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The threads that CPU work runs on.
pub struct Pool {
    threads: rayon::ThreadPool,
    info: DeviceInfo,
    /// Calls and nanoseconds by name. Locked once for a whole kernel over a batch, never inside one.
    kernels: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    holds: AtomicUsize,
}

/// Long work on a pool, as long as it lives.
#[derive(Debug)]
pub struct Hold<'a>(&'a Pool);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts the pool; 0 threads takes what the container may use.
    pub fn start(threads: usize) -> Result<Arc<Self>, String> {
        // The standard library reads the CPU quota of the control group as well as the affinity mask.
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) } else { threads };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|e| e.to_string())?;
        let info = DeviceInfo {
            id: DeviceId::Cpu,
            product: info::product(),
            compute_capability: None,
            units: u32::try_from(threads).unwrap_or(u32::MAX),
            memory_bytes: info::memory_bytes(),
        };
        Ok(Arc::new(Self { threads: pool, info, kernels: Mutex::default(), holds: AtomicUsize::new(0) }))
    }

    /// What is known of it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Its threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Runs `work` on the pool's threads and waits for it.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.threads.install(work)
    }

    /// Runs `work` on the calling thread, and what it spawns on the pool's threads; waits for both.
    pub fn scope<'s, R>(&self, work: impl FnOnce(&rayon::Scope<'s>) -> R) -> R {
        self.threads.in_place_scope(work)
    }

    /// Runs `work` as many times as `parts` says, at once: once on the calling thread, which need not wait for another to
    /// wake, and else on the pool's threads. What each returns, in no order.
    pub fn side_by_side<R: Send>(&self, parts: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
        let done = Mutex::new(Vec::with_capacity(parts));
        let run = || {
            let one = work();
            done.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        };
        self.scope(|scope| {
            (1..parts).for_each(|_| scope.spawn(|_| run()));
            run();
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the pool's threads, for nobody who waits.
    pub fn later(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn(work);
    }

    /// Says that long work takes the threads until the answer is dropped: short work had better run elsewhere.
    pub fn hold(&self) -> Hold<'_> {
        self.holds.fetch_add(1, SeqCst);
        Hold(self)
    }

    /// Whether long work has the threads.
    pub fn is_held(&self) -> bool {
        self.holds.load(SeqCst) > 0
    }

    /// Runs `work` on the pool's threads and counts it as a call of the kernel `name`.
    pub fn time<R: Send>(&self, name: &'static str, work: impl FnOnce() -> R + Send) -> R {
        self.time_here(name, || self.install(work))
    }

    /// Runs `work` on the calling thread and counts it as a call of the kernel `name`.
    pub fn time_here<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        let _observed = observe::begin(name);
        let start = Instant::now();
        let done = work();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = kernels.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1.saturating_add(nanos));
        done
    }

    /// The kernels that ran, by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.iter().map(|(&name, &(calls, nanos))| KernelStats { name, calls, nanos }).collect()
    }
}

/// What a CPU worker computes with.
#[derive(Debug)]
pub struct Worker {
    pool: Arc<Pool>,
}

impl Worker {
    /// A worker on the pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_side_by_side_runs_as_often_as_it_says_and_once_here() {
        let pool = Pool::start(2).expect("two threads");
        let here = std::thread::current().id();
        for parts in [1, 2, 5] {
            let ran = pool.side_by_side(parts, || std::thread::current().id());
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
