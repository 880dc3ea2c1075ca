//! Refuses an entry whose deadline would pass before it is answered.
//!
//! The wait is the time until a running batch ends, plus the time to drain what goes first: all entries of higher priority,
//! and of its own priority what fair queueing serves before it. The drain rate is measured while the queue is never empty, so
//! that it includes everything else that the device does. What the expectation leaves out is learned for each principal and
//! priority (see `wait_ratio`). The time of the batch itself is added in full, although part of the wait is in it, and once
//! more as a margin, or a quarter of the wait if that is longer, so that errors lead to a shorter queue rather than to late answers.

use std::{hash::Hash, time::Instant};

use crate::config::Priority;

use super::Batcher;

/// Most of the time to the deadline that is kept as a margin where others wait: an entry that is served just before its deadline
/// bounds its batch to the time that is left, or is dropped, after others were refused for it.
const MAX_MARGIN: f64 = 0.25;

/// Share by which a wait may exceed the expected one, since the speed of a device varies while an entry waits.
const WAIT_MARGIN: f64 = 0.25;

/// Figures of an admitted entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admitted {
    /// Seconds in the queue, if it has a deadline and times are known.
    pub(super) expected_wait: Option<f64>,
    /// It runs although its own time exceeds its deadline, to learn whether that is so.
    pub(super) is_probe: bool,
}

/// The entry would miss its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WouldMiss {
    /// Seconds until it would be answered.
    pub(crate) seconds: f64,
    /// It would be answered in time if nothing else ran.
    pub(crate) fits_alone: bool,
}

/// Figures of an entry that decide on its admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) priority: Priority,
    pub(crate) principal: u64,
    /// Estimated work, in the unit of the operation. Zero counts as one.
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Instant>,
    /// It passed [`Batcher::screen`]. What began to arrive after it is still counted as ahead of it, so its wait has no margin.
    pub(crate) is_screened: bool,
    /// As in [`Context`](crate::Context).
    pub(crate) is_continuation: bool,
}

/// When an entry would be answered, in seconds from now.
struct Expectation {
    /// In the queue.
    wait: f64,
    /// In a batch of its own.
    own: f64,
    /// Until its answer, with margins.
    answer: f64,
    /// Until its deadline.
    left: f64,
}

impl<K: Clone + Eq + Hash, T> Batcher<K, T> {
    /// Decides whether an entry is queued. `has_free_slot` tells whether another batch may start now.
    pub(crate) fn admit(&mut self, now: Instant, terms: Terms, has_free_slot: bool) -> Result<Admitted, WouldMiss> {
        let Some(expected) = self.expect(now, terms, has_free_slot) else { return Ok(Admitted::default()) };
        let is_probe = expected.own > expected.left && self.estimate.take_probe(now, terms.cost.max(1));
        let needed = if terms.is_continuation { expected.own } else { expected.answer };
        if needed > expected.left && !is_probe {
            return Err(self.refuse(now, &expected));
        }
        Ok(Admitted { expected_wait: Some(expected.wait), is_probe })
    }

    /// Decides whether an entry is received, and counts it as queued until [`Self::arrived`].
    pub(crate) fn screen(&mut self, now: Instant, terms: Terms, has_free_slot: bool) -> Result<(), WouldMiss> {
        match self.expect(now, terms, has_free_slot) {
            // An entry that is too long by itself may become a probe.
            Some(expected) if expected.answer > expected.left && expected.own <= expected.left => {
                Err(self.refuse(now, &expected))
            }
            _ => {
                self.arriving.add(terms);
                Ok(())
            }
        }
    }

    /// An entry that passed [`Self::screen`] has arrived, or never will.
    pub(crate) fn arrived(&mut self, terms: Terms) {
        self.arriving.remove(terms);
    }

    fn refuse(&mut self, now: Instant, expected: &Expectation) -> WouldMiss {
        self.refused = Some(now);
        WouldMiss { seconds: expected.answer, fits_alone: expected.own <= expected.left }
    }

    /// Nothing without a deadline, or while times are unknown.
    fn expect(&self, now: Instant, terms: Terms, has_free_slot: bool) -> Option<Expectation> {
        let deadline = terms.deadline?;
        let cost = terms.cost.max(1);
        let own = self.estimate.upper_seconds(cost)?;
        let (ahead, wait_ratio) = self.cost_ahead(terms.priority, terms.principal, cost);
        let drain = match self.backlog.drain_rate(now) {
            _ if ahead == 0 => 0.0,
            Some(rate) => ahead as f64 / rate.max(f64::MIN_POSITIVE),
            None => self.time(ahead),
        };
        let wait = if has_free_slot { drain } else { drain + self.backlog.seconds_to_first_end(now) };
        let shared =
            if ahead == 0 { own } else { self.estimate.upper_seconds(ahead.saturating_add(cost)).unwrap_or(own) };
        let batch = shared.min(self.limits.time.as_secs_f64()).max(own);
        let left = deadline.saturating_duration_since(now).as_secs_f64();
        let wait_by_ratio = wait * wait_ratio;
        let is_certain = ahead == 0 || terms.is_screened;
        let margin = if is_certain { 0.0 } else { batch.max(wait_by_ratio * WAIT_MARGIN).min(left * MAX_MARGIN) };
        Some(Expectation { wait, own, answer: wait_by_ratio + batch + margin, left })
    }

    /// Cost that is served before a new entry, and the ratio of its principal's waits to what was expected.
    fn cost_ahead(&self, priority: Priority, principal: u64, cost: u64) -> (u64, f64) {
        let level_cost =
            |level: Priority| self.level_costs[level.index()].saturating_add(self.arriving.level_cost(level));
        let higher = Priority::DESCENDING.into_iter().take_while(|level| *level != priority);
        let higher = higher.fold(0_u64, |sum, level| sum.saturating_add(level_cost(level)));
        let level = level_cost(priority);
        let share = self.fair_share.queued_share(priority, principal);
        let own = share.own_cost.saturating_add(self.arriving.cost_of(priority, principal));
        // Each of the others is served at most as much as this principal before its entry.
        let fair = own.saturating_add(cost).saturating_mul(share.principals as u64) - cost;
        (higher.saturating_add(level.min(fair)), share.wait_ratio)
    }
}
