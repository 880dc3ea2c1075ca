//! Threads for host memcpy, separate from those that compute, so that a copy a device waits for never queues for a core.

use std::{mem::MaybeUninit, sync::OnceLock};

use rayon::prelude::*;

/// Slices below this are copied by the calling thread: waking others takes longer.
const PARALLEL_COPY: usize = 2 << 20;
/// Bytes that one thread copies at a time.
const COPY_CHUNK: usize = 512 << 10;
/// Number of threads: enough to saturate the bus.
const COPY_THREADS: usize = 8;

/// The threads, started on first use.
#[derive(Debug, Default)]
pub(crate) struct MemcpyPool(OnceLock<Option<rayon::ThreadPool>>);

impl MemcpyPool {
    /// None on a machine with one core.
    fn threads(&self) -> Option<&rayon::ThreadPool> {
        let start = || {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COPY_THREADS);
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("copy-{i}"));
            (threads > 1).then(|| builder.build().ok()).flatten()
        };
        self.0.get_or_init(start).as_ref()
    }

    /// Copies a slice to one of its length.
    pub(super) fn copy(&self, from: &[u8], to: &mut [MaybeUninit<u8>]) {
        self.copy_all(from.chunks(COPY_CHUNK).zip(to.chunks_mut(COPY_CHUNK)).collect());
    }

    /// Copies slices, each to one of its length.
    pub(super) fn copy_all(&self, slices: Vec<(&[u8], &mut [MaybeUninit<u8>])>) {
        let bytes: usize = slices.iter().map(|(from, _)| from.len()).sum();
        if bytes < PARALLEL_COPY {
            for (from, to) in slices {
                copy(from, to);
            }
        } else {
            self.each(slices, |(from, to)| copy(from, to));
        }
    }

    /// Runs jobs that are mostly copies, each on one thread; results are in the order of the jobs.
    pub(crate) fn each<J: Send, R: Send>(&self, jobs: Vec<J>, run: impl Fn(J) -> R + Send + Sync) -> Vec<R> {
        match if jobs.len() > 1 { self.threads() } else { None } {
            Some(threads) => threads.install(|| jobs.into_par_iter().map(run).collect()),
            None => jobs.into_iter().map(run).collect(),
        }
    }
}

/// Copies on the calling thread.
pub(crate) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: as many bytes on both sides, of which one is borrowed for writing and so apart from the other.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_any_size_are_copied_whole() {
        let memcpy_pool = MemcpyPool::default();
        for len in [0, 1, PARALLEL_COPY - 1, PARALLEL_COPY, PARALLEL_COPY + COPY_CHUNK / 2] {
            let from: Vec<u8> = (0..=250).cycle().take(len).collect();
            let mut to = Vec::with_capacity(len);
            memcpy_pool.copy(&from, &mut to.spare_capacity_mut()[..len]);
            // SAFETY: that many were written.
            unsafe { to.set_len(len) };
            assert_eq!(to, from);
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        assert_eq!(MemcpyPool::default().each((0..1000).collect(), |job: u32| job + 1), (1..1001).collect::<Vec<_>>());
    }
}
