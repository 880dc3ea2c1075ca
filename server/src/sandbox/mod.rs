//! Runs code of clients in child processes, by turns among callers, and reserves the memory of the processes.

mod child;
#[cfg(test)]
mod tests;
mod turn;
mod turn_queue;
mod turns;

use std::{
    ffi::OsString,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use accelerd_engine::Context;
use accelerd_kernels::ledger::{Account, Exceeded, Kind, Ledger, Limit, Place, Reservation};
use accelerd_sandbox::{Pool, Role, SandboxError, Settings, Stats, child::missing_confinement};
use tokio::{runtime::Handle, sync::Notify, time::timeout};

use crate::{
    config::{Config, SandboxSettings},
    error::ApiError,
};
pub use child::main as child_main;
pub(crate) use turn::Turn;
use turn::{Permit, Waiter};
use turn_queue::{Begun, Caller, TurnLimits, TurnQueue};
pub(crate) use turns::Turns;

/// Minimum memory of the process that compiles kernels for GPUs: the compiler takes as much for a large one.
const MIN_COMPILER_MEMORY: u64 = 512 << 20;

/// Processes of a GPU that pause: each has a context, which takes memory of the GPU that nothing else limits.
const MAX_PAUSED_ON_GPU: usize = 3;

/// Maximum time of a process to create a context on a GPU.
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
    queue: Mutex<TurnQueue<Waiter>>,
    /// Calls so far.
    calls: AtomicU64,
    /// Notified when a process is released.
    released: Notify,
    /// Reservations for as many processes as have run at once, of each process in the order of `accounts`.
    memory: Mutex<Vec<Vec<Reservation>>>,
    /// Reservations for further processes that no call uses, of each process in the order of `accounts`.
    idle_memory: Mutex<Vec<Vec<Reservation>>>,
    /// The account of each place in which a process has memory, and the bytes of a process there.
    accounts: Vec<(Account, u64)>,
    paused_memory: PausedMemory,
}

/// Memory that is reserved for a process that pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PausedMemory {
    /// Its resident memory, as the system counts it.
    Resident,
    /// All that it may have.
    Whole,
}

impl Sandboxes {
    /// No process starts before it is needed. Calls wait for them on threads of `threads`.
    pub(crate) fn new(config: &Config, ledger: &Ledger, threads: Handle) -> Self {
        let settings = config.sandbox.clone();
        let pool = Pool::new(&settings.program, &pool_settings(&settings), settings.processes + settings.max_paused);
        let memory = vec![(Place::Host, settings.memory.as_u64())];
        Self::with(settings, pool, ledger, (memory, PausedMemory::Resident), threads)
    }

    /// A process that compiles kernels for GPUs: generated ones, or sources of clients.
    pub(crate) fn for_cuda_compiler(&self, config: &Config, ledger: &Ledger, client_sources: bool) -> Self {
        self.cuda_compilers(config, ledger, (client_sources, false), 1)
    }

    /// As [`Self::for_cuda_compiler`], in up to `processes` processes that take less time for slower code.
    pub(crate) fn for_quick_cuda_compilers(&self, config: &Config, ledger: &Ledger, processes: usize) -> Self {
        self.cuda_compilers(config, ledger, (false, true), processes)
    }

    fn cuda_compilers(
        &self,
        config: &Config,
        ledger: &Ledger,
        (client_sources, quick): (bool, bool),
        processes: usize,
    ) -> Self {
        let memory_bytes = config.sandbox.memory.as_u64().max(MIN_COMPILER_MEMORY);
        // A process has another current folder.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let library_paths = config.cuda.library_path.iter().map(absolute).collect();
        let role = Role::CudaCompiler { library_paths, client_sources, quick };
        let settings = Settings { role, memory_bytes, ..pool_settings(&config.sandbox) };
        let memory = vec![(Place::Host, memory_bytes)];
        let counts = (processes, config.sandbox.max_paused);
        self.for_cuda(config, &settings, ledger, (memory, PausedMemory::Resident), counts)
    }

    /// A process that runs kernels on a GPU. The arguments of a launch lie on the host as well for a moment.
    pub(crate) fn for_gpu(&self, config: &Config, ledger: &Ledger, ordinal: u32) -> Self {
        let role = Role::CudaDevice { ordinal, duty_cycle: config.sandbox.gpu_duty_cycle };
        self.on_gpu(config, ledger, (ordinal, role), config.sandbox.max_paused.min(MAX_PAUSED_ON_GPU))
    }

