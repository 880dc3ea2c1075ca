//! The engine's statistics: counts, and distributions of durations in constant memory.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A snapshot of the engine's state.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineStats {
    /// The admission budget.
    pub admission: AdmissionStats,
    /// Lanes, sorted by name; those of one name count as one.
    pub lanes: Vec<LaneStats>,
    /// True if admission is stopped.
    pub draining: bool,
}

/// The budget of admitted, unanswered requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStats {
    /// Requests in use.
    pub requests: u64,
    /// Items in use.
    pub items: u64,
    /// Limit of items.
    pub max_items: u64,
    /// Bytes in use.
    pub bytes: u64,
    /// Limit of bytes.
    pub max_bytes: u64,
    /// Requests refused since the start because of their items.
    pub refused_items: u64,
    /// Requests refused since the start because of their bytes.
    pub refused_bytes: u64,
    /// Requests refused since the start because they would have missed their deadline.
    pub refused_time: u64,
}

/// The lanes of one name, over all devices. Counts are since the first of them was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneStats {
    /// The operation.
    pub name: &'static str,
    /// Requests queued now.
    pub queued_requests: u64,
    /// Items queued now.
    pub queued_items: u64,
    /// Bytes queued now.
    pub queued_bytes: u64,
    /// Batches running now.
    pub running_batches: u64,
    /// Counts of events.
    pub counts: LaneCounts,
    /// Time from submission to launch, by request.
    pub wait: Distribution,
    /// Time from launch to result, by launch.
    pub execute: Distribution,
    /// Mean number of requests per launch.
    pub mean_batch_requests: f64,
    /// Mean fraction of the batch limits that a launch fills: of items or bytes, whichever is larger.
    pub mean_fill_ratio: f64,
}

/// Counts of a lane's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Launches, including failed ones.
    pub batches: u64,
    /// Requests launched, counted once per launch.
    pub requests: u64,
    /// Items of those requests.
    pub items: u64,
    /// Requests answered with an error of the operation.
    pub failures: u64,
    /// Failed launches that were split in two.
    pub splits: u64,
    /// Requests resubmitted to another device because theirs was lost.
    pub rerouted: u64,
    /// Requests cancelled by their callers before launch.
    pub cancelled_queued: u64,
    /// Requests cancelled by their callers after launch.
    pub cancelled_running: u64,
    /// Requests whose deadline passed before launch.
    pub expired_queued: u64,
    /// Requests whose deadline passed after launch.
    pub expired_running: u64,
}

/// A distribution of durations; quantiles are off by at most 3.2 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: Duration,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

/// Buckets per power of two. A bucket's width is at most 1/16 of its lower bound; its midpoint represents it.
const SUB_BUCKETS: usize = 16;
const SUB_BUCKET_BITS: u32 = SUB_BUCKETS.trailing_zeros();
/// Values below `SUB_BUCKETS` have a bucket each; every further power of two up to 2^63 has `SUB_BUCKETS`.
const BUCKETS: usize = SUB_BUCKETS + (64 - SUB_BUCKET_BITS as usize) * SUB_BUCKETS;

