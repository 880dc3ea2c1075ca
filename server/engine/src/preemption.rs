//! What happens at the preemption points of a worker's operations: a long batch takes turns with others, and a batch that
//! nobody awaits any more is abandoned.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use accelerd_kernels::PreemptionHook;

use crate::{sync::lock, turn::Turns};

/// A batch whose callers may be gone.
pub(crate) trait Awaited: Send + Sync {
    /// Whether a caller still waits, and its deadline has not passed.
    fn is_awaited(&self, now: Instant) -> bool;
}

/// The preemption of one worker, shared with the hook of its backend. Only the worker's thread uses it.
pub(crate) struct Preemption {
    turns: Arc<Turns>,
    /// Its worker runs short batches only, and needs no turn.
    is_exempt: bool,
    running: Mutex<Option<Running>>,
}

struct Running {
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
    pub(crate) fn new(turns: Arc<Turns>, is_exempt: bool) -> Arc<Self> {
        Arc::new(Self { turns, is_exempt, running: Mutex::new(None) })
    }

    /// The hook to set on the worker's backend.
    pub(crate) fn hook(self: &Arc<Self>) -> PreemptionHook {
        let this = Arc::clone(self);
        Arc::new(move || this.point())
    }

    /// Whether a batch of this expected time needs a turn. One of unknown time needs one if `otherwise`.
    pub(crate) fn is_long(&self, expected: Option<Duration>, otherwise: bool) -> bool {
        expected.map_or(otherwise, |expected| expected > self.turns.slice())
    }

    /// Begins a batch; a long one waits for its turn.
    pub(crate) fn begin(&self, principal: u64, is_long: bool) {
        let has_turn = is_long && !self.is_exempt;
        if has_turn {
            self.turns.begin(principal);
        }
        let (now, paused) = (Instant::now(), Duration::ZERO);
        let running = Running { principal, has_turn, slice_began: now, checked: now, paused, launch: None };
        *lock(&self.running) = Some(running);
    }

    /// Ends the batch, and its turn.
    pub(crate) fn end(&self) {
        if let Some(running) = lock(&self.running).take().filter(|running| running.has_turn) {
            self.turns.end(running.principal, running.slice_began.elapsed());
        }
    }

    /// Sets the launch that the batch is abandoned with.
    pub(crate) fn launch_began(&self, launch: Arc<dyn Awaited>) {
        if let Some(running) = lock(&self.running).as_mut() {
            running.launch = Some(launch);
            running.paused = Duration::ZERO;
        }
    }

    /// How long the launch was paused.
    pub(crate) fn launch_ended(&self) -> Duration {
        let mut running = lock(&self.running);
        running.as_mut().map_or(Duration::ZERO, |running| {
            running.launch = None;
            running.paused
        })
    }

    /// A preemption point.
    fn point(&self) -> ControlFlow<()> {
        let mut running = lock(&self.running);
        let Some(running) = running.as_mut() else { return ControlFlow::Continue(()) };
        let now = Instant::now();
        if now.saturating_duration_since(running.checked) < self.turns.slice() {
            return ControlFlow::Continue(());
        }
        let now = self.next_slice(running, now);
        running.checked = now;
        let is_awaited = running.launch.as_ref().is_none_or(|launch| launch.is_awaited(now));
        if is_awaited { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Waits for the next turn once a slice is over. A batch that turns out to be long needs its first one. Returns when the
    /// next slice begins.
    fn next_slice(&self, running: &mut Running, now: Instant) -> Instant {
        if self.is_exempt {
            return now;
        }
        if !running.has_turn {
            self.turns.begin(running.principal);
            running.has_turn = true;
        } else if self.turns.is_contended() {
            self.turns.yield_turn(running.principal, now.saturating_duration_since(running.slice_began));
        } else {
            // It is charged once another batch waits, or at its end.
            return now;
        }
        running.slice_began = Instant::now();
        running.paused += running.slice_began.saturating_duration_since(now);
        running.slice_began
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        thread,
    };

    use super::*;

    struct Caller(AtomicBool);

    impl Awaited for Caller {
        fn is_awaited(&self, _: Instant) -> bool {
            self.0.load(SeqCst)
        }
    }

    fn preemption(slice: Duration) -> (Arc<Preemption>, Arc<Turns>) {
        let turns = Arc::new(Turns::new(1, slice));
        (Preemption::new(Arc::clone(&turns), false), turns)
    }

    #[test]
    fn a_batch_is_abandoned_once_nobody_awaits_it() {
        let (preemption, _) = preemption(Duration::ZERO);
        let (hook, caller) = (preemption.hook(), Arc::new(Caller(AtomicBool::new(true))));
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
        let (first, second) = (Preemption::new(Arc::clone(&turns), false), Preemption::new(Arc::clone(&turns), false));
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
}
