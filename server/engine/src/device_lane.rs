//! One lane on one device: its queue, and running its batches. A batch that fails is split until the faulty request is
//! alone.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, LossScope, Op, OpError, Size};
use tokio::time;

use crate::{
    admission::Permit,
    batcher::{Batch, BatchLimits, BatchSummary, Entry, EntryId, NextBatch, Terms},
    config::{Context, LaneConfig},
    cpu_fallback::{MemoryBackoff, Shortage},
    device::{AnyLane, DeviceQueues, PollOutcome, WorkerContext},
    estimate::Estimate,
    loss::{DeviceLoss, LossCause},
    metrics::{Stage, error_kind},
    outcome::{Completion, SubmitError},
    preemption::Awaited,
    queue::{Depth, PushError, Queue},
    running::{AnswerCallers, Replier, Shareable, take},
    shared::{LaneCore, Shared},
    signal::Work,
    stats::Launch,
    trace::{self, KernelTraces, RequestTrace},
};

pub(crate) struct DeviceLane<O: Op> {
    pub(crate) device: Arc<DeviceQueues>,
    pub(crate) queue: Queue<O::Key, Pending<O>>,
    core: Arc<LaneCore>,
    shared: Arc<Shared>,
    /// Shared with the queue of the device's other size class.
    pub(crate) estimate: Arc<Estimate>,
    /// Likewise.
    pub(crate) backoff: Arc<MemoryBackoff<O::Key>>,
    limits: BatchLimits,
    work: Work,
}

/// An admitted request, which may try several devices.
pub(crate) struct Job<O: Op> {
    pub(crate) request: O::Request,
    pub(crate) permit: Shareable<Permit>,
    /// At least one item and one byte.
    pub(crate) size: Size,
    /// Estimated work, in the operation's unit.
    pub(crate) cost: u64,
    pub(crate) context: Context,
    pub(crate) trace: RequestTrace,
    pub(crate) affinity: Option<DeviceId>,
    pub(crate) submitted: Instant,
    /// True if it was received after [`Lane::screen`](crate::lane::Lane::screen).
    pub(crate) is_screened: bool,
    /// Devices lost while it ran on them.
    pub(crate) device_losses: u32,
    /// Indices of the GPUs that have no memory for it: it runs elsewhere.
    pub(crate) full_devices: Vec<usize>,
    /// Shortage of the last of them, until the request is counted as one that the CPU runs.
    pub(crate) shortage: Option<Shortage>,
}

/// A queued request, and the channel of its reply.
pub(crate) struct Pending<O: Op> {
    pub(crate) job: Job<O>,
    pub(crate) reply: Replier<Reply<O>>,
}

pub(crate) enum Reply<O: Op> {
    /// The permit is held until the caller takes the response: a caller whose stream stalls leaves responses in their
    /// channels.
    Completed(Completion<O::Response>, Permit),
    Failed(SubmitError),
    /// The device is lost: the caller tries another.
    Rerouted(Box<Job<O>>),
    /// The GPU has no memory for it: the caller tries another device.
    OutOfMemory(Box<Job<O>>),
}

impl<O: Op> Job<O> {
    fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.submitted)
    }

    /// Returns true if it may run on the CPU instead of on a GPU.
    fn can_fall_back(&self) -> bool {
        !self.context.no_cpu_fallback && O::cpu_fallback(&self.request)
    }

    /// Keeps it from a GPU that has no memory for it, for good. Data of one GPU is read by the CPU instead.
    pub(crate) fn avoid(&mut self, device: &DeviceQueues, shortage: Shortage) {
        self.full_devices.push(device.index);
        self.affinity = self.affinity.map(|_| DeviceId::Cpu);
        self.shortage = Some(shortage);
    }
}

impl<O: Op> Awaited for Vec<Pending<O>> {
    fn is_awaited(&self, now: Instant) -> bool {
        let is_awaited = |Pending { job, reply }: &Pending<O>| {
            !reply.is_closed() && job.context.deadline.is_none_or(|deadline| deadline > now)
        };
        self.iter().any(is_awaited)
    }
}

