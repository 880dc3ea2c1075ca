//! Runs code of clients in child processes: who may when, for how long, and what ends with a call.

mod child;
#[cfg(test)]
mod tests;
mod turn;
mod turn_queue;

use std::{
    ffi::OsString,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::ledger::{Account, Exceeded, Kind, Ledger, Limit, Place, Reservation};
use accelerd_sandbox::{Pool, Role, SandboxError, Settings, Stats};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    time::{timeout, timeout_at},
};

use crate::{
    config::{Config, SandboxSettings},
    error::ApiError,
    layers::timing,
};
pub use child::main as child_main;
pub(crate) use turn::Turn;
use turn::{Cancellation, Permit};
use turn_queue::{Entered, Ticket, TurnQueue};

/// The least memory of the process that compiles kernels for GPUs: what the compiler takes for a large one.
const MIN_COMPILER_MEMORY: u64 = 512 << 20;

/// How long a process may take to create a context on a GPU.
const GPU_START_TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variables that say where the driver is and which GPUs a process sees.
const CUDA_ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

/// Processes that run code of clients. Clones share them.
#[derive(Clone)]
pub(crate) struct Sandboxes {
    shared: Arc<Shared>,
    /// Threads that wait for processes.
    threads: Handle,
}

struct Shared {
    settings: SandboxSettings,
    pool: Pool,
    queue: Mutex<TurnQueue<oneshot::Sender<Permit>>>,
    /// Notified when the last call has released its process.
    idle: Notify,
    /// Of each process that has been used, in each of its places.
    memory: Mutex<Vec<Vec<Reservation>>>,
    /// The memory of a process.
    accounts: Vec<(Account, u64)>,
}

impl Sandboxes {
    /// No process starts before it is needed. Calls wait for them on threads of `threads`.
    pub(crate) fn new(config: &Config, ledger: &Ledger, threads: Handle) -> Self {
        let settings = config.sandbox.clone();
        let pool = Pool::new(&settings.program, &pool_settings(&settings), settings.processes);
        let memory = (ledger.account(Place::Host, Kind::Sandbox), settings.memory.as_u64());
        Self::with(settings, pool, vec![memory], threads)
    }

    /// A process that compiles kernels for GPUs.
    pub(crate) fn for_cuda_compiler(&self, config: &Config, ledger: &Ledger) -> Self {
        let memory_bytes = config.sandbox.memory.as_u64().max(MIN_COMPILER_MEMORY);
        // A process has another current folder.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let role = Role::CudaCompiler { library_paths: config.cuda.library_path.iter().map(absolute).collect() };
        let settings = Settings { role, memory_bytes, ..pool_settings(&config.sandbox) };
        self.for_cuda(config, &settings, vec![(ledger.account(Place::Host, Kind::Sandbox), memory_bytes)])
    }

    /// A process that runs kernels on a GPU. The arguments of a launch lie on the host as well for a moment.
    pub(crate) fn for_gpu(&self, config: &Config, ledger: &Ledger, ordinal: u32) -> Self {
        let memory = config.sandbox.gpu_memory.as_u64();
        let settings = Settings {
            role: Role::CudaDevice { ordinal, duty_cycle: config.sandbox.gpu_duty_cycle },
            case_memory_bytes: memory,
            request_bytes: memory.max(pool_settings(&config.sandbox).module_limits.bytes),
            response_bytes: memory,
            start_timeout: GPU_START_TIMEOUT,
            ..pool_settings(&config.sandbox)
        };
        let places = [Place::Host, Place::Cuda(ordinal)];
        let memory = places.map(|place| (ledger.account(place, Kind::Sandbox), memory));
        self.for_cuda(config, &settings, memory.into())
    }

    /// One process, in an environment in which it finds what the daemon does.
    fn for_cuda(&self, config: &Config, settings: &Settings, accounts: Vec<(Account, u64)>) -> Self {
        let mut program = config.sandbox.program.clone();
        let variable = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
        program.environment.extend(CUDA_ENVIRONMENT.iter().filter_map(|name| variable(name)));
        let pool = Pool::with_stats_of(&program, settings, 1, &self.shared.pool);
        let settings = SandboxSettings { processes: config.sandbox.processes.min(1), ..config.sandbox.clone() };
        Self::with(settings, pool, accounts, self.threads.clone())
    }

    fn with(settings: SandboxSettings, pool: Pool, accounts: Vec<(Account, u64)>, threads: Handle) -> Self {
        let shared = Shared {
            queue: Mutex::new(TurnQueue::new(settings.processes, settings.max_queue)),
            idle: Notify::new(),
            memory: Mutex::default(),
            accounts,
            settings,
            pool,
        };
        Self { shared: Arc::new(shared), threads }
    }

    /// The limits of calls.
    pub(crate) fn limits(&self) -> &SandboxSettings {
        &self.shared.settings
    }

    /// The memory of an instance.
    pub(crate) fn case_memory(&self) -> Limit {
        Limit { bytes: self.limits().case_memory.as_u64(), setting: "sandbox.case_memory" }
    }

    /// Whether code of clients may run.
    pub(crate) fn check_enabled(&self) -> Result<(), ApiError> {
        if self.shared.settings.processes == 0 { Err(ApiError::SandboxDisabled) } else { Ok(()) }
    }

