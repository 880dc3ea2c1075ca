//! When the work ahead of a new entry will be done: the batches that run, and how fast a queue that is never empty drains.

use std::time::{Duration, Instant};

/// The time constant of the mean drain rate, in seconds.
const MEMORY: f64 = 1.0;

/// A drain rate that was measured longer ago than this is not used.
const VALIDITY: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Backlog {
    running: Vec<ExpectedEnd>,
    next_batch: u64,
    /// Decayed sums over the intervals in which the queue was never empty.
    drained_cost: f64,
    drained_seconds: f64,
    /// The start of the current interval.
    since: Option<Instant>,
    measured: Option<Instant>,
}

#[derive(Debug)]
struct ExpectedEnd {
    batch: u64,
    ends: Instant,
}

impl Backlog {
    /// The number of the batch that starts next.
    pub(super) fn next_batch(&self) -> u64 {
        self.next_batch
    }

    /// A batch starts, after which the queue is empty or not. Returns the batch's number.
    pub(super) fn batch_started(&mut self, now: Instant, expected: Option<Duration>, is_empty: bool) -> u64 {
        self.since = if is_empty { None } else { self.since.or(Some(now)) };
        let batch = self.next_batch;
        self.next_batch += 1;
        let ends = now.checked_add(expected.unwrap_or_default()).unwrap_or(now);
        self.running.push(ExpectedEnd { batch, ends });
        batch
    }

    pub(super) fn batch_finished(&mut self, now: Instant, batch: u64, cost: u64) {
        self.running.retain(|running| running.batch != batch);
        let Some(since) = self.since.replace(now) else {
            self.since = None;
            return;
        };
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        let decay = (-seconds / MEMORY).exp();
        self.drained_cost = self.drained_cost * decay + cost as f64;
        self.drained_seconds = self.drained_seconds * decay + seconds;
        self.measured = Some(now);
    }

    /// Cost that is drained per second, if it was measured lately.
    pub(super) fn drain_rate(&self, now: Instant) -> Option<f64> {
        let fresh = self.measured.is_some_and(|at| now.saturating_duration_since(at) <= VALIDITY);
        (fresh && self.drained_seconds > 0.0).then(|| self.drained_cost / self.drained_seconds)
    }

    /// Seconds until the first running batch ends. A batch that takes longer than expected is expected to take as long again
    /// as it is late.
    pub(super) fn seconds_to_first_end(&self, now: Instant) -> f64 {
        let left = |running: &ExpectedEnd| {
            let early = running.ends.saturating_duration_since(now);
            early.max(now.saturating_duration_since(running.ends)).as_secs_f64()
        };
        self.running.iter().map(left).min_by(f64::total_cmp).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_drain_rate_counts_only_intervals_with_a_backlog() {
        let start = Instant::now();
        let mut backlog = Backlog::default();
        let first = backlog.batch_started(start, None, true);
        backlog.batch_finished(start + 10 * MS, first, 1000);
        assert_eq!(backlog.drain_rate(start + 10 * MS), None, "the queue was empty");
        let mut now = start + 500 * MS;
        for _ in 0..5 {
            let batch = backlog.batch_started(now, None, false);
            now += 10 * MS;
            backlog.batch_finished(now, batch, 20);
        }
        let rate = backlog.drain_rate(now).expect("it was measured");
        assert!((rate - 2000.0).abs() < 1.0, "{rate}");
        assert_eq!(backlog.drain_rate(now + 3 * VALIDITY), None, "it is too old");
    }

    #[test]
    fn a_late_batch_is_expected_to_take_as_long_again() {
        let start = Instant::now();
        let mut backlog = Backlog::default();
        assert!(backlog.seconds_to_first_end(start).abs() < 1e-9);
        backlog.batch_started(start, Some(30 * MS), false);
        backlog.batch_started(start, Some(20 * MS), false);
        let left = |after: u32| backlog.seconds_to_first_end(start + after * MS);
        assert!((left(0) - 0.02).abs() < 1e-9 && (left(15) - 0.005).abs() < 1e-9);
        assert!((left(80) - 0.05).abs() < 1e-9, "{}", left(80));
    }
}
