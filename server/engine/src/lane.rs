//! The queue of one operation: what a caller holds, and what stands behind it on each device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, Op, OpError, Size};
use tokio::{sync::oneshot, time};
use tracing::Span;

use crate::{
    admission::Permit,
    batcher::{Bounds, Close, Entry, EntryId},
    config::{Context, LaneConfig},
    device::{Bench, Desk, Source, Turn, Wish, route},
    engine::Shared,
    launch,
    metrics::{LaneLabels, Stage},
    outcome::{Done, SubmitError},
    queue::{Depth, Queue},
    stats::LaneRecord,
};

/// Devices that may be lost while a request runs on them before it is kept from further GPUs.
const SUSPECT_LOSSES: u32 = 2;

/// The queue of one operation. Clones share it; with the last one it is gone.
pub struct Lane<O: Op>(Arc<Handle<O>>);

struct Handle<O: Op> {
    core: Arc<LaneCore>,
    shared: Arc<Shared>,
    cpu_below_bytes: u64,
    long_above_bytes: u64,
    /// One a device, in the engine's order.
    stations: Vec<Arc<Station<O>>>,
    /// The same for long requests.
    long: Vec<Arc<Station<O>>>,
}

/// What does not depend on the operation's types.
pub(crate) struct LaneCore {
    /// The operation.
    pub(crate) name: &'static str,
    /// Its metrics' attributes.
    pub(crate) labels: LaneLabels,
    /// What happened in it.
    pub(crate) record: LaneRecord,
}

/// One lane on one device.
pub(crate) struct Station<O: Op> {
    /// The lane.
    pub(crate) core: Arc<LaneCore>,
    /// The engine.
    pub(crate) shared: Arc<Shared>,
    desk: Arc<Desk>,
    bounds: Bounds,
    queue: Queue<O::Key, Pending<O>>,
    /// Its batches take the places of long ones.
    long: bool,
}

/// A request on its way, which may try several devices.
pub(crate) struct Job<O: Op> {
    /// The input.
    pub(crate) request: O::Request,
    /// Its part of the budget.
    pub(crate) permit: Permit,
    /// Its size, at least one of each.
    pub(crate) size: Size,
    /// Deadline, priority, principal.
    pub(crate) context: Context,
    /// The span it was submitted in.
    pub(crate) span: Span,
    home: Option<DeviceId>,
    submitted: Instant,
    /// Devices lost while it ran on them.
    losses: u32,
}

/// A queued request and who waits for it.
pub(crate) struct Pending<O: Op> {
    /// The request.
    pub(crate) job: Job<O>,
    /// Where its answer goes.
    pub(crate) reply: oneshot::Sender<Answer<O>>,
}

/// What becomes of a request.
pub(crate) enum Answer<O: Op> {
    /// Its response, and its part of the budget: held until the caller takes the response, since a caller whose stream
    /// stalls leaves answers where they are.
    Done(Done<O::Response>, Permit),
    /// Why there is none.
    Failed(SubmitError),
    /// Its device is lost: its caller looks for another.
    GivenBack(Box<Job<O>>),
}

