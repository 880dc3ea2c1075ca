//! Decides which queued entries share the next launch, and when: a pure state machine without clock, task or channel.
//!
//! Entries queue in *flows*, one per key, priority and principal; a flow is first in, first out. [`Batcher::next_batch`] is
//! called when a worker is free. Only then is a batch formed, so that entries which arrived in the meantime join it:
//!
//! 1. **Which key.** The key of the oldest entry, once that entry is *overdue* (it waited `max_age`). Otherwise the next key,
//!    round robin, with an entry of the highest priority queued. A key whose next entry is larger than a batch saves a
//!    batch's bytes of credit in every round in which it is passed over (deficit round robin; Shreedhar and Varghese, 1995).
//! 2. **Whether to wait.** Where the batch is not full and the key's traffic makes filling it pay (see `batch_timing`), up
//!    to `max_wait` from the key's oldest entry, and never past the latest start that meets every deadline.
//! 3. **Which entries.** The overdue entry first. Then priorities from the highest, and within a priority the principal that
//!    was served the fewest bytes, over all keys (start-time fair queueing; Goyal, Vin and Cheng, 1996). A flow whose first
//!    entry does not fit is skipped for this batch. An entry that is larger than a batch runs alone.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    time::{Duration, Instant},
};

use crate::config::Priority;

mod batch_timing;
mod fair_share;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;

use batch_timing::BatchTiming;
use fair_share::FairShare;
pub(crate) use slab::EntryId;
use slab::{Chain, List, Slab};

/// Keys without entries whose timing is kept; beyond this number, all of them are dropped.
const IDLE_KEYS: usize = 256;

/// The limits of a batch and of its wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    /// Most items in a batch of several entries.
    pub(crate) items: u64,
    /// Most bytes in a batch of several entries.
    pub(crate) bytes: u64,
    /// Longest that a batch is held open; zero never waits.
    pub(crate) wait: Duration,
    /// An entry that waited this long is overdue.
    pub(crate) age: Duration,
}

#[derive(Debug)]
pub(crate) struct Entry<K, T> {
    /// Entries with equal keys may share a batch.
    pub(crate) key: K,
    pub(crate) priority: Priority,
    pub(crate) principal: u64,
    /// Zero counts as one.
    pub(crate) items: u64,
    /// Zero counts as one.
    pub(crate) bytes: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) payload: T,
}

/// Entries that run together.
#[derive(Debug)]
pub(crate) struct Batch<K, T> {
    pub(crate) key: K,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// In the order in which they were picked.
    pub(crate) payloads: Vec<T>,
}

/// What a free worker does next.
#[derive(Debug)]
pub(crate) enum NextBatch<K, T> {
    Ready(Batch<K, T>),
    /// The batch is held open until then, unless more entries arrive.
    WaitUntil(Instant),
    /// Nothing is queued.
    Empty,
}

/// The queue of one lane on one device.
pub(crate) struct Batcher<K, T> {
    limits: BatchLimits,
    entries: Slab<Queued<T>>,
    arrivals: List,
    key_queues: Vec<Option<KeyQueue<K>>>,
    /// Unused elements of `key_queues`.
    free: Vec<usize>,
    by_key: HashMap<K, usize>,
    /// Key queues with entries, the next to be served first.
    round_robin: VecDeque<usize>,
    /// Entries by priority.
    levels: [usize; Priority::COUNT],
    fair_share: FairShare,
    items: u64,
    bytes: u64,
    /// No queued entry has an earlier deadline.
    earliest_deadline: Option<Instant>,
    /// Scratch space of [`Self::fill`].
    candidates: BinaryHeap<Candidate>,
}

struct Queued<T> {
    queue: usize,
    priority: Priority,
    principal: u64,
    items: u64,
    bytes: u64,
    arrived: Instant,
    deadline: Option<Instant>,
    payload: T,
}

/// The entries of one key.
struct KeyQueue<K> {
    key: K,
    /// Sorted by priority and principal; none is empty between calls.
    flows: Vec<Flow>,
    levels: [usize; Priority::COUNT],
    items: u64,
    bytes: u64,
    /// Bytes of credit towards an entry larger than a batch.
    deficit: u64,
    timing: BatchTiming,
}

struct Flow {
    priority: Priority,
    principal: u64,
    entries: List,
}

/// The first entry of a flow; a batch takes the greatest candidate first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: Priority,
    start_tag: Reverse<u64>,
    entry: Reverse<EntryId>,
    flow: usize,
}

