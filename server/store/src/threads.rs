//! The threads that write all logs. A log with something to write waits for a free thread; a thread writes one group of one
//! log and takes the log that has waited longest next, so that no log keeps the others waiting.

use std::{
    collections::VecDeque,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
};

/// Something that a thread works on, a turn at a time.
pub(crate) trait Work: Send + Sync {
    /// Does a part. Returns whether there is more.
    fn turn(&self) -> bool;
    /// A turn panicked: whoever waits learns of it, and there will be no other turn.
    fn abandon(&self);
}

/// A bounded set of threads, each started when there is work and none is free. Dropped, it ends them after what is queued.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    running: Mutex<Vec<JoinHandle<()>>>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Arc<dyn Work>>,
    free: usize,
    closed: bool,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Threads {
    /// At most so many threads, and at least one.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { shared: Arc::default(), running: Mutex::default(), most: most.max(1) })
    }

    /// Queues work that is not queued yet. Fails where there is no thread for it and none can be started.
    pub(crate) fn submit(&self, work: Arc<dyn Work>) -> io::Result<()> {
        let mut queue = self.shared.lock();
        let has_thread = queue.free > queue.work.len() || self.start_another()?;
        debug_assert!(has_thread, "there is at least one thread");
        queue.work.push_back(work);
        drop(queue);
        self.shared.ready.notify_one();
        Ok(())
    }

    /// Starts a thread where there may be one more. It is an error only where there is none at all.
    fn start_another(&self) -> io::Result<bool> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() < self.most {
            let shared = Arc::clone(&self.shared);
            match Builder::new().name("wal".into()).spawn(move || shared.run()) {
                Ok(thread) => running.push(thread),
                Err(error) if running.is_empty() => return Err(error),
                Err(error) => tracing::warn!(%error, threads = running.len(), "no further thread writes logs"),
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
            match catch_unwind(AssertUnwindSafe(|| work.turn())) {
                Ok(true) => self.lock().work.push_back(work),
                Ok(false) => {}
                Err(_) => {
                    tracing::error!("the writer of a log panicked; the log takes nothing any more");
                    work.abandon();
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
            queue.free += 1;
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.free -= 1;
        }
    }
}

impl Drop for Threads {
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

    /// Counts its turns, and says when it has had all.
    struct Turns {
        left: AtomicUsize,
        panics: bool,
        done: mpsc::Sender<bool>,
    }

    impl Work for Turns {
        fn turn(&self) -> bool {
            assert!(!self.panics, "as told");
            let more = self.left.fetch_sub(1, SeqCst) > 1;
            if !more {
                let _ = self.done.send(true);
            }
            more
        }

        fn abandon(&self) {
            let _ = self.done.send(false);
        }
    }

    #[test]
    fn few_threads_serve_much_work_and_survive_a_panic() {
        let threads = Threads::new(3);
        assert_eq!(threads.count(), 0, "a thread starts when there is work");
        let (done, told) = mpsc::channel();
        for i in 0..200 {
            let work = Turns { left: AtomicUsize::new(1 + i % 5), panics: i % 50 == 7, done: done.clone() };
            threads.submit(Arc::new(work)).expect("a thread can be had");
        }
        let finished = told.iter().take(200).filter(|whole| *whole).count();
        assert_eq!(finished, 196, "four panicked");
        assert!((1..=3).contains(&threads.count()));
    }
}
