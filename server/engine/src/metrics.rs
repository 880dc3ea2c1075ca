//! The engine's metrics, through the global meter. Attributes are built once per lane, so that recording does not
//! allocate.

use accelerd_kernels::{DeviceId, OpError};
use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Histogram},
};

use crate::{loss::LossCause, stats::Launch};

/// The instruments of all lanes.
pub(crate) struct Metrics {
    queue_wait: Histogram<f64>,
    batch_items: Histogram<u64>,
    batch_requests: Histogram<u64>,
    batch_fill_ratio: Histogram<f64>,
    execute: Histogram<f64>,
    device_errors: Counter<u64>,
    device_losses: Counter<u64>,
    cancelled: Counter<u64>,
    refused: Counter<u64>,
}

/// The attributes of one lane.
pub(crate) struct LaneLabels {
    pub(crate) lane: [KeyValue; 1],
    queued: [KeyValue; 2],
    running: [KeyValue; 2],
    devices: Vec<[KeyValue; 2]>,
}

/// The stage of a request when it was cancelled or its deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Queued,
    Running,
}

impl LaneLabels {
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

/// The `kind` label of an error.
pub(crate) fn error_kind(error: &OpError) -> &'static str {
    match error {
        OpError::OutOfMemory { .. } | OpError::MemoryLimit(_) => "out_of_memory",
        OpError::Invalid(_) | OpError::IndexOutOfRange { .. } => "invalid",
        OpError::Failed { .. } => "failed",
        OpError::DeviceLost { .. } => "device_lost",
        OpError::Cancelled => "cancelled",
    }
}

impl Metrics {
    /// Creates the instruments with the current global meter provider.
    pub(crate) fn new() -> Self {
        let meter = global::meter("accelerd");
        let seconds = |name, description| {
            meter.f64_histogram(name).with_description(description).with_boundaries(seconds_boundaries()).build()
        };
        let counts = |name, description| {
            meter.u64_histogram(name).with_description(description).with_boundaries(count_boundaries()).build()
        };
        Self {
            queue_wait: seconds("accelerd_queue_wait_seconds", "Time from submission to launch."),
            execute: seconds("accelerd_device_execute_seconds", "Time from launch to result, by launch."),
            batch_items: counts("accelerd_batch_items", "Items per launch."),
            batch_requests: counts("accelerd_batch_requests", "Requests per launch."),
            batch_fill_ratio: meter
                .f64_histogram("accelerd_batch_fill_ratio")
                .with_description(
                    "Fraction of the batch limits that a launch fills: of items or bytes, whichever is larger.",
                )
                .with_boundaries((1..=10).map(|tenth| f64::from(tenth) / 10.0).collect())
                .build(),
            device_losses: meter
                .u64_counter("accelerd_device_losses")
                .with_description("Devices that went out of service, by device and reason.")
                .build(),
            device_errors: meter
                .u64_counter("accelerd_device_errors")
                .with_description("Launches that failed.")
                .build(),
            cancelled: meter
                .u64_counter("accelerd_requests_cancelled")
                .with_description("Requests that were cancelled or whose deadline passed.")
                .build(),
            refused: meter
                .u64_counter("accelerd_admission_refused")
                .with_description("Requests refused because an admission limit was reached, or because they would miss their deadline.")
                .build(),
        }
    }

    /// Records a completed launch; `waits` is the queue time of each of its requests in seconds.
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

    pub(crate) fn failed(&self, kind: &'static str) {
        self.device_errors.add(1, &[KeyValue::new("kind", kind)]);
    }

    pub(crate) fn lost(&self, device: DeviceId, cause: LossCause) {
        self.device_losses
            .add(1, &[KeyValue::new("device", device.to_string()), KeyValue::new("reason", cause.label())]);
    }

    pub(crate) fn cancelled(&self, labels: &LaneLabels, stage: Stage) {
        let attributes = match stage {
            Stage::Queued => &labels.queued,
            Stage::Running => &labels.running,
        };
        self.cancelled.add(1, attributes);
    }

    pub(crate) fn refused(&self, measure: &'static str) {
        self.refused.add(1, &[KeyValue::new("measure", measure)]);
    }
}

/// From 10 us to 10 s, three per decade.
fn seconds_boundaries() -> Vec<f64> {
    let decades = (-5..=0).map(|exponent| 10_f64.powi(exponent));
    decades.flat_map(|decade| [decade, 2.5 * decade, 5.0 * decade]).chain([10.0]).collect()
}

/// The powers of two up to 65,536.
fn count_boundaries() -> Vec<f64> {
    (0..=16).map(|exponent| 2_f64.powi(exponent)).collect()
}
