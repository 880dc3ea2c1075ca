//! Decides whether holding a batch open pays while a worker is free, from a model of launch times and arrivals.
//!
//! A launch of n items takes `a * n + b`, where `b` is what sharing a launch saves. Both are fitted by least squares over the
//! batches seen, with exponentially decaying weights.
//!
//! With n items queued and `rate` items a second arriving, waiting w seconds delays n items by `w + a * rate * w` each. The
//! `rate * w` items that arrive meanwhile start at w instead of waiting for the launch of the first n, and save `b - w` each.
//! The total gain is largest at `w = (rate * b - n * (1 + a * rate)) / (2 * rate)`. Where that is not positive, no wait pays:
//! traffic is too thin for another item to arrive within the fixed cost of a launch.

use std::time::{Duration, Instant};

/// Factor by which a new observation decays the weights of earlier ones.
const DECAY: f64 = 0.9;

/// Observations needed before the model predicts anything.
const MIN_OBSERVATIONS: f64 = 4.0;

/// Least standard deviation of batch sizes, relative to their mean, for a slope to be fitted.
const MIN_SPREAD: f64 = 0.05;

/// A thread cannot sleep for less than this, in seconds.
const MIN_WAIT: f64 = 50e-6;

/// The model of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchTiming {
    launches: Launches,
    arrivals: Arrivals,
}

impl BatchTiming {
    pub(super) fn record_arrival(&mut self, now: Instant, items: u64) {
        self.arrivals.record(now, items as f64);
    }

    pub(super) fn record_launch(&mut self, items: u64, took: Duration) {
        self.launches.record(items as f64, took.as_secs_f64());
    }

    /// Returns the time to hold a batch of `items` open from now on, if at all.
    pub(super) fn optimal_wait(&self, now: Instant, items: u64) -> Option<Duration> {
        let (per_item, per_launch) = self.launches.line()?;
        let rate = self.arrivals.rate(now)?;
        let wait = (rate * per_launch - items as f64 * (1.0 + per_item * rate)) / (2.0 * rate);
        (wait >= MIN_WAIT).then(|| Duration::try_from_secs_f64(wait).ok()).flatten()
    }

    /// The expected duration of a launch of `items`; zero while unknown.
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
    fn record(&mut self, items: f64, seconds: f64) {
        self.weight = self.weight * DECAY + 1.0;
        self.items = self.items * DECAY + items;
        self.seconds = self.seconds * DECAY + seconds;
        self.items_squared = self.items_squared * DECAY + items * items;
        self.items_seconds = self.items_seconds * DECAY + items * seconds;
        self.count += 1.0;
    }

    /// Seconds per item and per launch, once batch sizes differ enough to separate them.
    fn line(&self) -> Option<(f64, f64)> {
        if self.count < MIN_OBSERVATIONS {
            return None;
        }
        let mean_items = self.items / self.weight;
        let mean_seconds = self.seconds / self.weight;
        let variance = self.items_squared / self.weight - mean_items * mean_items;
        if variance < (MIN_SPREAD * mean_items).powi(2) {
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
    fn record(&mut self, now: Instant, items: f64) {
        if let Some(last) = self.last {
            let gap = now.saturating_duration_since(last).as_secs_f64();
            self.count += 1.0;
            // An arithmetic mean at first, so that the first gap has no more weight than the others.
            let share = (1.0 / self.count).max(1.0 - DECAY);
            self.gap_seconds += (gap - self.gap_seconds) * share;
            self.items += (items - self.items) * share;
        }
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    /// Items a second; a silence longer than the usual gap lowers it at once.
    fn rate(&self, now: Instant) -> Option<f64> {
        let silence = now.saturating_duration_since(self.last?).as_secs_f64();
        let gap = self.gap_seconds.max(silence).max(1e-9);
        (self.count >= MIN_OBSERVATIONS).then_some(self.items / gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model trained on 1 ms per launch and 1 us per item, with an arrival every `gap`.
    fn trained(start: Instant, gap: Duration) -> (BatchTiming, Instant) {
        let mut timing = BatchTiming::default();
        let mut now = start;
        for round in 0..40 {
            now += gap;
            timing.record_arrival(now, 1);
            let items = 1 + round % 8;
            timing.record_launch(items, Duration::from_micros(1000 + items));
        }
        (timing, now)
    }

    #[test]
    fn a_line_is_recovered_from_its_points() {
        let (timing, _) = trained(Instant::now(), Duration::from_micros(10));
        let (per_item, per_launch) = timing.launches.line().expect("sizes differed");
        assert!((per_item - 1e-6).abs() < 1e-8, "{per_item}");
        assert!((per_launch - 1e-3).abs() < 1e-6, "{per_launch}");
        assert!(timing.launch_time(100).abs_diff(Duration::from_micros(1100)) < Duration::from_micros(2));
    }

    #[test]
    fn waiting_pays_in_dense_traffic_only() {
        let (dense, now) = trained(Instant::now(), Duration::from_micros(10));
        assert!(dense.optimal_wait(now, 1).is_some());
        assert_eq!(dense.optimal_wait(now, 1000), None, "many wait already");
        assert_eq!(dense.optimal_wait(now + Duration::from_secs(1), 1), None, "the burst is over");
        let (thin, now) = trained(Instant::now(), Duration::from_millis(10));
        assert_eq!(thin.optimal_wait(now, 1), None);
    }

    #[test]
    fn launches_of_one_size_predict_nothing() {
        let mut timing = BatchTiming::default();
        let now = Instant::now();
        for _ in 0..100 {
            timing.record_arrival(now, 1);
            timing.record_launch(8, Duration::from_millis(1));
        }
        assert_eq!(timing.optimal_wait(now, 1), None);
    }
}
