//! A device as the scheduler sees it: the lanes that queue for it, its outstanding work, whether it is lost, and routing.

use std::sync::{
    Arc, OnceLock, PoisonError, RwLock,
    atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};
use std::time::{Duration, Instant};

use accelerd_kernels::{Backend, Device, DeviceId, LossScope, OpError};

use crate::{
    batcher::Terms,
    config::EngineConfig,
    loss::DeviceLoss,
    preemption::Preemption,
    queue::Depth,
    running::Running,
    signal::{Signals, Work},
    trim::TrimSignal,
    turn::Turns,
};

/// A [`DeviceLane`](crate::device_lane::DeviceLane) of any operation.
pub(crate) trait AnyLane: Send + Sync {
    /// Returns true if [`Self::poll`] may find a batch. Costs one load.
    fn is_available(&self) -> bool;
    /// Which workers may run its batches.
    fn work(&self) -> Work;
    /// Runs the next batch, if there is one. `position` is passed on to [`DeviceQueues::batch_started`].
    fn poll(&self, position: usize, worker: &mut WorkerContext) -> PollOutcome;
    /// A request that was to be received has arrived, or never will.
    fn arrived(&self, terms: Terms);
    /// Reroutes queued requests, because the device is lost.
    fn evict(&self);
    /// Refuses queued requests, because the engine stops.
    fn stop(&self);
    /// Counts of queued and running requests.
    fn depth(&self) -> Depth;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// A batch ran.
    Ran,
    /// A batch is held open until then, unless more requests arrive.
    WaitUntil(Instant),
    /// No batch may run now.
    Idle,
}

/// A worker's device and its own backend.
pub(crate) struct WorkerContext {
    pub(crate) device: Arc<DeviceQueues>,
    /// Its entry in [`DeviceQueues::running`].
    pub(crate) running: Arc<Running>,
    pub(crate) backend: Backend,
    pub(crate) preemption: Arc<Preemption>,
    /// It runs short batches only.
    pub(crate) short_only: bool,
}

impl WorkerContext {
    /// Opens the backend of the calling thread.
    pub(crate) fn open(device: Arc<DeviceQueues>, running: Arc<Running>, short_only: bool) -> Result<Self, OpError> {
        let preemption = Preemption::new(Arc::clone(&device.turns), Arc::clone(&running), short_only);
        let backend = Self::open_backend(&device, &preemption, short_only)?;
        Ok(Self { device, running, backend, preemption, short_only })
    }

    /// Replaces a backend that may be in an inconsistent state.
    pub(crate) fn reopen(&mut self) -> Result<(), OpError> {
        self.backend = Self::open_backend(&self.device, &self.preemption, self.short_only)?;
        Ok(())
    }

    fn open_backend(device: &DeviceQueues, preemption: &Arc<Preemption>, short_only: bool) -> Result<Backend, OpError> {
        let handle = device.handle();
        let mut backend = if short_only { handle.open_for_short_work() } else { handle.open() }?;
        backend.set_preemption(preemption.hook());
        Ok(backend)
    }
}

/// The workers of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerCounts {
    pub(crate) total: usize,
    /// Long batches that run at once.
    pub(crate) turns: usize,
    /// The last worker runs short batches only.
    pub(crate) has_short_only: bool,
}

impl WorkerCounts {
    pub(crate) fn new(device: DeviceId, config: &EngineConfig) -> Self {
        let (workers, paused) = match device {
            DeviceId::Cpu => (config.cpu_workers.max(1), config.cpu_paused_batches),
            DeviceId::Cuda(_) => (config.cuda_workers.max(1), 0),
        };
        let has_short_only = workers > 1;
        Self { total: workers + paused, turns: workers - usize::from(has_short_only), has_short_only }
    }
}

/// The state of one device that its workers and their callers share.
pub(crate) struct DeviceQueues {
    handle: Device,
    id: DeviceId,
    /// Index in the list that the engine was started with.
    pub(crate) index: usize,
    /// Wakes its workers.
    pub(crate) signals: Arc<Signals>,
    pub(crate) trim_signal: TrimSignal,
    /// Entry of each worker about its current batch.
    pub(crate) running: Vec<Arc<Running>>,
    /// Shared by its long batches.
    pub(crate) turns: Arc<Turns>,
    pub(crate) workers: WorkerCounts,
    /// Bytes queued for it or running on it.
    outstanding_bytes: AtomicU64,
    lost: OnceLock<DeviceLoss>,
    lanes: RwLock<Arc<[Arc<dyn AnyLane>]>>,
    /// The lane that is polled first in the next round.
    next: AtomicUsize,
}

