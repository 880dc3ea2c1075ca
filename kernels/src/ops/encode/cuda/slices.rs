//! Slices of a forward pass: at most two are queued on the stream, so that the kernels of other workers run in between, and
//! the pass can be paused or abandoned after each.

use std::time::{Duration, Instant};

use crate::{
    OpError,
    cuda::{Event, StreamKind, Worker},
};

/// The time of a slice. One is queued while the device computes another, so a pause begins after at most two.
const TARGET: Duration = Duration::from_micros(2500);

/// The work of the first slice. A slice is at most twice as large as the one before.
const FIRST_FLOPS: f64 = 1e11;

/// The position of a pass within its slice.
#[derive(Debug)]
pub(super) struct Slices {
    /// Queued in this slice.
    flops: f64,
    /// Of a whole slice.
    most_flops: f64,
    /// After the last kernel of the slice before.
    previous: Option<Event>,
    /// When the host last saw the end of a slice.
    seen: Instant,
}

impl Slices {
    pub(super) fn new() -> Self {
        Self { flops: 0.0, most_flops: FIRST_FLOPS, previous: None, seen: Instant::now() }
    }

    /// Accounts for kernels that were queued. At the end of a slice, waits for the slice before, and passes a preemption point.
    pub(super) fn queued(&mut self, worker: &Worker, flops: f64) -> Result<(), OpError> {
        self.flops += flops;
        if self.flops < self.most_flops {
            return Ok(());
        }
        self.flops = 0.0;
        let end = worker.record_event(StreamKind::Compute)?;
        let Some(previous) = self.previous.replace(end) else { return Ok(()) };
        previous.wait()?;
        // The device is never idle meanwhile, so this is the time of a slice.
        let took = self.seen.elapsed().max(Duration::from_micros(1));
        self.most_flops *= TARGET.div_duration_f64(took).clamp(0.5, 2.0);
        worker.preemption_point()?;
        self.seen = Instant::now();
        Ok(())
    }
}
