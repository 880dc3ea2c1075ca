//! Whether it pays to let an open batch fill while a worker is free: how long launches take, and how fast entries come.
//!
//! A launch of n items is taken to last `a * n + b`: `b` is what sharing a launch saves. Both are fitted by least squares
//! over the batches seen, older ones counting less and less.
//!
//! With n items queued and `rate` items a second on their way, waiting w seconds holds n items up by `w + a * rate * w`
//! each, and lets `rate * w` items start at w where they had waited for the launch of the first n to end: that saves each
//! `b - w`. The sum is gained most at `w = (rate * b - n * (1 + a * rate)) / (2 * rate)`, and where that is not positive, no
//! wait pays: which is whenever traffic is too thin for another item to come while a launch is being paid for.

use std::time::{Duration, Instant};

/// Share of the past that a new observation leaves.
const KEEP: f64 = 0.9;

/// Observations that must be there before anything is concluded.
const ENOUGH: f64 = 4.0;

/// Least spread of batch sizes, relative to their mean, that a slope is fitted to.
const SPREAD: f64 = 0.05;

/// Shorter waits cost more than they save: a thread cannot sleep that little.
const SHORTEST_WAIT: f64 = 50e-6;

/// Launches and arrivals of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    launches: Launches,
    arrivals: Arrivals,
}

impl Pace {
    /// Notes that items came.
    pub(super) fn arrived(&mut self, now: Instant, items: u64) {
        self.arrivals.note(now, items as f64);
    }

    /// Notes how long a launch took.
    pub(super) fn ran(&mut self, items: u64, took: Duration) {
        self.launches.note(items as f64, took.as_secs_f64());
    }

    /// How long to let `items` queued ones wait for joiners from now on, if at all.
    pub(super) fn worth_waiting(&self, now: Instant, items: u64) -> Option<Duration> {
        let (per_item, per_launch) = self.launches.line()?;
        let rate = self.arrivals.rate(now)?;
        let wait = (rate * per_launch - items as f64 * (1.0 + per_item * rate)) / (2.0 * rate);
        (wait >= SHORTEST_WAIT).then(|| Duration::try_from_secs_f64(wait).ok()).flatten()
    }

    /// How long a launch of `items` is expected to take; zero while unknown.
    pub(super) fn launch_time(&self, items: u64) -> Duration {
        let (per_item, per_launch) = self.launches.line().unwrap_or_default();
        Duration::try_from_secs_f64(per_item * items as f64 + per_launch).unwrap_or_default()
    }
}

/// Decayed sums of a least-squares line through (items, seconds).
#[derive(Clone, Debug, Default)]
struct Launches {
    weight: f64,
    items: f64,
    seconds: f64,
    items_squared: f64,
    items_seconds: f64,
    count: f64,
}

impl Launches {
    fn note(&mut self, items: f64, seconds: f64) {
        self.weight = self.weight * KEEP + 1.0;
        self.items = self.items * KEEP + items;
        self.seconds = self.seconds * KEEP + seconds;
        self.items_squared = self.items_squared * KEEP + items * items;
        self.items_seconds = self.items_seconds * KEEP + items * seconds;
        self.count += 1.0;
    }

    /// Seconds per item and per launch, once sizes differed enough to tell them apart.
    fn line(&self) -> Option<(f64, f64)> {
        if self.count < ENOUGH {
            return None;
        }
        let (mean_items, mean_seconds) = (self.items / self.weight, self.seconds / self.weight);
        let variance = self.items_squared / self.weight - mean_items * mean_items;
        if variance < (SPREAD * mean_items).powi(2) {
            return None;
        }
        let covariance = self.items_seconds / self.weight - mean_items * mean_seconds;
        let per_item = (covariance / variance).max(0.0);
        Some((per_item, (mean_seconds - per_item * mean_items).max(0.0)))
    }
}

/// Decayed means of the gaps between arrivals and of their items.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    last: Option<Instant>,
    gap_seconds: f64,
    items: f64,
    count: f64,
}

impl Arrivals {
    fn note(&mut self, now: Instant, items: f64) {
        if let Some(last) = self.last {
            let gap = now.saturating_duration_since(last).as_secs_f64();
            self.count += 1.0;
            // A plain mean at first, so that the first gap does not weigh more than the others.
            let share = (1.0 / self.count).max(1.0 - KEEP);
            self.gap_seconds += (gap - self.gap_seconds) * share;
            self.items += (items - self.items) * share;
        }
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    /// Items a second; a silence longer than the usual gap lowers it at once.
    fn rate(&self, now: Instant) -> Option<f64> {
        let silence = now.saturating_duration_since(self.last?).as_secs_f64();
        let gap = self.gap_seconds.max(silence).max(1e-9);
        (self.count >= ENOUGH).then_some(self.items / gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace that learnt 100 us per launch and 1 us per item, with an arrival every `gap`.
    fn learnt(start: Instant, gap: Duration) -> (Pace, Instant) {
        let mut pace = Pace::default();
        let mut now = start;
        for round in 0..40 {
            now += gap;
            pace.arrived(now, 1);
            let items = 1 + round % 8;
            pace.ran(items, Duration::from_micros(1000 + items));
        }
        (pace, now)
    }

    #[test]
    fn a_line_is_recovered_from_its_points() {
        let (pace, _) = learnt(Instant::now(), Duration::from_micros(10));
        let (per_item, per_launch) = pace.launches.line().expect("sizes differed");
        assert!((per_item - 1e-6).abs() < 1e-8, "{per_item}");
        assert!((per_launch - 1e-3).abs() < 1e-6, "{per_launch}");
        assert!(pace.launch_time(100).abs_diff(Duration::from_micros(1100)) < Duration::from_micros(2));
    }

    #[test]
    fn waiting_pays_in_dense_traffic_only() {
        let (dense, now) = learnt(Instant::now(), Duration::from_micros(10));
        assert!(dense.worth_waiting(now, 1).is_some());
        assert_eq!(dense.worth_waiting(now, 1000), None, "many wait already");
        assert_eq!(dense.worth_waiting(now + Duration::from_secs(1), 1), None, "the burst is over");
        let (thin, now) = learnt(Instant::now(), Duration::from_millis(10));
        assert_eq!(thin.worth_waiting(now, 1), None);
    }

    #[test]
    fn nothing_is_concluded_from_launches_of_one_size() {
        let mut pace = Pace::default();
        let now = Instant::now();
        for _ in 0..100 {
            pace.arrived(now, 1);
            pace.ran(8, Duration::from_millis(1));
        }
        assert_eq!(pace.worth_waiting(now, 1), None);
    }
}
