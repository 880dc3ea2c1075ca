//! The thread pool that writes all logs. It is fair: a thread writes one group of one log, then takes the log that has
//! waited longest, so that a busy log does not starve the others.

use std::{
    collections::VecDeque,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
};

/// Work that a thread runs in bounded steps.
pub(crate) trait Work: Send + Sync {
    /// Runs one step. Returns whether more remains; then the work is queued again.
    fn run_once(&self) -> bool;
    /// Called after a step panicked; no other step will run. Fails everything that waits for this work.
    fn poison(&self);
}

/// A bounded set of threads, started on demand. Dropping it runs all queued work and joins the threads.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
    running: Mutex<Vec<JoinHandle<()>>>,
    max_threads: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Arc<dyn Work>>,
    idle: usize,
    closed: bool,
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("max_threads", &self.max_threads).finish_non_exhaustive()
    }
}

impl ThreadPool {
    /// A pool of at most `max_threads` threads; 0 counts as 1.
    pub(crate) fn new(max_threads: usize) -> Arc<Self> {
        Arc::new(Self { shared: Arc::default(), running: Mutex::default(), max_threads: max_threads.max(1) })
    }

    /// Queues work that is not queued yet. Fails if the pool has no thread and cannot start one.
    pub(crate) fn submit(&self, work: Arc<dyn Work>) -> io::Result<()> {
        let mut queue = self.shared.lock();
        let has_thread = queue.idle > queue.work.len() || self.start_thread()?;
        debug_assert!(has_thread, "there is at least one thread");
        queue.work.push_back(work);
        drop(queue);
        self.shared.ready.notify_one();
        Ok(())
    }

    /// Starts another thread unless the pool is full. Failing to start one is an error only if none is running.
    fn start_thread(&self) -> io::Result<bool> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() < self.max_threads {
            let shared = Arc::clone(&self.shared);
            match Builder::new().name("wal".into()).spawn(move || shared.run()) {
                Ok(thread) => running.push(thread),
                Err(error) if running.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, threads = running.len(), "cannot start another thread to write logs");
                }
            }
        }
        Ok(!running.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(work) = self.next() {
            match catch_unwind(AssertUnwindSafe(|| work.run_once())) {
                Ok(true) => self.lock().work.push_back(work),
                Ok(false) => {}
                Err(_) => {
                    tracing::error!("the writer of a log panicked; the log rejects all further records");
                    work.poison();
                }
            }
        }
    }

    fn next(&self) -> Option<Arc<dyn Work>> {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.ready.notify_all();
        for thread in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    };

    use super::*;

    /// Runs a number of steps, then reports whether they succeeded.
    struct Steps {
        left: AtomicUsize,
        panics: bool,
        done: mpsc::Sender<bool>,
    }

    impl Work for Steps {
        fn run_once(&self) -> bool {
            assert!(!self.panics, "the test asks for a panic");
            let more = self.left.fetch_sub(1, SeqCst) > 1;
            if !more {
                let _ = self.done.send(true);
            }
            more
        }

        fn poison(&self) {
            let _ = self.done.send(false);
        }
    }

    #[test]
    fn the_pool_bounds_its_threads_and_survives_panics() {
        let threads = ThreadPool::new(3);
        assert_eq!(threads.count(), 0, "threads start on demand");
        let (done, results) = mpsc::channel();
        for i in 0..200 {
            let work = Steps { left: AtomicUsize::new(1 + i % 5), panics: i % 50 == 7, done: done.clone() };
            threads.submit(Arc::new(work)).expect("a thread can be started");
        }
        let finished = results.iter().take(200).filter(|succeeded| *succeeded).count();
        assert_eq!(finished, 196, "four panicked");
        assert!((1..=3).contains(&threads.count()));
    }
}