/// A log-linear histogram of durations in nanoseconds, as `HdrHistogram` has.
#[derive(Clone, Debug)]
pub(crate) struct DurationHistogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl DurationHistogram {
    pub(crate) fn record(&mut self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_index(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    pub(crate) fn distribution(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        Distribution {
            count: self.count,
            mean: Duration::from_nanos(u64::try_from(self.sum / u128::from(self.count)).unwrap_or(u64::MAX)),
            p50: self.quantile(1, 2),
            p99: self.quantile(99, 100),
            max: Duration::from_nanos(self.max),
        }
    }

    fn quantile(&self, part: u64, of: u64) -> Duration {
        let rank = (u128::from(self.count) * u128::from(part)).div_ceil(u128::from(of));
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += u128::from(*count);
            seen >= rank
        };
        let bucket = self.buckets.iter().position(reached).unwrap_or(BUCKETS - 1);
        Duration::from_nanos(bucket_midpoint(bucket).min(self.max))
    }
}

fn bucket_index(value: u64) -> usize {
    if value < SUB_BUCKETS as u64 {
        return usize::try_from(value).unwrap_or(0);
    }
    let shift = value.ilog2() - SUB_BUCKET_BITS;
    let step = usize::try_from(value >> shift).unwrap_or(0) - SUB_BUCKETS;
    SUB_BUCKETS + shift as usize * SUB_BUCKETS + step
}

fn bucket_midpoint(bucket: usize) -> u64 {
    if bucket < SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = (bucket - SUB_BUCKETS) / SUB_BUCKETS;
    let step = (bucket - SUB_BUCKETS) % SUB_BUCKETS;
    let low = ((SUB_BUCKETS + step) as u64) << shift;
    low + ((1_u64 << shift) >> 1)
}

/// The statistics of a lane, shared by its workers and callers.
#[derive(Debug, Default)]
pub(crate) struct LaneRecord {
    inner: Mutex<Inner>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    counts: LaneCounts,
    wait: DurationHistogram,
    execute: DurationHistogram,
    fill_ratio_sum: f64,
}

/// A launch, for statistics and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) requests: u64,
    pub(crate) items: u64,
    /// Fraction of the batch limits that it fills.
    pub(crate) fill_ratio: f64,
    pub(crate) execute: Duration,
}

impl LaneRecord {
    /// Records a launch and the queue time of each of its requests.
    pub(crate) fn launched(&self, launch: &Launch, waits: impl Iterator<Item = Duration>) {
        let mut inner = self.lock();
        inner.counts.batches += 1;
        inner.counts.requests += launch.requests;
        inner.counts.items += launch.items;
        inner.fill_ratio_sum += launch.fill_ratio;
        inner.execute.record(launch.execute);
        waits.for_each(|wait| inner.wait.record(wait));
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut LaneCounts)) {
        change(&mut self.lock().counts);
    }

    /// The statistics, with all queue depths zero.
    pub(crate) fn stats(&self, name: &'static str) -> LaneStats {
        let inner = self.lock().clone();
        let batches = inner.counts.batches.max(1) as f64;
        LaneStats {
            name,
            queued_requests: 0,
            queued_items: 0,
            queued_bytes: 0,
            running_batches: 0,
            counts: inner.counts,
            wait: inner.wait.distribution(),
            execute: inner.execute.distribution(),
            mean_batch_requests: inner.counts.requests as f64 / batches,
            mean_fill_ratio: inner.fill_ratio_sum / batches,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_midpoint_is_within_5_percent_of_its_values() {
        let values =
            (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit) + (1_u64 << bit) / 3, ((1_u64 << bit) - 1) * 2 + 1]);
        for value in values.chain([0, u64::MAX]) {
            let middle = bucket_midpoint(bucket_index(value));
            let error = middle.abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 0.05, "{value} -> {middle}");
        }
    }

    #[test]
    fn bucket_indices_increase_with_values() {
        let values = [0, 1, 15, 16, 17, 31, 32, 34, 1000, 1_000_000, u64::MAX];
        assert!(values.windows(2).all(|pair| bucket_index(pair[0]) < bucket_index(pair[1])));
        assert_eq!(bucket_index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_uniform_distribution_are_close() {
        let mut histogram = DurationHistogram::default();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let found = histogram.distribution();
        let close = |found: Duration, micros: f64| (found.as_secs_f64() * 1e6 / micros - 1.0).abs() < 0.05;
        assert!(close(found.p50, 500.0) && close(found.p99, 990.0), "{found:?}");
        assert_eq!(found.max, Duration::from_millis(1));
        assert_eq!(found.mean, Duration::from_nanos(500_500));
        assert_eq!(found.count, 1000);
    }

    #[test]
    fn an_empty_distribution_is_zero() {
        assert_eq!(DurationHistogram::default().distribution(), Distribution::default());
    }
}
