//! The device time that each principal was served at each priority, so that the one served least goes first.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996): the start tag of a principal's next entry is its own finish tag, or
//! the priority's virtual time if that is later, so that a principal gains no credit while it is idle. The virtual time is
//! the start tag of the entry served last.
//!
//! A principal with one call in flight has nothing queued between a response and its next call. Without more, whoever has a
//! long queue would take the device in that moment, and the other would get half of its share. So a principal whose calls
//! follow each other closely counts as *present* while its entries run and shortly afterwards (anticipatory scheduling; Iyer
//! and Druschel, 2001), and nobody may be further ahead of the principal that was served least, its *floor*, than an
//! allowance. A principal that takes longer, but calls again within a second, keeps as much credit as the allowance.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::config::Priority;

use super::wait_ratio::WaitRatio;

/// Principals without entries that are kept for each priority; beyond this number, all of them are dropped.
const IDLE_SHARES: usize = 1024;

/// A principal is waited for at most this part of the time of its last batch.
const ANTICIPATED_PART: u32 = 2;

/// The weight of a new observation in the mean time between a response and the next call.
const THINK_WEIGHT: f64 = 0.25;

/// Principals that were served within this time are contenders: batches stay short while there are several.
const CONTENDER_MEMORY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct FairShare {
    levels: [Level; Priority::COUNT],
    /// The most by which the tag of a returning contender may be less than the virtual time, in nanoseconds. Zero until tags
    /// are in nanoseconds.
    credit: u64,
}

#[derive(Debug, Default)]
struct Level {
    shares: HashMap<u64, Share>,
    virtual_time: u64,
    /// Principals with entries.
    queued: usize,
}

#[derive(Debug, Default)]
struct Share {
    finish_tag: u64,
    entries: usize,
    /// Cost of its entries.
    cost: u64,
    /// Until when it is expected to call again, although it has no entry.
    present_until: Option<Instant>,
    last_batch: Option<u64>,
    /// Charge for its entries in that batch so far, and their cost.
    batch_charge: u64,
    batch_cost: u64,
    /// When its last batch ended.
    answered: Option<Instant>,
    /// Mean seconds from the end of a batch to its next call.
    think_seconds: f64,
    wait_ratio: WaitRatio,
}

/// The principals of one priority, as a batch is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contention {
    /// The least tag of a principal that is present.
    pub(super) floor: u64,
    /// Until when the principal of the floor is waited for, if it has no entry.
    pub(super) hold_until: Option<Instant>,
    /// Principals that are present, or were served a short time ago.
    pub(super) contenders: usize,
}

/// A principal's share of the queue of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedShare {
    pub(super) own_cost: u64,
    pub(super) principals: usize,
    pub(super) wait_ratio: f64,
}

impl FairShare {
    pub(super) fn enqueued(&mut self, now: Instant, level: Priority, principal: u64, cost: u64) {
        let level = &mut self.levels[level.index()];
        let share = level.shares.entry(principal).or_default();
        if share.entries == 0 {
            share.finish_tag = share.returning_tag(now, level.virtual_time, self.credit);
            share.record_think(now);
            level.queued += 1;
        }
        share.entries += 1;
        share.cost = share.cost.saturating_add(cost);
    }

    /// An entry was removed from the queue, whether served or not.
    pub(super) fn dequeued(&mut self, level: Priority, principal: u64, cost: u64) {
        let level = &mut self.levels[level.index()];
        let Some(share) = level.shares.get_mut(&principal) else { return };
        share.entries -= 1;
        share.cost = share.cost.saturating_sub(cost);
        level.queued -= usize::from(share.entries == 0);
        if level.shares.len() > level.queued + IDLE_SHARES {
            level.shares.retain(|_, share| share.entries > 0);
        }
    }

    /// The start tag of a principal's next entry; the lowest is served first.
    pub(super) fn start_tag(&self, level: Priority, principal: u64) -> u64 {
        self.levels[level.index()].shares.get(&principal).map_or(0, |share| share.finish_tag)
    }

    /// Charges a principal for an entry that joins a batch.
    pub(super) fn charge(&mut self, level: Priority, principal: u64, time: u64, cost: u64) {
        let level = &mut self.levels[level.index()];
        if let Some(share) = level.shares.get_mut(&principal) {
            level.virtual_time = share.finish_tag.max(level.virtual_time);
            share.finish_tag = share.finish_tag.saturating_add(time);
            share.batch_charge = share.batch_charge.saturating_add(time);
            share.batch_cost = share.batch_cost.saturating_add(cost);
        }
    }

