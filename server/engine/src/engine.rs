//! The engine: starts the workers of the devices, opens lanes, drains and stops.

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use accelerd_kernels::{Device, DeviceId, Op, OpError, ledger::Allowance};
use tokio::sync::watch;

use crate::{
    config::{Drained, EngineConfig, LaneConfig},
    cpu_fallback::CpuFallback,
    lane::Lane,
    loss::DeviceLoss,
    running::{Running, RunningBatch},
    shared::{RegisteredLane, Shared},
    stats::EngineStats,
    trace,
    watchdog::{self, Watchdog},
    worker::{self, Ended},
};

/// Runs the lanes on the devices.
///
/// Dropping it refuses what is queued, lets running batches finish for at most five seconds, and joins the workers; those
/// that still run are left behind.
pub struct Engine {
    shared: Arc<Shared>,
    workers: Mutex<Vec<WorkerThread>>,
    ended: Arc<Ended>,
    hang_timeout: Duration,
    /// Dropped with the engine, which stops it.
    watchdog: Option<Watchdog>,
}

struct WorkerThread {
    handle: JoinHandle<()>,
    running: Arc<Running>,
}

/// Time that a drop of the engine waits for running batches.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<_> = self.shared.devices.iter().map(|device| device.id()).collect();
        let is_watched = self.watchdog.is_some();
        f.debug_struct("Engine").field("devices", &devices).field("is_watched", &is_watched).finish_non_exhaustive()
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
        accelerd_kernels::observe_kernels(|name| trace::kernel(name, DeviceId::Cpu));
        // Dropped on failure, which stops the workers that did start.
        let mut engine = Self {
            shared,
            workers: Mutex::default(),
            ended: Arc::default(),
            hang_timeout: config.hang_timeout,
            watchdog: None,
        };
        engine.start_workers()?;
        if !config.hang_timeout.is_zero() {
            let watchdog = Watchdog::start(Arc::downgrade(&engine.shared), config.hang_timeout);
            engine.watchdog = Some(watchdog.map_err(|error| no_thread(DeviceId::Cpu, &error))?);
        }
        Ok(engine)
    }

    fn start_workers(&self) -> Result<(), OpError> {
        let (opened, reports) = mpsc::channel();
        let mut workers = self.lock_workers();
        for device in &self.shared.devices {
            for number in 0..device.workers.total {
                let spawned = worker::spawn(device, number, opened.clone(), &self.ended);
                let handle = spawned.map_err(|error| no_thread(device.id(), &error))?;
                workers.push(WorkerThread { handle, running: Arc::clone(&device.running[number]) });
            }
        }
        drop(opened);
        let mut reported = 0;
        for report in reports {
            report?;
            reported += 1;
        }
        if reported < workers.len() {
            return Err(OpError::Invalid("a worker ended while it opened its backend".to_owned()));
        }
        Ok(())
    }

    /// Takes the bytes of requests from an allowance of the ledger, in addition to the limit on admitted bytes. Called once,
    /// before the first request.
    pub fn charge_to(&self, allowance: Arc<Allowance>) {
        self.shared.admission.charge_to(allowance);
    }

    /// Opens the lane of an operation.
    #[allow(clippy::needless_pass_by_value)] // Settings are handed over.
    pub fn lane<O: Op>(&self, config: LaneConfig) -> Lane<O> {
        Lane::open(&self.shared, &config)
    }

    /// The devices; a lost one with the reason.
    pub fn devices(&self) -> Vec<(Device, Option<String>)> {
        self.shared
            .devices
            .iter()
            .map(|device| (device.handle().clone(), device.lost().map(|loss| loss.reason.clone())))
            .collect()
    }

    /// The devices that are out of service, in the order in which they were found. The channel closes with the engine.
    pub fn losses(&self) -> watch::Receiver<Vec<DeviceLoss>> {
        self.shared.losses.subscribe()
    }

    /// Batches that the workers run now.
    pub fn running(&self) -> Vec<RunningBatch> {
        let now = Instant::now();
        let workers = self.shared.devices.iter().flat_map(|device| &device.running);
        workers.filter_map(|running| running.describe(now)).collect()
    }

    /// Runs the periodic check of the watchdog as of `now`.
    #[doc(hidden)]
    pub fn check_running(&self, now: Instant) {
        watchdog::check(&self.shared, now, self.hang_timeout);
    }

    /// Refuses what is queued, and stops the workers. Waits for running batches for at most `limit`, and not at all for those
    /// that hang; returns those that still run, whose threads are left behind.
    pub fn stop_within(&self, limit: Duration) -> Vec<RunningBatch> {
        self.shared.admission.stop();
        for device in &self.shared.devices {
            device.lanes().iter().for_each(|lane| lane.stop());
            device.signals.stop();
            device.turns.open();
        }
        let workers = std::mem::take(&mut *self.lock_workers());
        let hung = workers.iter().filter(|worker| worker.running.is_given_up()).count();
        self.ended.wait(workers.len() - hung, limit);
        let now = Instant::now();
        let mut left = vec![];
        for WorkerThread { handle, running } in workers {
            if !running.has_ended() {
                left.extend(running.describe(now));
            } else if handle.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
        for batch in &left {
            tracing::error!(device = %batch.device, lane = batch.lane, elapsed = ?batch.elapsed, "a worker hangs and is left behind");
        }
        left
    }

    fn lock_workers(&self) -> MutexGuard<'_, Vec<WorkerThread>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops admission, and waits until every admitted request is answered or the timeout is over.
    pub async fn drain(&self, timeout: Duration) -> Drained {
        self.shared.admission.drain(timeout).await
    }

    /// Admits requests again after a drain.
    pub fn resume(&self) {
        self.shared.admission.resume();
    }

    /// Returns true if every admitted request is answered.
    pub fn is_idle(&self) -> bool {
        self.shared.admission.requests() == 0
    }

    /// The requests that ran on the CPU because a GPU had no memory for them, by lane and GPU.
    pub fn cpu_fallbacks(&self) -> Vec<CpuFallback> {
        self.shared.fallbacks.counts()
    }

    /// Returns counts of queued and running requests, and totals since the start.
    pub fn stats(&self) -> EngineStats {
        let lanes = self.shared.lanes();
        EngineStats {
            admission: self.shared.admission.stats(),
            lanes: lanes.values().map(RegisteredLane::stats).collect(),
            draining: self.shared.admission.is_draining(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_within(STOP_TIMEOUT);
        // Lane handles may outlive the engine: the registry would keep `Shared` alive through a cycle.
        self.shared.lanes().clear();
    }
}

fn no_thread(device: DeviceId, error: &io::Error) -> OpError {
    OpError::Failed { device, kernel: "worker thread", reason: error.to_string() }
}
