//! State that the engine, its lanes and its workers share: devices, admission, metrics and the registry of lanes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use accelerd_kernels::{Device, DeviceId};
use opentelemetry::{global, metrics::AsyncInstrument};
use tokio::sync::watch;

use crate::{
    admission::Admission,
    config::EngineConfig,
    cpu_fallback::Fallbacks,
    device::{AnyLane, DeviceQueues, WorkerCounts},
    loss::DeviceLoss,
    metrics::{LaneLabels, Metrics, Stage},
    outcome::SubmitError,
    queue::Depth,
    stats::{LaneRecord, LaneStats},
};

pub(crate) struct Shared {
    /// In the order given to the engine.
    pub(crate) devices: Vec<Arc<DeviceQueues>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Metrics,
    pub(crate) fallbacks: Fallbacks,
    /// Time in which requests of a kind avoid a GPU that had no memory for one.
    pub(crate) memory_retry: Duration,
    /// In the order in which they were found.
    pub(crate) losses: watch::Sender<Vec<DeviceLoss>>,
    lanes: Mutex<BTreeMap<&'static str, RegisteredLane>>,
    /// Most bytes that any device for requests without an affinity can hold.
    capacity: u64,
}

/// The part of a lane that does not depend on the operation's types.
pub(crate) struct LaneCore {
    /// The operation.
    pub(crate) name: &'static str,
    pub(crate) labels: LaneLabels,
    pub(crate) record: LaneRecord,
}

/// The open lanes of one name, which statistics and metrics show as one.
pub(crate) struct RegisteredLane {
    core: Arc<LaneCore>,
    device_lanes: Vec<Arc<dyn AnyLane>>,
}

impl Shared {
    pub(crate) fn new(devices: Vec<Device>, config: &EngineConfig) -> Self {
        let queues = |(index, device): (usize, Device)| {
            let workers = WorkerCounts::new(device.id(), config);
            let slice = config.slice(device.id());
            Arc::new(DeviceQueues::new(device, index, workers, slice))
        };
        let devices: Vec<_> = devices.into_iter().enumerate().map(queues).collect();
        let largest = |cpu: bool| {
            let of_kind = devices.iter().filter(move |device| (device.id() == DeviceId::Cpu) == cpu);
            of_kind.map(|device| device.capacity()).max()
        };
        let capacity = largest(false).or_else(|| largest(true)).unwrap_or(u64::MAX);
        Self {
            devices,
            admission: Arc::new(Admission::new(config)),
            metrics: Metrics::new(),
            fallbacks: Fallbacks::default(),
            memory_retry: config.memory_retry,
            losses: watch::Sender::default(),
            lanes: Mutex::default(),
            capacity,
        }
    }

    /// Takes a device out of service for good, and all GPUs if its loss ends CUDA: what is queued for them is rerouted.
    pub(crate) fn lose(&self, lost: &DeviceQueues, loss: &DeviceLoss) {
        let lost_with = |device: &DeviceQueues| {
            if std::ptr::eq(device, lost) { Some(loss.clone()) } else { loss.of_peer(device.id()) }
        };
        let losses = self.devices.iter().filter_map(|device| Some((device, lost_with(device)?)));
        // All are marked before the first is evicted, so that nothing is rerouted to a device that is about to go.
        let newly: Vec<_> = losses.filter(|(device, loss)| device.mark_lost(loss)).collect();
        for (device, DeviceLoss { cause, lane, reason, .. }) in &newly {
            tracing::error!(device = %device.id(), %cause, lane, reason, "a device is lost; its requests are rerouted");
            self.metrics.lost(device.id(), *cause);
        }
        for (device, _) in &newly {
            device.evict();
        }
        self.losses.send_modify(|losses| losses.extend(newly.into_iter().map(|(_, loss)| loss)));
    }

    /// Returns true if requests can fall back to the CPU.
    pub(crate) fn has_cpu(&self) -> bool {
        self.devices.iter().any(|device| device.id() == DeviceId::Cpu && device.lost().is_none())
    }

    /// Most bytes that a request with this affinity can use.
    pub(crate) fn capacity(&self, affinity: Option<DeviceId>) -> u64 {
        match affinity {
            None => self.capacity,
            Some(id) => {
                self.devices.iter().find(|device| device.id() == id).map_or(u64::MAX, |device| device.capacity())
            }
        }
    }

