//! The queue of one operation, as its callers hold it: admission, routing, waiting, rerouting.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, Op, OpError, Size};
use tokio::{sync::oneshot, time};

use crate::{
    admission::Permit,
    arrival::Arrival,
    batcher::{EntryId, Terms, WouldMiss},
    config::{Context, LaneConfig},
    cpu_fallback::{MemoryBackoff, Shortage},
    device::{AnyLane, DeviceLoad, Placement, route},
    device_lane::{DeviceLane, Job, Pending, Reply},
    estimate::Estimate,
    metrics::Stage,
    outcome::{Completion, SubmitError},
    queue::PushError,
    running::{Replier, Shareable},
    shared::{LaneCore, Shared},
    trace::RequestTrace,
};

/// Devices that may be lost while a request runs on them before it is kept from further GPUs.
const SUSPECT_LOSSES: u32 = 2;

/// Factor between a call's time and what is left of it from which on it is refused: estimates of many batches err.
const CLEARLY_LATE: f64 = 1.5;

/// The queue of one operation. Clones share it; dropping the last one closes it.
pub struct Lane<O: Op>(Arc<LaneInner<O>>);

struct LaneInner<O: Op> {
    core: Arc<LaneCore>,
    shared: Arc<Shared>,
    cpu_max_bytes: u64,
    large_request_bytes: u64,
    /// One a device, in the engine's order.
    device_lanes: Vec<Arc<DeviceLane<O>>>,
    /// The same for large requests.
    large: Vec<Arc<DeviceLane<O>>>,
}

/// Figures of a request that routing needs.
#[derive(Clone, Copy, Debug)]
struct Demand<'a> {
    bytes: u64,
    cost: u64,
    affinity: Option<DeviceId>,
    /// Indices of devices without memory for it.
    full_devices: &'a [usize],
    /// Too many devices were lost while it ran on them.
    is_suspect: bool,
}

impl<O: Op> Job<O> {
    fn demand(&self) -> Demand<'_> {
        let &Self { size, cost, affinity, device_losses, ref full_devices, .. } = self;
        Demand { bytes: size.bytes, cost, affinity, full_devices, is_suspect: device_losses >= SUSPECT_LOSSES }
    }
}

impl<O: Op> Clone for Lane<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Op> std::fmt::Debug for Lane<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("name", &O::NAME).field("queued", &self.queue_len()).finish()
    }
}

impl<O: Op> Lane<O> {
    /// Opens the lane on every device of an engine.
    pub(crate) fn open(shared: &Arc<Shared>, config: &LaneConfig) -> Self {
        let core = shared.lane_core(O::NAME);
        let estimates: Vec<_> = shared.devices.iter().map(|_| Arc::new(Estimate::new(Instant::now()))).collect();
        let backoff = || Arc::new(MemoryBackoff::new(shared.memory_retry));
        let backoffs: Vec<_> = shared.devices.iter().map(|_| backoff()).collect();
        let open = |large| -> Vec<_> {
            let devices = shared.devices.iter().zip(estimates.iter().zip(&backoffs));
            let open = |(device, (estimate, backoff))| {
                DeviceLane::new(&core, shared, device, config, estimate, backoff, large)
            };
            devices.map(|device| Arc::new(open(device))).collect()
        };
        let LaneConfig { cpu_max_bytes, large_request_bytes, .. } = *config;
        let device_lanes = open(false);
        let large = open(true);
        let shared = Arc::clone(shared);
        let inner = LaneInner { core, shared, cpu_max_bytes, large_request_bytes, device_lanes, large };
        for lane in inner.all() {
            lane.device.add_lane(&(Arc::clone(lane) as Arc<dyn AnyLane>));
        }
        let all = inner.all().map(|lane| Arc::clone(lane) as Arc<dyn AnyLane>).collect();
        inner.shared.register(&inner.core, all);
        Self(Arc::new(inner))
    }

    /// Queues a request and waits for its response. Dropping the future removes the request from the queue.
    pub async fn submit(&self, request: O::Request, context: Context) -> Result<Completion<O::Response>, SubmitError> {
        self.submit_arrived(request, context, None).await
    }

    /// As [`Self::submit`], for a request that [`Self::screen`] let in.
    pub async fn submit_arrived(
        &self,
        request: O::Request,
        context: Context,
        arrival: Option<Arc<Arrival>>,
    ) -> Result<Completion<O::Response>, SubmitError> {
        let is_screened = arrival.is_some();
        drop(arrival);
        self.finish(self.0.admit(request, context, is_screened)?).await
    }

