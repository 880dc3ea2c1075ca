//! Several child processes for concurrent calls.

use std::{
    ops::{ControlFlow, Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Instant,
};

use bytes::Bytes;

use super::{
    call::{Call, CallResult, Module, SliceResult},
    error::SandboxError,
    launch::{Launch, LaunchProgress, LaunchResult},
    sandbox::Sandbox,
    settings::{Program, Settings},
    stats::{Counters, Stats},
    subject::{SubjectLaunch, SubjectResult},
};
use crate::{
    cuda::CudaCode,
    protocol::{ModuleCode, ModuleHash, ModuleInfo},
};

/// A fixed number of sandboxes. A call takes a free one, by preference one that used its module last, or waits until its deadline.
pub struct Pool {
    free: Mutex<Vec<Sandbox>>,
    returned: Condvar,
    counters: Arc<Counters>,
}

/// A sandbox that goes back to its pool when it is dropped.
struct Taken<'a> {
    pool: &'a Pool,
    /// Present until it is dropped.
    sandbox: Option<Sandbox>,
}

impl Pool {
    /// A pool of `size` sandboxes, at least one. A child process starts with the first call that needs it.
    pub fn new(program: &Program, settings: &Settings, size: usize) -> Self {
        Self::counting(program, settings, size, Arc::default())
    }

    fn counting(program: &Program, settings: &Settings, size: usize, counters: Arc<Counters>) -> Self {
        let sandbox = || Sandbox::with_counters(program.clone(), settings.clone(), Arc::clone(&counters));
        let free = (0..size.max(1)).map(|_| sandbox()).collect();
        Self { free: Mutex::new(free), returned: Condvar::new(), counters }
    }

    /// As [`Self::new`], but what happens to the processes counts in the [`Stats`] of this pool.
    #[must_use]
    pub fn with_stats_of(program: &Program, settings: &Settings, size: usize, other: &Self) -> Self {
        Self::counting(program, settings, size, Arc::clone(&other.counters))
    }

    /// As [`Self::new`], but the first child process starts at once.
    pub fn start(program: &Program, settings: &Settings, size: usize) -> Result<Self, SandboxError> {
        let mut pool = Self::new(program, settings, size);
        let free = pool.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = free.last_mut() {
            last.ensure_started(Instant::now() + settings.start_timeout)?;
        }
        Ok(pool)
    }

    /// As [`Sandbox::load`].
    pub fn load(&self, module: &Module, code: ModuleCode, deadline: Instant) -> Result<ModuleInfo, SandboxError> {
        self.take(module.hash(), deadline)?.load(module, code, deadline)
    }

    /// As [`Sandbox::call`].
    pub fn call(&self, call: &Call, deadline: Instant) -> Result<CallResult, SandboxError> {
        self.take(call.module.hash(), deadline)?.call(call, deadline)
    }

    /// As [`Sandbox::call_in_slices`].
    pub fn call_in_slices(
        &self,
        call: &Call,
        deadline: Instant,
        on_slice: impl FnMut(SliceResult) -> ControlFlow<()>,
    ) -> Result<(), SandboxError> {
        self.take(call.module.hash(), deadline)?.call_in_slices(call, deadline, on_slice)
    }

    /// As [`Sandbox::launch`].
    pub fn launch(
        &self,
        launch: &Launch,
        deadline: Instant,
        on_slice: impl FnMut(LaunchProgress) -> ControlFlow<()>,
    ) -> Result<LaunchResult, SandboxError> {
        self.take(launch.module.hash(), deadline)?.launch(launch, deadline, on_slice)
    }

    /// As [`Sandbox::compile`].
    pub fn compile(
        &self,
        source: Bytes,
        capability: (u32, u32),
        entry: Option<&str>,
        deadline: Instant,
    ) -> Result<CudaCode, SandboxError> {
        self.take(ModuleHash([0; 32]), deadline)?.compile(source, capability, entry, deadline)
    }

    /// As [`Sandbox::run_subject`].
    pub fn run_subject(&self, launch: &SubjectLaunch, deadline: Instant) -> Result<SubjectResult, SandboxError> {
        self.take(launch.module.hash(), deadline)?.run_subject(launch, deadline)
    }

    /// Ends the processes that no call uses: see [`Sandbox::end_process`].
    pub fn end_process(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(Sandbox::end_process);
    }

    /// What happened to the child processes of all its sandboxes.
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }

    fn take(&self, module: ModuleHash, deadline: Instant) -> Result<Taken<'_>, SandboxError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.returned.wait_timeout_while(free, left, |free| free.is_empty());
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let with_module = free.iter().rposition(|sandbox| sandbox.last_module() == Some(module));
        // The last one was used last: others may have no process.
        let nth = with_module.or(free.len().checked_sub(1)).ok_or(SandboxError::Busy)?;
        Ok(Taken { pool: self, sandbox: Some(free.remove(nth)) })
    }
}

impl Deref for Taken<'_> {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("it is present until it is dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Sandbox {
        self.sandbox.as_mut().expect("it is present until it is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).extend(self.sandbox.take());
        self.pool.returned.notify_one();
    }
}