impl<O: Op> DeviceLane<O> {
    pub(crate) fn new(
        core: &Arc<LaneCore>,
        shared: &Arc<Shared>,
        device: &Arc<DeviceQueues>,
        config: &LaneConfig,
        estimate: &Arc<Estimate>,
        backoff: &Arc<MemoryBackoff<O::Key>>,
        large: bool,
    ) -> Self {
        let limits = BatchLimits {
            items: config.max_batch_items,
            bytes: config.batch_bytes(device.id()),
            wait: config.max_wait,
            age: config.max_age,
            time: config.max_batch_time,
            slice: device.turns.slice(),
        };
        let work = if large { Work::Large } else { Work::Ordinary };
        let signals = Arc::clone(&device.signals);
        Self {
            device: Arc::clone(device),
            queue: Queue::new(limits, Arc::clone(estimate), config.concurrency, work, signals),
            core: Arc::clone(core),
            shared: Arc::clone(shared),
            estimate: Arc::clone(estimate),
            backoff: Arc::clone(backoff),
            limits,
            work,
        }
    }

    /// Queues a request, unless it would miss its deadline or the queue is closed.
    #[allow(clippy::result_large_err)] // The request is returned only when it is refused or the device was just lost.
    pub(crate) fn push(&self, now: Instant, pending: Pending<O>) -> Result<EntryId, PushError<Pending<O>>> {
        let Job { request, size, cost, context, is_screened, .. } = &pending.job;
        let bytes = size.bytes;
        let entry = Entry {
            key: O::key(request),
            priority: context.priority,
            principal: context.principal,
            items: size.items,
            bytes,
            cost: *cost,
            deadline: context.deadline,
            is_screened: *is_screened,
            is_continuation: context.is_continuation,
            payload: pending,
        };
        self.device.add_outstanding(bytes);
        self.queue.push(now, entry).inspect_err(|_| self.device.remove_outstanding(bytes))
    }

    /// Counts a request whose caller is gone.
    pub(crate) fn record_cancelled(&self, stage: Stage, deadline: Option<Instant>) {
        let expired = deadline.is_some_and(|deadline| deadline <= time::Instant::now().into_std());
        self.shared.record_cancelled(&self.core, stage, expired);
    }

    /// Runs a batch, a long one in turns with others. Returns how long it took, if it ran unsplit.
    fn run_in_turn(
        &self,
        worker: &mut WorkerContext,
        &BatchSummary { expected, principal, .. }: &BatchSummary<O::Key>,
        payloads: Vec<Pending<O>>,
    ) -> Option<Duration> {
        let is_long = worker.preemption.is_long(expected, self.work == Work::Large);
        worker.preemption.begin(principal, is_long);
        let took = self.run(worker, payloads, is_long || expected.is_none());
        worker.preemption.end();
        took
    }