impl DeviceQueues {
    pub(crate) fn new(handle: Device, index: usize, workers: WorkerCounts, slice: Duration) -> Self {
        let id = handle.id();
        Self {
            id,
            handle,
            index,
            signals: Arc::new(Signals::new(workers.has_short_only)),
            trim_signal: TrimSignal::new(workers.total),
            running: (0..workers.total).map(|_| Arc::new(Running::new(id))).collect(),
            turns: Arc::new(Turns::new(workers.turns, slice)),
            workers,
            outstanding_bytes: AtomicU64::new(0),
            lost: OnceLock::new(),
            lanes: RwLock::new(Arc::new([])),
            next: AtomicUsize::new(0),
        }
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    pub(crate) fn handle(&self) -> &Device {
        &self.handle
    }

    /// Most bytes that the device can hold.
    pub(crate) fn capacity(&self) -> u64 {
        let cap = self.handle.pool_stats().map_or(0, |pool| pool.limit_bytes);
        let capacity = if cap > 0 { cap } else { self.handle.info().memory_bytes };
        if capacity > 0 { capacity } else { u64::MAX }
    }

    /// Why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&DeviceLoss> {
        self.lost.get()
    }

    /// The error of a request that cannot run because the device is lost.
    pub(crate) fn lost_error(&self) -> OpError {
        let stopped =
            || OpError::DeviceLost { device: self.id, scope: LossScope::Device, reason: "it takes no work".to_owned() };
        self.lost().map_or_else(stopped, DeviceLoss::error)
    }

    /// Marks the device as out of service for good; false if it was already. No request is routed to it any more.
    pub(crate) fn mark_lost(&self, loss: &DeviceLoss) -> bool {
        let is_first = self.lost.set(loss.clone()).is_ok();
        if is_first {
            self.handle.mark_lost(loss.cause.scope(), &loss.reason);
        }
        is_first
    }

    /// Stops its workers and reroutes its queues, once it is marked as lost.
    pub(crate) fn evict(&self) {
        self.signals.stop();
        self.turns.open();
        self.trim_signal.release();
        for lane in self.lanes().iter() {
            lane.evict();
        }
    }

    /// Has every worker free its idle memory; ready when each has.
    pub(crate) fn trim(&self) -> impl Future<Output = ()> + Send + use<> {
        let trimmed = self.trim_signal.request();
        self.signals.notify_all();
        trimmed
    }

    pub(crate) fn add_outstanding(&self, bytes: u64) {
        self.outstanding_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove_outstanding(&self, bytes: u64) {
        self.outstanding_bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn load(&self) -> DeviceLoad {
        let outstanding_bytes = self.outstanding_bytes.load(Relaxed);
        DeviceLoad { id: self.id, usable: self.lost().is_none(), outstanding_bytes }
    }

    pub(crate) fn add_lane(&self, lane: &Arc<dyn AnyLane>) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        *lanes = lanes.iter().cloned().chain([Arc::clone(lane)]).collect();
        drop(lanes);
        if self.lost().is_some() {
            lane.evict();
        }
    }

    pub(crate) fn remove_lane(&self, lane: &dyn AnyLane) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        *lanes = lanes.iter().filter(|other| !std::ptr::addr_eq(Arc::as_ptr(other), lane)).cloned().collect();
    }

    pub(crate) fn lanes(&self) -> Arc<[Arc<dyn AnyLane>]> {
        Arc::clone(&self.lanes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Polls the lanes round robin, starting after the one that ran last, until one runs a batch.
    pub(crate) fn poll(worker: &mut WorkerContext) -> PollOutcome {
        let lanes = worker.device.lanes();
        let start = worker.device.next.load(SeqCst);
        let mut until = None;
        for offset in 0..lanes.len() {
            let position = (start + offset) % lanes.len();
            match lanes[position].poll(position, worker) {
                PollOutcome::Ran => return PollOutcome::Ran,
                PollOutcome::WaitUntil(at) => until = Some(until.map_or(at, |until: Instant| until.min(at))),
                PollOutcome::Idle => {}
            }
        }
        until.map_or(PollOutcome::Idle, PollOutcome::WaitUntil)
    }

    /// Called when a worker has taken a batch of the lane at `position`: moves the round robin on, and wakes another worker
    /// if more batches may run now.
    pub(crate) fn batch_started(&self, position: usize) {
        self.next.store(position + 1, SeqCst);
        let lanes = self.lanes();
        for work in [Work::Large, Work::Ordinary] {
            if lanes.iter().any(|lane| lane.work() == work && lane.is_available()) {
                self.signals.notify(work);
            }
        }
    }
}

/// Figures of a device that routing compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLoad {
    pub(crate) id: DeviceId,
    /// It is in service, and not known to lack memory for the request.
    pub(crate) usable: bool,
    pub(crate) outstanding_bytes: u64,
}

/// Where a request may be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// The only device that it can run on.
    pub(crate) affinity: Option<DeviceId>,
    /// At most `cpu_max_bytes`: the CPU is preferred.
    pub(crate) small: bool,
    /// Devices were lost while it ran on them: no further GPU is risked.
    pub(crate) suspect: bool,
}

