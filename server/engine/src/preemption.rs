//! Preemption points of a worker's operations: a long batch takes turns with others, and a batch that
//! nobody awaits any more is abandoned.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use accelerd_kernels::PreemptionHook;

use crate::{running::Running, sync::lock, turn::Turns};

/// A batch whose callers may be gone.
pub(crate) trait Awaited: Send + Sync {
    /// Returns true if a caller still waits, and its deadline has not passed.
    fn is_awaited(&self, now: Instant) -> bool;
}

/// The preemption of one worker, shared with the hook of its backend. Only the worker's thread uses it.
pub(crate) struct Preemption {
    turns: Arc<Turns>,
    /// Its worker runs short batches only, and needs no turn.
    is_exempt: bool,
    /// Entry of the worker that the watchdog reads.
    watched: Arc<Running>,
    batch: Mutex<Option<CurrentBatch>>,
}

/// The batch that its worker runs now.
struct CurrentBatch {
    principal: u64,
    has_turn: bool,
    /// Since when its principal has not been charged.
    slice_began: Instant,
    /// When the last slice ended at a preemption point.
    checked: Instant,
    /// Time spent waiting for turns after the batch began.
    paused: Duration,
    /// The launch that runs now.
    launch: Option<Arc<dyn Awaited>>,
}

impl Preemption {
    pub(crate) fn new(turns: Arc<Turns>, watched: Arc<Running>, is_exempt: bool) -> Arc<Self> {
        Arc::new(Self { turns, is_exempt, watched, batch: Mutex::new(None) })
    }

    /// The hook to set on the worker's backend.
    pub(crate) fn hook(self: &Arc<Self>) -> PreemptionHook {
        let this = Arc::clone(self);
        Arc::new(move || this.point())
    }

    /// Returns true if a batch of this expected time needs a turn. One of unknown time needs one if `otherwise`.
    pub(crate) fn is_long(&self, expected: Option<Duration>, otherwise: bool) -> bool {
        expected.map_or(otherwise, |expected| expected > self.turns.slice())
    }

    /// Begins a batch; a long one waits for its turn.
    pub(crate) fn begin(&self, principal: u64, is_long: bool) {
        let has_turn = is_long && !self.is_exempt;
        if has_turn {
            self.turns.begin(principal);
        }
        let now = Instant::now();
        let paused = Duration::ZERO;
        *lock(&self.batch) =
            Some(CurrentBatch { principal, has_turn, slice_began: now, checked: now, paused, launch: None });
    }

    /// Ends the batch, and its turn.
    pub(crate) fn end(&self) {
        if let Some(batch) = lock(&self.batch).take().filter(|batch| batch.has_turn) {
            self.turns.end(batch.principal, batch.slice_began.elapsed());
        }
    }

    /// Sets the launch that the batch is abandoned with.
    pub(crate) fn launch_began(&self, launch: Arc<dyn Awaited>) {
        if let Some(batch) = lock(&self.batch).as_mut() {
            batch.launch = Some(launch);
            batch.paused = Duration::ZERO;
        }
    }

    /// Ends the launch, and returns the time that it was paused.
    pub(crate) fn launch_ended(&self) -> Duration {
        let mut batch = lock(&self.batch);
        batch.as_mut().map_or(Duration::ZERO, |batch| {
            batch.launch = None;
            batch.paused
        })
    }

