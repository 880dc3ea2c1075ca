//! The engine's metrics, through the global meter. Attributes are built once a lane: recording allocates nothing.

use accelerd_kernels::{DeviceId, OpError};
use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Histogram},
};

use crate::stats::Launch;

/// The instruments of all lanes.
pub(crate) struct Metrics {
    queue_wait: Histogram<f64>,
    batch_items: Histogram<u64>,
    batch_requests: Histogram<u64>,
    batch_fill_ratio: Histogram<f64>,
    execute: Histogram<f64>,
    device_errors: Counter<u64>,
    cancelled: Counter<u64>,
    refused: Counter<u64>,
}

/// The attributes of one lane.
pub(crate) struct LaneLabels {
    /// The lane alone.
    pub(crate) lane: [KeyValue; 1],
    queued: [KeyValue; 2],
    running: [KeyValue; 2],
    devices: Vec<[KeyValue; 2]>,
}

/// Where a request was when its caller went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before the launch.
    Queued,
    /// After it.
    Running,
}

impl LaneLabels {
    /// The attributes of a lane that runs on these devices.
    pub(crate) fn new(name: &'static str, devices: impl Iterator<Item = DeviceId>) -> Self {
        let lane = || KeyValue::new("lane", name);
        Self {
            lane: [lane()],
            queued: [lane(), KeyValue::new("stage", "queued")],
            running: [lane(), KeyValue::new("stage", "running")],
            devices: devices.map(|id| [lane(), KeyValue::new("device", id.to_string())]).collect(),
        }
    }
}

/// What kind of device error it is, as a label.
pub(crate) fn kind_of(error: &OpError) -> &'static str {
    match error {
        OpError::OutOfMemory { .. } => "out_of_memory",
        OpError::Invalid(_) => "invalid",
        OpError::Failed { .. } => "failed",
        OpError::DeviceLost { .. } => "device_lost",
    }
}

impl Metrics {
    /// The instruments, made by the meter provider that is global now.
    pub(crate) fn new() -> Self {
        let meter = global::meter("accelerd");
        let seconds = |name, description| {
            meter.f64_histogram(name).with_description(description).with_boundaries(seconds_boundaries()).build()
        };
        let counts = |name, description| {
            meter.u64_histogram(name).with_description(description).with_boundaries(count_boundaries()).build()
        };
        Self {
            queue_wait: seconds("accelerd_queue_wait_seconds", "From submission to launch."),
            execute: seconds("accelerd_device_execute_seconds", "From launch to result, a launch."),
            batch_items: counts("accelerd_batch_items", "Items of a launch."),
            batch_requests: counts("accelerd_batch_requests", "Requests of a launch."),
            batch_fill_ratio: meter
                .f64_histogram("accelerd_batch_fill_ratio")
                .with_description("Share of the batch bound, items or bytes, that a launch filled.")
                .with_boundaries((1..=10).map(|tenth| f64::from(tenth) / 10.0).collect())
                .build(),
            device_errors: meter
                .u64_counter("accelerd_device_errors")
                .with_description("Launches that failed.")
                .build(),
            cancelled: meter
                .u64_counter("accelerd_requests_cancelled")
                .with_description("Requests whose caller went away or whose deadline passed.")
                .build(),
            refused: meter
                .u64_counter("accelerd_admission_refused")
                .with_description("Requests refused because the budget was used up.")
                .build(),
        }
    }

    /// A launch ended; `waits` is how long each of its requests had been queued, in seconds.
    pub(crate) fn launched(
        &self,
        labels: &LaneLabels,
        device: usize,
        launch: &Launch,
        waits: impl Iterator<Item = f64>,
    ) {
        waits.for_each(|wait| self.queue_wait.record(wait, &labels.lane));
        self.batch_items.record(launch.items, &labels.lane);
        self.batch_requests.record(launch.requests, &labels.lane);
        self.batch_fill_ratio.record(launch.fill_ratio, &labels.lane);
        self.execute.record(launch.execute.as_secs_f64(), &labels.devices[device]);
    }

    /// A launch failed.
    pub(crate) fn failed(&self, kind: &'static str) {
        self.device_errors.add(1, &[KeyValue::new("kind", kind)]);
    }

    /// A caller went away, or its deadline passed.
    pub(crate) fn cancelled(&self, labels: &LaneLabels, stage: Stage) {
        let attributes = match stage {
            Stage::Queued => &labels.queued,
            Stage::Running => &labels.running,
        };
        self.cancelled.add(1, attributes);
    }

    /// A request was refused.
    pub(crate) fn refused(&self, measure: &'static str) {
        self.refused.add(1, &[KeyValue::new("measure", measure)]);
    }
}

/// From 10 us to 10 s, about three a decade.
fn seconds_boundaries() -> Vec<f64> {
    let decades = (-5..=0).map(|exponent| 10_f64.powi(exponent));
    decades.flat_map(|decade| [decade, 2.5 * decade, 5.0 * decade]).chain([10.0]).collect()
}

/// Powers of two.
fn count_boundaries() -> Vec<f64> {
    (0..=16).map(|exponent| 2_f64.powi(exponent)).collect()
}
