//! Estimates of a batch's time, learned from the batches of one lane on one device.
//!
//! Costs are bucketed by powers of two. A bucket holds exponentially weighted means of the cost and of the time of its
//! batches; between two known buckets the time is interpolated linearly. Beyond the largest known cost the time is assumed
//! to stay the same for one doubling, so that a larger batch is tried at all, and to grow in proportion from there. The
//! newest observation is believed: it lowers the buckets below it and raises those above it where they contradict it, so
//! that times never decrease with the cost. A larger bucket that seems to take longer than in proportion is forgotten with
//! time: it may hold one slow batch, and batches that seem too slow are not run again, so nothing would correct it.
//!
//! Submitters read while workers record, without a lock: a value that is torn between two records is as good as either.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

const BUCKETS: usize = u64::BITS as usize;

/// Batches to see before anything is predicted: the first ones pay for cold caches.
const MIN_OBSERVATIONS: u64 = 3;

/// The least weight of a new observation in a bucket's means.
const WEIGHT: f64 = 0.25;

/// An observation counts as at most this multiple of the time that was expected, so that one pause is not taken for a trend.
const MAX_SURPRISE: f64 = 2.0;

/// The time constant, in seconds, with which larger buckets approach [`SCALED_PART`] of the newest observation.
const FORGETTING: f64 = 1.0;

/// The part of a batch's time that is assumed to grow with its cost where nothing else is known.
const SCALED_PART: f64 = 0.5;

/// The weight of a new observation in the mean relative error.
const ERROR_WEIGHT: f64 = 0.1;

/// The part of a limit below which a request that took longer is within the limit again. Times near the limit vary, and
/// requests of one kind are not to be told apart by that.
const WITHIN_AGAIN: f64 = 0.5;

/// A request of more than this multiple of the largest known cost is let through at once, if none of its size ever was.
const MAX_EXTRAPOLATION: f64 = 64.0;

/// A bucket without an observation for this long is no ground to refuse a request for ever: one is let through.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The model of one lane on one device.
#[derive(Debug)]
pub(crate) struct Estimate {
    buckets: [Bucket; BUCKETS],
    /// The buckets with observations, one bit each.
    known: AtomicU64,
    observations: AtomicU64,
    /// Mean of the relative errors.
    error: AtomicF64,
    /// When a batch was last recorded, in nanoseconds since the start.
    recorded: AtomicU64,
    start: Instant,
}

#[derive(Debug, Default)]
struct Bucket {
    cost: AtomicF64,
    seconds: AtomicF64,
    count: AtomicU64,
    /// When the bucket was last observed or probed, in nanoseconds since the start; zero if it never was.
    checked: AtomicU64,
    /// The last answer of [`Estimate::exceeds`].
    exceeds: AtomicBool,
}

#[derive(Debug, Default)]
struct AtomicF64(AtomicU64);

