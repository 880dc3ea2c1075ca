//! The use of a process by one call.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    Call, CallResult, CudaCode, Launch, LaunchResult, Module, ModuleCode, ModuleHash, ModuleInfo, Process,
    SandboxError, Scheduler, SliceResult, SubjectLaunch, SubjectResult, Taken,
};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    Shared,
    turn_queue::{Caller, SliceEnd},
};

/// Time that a call runs before others that wait have their turn.
const SLICE: Duration = Duration::from_millis(50);

/// The right to use a process until the deadline, in turns with others. It passes to the next call when it is dropped. Its methods block.
pub(crate) struct Turn {
    slices: Arc<Slices>,
}

/// A process is free for the call that has this.
pub(super) struct Permit {
    shared: Arc<Shared>,
    caller: Caller,
    is_held: bool,
}

/// Channel that tells a call that it is its turn.
pub(super) enum Waiter {
    /// It waits for a process.
    Entering(oneshot::Sender<Permit>),
    /// It has one, which pauses.
    Paused(Sender<Wakeup>),
}

/// Message that ends the wait of a call that pauses.
pub(super) enum Wakeup {
    Turn(Permit),
    /// The caller is gone.
    Cancelled,
}

/// The slices of a turn.
struct Slices {
    shared: Arc<Shared>,
    deadline: Instant,
    is_cancelled: Arc<AtomicBool>,
    wake: Sender<Wakeup>,
    /// Nanoseconds in which others had their turn.
    paused: Arc<AtomicU64>,
    state: Mutex<CurrentSlice>,
}

struct CurrentSlice {
    /// Missing while it pauses, and once it has ended in a pause.
    permit: Option<Permit>,
    wakeups: Receiver<Wakeup>,
    slice_begin: Instant,
    /// The time of its slices before this one.
    used: Duration,
}

/// The caller of a turn, who is gone when this is dropped.
pub(super) struct CancelOnDrop {
    is_cancelled: Arc<AtomicBool>,
    wake: Sender<Wakeup>,
    paused: Arc<AtomicU64>,
}

impl Permit {
    pub(super) fn new(shared: Arc<Shared>, caller: Caller) -> Self {
        Self { shared, caller, is_held: true }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_held {
            self.shared.release(self.caller);
        }
    }
}

impl Waiter {
    /// If nobody waits, the permit comes back, and passes to the next call.
    pub(super) fn tell(self, permit: Permit) {
        match self {
            Self::Entering(waiter) => drop(waiter.send(permit)),
            Self::Paused(waiter) => drop(waiter.send(Wakeup::Turn(permit))),
        }
    }
}

impl CancelOnDrop {
    /// The time in which others had their turn.
    pub(super) fn paused(&self) -> Duration {
        Duration::from_nanos(self.paused.load(Relaxed))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Relaxed);
        // If the call has ended, nobody listens.
        let _ = self.wake.send(Wakeup::Cancelled);
    }
}

impl Slices {
    fn state(&self) -> MutexGuard<'_, CurrentSlice> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Lets others run until it is the call's turn again.
    fn pause(&self, state: &mut CurrentSlice) -> Result<(), SandboxError> {
        let begin = Instant::now();
        let ended = || SandboxError::Timeout { killed: false };
        let mut permit = state.permit.take().ok_or_else(ended)?;
        permit.is_held = false;
        let (ticket, begun) = self.shared.queue().pause(permit.caller, state.used, Waiter::Paused(self.wake.clone()));
        self.shared.begin(begun);
        self.shared.settle_idle();
        let left = self.deadline.saturating_duration_since(Instant::now());
        let told = match state.wakeups.recv_timeout(left) {
            Ok(Wakeup::Turn(permit)) => Ok(permit),
            Ok(Wakeup::Cancelled) => Err(SandboxError::Canceled),
            Err(_) => Err(ended()),
        };
        if told.is_err() {
            self.shared.queue().leave(ticket);
            // It may have been told meanwhile.
            state.wakeups.try_iter().for_each(drop);
        }
        self.paused.fetch_add(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
        state.slice_begin = Instant::now();
        state.permit = Some(told?);
        self.shared.settle_idle();
        Ok(())
    }
}

impl Scheduler for Slices {
    fn slice_left(&self) -> Duration {
        SLICE.saturating_sub(self.state().slice_begin.elapsed())
    }

    fn process_started(&self) {
        self.state().slice_begin = Instant::now();
    }