    /// A preemption point. The watchdog's time starts anew.
    fn point(&self) -> ControlFlow<()> {
        let now = Instant::now();
        self.watched.progress(now);
        let mut batch = lock(&self.batch);
        let Some(batch) = batch.as_mut() else { return ControlFlow::Continue(()) };
        if now.saturating_duration_since(batch.checked) < self.turns.slice() {
            return ControlFlow::Continue(());
        }
        let now = self.next_slice(batch, now);
        batch.checked = now;
        let is_awaited = batch.launch.as_ref().is_none_or(|launch| launch.is_awaited(now));
        if is_awaited && !self.watched.is_given_up() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Waits for the next turn once a slice is over. A batch that turns out to be long needs its first one. Returns when the
    /// next slice begins.
    fn next_slice(&self, batch: &mut CurrentBatch, now: Instant) -> Instant {
        if self.is_exempt {
            return now;
        }
        // It is charged once another batch waits, or at its end.
        if batch.has_turn && !self.turns.is_contended() {
            return now;
        }
        // A batch that waits for its turn does not hang.
        self.watched.pause();
        if batch.has_turn {
            self.turns.yield_turn(batch.principal, now.saturating_duration_since(batch.slice_began));
        } else {
            self.turns.begin(batch.principal);
            batch.has_turn = true;
        }
        batch.slice_began = Instant::now();
        self.watched.progress(batch.slice_began);
        batch.paused += batch.slice_began.saturating_duration_since(now);
        batch.slice_began
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        thread,
    };

    use accelerd_kernels::DeviceId;

    use super::*;

    struct Caller(AtomicBool);

    impl Awaited for Caller {
        fn is_awaited(&self, _: Instant) -> bool {
            self.0.load(SeqCst)
        }
    }

    fn worker(turns: &Arc<Turns>) -> (Arc<Preemption>, Arc<Running>) {
        let watched = Arc::new(Running::new(DeviceId::Cuda(0)));
        (Preemption::new(Arc::clone(turns), Arc::clone(&watched), false), watched)
    }

    fn preemption(slice: Duration) -> (Arc<Preemption>, Arc<Turns>) {
        let turns = Arc::new(Turns::new(1, slice));
        (worker(&turns).0, turns)
    }

    #[test]
    fn a_batch_is_abandoned_once_nobody_awaits_it() {
        let (preemption, _) = preemption(Duration::ZERO);
        let hook = preemption.hook();
        let caller = Arc::new(Caller(AtomicBool::new(true)));
        preemption.begin(0, true);
        preemption.launch_began(Arc::clone(&caller) as Arc<dyn Awaited>);
        assert_eq!(hook(), ControlFlow::Continue(()));
        caller.0.store(false, SeqCst);
        assert_eq!(hook(), ControlFlow::Break(()));
        preemption.launch_ended();
        assert_eq!(hook(), ControlFlow::Continue(()), "no launch runs");
        preemption.end();
    }

    #[test]
    fn nothing_is_checked_within_a_slice() {
        let (preemption, _) = preemption(Duration::from_secs(3600));
        preemption.begin(0, true);
        preemption.launch_began(Arc::new(Caller(AtomicBool::new(false))));
        assert_eq!(preemption.hook()(), ControlFlow::Continue(()));
        preemption.end();
    }

    #[test]
    fn a_batch_that_turns_out_to_be_long_waits_for_a_turn() {
        let (preemption, turns) = preemption(Duration::ZERO);
        turns.begin(9);
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                preemption.begin(0, false);
                let went_on = preemption.hook()();
                preemption.end();
                went_on
            });
            while !turns.is_contended() {
                thread::yield_now();
            }
            turns.end(9, Duration::ZERO);
            assert_eq!(worker.join().expect("no panic"), ControlFlow::Continue(()));
        });
        turns.begin(1);
        assert!(!turns.is_contended(), "the turn was given back");
    }

    #[test]
    fn long_batches_of_two_workers_alternate() {
        let turns = Arc::new(Turns::new(1, Duration::ZERO));
        let ((first, _), (second, _)) = (worker(&turns), worker(&turns));
        let log = Mutex::new(vec![]);
        let run = |preemption: &Arc<Preemption>, name: u8| {
            for _ in 0..3 {
                log.lock().expect("no panic").push(name);
                assert_eq!(preemption.hook()(), ControlFlow::Continue(()));
            }
            preemption.end();
        };
        first.begin(0, true);
        thread::scope(|scope| {
            scope.spawn(|| {
                second.begin(0, true);
                run(&second, 1);
            });
            while !turns.is_contended() {
                thread::yield_now();
            }
            run(&first, 0);
        });
        assert_eq!(log.into_inner().expect("no panic"), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_batch_that_waits_for_its_turn_does_not_hang() {
        let turns = Arc::new(Turns::new(1, Duration::ZERO));
        let (preemption, watched) = worker(&turns);
        turns.begin(9);
        thread::scope(|scope| {
            let run = scope.spawn(|| {
                preemption.begin(0, false);
                let guard = watched.begin("search", 1, None);
                assert_eq!(preemption.hook()(), ControlFlow::Continue(()));
                drop(guard);
                preemption.end();
            });
            while !turns.is_contended() {
                thread::yield_now();
            }
            let hour = Duration::from_secs(3600);
            assert!(watched.give_up_overdue(Instant::now() + hour, hour / 2).is_none());
            turns.end(9, Duration::ZERO);
            run.join().expect("no panic");
        });
    }

    #[test]
    fn a_batch_that_was_given_up_is_abandoned() {
        let turns = Arc::new(Turns::new(1, Duration::ZERO));
        let (preemption, watched) = worker(&turns);
        preemption.begin(0, true);
        let _guard = watched.begin("search", 1, None);
        let hour = Duration::from_secs(3600);
        assert!(watched.give_up_overdue(Instant::now() + hour, hour / 2).is_some());
        assert_eq!(preemption.hook()(), ControlFlow::Break(()));
        preemption.end();
    }
}