    /// As [`Self::submit`], on the CPU although a GPU is to run the request, after [`Self::falls_back`].
    pub async fn submit_to_cpu(
        &self,
        request: O::Request,
        context: Context,
    ) -> Result<Completion<O::Response>, SubmitError> {
        let mut job = self.0.admit(request, context, false)?;
        job.affinity = Some(DeviceId::Cpu);
        self.finish(job).await
    }

    /// Queues an admitted request, on one device after the other if need be, and waits for its response.
    async fn finish(&self, mut job: Job<O>) -> Result<Completion<O::Response>, SubmitError> {
        let lane = &*self.0;
        let deadline = job.context.deadline;
        let mut enqueued = job.submitted;
        loop {
            let (guard, reply) = lane.enqueue(job, enqueued)?;
            match guard.wait(reply, deadline).await? {
                Reply::Completed(completion, _permit) => return Ok(completion),
                Reply::Failed(error) => return Err(error),
                Reply::Rerouted(again) => {
                    lane.core.record.count(|counts| counts.rerouted += 1);
                    job = *again;
                }
                Reply::OutOfMemory(again) => job = *again,
            }
            enqueued = now();
        }
    }

    /// Refuses a request before it is received, if it is over a limit or would miss its deadline. `size` and `cost` are about what
    /// [`Op::size`] and [`Op::cost`] will say.
    pub fn screen(&self, size: Size, cost: u64, context: &Context) -> Result<Arrival, SubmitError> {
        let lane = &*self.0;
        let now = now();
        let permit = lane.reserve(size, size.bytes, None)?;
        let demand = Demand { bytes: size.bytes, cost, affinity: None, full_devices: &[], is_suspect: false };
        let device_lane = lane.device_lane_for(demand)?;
        let &Context { deadline, priority, principal, .. } = context;
        let terms = Terms { priority, principal, cost, deadline, is_screened: false, is_continuation: false };
        let screened = device_lane.queue.screen(now, terms);
        screened.map_err(|refusal| lane.would_miss(now, deadline, refusal))?;
        Ok(Arrival::new(Arc::clone(device_lane) as Arc<dyn AnyLane>, terms, permit))
    }

    /// Refuses the rest of a call, which is several requests of this cost together, if it clearly takes longer than the call's deadline
    /// even if nothing else runs. `cost_of_one` is that of one of the requests.
    pub fn check_time(&self, cost: u64, cost_of_one: u64, context: &Context) -> Result<(), SubmitError> {
        let Some(deadline) = context.deadline else { return Ok(()) };
        let lane = &*self.0;
        let Some(seconds) = lane.seconds_alone(cost, cost_of_one) else { return Ok(()) };
        let now = now();
        if seconds <= deadline.saturating_duration_since(now).as_secs_f64() * CLEARLY_LATE {
            return Ok(());
        }
        Err(lane.would_miss(now, Some(deadline), WouldMiss { seconds, fits_alone: false }))
    }

    /// Requests queued now, over all devices.
    pub fn queue_len(&self) -> usize {
        let queued = self.0.all().map(|lane| lane.queue.depth().requests).sum::<u64>();
        usize::try_from(queued).unwrap_or(usize::MAX)
    }

    /// Returns true if a GPU is in service.
    pub fn has_gpu(&self) -> bool {
        let mut devices = self.0.device_lanes.iter().map(|lane| &lane.device);
        devices.any(|device| device.id() != DeviceId::Cpu && device.lost().is_none())
    }

    /// Returns true if a request that failed in this way may run on the CPU instead, once its caller has moved its input to the host. If
    /// so, it is counted.
    pub fn falls_back(&self, error: &SubmitError, size: Size, context: &Context) -> bool {
        let SubmitError::Op(error) = error else { return false };
        let shared = &self.0.shared;
        let may_fall_back = !context.no_cpu_fallback && shared.has_cpu();
        let shortage = Shortage::of(error).filter(|_| may_fall_back);
        if let Some(shortage) = shortage {
            shared.fallbacks.record(now(), O::NAME, size, shortage);
        }
        shortage.is_some()
    }