    fn slice_ended(&self, process: &Process<'_>) -> Result<(), SandboxError> {
        let mut state = self.state();
        let now = Instant::now();
        let slice = now - state.slice_begin;
        state.used += slice;
        state.slice_begin = now;
        let used = state.used;
        let Some(permit) = &state.permit else { return Err(SandboxError::Timeout { killed: false }) };
        let end = self.shared.queue().slice_end(permit.caller, used);
        match end {
            SliceEnd::Continues => Ok(()),
            SliceEnd::Stops => Err(SandboxError::Preempted(used)),
            SliceEnd::Pauses => match self.shared.reserve_paused(process.memory_bytes()) {
                Ok(_reserved) => process.pause(|| self.pause(&mut state)),
                Err(_) if used < self.shared.settings.guaranteed_time => Ok(()),
                Err(_exceeded) => Err(SandboxError::Preempted(used)),
            },
        }
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Turn {
    /// A turn, and what its caller keeps while it waits for the result.
    pub(super) fn new(permit: Permit, deadline: Instant) -> (Self, CancelOnDrop) {
        let (wake, wakeups) = channel();
        let (is_cancelled, paused): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let cancel_on_drop =
            CancelOnDrop { is_cancelled: Arc::clone(&is_cancelled), wake: wake.clone(), paused: Arc::clone(&paused) };
        let shared = Arc::clone(&permit.shared);
        let state = CurrentSlice { permit: Some(permit), wakeups, slice_begin: Instant::now(), used: Duration::ZERO };
        let slices = Slices { shared, deadline, is_cancelled, wake, paused, state: Mutex::new(state) };
        (Self { slices: Arc::new(slices) }, cancel_on_drop)
    }

    /// A process that shares time with others, by preference one that used the module last.
    fn process(&self, module: Option<ModuleHash>) -> Result<Taken<'_>, SandboxError> {
        self.check()?;
        let mut process = self.slices.shared.pool.take(module, self.slices.deadline)?;
        process.set_scheduler(Some(Arc::clone(&self.slices) as Arc<dyn Scheduler>));
        Ok(process)
    }

    /// The time in which others had their turn.
    pub(crate) fn paused(&self) -> Duration {
        Duration::from_nanos(self.slices.paused.load(Relaxed))
    }

    /// Compiles a module in a process, and says what it exports.
    pub(crate) fn load(&self, module: &Module, code: ModuleCode) -> Result<ModuleInfo, SandboxError> {
        self.process(Some(module.hash()))?.load(module, code, self.slices.deadline)
    }

    /// Runs all cases of a call.
    pub(crate) fn call(&self, call: &Call) -> Result<CallResult, SandboxError> {
        let mut result = CallResult::default();
        self.call_in_slices(call, |slice| {
            result.append(slice);
            ControlFlow::Continue(())
        })?;
        Ok(result)
    }

    /// Runs the cases of a call, and hands over those of each slice. The call is cancelled if `on_slice` breaks.
    pub(crate) fn call_in_slices(
        &self,
        call: &Call,
        mut on_slice: impl FnMut(SliceResult) -> ControlFlow<()>,
    ) -> Result<(), SandboxError> {
        self.process(Some(call.module.hash()))?.call_in_slices(call, self.slices.deadline, |slice| {
            on_slice(slice)?;
            self.slices.flow()
        })
    }

    /// Compiles CUDA C++ for a GPU of a compute capability. `entry` is the kernel of a source of a client whose resources are reported.
    pub(crate) fn compile(
        &self,
        source: Bytes,
        capability: (u32, u32),
        entry: Option<&str>,
    ) -> Result<CudaCode, SandboxError> {
        self.process(None)?.compile(source, capability, entry, self.slices.deadline)
    }

    /// Launches CUDA C++ of a client. It shares its GPU with no other launch of this kind, so that it can be measured.
    pub(crate) fn run_subject(&self, launch: &SubjectLaunch) -> Result<SubjectResult, SandboxError> {
        self.check()?;
        self.slices.shared.pool.run_subject(launch, self.slices.deadline)
    }

    /// Stops the only process of its kind, so that the next call has another one.
    pub(crate) fn end_process(&self) {
        self.slices.shared.pool.end_process();
    }

    /// Runs threads of a kernel.
    pub(crate) fn launch(&self, launch: &Launch) -> Result<LaunchResult, SandboxError> {
        let mut process = self.process(Some(launch.module.hash()))?;
        process.launch(launch, self.slices.deadline, |_| self.slices.flow())
    }

    /// Time until the call must have ended.
    pub(crate) fn time_left(&self) -> Duration {
        self.slices.deadline.saturating_duration_since(Instant::now())
    }

    /// Checks that somebody waits for the result.
    ///
    /// # Errors
    /// [`SandboxError::Canceled`] if the caller is gone, [`SandboxError::Timeout`] if the deadline has passed.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        if self.slices.flow().is_break() {
            return Err(SandboxError::Canceled);
        }
        if self.time_left().is_zero() { Err(SandboxError::Timeout { killed: false }) } else { Ok(()) }
    }
}
