//! The devices and their workers, the budget, and the lanes that were opened.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use accelerd_kernels::{Device, DeviceId, Op, OpError};
use opentelemetry::{global, metrics::AsyncInstrument};

use crate::{
    admission::Admission,
    config::{Drained, EngineConfig, LaneConfig},
    device::{Desk, Source},
    lane::{Lane, LaneCore},
    launch,
    metrics::Metrics,
    queue::Depth,
    stats::{EngineStats, LaneStats},
    worker,
};

/// Runs the lanes on the devices.
///
/// Dropping it refuses what is queued, lets running batches end, and joins the workers.
pub struct Engine {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What lanes, workers and the engine share.
pub(crate) struct Shared {
    /// The devices, in the order given.
    pub(crate) desks: Vec<Arc<Desk>>,
    /// The budget.
    pub(crate) admission: Arc<Admission>,
    /// The instruments.
    pub(crate) metrics: Metrics,
    lanes: Mutex<Vec<Registered>>,
    /// Most bytes that any of the devices for stateless work could hold.
    capacity: u64,
}

/// A lane that is open.
struct Registered {
    core: Arc<LaneCore>,
    sources: Vec<Arc<dyn Source>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<_> = self.shared.desks.iter().map(|desk| desk.id()).collect();
        f.debug_struct("Engine").field("devices", &devices).field("workers", &self.workers.len()).finish()
    }
}

impl Engine {
    /// Starts the workers of every device and waits until each has opened its backend.
    ///
    /// Metrics go to the meter provider that is global at this moment.
    #[allow(clippy::needless_pass_by_value)] // Settings are handed over.
    pub fn start(devices: Vec<Device>, config: EngineConfig) -> Result<Self, OpError> {
        if devices.is_empty() {
            return Err(OpError::Invalid("there is no device to start on".to_owned()));
        }
        let shared = Arc::new(Shared::new(devices, &config));
        shared.observe_queues();
        launch::observe_kernels();
        // Dropped on failure, which ends the workers that did start.
        let mut engine = Self { shared, workers: vec![] };
        engine.start_workers(&config)?;
        Ok(engine)
    }

    fn start_workers(&mut self, config: &EngineConfig) -> Result<(), OpError> {
        let (opened, reports) = mpsc::channel();
        for desk in &self.shared.desks {
            for number in 0..workers(desk.id(), config) {
                let spawned = worker::spawn(desk, number, opened.clone());
                let failed = |e: std::io::Error| OpError::Failed {
                    device: desk.id(),
                    kernel: "worker thread",
                    reason: e.to_string(),
                };
                self.workers.push(spawned.map_err(failed)?);
            }
        }
        drop(opened);
        let mut reported = 0;
        for report in reports {
            report?;
            reported += 1;
        }
        if reported < self.workers.len() {
            return Err(OpError::Invalid("a worker ended while it opened its backend".to_owned()));
        }
        Ok(())
    }

    /// Opens the lane of an operation.
    #[allow(clippy::needless_pass_by_value)] // Settings are handed over.
    pub fn lane<O: Op>(&self, config: LaneConfig) -> Lane<O> {
        Lane::open(&self.shared, &config)
    }

    /// Whether a device still takes work, for each device; a lost one keeps its reason.
    pub fn devices(&self) -> Vec<(Device, Option<String>)> {
        self.shared.desks.iter().map(|desk| (desk.device().clone(), desk.lost().map(str::to_owned))).collect()
    }

    /// Takes no new work, and waits until all is answered that was admitted, at most so long.
    pub async fn drain(&self, timeout: Duration) -> Drained {
        self.shared.admission.drain(timeout).await
    }

    /// Takes new work again, after a drain.
    pub fn resume(&self) {
        self.shared.admission.resume();
    }

    /// Whether nothing is admitted that is not answered.
    pub fn is_idle(&self) -> bool {
        self.shared.admission.requests() == 0
    }

