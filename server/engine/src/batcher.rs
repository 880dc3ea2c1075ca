//! Which entries share the next launch, and when: a pure state machine, without clock, task or channel.
//!
//! Entries queue in *flows*, one per key, priority and principal; a flow is first in, first out. [`Batcher::close`] is
//! called when a worker is free, and only then is a batch formed, so that whatever came in the meantime joins it:
//!
//! 1. **Which key.** The key of the oldest entry, once that entry is *overdue* (it waited `max_age`). Else a key with an entry
//!    of the highest level queued, keys taking turns: one batch a turn. A key whose next entry is larger than a whole batch
//!    saves up a batch's bytes with every turn it is passed over (deficit round robin; Shreedhar and Varghese, 1995).
//! 2. **Whether to wait.** Where the batch is not full and the key's traffic says that filling pays (see `pace`), up to
//!    `max_wait` from its oldest entry, and never so long that a deadline is missed.
//! 3. **Which entries.** The overdue one has the first seat. Then levels from the highest, and within a level the
//!    principal that was served least, in bytes, over all keys (start-time fair queueing; Goyal, Vin and Cheng, 1996).
//!    A flow whose first entry does not fit in what is left is skipped for this batch. An entry that is larger than a
//!    batch runs alone.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    time::{Duration, Instant},
};

use crate::config::Priority;

mod pace;
mod shares;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;

use pace::Pace;
use shares::Shares;
pub(crate) use slab::EntryId;
use slab::{Chain, List, Slab};

/// Keys without an entry whose pace is remembered; beyond, all of them are forgotten.
const IDLE_KEYS: usize = 256;

/// What bounds a batch and its wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most items in a batch of several entries.
    pub(crate) items: u64,
    /// Most bytes in a batch of several entries.
    pub(crate) bytes: u64,
    /// Longest wait for joiners; zero never waits.
    pub(crate) wait: Duration,
    /// An entry that waited this long is overdue.
    pub(crate) age: Duration,
}

/// What is queued.
#[derive(Debug)]
pub(crate) struct Entry<K, T> {
    /// Entries with equal keys may share a batch.
    pub(crate) key: K,
    /// Its level.
    pub(crate) priority: Priority,
    /// Whose it is.
    pub(crate) principal: u64,
    /// Its size; zero counts as one.
    pub(crate) items: u64,
    /// Its size; zero counts as one.
    pub(crate) bytes: u64,
    /// When nobody waits for it any more.
    pub(crate) deadline: Option<Instant>,
    /// What the caller makes of it.
    pub(crate) payload: T,
}

/// Entries that run together.
#[derive(Debug)]
pub(crate) struct Batch<K, T> {
    /// Their key.
    pub(crate) key: K,
    /// Their sum.
    pub(crate) items: u64,
    /// Their sum.
    pub(crate) bytes: u64,
    /// In the order they were chosen.
    pub(crate) payloads: Vec<T>,
}

/// What a free worker does next.
#[derive(Debug)]
pub(crate) enum Close<K, T> {
    /// Run this.
    Batch(Batch<K, T>),
    /// Something is queued, and waiting until then pays unless more comes.
    WaitUntil(Instant),
    /// Nothing is queued.
    Empty,
}

/// The queue of one lane on one device.
pub(crate) struct Batcher<K, T> {
    bounds: Bounds,
    entries: Slab<Queued<T>>,
    arrivals: List,
    buckets: Vec<Option<Bucket<K>>>,
    vacant: Vec<usize>,
    by_key: HashMap<K, usize>,
    /// Buckets with entries, in the order of their turns.
    turns: VecDeque<usize>,
    levels: [usize; Priority::COUNT],
    shares: Shares,
    items: u64,
    bytes: u64,
    /// No queued entry has an earlier deadline.
    earliest_deadline: Option<Instant>,
    /// Kept for its allocation.
    candidates: BinaryHeap<Candidate>,
}

struct Queued<T> {
    bucket: usize,
    priority: Priority,
    principal: u64,
    items: u64,
    bytes: u64,
    arrived: Instant,
    deadline: Option<Instant>,
    payload: T,
}

/// The entries of one key.
struct Bucket<K> {
    key: K,
    /// Sorted by priority and principal; none is empty between calls.
    flows: Vec<Flow>,
    levels: [usize; Priority::COUNT],
    items: u64,
    bytes: u64,
    /// Bytes saved up towards an entry larger than a batch.
    deficit: u64,
    pace: Pace,
}

