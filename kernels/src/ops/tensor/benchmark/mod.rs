//! Requests to measure a plan on generated inputs, and the results: its times, and the rates that bound them on the same device.

mod measured;
mod subject;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_tensor::{GraphError, Plan};

pub use measured::{BenchmarkBound, Benchmarked};
pub(super) use subject::Subject;

use crate::{DeviceId, OpError};

/// Repetitions of the copies and products that tell the rates of the device.
const REFERENCE_REPETITIONS: usize = 10;

/// A plan to measure.
#[derive(Clone, Debug)]
pub struct BenchmarkRequest {
    pub(super) subject: Subject,
    /// A large product of the plan's type and precision, if it multiplies matrices.
    pub(super) product: Option<Subject>,
    pub(super) device: DeviceId,
    repetitions: usize,
    pub(super) max_time: Duration,
    deadline: Option<Instant>,
}

impl BenchmarkRequest {
    /// Measures a plan on a device, whose inputs are random; integers are from 0 to below the entry of `integers_below`.
    ///
    /// # Errors
    /// If a type does not hold such integers.
    pub fn new(plan: Arc<Plan>, integers_below: &[i64], device: DeviceId) -> Result<Self, GraphError> {
        let product = plan.product_kind().map(|kind| Subject::product(kind, device)).transpose()?;
        let subject = Subject::new(plan, integers_below)?;
        Ok(Self { subject, product, device, repetitions: 1, max_time: Duration::ZERO, deadline: None })
    }

    /// Bounds the repetitions by their number and their time, of which half of the time to the deadline is one as well. There is at least
    /// one.
    #[must_use]
    pub fn repeated(self, repetitions: usize, max_time: Duration, deadline: Option<Instant>) -> Self {
        Self { repetitions, max_time, deadline, ..self }
    }

    /// The repetitions of the plan, from now on.
    pub(super) fn budget(&self) -> Budget {
        self.budget_of(self.repetitions, 1)
    }

    /// The repetitions of copies or products, from now on.
    pub(super) fn reference_budget(&self) -> Budget {
        self.budget_of(REFERENCE_REPETITIONS, 4)
    }

    fn budget_of(&self, repetitions: usize, share: u32) -> Budget {
        let now = Instant::now();
        let left = self.deadline.map_or(self.max_time, |deadline| deadline.saturating_duration_since(now) / 2);
        let until = now.checked_add(self.max_time.min(left) / share).unwrap_or(now);
        Budget { repetitions, until }
    }
}

/// Limits on the repetitions of a measurement.
pub(super) struct Budget {
    repetitions: usize,
    until: Instant,
}

impl Budget {
    /// The times of at least one repetition, in ascending order.
    pub(super) fn sample(
        &self,
        mut repetition: impl FnMut() -> Result<Duration, OpError>,
    ) -> Result<Vec<Duration>, OpError> {
        let mut times = vec![repetition()?];
        while times.len() < self.repetitions && Instant::now() < self.until {
            times.push(repetition()?);
        }
        times.sort_unstable();
        Ok(times)
    }
}

/// Bytes of each of the two buffers that copies read and write. Caches are flushed by writing both.
pub(super) fn copy_bytes(device: DeviceId) -> usize {
    match device {
        DeviceId::Cpu => 32 << 20,
        DeviceId::Cuda(_) => 256 << 20,
    }
}
