//! A child process that is replaced when it ends.

use std::{
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    call::{Call, CallResult, Module, SliceResult},
    error::SandboxError,
    process::{ChildProcess, Failure, Message, Reply},
    scheduler::{Process, Scheduler},
    settings::{Program, Settings},
    stats::{Counters, Stats, add},
};
use crate::{
    limits::Slice,
    protocol::{LoadRequest, ModuleCode, ModuleHash, ModuleInfo, Request, Response, Role},
    refusal::Refusal,
};

/// The wait before the first replacement; it doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// The shortest slice that is worth a request.
const MIN_SLICE: Duration = Duration::from_millis(5);

/// A child process that is replaced when it ends.
///
/// Calls block. A call whose deadline passes ends at the next slice of its cases; if the child does not answer for
/// [`Settings::stall_timeout`] after that, it is killed.
pub struct Sandbox {
    program: Program,
    pub(super) settings: Settings,
    pub(super) counters: Arc<Counters>,
    child: Option<ChildProcess>,
    has_started: bool,
    /// Failures since the last response.
    failures: u32,
    not_before: Option<Instant>,
    last_module: Option<ModuleHash>,
    /// Of the call that uses it.
    scheduler: Option<Arc<dyn Scheduler>>,
}

impl Sandbox {
    /// Starts a child process.
    pub fn start(program: Program, settings: Settings) -> Result<Self, SandboxError> {
        let mut sandbox = Self::with_counters(program, settings, Arc::default());
        sandbox.ensure_started(Instant::now() + sandbox.settings.start_timeout)?;
        Ok(sandbox)
    }

    pub(super) fn with_counters(program: Program, settings: Settings, counters: Arc<Counters>) -> Self {
        Self {
            program,
            settings,
            counters,
            child: None,
            has_started: false,
            failures: 0,
            not_before: None,
            last_module: None,
            scheduler: None,
        }
    }

    /// Compiles a module, and says what it exports. [`Call::code`] is the code that a call needs.
    ///
    /// Calls load modules themselves; this is for checking one ahead.
    pub fn load(&mut self, module: &Module, code: ModuleCode, deadline: Instant) -> Result<ModuleInfo, SandboxError> {
        let bytes = module.binary().len() as u64;
        let limit = self.settings.module_limits.bytes.min(self.settings.request_bytes);
        if bytes > limit {
            return Err(Refusal::ModuleTooLarge { what: "bytes".into(), got: bytes, limit }.into());
        }
        add(&self.counters.loads, 1);
        let request = Request::Load(LoadRequest { hash: module.hash(), code });
        self.ensure_started(deadline)?;
        let until = deadline.min(Instant::now() + self.settings.load_timeout);
        match self.exchange(request, vec![module.binary().clone()], until)? {
            (Response::Loaded(info), _) => {
                self.last_module = Some(module.hash());
                Ok(info)
            }
            (response, _) => Err(self.unexpected(&response)),
        }
    }

    /// Runs all cases of a call.
    pub fn call(&mut self, call: &Call, deadline: Instant) -> Result<CallResult, SandboxError> {
        let got = call.response_bytes().saturating_mul(call.case_count);
        let limit = self.settings.response_bytes;
        if got > limit {
            return Err(Refusal::LimitTooHigh { what: "results of a call".into(), got, limit }.into());
        }
        let mut result = CallResult::default();
        self.call_in_slices(call, deadline, |slice| {
            result.append(slice);
            ControlFlow::Continue(())
        })?;
        Ok(result)
    }

    /// Runs the cases of a call, and hands over those of each slice. The call is cancelled if `on_slice` breaks.
    pub fn call_in_slices(
        &mut self,
        call: &Call,
        deadline: Instant,
        mut on_slice: impl FnMut(SliceResult) -> ControlFlow<()>,
    ) -> Result<(), SandboxError> {
        call.check_columns()?;
        let bytes: u64 = call.columns.iter().map(|column| column.len() as u64).sum();
        if bytes > self.settings.request_bytes {
            let limit = self.settings.request_bytes;
            return Err(Refusal::LimitTooHigh { what: "columns of a call".into(), got: bytes, limit }.into());
        }
        add(&self.counters.calls, 1);
        let mut slice = self.first_slice((&call.module, call.code()), deadline, |sandbox, slice| {
            let left = deadline.saturating_duration_since(Instant::now());
            let request = Request::Call(call.request(slice, left));
            sandbox.slice(call, 0, request, call.columns.clone(), deadline)
        })?;
        loop {
            let next = slice.first + slice.outcomes.len() as u64;
            add(&self.counters.cases, slice.outcomes.len() as u64);
            if on_slice(slice).is_break() {
                return Err(SandboxError::Canceled);
            }
            if next == call.case_count {
                return Ok(());
            }
            let request = Request::Continue(self.next_slice(deadline)?);
            slice = self
                .slice(call, next, request, vec![], deadline)?
                .ok_or_else(|| self.unexpected(&Response::NotLoaded))?;
        }
    }