    /// What is queued and running, and what happened since the start.
    pub fn stats(&self) -> EngineStats {
        let lanes = self.shared.lanes();
        EngineStats {
            admission: self.shared.admission.stats(),
            lanes: lanes.iter().map(Registered::stats).collect(),
            draining: self.shared.admission.is_draining(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.admission.stop();
        for desk in &self.shared.desks {
            desk.sources().iter().for_each(|source| source.stop());
            desk.signal.stop();
        }
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
        // The lanes' handles may live on; what they share with the engine must not keep itself alive.
        self.shared.lanes().clear();
    }
}

/// How many workers a device has.
fn workers(device: DeviceId, config: &EngineConfig) -> usize {
    let count = match device {
        DeviceId::Cpu => config.cpu_workers,
        DeviceId::Cuda(_) => config.cuda_workers,
    };
    count.max(1)
}

impl Shared {
    fn new(devices: Vec<Device>, config: &EngineConfig) -> Self {
        let desk = |(index, device): (usize, Device)| {
            let workers = workers(device.id(), config);
            Arc::new(Desk::new(device, index, workers))
        };
        let desks: Vec<_> = devices.into_iter().enumerate().map(desk).collect();
        let largest = |cpu: bool| {
            let of_kind = desks.iter().filter(move |desk| (desk.id() == DeviceId::Cpu) == cpu);
            of_kind.map(|desk| desk.capacity()).max()
        };
        let capacity = largest(false).or_else(|| largest(true)).unwrap_or(u64::MAX);
        Self {
            desks,
            admission: Arc::new(Admission::new(config)),
            metrics: Metrics::new(),
            lanes: Mutex::default(),
            capacity,
        }
    }

    /// Most bytes that a request with this home could ever have.
    pub(crate) fn capacity(&self, home: Option<DeviceId>) -> u64 {
        match home {
            None => self.capacity,
            Some(home) => self.desks.iter().find(|desk| desk.id() == home).map_or(u64::MAX, |desk| desk.capacity()),
        }
    }

    /// Keeps a lane for statistics.
    pub(crate) fn register(&self, core: Arc<LaneCore>, sources: Vec<Arc<dyn Source>>) {
        self.lanes().push(Registered { core, sources });
    }

    /// Forgets a lane.
    pub(crate) fn unregister(&self, core: &Arc<LaneCore>) {
        self.lanes().retain(|lane| !Arc::ptr_eq(&lane.core, core));
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Vec<Registered>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the meter read the queues whenever it collects: that costs requests nothing.
    fn observe_queues(self: &Arc<Self>) {
        let meter = global::meter("accelerd");
        let observer = |measure: fn(Depth) -> u64| {
            let engine = Arc::downgrade(self);
            move |instrument: &dyn AsyncInstrument<u64>| observe(&engine, measure, instrument)
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

/// Reports one measure of every lane, lanes of one name together.
fn observe(engine: &Weak<Shared>, measure: fn(Depth) -> u64, instrument: &dyn AsyncInstrument<u64>) {
    let Some(engine) = engine.upgrade() else { return };
    let lanes = engine.lanes();
    for (position, lane) in lanes.iter().enumerate() {
        let is_first = lanes[..position].iter().all(|earlier| earlier.core.name != lane.core.name);
        if is_first {
            let namesakes = lanes[position..].iter().filter(|other| other.core.name == lane.core.name);
            instrument.observe(namesakes.map(|lane| measure(lane.depth())).sum(), &lane.core.labels.lane);
        }
    }
}

impl Registered {
    /// Over all devices.
    fn depth(&self) -> Depth {
        self.sources.iter().map(|source| source.depth()).fold(Depth::default(), |sum, depth| Depth {
            requests: sum.requests + depth.requests,
            items: sum.items + depth.items,
            bytes: sum.bytes.saturating_add(depth.bytes),
            running: sum.running + depth.running,
        })
    }

    fn stats(&self) -> LaneStats {
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