    /// Waits for a turn, in which `job` uses a process; `job` runs on a thread that may block. Principals take turns.
    ///
    /// If the future is dropped, the call leaves the queue, or the job's next use of the process ends with
    /// [`SandboxError::Canceled`].
    ///
    /// # Errors
    /// The sandbox is disabled or draining, too many calls wait, the deadline passes, or the job fails.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &Context,
        job: impl FnOnce(&Turn) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.run_turn(context, false, job).await
    }

    /// As [`Self::run`], for a call that may have had a turn before; it is not refused then because many calls wait.
    pub(crate) async fn run_turn<T: Send + 'static>(
        &self,
        context: &Context,
        had_turn: bool,
        job: impl FnOnce(&Turn) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.check_enabled()?;
        let begin = Instant::now();
        let deadline = context.deadline.unwrap_or(begin + self.shared.settings.default_deadline);
        let permit = self.shared.permit(context.principal, deadline, had_turn).await?;
        self.shared.reserve_memory()?;
        let started = Instant::now();
        let (cancellation, cancel_on_drop) = Cancellation::new();
        let turn = Turn::new(permit, deadline, cancellation);
        let span = tracing::Span::current();
        let running = self.threads.spawn_blocking(move || span.in_scope(|| job(&turn)));
        let done = running.await;
        drop(cancel_on_drop);
        timing::add(started - begin, started.elapsed());
        match done {
            Ok(result) => result.map_err(ApiError::Sandbox).inspect_err(log),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_aborted) => Err(SubmitError::Draining.into()),
            },
        }
    }

    /// Accepts no further calls, and waits for those that were accepted. Returns how many are left.
    pub(crate) async fn drain(&self, limit: Duration) -> u64 {
        let shared = &self.shared;
        shared.queue().set_draining(true);
        let all_done = async {
            loop {
                let mut notified = pin!(shared.idle.notified());
                notified.as_mut().enable();
                if shared.queue().running() == 0 {
                    return;
                }
                notified.await;
            }
        };
        let _ended_or_not = timeout(limit, all_done).await;
        let queue = shared.queue();
        (queue.running() + queue.queued()) as u64
    }

    /// Accepts calls again.
    pub(crate) fn resume(&self) {
        self.shared.queue().set_draining(false);
    }

    /// What happened to the processes.
    pub(crate) fn stats(&self) -> Stats {
        self.shared.pool.stats()
    }

    /// Calls that wait for a process, or use one.
    pub(crate) fn calls(&self) -> u64 {
        let queue = self.shared.queue();
        (queue.queued() + queue.running()) as u64
    }

    /// Calls that wait for a process.
    pub(crate) fn queued(&self) -> u64 {
        self.shared.queue().queued() as u64
    }
}

impl Shared {
    /// A free process, once it is this call's turn.
    async fn permit(self: &Arc<Self>, principal: u64, deadline: Instant, had_turn: bool) -> Result<Permit, ApiError> {
        let (waiter, told) = oneshot::channel();
        let entered = self.queue().enter(principal, waiter, had_turn);
        let ticket = match entered {
            Entered::Running => return Ok(Permit(Arc::clone(self))),
            Entered::Queued(ticket) => ticket,
            Entered::Full => return Err(ApiError::SandboxQueueFull(self.settings.max_queue)),
            Entered::Draining => return Err(SubmitError::Draining.into()),
        };
        let _leave_on_drop = Waiting { shared: self, ticket };
        match timeout_at(deadline.into(), told).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(SandboxError::Busy.into()),
        }
    }

    /// A call is done with its process. A next call whose future is dropped meanwhile passes it on, in turn.
    fn release(self: &Arc<Self>) {
        let (next, is_idle) = {
            let mut queue = self.queue();
            (queue.release(), queue.running() == 0)
        };
        if let Some(next) = next {
            // If nobody waits, the permit comes back and is dropped.
            drop(next.send(Permit(Arc::clone(self))));
        } else if is_idle {
            self.idle.notify_waiters();
        }
    }

    /// Reserves the memory of as many processes as are in use; once used, a process stays.
    fn reserve_memory(&self) -> Result<(), Exceeded> {
        let running = self.queue().running();
        let mut reserved = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        while reserved.len() < running {
            let reserve = |(account, bytes): &(Account, u64)| account.reserve(*bytes);
            reserved.push(self.accounts.iter().map(reserve).collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    fn queue(&self) -> MutexGuard<'_, TurnQueue<oneshot::Sender<Permit>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in the queue, which leaves it when it is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.queue().leave(self.ticket);
    }
}

fn pool_settings(settings: &SandboxSettings) -> Settings {
    let (memory, default) = (settings.memory.as_u64(), Settings::default());
    Settings {
        memory_bytes: memory,
        case_memory_bytes: settings.case_memory.as_u64(),
        // Columns of a call, or contents of arrays, lie in the process twice for a moment.
        request_bytes: default.request_bytes.min(memory / 4).max(settings.case_memory.as_u64()),
        load_timeout: settings.load_timeout,
        nice: settings.nice.into(),
        ..default
    }
}

/// Logs what operators should know: a process that failed. The other errors are the caller's.
fn log(error: &ApiError) {
    if let ApiError::Sandbox(failure) = error
        && matches!(
            failure,
            SandboxError::Crashed { .. }
                | SandboxError::OutOfMemory(_)
                | SandboxError::Protocol(_)
                | SandboxError::Start(_)
                | SandboxError::Timeout { killed: true }
        )
    {
        tracing::warn!(%failure, "a process of the sandbox failed");
    }
}