    /// Corrects the charge of a principal once its batch is complete: it is charged the part of the batch's time that its
    /// entries have of the cost, however late they joined.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The conversion saturates.
    pub(super) fn batch_closed(&mut self, level: Priority, principal: u64, nanos_per_cost: f64) {
        if let Some(share) = self.levels[level.index()].shares.get_mut(&principal) {
            let charge = (nanos_per_cost * share.batch_cost as f64) as u64;
            share.finish_tag = share.finish_tag.saturating_sub(share.batch_charge).saturating_add(charge);
        }
    }

    /// Returns true if a level has more than one principal, without which there is nothing to share.
    pub(super) fn is_shared(&self, level: Priority) -> bool {
        self.levels[level.index()].shares.len() > 1
    }

    /// Marks a principal as present for the time that its batch may take. Whether this is its first entry in the batch of that
    /// number, which is then charged anew.
    pub(super) fn joins_batch(
        &mut self,
        now: Instant,
        (level, principal): (Priority, u64),
        expected: Duration,
        number: u64,
    ) -> bool {
        let Some(share) = self.levels[level.index()].shares.get_mut(&principal) else { return false };
        share.present_until = now.checked_add(expected * 2);
        share.answered = None;
        let is_first = share.last_batch.replace(number) != Some(number);
        if is_first {
            (share.batch_charge, share.batch_cost) = (0, 0);
        }
        is_first
    }

    /// Marks a principal as present for a while after its batch, if it usually calls again soon.
    pub(super) fn batch_finished(&mut self, now: Instant, level: Priority, principal: u64, took: Duration) {
        if let Some(share) = self.levels[level.index()].shares.get_mut(&principal) {
            let anticipated = took / ANTICIPATED_PART;
            let is_close = share.think_seconds <= anticipated.as_secs_f64();
            share.present_until = is_close.then(|| now.checked_add(anticipated)).flatten();
            share.answered = Some(now);
        }
    }

    /// The principals of a level. Costs a step for each.
    pub(super) fn contention(&self, now: Instant, level: Priority) -> Contention {
        let mut contention = Contention { floor: u64::MAX, hold_until: None, contenders: 0 };
        for share in self.levels[level.index()].shares.values() {
            contention.contenders += usize::from(share.is_contender(now));
            if share.is_present(now) && share.finish_tag < contention.floor {
                contention.floor = share.finish_tag;
                contention.hold_until = share.present_until.filter(|_| share.entries == 0);
            }
        }
        contention
    }

    pub(super) fn queued_share(&self, level: Priority, principal: u64) -> QueuedShare {
        let level = &self.levels[level.index()];
        let share = level.shares.get(&principal);
        let is_new = share.is_none_or(|share| share.entries == 0);
        QueuedShare {
            own_cost: share.map_or(0, |share| share.cost),
            principals: level.queued + usize::from(is_new),
            wait_ratio: share.map_or(1.0, |share| share.wait_ratio.get()),
        }
    }

    /// Records how long an entry waited, and how long it was expected to.
    pub(super) fn record_wait(&mut self, level: Priority, principal: u64, expected: f64, waited: f64) {
        if let Some(share) = self.levels[level.index()].shares.get_mut(&principal) {
            share.wait_ratio.record(expected, waited);
        }
    }

    /// Converts all tags to another unit. Nobody stays further ahead than `max_lead`: what was served before the unit was known is
    /// a rough measure.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The conversion saturates.
    pub(super) fn convert_tags(&mut self, factor: f64, max_lead: u64) {
        self.credit = max_lead;
        for level in &mut self.levels {
            let least = level.shares.values().map(|share| share.finish_tag).min().unwrap_or(0);
            let convert =
                |tag: &mut u64| *tag = (tag.saturating_sub(least) as f64 * factor).min(max_lead as f64) as u64;
            convert(&mut level.virtual_time);
            level.shares.values_mut().for_each(|share| convert(&mut share.finish_tag));
        }
    }
}

impl Share {
    /// The tag of a principal that had no entry. A present one was not idle, and keeps its own. A contender that took longer to
    /// call again keeps at most `credit`.
    fn returning_tag(&self, now: Instant, virtual_time: u64, credit: u64) -> u64 {
        if self.is_present(now) {
            return self.finish_tag;
        }
        let credit = if self.is_contender(now) { credit } else { 0 };
        self.finish_tag.max(virtual_time.saturating_sub(credit))
    }

    fn record_think(&mut self, now: Instant) {
        if let Some(answered) = self.answered.take() {
            let seconds = now.saturating_duration_since(answered).as_secs_f64();
            self.think_seconds += (seconds - self.think_seconds) * THINK_WEIGHT;
        }
    }

    fn is_contender(&self, now: Instant) -> bool {
        let recent = |at: Instant| now.saturating_duration_since(at) < CONTENDER_MEMORY;
        self.is_present(now) || self.answered.is_some_and(recent)
    }

    fn is_present(&self, now: Instant) -> bool {
        self.entries > 0 || self.present_until.is_some_and(|until| until > now)
    }
}