impl<O: Op> Job<O> {
    /// How long it had been here.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.submitted)
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
        let labels = LaneLabels::new(O::NAME, shared.desks.iter().map(|desk| desk.id()));
        let core = Arc::new(LaneCore { name: O::NAME, labels, record: LaneRecord::default() });
        let open = |long| -> Vec<_> {
            shared.desks.iter().map(|desk| Arc::new(Station::new(&core, shared, desk, config, long))).collect()
        };
        let LaneConfig { cpu_below_bytes, long_above_bytes, .. } = *config;
        let (stations, long) = (open(false), open(true));
        let handle = Handle { core, shared: Arc::clone(shared), cpu_below_bytes, long_above_bytes, stations, long };
        for station in handle.all() {
            station.desk.add(&(Arc::clone(station) as Arc<dyn Source>));
        }
        let sources = handle.all().map(|station| Arc::clone(station) as Arc<dyn Source>).collect();
        shared.register(Arc::clone(&handle.core), sources);
        Self(Arc::new(handle))
    }

    /// Queues a request and waits for its response. Dropping the future takes the request out of the queue.
    pub async fn submit(&self, request: O::Request, context: Context) -> Result<Done<O::Response>, SubmitError> {
        let lane = &*self.0;
        let mut job = lane.admit(request, context)?;
        let deadline = job.context.deadline;
        let mut arrived = job.submitted;
        loop {
            let (place, answer) = lane.queue(job, arrived)?;
            match place.wait(answer, deadline).await? {
                Answer::Done(done, _permit) => return Ok(done),
                Answer::Failed(error) => return Err(error),
                Answer::GivenBack(again) => job = *again,
            }
            arrived = now();
            lane.core.record.count(|counts| counts.rerouted += 1);
        }
    }

    /// Requests queued now, over all devices.
    pub fn queue_len(&self) -> usize {
        let queued = self.0.all().map(|station| station.queue.depth().requests).sum::<u64>();
        usize::try_from(queued).unwrap_or(usize::MAX)
    }

    /// Whether there is a GPU that runs its batches.
    pub fn on_gpu(&self) -> bool {
        let mut desks = self.0.stations.iter().map(|station| &station.desk);
        desks.any(|desk| desk.id() != DeviceId::Cpu && desk.lost().is_none())
    }

    /// Has the workers of all devices give back what memory nobody needs any more: told by the call, done when what comes
    /// back is ready. Workers that sleep are woken; those at work end their batch first.
    pub fn tidy(&self) -> impl Future<Output = ()> + Send + use<O> {
        let each: Vec<_> = self.0.shared.desks.iter().map(|desk| desk.tidy()).collect();
        async {
            for tidied in each {
                tidied.await;
            }
        }
    }
}

impl<O: Op> Handle<O> {
    fn all(&self) -> impl Iterator<Item = &Arc<Station<O>>> {
        self.stations.iter().chain(&self.long)
    }

    /// Takes a request in under the budget.
    fn admit(&self, request: O::Request, context: Context) -> Result<Job<O>, SubmitError> {
        let submitted = now();
        let Size { items, bytes } = O::size(&request);
        let size = Size { items: items.max(1), bytes: bytes.max(1) };
        let home = O::home(&request);
        let held = Size { bytes: O::held_bytes(&request).max(1), ..size };
        let admitted = self.shared.admission.admit(held, size.bytes, self.shared.capacity(home));
        let permit = admitted.inspect_err(|refusal| {
            if let SubmitError::Full { measure, .. } = refusal {
                self.shared.metrics.refused(measure);
            }
        })?;
        if context.deadline.is_some_and(|deadline| deadline <= submitted) {
            self.core.record.count(|counts| counts.expired_queued += 1);
            self.shared.metrics.cancelled(&self.core.labels, Stage::Queued);
            return Err(SubmitError::DeadlineExceeded { waited: Duration::ZERO });
        }
        Ok(Job { request, permit, size, context, span: Span::current(), home, submitted, losses: 0 })
    }

    /// Queues a request on the device that suits it.
    #[allow(clippy::type_complexity)] // A place and its answer: named once, here.
    fn queue(
        &self,
        mut job: Job<O>,
        now: Instant,
    ) -> Result<(Place<'_, O>, oneshot::Receiver<Answer<O>>), SubmitError> {
        loop {
            let station = self.station_for(&job)?;
            let submitted = job.submitted;
            let (reply, answer) = oneshot::channel();
            match station.push(now, Pending { job, reply }) {
                Ok(id) => return Ok((Place { station, id: Some(id), submitted }, answer)),
                // It was lost since it was chosen: another is.
                Err(refused) if station.desk.lost().is_some() => job = refused.job,
                Err(_) => return Err(SubmitError::Draining),
            }
        }
    }

    fn station_for(&self, job: &Job<O>) -> Result<&Station<O>, OpError> {
        let small = job.size.bytes <= self.cpu_below_bytes;
        let wish = Wish { home: job.home, small, suspect: job.losses >= SUSPECT_LOSSES };
        let found = route(self.stations.iter().map(|station| station.desk.standing()), wish);
        let long = self.long_above_bytes > 0 && job.size.bytes > self.long_above_bytes;
        let stations = if long { &self.long } else { &self.stations };
        found.map(|index| &*stations[index]).ok_or_else(|| self.no_device(job.home))
    }

