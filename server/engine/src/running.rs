//! The batch that a worker runs now, as other threads see it: its start, its lane, and the answer to its callers if it hangs.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, OpError};
use tokio::sync::oneshot;

/// A batch that runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningBatch {
    /// The device it runs on.
    pub device: DeviceId,
    /// Its lane.
    pub lane: &'static str,
    /// Its requests.
    pub requests: usize,
    /// Time since the start of its current launch or slice.
    pub elapsed: Duration,
}

impl fmt::Display for RunningBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, lane, requests, elapsed } = self;
        write!(f, "a batch of lane {lane} with {requests} requests has been running on {device} for {elapsed:?}")
    }
}

/// Answers the callers of a batch that hangs.
pub(crate) type AnswerCallers = Box<dyn FnOnce(&OpError) + Send>;

/// One worker's entry: written by the worker, read by the watchdog.
pub(crate) struct Running {
    device: DeviceId,
    state: Mutex<WorkerStatus>,
}

#[derive(Default)]
struct WorkerStatus {
    batch: Option<Batch>,
    /// The worker's thread has ended.
    ended: bool,
}

struct Batch {
    lane: &'static str,
    requests: usize,
    /// Start of the current launch or slice.
    since: Instant,
    /// It waits for its turn, and cannot be overdue.
    is_paused: bool,
    /// A warning was logged.
    warned: bool,
    answer_callers: Option<AnswerCallers>,
    /// Its callers are answered, and its results are discarded.
    given_up: bool,
}

impl Running {
    pub(crate) fn new(device: DeviceId) -> Self {
        Self { device, state: Mutex::default() }
    }

    /// Begins a batch, or other work, which has no requests. It ends when the guard is dropped.
    pub(crate) fn begin(
        &self,
        lane: &'static str,
        requests: usize,
        answer_callers: Option<AnswerCallers>,
    ) -> RunningGuard<'_> {
        self.begin_at(Instant::now(), lane, requests, answer_callers)
    }

    fn begin_at(
        &self,
        now: Instant,
        lane: &'static str,
        requests: usize,
        answer_callers: Option<AnswerCallers>,
    ) -> RunningGuard<'_> {
        let batch =
            Batch { lane, requests, since: now, is_paused: false, warned: false, answer_callers, given_up: false };
        self.lock().batch = Some(batch);
        RunningGuard(self)
    }

    /// Begins the next launch or slice of the batch.
    pub(crate) fn progress(&self, now: Instant) {
        if let Some(batch) = &mut self.lock().batch {
            batch.since = now;
            batch.is_paused = false;
        }
    }

    /// Stops the time until the next [`Self::progress`]: the batch waits for its turn.
    pub(crate) fn pause(&self) {
        if let Some(batch) = &mut self.lock().batch {
            batch.is_paused = true;
        }
    }

    /// Returns true if the callers of the batch are answered already.
    pub(crate) fn is_given_up(&self) -> bool {
        self.lock().batch.as_ref().is_some_and(|batch| batch.given_up)
    }

    /// Gives the batch up if its launch or slice has been running for longer than `limit`: the worker discards its results
    /// if it ever returns. The caller answers its callers.
    pub(crate) fn give_up_overdue(
        &self,
        now: Instant,
        limit: Duration,
    ) -> Option<(RunningBatch, Option<AnswerCallers>)> {
        let mut state = self.lock();
        let described = state.overdue(self.device, now, limit)?;
        let batch = state.batch.as_mut().filter(|batch| !batch.given_up)?;
        batch.given_up = true;
        Some((described, batch.answer_callers.take()))
    }

    /// The batch, if its launch or slice has been running for longer than `limit`; once for each batch.
    pub(crate) fn warn_overdue(&self, now: Instant, limit: Duration) -> Option<RunningBatch> {
        let mut state = self.lock();
        let described = state.overdue(self.device, now, limit)?;
        let batch = state.batch.as_mut().filter(|batch| !batch.warned)?;
        batch.warned = true;
        Some(described)
    }

    pub(crate) fn describe(&self, now: Instant) -> Option<RunningBatch> {
        self.lock().describe(self.device, now)
    }

    /// Marks the worker's thread as ended.
    pub(crate) fn end_thread(&self) {
        self.lock().ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, WorkerStatus> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerStatus {
    fn overdue(&self, device: DeviceId, now: Instant, limit: Duration) -> Option<RunningBatch> {
        let is_paused = self.batch.as_ref().is_some_and(|batch| batch.is_paused);
        self.describe(device, now).filter(|running| !is_paused && running.elapsed > limit)
    }

    fn describe(&self, device: DeviceId, now: Instant) -> Option<RunningBatch> {
        let Batch { lane, requests, since, .. } = self.batch.as_ref()?;
        let elapsed = now.saturating_duration_since(*since);
        Some(RunningBatch { device, lane, requests: *requests, elapsed })
    }
}

/// Ends the batch on drop.
pub(crate) struct RunningGuard<'a>(&'a Running);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        let ended = self.0.lock().batch.take();
        // Dropped without the lock: it holds channels and permits.
        drop(ended);
    }
}