    /// Shares time with other calls from now on. Without a scheduler, calls run from start to end.
    pub fn set_scheduler(&mut self, scheduler: Option<Arc<dyn Scheduler>>) {
        self.scheduler = scheduler;
    }

    /// Memory of the child; 0 if none runs, and `None` if it is unknown.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        Process { child: self.child.as_ref(), is_waiting: true }.memory_bytes()
    }

    /// Process id of the child, if one runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(ChildProcess::pid)
    }

    /// Ends the child, so that the next use has another one. This is no failure.
    pub fn end_process(&mut self) {
        self.child = None;
        self.last_module = None;
        self.has_started = false;
    }

    /// Returns counts of events of its child processes.
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }

    /// The module that it used last.
    pub(super) fn last_module(&self) -> Option<ModuleHash> {
        self.last_module
    }

    /// Runs the first slice of a call or launch, after loading its module if the child does not have it. `slice` returns `None` then.
    pub(super) fn first_slice<T>(
        &mut self,
        (module, code): (&Module, ModuleCode),
        deadline: Instant,
        mut slice: impl FnMut(&mut Self, Slice) -> Result<Option<T>, SandboxError>,
    ) -> Result<T, SandboxError> {
        for _ in 0..2 {
            self.ensure_started(deadline)?;
            let first = self.next_slice(deadline)?;
            if let Some(slice) = slice(self, first)? {
                self.last_module = Some(module.hash());
                return Ok(slice);
            }
            self.load(module, code, deadline)?;
        }
        Err(self.unexpected(&Response::NotLoaded))
    }

    /// The next slice, when it is the call's turn, unless the deadline has passed.
    pub(super) fn next_slice(&self, deadline: Instant) -> Result<Slice, SandboxError> {
        let mut time = self.settings.slice.time;
        if let Some(scheduler) = &self.scheduler {
            if scheduler.slice_left() < MIN_SLICE {
                scheduler.slice_ended(&Process { child: self.child.as_ref(), is_waiting: true })?;
            }
            time = time.min(scheduler.slice_left().max(MIN_SLICE));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SandboxError::Timeout { killed: false });
        }
        Ok(Slice { time: time.min(left), ..self.settings.slice })
    }

    /// Requests a slice that starts at `next`; `None` if the module has to be loaded first.
    fn slice(
        &mut self,
        call: &Call,
        next: u64,
        request: Request,
        body: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Option<SliceResult>, SandboxError> {
        match self.exchange(request, body, deadline + self.settings.stall_timeout)? {
            (Response::Slice(header), body) => {
                let slice = SliceResult::new(call, next, header, &body);
                slice.map(Some).map_err(|error| self.protocol_error(error))
            }
            (Response::NotLoaded, _) => Ok(None),
            (response, _) => Err(self.unexpected(&response)),
        }
    }

    /// Sends a request to the child. A child that fails or does not answer until `until` is killed. While others have their turn, the
    /// time stands still. A child that has ended before it read a request with which work begins is replaced.
    pub(super) fn exchange(
        &mut self,
        request: Request,
        body: Vec<Bytes>,
        until: Instant,
    ) -> Result<(Response, Vec<u8>), SandboxError> {
        let again = request.begins_work().then(|| (request.clone(), body.clone()));
        let Failure { error, is_unread } = match self.try_exchange(request, body, until)? {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        match again {
            Some((request, body)) if is_unread && matches!(error, SandboxError::Crashed { .. }) => {
                self.ensure_started(until)?;
                self.try_exchange(request, body, until)?.map_err(|failure| failure.error)
            }
            Some(_) | None => Err(error),
        }
    }

    /// The inner error is that of a child that has ended.
    fn try_exchange(
        &mut self,
        request: Request,
        body: Vec<Bytes>,
        until: Instant,
    ) -> Result<Result<(Response, Vec<u8>), Failure>, SandboxError> {
        let Some(child) = &self.child else { return Err(SandboxError::Busy) };
        child.send(Message { request, body });
        match self.reply(until) {
            Ok(Some(Ok(reply))) => {
                self.failures = 0;
                match reply {
                    (Response::Refused(refusal), _) => Err(refusal.into()),
                    reply => Ok(Ok(reply)),
                }
            }
            Ok(Some(Err(Failure { error, is_unread }))) => Ok(Err(Failure { error: self.failed(error), is_unread })),
            Ok(None) => {
                self.child = None;
                add(&self.counters.timeouts, 1);
                Err(SandboxError::Timeout { killed: true })
            }
            Err(ended) => {
                // It is in the middle of a request.
                self.end_process();
                Err(ended)
            }
        }
    }

    /// Waits for the response to a request until a time that moves on while others have their turn.
    fn reply(&self, mut until: Instant) -> Result<Option<Reply>, SandboxError> {
        let Some(child) = &self.child else { return Err(SandboxError::Busy) };
        let scheduler = self.scheduler.as_ref().filter(|_| self.can_pause());
        let Some(scheduler) = scheduler else { return Ok(child.reply(until)) };
        let latest = (scheduler.deadline() + self.settings.stall_timeout).max(until);
        loop {
            // A slice answers in time unless it is a long case.
            let slice_end = Instant::now() + scheduler.slice_left() + MIN_SLICE;
            let reply = child.reply(slice_end.min(until));
            if reply.is_some() || slice_end >= until {
                return Ok(reply);
            }
            let ended = Instant::now();
            scheduler.slice_ended(&Process { child: Some(child), is_waiting: false })?;
            until = (until + ended.elapsed()).min(latest);
        }
    }

    /// Returns true if the child can be stopped in the middle of a request: not while it may hold locks that the driver of a GPU shares.
    fn can_pause(&self) -> bool {
        match self.settings.role {
            Role::Wasm | Role::CudaCompiler { .. } => true,
            Role::CudaDevice { .. } | Role::CudaSubject { .. } => false,
        }
    }

    /// Starts a child if none runs; after failures, not before the backoff has passed.
    pub(super) fn ensure_started(&mut self, deadline: Instant) -> Result<(), SandboxError> {
        if self.child.as_ref().is_some_and(|child| !child.is_alive()) {
            self.child = None;
            add(&self.counters.crashes, 1);
        }
        if self.child.is_some() {
            return Ok(());
        }
        if let Some(not_before) = self.not_before.take() {
            if not_before >= deadline {
                self.not_before = Some(not_before);
                return Err(SandboxError::Busy);
            }
            thread::sleep(not_before.saturating_duration_since(Instant::now()));
        }
        self.start_child()
    }

    /// Starts a child, and another one if something ends the first before it is ready.
    fn start_child(&mut self) -> Result<(), SandboxError> {
        let started = match self.try_start_child() {
            Err(SandboxError::Crashed { signal: Some(_), .. }) => self.try_start_child(),
            started => started,
        };
        started.map_err(|error| {
            let is_crash = matches!(error, SandboxError::Crashed { .. });
            if is_crash { SandboxError::Start(error.to_string()) } else { error }
        })
    }

    fn try_start_child(&mut self) -> Result<(), SandboxError> {
        self.child = Some(ChildProcess::spawn(&self.program).map_err(|error| self.failed(error))?);
        self.last_module = None;
        add(&self.counters.starts, 1);
        if std::mem::replace(&mut self.has_started, true) {
            add(&self.counters.restarts, 1);
        }
        let failures = self.failures;
        let until = Instant::now() + self.settings.start_timeout;
        // Its start counts for no slice of the call.
        let scheduler = self.scheduler.take();
        let started = self.exchange(Request::Start(self.settings.of_child()), vec![], until);
        self.scheduler = scheduler;
        if let Some(scheduler) = &self.scheduler {
            scheduler.process_started();
        }
        match started? {
            // A child that starts and then always fails is not replaced ever faster.
            (Response::Ready, _) => self.failures = failures,
            (response, _) => return Err(self.unexpected(&response)),
        }
        Ok(())
    }

    pub(super) fn unexpected(&mut self, response: &Response) -> SandboxError {
        let what = match response {
            Response::Ready => "ready",
            Response::Loaded(_) => "loaded",
            Response::NotLoaded => "not loaded",
            Response::Slice(_) => "a slice",
            Response::LaunchSlice(_) => "a slice of a launch",
            Response::Memory => "memory",
            Response::Stopped => "stopped",
            Response::Compiled(_) => "compiled",
            Response::SubjectRan(_) => "ran",
            Response::Refused(_) => "refused",
        };
        self.protocol_error(format!("`{what}` does not answer the request"))
    }

    pub(super) fn protocol_error(&mut self, text: String) -> SandboxError {
        self.failed(SandboxError::Protocol(text))
    }

    /// Ends the child, and sets the time before which it is not replaced.
    fn failed(&mut self, error: SandboxError) -> SandboxError {
        self.child = None;
        let counter = match &error {
            SandboxError::OutOfMemory(_) => &self.counters.out_of_memory,
            SandboxError::Protocol(_) => &self.counters.protocol_errors,
            SandboxError::Timeout { .. } => &self.counters.timeouts,
            SandboxError::Crashed { .. }
            | SandboxError::Start(_)
            | SandboxError::Canceled
            | SandboxError::Refused(_)
            | SandboxError::Preempted(_)
            | SandboxError::Busy => &self.counters.crashes,
        };
        add(counter, 1);
        let backoff = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(self.settings.max_backoff);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + backoff);
        error
    }
}
