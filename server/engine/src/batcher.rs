//! Decides which queued entries share the next launch, and when: a pure state machine without clock, task or channel.
//!
//! Entries queue in *flows*, one per key, priority and principal; a flow is first in, first out. [`Batcher::next_batch`] is
//! called when a worker is free. Only then is a batch formed, so that entries which arrived in the meantime join it (the first three
//! steps are in `select`, the last one in `fill`):
//!
//! 1. **Which priority.** The highest with an entry, or a lower one that has waited `max_age` and has earned a turn (see
//!    `level_share`).
//! 2. **Which key.** The next one, round robin, with an entry of that priority. A key whose next entry is larger than a batch
//!    saves a batch's bytes of credit in every round in which it is passed over (deficit round robin; Shreedhar and Varghese,
//!    1995). A key all of whose principals are ahead of their share waits for the others (see `fair_share`).
//! 3. **Whether to wait.** Where the batch is not full and the key's traffic makes filling it pay (see `batch_timing`), up
//!    to `max_wait` from the key's oldest entry, and never past the latest start that meets every deadline.
//! 4. **Which entries.** Priorities from the highest, and within a priority the principal that was served the least device
//!    time, over all keys. A flow whose first entry does not fit is skipped for this batch. An entry that is larger than a
//!    batch runs alone. An entry whose deadline cannot be met any more is dropped before it costs device time.
//!
//! The time of a batch is learned (see `estimate`); until something is known, batches are bounded by items and bytes alone.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{config::Priority, estimate::Estimate};

mod admit;
mod arriving;
mod backlog;
mod batch_timing;
mod fair_share;
mod fill;
mod level_share;
mod open_batch;
mod select;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;
mod wait_ratio;

pub(crate) use admit::{Admitted, Terms, WouldMiss};
use arriving::Arriving;
use backlog::Backlog;
use batch_timing::BatchTiming;
use fair_share::{Contention, FairShare};
use fill::Candidate;
use level_share::LevelShare;
pub(crate) use slab::EntryId;
use slab::{Chain, List, Slab};

/// Seconds that a batch counts while nothing is known about its time.
const NOMINAL_SECONDS: f64 = 1e-3;

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
    /// A priority whose oldest entry waited this long is overdue.
    pub(crate) age: Duration,
    /// Longest expected time of a batch of several entries.
    pub(crate) time: Duration,
    /// The same while several principals contend, or for a worker that runs short batches only; also how far a principal may
    /// be ahead of another.
    pub(crate) slice: Duration,
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
    /// Estimated work, in the unit of the operation. Zero counts as one.
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Instant>,
    /// True if it passed [`Batcher::screen`].
    pub(crate) is_screened: bool,
    /// As in [`Context`](crate::Context).
    pub(crate) is_continuation: bool,
    pub(crate) payload: T,
}

impl<K, T> Entry<K, T> {
    pub(crate) fn terms(&self) -> Terms {
        let Self { priority, principal, cost, deadline, is_screened, is_continuation, .. } = *self;
        Terms { priority, principal, cost, deadline, is_screened, is_continuation }
    }
}

/// Entries that run together.
#[derive(Debug)]
pub(crate) struct Batch<K, T> {
    pub(crate) summary: BatchSummary<K>,
    /// In the order in which they were picked.
    pub(crate) payloads: Vec<T>,
}

/// Figures of a batch that are needed while it runs and once it has run.
#[derive(Clone, Debug)]
pub(crate) struct BatchSummary<K> {
    pub(crate) key: K,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) cost: u64,
    /// Expected time, if it is known.
    pub(crate) expected: Option<Duration>,
    /// The principal of its first entry.
    pub(crate) principal: u64,
    number: u64,
    /// The distinct principals of its entries, at each priority that several principals share.
    sharers: Vec<(Priority, u64)>,
}

/// Next action of a free worker.
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
    estimate: Arc<Estimate>,
    /// True if anything is known about times.
    is_informed: bool,
    entries: Slab<Queued<T>>,
    /// By priority.
    arrivals: [List; Priority::COUNT],
    key_queues: Vec<Option<KeyQueue<K>>>,
    /// Unused elements of `key_queues`.
    free: Vec<usize>,
    by_key: HashMap<K, usize>,
    /// Key queues with entries, the next to be served first.
    round_robin: VecDeque<usize>,
    /// Entries by priority.
    levels: [usize; Priority::COUNT],
    /// Cost of the entries by priority.
    level_costs: [u64; Priority::COUNT],
    /// Entries that are being received.
    arriving: Arriving,
    level_share: LevelShare,
    fair_share: FairShare,
    backlog: Backlog,
    /// When an entry was last refused because of its deadline.
    refused: Option<Instant>,
    /// Entries that were dropped because their deadline cannot be met.
    hopeless: Vec<T>,
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
    cost: u64,
    arrived: Instant,
    deadline: Option<Instant>,
    admitted: Admitted,
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
    cost: u64,
    /// Bytes of credit towards an entry larger than a batch.
    deficit: u64,
    timing: BatchTiming,
}

