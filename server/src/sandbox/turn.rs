//! The use of a process by one call.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    Call, CallResult, CudaCode, Launch, LaunchResult, Module, ModuleCode, ModuleInfo, SandboxError, SliceResult,
    SubjectLaunch, SubjectResult,
};
use bytes::Bytes;

use super::Shared;

/// The right to use a process until the deadline. It passes to the next call when it is dropped. Its methods block.
pub(crate) struct Turn {
    permit: Permit,
    deadline: Instant,
    cancellation: Cancellation,
}

/// A process is free for the call that has this.
pub(super) struct Permit {
    pub(super) shared: Arc<Shared>,
    pub(super) call: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.release(self.call);
    }
}

/// Whether the caller is gone.
pub(super) struct Cancellation(Arc<AtomicBool>);

/// The caller, who is gone when this is dropped.
pub(super) struct CancelOnDrop(Arc<AtomicBool>);

impl Cancellation {
    pub(super) fn new() -> (Self, CancelOnDrop) {
        let cancelled = Arc::<AtomicBool>::default();
        (Self(Arc::clone(&cancelled)), CancelOnDrop(cancelled))
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.0.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Turn {
    pub(super) fn new(permit: Permit, deadline: Instant, cancellation: Cancellation) -> Self {
        Self { permit, deadline, cancellation }
    }

    /// Compiles a module in a process, and says what it exports.
    pub(crate) fn load(&self, module: &Module, code: ModuleCode) -> Result<ModuleInfo, SandboxError> {
        self.check()?;
        self.permit.shared.pool.load(module, code, self.deadline)
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
        self.check()?;
        self.permit.shared.pool.call_in_slices(call, self.deadline, |slice| {
            on_slice(slice)?;
            self.cancellation.flow()
        })
    }

    /// Compiles CUDA C++ for a GPU of a compute capability. `entry` is the kernel of a source of a client whose resources are reported.
    pub(crate) fn compile(
        &self,
        source: Bytes,
        capability: (u32, u32),
        entry: Option<&str>,
    ) -> Result<CudaCode, SandboxError> {
        self.check()?;
        self.permit.shared.pool.compile(source, capability, entry, self.deadline)
    }

    /// Launches CUDA C++ of a client.
    pub(crate) fn run_subject(&self, launch: &SubjectLaunch) -> Result<SubjectResult, SandboxError> {
        self.check()?;
        self.permit.shared.pool.run_subject(launch, self.deadline)
    }

    /// Ends the only process of its kind, so that the next call has another one.
    pub(crate) fn end_process(&self) {
        self.permit.shared.pool.end_process();
    }

    /// Runs threads of a kernel.
    pub(crate) fn launch(&self, launch: &Launch) -> Result<LaunchResult, SandboxError> {
        self.check()?;
        self.permit.shared.pool.launch(launch, self.deadline, |_| self.cancellation.flow())
    }

    /// Time until the call must have ended.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether somebody waits for the result.
    ///
    /// # Errors
    /// [`SandboxError::Canceled`] if the caller is gone, [`SandboxError::Timeout`] if the deadline has passed.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        if self.cancellation.flow().is_break() {
            return Err(SandboxError::Canceled);
        }
        if self.time_left().is_zero() { Err(SandboxError::Timeout { killed: false }) } else { Ok(()) }
    }
}
