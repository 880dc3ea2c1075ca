//! Several child processes for concurrent calls.

use std::{
    ops::{ControlFlow, Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
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
    size: usize,
    free: Mutex<Vec<Sandbox>>,
    returned: Condvar,
    counters: Arc<Counters>,
}

/// A sandbox that goes back to its pool when it is dropped.
pub struct Taken<'a> {
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
        let size = size.max(1);
        let free = (0..size).map(|_| sandbox()).collect();
        Self { size, free: Mutex::new(free), returned: Condvar::new(), counters }
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
        self.take(Some(module.hash()), deadline)?.load(module, code, deadline)
    }

    /// As [`Sandbox::call`].
    pub fn call(&self, call: &Call, deadline: Instant) -> Result<CallResult, SandboxError> {
        self.take(Some(call.module.hash()), deadline)?.call(call, deadline)
    }

    /// As [`Sandbox::call_in_slices`].
    pub fn call_in_slices(
        &self,
        call: &Call,
        deadline: Instant,
        on_slice: impl FnMut(SliceResult) -> ControlFlow<()>,
    ) -> Result<(), SandboxError> {
        self.take(Some(call.module.hash()), deadline)?.call_in_slices(call, deadline, on_slice)
    }

    /// As [`Sandbox::launch`].
    pub fn launch(
        &self,
        launch: &Launch,
        deadline: Instant,
        on_slice: impl FnMut(LaunchProgress) -> ControlFlow<()>,
    ) -> Result<LaunchResult, SandboxError> {
        self.take(Some(launch.module.hash()), deadline)?.launch(launch, deadline, on_slice)
    }

    /// As [`Sandbox::compile`].
    pub fn compile(
        &self,
        source: Bytes,
        capability: (u32, u32),
        entry: Option<&str>,
        deadline: Instant,
    ) -> Result<CudaCode, SandboxError> {
        self.take(None, deadline)?.compile(source, capability, entry, deadline)
    }

    /// As [`Sandbox::run_subject`].
    pub fn run_subject(&self, launch: &SubjectLaunch, deadline: Instant) -> Result<SubjectResult, SandboxError> {
        self.take(Some(launch.module.hash()), deadline)?.run_subject(launch, deadline)
    }

    /// Ends the child processes that no call uses: see [`Sandbox::end_process`].
    pub fn end_process(&self) {
        self.keep_idle(0);
    }

    /// Returns counts of events of the child processes of all its sandboxes.
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }

    /// Sandboxes that calls use.
    pub fn taken(&self) -> usize {
        self.size - self.free().len()
    }

    /// Memory of the child processes that no call uses, by last use. `None` if that is unknown.
    pub fn idle_memory(&self) -> Vec<Option<u64>> {
        let free = self.free();
        free.iter().filter(|sandbox| sandbox.pid().is_some()).map(Sandbox::memory_bytes).collect()
    }

    /// Ends child processes that no call uses, of which `count` stay.
    pub fn keep_idle(&self, count: usize) {
        let mut free = self.free();
        let surplus = free.iter().filter(|sandbox| sandbox.pid().is_some()).count().saturating_sub(count);
        let idle = free.iter_mut().filter(|sandbox| sandbox.pid().is_some());
        idle.take(surplus).for_each(Sandbox::end_process);
    }

    fn free(&self) -> MutexGuard<'_, Vec<Sandbox>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sandbox, by preference one that used the module last.
    ///
    /// # Errors
    /// None is free until the deadline.
    pub fn take(&self, module: Option<ModuleHash>, deadline: Instant) -> Result<Taken<'_>, SandboxError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.returned.wait_timeout_while(self.free(), left, |free| free.is_empty());
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let with_module = free.iter().rposition(|sandbox| sandbox.last_module() == module);
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
        if let Some(mut sandbox) = self.sandbox.take() {
            sandbox.set_scheduler(None);
            self.pool.free().push(sandbox);
        }
        self.pool.returned.notify_one();
    }
}