    /// Requests, by the call itself, that the workers of all devices free their idle memory; the future is ready once they
    /// have. Sleeping workers are woken, busy ones finish their batch first.
    pub fn trim(&self) -> impl Future<Output = ()> + Send + use<O> {
        let each: Vec<_> = self.0.shared.devices.iter().map(|device| device.trim()).collect();
        async {
            for trimmed in each {
                trimmed.await;
            }
        }
    }
}

impl<O: Op> LaneInner<O> {
    fn all(&self) -> impl Iterator<Item = &Arc<DeviceLane<O>>> {
        self.device_lanes.iter().chain(&self.large)
    }

    /// Admits a request, unless it is over a limit or its deadline has passed.
    fn admit(&self, request: O::Request, context: Context, is_screened: bool) -> Result<Job<O>, SubmitError> {
        let submitted = now();
        let Size { items, bytes } = O::size(&request);
        let size = Size { items: items.max(1), bytes: bytes.max(1) };
        let cost = O::cost(&request).max(1);
        let affinity = O::device_affinity(&request);
        let held = Size { bytes: O::held_bytes(&request).max(1), ..size };
        let permit = self.reserve(held, size.bytes, affinity)?;
        if context.deadline.is_some_and(|deadline| deadline <= submitted) {
            self.shared.record_cancelled(&self.core, Stage::Queued, true);
            return Err(SubmitError::DeadlineExceeded { waited: Duration::ZERO });
        }
        Ok(Job {
            request,
            permit: Shareable::Own(permit),
            size,
            cost,
            context,
            trace: RequestTrace::current(),
            affinity,
            submitted,
            is_screened,
            device_losses: 0,
            full_devices: vec![],
            shortage: None,
        })
    }

    /// Takes a request's part of the budget.
    fn reserve(&self, held: Size, run_bytes: u64, affinity: Option<DeviceId>) -> Result<Permit, SubmitError> {
        let admitted = self.shared.admission.admit(held, run_bytes, self.shared.capacity(affinity));
        admitted.inspect_err(|refusal| {
            if let SubmitError::Full { measure, .. } = refusal {
                self.shared.metrics.refused(measure);
            }
        })
    }

    /// Queues a request on the device that routing picks.
    #[allow(clippy::type_complexity)] // A guard and its reply: named once, here.
    fn enqueue(
        &self,
        mut job: Job<O>,
        now: Instant,
    ) -> Result<(QueueGuard<'_, O>, oneshot::Receiver<Reply<O>>), SubmitError> {
        job.trace.enqueued(O::NAME);
        loop {
            let lane = self.device_lane_with_memory(now, &mut job)?;
            let submitted = job.submitted;
            let (reply, received) = oneshot::channel();
            match lane.push(now, Pending { job, reply: Replier::new(reply) }) {
                Ok(id) => return Ok((QueueGuard { lane, id: Some(id), submitted }, received)),
                Err(PushError::WouldMiss(refused, refusal)) => {
                    return Err(self.would_miss(now, refused.job.context.deadline, refusal));
                }
                // The device was lost after it was picked: route again.
                Err(PushError::Closed(refused)) if lane.device.lost().is_some() => job = refused.job,
                Err(PushError::Closed(_)) => return Err(SubmitError::Draining),
            }
        }
    }