impl AtomicF64 {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

/// Mean cost and seconds of a bucket.
type Point = (f64, f64);

impl Estimate {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            buckets: std::array::from_fn(|_| Bucket::default()),
            known: AtomicU64::new(0),
            observations: AtomicU64::new(0),
            error: AtomicF64::default(),
            recorded: AtomicU64::new(0),
            start,
        }
    }

    /// Records a batch.
    pub(crate) fn record(&self, now: Instant, cost: u64, took: Duration) {
        let index = bucket_of(cost);
        let bucket = &self.buckets[index];
        let seconds = self.bounded(cost, took.as_secs_f64());
        let count = bucket.count.load(Relaxed) + 1;
        bucket.count.store(count, Relaxed);
        // An arithmetic mean at first.
        let weight = WEIGHT.max(1.0 / count as f64);
        let mean = |old: f64, new: f64| if count == 1 { new } else { old + (new - old) * weight };
        bucket.cost.set(mean(bucket.cost.get(), cost as f64));
        bucket.seconds.set(mean(bucket.seconds.get(), seconds));
        bucket.checked.store(self.nanos(now), Relaxed);
        self.known.fetch_or(1 << index, Relaxed);
        self.observations.fetch_add(1, Relaxed);
        self.forget_larger(now, index);
        self.correct_others(index);
    }

    /// The expected seconds of a batch; `None` until enough batches were seen.
    pub(crate) fn seconds(&self, cost: u64) -> Option<f64> {
        if self.observations.load(Relaxed) < MIN_OBSERVATIONS {
            return None;
        }
        let (below, above) = self.neighbours(cost);
        let cost = cost as f64;
        match (below, above) {
            (None, None) => None,
            (None, Some((known, seconds))) => Some(seconds * cost / known),
            (Some((known, seconds)), None) => Some(seconds * (cost / (2.0 * known)).max(1.0)),
            (Some((low, less)), Some((high, more))) => {
                let part = if high > low { (cost - low) / (high - low) } else { 1.0 };
                Some(less + (more - less) * part)
            }
        }
    }

    /// A time that a batch will probably not exceed, in seconds.
    pub(crate) fn upper_seconds(&self, cost: u64) -> Option<f64> {
        Some(self.seconds(cost)? * self.upper_factor())
    }

    /// The factor between the expected time of a batch and one that it will probably not exceed.
    pub(crate) fn upper_factor(&self) -> f64 {
        1.0 + self.error.get()
    }

    /// Returns true if a request takes longer than `limit`, which is the same in all calls; `None` until enough batches were seen. The
    /// answer for a size changes only once the estimate differs clearly.
    pub(crate) fn exceeds(&self, cost: u64, limit: Duration) -> Option<bool> {
        let seconds = self.seconds(cost)?;
        let last = &self.buckets[bucket_of(cost)].exceeds;
        let part = if last.load(Relaxed) { WITHIN_AGAIN } else { 1.0 };
        let exceeds = seconds > limit.as_secs_f64() * part;
        last.store(exceeds, Relaxed);
        Some(exceeds)
    }

    /// The largest cost of a batch expected to take at most `seconds`; zero if there is none.
    pub(crate) fn cost_within(&self, seconds: f64) -> u64 {
        let fits = |cost: u64| self.seconds(cost).is_some_and(|expected| expected <= seconds);
        let mut fitting = 0;
        let mut excess = u64::MAX;
        while excess - fitting > 1 {
            let middle = fitting + (excess - fitting) / 2;
            *(if fits(middle) { &mut fitting } else { &mut excess }) = middle;
        }
        fitting
    }

    /// Expected seconds per cost of the largest batches; `None` until enough batches were seen.
    pub(crate) fn seconds_per_cost(&self) -> Option<f64> {
        self.seconds(1)?;
        let largest = self.largest()?;
        Some(largest.1 / largest.0)
    }

    /// Returns true if a batch of about this cost, or a larger one, was seen. Smaller ones take longer for their cost.
    pub(crate) fn has_seen(&self, cost: u64) -> bool {
        self.largest().is_some_and(|(known, _)| 2.0 * known >= cost as f64)
    }

    /// Returns true if the time of a cost follows from the times that were seen: most of a small batch's time does not depend on its cost.
    pub(crate) fn is_comparable(&self, cost: u64) -> bool {
        self.largest().is_some_and(|(known, _)| MAX_EXTRAPOLATION * known >= cost as f64)
    }

    /// The point of the largest cost.
    fn largest(&self) -> Option<Point> {
        let index = self.known.load(Relaxed).checked_ilog2()?;
        let bucket = &self.buckets[index as usize];
        Some((bucket.cost.get(), bucket.seconds.get()))
    }

    /// Returns true if a request that its own time would exclude is to run all the same, because nothing like it ran for a while:
    /// without that, an estimate that was too high once would exclude it for ever.
    pub(crate) fn take_probe(&self, now: Instant, cost: u64) -> bool {
        let checked = &self.buckets[bucket_of(cost)].checked;
        let last = checked.load(Relaxed);
        let now = self.nanos(now).max(1);
        let is_first_of_its_kind = last == 0 && !self.is_comparable(cost);
        let due = is_first_of_its_kind
            || now >= last.saturating_add(u64::try_from(PROBE_INTERVAL.as_nanos()).unwrap_or(u64::MAX));
        due && checked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }

    /// Seconds as they are recorded. Updates the mean error of the expectation.
    fn bounded(&self, cost: u64, seconds: f64) -> f64 {
        let Some(expected) = self.seconds(cost).filter(|expected| *expected > 0.0) else { return seconds };
        let error = (seconds / expected - 1.0).abs().min(1.0);
        self.error.set(self.error.get() + (error - self.error.get()) * ERROR_WEIGHT);
        let (below, above) = self.neighbours(cost);
        let is_known = self.known.load(Relaxed) & (1 << bucket_of(cost)) != 0;
        // Without an observation of its own the bucket takes no longer than the next larger one, or than in proportion to the
        // next smaller one.
        let upper_bound = match (is_known, above, below) {
            (false, Some((_, more)), _) => more,
            (false, None, Some((known, less))) => (less * cost as f64 / known).max(expected) * MAX_SURPRISE,
            (true, ..) | (false, None, None) => expected * MAX_SURPRISE,
        };
        seconds.min(upper_bound)
    }

    /// Lowers the larger buckets towards what the next smaller one lets expect, by the time since the last record.
    fn forget_larger(&self, now: Instant, index: usize) {
        let now = self.nanos(now);
        let elapsed = now.saturating_sub(self.recorded.swap(now, Relaxed));
        let kept = (-Duration::from_nanos(elapsed).as_secs_f64() / FORGETTING).exp();
        let known = self.known.load(Relaxed);
        let mut smaller = &self.buckets[index];
        for larger in (index + 1..BUCKETS).filter(|other| known & (1 << other) != 0).map(|other| &self.buckets[other]) {
            let growth = larger.cost.get() / smaller.cost.get() - 1.0;
            let least = smaller.seconds.get() * (1.0 + SCALED_PART * growth);
            let seconds = larger.seconds.get();
            larger.seconds.set(if seconds > least { least + (seconds - least) * kept } else { seconds });
            smaller = larger;
        }
    }

    /// Makes the other buckets agree with one: no smaller cost takes longer, and no larger cost less time.
    fn correct_others(&self, index: usize) {
        let seconds = self.buckets[index].seconds.get();
        let mut known = self.known.load(Relaxed);
        while known != 0 {
            let other = known.trailing_zeros() as usize;
            known &= known - 1;
            let time = &self.buckets[other].seconds;
            if (other < index && time.get() > seconds) || (other > index && time.get() < seconds) {
                time.set(seconds);
            }
        }
    }

    /// The known points next to a cost.
    fn neighbours(&self, cost: u64) -> (Option<Point>, Option<Point>) {
        let index = bucket_of(cost);
        let known = self.known.load(Relaxed);
        let point = |index: u32| {
            let bucket = &self.buckets[index as usize];
            (bucket.cost.get(), bucket.seconds.get())
        };
        let lower = |mask: u64| (mask != 0).then(|| point(mask.ilog2()));
        let higher = |mask: u64| (mask != 0).then(|| point(mask.trailing_zeros()));
        let less = known & ((1 << index) - 1);
        let more = known & !((1 << index) | ((1 << index) - 1));
        if known & (1 << index) == 0 {
            return (lower(less), higher(more));
        }
        let here = point(u32::try_from(index).unwrap_or(0));
        if here.0 <= cost as f64 { (Some(here), higher(more)) } else { (lower(less), Some(here)) }
    }

    fn nanos(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn bucket_of(cost: u64) -> usize {
    cost.max(1).ilog2() as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A model that saw batches of these costs and milliseconds.
    fn trained(batches: impl IntoIterator<Item = (u64, f64)>) -> Estimate {
        let start = Instant::now();
        let estimate = Estimate::new(start);
        for (cost, millis) in batches {
            estimate.record(start, cost, Duration::from_secs_f64(millis / 1e3));
        }
        estimate
    }

    fn millis(estimate: &Estimate, cost: u64) -> f64 {
        estimate.seconds(cost).expect("enough batches were seen") * 1e3
    }

    proptest! {
        #[test]
        fn time_never_decreases_with_cost(
            batches in prop::collection::vec((1..1_u64 << 40, 0.01..1e4), 3..60),
            costs in prop::collection::vec(1..1_u64 << 44, 2..40),
        ) {
            let estimate = trained(batches);
            let mut costs = costs;
            costs.sort_unstable();
            let times: Vec<_> = costs.iter().map(|cost| millis(&estimate, *cost)).collect();
            for (pair, costs) in times.windows(2).zip(costs.windows(2)) {
                prop_assert!(pair[0] <= pair[1] * (1.0 + 1e-9), "{costs:?} take {pair:?}");
            }
        }

        #[test]
        fn a_linear_time_is_learned_within_a_tenth(fixed in 0.0..5.0, each in 0.001..1.0, probe in 1..4000_u64) {
            let time = |cost: u64| fixed + each * cost as f64;
            let costs = (0..13).flat_map(|bit| [1_u64 << bit, 3 << bit]);
            let estimate = trained(costs.cycle().take(200).map(|cost| (cost, time(cost))));
            let found = millis(&estimate, probe);
            let expected = time(probe);
            prop_assert!((found / expected - 1.0).abs() < 0.3, "{found} instead of {expected}");
        }

        #[test]
        fn the_cost_within_a_time_is_the_largest_that_fits(
            batches in prop::collection::vec((1..1_u64 << 30, 0.01..1e4), 3..40),
            limit in 0.01..1e4,
        ) {
            let estimate = trained(batches);
            let cost = estimate.cost_within(limit / 1e3);
            prop_assert!(cost == 0 || millis(&estimate, cost) <= limit);
            prop_assert!(cost == u64::MAX - 1 || millis(&estimate, cost + 1) > limit);
        }

        #[test]
        fn a_change_of_speed_is_followed_within_eight_batches(factor in 0.1..10.0, cost in 1..1_u64 << 40) {
            let estimate = trained((0..20).map(|_| (cost, 10.0)));
            for _ in 0..8 {
                estimate.record(Instant::now(), cost, Duration::from_secs_f64(10.0 * factor / 1e3));
            }
            let found = millis(&estimate, cost) / (10.0 * factor);
            prop_assert!((0.5..=2.0).contains(&found), "off by {found}");
        }
    }

    #[test]
    fn nothing_is_predicted_from_too_few_batches() {
        assert_eq!(trained([]).seconds(1), None);
        assert_eq!(trained([(10, 1.0), (20, 2.0)]).seconds(10), None);
        assert!(trained([(10, 1.0), (20, 2.0), (10, 1.0)]).seconds(10).is_some());
    }

    #[test]
    fn a_request_near_a_limit_stays_on_its_side() {
        let limit = Duration::from_millis(10);
        let estimate = trained([(1_000, 8.0); 3]);
        assert_eq!(estimate.exceeds(1_000, limit), Some(false));
        for (took, expected) in [(12, true), (8, true), (6, true), (12, true), (3, false), (6, false), (9, false)] {
            for _ in 0..20 {
                estimate.record(estimate.start, 1_000, Duration::from_millis(took));
            }
            assert_eq!(estimate.exceeds(1_000, limit), Some(expected), "after batches of {took} ms");
        }
        assert_eq!(trained([]).exceeds(1_000, limit), None);
    }

    #[test]
    fn unknown_costs_are_extrapolated() {
        let estimate = trained([(1 << 10, 8.0), (1 << 10, 8.0), (1 << 10, 8.0)]);
        let close = |cost, expected: f64| assert!((millis(&estimate, cost) - expected).abs() < 1e-6);
        close(1 << 7, 1.0);
        close(1 << 11, 8.0);
        close(1 << 13, 32.0);
    }

    #[test]
    fn a_slow_batch_of_a_size_that_is_not_run_again_is_forgotten() {
        let estimate = trained([(1_000, 20.0), (1_000, 20.0), (1_000, 20.0), (64_000, 5_000.0)]);
        assert!(millis(&estimate, 64_000) > 2_000.0);
        for number in 1..=100 {
            estimate.record(estimate.start + SECOND * number / 10, 1_000, Duration::from_millis(20));
        }
        let half_in_proportion = 20.0 * (1.0 + 63.0 / 2.0);
        assert!((millis(&estimate, 64_000) / half_in_proportion - 1.0).abs() < 0.01, "{}", millis(&estimate, 64_000));
        assert!((millis(&estimate, 1_000) - 20.0).abs() < 0.1);
    }

    #[test]
    fn the_first_batch_of_its_size_takes_at_most_as_long_as_larger_ones() {
        let estimate = trained([(64_000, 50.0), (64_000, 50.0), (64_000, 50.0), (8_000, 90.0)]);
        assert!((millis(&estimate, 8_000) - 50.0).abs() < 0.1 && (millis(&estimate, 64_000) - 50.0).abs() < 0.1);
    }

    #[test]
    fn one_pause_does_not_count_as_a_trend() {
        let estimate = trained((0..20).map(|_| (100, 1.0)).chain([(100, 10_000.0)]));
        assert!(millis(&estimate, 100) < 2.0);
        let noisy = estimate.upper_seconds(100).expect("known");
        assert!(noisy > estimate.seconds(100).expect("known"), "an error widens the upper estimate");
    }

    #[test]
    fn a_probe_is_due_once_an_interval_without_observation() {
        let start = Instant::now();
        let estimate = trained([(100, 1.0), (100, 1.0), (100, 1.0)]);
        assert!(!estimate.take_probe(start + SECOND / 2, 100));
        assert!(estimate.take_probe(start + 2 * SECOND, 100));
        assert!(!estimate.take_probe(start + 2 * SECOND, 100), "one at a time");
        assert!(estimate.take_probe(start + 4 * SECOND, 100));
    }

    #[test]
    fn the_first_request_of_a_size_beyond_comparison_is_a_probe() {
        let start = Instant::now();
        let estimate = trained([(16, 10.0); 3]);
        assert!(estimate.seconds(12 << 20).is_some_and(|seconds| seconds > 1000.0), "as if it were made of small ones");
        assert!(!estimate.take_probe(start, 512), "a size that compares");
        assert!(estimate.take_probe(start, 12 << 20));
        assert!(!estimate.take_probe(start, 12 << 20), "one at a time");
    }
}
