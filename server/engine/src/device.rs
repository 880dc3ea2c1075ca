//! A device as the scheduler sees it: the lanes that queue for it, its outstanding work, whether it is lost, and routing.

use std::ops::ControlFlow;
use std::sync::{
    Arc, OnceLock, PoisonError, RwLock,
    atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};
use std::time::Instant;

use accelerd_kernels::{Backend, Device, DeviceId, LossScope, OpError};

use crate::{loss::DeviceLoss, queue::Depth, running::Running, signal::Signal, trim::TrimSignal};

/// A [`DeviceLane`](crate::device_lane::DeviceLane) of any operation.
pub(crate) trait AnyLane: Send + Sync {
    /// Whether [`Self::poll`] may find a batch. Costs one load.
    fn is_available(&self) -> bool;
    /// Runs the next batch, if there is one. `position` is passed on to [`DeviceQueues::batch_started`].
    fn poll(&self, position: usize, worker: &mut WorkerContext) -> PollOutcome;
    /// Reroutes what is queued, because the device is lost.
    fn evict(&self);
    /// Refuses what is queued, because the engine stops.
    fn stop(&self);
    /// How much is queued and running.
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
}

impl WorkerContext {
    /// Opens a backend for the calling worker. At its preemption points the watchdog's time starts anew.
    pub(crate) fn open_backend(device: &DeviceQueues, running: &Arc<Running>) -> Result<Backend, OpError> {
        let mut backend = device.handle.open()?;
        let running = Arc::clone(running);
        backend.set_preemption(Arc::new(move || {
            running.progress(Instant::now());
            ControlFlow::Continue(())
        }));
        Ok(backend)
    }
}

/// The state of one device that its workers and their callers share.
pub(crate) struct DeviceQueues {
    handle: Device,
    id: DeviceId,
    /// Index in the list that the engine was started with.
    pub(crate) index: usize,
    /// Wakes its workers.
    pub(crate) signal: Arc<Signal>,
    pub(crate) trim_signal: TrimSignal,
    /// What each worker runs now.
    pub(crate) running: Vec<Arc<Running>>,
    /// Bytes queued for it or running on it.
    outstanding_bytes: AtomicU64,
    lost: OnceLock<DeviceLoss>,
    /// Most batches of large requests that run at once.
    large_limit: usize,
    large_running: AtomicUsize,
    lanes: RwLock<Arc<[Arc<dyn AnyLane>]>>,
    /// The lane that is polled first in the next round.
    next: AtomicUsize,
}

impl DeviceQueues {
    pub(crate) fn new(handle: Device, index: usize, workers: usize) -> Self {
        // Small requests run on the CPU even where there is a GPU (`cpu_max_bytes`), so a GPU reserves no worker for them:
        // its workers overlap the copies of large ones.
        let id = handle.id();
        let reserved = usize::from(id == DeviceId::Cpu);
        Self {
            id,
            handle,
            index,
            signal: Arc::new(Signal::new()),
            trim_signal: TrimSignal::new(workers),
            running: (0..workers).map(|_| Arc::new(Running::new(id))).collect(),
            outstanding_bytes: AtomicU64::new(0),
            lost: OnceLock::new(),
            large_limit: workers.saturating_sub(reserved).max(1),
            large_running: AtomicUsize::new(0),
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
        self.signal.stop();
        self.trim_signal.release();
        for lane in self.lanes().iter() {
            lane.evict();
        }
    }

    /// Has every worker free its idle memory; ready when each has.
    pub(crate) fn trim(&self) -> impl Future<Output = ()> + Send + use<> {
        let trimmed = self.trim_signal.request();
        self.signal.notify_all();
        trimmed
    }

    pub(crate) fn add_outstanding(&self, bytes: u64) {
        self.outstanding_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove_outstanding(&self, bytes: u64) {
        self.outstanding_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Whether one more batch of large requests may run.
    pub(crate) fn has_large_request_permit(&self) -> bool {
        self.large_running.load(SeqCst) < self.large_limit
    }

    /// A permit to run a batch of large requests, unless all are taken. A worker that was refused one need not be woken:
    /// whoever releases a permit polls every lane again.
    pub(crate) fn large_request_permit(&self) -> Option<LargeRequestPermit<'_>> {
        let more = |running| (running < self.large_limit).then_some(running + 1);
        self.large_running.fetch_update(SeqCst, SeqCst, more).ok().map(|_| LargeRequestPermit(self))
    }

    pub(crate) fn load(&self) -> DeviceLoad {
        let outstanding_bytes = self.outstanding_bytes.load(Relaxed);
        DeviceLoad { id: self.id, lost: self.lost().is_some(), outstanding_bytes }
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
        if self.lanes().iter().any(|lane| lane.is_available()) {
            self.signal.notify();
        }
    }
}

/// Permits one batch of large requests to run on a device; released on drop.
pub(crate) struct LargeRequestPermit<'a>(&'a DeviceQueues);

impl Drop for LargeRequestPermit<'_> {
    fn drop(&mut self) {
        self.0.large_running.fetch_sub(1, SeqCst);
    }
}

/// What routing knows about a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLoad {
    pub(crate) id: DeviceId,
    pub(crate) lost: bool,
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
    let usable = devices.enumerate().filter(|(_, device)| !device.lost);
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
        DeviceLoad { id: DeviceId::Cuda(ordinal), lost: false, outstanding_bytes }
    }

    fn cpu(outstanding_bytes: u64) -> DeviceLoad {
        DeviceLoad { id: DeviceId::Cpu, lost: false, outstanding_bytes }
    }

    fn lost(device: DeviceLoad) -> DeviceLoad {
        DeviceLoad { lost: true, ..device }
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