/// Takes a shared value, unless its owner has.
pub(crate) fn take<T>(shared: &Mutex<Option<T>>) -> Option<T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A value that its owner may share, so that another thread can take it first.
#[derive(Debug)]
pub(crate) enum Shareable<T> {
    Own(T),
    Shared(Arc<Mutex<Option<T>>>),
}

impl<T> Shareable<T> {
    pub(crate) fn share(&mut self) -> Arc<Mutex<Option<T>>> {
        let shared = match std::mem::replace(self, Self::Shared(Arc::default())) {
            Self::Own(value) => Arc::new(Mutex::new(Some(value))),
            Self::Shared(shared) => shared,
        };
        *self = Self::Shared(Arc::clone(&shared));
        shared
    }

    /// The value, unless it was taken.
    pub(crate) fn take(self) -> Option<T> {
        match self {
            Self::Own(value) => Some(value),
            Self::Shared(shared) => take(&shared),
        }
    }
}

/// Answers one caller, unless it was answered because the batch hangs.
#[derive(Debug)]
pub(crate) struct Replier<T>(pub(crate) Shareable<oneshot::Sender<T>>);

impl<T> Replier<T> {
    pub(crate) fn new(sender: oneshot::Sender<T>) -> Self {
        Self(Shareable::Own(sender))
    }

    /// Returns true if the caller is gone.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.0 {
            Shareable::Own(sender) => sender.is_closed(),
            Shareable::Shared(shared) => {
                let sender = shared.lock().unwrap_or_else(PoisonError::into_inner);
                sender.as_ref().is_some_and(oneshot::Sender::is_closed)
            }
        }
    }

    /// Answers; returns the reply if the caller is gone.
    pub(crate) fn send(self, reply: T) -> Result<(), T> {
        self.0.take().map_or(Ok(()), |sender| sender.send(reply))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const PAST: Duration = Duration::from_secs(61);

    #[test]
    fn a_batch_is_given_up_once_when_its_launch_exceeds_the_limit() {
        let running = Running::new(DeviceId::Cuda(0));
        let answered = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let count = Arc::clone(&answered);
        let answer_callers: AnswerCallers = Box::new(move |_| _ = count.fetch_add(1, SeqCst));
        let guard = running.begin_at(start, "search", 3, Some(answer_callers));
        assert!(running.give_up_overdue(start + LIMIT, LIMIT).is_none());
        let (found, answer_callers) = running.give_up_overdue(start + PAST, LIMIT).expect("it is overdue");
        let expected = RunningBatch { device: DeviceId::Cuda(0), lane: "search", requests: 3, elapsed: PAST };
        assert_eq!(found, expected);
        answer_callers.expect("it has callers")(&OpError::Cancelled);
        assert!(running.is_given_up() && running.give_up_overdue(start + 2 * PAST, LIMIT).is_none());
        drop(guard);
        assert!(!running.is_given_up() && running.describe(start).is_none());
        assert_eq!(answered.load(SeqCst), 1);
    }

    #[test]
    fn a_new_slice_starts_the_time_anew() {
        let running = Running::new(DeviceId::Cuda(0));
        let start = Instant::now();
        let _guard = running.begin_at(start, "cluster", 1, None);
        running.progress(start + LIMIT);
        assert!(running.give_up_overdue(start + PAST, LIMIT).is_none());
        assert!(running.give_up_overdue(start + LIMIT + PAST, LIMIT).is_some());
    }

    #[test]
    fn a_slow_batch_is_reported_once() {
        let running = Running::new(DeviceId::Cpu);
        let start = Instant::now();
        let guard = running.begin_at(start, "encode", 1, None);
        assert!(running.warn_overdue(start + LIMIT, LIMIT).is_none());
        assert_eq!(running.warn_overdue(start + PAST, LIMIT).map(|found| found.lane), Some("encode"));
        assert!(running.warn_overdue(start + 2 * PAST, LIMIT).is_none());
        drop(guard);
        let _next = running.begin_at(start, "encode", 1, None);
        assert!(running.warn_overdue(start + PAST, LIMIT).is_some(), "the next batch is reported again");
    }

    #[test]
    fn a_shared_value_is_taken_once() {
        let mut value = Shareable::Own(7);
        let (first, second) = (value.share(), value.share());
        assert_eq!(take(&first), Some(7));
        assert_eq!((take(&second), value.take()), (None, None));
        assert_eq!(Shareable::Own(8).take(), Some(8));
    }
}
