//! Slices of an execution: at most two are queued on the stream, so that the kernels of other workers run in between, and the
//! execution can be paused or abandoned after each.

use std::time::{Duration, Instant};

use crate::{
    OpError,
    cuda::{Event, StreamKind, Worker},
};

/// The time of a slice. One is queued while the device computes another, so a pause begins after at most two.
const TARGET: Duration = Duration::from_micros(2500);

/// The work of the first slice, in operations on elements: less than the time of a slice on a slow device. A slice is at most twice as
/// large as the one before.
const FIRST_COST: f64 = 1e9;

/// The position of an execution within its slice.
#[derive(Debug)]
pub(super) struct Pace {
    /// Queued in this slice.
    cost: f64,
    /// Of a whole slice.
    most_cost: f64,
    /// After the last kernel of the slice before.
    previous: Option<Event>,
    /// When the host last saw the end of a slice.
    seen: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { cost: 0.0, most_cost: FIRST_COST, previous: None, seen: Instant::now() }
    }

    /// Accounts for a step that was queued. At the end of a slice, waits for the slice before, and passes a preemption point.
    pub(super) fn queued(&mut self, worker: &Worker, cost: u64) -> Result<(), OpError> {
        self.cost += cost as f64;
        if self.cost < self.most_cost {
            return Ok(());
        }
        let cost = std::mem::take(&mut self.cost);
        let end = worker.record_event(StreamKind::Compute)?;
        let Some(previous) = self.previous.replace(end) else { return Ok(()) };
        previous.wait()?;
        // The device is never idle meanwhile, so this is the time of a slice. A single step may be larger than a slice.
        let took = self.seen.elapsed().max(Duration::from_micros(1));
        self.most_cost = next_slice(self.most_cost, cost, took);
        worker.preemption_point()?;
        self.seen = Instant::now();
        Ok(())
    }
}

/// The work of the next slice, after one of `most` at least, which was of `cost`.
fn next_slice(most: f64, cost: f64, took: Duration) -> f64 {
    (cost * TARGET.div_duration_f64(took)).clamp(most / 2.0, most * 2.0)
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
            // A step larger than a slice says what an operation takes.
            (1e12, TARGET * 1000, 1e9),
        ] {
            let next = next_slice(1e9, cost, took);
            assert!((next - expected).abs() < 1.0, "{next}, expected {expected}, after {cost} in {took:?}");
        }
    }
}