    /// Why no device takes a request.
    fn no_device(&self, home: Option<DeviceId>) -> OpError {
        let mut desks = self.stations.iter().map(|station| &station.desk);
        let lost = desks.rfind(|desk| desk.lost().is_some() && home.is_none_or(|home| home == desk.id()));
        match (lost, home) {
            (Some(desk), _) => desk.lost_error(),
            (None, Some(home)) => OpError::Invalid(format!("what the request reads is on {home}, which is not in use")),
            (None, None) => OpError::Invalid("no device is in use".to_owned()),
        }
    }
}

impl<O: Op> Drop for Handle<O> {
    fn drop(&mut self) {
        for station in self.all() {
            station.desk.remove(&**station);
        }
        self.shared.unregister(&self.core);
    }
}

/// Now, by the clock that callers' timers run on.
fn now() -> Instant {
    time::Instant::now().into_std()
}

/// A request's place in a queue, left when its caller goes away.
struct Place<'a, O: Op> {
    station: &'a Station<O>,
    /// None once it is answered.
    id: Option<EntryId>,
    submitted: Instant,
}

impl<O: Op> Place<'_, O> {
    /// Waits for the answer, at most until the deadline.
    async fn wait(
        mut self,
        answer: oneshot::Receiver<Answer<O>>,
        deadline: Option<Instant>,
    ) -> Result<Answer<O>, SubmitError> {
        let received = match deadline {
            None => answer.await,
            Some(at) => {
                let Ok(received) = time::timeout_at(at.into(), answer).await else {
                    self.leave(deadline);
                    let waited = now().saturating_duration_since(self.submitted);
                    return Err(SubmitError::DeadlineExceeded { waited });
                };
                received
            }
        };
        self.id = None;
        received.map_err(|_| self.station.desk.lost_error().into())
    }

    /// Takes the request out of the queue. If a worker has it, that one finds its caller gone, and counts it.
    fn leave(&mut self, deadline: Option<Instant>) {
        let Some(id) = self.id.take() else { return };
        if let Some(pending) = self.station.queue.cancel(id) {
            self.station.desk.unload(pending.job.size.bytes);
            self.station.count_gone(Stage::Queued, deadline);
        }
    }
}

impl<O: Op> Drop for Place<'_, O> {
    fn drop(&mut self) {
        self.leave(None);
    }
}

impl<O: Op> Station<O> {
    fn new(core: &Arc<LaneCore>, shared: &Arc<Shared>, desk: &Arc<Desk>, config: &LaneConfig, long: bool) -> Self {
        let bounds = Bounds {
            items: config.max_batch_items,
            bytes: config.batch_bytes(desk.id()),
            wait: config.max_wait,
            age: config.max_age,
        };
        Self {
            core: Arc::clone(core),
            shared: Arc::clone(shared),
            desk: Arc::clone(desk),
            bounds,
            queue: Queue::new(bounds, config.concurrency, Arc::clone(&desk.signal)),
            long,
        }
    }

    /// Queues a request; gives it back if nothing may queue here any more.
    #[allow(clippy::result_large_err)] // What goes in comes out, rarely.
    fn push(&self, now: Instant, pending: Pending<O>) -> Result<EntryId, Pending<O>> {
        let Job { request, size, context, .. } = &pending.job;
        let bytes = size.bytes;
        let entry = Entry {
            key: O::key(request),
            priority: context.priority,
            principal: context.principal,
            items: size.items,
            bytes,
            deadline: context.deadline,
            payload: pending,
        };
        self.desk.load(bytes);
        self.queue.push(now, entry).inspect_err(|_| self.desk.unload(bytes))
    }

