//! Slices of work on a stream: at most two are queued, so that the kernels of other workers run in between, and the work can be paused
//! or abandoned after each.

use std::time::{Duration, Instant};

use super::{
    copy_stream::{Event, StreamKind},
    worker::Worker,
};
use crate::OpError;

/// The time of a slice. One is queued while the device computes another, so a pause begins after at most two.
const TARGET: Duration = Duration::from_micros(2500);

/// The position of an execution within its slice. The unit of its cost is the operation's own.
#[derive(Debug)]
pub(crate) struct Slices {
    /// Queued in this slice.
    cost: f64,
    /// The cost of a whole slice.
    most_cost: f64,
    /// After the last kernel of the slice before.
    previous: Option<Event>,
    /// When the host last saw the end of a slice.
    seen: Instant,
}

impl Slices {
    /// `first_cost` is the work of the first slice: less than the time of a slice on a slow device. A slice is at most twice as large as
    /// the one before.
    pub(crate) fn new(first_cost: f64) -> Self {
        Self { cost: 0.0, most_cost: first_cost, previous: None, seen: Instant::now() }
    }

    /// Accounts for kernels that were queued. At the end of a slice, waits for the slice before, and passes a preemption point.
    pub(crate) fn queued(&mut self, worker: &Worker, cost: f64) -> Result<(), OpError> {
        self.cost += cost;
        if self.cost < self.most_cost {
            return Ok(());
        }
        let cost = std::mem::take(&mut self.cost);
        let end = worker.record_event(StreamKind::Compute)?;
        let Some(previous) = self.previous.replace(end) else { return Ok(()) };
        previous.wait()?;
        // The device is never idle meanwhile, so this is the time of a slice. A single kernel may be larger than a slice.
        let took = self.seen.elapsed().max(Duration::from_micros(1));
        self.most_cost = next_slice(self.most_cost, cost, took);
        worker.preemption_point()?;
        self.seen = Instant::now();
        Ok(())
    }
}

/// The work of the next slice, after one of `limit` at least, which was of `cost`.
fn next_slice(limit: f64, cost: f64, took: Duration) -> f64 {
    (cost * TARGET.div_duration_f64(took)).clamp(limit / 2.0, limit * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_approach_the_time_that_they_may_take() {
        for (cost, took, expected) in [
            (1e9, TARGET, 1e9),
            (1e9, TARGET * 3 / 2, 1e9 / 1.5),
            (1e9, TARGET / 100, 2e9),
            (1e9, TARGET * 100, 5e8),
            // A step larger than a slice gives the time of an operation.
            (1e12, TARGET * 1000, 1e9),
        ] {
            let next = next_slice(1e9, cost, took);
            assert!((next - expected).abs() < 1.0, "{next}, expected {expected}, after {cost} in {took:?}");
        }
    }
}
