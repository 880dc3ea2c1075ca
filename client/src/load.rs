//! Load generator for any asynchronous call.
//!
//! A closed loop keeps a fixed number of calls in flight and measures the maximum throughput. An open loop starts calls at a
//! fixed rate, independent of the responses, and measures latency from the scheduled start of a call, which avoids
//! coordinated omission (Tene).

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

/// How calls arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Closed loop.
    Closed {
        /// Calls in flight.
        concurrency: usize,
    },
    /// Open loop: a Poisson process.
    Open {
        /// Mean calls per second.
        rate: f64,
    },
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After a number of calls.
    Requests(u64),
    /// After a time.
    Elapsed(Duration),
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Report<E> {
    /// Successful calls.
    pub succeeded: u64,
    /// Failed calls.
    pub failed: u64,
    /// The first error.
    pub first_error: Option<E>,
    /// Time from the first start to the last completion.
    pub elapsed: Duration,
    /// Latencies of the successful calls.
    pub latencies: Histogram,
}

impl<E> Report<E> {
    /// Successful calls per second.
    pub fn rate(&self) -> f64 {
        self.succeeded as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Merges the report of a concurrent run.
    pub fn merge(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.first_error = self.first_error.take().or(other.first_error);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.merge(&other.latencies);
    }

    fn add(&mut self, outcome: (Duration, Result<(), E>)) {
        match outcome {
            (latency, Ok(())) => {
                self.succeeded += 1;
                self.latencies.record(latency);
            }
            (_, Err(error)) => {
                self.failed += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// Makes calls until the limit, then waits for those in flight. `call` takes the index of the call.
pub async fn run<E, F>(shape: Shape, until: Until, call: impl Fn(u64) -> F) -> Report<E>
where
    F: Future<Output = Result<(), E>>,
{
    let start = Instant::now();
    let issued = AtomicU64::new(0);
    let next = || {
        let number = issued.fetch_add(1, Ordering::Relaxed);
        let more = match until {
            Until::Requests(most) => number < most,
            Until::Elapsed(most) => start.elapsed() < most,
        };
        more.then_some(number)
    };
    let timed = async |from: Instant, number: u64| {
        let outcome = call(number).await;
        (from.elapsed(), outcome)
    };
    let empty = Histogram::default();
    let mut report = Report { succeeded: 0, failed: 0, first_error: None, elapsed: Duration::ZERO, latencies: empty };
    let mut running = FuturesUnordered::new();
    match shape {
        Shape::Closed { concurrency } => {
            running.extend((0..concurrency).map_while(|_| next()).map(|number| timed(Instant::now(), number)));
            while let Some(outcome) = running.next().await {
                report.add(outcome);
                if let Some(number) = next() {
                    running.push(timed(Instant::now(), number));
                }
            }
        }
        Shape::Open { rate } => {
            let mut due = start;
            while let Some(number) = next() {
                let arrival = sleep_until(due);
                tokio::pin!(arrival);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut arrival => break,
                        Some(outcome) = running.next(), if !running.is_empty() => report.add(outcome),
                    }
                }
                running.push(timed(due, number));
                due += exponential_gap(rate);
            }
            while let Some(outcome) = running.next().await {
                report.add(outcome);
            }
        }
    }
    report.elapsed = start.elapsed();
    report
}

/// An interarrival time of a Poisson process, bounded for any rate.
fn exponential_gap(rate: f64) -> Duration {
    let uniform: f64 = rand::random();
    let seconds = -(1.0 - uniform).ln() / rate.max(1e-3);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(3600))
}

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
        assert_eq!(histogram.max(), Duration::from_millis(1));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_keeps_its_concurrency_and_stops_at_its_count() {
        let in_flight = std::cell::Cell::new(0);
        let report = run(Shape::Closed { concurrency: 8 }, Until::Requests(100), |number| {
            in_flight.set(in_flight.get() + 1);
            assert!(in_flight.get() <= 8);
            let in_flight = &in_flight;
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                in_flight.set(in_flight.get() - 1);
                if number == 7 { Err("seven") } else { Ok(()) }
            }
        })
        .await;
        assert_eq!((report.succeeded, report.failed, report.first_error), (99, 1, Some("seven")));
        assert_eq!(report.elapsed.as_millis(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_charges_a_stall_to_the_calls_that_had_to_wait() {
        let rate = 100.0;
        let report = run(Shape::Open { rate }, Until::Elapsed(Duration::from_secs(10)), |_| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok::<(), ()>(())
        })
        .await;
        assert!((800..1200).contains(&report.succeeded), "{} calls", report.succeeded);
        assert!(report.latencies.quantile(0.5) >= Duration::from_millis(499));
    }
}