/// The index of the device for a request.
///
/// A request with an affinity goes to that device. Others go to the GPU with the fewest outstanding bytes; small and suspect
/// ones, and all once no GPU is left, to the CPU.
pub(crate) fn route(devices: impl Iterator<Item = DeviceLoad> + Clone, placement: Placement) -> Option<usize> {
    let usable = devices.enumerate().filter(|(_, device)| device.usable);
    if let Some(affinity) = placement.affinity {
        return usable.clone().find(|(_, device)| device.id == affinity).map(|(index, _)| index);
    }
    let least_loaded = |cpu: bool| {
        let of_kind = usable.clone().filter(move |(_, device)| (device.id == DeviceId::Cpu) == cpu);
        of_kind.min_by_key(|(_, device)| device.outstanding_bytes).map(|(index, _)| index)
    };
    match placement {
        Placement { suspect: true, .. } => least_loaded(true),
        Placement { small: true, .. } => least_loaded(true).or_else(|| least_loaded(false)),
        Placement { .. } => least_loaded(false).or_else(|| least_loaded(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Placement = Placement { affinity: None, small: false, suspect: false };

    fn gpu(ordinal: u32, outstanding_bytes: u64) -> DeviceLoad {
        DeviceLoad { id: DeviceId::Cuda(ordinal), usable: true, outstanding_bytes }
    }

    fn cpu(outstanding_bytes: u64) -> DeviceLoad {
        DeviceLoad { id: DeviceId::Cpu, usable: true, outstanding_bytes }
    }

    fn lost(device: DeviceLoad) -> DeviceLoad {
        DeviceLoad { usable: false, ..device }
    }

    fn routed(devices: &[DeviceLoad], placement: Placement) -> Option<usize> {
        route(devices.iter().copied(), placement)
    }

    #[test]
    fn requests_without_an_affinity_go_to_the_least_loaded_gpu() {
        assert_eq!(routed(&[gpu(0, 5), gpu(1, 3), cpu(0)], ANY), Some(1));
        assert_eq!(routed(&[gpu(0, 5), lost(gpu(1, 3)), cpu(0)], ANY), Some(0));
    }

    #[test]
    fn the_cpu_takes_small_requests_and_all_once_no_gpu_is_left() {
        let small = Placement { small: true, ..ANY };
        assert_eq!(routed(&[gpu(0, 0), cpu(9)], small), Some(1));
        assert_eq!(routed(&[gpu(0, 0), lost(cpu(9))], small), Some(0));
        assert_eq!(routed(&[lost(gpu(0, 0)), cpu(9)], ANY), Some(1));
        assert_eq!(routed(&[cpu(9), cpu(3)], ANY), Some(1));
        assert_eq!(routed(&[lost(gpu(0, 0)), lost(cpu(0))], ANY), None);
    }

    #[test]
    fn a_request_with_an_affinity_goes_nowhere_else() {
        let pinned = Placement { affinity: Some(DeviceId::Cuda(1)), ..ANY };
        assert_eq!(routed(&[gpu(0, 0), gpu(1, 99), cpu(0)], pinned), Some(1));
        assert_eq!(routed(&[gpu(0, 0), lost(gpu(1, 99)), cpu(0)], pinned), None);
        assert_eq!(routed(&[gpu(0, 0), cpu(7)], Placement { affinity: Some(DeviceId::Cpu), ..ANY }), Some(1));
    }

    #[test]
    fn a_suspect_request_is_kept_from_further_gpus() {
        let suspect = Placement { suspect: true, ..ANY };
        assert_eq!(routed(&[lost(gpu(0, 0)), gpu(1, 0), cpu(5)], suspect), Some(2));
        assert_eq!(routed(&[lost(gpu(0, 0)), gpu(1, 0)], suspect), None);
    }
}