    /// Runs a batch: each of its requests is answered or rerouted. It may be abandoned if it is `abandonable`. Returns how
    /// long the batch took, if it ran unsplit.
    fn run(&self, worker: &mut WorkerContext, mut batch: Vec<Pending<O>>, abandonable: bool) -> Option<Duration> {
        let traces = batch.iter_mut().map(|pending| &mut pending.job.trace);
        let _entered = trace::batch(O::NAME, worker.device.id(), traces).entered();
        let running = Arc::clone(&worker.running);
        // The CPU is never given up.
        let answer_callers = (worker.device.id() != DeviceId::Cpu).then(|| share_replies(&mut batch));
        let _guard = running.begin(O::NAME, batch.len(), answer_callers);
        let whole = batch.len();
        let mut took = None;
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            let part = self.drop_oversized(self.drop_cancelled(part));
            if worker.device.lost().is_some() {
                self.reroute(part, false);
            } else if !part.is_empty() {
                let requests = part.len();
                running.progress(Instant::now());
                let Launched { part, outcome, execution } = self.launch(worker, part, abandonable);
                if running.is_given_up() {
                    tracing::warn!(took = ?execution.took, "a launch that was given up has ended; its results are discarded");
                    return None;
                }
                if requests == whole {
                    took = outcome.is_ok().then_some(execution.took);
                }
                self.settle(worker, part, outcome, &execution, &mut parts);
            }
        }
        took
    }

    /// Drops the requests whose caller is gone or whose deadline has passed.
    fn drop_cancelled(&self, mut part: Vec<Pending<O>>) -> Vec<Pending<O>> {
        let now = Instant::now();
        let is_late = |job: &Job<O>| job.context.deadline.is_some_and(|deadline| deadline <= now);
        let gone = |pending: &mut Pending<O>| pending.reply.is_closed() || is_late(&pending.job);
        part.extract_if(.., gone).for_each(|pending| self.expire(pending, Stage::Queued, now));
        part
    }

    /// Sends the requests back that the GPU has no memory for, as others of their kind found out a moment ago.
    fn drop_oversized(&self, part: Vec<Pending<O>>) -> Vec<Pending<O>> {
        if !self.backoff.is_active() {
            return part;
        }
        let now = Instant::now();
        let mut kept = Vec::with_capacity(part.len());
        for pending in part {
            match self.avoids(now, &pending.job) {
                Some(shortage) => self.send_back(pending, shortage),
                None => kept.push(pending),
            }
        }
        kept
    }

    /// The shortage of memory for which a request runs elsewhere without trying this GPU.
    pub(crate) fn avoids(&self, now: Instant, job: &Job<O>) -> Option<Shortage> {
        if !self.backoff.is_active() {
            return None;
        }
        let shortage = self.backoff.shortage(now, &O::key(&job.request), job.size.bytes)?;
        self.may_fall_back(job).then_some(shortage)
    }

    /// Returns true if a request may run on the CPU instead of on this device.
    fn may_fall_back(&self, job: &Job<O>) -> bool {
        self.device.id() != DeviceId::Cpu && job.can_fall_back() && self.shared.has_cpu()
    }

    /// Returns a request to its caller, because this GPU has no memory for it.
    fn send_back(&self, Pending { mut job, reply }: Pending<O>, shortage: Shortage) {
        job.avoid(&self.device, shortage);
        let deadline = job.context.deadline;
        if reply.send(Reply::OutOfMemory(Box::new(job))).is_err() {
            self.record_cancelled(Stage::Queued, deadline);
        }
    }

    /// Answers a request whose deadline passed, or whose caller is gone.
    fn expire(&self, pending: Pending<O>, stage: Stage, now: Instant) {
        self.record_cancelled(stage, pending.job.context.deadline);
        let late = SubmitError::DeadlineExceeded { waited: pending.job.waited(now) };
        drop(pending.job);
        // The caller may be gone.
        let _ = pending.reply.send(Reply::Failed(late));
    }

    /// Refuses a queued request whose deadline cannot be met any more.
    fn drop_hopeless(&self, Pending { job, reply }: Pending<O>, now: Instant) {
        self.shared.record_cancelled(&self.core, Stage::Queued, true);
        let left = job.context.deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let alone = self.expected_time(job.cost);
        let had = job.context.deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(job.submitted));
        let fits_alone = alone <= had && !job.context.is_continuation;
        let refused = self.shared.would_miss(alone, left, fits_alone);
        drop(job);
        // The caller may be gone.
        let _ = reply.send(Reply::Failed(refused));
    }

    /// The time that a request would take alone; zero if that is unknown.
    fn expected_time(&self, cost: u64) -> Duration {
        let seconds = self.estimate.seconds(cost).unwrap_or_default();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Returns requests to their callers, because the device is lost; `ran` if it was lost while it ran them.
    fn reroute(&self, part: Vec<Pending<O>>, ran: bool) {
        for Pending { mut job, reply } in part {
            job.device_losses += u32::from(ran);
            let deadline = job.context.deadline;
            if reply.send(Reply::Rerouted(Box::new(job))).is_err() {
                self.record_cancelled(Stage::Queued, deadline);
            }
        }
    }

    /// Launches once and records it.
    fn launch(&self, worker: &mut WorkerContext, part: Vec<Pending<O>>, abandonable: bool) -> Launched<O> {
        let part = Arc::new(part);
        if abandonable {
            worker.preemption.launch_began(Arc::clone(&part) as Arc<dyn Awaited>);
        }
        let began = Instant::now();
        let outcome = {
            let _traced = KernelTraces::of(part.iter().map(|pending| &pending.job.trace));
            execute::<O>(worker, &part)
        };
        let took = began.elapsed().saturating_sub(worker.preemption.launch_ended());
        let part = Arc::into_inner(part).expect("the launch has ended");
        let launch = Launch {
            requests: part.len() as u64,
            items: part.iter().map(|pending| pending.job.size.items).sum(),
            fill_ratio: self.fill_ratio(&part),
            execute: took,
        };
        self.core.record.launched(&launch, part.iter().map(|pending| pending.job.waited(began)));
        let waits = part.iter().map(|pending| pending.job.waited(began).as_secs_f64());
        self.shared.metrics.launched(&self.core.labels, worker.device.index, &launch, waits);
        Launched { part, outcome, execution: Execution { began, took } }
    }

    /// The share of the batch limit that a launch fills, in items or bytes, whichever is larger.
    fn fill_ratio(&self, part: &[Pending<O>]) -> f64 {
        let items = part.iter().map(|pending| pending.job.size.items).sum::<u64>();
        let bytes = part.iter().fold(0_u64, |sum, pending| sum.saturating_add(pending.job.size.bytes));
        let share = |sum: u64, limit: u64| sum as f64 / limit.max(1) as f64;
        share(items, self.limits.items).max(share(bytes, self.limits.bytes)).min(1.0)
    }

    /// Answers the requests of a launch; after a failure, reroutes them, or splits them into two of `parts`.
    fn settle(
        &self,
        worker: &WorkerContext,
        mut part: Vec<Pending<O>>,
        outcome: Result<Vec<O::Response>, OpError>,
        execution: &Execution,
        parts: &mut Vec<Vec<Pending<O>>>,
    ) {
        let error = match outcome {
            Ok(responses) => return self.complete(worker, part, responses, execution),
            Err(error) => error,
        };
        if let OpError::Cancelled = error {
            let now = Instant::now();
            return part.into_iter().for_each(|pending| self.expire(pending, Stage::Running, now));
        }
        self.shared.metrics.failed(error_kind(&error));
        if let OpError::DeviceLost { scope, reason, .. } = error {
            let device = worker.device.id();
            let cause = LossCause::of(scope);
            self.shared.lose(&worker.device, &DeviceLoss { device, cause, lane: O::NAME, reason });
            self.reroute(part, true);
        } else if part.len() == 1 {
            for pending in part {
                self.settle_one(pending, &error);
            }
        } else {
            tracing::debug!(lane = O::NAME, requests = part.len(), %error, "a batch failed and is split");
            self.core.record.count(|counts| counts.splits += 1);
            let right = part.split_off(part.len() / 2);
            parts.extend([right, part]);
        }
    }

    /// Answers a request that failed alone, or sends it back to run on another device.
    fn settle_one(&self, pending: Pending<O>, error: &OpError) {
        let job = &pending.job;
        if let Some(shortage) = Shortage::of(error).filter(|_| self.may_fall_back(job)) {
            self.backoff.record(Instant::now(), O::key(&job.request), job.size.bytes, shortage);
            return self.send_back(pending, shortage);
        }
        self.core.record.count(|counts| counts.failures += 1);
        self.reply(pending, |_, _| Reply::Failed(error.clone().into()));
    }

    fn complete(
        &self,
        worker: &WorkerContext,
        part: Vec<Pending<O>>,
        responses: Vec<O::Response>,
        execution: &Execution,
    ) {
        let batch_requests = part.len();
        let device = worker.device.id();
        // The rest of each request is freed after the last reply: freeing a large input takes longer than replying.
        let mut spent = Vec::with_capacity(batch_requests);
        for (pending, response) in part.into_iter().zip(responses) {
            let queue = pending.job.waited(execution.began);
            let completion = Completion { response, device, batch_requests, queue, execute: execution.took };
            self.reply(pending, |request, permit| {
                spent.extend(O::release(request));
                Reply::Completed(completion, permit)
            });
        }
    }

    fn reply(&self, pending: Pending<O>, reply_with: impl FnOnce(O::Request, Permit) -> Reply<O>) {
        let Pending { mut job, reply } = pending;
        job.trace.end_stage();
        let deadline = job.context.deadline;
        // Taken only if the batch was given up, and its callers were answered.
        let Some(permit) = job.permit.take() else { return };
        if reply.send(reply_with(job.request, permit)).is_err() {
            self.record_cancelled(Stage::Running, deadline);
        }
    }
}

