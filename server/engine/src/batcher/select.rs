//! Chooses the key whose entries form the next batch, or until when the worker waits.

use std::{hash::Hash, time::Instant};

use crate::config::Priority;

use super::{Batcher, EntryId, after, earlier, key_queue_at};

enum Readiness {
    Ready,
    WaitUntil(Instant),
}

/// The key queue to form a batch from, and the entry that goes first, if it is not the first by priority.
pub(super) struct Selection {
    pub(super) queue: usize,
    pub(super) first: Option<EntryId>,
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    /// The key queue to form a batch from, or until when none is ready.
    pub(super) fn select(&mut self, now: Instant) -> Result<Selection, Instant> {
        let mut until = None;
        let owed = self.owed_level(now);
        let others = Priority::DESCENDING.into_iter().filter(|level| Some(*level) != owed);
        for level in owed.into_iter().chain(others) {
            if self.levels[level.index()] == 0 {
                continue;
            }
            match self.next_ready(level, now) {
                Ok(queue) => {
                    let first = (owed == Some(level)).then(|| self.next_entry(queue, level)).flatten();
                    return Ok(Selection { queue, first: first.map(|(_, id)| id) });
                }
                Err(wait) => until = earlier(until, wait),
            }
        }
        Err(until.unwrap_or_else(|| after(now, self.limits.age)))
    }

    /// The lowest level that is overdue and has earned its next entry's time, if a higher one has entries.
    fn owed_level(&self, now: Instant) -> Option<Priority> {
        Priority::DESCENDING.into_iter().rev().find(|level| {
            let head = self.entries.head(self.arrivals[level.index()]).and_then(|id| self.entries.get(id));
            head.is_some_and(|head| {
                self.is_overdue(now, head) && self.level_share.affords(*level, self.time(head.cost))
            })
        })
    }

    /// The next key queue with entries of a priority that is ready, or when the first of them will be.
    fn next_ready(&mut self, level: Priority, now: Instant) -> Result<usize, Option<Instant>> {
        let contention = self.contention(now, level);
        let mut until = None;
        let mut saving = None;
        for position in 0..self.round_robin.len() {
            let index = self.round_robin[position];
            let Some((tag, head)) = self.next_entry(index, level) else { continue };
            if self.is_ahead(contention.as_ref(), tag) {
                until = earlier(until, contention.and_then(|contention| contention.hold_until));
                continue;
            }
            match self.readiness(index, now) {
                Readiness::WaitUntil(at) => until = earlier(until, Some(at)),
                Readiness::Ready if self.affords_batch(index, head) => return Ok(index),
                Readiness::Ready => saving = saving.or(Some(index)),
            }
        }
        saving.ok_or(until)
    }

    /// The entry of a key and priority that is served next, and the start tag of its principal.
    fn next_entry(&self, index: usize, level: Priority) -> Option<(u64, EntryId)> {
        let queue = self.key_queues[index].as_ref().expect("only filled key queues are in the round robin");
        if queue.levels[level.index()] == 0 {
            return None;
        }
        let flows = queue.flows.iter().filter(|flow| flow.priority == level);
        let heads = flows.filter_map(|flow| {
            let head = self.entries.head(flow.entries)?;
            Some((self.fair_share.start_tag(level, flow.principal), head))
        });
        heads.min()
    }

    /// Returns true if a key queue has enough credit for its next entry; if not, it gains one batch's bytes.
    fn affords_batch(&mut self, index: usize, head: EntryId) -> bool {
        let bytes = self.entries.get(head).map_or(0, |entry| entry.bytes);
        let queue = key_queue_at(&mut self.key_queues, index);
        if bytes <= queue.deficit.saturating_add(self.limits.bytes) {
            return true;
        }
        queue.deficit = queue.deficit.saturating_add(self.limits.bytes);
        false
    }

    /// Returns whether a batch is formed now, or the time until which it pays to hold it open.
    fn readiness(&self, index: usize, now: Instant) -> Readiness {
        let queue = self.key_queues[index].as_ref().expect("only filled key queues are in the round robin");
        let full = queue.items >= self.limits.items || queue.bytes >= self.limits.bytes;
        if self.limits.wait.is_zero() || full {
            return Readiness::Ready;
        }
        let Some(wait) = queue.timing.optimal_wait(now, queue.items) else { return Readiness::Ready };
        let heads = queue.flows.iter().filter_map(|flow| self.entries.get(self.entries.head(flow.entries)?));
        let oldest = heads.map(|entry| entry.arrived).min().unwrap_or(now);
        let mut until = after(now, wait).min(after(oldest, self.limits.wait.min(self.limits.age)));
        if let Some(deadline) = self.earliest_deadline {
            // Nothing is waited for where the launch alone takes longer than the deadline allows.
            let latest = deadline.checked_sub(queue.timing.launch_time(queue.items)).unwrap_or(now);
            until = until.min(latest);
        }
        if until > now { Readiness::WaitUntil(until) } else { Readiness::Ready }
    }
}
