//! What the engine counts, for people: distributions over all requests since the start, at a fixed memory cost.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The engine at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineStats {
    /// The budget.
    pub admission: AdmissionStats,
    /// Lanes in the order they were opened.
    pub lanes: Vec<LaneStats>,
    /// No new work is taken.
    pub draining: bool,
}

/// The budget of work admitted and not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStats {
    /// Requests held now.
    pub requests: u64,
    /// Items held now.
    pub items: u64,
    /// Most items held at once.
    pub max_items: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Most bytes held at once.
    pub max_bytes: u64,
    /// Requests refused for their items since the start.
    pub refused_items: u64,
    /// Requests refused for their bytes since the start.
    pub refused_bytes: u64,
}

/// One lane, over all devices. Counts are since the lane was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneStats {
    /// The operation.
    pub name: &'static str,
    /// Requests queued now.
    pub queued_requests: u64,
    /// Their items.
    pub queued_items: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Batches that run now.
    pub running_batches: u64,
    /// What happened so far.
    pub counts: LaneCounts,
    /// From submission to launch.
    pub wait: Distribution,
    /// From launch to result, one value a launch.
    pub execute: Distribution,
    /// Mean requests of a launch.
    pub mean_batch_requests: f64,
    /// Mean share of a batch's bound, items or bytes, that a launch filled.
    pub mean_fill_ratio: f64,
}

/// What happened in a lane so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Launches, failed ones too.
    pub batches: u64,
    /// Requests launched, once a launch.
    pub requests: u64,
    /// Their items.
    pub items: u64,
    /// Requests answered with an error of the operation.
    pub failures: u64,
    /// Failed launches that were split in two.
    pub splits: u64,
    /// Requests that went to another device because theirs was lost.
    pub rerouted: u64,
    /// Requests abandoned by their callers before launch.
    pub cancelled_queued: u64,
    /// Requests abandoned by their callers after launch.
    pub cancelled_running: u64,
    /// Requests whose deadline passed before launch.
    pub expired_queued: u64,
    /// Requests whose deadline passed after launch.
    pub expired_running: u64,
}

/// A distribution of durations; quantiles are off by at most 3.2 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Values.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// Half of them are at most this.
    pub p50: Duration,
    /// 99 of 100 are at most this.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// Buckets per doubling: a bucket is a sixteenth of its lower end wide, and its middle stands for it.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Values below `STEPS` have a bucket each, then every power of two of 64 bits has `STEPS`.
const BUCKETS: usize = STEPS + (64 - STEP_BITS as usize) * STEPS;

/// Counts durations in nanoseconds by logarithmic buckets.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl Recorder {
    /// Counts one value.
    pub(crate) fn record(&mut self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// What was counted.
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
        Duration::from_nanos(middle_of(bucket).min(self.max))
    }
}

fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return usize::try_from(value).unwrap_or(0);
    }
    let shift = value.ilog2() - STEP_BITS;
    let step = usize::try_from(value >> shift).unwrap_or(0) - STEPS;
    STEPS + shift as usize * STEPS + step
}

fn middle_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (shift, step) = ((bucket - STEPS) / STEPS, (bucket - STEPS) % STEPS);
    let low = ((STEPS + step) as u64) << shift;
    low + ((1_u64 << shift) >> 1)
}

/// What a lane records; shared by its workers and callers.
#[derive(Debug, Default)]
pub(crate) struct LaneRecord {
    inner: Mutex<Inner>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    counts: LaneCounts,
    wait: Recorder,
    execute: Recorder,
    fill_ratio_sum: f64,
}

/// A launch as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Requests in it.
    pub(crate) requests: u64,
    /// Their items.
    pub(crate) items: u64,
    /// Share of the bounds that it filled.
    pub(crate) fill_ratio: f64,
    /// How long it ran.
    pub(crate) execute: Duration,
}

impl LaneRecord {
    /// Records a launch, and how long each of its requests had waited.
    pub(crate) fn launched(&self, launch: &Launch, waits: impl Iterator<Item = Duration>) {
        let mut inner = self.lock();
        inner.counts.batches += 1;
        inner.counts.requests += launch.requests;
        inner.counts.items += launch.items;
        inner.fill_ratio_sum += launch.fill_ratio;
        inner.execute.record(launch.execute);
        waits.for_each(|wait| inner.wait.record(wait));
    }

    /// Changes the counts.
    pub(crate) fn count(&self, change: impl FnOnce(&mut LaneCounts)) {
        change(&mut self.lock().counts);
    }

    /// What was recorded, with nothing queued.
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
    fn every_value_falls_into_a_bucket_within_a_twentieth_of_it() {
        let values =
            (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit) + (1_u64 << bit) / 3, ((1_u64 << bit) - 1) * 2 + 1]);
        for value in values.chain([0, u64::MAX]) {
            let middle = middle_of(bucket_of(value));
            let error = middle.abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 0.05, "{value} -> {middle}");
        }
    }

    #[test]
    fn buckets_are_in_order() {
        let values = [0, 1, 15, 16, 17, 31, 32, 34, 1000, 1_000_000, u64::MAX];
        assert!(values.windows(2).all(|pair| bucket_of(pair[0]) < bucket_of(pair[1])));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_uniform_distribution_are_where_they_belong() {
        let mut recorder = Recorder::default();
        (1..=1000).for_each(|micros| recorder.record(Duration::from_micros(micros)));
        let found = recorder.distribution();
        let close = |found: Duration, micros: f64| (found.as_secs_f64() * 1e6 / micros - 1.0).abs() < 0.05;
        assert!(close(found.p50, 500.0) && close(found.p99, 990.0), "{found:?}");
        assert_eq!(found.max, Duration::from_millis(1));
        assert_eq!(found.mean, Duration::from_nanos(500_500));
        assert_eq!(found.count, 1000);
    }

    #[test]
    fn an_empty_distribution_is_all_zero() {
        assert_eq!(Recorder::default().distribution(), Distribution::default());
    }
}