    /// The record and labels of the lanes of one name.
    pub(crate) fn lane_core(&self, name: &'static str) -> Arc<LaneCore> {
        let new = || {
            let labels = LaneLabels::new(name, self.devices.iter().map(|device| device.id()));
            let core = Arc::new(LaneCore { name, labels, record: LaneRecord::default() });
            RegisteredLane { core, device_lanes: vec![] }
        };
        Arc::clone(&self.lanes().entry(name).or_insert_with(new).core)
    }

    /// Adds the queues of a lane to the statistics and metrics.
    pub(crate) fn register(&self, core: &Arc<LaneCore>, device_lanes: Vec<Arc<dyn AnyLane>>) {
        let new = || RegisteredLane { core: Arc::clone(core), device_lanes: vec![] };
        self.lanes().entry(core.name).or_insert_with(new).device_lanes.extend(device_lanes);
    }

    /// Removes a queue of a lane. The statistics of a name end with its last queue.
    pub(crate) fn unregister(&self, core: &LaneCore, device_lane: &dyn AnyLane) {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get_mut(core.name) else { return };
        lane.device_lanes.retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), device_lane));
        if lane.device_lanes.is_empty() {
            lanes.remove(core.name);
        }
    }

    /// The open lanes by name.
    pub(crate) fn lanes(&self) -> MutexGuard<'_, BTreeMap<&'static str, RegisteredLane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the refusal of a request that would miss its deadline.
    pub(crate) fn would_miss(&self, estimated: Duration, left: Duration, fits_alone: bool) -> SubmitError {
        self.metrics.refused("time");
        self.admission.would_miss(estimated, left, fits_alone)
    }

    /// Counts a request whose caller cancelled it, or whose deadline passed.
    pub(crate) fn record_cancelled(&self, core: &LaneCore, stage: Stage, expired: bool) {
        core.record.count(|counts| {
            *match (stage, expired) {
                (Stage::Queued, false) => &mut counts.cancelled_queued,
                (Stage::Queued, true) => &mut counts.expired_queued,
                (Stage::Running, false) => &mut counts.cancelled_running,
                (Stage::Running, true) => &mut counts.expired_running,
            } += 1;
        });
        self.metrics.cancelled(&core.labels, stage);
    }

    /// Registers gauges that read the queues when the meter collects: requests pay nothing for them.
    pub(crate) fn observe_queues(self: &Arc<Self>) {
        let meter = global::meter("accelerd");
        let observer = |measure: fn(Depth) -> u64| {
            let shared = Arc::downgrade(self);
            move |instrument: &dyn AsyncInstrument<u64>| observe(&shared, measure, instrument)
        };
        meter
            .u64_observable_gauge("accelerd_queue_items")
            .with_description("Items queued now.")
            .with_callback(observer(|depth| depth.items))
            .build();
        meter
            .u64_observable_gauge("accelerd_queue_bytes")
            .with_description("Bytes queued now.")
            .with_callback(observer(|depth| depth.bytes))
            .build();
    }
}

/// Reports one measure of every lane.
fn observe(shared: &Weak<Shared>, measure: fn(Depth) -> u64, instrument: &dyn AsyncInstrument<u64>) {
    let Some(shared) = shared.upgrade() else { return };
    for lane in shared.lanes().values() {
        instrument.observe(measure(lane.depth()), &lane.core.labels.lane);
    }
}

impl RegisteredLane {
    /// Sum over all devices.
    fn depth(&self) -> Depth {
        self.device_lanes.iter().map(|lane| lane.depth()).fold(Depth::default(), |sum, depth| Depth {
            requests: sum.requests + depth.requests,
            items: sum.items + depth.items,
            bytes: sum.bytes.saturating_add(depth.bytes),
            running: sum.running + depth.running,
        })
    }

    pub(crate) fn stats(&self) -> LaneStats {
        let depth = self.depth();
        LaneStats {
            queued_requests: depth.requests,
            queued_items: depth.items,
            queued_bytes: depth.bytes,
            running_batches: depth.running,
            ..self.core.record.stats(self.core.name)
        }
    }
}
