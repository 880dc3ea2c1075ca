//! Fills a batch from the entries of one key: by priority, then by what their principals were served, within the limits of
//! items, bytes and time, and so that every deadline is met.

use std::{
    cmp::Reverse,
    hash::Hash,
    time::{Duration, Instant},
};

use crate::config::Priority;

use super::{
    Batch, BatchSummary, Batcher, EntryId, Flow, Queued, fair_share::Contention, key_queue_at, open_batch::OpenBatch,
    select::Selection,
};

/// The first entry of a flow; a batch takes the greatest candidate first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    priority: Priority,
    start_tag: Reverse<u64>,
    entry: Reverse<EntryId>,
    flow: usize,
}

/// Decision about an entry as a batch is formed.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Take,
    /// Neither this entry nor those after it in its flow join the batch.
    Skip,
    /// Its deadline cannot be met.
    Drop,
}

/// The limits of a batch that holds more than its items and bytes: how long it may take, and which principals are ahead.
struct BatchTerms {
    now: Instant,
    /// Seconds.
    time: f64,
    /// For a worker that runs short batches only.
    short_only: bool,
    /// The principals of each priority, where several share it.
    contention: [Option<Contention>; Priority::COUNT],
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    /// Forms a batch from a key queue, unless nothing in it may run.
    pub(super) fn fill(&mut self, now: Instant, selection: &Selection, short_only: bool) -> Option<Batch<K, T>> {
        let index = selection.queue;
        let mut terms = self.terms(now, short_only);
        let mut open = OpenBatch::new(self.limits.items, self.limits.bytes);
        if let Some(first) = selection.first {
            self.offer(first, &mut terms, &mut open);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let flows = key_queue_at(&mut self.key_queues, index).flows.len();
        candidates.extend((0..flows).filter_map(|flow| self.candidate(index, flow)));
        while open.has_room()
            && let Some(candidate) = candidates.pop()
        {
            if self.offer(candidate.entry.0, &mut terms, &mut open) {
                candidates.extend(self.candidate(index, candidate.flow));
            }
        }
        candidates.clear();
        self.candidates = candidates;
        let key = key_queue_at(&mut self.key_queues, index).key.clone();
        if open.payloads.is_empty() {
            self.prune(index);
            return None;
        }
        self.rotate(index, open.bytes);
        Some(self.close(now, key, open))
    }

    fn terms(&self, now: Instant, short_only: bool) -> BatchTerms {
        let contention = Priority::ASCENDING.map(|level| self.contention(now, level));
        let is_contended = contention.iter().flatten().any(|contention| contention.contenders > 1);
        let time = if short_only || is_contended { self.limits.slice.min(self.limits.time) } else { self.limits.time };
        BatchTerms { now, time: time.as_secs_f64(), short_only, contention }
    }

    /// Offers an entry to a batch. Whether its flow may offer the next one.
    fn offer(&mut self, id: EntryId, terms: &mut BatchTerms, open: &mut OpenBatch<T>) -> bool {
        match self.judge(id, terms, open) {
            Verdict::Skip => return false,
            Verdict::Take => self.move_to_batch(id, terms.now, open),
            Verdict::Drop => {
                let entry = self.remove(id);
                self.record_unserved(terms.now, &entry);
                self.hopeless.push(entry.payload);
            }
        }
        true
    }

    fn judge(&self, id: EntryId, terms: &mut BatchTerms, open: &OpenBatch<T>) -> Verdict {
        let entry = self.entries.get(id).expect("candidates are queued");
        let slack = entry.deadline.map_or(f64::INFINITY, |at| at.saturating_duration_since(terms.now).as_secs_f64());
        if !open.payloads.is_empty() && self.joins(entry, slack, terms, open) {
            return Verdict::Take;
        }
        if !entry.admitted.is_probe && self.is_hopeless(entry, slack, terms, open) {
            return Verdict::Drop;
        }
        let is_long = || self.estimate.seconds(entry.cost).is_some_and(|time| time > self.limits.slice.as_secs_f64());
        let starts = open.payloads.is_empty() && !(terms.short_only && is_long());
        if starts { Verdict::Take } else { Verdict::Skip }
    }

    /// Returns true if an entry may join those that a batch holds.
    fn joins(&self, entry: &Queued<T>, slack: f64, terms: &mut BatchTerms, open: &OpenBatch<T>) -> bool {
        open.fits(entry.items, entry.bytes)
            && self.fits_time(entry, slack, terms, open)
            && !self.is_ahead_now(entry, terms)
    }

    /// Returns true if the deadline of an entry cannot be met. While entries are refused, one whose deadline would need a batch so
    /// short that it wastes the device's time counts as well.
    fn is_hopeless(&self, entry: &Queued<T>, slack: f64, terms: &BatchTerms, open: &OpenBatch<T>) -> bool {
        if slack.is_infinite() {
            return false;
        }
        let Some(own) = self.estimate.seconds(entry.cost) else { return false };
        if !self.is_under_pressure(terms.now) {
            // An entry that came before times were known has not been a probe.
            return own > slack && self.estimate.is_comparable(entry.cost);
        }
        let upper = |cost: u64| self.estimate.upper_seconds(cost).unwrap_or(0.0);
        if open.payloads.is_empty() {
            return upper(entry.cost) > slack || self.shortens_wastefully(entry, slack, terms);
        }
        upper(open.cost.saturating_add(entry.cost)) > slack && upper(open.cost) + upper(entry.cost) > slack
    }

    /// Returns true if a batch that ends within `slack` does clearly less per second than one of the full length.
    fn shortens_wastefully(&self, entry: &Queued<T>, slack: f64, terms: &BatchTerms) -> bool {
        let queued = self.key_queues[entry.queue].as_ref().map_or(0, |queue| queue.cost);
        let full = terms.time.min(self.time(queued));
        if slack >= full {
            return false;
        }
        let work = |seconds: f64| self.estimate.cost_within(seconds).min(queued) as f64 / seconds;
        work(slack) < 0.95 * work(full)
    }

    /// Returns true if entries were refused or dropped lately because of their deadlines.
    fn is_under_pressure(&self, now: Instant) -> bool {
        self.refused.is_some_and(|at| now.saturating_duration_since(at) < Duration::from_secs(1))
    }

    /// Returns true if a batch stays short enough with an entry, and meets all deadlines.
    fn fits_time(&self, entry: &Queued<T>, slack: f64, terms: &BatchTerms, open: &OpenBatch<T>) -> bool {
        let cost = open.cost.saturating_add(entry.cost);
        let Some(time) = self.estimate.seconds(cost) else { return true };
        let upper = time * self.estimate.upper_factor();
        time <= open.time_limit(terms.time, self.limits.time.as_secs_f64()) && upper <= open.slack.min(slack)
    }

    /// Returns true if the principal of an entry is too far ahead, after what the batch holds.
    fn is_ahead_now(&self, entry: &Queued<T>, terms: &mut BatchTerms) -> bool {
        let contention = &mut terms.contention[entry.priority.index()];
        let tag = self.fair_share.start_tag(entry.priority, entry.principal);
        if !self.is_ahead(contention.as_ref(), tag) {
            return false;
        }
        // Others were served by this batch: the floor may have risen.
        *contention = self.contention(terms.now, entry.priority);
        self.is_ahead(contention.as_ref(), tag)
    }

    fn candidate(&self, queue: usize, flow: usize) -> Option<Candidate> {
        let Flow { priority, principal, entries } = &self.key_queues[queue].as_ref()?.flows[flow];
        let entry = self.entries.head(*entries)?;
        let start_tag = Reverse(self.fair_share.start_tag(*priority, *principal));
        Some(Candidate { priority: *priority, start_tag, entry: Reverse(entry), flow })
    }

    fn move_to_batch(&mut self, id: EntryId, now: Instant, open: &mut OpenBatch<T>) {
        let entry = self.remove(id);
        let level = entry.priority;
        let principal = entry.principal;
        let cost = open.cost.saturating_add(entry.cost);
        let seconds = self.time(cost);
        let added = (seconds - open.seconds).max(0.0);
        if self.fair_share.is_shared(level) {
            let expected = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            if self.fair_share.joins_batch(now, (level, principal), expected, self.backlog.next_batch()) {
                open.sharers.push((level, principal));
            }
        }
        self.fair_share.charge(level, principal, self.charge(&entry, added, seconds / cost as f64), entry.cost);
        if let Some(expected) = entry.admitted.expected_wait {
            let waited = now.saturating_duration_since(entry.arrived).as_secs_f64();
            self.fair_share.record_wait(level, principal, expected, waited);
        }
        open.level_seconds[level.index()] += added;
        if open.payloads.is_empty() {
            open.principal = principal;
            open.first_seconds = self.estimate.seconds(entry.cost);
        }
        if let Some(deadline) = entry.deadline {
            open.slack = open.slack.min(deadline.saturating_duration_since(now).as_secs_f64());
        }
        open.items += entry.items;
        open.bytes = open.bytes.saturating_add(entry.bytes);
        open.cost = cost;
        open.seconds = seconds;
        open.payloads.push(entry.payload);
    }

    /// Returns a principal's charge until the batch is complete: the time by which its entry prolongs the batch, in nanoseconds,
    /// and at least its share of the batch, so that those whose entries prolong it little take turns as well. Cost while times
    /// are unknown.
    fn charge(&self, entry: &Queued<T>, added_seconds: f64, seconds_per_cost: f64) -> u64 {
        if !self.is_informed {
            return entry.cost;
        }
        let seconds = added_seconds.max(seconds_per_cost * entry.cost as f64);
        u64::try_from(Duration::try_from_secs_f64(seconds).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Accounts for a batch that is complete.
    fn close(&mut self, now: Instant, key: K, open: OpenBatch<T>) -> Batch<K, T> {
        let overdue = Priority::ASCENDING.map(|level| {
            let head = self.entries.head(self.arrivals[level.index()]).and_then(|id| self.entries.get(id));
            head.is_some_and(|head| self.is_overdue(now, head))
        });
        self.level_share.record(open.level_seconds, overdue, self.limits.time.as_secs_f64());
        if self.is_informed {
            let nanos_per_cost = open.seconds * 1e9 / open.cost as f64;
            let sharers = open.sharers.iter();
            sharers.for_each(|&(level, principal)| self.fair_share.batch_closed(level, principal, nanos_per_cost));
        }
        let empty = Priority::ASCENDING.into_iter().filter(|level| self.levels[level.index()] == 0);
        empty.for_each(|level| self.level_share.clear(level));
        let expected = self.estimate.seconds(open.cost).and_then(|time| Duration::try_from_secs_f64(time).ok());
        let number = self.backlog.batch_started(now, expected, self.entries.len() == 0);
        let OpenBatch { items, bytes, cost, principal, sharers, payloads, .. } = open;
        Batch { summary: BatchSummary { key, items, bytes, cost, expected, principal, number, sharers }, payloads }
    }
}