    /// Drops the requests that nobody waits for any more.
    pub(crate) fn still_wanted(&self, mut part: Vec<Pending<O>>) -> Vec<Pending<O>> {
        let now = Instant::now();
        let is_late = |job: &Job<O>| job.context.deadline.is_some_and(|deadline| deadline <= now);
        let gone = |pending: &mut Pending<O>| pending.reply.is_closed() || is_late(&pending.job);
        part.extract_if(.., gone).for_each(|pending| self.expire(pending, now));
        part
    }

    /// Answers a request whose deadline passed before its launch, or whose caller is gone.
    fn expire(&self, pending: Pending<O>, now: Instant) {
        self.count_gone(Stage::Queued, pending.job.context.deadline);
        let late = SubmitError::DeadlineExceeded { waited: pending.job.waited(now) };
        drop(pending.job);
        // Nobody may be there to hear it.
        let _ = pending.reply.send(Answer::Failed(late));
    }

    /// Gives requests back to their callers, because the device is lost; `ran` if it was lost while it ran them.
    pub(crate) fn give_back(&self, part: Vec<Pending<O>>, ran: bool) {
        for Pending { mut job, reply } in part {
            job.losses += u32::from(ran);
            let deadline = job.context.deadline;
            if reply.send(Answer::GivenBack(Box::new(job))).is_err() {
                self.count_gone(Stage::Queued, deadline);
            }
        }
    }

    /// Counts a request whose caller is gone.
    pub(crate) fn count_gone(&self, stage: Stage, deadline: Option<Instant>) {
        let expired = deadline.is_some_and(|deadline| deadline <= now());
        self.core.record.count(|counts| {
            *match (stage, expired) {
                (Stage::Queued, false) => &mut counts.cancelled_queued,
                (Stage::Queued, true) => &mut counts.expired_queued,
                (Stage::Running, false) => &mut counts.cancelled_running,
                (Stage::Running, true) => &mut counts.expired_running,
            } += 1;
        });
        self.shared.metrics.cancelled(&self.core.labels, stage);
    }

    /// The larger share of the two bounds that a batch fills.
    pub(crate) fn fill_ratio(&self, part: &[Pending<O>]) -> f64 {
        let items = part.iter().map(|pending| pending.job.size.items).sum::<u64>();
        let bytes = part.iter().fold(0_u64, |sum, pending| sum.saturating_add(pending.job.size.bytes));
        let share = |sum: u64, bound: u64| sum as f64 / bound.max(1) as f64;
        share(items, self.bounds.items).max(share(bytes, self.bounds.bytes)).min(1.0)
    }
}

impl<O: Op> Source for Station<O> {
    fn is_available(&self) -> bool {
        self.queue.is_available() && (!self.long || self.desk.has_long_place())
    }

    fn turn(&self, position: usize, bench: &mut Bench) -> Turn {
        if !self.queue.is_available() {
            return Turn::Nothing;
        }
        let place = if self.long { self.desk.long_place() } else { None };
        if self.long && place.is_none() {
            return Turn::Nothing;
        }
        let now = Instant::now();
        let taken = self.queue.take(now);
        for pending in taken.expired {
            self.desk.unload(pending.job.size.bytes);
            self.expire(pending, now);
        }
        match taken.next {
            Close::Empty => Turn::Nothing,
            Close::WaitUntil(until) => Turn::WaitUntil(until),
            Close::Batch(batch) => {
                self.desk.took_turn(position);
                let took = launch::run(self, bench, batch.payloads);
                self.queue.finish(&batch.key, batch.items, took);
                drop(place);
                self.desk.unload(batch.bytes);
                self.shared.admission.tick(Instant::now());
                Turn::Ran
            }
        }
    }

    fn abandon(&self) {
        let left = self.queue.close();
        for pending in &left {
            self.desk.unload(pending.job.size.bytes);
        }
        self.give_back(left, false);
    }

    fn stop(&self) {
        for Pending { job, reply } in self.queue.close() {
            self.desk.unload(job.size.bytes);
            drop(job);
            // Nobody may be there to hear it.
            let _ = reply.send(Answer::Failed(SubmitError::Draining));
        }
    }

    fn depth(&self) -> Depth {
        self.queue.depth()
    }
}
