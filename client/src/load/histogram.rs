//! Histogram of latencies.

use std::time::Duration;

/// Histogram of latencies in logarithmic buckets of 64 steps: bounded memory, and quantiles at most 1.6% too high.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

const STEP_BITS: u32 = 6;

impl Histogram {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let bucket = bucket_of(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.max = self.max.max(latency);
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let buckets = self.counts.len().max(other.counts.len());
        self.counts.resize(buckets, 0);
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// The q-quantile; zero if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Duration {
        let mut remaining = q.clamp(0.0, 1.0) * self.total as f64;
        for (bucket, count) in self.counts.iter().enumerate() {
            remaining -= *count as f64;
            if remaining <= 0.0 && *count > 0 {
                return Duration::from_nanos(top_of(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// Number of latencies.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of latencies above a limit, to the precision of the buckets.
    pub fn count_above(&self, limit: Duration) -> u64 {
        let bucket = bucket_of(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        self.counts.iter().skip(bucket + 1).sum()
    }

    /// The maximum.
    pub fn max(&self) -> Duration {
        self.max
    }
}

/// Values below 64 have a bucket each; above, each power of two has 64.
fn bucket_of(nanos: u64) -> usize {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((shift as usize) << STEP_BITS) + usize::try_from(nanos >> shift).unwrap_or(usize::MAX)
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    let step = (bucket - (shift << STEP_BITS)) as u64;
    ((step + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_its_bucket_and_buckets_are_narrow() {
        for nanos in (0..64).chain((0..40).flat_map(|bit| [(1_u64 << bit) * 65 - 1, (1_u64 << bit) * 65, 1 << bit])) {
            let bucket = bucket_of(nanos);
            let top = top_of(bucket);
            assert!(top >= nanos && top as f64 <= nanos as f64 * (1.0 + 1.0 / 64.0), "{nanos} in a bucket up to {top}");
            assert!(bucket == 0 || top_of(bucket - 1) < nanos, "{nanos} belongs to an earlier bucket");
        }
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut histogram = Histogram::default();
        let mut upper_half = Histogram::default();
        (1..=500).for_each(|n| histogram.record(Duration::from_micros(n)));
        (501..=1000).for_each(|n| upper_half.record(Duration::from_micros(n)));
        histogram.merge(&upper_half);
        for (share, micros) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.quantile(share).as_secs_f64() * 1e6;
            assert!((micros..=micros * 1.016).contains(&found), "p{share}: {found}");
        }
        assert_eq!((histogram.max(), histogram.total()), (Duration::from_millis(1), 1000));
        assert_eq!(histogram.count_above(Duration::from_millis(1)), 0);
        assert!((490..=500).contains(&histogram.count_above(Duration::from_micros(500))));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