/// What still fits in a batch.
struct Remaining {
    items: u64,
    bytes: u64,
}

impl Remaining {
    fn is_nonzero(&self) -> bool {
        self.items > 0 && self.bytes > 0
    }

    fn fits<T>(&self, entry: &Queued<T>) -> bool {
        entry.items <= self.items && entry.bytes <= self.bytes
    }
}

enum Readiness {
    Ready,
    WaitUntil(Instant),
}

/// The key queue to form a batch from, and the overdue entry that goes first, if any.
struct Selection {
    queue: usize,
    first: Option<EntryId>,
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    pub(crate) fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            entries: Slab::default(),
            arrivals: List::default(),
            key_queues: vec![],
            free: vec![],
            by_key: HashMap::new(),
            round_robin: VecDeque::new(),
            levels: [0; Priority::COUNT],
            fair_share: FairShare::default(),
            items: 0,
            bytes: 0,
            earliest_deadline: None,
            candidates: BinaryHeap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn push(&mut self, now: Instant, entry: Entry<K, T>) -> EntryId {
        let Entry { key, priority, principal, items, bytes, deadline, payload } = entry;
        let (items, bytes) = (items.max(1), bytes.max(1));
        let index = self.key_queue_of(key);
        self.earliest_deadline = earlier(self.earliest_deadline, deadline);
        let queued = Queued { queue: index, priority, principal, items, bytes, arrived: now, deadline, payload };
        let id = self.entries.insert(queued);
        self.entries.append(&mut self.arrivals, id, Chain::Arrival);

        let queue = key_queue_at(&mut self.key_queues, index);
        if queue.flows.is_empty() {
            self.round_robin.push_back(index);
        }
        self.entries.append(&mut queue.flow(priority, principal).entries, id, Chain::Flow);
        queue.timing.record_arrival(now, items);
        queue.levels[priority.index()] += 1;
        queue.items += items;
        queue.bytes = queue.bytes.saturating_add(bytes);
        self.levels[priority.index()] += 1;
        self.items += items;
        self.bytes = self.bytes.saturating_add(bytes);
        self.fair_share.enqueued(priority, principal);
        id
    }

    /// Removes an entry, if it is still queued.
    pub(crate) fn cancel(&mut self, id: EntryId) -> Option<T> {
        let queue = self.entries.get(id)?.queue;
        let entry = self.remove(id);
        self.prune(queue);
        Some(entry.payload)
    }

