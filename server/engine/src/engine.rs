//! The engine: starts the workers of the devices, opens lanes, drains and stops.

use std::{
    fmt,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use accelerd_kernels::{Device, Op, OpError};

use crate::{
    config::{Drained, EngineConfig, LaneConfig},
    lane::Lane,
    shared::{RegisteredLane, Shared, worker_count},
    stats::EngineStats,
    worker,
};

/// Runs the lanes on the devices.
///
/// Dropping it refuses what is queued, lets running batches finish, and joins the workers.
pub struct Engine {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<_> = self.shared.devices.iter().map(|device| device.id()).collect();
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
        trace_cpu_kernels();
        // Dropped on failure, which stops the workers that did start.
        let mut engine = Self { shared, workers: vec![] };
        engine.start_workers(&config)?;
        Ok(engine)
    }

    fn start_workers(&mut self, config: &EngineConfig) -> Result<(), OpError> {
        let (opened, reports) = mpsc::channel();
        for device in &self.shared.devices {
            for number in 0..worker_count(device.id(), config) {
                let spawned = worker::spawn(device, number, opened.clone());
                let failed = |e: std::io::Error| OpError::Failed {
                    device: device.id(),
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

    /// The devices; a lost one with the reason.
    pub fn devices(&self) -> Vec<(Device, Option<String>)> {
        self.shared.devices.iter().map(|device| (device.handle().clone(), device.lost().map(str::to_owned))).collect()
    }

    /// Stops admission, and waits until every admitted request is answered or the timeout is over.
    pub async fn drain(&self, timeout: Duration) -> Drained {
        self.shared.admission.drain(timeout).await
    }

    /// Admits requests again after a drain.
    pub fn resume(&self) {
        self.shared.admission.resume();
    }

    /// Whether every admitted request is answered.
    pub fn is_idle(&self) -> bool {
        self.shared.admission.requests() == 0
    }

    /// What is queued and running now, and counts since the start.
    pub fn stats(&self) -> EngineStats {
        let lanes = self.shared.lanes();
        EngineStats {
            admission: self.shared.admission.stats(),
            lanes: lanes.iter().map(RegisteredLane::stats).collect(),
            draining: self.shared.admission.is_draining(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.admission.stop();
        for device in &self.shared.devices {
            device.lanes().iter().for_each(|lane| lane.stop());
            device.signal.stop();
        }
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
        // Lane handles may outlive the engine: the registry would keep `Shared` alive through a cycle.
        self.shared.lanes().clear();
    }
}

/// Opens a span for each kernel that runs on the CPU, as a child of its batch's.
fn trace_cpu_kernels() {
    accelerd_kernels::observe_kernels(|name| {
        let span = tracing::info_span!("kernel", otel.name = name, kernel = name, device = "cpu");
        if span.is_disabled() { None } else { Some(Box::new(span.entered())) }
    });
}