    /// A process that runs CUDA C++ of a client on a GPU.
    pub(crate) fn for_cuda_subjects(&self, config: &Config, ledger: &Ledger, ordinal: u32) -> Self {
        self.on_gpu(config, ledger, (ordinal, Role::CudaSubject { ordinal }), 0)
    }

    fn on_gpu(&self, config: &Config, ledger: &Ledger, (ordinal, role): (u32, Role), max_paused: usize) -> Self {
        let memory = config.sandbox.gpu_memory.as_u64();
        let settings = Settings {
            role,
            case_memory_bytes: memory,
            request_bytes: memory.max(pool_settings(&config.sandbox).module_limits.bytes),
            response_bytes: memory,
            start_timeout: GPU_START_TIMEOUT,
            ..pool_settings(&config.sandbox)
        };
        let memory = vec![(Place::Host, memory), (Place::Cuda(ordinal), memory)];
        self.for_cuda(config, &settings, ledger, (memory, PausedMemory::Whole), (1, max_paused))
    }

    /// Processes with the daemon's environment variables for CUDA. At most `processes` run, and never more than run modules; `max_paused`
    /// further ones pause.
    fn for_cuda(
        &self,
        config: &Config,
        settings: &Settings,
        ledger: &Ledger,
        memory: (Vec<(Place, u64)>, PausedMemory),
        (processes, max_paused): (usize, usize),
    ) -> Self {
        let mut program = config.sandbox.program.clone();
        let variable = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
        program.environment.extend(CUDA_ENVIRONMENT.iter().filter_map(|name| variable(name)));
        let pool = Pool::with_stats_of(&program, settings, processes + max_paused, &self.shared.pool);
        let processes = config.sandbox.processes.min(processes);
        let settings = SandboxSettings { processes, max_paused, ..config.sandbox.clone() };
        Self::with(settings, pool, ledger, memory, self.threads.clone())
    }

    fn with(
        settings: SandboxSettings,
        pool: Pool,
        ledger: &Ledger,
        (memory, paused_memory): (Vec<(Place, u64)>, PausedMemory),
        threads: Handle,
    ) -> Self {
        let account = |(place, bytes): &(Place, u64)| (ledger.account(*place, Kind::Sandbox), *bytes);
        let shared = Arc::new(Shared {
            queue: Mutex::new(TurnQueue::new(turn_limits(&settings))),
            calls: AtomicU64::new(0),
            released: Notify::new(),
            memory: Mutex::default(),
            idle_memory: Mutex::default(),
            accounts: memory.iter().map(account).collect(),
            paused_memory,
            settings,
            pool,
        });
        for (account, (place, _)) in memory.into_iter().enumerate() {
            let weak = Arc::downgrade(&shared);
            ledger.on_eviction(place, Kind::Sandbox, move |missing| {
                weak.upgrade().map_or(0, |shared| shared.end_idle(account, missing))
            });
        }
        Self { shared, threads }
    }

    /// The limits of calls.
    pub(crate) fn limits(&self) -> &SandboxSettings {
        &self.shared.settings
    }

    /// The memory of an instance.
    pub(crate) fn case_memory(&self) -> Limit {
        Limit { bytes: self.limits().case_memory.as_u64(), setting: "sandbox.case_memory" }
    }

    /// Logs what the kernel lacks to confine the processes, if any can start.
    pub(crate) fn log_missing_confinement(&self) {
        if self.shared.settings.processes == 0 {
            return;
        }
        let missing = missing_confinement();
        if !missing.is_empty() {
            let missing = missing.join(" and ");
            tracing::warn!(
                missing,
                "processes that run code of clients are confined only in part: SECURITY.md says what remains"
            );
        }
    }

    /// Checks that code of clients may run.
    pub(crate) fn check_enabled(&self) -> Result<(), ApiError> {
        if self.shared.settings.processes == 0 { Err(ApiError::SandboxDisabled) } else { Ok(()) }
    }

    /// The turns of a new call.
    pub(crate) fn turns(&self) -> Turns {
        Turns::new(self.clone(), self.shared.calls.fetch_add(1, Relaxed))
    }