    /// The refusal of a request that would be answered too late.
    fn would_miss(&self, now: Instant, deadline: Option<Instant>, refusal: WouldMiss) -> SubmitError {
        let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let WouldMiss { seconds, fits_alone } = refusal;
        self.shared.would_miss(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX), left, fits_alone)
    }

    /// About the time of requests of this cost together if nothing else runs; `None` until batches of the cost of one of them were seen.
    fn seconds_alone(&self, cost: u64, cost_of_one: u64) -> Option<f64> {
        let usable = || self.device_lanes.iter().filter(|lane| lane.device.load().usable);
        let is_gpu = |lane: &DeviceLane<O>| lane.device.id() != DeviceId::Cpu;
        let has_gpu = usable().any(|lane| is_gpu(lane));
        let rates = usable().filter(|lane| is_gpu(lane) == has_gpu).map(|lane| {
            let seconds = lane.estimate.seconds_per_cost().filter(|_| lane.estimate.has_seen(cost_of_one));
            seconds.filter(|seconds| *seconds > 0.0).map(f64::recip)
        });
        let rate = rates.sum::<Option<f64>>()?;
        (rate > 0.0).then(|| cost as f64 / rate)
    }

    /// The queue of the device that routing picks, of those that have memory for the request as far as that is known. A request
    /// that the CPU runs for lack of memory is counted.
    fn device_lane_with_memory(&self, now: Instant, job: &mut Job<O>) -> Result<&Arc<DeviceLane<O>>, OpError> {
        loop {
            let lane = self.device_lane_for(job.demand())?;
            if let Some(shortage) = lane.avoids(now, job) {
                job.avoid(&lane.device, shortage);
                continue;
            }
            if lane.device.id() == DeviceId::Cpu
                && let Some(shortage) = job.shortage.take()
            {
                self.shared.fallbacks.record(now, O::NAME, job.size, shortage);
            }
            return Ok(lane);
        }
    }

    fn device_lane_for(&self, demand: Demand<'_>) -> Result<&Arc<DeviceLane<O>>, OpError> {
        let Demand { bytes, affinity, full_devices, is_suspect: suspect, .. } = demand;
        let placement = Placement { affinity, small: bytes <= self.cpu_max_bytes, suspect };
        let load = |lane: &Arc<DeviceLane<O>>| {
            let load = lane.device.load();
            DeviceLoad { usable: load.usable && !full_devices.contains(&lane.device.index), ..load }
        };
        let choice = route(self.device_lanes.iter().map(load), placement);
        let index = choice.ok_or_else(|| self.no_device(affinity))?;
        let lanes = if self.is_large(index, demand) { &self.large } else { &self.device_lanes };
        Ok(&lanes[index])
    }

    /// Returns true if a request takes longer than a slice, as far as that is known.
    fn is_large(&self, device: usize, demand: Demand<'_>) -> bool {
        let lane = &self.device_lanes[device];
        let is_large = || self.large_request_bytes > 0 && demand.bytes > self.large_request_bytes;
        lane.estimate.exceeds(demand.cost, lane.device.turns.slice()).unwrap_or_else(is_large)
    }

    /// Why no device takes a request.
    fn no_device(&self, affinity: Option<DeviceId>) -> OpError {
        let mut devices = self.device_lanes.iter().map(|lane| &lane.device);
        let lost = devices.rfind(|device| device.lost().is_some() && affinity.is_none_or(|id| id == device.id()));
        match (lost, affinity) {
            (Some(device), _) => device.lost_error(),
            (None, Some(id)) => OpError::Invalid(format!("the request reads data on {id}, which is not in use")),
            (None, None) => OpError::Invalid("no device is in use".to_owned()),
        }
    }
}

impl<O: Op> Drop for LaneInner<O> {
    fn drop(&mut self) {
        for lane in self.all() {
            lane.device.remove_lane(&**lane);
            self.shared.unregister(&self.core, &**lane);
        }
    }
}

/// Now, by the clock of the callers' timers.
fn now() -> Instant {
    time::Instant::now().into_std()
}

/// Removes a request from its queue when the caller drops its future or the deadline passes.
struct QueueGuard<'a, O: Op> {
    lane: &'a DeviceLane<O>,
    /// None once the request is answered or removed.
    id: Option<EntryId>,
    submitted: Instant,
}

impl<O: Op> QueueGuard<'_, O> {
    /// Waits for the reply, at most until the deadline.
    async fn wait(
        mut self,
        reply: oneshot::Receiver<Reply<O>>,
        deadline: Option<Instant>,
    ) -> Result<Reply<O>, SubmitError> {
        let received = match deadline {
            None => reply.await,
            Some(at) => {
                let Ok(received) = time::timeout_at(at.into(), reply).await else {
                    self.cancel(deadline);
                    let waited = now().saturating_duration_since(self.submitted);
                    return Err(SubmitError::DeadlineExceeded { waited });
                };
                received
            }
        };
        self.id = None;
        received.map_err(|_| self.lane.device.lost_error().into())
    }

    /// Removes the request from the queue. If a worker already has it, the worker finds the reply channel closed, and counts
    /// it.
    fn cancel(&mut self, deadline: Option<Instant>) {
        let Some(id) = self.id.take() else { return };
        if let Some(pending) = self.lane.queue.cancel(now(), id) {
            self.lane.device.remove_outstanding(pending.job.size.bytes);
            self.lane.record_cancelled(Stage::Queued, deadline);
        }
    }
}

impl<O: Op> Drop for QueueGuard<'_, O> {
    fn drop(&mut self) {
        self.cancel(None);
    }
}
