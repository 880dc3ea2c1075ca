//! The batcher of one lane on one device, shared under a lock, and the wake-ups of its workers.

use std::{
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    batcher::{BatchLimits, BatchSummary, Batcher, Entry, EntryId, NextBatch, Terms, WouldMiss},
    estimate::Estimate,
    signal::{Signals, Work},
    sync::{AtomicBool, Mutex, Ordering, lock},
};

/// Callers push and cancel; workers take and finish.
pub(crate) struct Queue<K, T> {
    state: Mutex<QueueState<K, T>>,
    /// A batch may run. Workers read it before they take the lock.
    available: AtomicBool,
    concurrency: usize,
    work: Work,
    signals: Arc<Signals>,
}

struct QueueState<K, T> {
    batcher: Batcher<K, T>,
    running: usize,
    closed: bool,
}

pub(crate) struct Taken<K, T> {
    /// Entries whose deadline passed in the queue.
    pub(crate) expired: Vec<T>,
    /// Entries whose deadline cannot be met any more.
    pub(crate) hopeless: Vec<T>,
    /// The worker calls [`Queue::finish`] once it has run a batch.
    pub(crate) next: NextBatch<K, T>,
}

/// Why an entry is not queued.
#[derive(Debug)]
pub(crate) enum PushError<T> {
    Closed(T),
    /// Its response would come after its deadline.
    WouldMiss(T, WouldMiss),
}

/// Counts of queued and running requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) requests: u64,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Batches taken and not finished.
    pub(crate) running: u64,
}

impl<K: Clone + Eq + Hash, T> Queue<K, T> {
    /// A queue of which at most `concurrency` batches run at once, by the workers of `signals` that may do its work.
    pub(crate) fn new(
        limits: BatchLimits,
        estimate: Arc<Estimate>,
        concurrency: usize,
        work: Work,
        signals: Arc<Signals>,
    ) -> Self {
        let state = QueueState { batcher: Batcher::new(limits, estimate), running: 0, closed: false };
        Self {
            state: Mutex::new(state),
            available: AtomicBool::new(false),
            concurrency: concurrency.max(1),
            work,
            signals,
        }
    }

    /// Queues an entry, unless it would miss its deadline or the queue is closed.
    pub(crate) fn push(&self, now: Instant, entry: Entry<K, T>) -> Result<EntryId, PushError<T>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(PushError::Closed(entry.payload));
        }
        let has_free_slot = state.running < self.concurrency;
        let admitted = match state.batcher.admit(now, entry.terms(), has_free_slot) {
            Ok(admitted) => admitted,
            Err(would_miss) => return Err(PushError::WouldMiss(entry.payload, would_miss)),
        };
        let id = state.batcher.push(now, entry, admitted);
        let wake = self.publish(&state);
        drop(state);
        // While `concurrency` batches run, the worker that finishes one polls this queue again.
        if wake {
            self.signals.notify(self.work);
        }
        Ok(id)
    }

    /// Decides whether an entry is received, and counts it as queued until [`Self::arrived`].
    pub(crate) fn screen(&self, now: Instant, terms: Terms) -> Result<(), WouldMiss> {
        let mut state = lock(&self.state);
        let has_free_slot = state.running < self.concurrency;
        state.batcher.screen(now, terms, has_free_slot)
    }

    /// An entry that passed [`Self::screen`] has arrived, or never will.
    pub(crate) fn arrived(&self, terms: Terms) {
        lock(&self.state).batcher.arrived(terms);
    }

    /// Removes an entry, unless a worker has taken it.
    pub(crate) fn cancel(&self, now: Instant, id: EntryId) -> Option<T> {
        let mut state = lock(&self.state);
        let entry = state.batcher.cancel(now, id);
        self.publish(&state);
        entry
    }

    /// Returns true if [`Self::take`] may return a batch.
    pub(crate) fn is_available(&self) -> bool {
        self.available.load(Ordering::SeqCst)
    }

    /// Takes the next batch, if one may run, and all expired entries. A worker may run short batches only.
    pub(crate) fn take(&self, now: Instant, short_only: bool) -> Taken<K, T> {
        if !self.is_available() {
            return Taken::nothing();
        }
        let mut state = lock(&self.state);
        if state.running >= self.concurrency {
            return Taken::nothing();
        }
        let expired = state.batcher.expire(now);
        let next = state.batcher.next_batch(now, short_only);
        let hopeless = state.batcher.take_hopeless();
        if let NextBatch::Ready(_) = &next {
            state.running += 1;
        }
        self.publish(&state);
        Taken { expired, hopeless, next }
    }

    /// Ends a batch, which frees its slot of `concurrency`; the caller polls the queue again. `took` is how long the batch
    /// took, if it ran unsplit.
    pub(crate) fn finish(&self, now: Instant, batch: &BatchSummary<K>, took: Option<Duration>) {
        let mut state = lock(&self.state);
        state.running -= 1;
        state.batcher.batch_finished(now, batch, took);
        self.publish(&state);
    }

    /// Refuses new entries from now on, and removes all that are queued.
    pub(crate) fn close(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let left = state.batcher.drain();
        self.publish(&state);
        left
    }

    pub(crate) fn depth(&self) -> Depth {
        let state = lock(&self.state);
        Depth {
            requests: state.batcher.len() as u64,
            items: state.batcher.items(),
            bytes: state.batcher.bytes(),
            running: state.running as u64,
        }
    }

    /// Updates `available`, and returns it.
    fn publish(&self, state: &QueueState<K, T>) -> bool {
        let available = state.batcher.len() > 0 && state.running < self.concurrency;
        self.available.store(available, Ordering::SeqCst);
        available
    }
}

impl<K, T> Taken<K, T> {
    fn nothing() -> Self {
        Self { expired: vec![], hopeless: vec![], next: NextBatch::Empty }
    }
}