    /// As [`Turns::run`], for a call with one turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &Context,
        job: impl FnOnce(&Turn) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.turns().run(context, move |turn| job(&turn).map_err(ApiError::from)).await
    }

    /// Accepts no further calls, and waits for those that were accepted. Returns how many are left.
    pub(crate) async fn drain(&self, limit: Duration) -> u64 {
        let shared = &self.shared;
        shared.queue().set_draining(true);
        let all_done = async {
            loop {
                let mut notified = pin!(shared.released.notified());
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

    /// Returns counts of events of the processes.
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
    /// A call is done with a process.
    fn release(self: &Arc<Self>, caller: Caller) {
        let next = self.queue().release(caller);
        self.begin(next);
        self.released.notify_waiters();
    }

    /// Tells a call that it is its turn. If its future is dropped meanwhile, it passes the turn on.
    fn begin(self: &Arc<Self>, begun: Option<Begun<Waiter>>) {
        if let Some(Begun { caller, waiter }) = begun {
            waiter.tell(Permit::new(Arc::clone(self), caller));
        }
    }

    /// Reserves the memory of as many processes as run; once used, a process stays.
    fn reserve_memory(&self) -> Result<(), Exceeded> {
        let running = self.queue().running();
        let mut reserved = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        while reserved.len() < running {
            reserved.push(self.reserve_whole()?);
        }
        Ok(())
    }

    /// Reserves the memory of a process that pauses, which has `resident` bytes.
    fn reserve_paused(&self, resident: Option<u64>) -> Result<Vec<Reservation>, Exceeded> {
        match (self.paused_memory, resident) {
            (PausedMemory::Resident, Some(bytes)) => {
                self.accounts.iter().map(|(account, most)| account.reserve(bytes.min(*most))).collect()
            }
            (PausedMemory::Resident, None) | (PausedMemory::Whole, _) => self.reserve_whole(),
        }
    }

    fn reserve_whole(&self) -> Result<Vec<Reservation>, Exceeded> {
        self.accounts.iter().map(|(account, bytes)| account.reserve(*bytes)).collect()
    }

    /// Accounts for processes that no call uses, of which there are more than [`Self::reserve_memory`] counts while calls pause.
    /// Those for which there is no memory end.
    fn settle_idle(&self) {
        let processes = self.settings.processes;
        let mut idle_memory = self.idle_memory.lock().unwrap_or_else(PoisonError::into_inner);
        idle_memory.clear();
        self.pool.keep_idle(processes);
        let idle = self.pool.idle_memory();
        let surplus = self.surplus(idle.len(), processes);
        let reserved: Result<Vec<_>, _> = idle.iter().take(surplus).map(|bytes| self.reserve_paused(*bytes)).collect();
        match reserved {
            Ok(reserved) if self.paused_memory == PausedMemory::Resident => {
                *idle_memory = reserved;
            }
            Ok(_) | Err(_) => self.pool.keep_idle(idle.len() - surplus),
        }
    }

    /// Number of idle processes that must end, so that at most `processes` are left that do not pause.
    fn surplus(&self, idle: usize, processes: usize) -> usize {
        let used = self.pool.taken().saturating_sub(self.queue().paused());
        (idle + used).saturating_sub(processes).min(idle)
    }

    /// Ends processes that no call uses, because `missing` bytes of an account's place are needed elsewhere: all further ones, and as many
    /// of the others as it takes. Returns the bytes that are free now.
    fn end_idle(&self, account: usize, missing: u64) -> u64 {
        // Whoever holds a lock reserves memory just now, perhaps on this thread.
        let (Ok(mut reserved), Ok(mut idle_memory)) = (self.memory.try_lock(), self.idle_memory.try_lock()) else {
            return 0;
        };
        let (_, of_process) = self.accounts[account];
        let of_further: u64 = idle_memory.iter().map(|process| process[account].bytes()).sum();
        let unused = reserved.len().saturating_sub(self.queue().running());
        let needed = missing.saturating_sub(of_further).div_ceil(of_process);
        let ended = unused.min(usize::try_from(needed).unwrap_or(usize::MAX));
        if ended == 0 && of_further == 0 {
            return 0;
        }
        let left = reserved.len() - ended;
        let idle = self.pool.idle_memory().len();
        self.pool.keep_idle(idle - self.surplus(idle, left));
        idle_memory.clear();
        reserved.truncate(left);
        of_further + ended as u64 * of_process
    }

    fn queue(&self) -> MutexGuard<'_, TurnQueue<Waiter>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn turn_limits(settings: &SandboxSettings) -> TurnLimits {
    let share = settings.caller_share * settings.processes as f64;
    let processes_of_principal = (1..=settings.processes).take_while(|count| *count as f64 <= share).count();
    TurnLimits {
        processes: settings.processes,
        processes_of_principal: processes_of_principal.max(1),
        paused: settings.max_paused,
        queued: settings.max_queue,
        guaranteed: settings.guaranteed_time,
    }
}

fn pool_settings(settings: &SandboxSettings) -> Settings {
    let memory = settings.memory.as_u64();
    let default = Settings::default();
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