    /// Removes every entry whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<T> {
        if self.earliest_deadline.is_none_or(|at| at > now) {
            return vec![];
        }
        self.earliest_deadline = None;
        let mut expired = vec![];
        let mut next = self.entries.head(self.arrivals);
        while let Some(id) = next {
            next = self.entries.next(id, Chain::Arrival);
            let deadline = self.entries.get(id).expect("listed entries are queued").deadline;
            if deadline.is_some_and(|at| at <= now) {
                expired.extend(self.cancel(id));
            } else {
                self.earliest_deadline = earlier(self.earliest_deadline, deadline);
            }
        }
        expired
    }

    /// Removes all entries, by arrival.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.entries.head(self.arrivals).and_then(|id| self.cancel(id))).collect()
    }

    /// Forms the next batch for a free worker. The caller has called [`Self::expire`] before.
    pub(crate) fn next_batch(&mut self, now: Instant) -> NextBatch<K, T> {
        if self.entries.len() == 0 {
            return NextBatch::Empty;
        }
        match self.select(now) {
            Ok(selection) => NextBatch::Ready(self.fill(&selection)),
            Err(until) => NextBatch::WaitUntil(until),
        }
    }

    /// Records how long a batch took, for the timing model of its key.
    pub(crate) fn record_launch(&mut self, key: &K, items: u64, took: Duration) {
        if let Some(&index) = self.by_key.get(key) {
            key_queue_at(&mut self.key_queues, index).timing.record_launch(items, took);
        }
    }

    /// The key queue to form a batch from, or until when none is ready.
    fn select(&mut self, now: Instant) -> Result<Selection, Instant> {
        let oldest = self.entries.head(self.arrivals).expect("something is queued");
        let entry = self.entries.get(oldest).expect("listed entries are queued");
        if now.saturating_duration_since(entry.arrived) >= self.limits.age {
            return Ok(Selection { queue: entry.queue, first: Some(oldest) });
        }
        let mut until = after(entry.arrived, self.limits.age);
        for level in Priority::DESCENDING {
            if self.levels[level.index()] == 0 {
                continue;
            }
            match self.next_ready(level, now) {
                Ok(queue) => return Ok(Selection { queue, first: None }),
                Err(wait) => until = wait.map_or(until, |wait| wait.min(until)),
            }
        }
        Err(until)
    }

    /// The next key queue with entries of a priority that is ready, or when the first of them will be.
    fn next_ready(&mut self, level: Priority, now: Instant) -> Result<usize, Option<Instant>> {
        let mut until = None;
        let mut saving = None;
        for position in 0..self.round_robin.len() {
            let index = self.round_robin[position];
            if key_queue_at(&mut self.key_queues, index).levels[level.index()] == 0 {
                continue;
            }
            match self.readiness(index, now) {
                Readiness::WaitUntil(at) => until = earlier(until, Some(at)),
                Readiness::Ready if self.affords_batch(index, level) => return Ok(index),
                Readiness::Ready => saving = saving.or(Some(index)),
            }
        }
        saving.ok_or(until)
    }

    /// Whether a key queue has enough credit for its next entry of a priority; if not, it gains one batch's bytes.
    fn affords_batch(&mut self, index: usize, level: Priority) -> bool {
        let queue = key_queue_at(&mut self.key_queues, index);
        let flows = queue.flows.iter().filter(|flow| flow.priority == level);
        let heads = flows.filter_map(|flow| {
            let head = self.entries.head(flow.entries)?;
            Some((self.fair_share.start_tag(level, flow.principal), head))
        });
        let Some((_, head)) = heads.min() else { return true };
        let bytes = self.entries.get(head).map_or(0, |entry| entry.bytes);
        if bytes <= queue.deficit.saturating_add(self.limits.bytes) {
            return true;
        }
        queue.deficit = queue.deficit.saturating_add(self.limits.bytes);
        false
    }

    /// Whether a batch is formed now, or until when holding it open pays.
    fn readiness(&self, index: usize, now: Instant) -> Readiness {
        let queue = self.key_queues[index].as_ref().expect("only filled key queues are in the round robin");
        let full = queue.items >= self.limits.items || queue.bytes >= self.limits.bytes;
        if self.limits.wait.is_zero() || full {
            return Readiness::Ready;
        }
        let Some(wait) = queue.timing.optimal_wait(now, queue.items) else { return Readiness::Ready };
        let heads = queue.flows.iter().filter_map(|flow| self.entries.get(self.entries.head(flow.entries)?));
        let oldest = heads.map(|entry| entry.arrived).min().unwrap_or(now);
        let mut until = after(now, wait).min(after(oldest, self.limits.wait));
        if let Some(deadline) = self.earliest_deadline {
            // Nothing is waited for where the launch alone takes longer than the deadline allows.
            let latest = deadline.checked_sub(queue.timing.launch_time(queue.items)).unwrap_or(now);
            until = until.min(latest);
        }
        if until > now { Readiness::WaitUntil(until) } else { Readiness::Ready }
    }

    /// Forms a batch from a key queue.
    fn fill(&mut self, selection: &Selection) -> Batch<K, T> {
        let index = selection.queue;
        let mut remaining = Remaining { items: self.limits.items, bytes: self.limits.bytes };
        let key = key_queue_at(&mut self.key_queues, index).key.clone();
        let mut batch = Batch { key, items: 0, bytes: 0, payloads: vec![] };
        if let Some(first) = selection.first {
            self.move_to_batch(first, &mut remaining, &mut batch);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let flows = key_queue_at(&mut self.key_queues, index).flows.len();
        candidates.extend((0..flows).filter_map(|flow| self.candidate(index, flow)));
        while remaining.is_nonzero()
            && let Some(candidate) = candidates.pop()
        {
            let id = candidate.entry.0;
            let entry = self.entries.get(id).expect("candidates are queued");
            if !batch.payloads.is_empty() && !remaining.fits(entry) {
                continue;
            }
            self.move_to_batch(id, &mut remaining, &mut batch);
            candidates.extend(self.candidate(index, candidate.flow));
        }
        candidates.clear();
        self.candidates = candidates;
        self.rotate(index, batch.bytes);
        batch
    }

    fn candidate(&self, queue: usize, flow: usize) -> Option<Candidate> {
        let Flow { priority, principal, entries } = &self.key_queues[queue].as_ref()?.flows[flow];
        let entry = self.entries.head(*entries)?;
        let start_tag = Reverse(self.fair_share.start_tag(*priority, *principal));
        Some(Candidate { priority: *priority, start_tag, entry: Reverse(entry), flow })
    }

    fn move_to_batch(&mut self, id: EntryId, remaining: &mut Remaining, batch: &mut Batch<K, T>) {
        let entry = self.remove(id);
        self.fair_share.charge(entry.priority, entry.principal, entry.bytes);
        remaining.items = remaining.items.saturating_sub(entry.items);
        remaining.bytes = remaining.bytes.saturating_sub(entry.bytes);
        batch.items += entry.items;
        batch.bytes = batch.bytes.saturating_add(entry.bytes);
        batch.payloads.push(entry.payload);
    }

    /// Moves a key queue to the end of the round robin. A batch of more than `max_bytes` has used up its credit.
    fn rotate(&mut self, index: usize, bytes: u64) {
        let queue = key_queue_at(&mut self.key_queues, index);
        queue.deficit = if bytes > self.limits.bytes { 0 } else { queue.deficit };
        self.round_robin.retain(|&other| other != index);
        self.round_robin.push_back(index);
        self.prune(index);
    }

    /// Removes an entry. Its flow stays even if it is now empty, so that indices of flows remain valid.
    fn remove(&mut self, id: EntryId) -> Queued<T> {
        self.entries.unlink(&mut self.arrivals, id, Chain::Arrival);
        let &Queued { queue, priority, principal, .. } = self.entries.get(id).expect("the entry is queued");
        let queue = key_queue_at(&mut self.key_queues, queue);
        self.entries.unlink(&mut queue.flow(priority, principal).entries, id, Chain::Flow);
        let entry = self.entries.remove(id).expect("the entry is queued");
        queue.levels[priority.index()] -= 1;
        queue.items -= entry.items;
        queue.bytes = queue.bytes.saturating_sub(entry.bytes);
        self.levels[priority.index()] -= 1;
        self.items -= entry.items;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        self.fair_share.dequeued(priority, principal);
        if self.entries.len() == 0 {
            self.earliest_deadline = None;
        }
        entry
    }

    /// Removes the empty flows of a key queue, and the queue from the round robin if it has none left.
    fn prune(&mut self, index: usize) {
        let queue = key_queue_at(&mut self.key_queues, index);
        queue.flows.retain(|flow| !flow.entries.is_empty());
        if queue.flows.is_empty() {
            queue.deficit = 0;
            self.round_robin.retain(|&other| other != index);
            self.evict_idle_keys();
        }
    }

    /// The index of a key's queue, which is created if needed.
    fn key_queue_of(&mut self, key: K) -> usize {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.key_queues.push(None);
            self.key_queues.len() - 1
        });
        self.key_queues[index] = Some(KeyQueue {
            key: key.clone(),
            flows: vec![],
            levels: [0; Priority::COUNT],
            items: 0,
            bytes: 0,
            deficit: 0,
            timing: BatchTiming::default(),
        });
        self.by_key.insert(key, index);
        index
    }

    /// Drops the keys without entries once there are many: callers choose the keys, so their number must be bounded.
    fn evict_idle_keys(&mut self) {
        if self.by_key.len() <= self.round_robin.len() + IDLE_KEYS {
            return;
        }
        let (key_queues, free) = (&mut self.key_queues, &mut self.free);
        self.by_key.retain(|_, &mut index| {
            let used = key_queues[index].as_ref().is_some_and(|queue| !queue.flows.is_empty());
            if !used {
                key_queues[index] = None;
                free.push(index);
            }
            used
        });
    }
}

impl<K> KeyQueue<K> {
    /// The flow of a priority and principal, which is created if needed.
    fn flow(&mut self, priority: Priority, principal: u64) -> &mut Flow {
        let order = |flow: &Flow| -> Ordering { (flow.priority, flow.principal).cmp(&(priority, principal)) };
        let position = self.flows.binary_search_by(order).unwrap_or_else(|position| {
            self.flows.insert(position, Flow { priority, principal, entries: List::default() });
            position
        });
        &mut self.flows[position]
    }
}

fn key_queue_at<K>(key_queues: &mut [Option<KeyQueue<K>>], index: usize) -> &mut KeyQueue<K> {
    key_queues[index].as_mut().expect("entries and the round robin refer to filled key queues only")
}

/// `at + by`, or a day later where a setting means never.
fn after(at: Instant, by: Duration) -> Instant {
    at.checked_add(by).unwrap_or_else(|| at + Duration::from_secs(86_400))
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
