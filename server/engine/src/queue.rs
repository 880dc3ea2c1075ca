//! The batcher of one lane on one device behind its lock, and the rules of who wakes whom.

use std::{
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    batcher::{Batcher, Bounds, Close, Entry, EntryId},
    signal::Signal,
    sync::{AtomicBool, Mutex, Ordering, lock},
};

/// Shared by callers, who push and cancel, and workers, who take and finish.
pub(crate) struct Queue<K, T> {
    state: Mutex<State<K, T>>,
    /// Something is queued and may run; what a worker looks at before it takes the lock.
    available: AtomicBool,
    concurrency: usize,
    signal: Arc<Signal>,
}

struct State<K, T> {
    batcher: Batcher<K, T>,
    running: usize,
    closed: bool,
}

/// What a worker got.
pub(crate) struct Taken<K, T> {
    /// Entries whose deadline passed in the queue.
    pub(crate) expired: Vec<T>,
    /// What it does next. A batch is to be given back by [`Queue::finish`].
    pub(crate) next: Close<K, T>,
}

/// How much is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Entries.
    pub(crate) requests: u64,
    /// Their items.
    pub(crate) items: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Batches taken and not finished.
    pub(crate) running: u64,
}

impl<K: Clone + Eq + Hash, T> Queue<K, T> {
    /// An empty queue of which `concurrency` batches run at once, by workers that sleep on `signal`.
    pub(crate) fn new(bounds: Bounds, concurrency: usize, signal: Arc<Signal>) -> Self {
        let state = State { batcher: Batcher::new(bounds), running: 0, closed: false };
        Self { state: Mutex::new(state), available: AtomicBool::new(false), concurrency: concurrency.max(1), signal }
    }

    /// Queues an entry; gives it back if the queue is closed.
    pub(crate) fn push(&self, now: Instant, entry: Entry<K, T>) -> Result<EntryId, T> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(entry.payload);
        }
        let id = state.batcher.push(now, entry);
        let wake = self.publish(&state);
        drop(state);
        // While all of the lane's places are taken, the one that finishes looks here again.
        if wake {
            self.signal.notify();
        }
        Ok(id)
    }

    /// Takes an entry out, unless a worker has it.
    pub(crate) fn cancel(&self, id: EntryId) -> Option<T> {
        let mut state = lock(&self.state);
        let entry = state.batcher.cancel(id);
        self.publish(&state);
        entry
    }

    /// Whether [`Self::take`] may give something.
    pub(crate) fn is_available(&self) -> bool {
        self.available.load(Ordering::SeqCst)
    }

    /// Takes the next batch, if one may run.
    pub(crate) fn take(&self, now: Instant) -> Taken<K, T> {
        if !self.is_available() {
            return Taken { expired: vec![], next: Close::Empty };
        }
        let mut state = lock(&self.state);
        if state.running >= self.concurrency {
            return Taken { expired: vec![], next: Close::Empty };
        }
        let expired = state.batcher.expire(now);
        let next = state.batcher.close(now);
        if let Close::Batch(_) = &next {
            state.running += 1;
        }
        self.publish(&state);
        Taken { expired, next }
    }

    /// Gives a batch's place back; the caller looks at the queue again. `took` is how long it ran, if it ran whole.
    pub(crate) fn finish(&self, key: &K, items: u64, took: Option<Duration>) {
        let mut state = lock(&self.state);
        state.running -= 1;
        if let Some(took) = took {
            state.batcher.ran(key, items, took);
        }
        self.publish(&state);
    }

    /// Lets nothing more in, and takes out everything.
    pub(crate) fn close(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let left = state.batcher.drain();
        self.publish(&state);
        left
    }

    /// How much is queued now.
    pub(crate) fn depth(&self) -> Depth {
        let state = lock(&self.state);
        Depth {
            requests: state.batcher.len() as u64,
            items: state.batcher.items(),
            bytes: state.batcher.bytes(),
            running: state.running as u64,
        }
    }

    fn publish(&self, state: &State<K, T>) -> bool {
        let available = state.batcher.len() > 0 && state.running < self.concurrency;
        self.available.store(available, Ordering::SeqCst);
        available
    }
}