impl<O: Op> AnyLane for DeviceLane<O> {
    fn is_available(&self) -> bool {
        self.queue.is_available()
    }

    fn work(&self) -> Work {
        self.work
    }

    fn poll(&self, position: usize, worker: &mut WorkerContext) -> PollOutcome {
        if !self.queue.is_available() || (worker.short_only && self.work == Work::Large) {
            return PollOutcome::Idle;
        }
        let now = Instant::now();
        let taken = self.queue.take(now, worker.short_only);
        for pending in taken.expired {
            self.device.remove_outstanding(pending.job.size.bytes);
            self.expire(pending, Stage::Queued, now);
        }
        for pending in taken.hopeless {
            self.device.remove_outstanding(pending.job.size.bytes);
            self.drop_hopeless(pending, now);
        }
        match taken.next {
            NextBatch::Empty => PollOutcome::Idle,
            NextBatch::WaitUntil(until) => PollOutcome::WaitUntil(until),
            NextBatch::Ready(batch) => {
                self.device.batch_started(position);
                let Batch { summary, payloads } = batch;
                let took = self.run_in_turn(worker, &summary, payloads);
                let now = Instant::now();
                self.queue.finish(now, &summary, took);
                self.device.remove_outstanding(summary.bytes);
                self.shared.admission.tick(now);
                PollOutcome::Ran
            }
        }
    }