struct Flow {
    priority: Priority,
    principal: u64,
    entries: List,
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    pub(crate) fn new(limits: BatchLimits, estimate: Arc<Estimate>) -> Self {
        Self {
            limits,
            estimate,
            is_informed: false,
            entries: Slab::default(),
            arrivals: [List::default(); Priority::COUNT],
            key_queues: vec![],
            free: vec![],
            by_key: HashMap::new(),
            round_robin: VecDeque::new(),
            levels: [0; Priority::COUNT],
            level_costs: [0; Priority::COUNT],
            arriving: Arriving::default(),
            level_share: LevelShare::default(),
            fair_share: FairShare::default(),
            backlog: Backlog::default(),
            refused: None,
            hopeless: vec![],
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

    /// Queues an entry that was admitted.
    pub(crate) fn push(&mut self, now: Instant, entry: Entry<K, T>, admitted: Admitted) -> EntryId {
        let Entry { key, priority, principal, items, bytes, cost, deadline, payload, .. } = entry;
        let items = items.max(1);
        let bytes = bytes.max(1);
        let cost = cost.max(1);
        let index = self.key_queue_of(key);
        self.earliest_deadline = earlier(self.earliest_deadline, deadline);
        let arrived = now;
        let queued =
            Queued { queue: index, priority, principal, items, bytes, cost, arrived, deadline, admitted, payload };
        let id = self.entries.insert(queued);
        self.entries.append(&mut self.arrivals[priority.index()], id, Chain::Arrival);

        let queue = key_queue_at(&mut self.key_queues, index);
        if queue.flows.is_empty() {
            self.round_robin.push_back(index);
        }
        self.entries.append(&mut queue.flow(priority, principal).entries, id, Chain::Flow);
        queue.timing.record_arrival(now, items);
        queue.levels[priority.index()] += 1;
        queue.items += items;
        queue.bytes = queue.bytes.saturating_add(bytes);
        queue.cost = queue.cost.saturating_add(cost);
        self.levels[priority.index()] += 1;
        let level_cost = &mut self.level_costs[priority.index()];
        *level_cost = level_cost.saturating_add(cost);
        self.items += items;
        self.bytes = self.bytes.saturating_add(bytes);
        self.fair_share.enqueued(now, priority, principal, cost);
        id
    }

    /// Removes an entry, if it is still queued.
    pub(crate) fn cancel(&mut self, now: Instant, id: EntryId) -> Option<T> {
        let queue = self.entries.get(id)?.queue;
        let entry = self.remove(id);
        self.prune(queue);
        self.record_unserved(now, &entry);
        Some(entry.payload)
    }

    /// Removes every entry whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<T> {
        if self.earliest_deadline.is_none_or(|at| at > now) {
            return vec![];
        }
        self.earliest_deadline = None;
        let mut expired = vec![];
        for id in self.by_arrival() {
            let deadline = self.entries.get(id).expect("listed entries are queued").deadline;
            if deadline.is_some_and(|at| at <= now) {
                expired.extend(self.cancel(now, id));
            } else {
                self.earliest_deadline = earlier(self.earliest_deadline, deadline);
            }
        }
        expired
    }

    /// Removes all entries, by arrival.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let drained = self.by_arrival().into_iter().filter_map(|id| {
            let queue = self.entries.get(id)?.queue;
            let entry = self.remove(id);
            self.prune(queue);
            Some(entry.payload)
        });
        drained.collect()
    }

    /// Forms the next batch for a free worker, which may run short batches only. The caller has called [`Self::expire`]
    /// before, and calls [`Self::take_hopeless`] afterwards.
    pub(crate) fn next_batch(&mut self, now: Instant, short_only: bool) -> NextBatch<K, T> {
        if !self.is_informed
            && let Some(seconds) = self.estimate.seconds_per_cost()
        {
            // From here on principals are charged nanoseconds instead of cost.
            self.is_informed = true;
            self.fair_share.convert_tags(seconds * 1e9, self.allowance());
        }
        while self.entries.len() > 0 {
            let selection = match self.select(now) {
                Ok(selection) => selection,
                Err(until) => return NextBatch::WaitUntil(until),
            };
            let dropped = self.hopeless.len();
            if let Some(batch) = self.fill(now, &selection, short_only) {
                return NextBatch::Ready(batch);
            }
            if self.hopeless.len() == dropped {
                // Nothing here is short.
                break;
            }
        }
        NextBatch::Empty
    }

    /// The entries that [`Self::next_batch`] dropped because their deadline cannot be met.
    pub(crate) fn take_hopeless(&mut self) -> Vec<T> {
        std::mem::take(&mut self.hopeless)
    }

    /// Ends a batch. `took` is how long it took, if it ran unsplit.
    pub(crate) fn batch_finished(&mut self, now: Instant, batch: &BatchSummary<K>, took: Option<Duration>) {
        self.backlog.batch_finished(now, batch.number, batch.cost);
        if let Some(took) = took {
            self.estimate.record(now, batch.cost, took);
            if let Some(&index) = self.by_key.get(&batch.key) {
                key_queue_at(&mut self.key_queues, index).timing.record_launch(batch.items, took);
            }
        }
        let took = took.or(batch.expected).unwrap_or_default();
        for &(level, principal) in &batch.sharers {
            self.fair_share.batch_finished(now, level, principal, took);
        }
    }

    /// All entries by arrival.
    fn by_arrival(&self) -> Vec<EntryId> {
        let mut all = Vec::with_capacity(self.entries.len());
        for list in self.arrivals {
            let next = |id: &EntryId| self.entries.next(*id, Chain::Arrival);
            all.extend(std::iter::successors(self.entries.head(list), next));
        }
        all.sort_unstable();
        all
    }

    fn is_overdue(&self, now: Instant, entry: &Queued<T>) -> bool {
        now.saturating_duration_since(entry.arrived) >= self.limits.age
    }

    /// Expected seconds; nominal while unknown.
    fn time(&self, cost: u64) -> f64 {
        self.estimate.seconds(cost).unwrap_or(NOMINAL_SECONDS)
    }

    /// The principals of a level, if several share it and what they are served is known in time.
    fn contention(&self, now: Instant, level: Priority) -> Option<Contention> {
        (self.is_informed && self.fair_share.is_shared(level)).then(|| self.fair_share.contention(now, level))
    }

    /// Returns true if a principal is too far ahead of others to be served.
    fn is_ahead(&self, contention: Option<&Contention>, tag: u64) -> bool {
        contention.is_some_and(|contention| tag > contention.floor.saturating_add(self.allowance()))
    }

    /// Returns the nanoseconds by which a principal may be ahead of another.
    fn allowance(&self) -> u64 {
        u64::try_from(self.limits.slice.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Learns from an entry that leaves the queue unserved after waiting longer than was expected.
    fn record_unserved(&mut self, now: Instant, entry: &Queued<T>) {
        let waited = now.saturating_duration_since(entry.arrived).as_secs_f64();
        if let Some(expected) = entry.admitted.expected_wait.filter(|expected| waited > *expected) {
            self.fair_share.record_wait(entry.priority, entry.principal, expected, waited);
        }
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
        let &Queued { queue, priority, principal, .. } = self.entries.get(id).expect("the entry is queued");
        self.entries.unlink(&mut self.arrivals[priority.index()], id, Chain::Arrival);
        let queue = key_queue_at(&mut self.key_queues, queue);
        self.entries.unlink(&mut queue.flow(priority, principal).entries, id, Chain::Flow);
        let entry = self.entries.remove(id).expect("the entry is queued");
        queue.levels[priority.index()] -= 1;
        queue.items -= entry.items;
        queue.bytes = queue.bytes.saturating_sub(entry.bytes);
        queue.cost = queue.cost.saturating_sub(entry.cost);
        self.levels[priority.index()] -= 1;
        let level_cost = &mut self.level_costs[priority.index()];
        *level_cost = level_cost.saturating_sub(entry.cost);
        self.items -= entry.items;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        self.fair_share.dequeued(priority, principal, entry.cost);
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
            cost: 0,
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
fn after(time: Instant, by: Duration) -> Instant {
    time.checked_add(by).unwrap_or_else(|| time + Duration::from_secs(86_400))
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