struct Flow {
    priority: Priority,
    principal: u64,
    entries: List,
}

/// The first entry of a flow, as it competes for a seat: the greatest is taken first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: Priority,
    served: Reverse<u64>,
    entry: Reverse<EntryId>,
    flow: usize,
}

/// What a batch still has room for.
struct Room {
    items: u64,
    bytes: u64,
}

impl Room {
    fn is_left(&self) -> bool {
        self.items > 0 && self.bytes > 0
    }

    fn fits<T>(&self, entry: &Queued<T>) -> bool {
        entry.items <= self.items && entry.bytes <= self.bytes
    }
}

/// Whether a bucket is closed now.
enum Readiness {
    Ready,
    WaitUntil(Instant),
}

/// The bucket to close, and the entry that has the first seat in any case.
struct Choice {
    bucket: usize,
    lead: Option<EntryId>,
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    /// An empty queue.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            entries: Slab::default(),
            arrivals: List::default(),
            buckets: vec![],
            vacant: vec![],
            by_key: HashMap::new(),
            turns: VecDeque::new(),
            levels: [0; Priority::COUNT],
            shares: Shares::default(),
            items: 0,
            bytes: 0,
            earliest_deadline: None,
            candidates: BinaryHeap::new(),
        }
    }

    /// Entries queued.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Their items.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues an entry.
    pub(crate) fn push(&mut self, now: Instant, entry: Entry<K, T>) -> EntryId {
        let Entry { key, priority, principal, items, bytes, deadline, payload } = entry;
        let (items, bytes) = (items.max(1), bytes.max(1));
        let index = self.bucket_of(key);
        self.earliest_deadline = earlier(self.earliest_deadline, deadline);
        let queued = Queued { bucket: index, priority, principal, items, bytes, arrived: now, deadline, payload };
        let id = self.entries.insert(queued);
        self.entries.append(&mut self.arrivals, id, Chain::Arrival);

        let bucket = bucket_at(&mut self.buckets, index);
        if bucket.flows.is_empty() {
            self.turns.push_back(index);
        }
        self.entries.append(&mut bucket.flow(priority, principal).entries, id, Chain::Flow);
        bucket.pace.arrived(now, items);
        bucket.levels[priority.index()] += 1;
        bucket.items += items;
        bucket.bytes = bucket.bytes.saturating_add(bytes);
        self.levels[priority.index()] += 1;
        self.items += items;
        self.bytes = self.bytes.saturating_add(bytes);
        self.shares.queued(priority, principal);
        id
    }

    /// Takes an entry out, if it is still queued.
    pub(crate) fn cancel(&mut self, id: EntryId) -> Option<T> {
        let bucket = self.entries.get(id)?.bucket;
        let entry = self.take(id);
        self.tidy(bucket);
        Some(entry.payload)
    }

    /// Takes out every entry whose deadline has passed.
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

    /// Takes out everything, by arrival.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.entries.head(self.arrivals).and_then(|id| self.cancel(id))).collect()
    }

    /// Forms the next batch for a worker that is free now. Expired entries were taken out before.
    pub(crate) fn close(&mut self, now: Instant) -> Close<K, T> {
        if self.entries.len() == 0 {
            return Close::Empty;
        }
        match self.choose(now) {
            Ok(choice) => Close::Batch(self.form(&choice)),
            Err(until) => Close::WaitUntil(until),
        }
    }

    /// Learns how long a batch of a key took.
    pub(crate) fn ran(&mut self, key: &K, items: u64, took: Duration) {
        if let Some(&index) = self.by_key.get(key) {
            bucket_at(&mut self.buckets, index).pace.ran(items, took);
        }
    }

    /// Decides which bucket is closed now, or until when none is.
    fn choose(&mut self, now: Instant) -> Result<Choice, Instant> {
        let oldest = self.entries.head(self.arrivals).expect("something is queued");
        let entry = self.entries.get(oldest).expect("listed entries are queued");
        if now.saturating_duration_since(entry.arrived) >= self.bounds.age {
            return Ok(Choice { bucket: entry.bucket, lead: Some(oldest) });
        }
        let mut until = after(entry.arrived, self.bounds.age);
        for level in Priority::DESCENDING {
            if self.levels[level.index()] == 0 {
                continue;
            }
            match self.next_turn(level, now) {
                Ok(bucket) => return Ok(Choice { bucket, lead: None }),
                Err(wait) => until = wait.map_or(until, |wait| wait.min(until)),
            }
        }
        Err(until)
    }

    /// The next bucket in turn with entries of a level that is ready; or when the first of them will be.
    fn next_turn(&mut self, level: Priority, now: Instant) -> Result<usize, Option<Instant>> {
        let mut until = None;
        let mut saving = None;
        for position in 0..self.turns.len() {
            let index = self.turns[position];
            if bucket_at(&mut self.buckets, index).levels[level.index()] == 0 {
                continue;
            }
            match self.readiness(index, now) {
                Readiness::WaitUntil(at) => until = earlier(until, Some(at)),
                Readiness::Ready if self.affords_turn(index, level) => return Ok(index),
                Readiness::Ready => saving = saving.or(Some(index)),
            }
        }
        saving.ok_or(until)
    }

    /// Whether a bucket has saved enough for its next entry of a level; if not, it saves one turn's bytes.
    fn affords_turn(&mut self, index: usize, level: Priority) -> bool {
        let bucket = bucket_at(&mut self.buckets, index);
        let flows = bucket.flows.iter().filter(|flow| flow.priority == level);
        let heads = flows.filter_map(|flow| {
            let head = self.entries.head(flow.entries)?;
            Some((self.shares.served(level, flow.principal), head))
        });
        let Some((_, head)) = heads.min() else { return true };
        let bytes = self.entries.get(head).map_or(0, |entry| entry.bytes);
        if bytes <= bucket.deficit.saturating_add(self.bounds.bytes) {
            return true;
        }
        bucket.deficit = bucket.deficit.saturating_add(self.bounds.bytes);
        false
    }

    /// Whether a bucket is closed now, or until when waiting for joiners pays.
    fn readiness(&self, index: usize, now: Instant) -> Readiness {
        let bucket = self.buckets[index].as_ref().expect("only filled buckets have turns");
        let full = bucket.items >= self.bounds.items || bucket.bytes >= self.bounds.bytes;
        if self.bounds.wait.is_zero() || full {
            return Readiness::Ready;
        }
        let Some(wait) = bucket.pace.worth_waiting(now, bucket.items) else { return Readiness::Ready };
        let heads = bucket.flows.iter().filter_map(|flow| self.entries.get(self.entries.head(flow.entries)?));
        let oldest = heads.map(|entry| entry.arrived).min().unwrap_or(now);
        let mut until = after(now, wait).min(after(oldest, self.bounds.wait));
        if let Some(deadline) = self.earliest_deadline {
            // A launch that takes longer than the deadline allows is not waited for at all.
            let latest = deadline.checked_sub(bucket.pace.launch_time(bucket.items)).unwrap_or(now);
            until = until.min(latest);
        }
        if until > now { Readiness::WaitUntil(until) } else { Readiness::Ready }
    }

    /// Fills a batch from a bucket.
    fn form(&mut self, choice: &Choice) -> Batch<K, T> {
        let index = choice.bucket;
        let mut room = Room { items: self.bounds.items, bytes: self.bounds.bytes };
        let key = bucket_at(&mut self.buckets, index).key.clone();
        let mut batch = Batch { key, items: 0, bytes: 0, payloads: vec![] };
        if let Some(lead) = choice.lead {
            self.seat(lead, &mut room, &mut batch);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let flows = bucket_at(&mut self.buckets, index).flows.len();
        candidates.extend((0..flows).filter_map(|flow| self.candidate(index, flow)));
        while room.is_left()
            && let Some(candidate) = candidates.pop()
        {
            let id = candidate.entry.0;
            let entry = self.entries.get(id).expect("candidates are queued");
            if !batch.payloads.is_empty() && !room.fits(entry) {
                continue;
            }
            self.seat(id, &mut room, &mut batch);
            candidates.extend(self.candidate(index, candidate.flow));
        }
        candidates.clear();
        self.candidates = candidates;
        self.end_turn(index, batch.bytes);
        batch
    }

    /// The first entry of a flow.
    fn candidate(&self, bucket: usize, flow: usize) -> Option<Candidate> {
        let Flow { priority, principal, entries } = &self.buckets[bucket].as_ref()?.flows[flow];
        let entry = self.entries.head(*entries)?;
        let served = Reverse(self.shares.served(*priority, *principal));
        Some(Candidate { priority: *priority, served, entry: Reverse(entry), flow })
    }

    /// Moves an entry from the queue into a batch.
    fn seat(&mut self, id: EntryId, room: &mut Room, batch: &mut Batch<K, T>) {
        let entry = self.take(id);
        self.shares.charge(entry.priority, entry.principal, entry.bytes);
        room.items = room.items.saturating_sub(entry.items);
        room.bytes = room.bytes.saturating_sub(entry.bytes);
        batch.items += entry.items;
        batch.bytes = batch.bytes.saturating_add(entry.bytes);
        batch.payloads.push(entry.payload);
    }

    /// Sends a bucket to the back of the line. What it saved it has spent: small batches never save.
    fn end_turn(&mut self, index: usize, bytes: u64) {
        let bucket = bucket_at(&mut self.buckets, index);
        bucket.deficit = if bytes > self.bounds.bytes { 0 } else { bucket.deficit };
        self.turns.retain(|&turn| turn != index);
        self.turns.push_back(index);
        self.tidy(index);
    }

    /// Takes an entry out of everything but its bucket's list of flows, whose positions stay.
    fn take(&mut self, id: EntryId) -> Queued<T> {
        self.entries.unlink(&mut self.arrivals, id, Chain::Arrival);
        let &Queued { bucket, priority, principal, .. } = self.entries.get(id).expect("the entry is queued");
        let bucket = bucket_at(&mut self.buckets, bucket);
        self.entries.unlink(&mut bucket.flow(priority, principal).entries, id, Chain::Flow);
        let entry = self.entries.remove(id).expect("the entry is queued");
        bucket.levels[priority.index()] -= 1;
        bucket.items -= entry.items;
        bucket.bytes = bucket.bytes.saturating_sub(entry.bytes);
        self.levels[priority.index()] -= 1;
        self.items -= entry.items;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        self.shares.left(priority, principal);
        if self.entries.len() == 0 {
            self.earliest_deadline = None;
        }
        entry
    }

    /// Drops the empty flows of a bucket, and its turn if it has none left.
    fn tidy(&mut self, index: usize) {
        let bucket = bucket_at(&mut self.buckets, index);
        bucket.flows.retain(|flow| !flow.entries.is_empty());
        if bucket.flows.is_empty() {
            bucket.deficit = 0;
            self.turns.retain(|&turn| turn != index);
            self.forget_idle_keys();
        }
    }

    /// The bucket of a key, made where there is none.
    fn bucket_of(&mut self, key: K) -> usize {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.buckets.push(None);
            self.buckets.len() - 1
        });
        self.buckets[index] = Some(Bucket {
            key: key.clone(),
            flows: vec![],
            levels: [0; Priority::COUNT],
            items: 0,
            bytes: 0,
            deficit: 0,
            pace: Pace::default(),
        });
        self.by_key.insert(key, index);
        index
    }

    /// Forgets the keys without entries once there are many: callers choose keys, so their number is bounded here.
    fn forget_idle_keys(&mut self) {
        if self.by_key.len() <= self.turns.len() + IDLE_KEYS {
            return;
        }
        let (buckets, vacant) = (&mut self.buckets, &mut self.vacant);
        self.by_key.retain(|_, &mut index| {
            let used = buckets[index].as_ref().is_some_and(|bucket| !bucket.flows.is_empty());
            if !used {
                buckets[index] = None;
                vacant.push(index);
            }
            used
        });
    }
}

impl<K> Bucket<K> {
    /// The flow of a level and principal, made where there is none.
    fn flow(&mut self, priority: Priority, principal: u64) -> &mut Flow {
        let order = |flow: &Flow| -> Ordering { (flow.priority, flow.principal).cmp(&(priority, principal)) };
        let position = self.flows.binary_search_by(order).unwrap_or_else(|position| {
            self.flows.insert(position, Flow { priority, principal, entries: List::default() });
            position
        });
        &mut self.flows[position]
    }
}

fn bucket_at<K>(buckets: &mut [Option<Bucket<K>>], index: usize) -> &mut Bucket<K> {
    buckets[index].as_mut().expect("entries and turns name filled buckets only")
}

/// So long after an instant, or after a day where a setting means never.
fn after(at: Instant, by: Duration) -> Instant {
    at.checked_add(by).unwrap_or_else(|| at + Duration::from_secs(86_400))
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