    fn arrived(&self, terms: Terms) {
        self.queue.arrived(terms);
    }

    fn evict(&self) {
        let left = self.queue.close();
        for pending in &left {
            self.device.remove_outstanding(pending.job.size.bytes);
        }
        self.reroute(left, false);
    }

    fn stop(&self) {
        for Pending { job, reply } in self.queue.close() {
            self.device.remove_outstanding(job.size.bytes);
            drop(job);
            // The caller may be gone.
            let _ = reply.send(Reply::Failed(SubmitError::Draining));
        }
    }

    fn depth(&self) -> Depth {
        self.queue.depth()
    }
}

/// A launch that has ended.
struct Launched<O: Op> {
    part: Vec<Pending<O>>,
    outcome: Result<Vec<O::Response>, OpError>,
    execution: Execution,
}

/// When a launch began, and how long it took.
struct Execution {
    began: Instant,
    took: Duration,
}

/// Shares the replies and permits of a batch; the result answers those callers that are not answered yet.
fn share_replies<O: Op>(batch: &mut [Pending<O>]) -> AnswerCallers {
    let shared: Vec<_> =
        batch.iter_mut().map(|pending| (pending.reply.0.share(), pending.job.permit.share())).collect();
    Box::new(move |error| {
        for (reply, permit) in shared {
            if let Some(reply) = take(&reply) {
                // A caller that has its answer finds its budget free.
                drop(take(&permit));
                // The caller may be gone.
                let _ = reply.send(Reply::Failed(SubmitError::Op(error.clone())));
            }
        }
    })
}

/// Calls the operation, which may panic and may return the wrong number of responses.
fn execute<O: Op>(worker: &mut WorkerContext, part: &[Pending<O>]) -> Result<Vec<O::Response>, OpError> {
    let requests: Vec<_> = part.iter().map(|pending| &pending.job.request).collect();
    let failed = |reason| OpError::Failed { device: worker.device.id(), kernel: O::NAME, reason };
    worker.backend.check_memory()?;
    let device = worker.device.id();
    // The CPU's kernels have spans of their own. Those of a GPU run after they are launched, so that one span shows them all.
    let _kernels = (device != DeviceId::Cpu).then(|| trace::kernel(O::NAME, device));
    match catch_unwind(AssertUnwindSafe(|| O::run(&requests, &mut worker.backend))) {
        Ok(Ok(responses)) if responses.len() != part.len() => {
            Err(failed(format!("{} responses to {} requests", responses.len(), part.len())))
        }
        Ok(outcome) => outcome,
        Err(panic) => {
            let error = failed(format!("it panicked: {}", panic_message(panic.as_ref())));
            tracing::error!(lane = O::NAME, %error, "an operation panicked; its backend is reopened");
            // The panic may have left the backend in an inconsistent state.
            worker.reopen().map_err(|open| OpError::DeviceLost {
                device: worker.device.id(),
                scope: if let OpError::DeviceLost { scope, .. } = open { scope } else { LossScope::Device },
                reason: format!("{error}, and the backend could not be reopened: {open}"),
            })?;
            Err(error)
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
