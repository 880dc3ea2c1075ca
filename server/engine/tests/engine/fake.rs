//! A fake operation with scripted faults: it fails, panics, loses its device, or waits at a gate.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use accelerd_engine::{Completion, Context, Engine, EngineConfig, Lane, LaneConfig, SubmitError};
use accelerd_kernels::{
    Backend, Choice, Device, DeviceId, LossScope, Op, OpError, Settings, Size, cpu::Pool, discover,
};
use tokio::{sync::watch, task::JoinHandle};

/// The operation; each `N` is a separate one with its own lane.
pub(crate) struct Fake<const N: usize = 0>;

/// Fault that a request causes in its launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// The request is invalid.
    Invalid,
    /// The launch fails.
    Failed,
    /// The operation panics.
    Panic,
    /// The operation returns one response too few.
    MissingResponse,
    /// The device is lost, while the script allows further losses.
    DeviceLost,
    /// The operation passes preemption points until a request with [`Fault::Release`] has run, or it is abandoned.
    Spin,
    Release,
}

/// One request. The response is its number times two.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) key: u32,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) affinity: Option<DeviceId>,
    pub(crate) fault: Fault,
    /// The CPU can read it.
    pub(crate) is_on_host: bool,
    /// Freed after the answer.
    pub(crate) _late: Option<Arc<Late>>,
    /// Let go of before the answer.
    pub(crate) _counted: Option<Arc<()>>,
    pub(crate) script: Arc<Script>,
}

/// Memory that cannot be freed until the gate is open.
#[derive(Debug)]
pub(crate) struct Late(pub(crate) Arc<Script>);

impl Drop for Late {
    fn drop(&mut self) {
        drop(self.0.opened.wait_while(lock(&self.0.gate), |gate| *gate != Gate::Open));
    }
}

/// Behaviour that all requests of a test share.
#[derive(Debug)]
pub(crate) struct Script {
    /// A launch of more items than this runs out of memory.
    pub(crate) oom_above: AtomicU64,
    /// The same, on a GPU.
    pub(crate) gpu_oom_above: AtomicU64,
    /// Number of devices that may still be lost.
    pub(crate) losses: AtomicUsize,
    /// Scope of each loss.
    pub(crate) loss_scope: Mutex<LossScope>,
    /// A request with [`Fault::Release`] has run.
    released: AtomicBool,
    /// The request numbers of each launch so far.
    launches: Mutex<Vec<Vec<u64>>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// Number of launches that reached the gate.
    entered: watch::Sender<usize>,
    gate: Mutex<Gate>,
    opened: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// Closed after this many more launches.
    Closed(usize),
}

impl Default for Script {
    fn default() -> Self {
        Self {
            oom_above: AtomicU64::new(u64::MAX),
            gpu_oom_above: AtomicU64::new(u64::MAX),
            losses: AtomicUsize::new(0),
            loss_scope: Mutex::new(LossScope::Device),
            released: AtomicBool::new(false),
            launches: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            entered: watch::Sender::new(0),
            gate: Mutex::new(Gate::Open),
            opened: Condvar::new(),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A script whose launches wait at the gate until it is opened.
    pub(crate) fn gated() -> Arc<Self> {
        let script = Self::new();
        script.close_gate();
        script
    }

    pub(crate) fn close_gate(&self) {
        *lock(&self.gate) = Gate::Closed(0);
    }

    pub(crate) fn open_gate(&self) {
        *lock(&self.gate) = Gate::Open;
        self.opened.notify_all();
    }

    /// Lets one launch through the closed gate.
    pub(crate) fn let_one_through(&self) {
        *lock(&self.gate) = Gate::Closed(1);
        self.opened.notify_all();
    }

    /// Waits until this many launches have reached the gate.
    pub(crate) async fn entered(&self, launches: usize) {
        let mut entered = self.entered.subscribe();
        entered.wait_for(|count| *count >= launches).await.expect("the script lives");
    }

    /// The request numbers of each launch so far.
    pub(crate) fn launches(&self) -> Vec<Vec<u64>> {
        lock(&self.launches).clone()
    }

    /// Maximum number of launches that ran at once.
    pub(crate) fn most_running(&self) -> usize {
        self.most_running.load(SeqCst)
    }

    /// A request without faults.
    pub(crate) fn request(self: &Arc<Self>, number: u64) -> Request {
        let script = Arc::clone(self);
        Request {
            number,
            key: 0,
            items: 1,
            bytes: 16,
            affinity: None,
            fault: Fault::None,
            is_on_host: true,
            _late: None,
            _counted: None,
            script,
        }
    }

    fn pass_gate(&self) {
        self.most_running.fetch_max(self.running.fetch_add(1, SeqCst) + 1, SeqCst);
        self.entered.send_modify(|count| *count += 1);
        let gate = self.opened.wait_while(lock(&self.gate), |gate| *gate == Gate::Closed(0));
        if let Gate::Closed(left) = &mut *gate.unwrap_or_else(PoisonError::into_inner) {
            *left -= 1;
        }
        self.running.fetch_sub(1, SeqCst);
    }
}

impl<const N: usize> Op for Fake<N> {
    const NAME: &'static str = if N == 0 { "fake" } else { "other" };
    type Request = Request;
    type Response = u64;
    type Key = u32;

    fn key(request: &Request) -> u32 {
        request.key
    }

    fn size(request: &Request) -> Size {
        Size { items: request.items, bytes: request.bytes }
    }

    fn device_affinity(request: &Request) -> Option<DeviceId> {
        request.affinity
    }

    fn cpu_fallback(request: &Request) -> bool {
        request.is_on_host
    }

    fn run(batch: &[&Request], on: &mut Backend) -> Result<Vec<u64>, OpError> {
        let script = &batch[0].script;
        lock(&script.launches).push(batch.iter().map(|request| request.number).collect());
        script.pass_gate();
        assert!(batch.iter().all(|request| request.key == batch[0].key), "keys are not mixed");
        let has = |fault| batch.iter().any(|request| request.fault == fault);
        let device = on.device();
        let items = batch.iter().map(|request| request.items).sum::<u64>();
        let is_lost = || script.losses.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        if has(Fault::DeviceLost) && is_lost() {
            let scope = *lock(&script.loss_scope);
            return Err(OpError::DeviceLost { device, scope, reason: "an illegal address".to_owned() });
        }
        let gpu_oom_above = if device == DeviceId::Cpu { u64::MAX } else { script.gpu_oom_above.load(SeqCst) };
        if items > script.oom_above.load(SeqCst).min(gpu_oom_above) {
            return Err(OpError::OutOfMemory { device, requested: items, free: 0 });
        }
        if has(Fault::Invalid) {
            return Err(OpError::Invalid("poison".to_owned()));
        }
        if has(Fault::Failed) {
            return Err(OpError::Failed { device, kernel: "fake", reason: "it fails".to_owned() });
        }
        assert!(!has(Fault::Panic), "the script says so");
        script.released.fetch_or(has(Fault::Release), SeqCst);
        while has(Fault::Spin) && !script.released.load(SeqCst) {
            on.preemption_point()?;
            std::thread::yield_now();
        }
        let responses = batch.iter().map(|request| request.number * 2);
        Ok(responses.skip(usize::from(has(Fault::MissingResponse))).collect())
    }

    fn release(request: Request) -> Option<Request> {
        Some(Request { _counted: None, ..request })
    }
}

/// CPU devices, which the engine treats as separate devices.
pub(crate) fn devices(count: usize) -> Vec<Device> {
    let settings = Settings { choice: Choice::Cpu, cpu_threads: 1, ..Settings::default() };
    let one = || discover(&settings).expect("a CPU is always there").devices;
    (0..count).flat_map(|_| one()).collect()
}

/// CPU pools in the place of `gpus` GPUs, then the CPU.
pub(crate) fn stand_ins(gpus: u32) -> Vec<Device> {
    let one = |id| Device::Cpu(Pool::stand_in(id, 1).expect("a thread"));
    (0..gpus).map(|ordinal| one(DeviceId::Cuda(ordinal))).chain([one(DeviceId::Cpu)]).collect()
}

pub(crate) fn engine_config() -> EngineConfig {
    EngineConfig {
        cuda_workers: 1,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 10_000,
        max_bytes: 1 << 20,
        cpu_slice: Duration::from_secs(3600),
        cuda_slice: Duration::from_millis(5),
        hang_timeout: Duration::from_secs(60),
        memory_retry: Duration::ZERO,
    }
}

/// An engine of one device with one worker.
pub(crate) fn engine() -> Engine {
    engine_with(1, engine_config())
}

pub(crate) fn engine_with(device_count: usize, config: EngineConfig) -> Engine {
    Engine::start(devices(device_count), config).expect("the CPU opens")
}

pub(crate) fn lane_config() -> LaneConfig {
    LaneConfig {
        max_batch_items: 64,
        max_batch_bytes: 1 << 20,
        gpu_max_batch_bytes: 1 << 20,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: Duration::from_secs(3600),
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: Duration::from_secs(3600),
    }
}

pub(crate) type Outcome = Result<Completion<u64>, SubmitError>;

/// Submits a request in a new task.
pub(crate) fn spawn<const N: usize>(lane: &Lane<Fake<N>>, request: Request) -> JoinHandle<Outcome> {
    spawn_with(lane, request, Context::default())
}

pub(crate) fn spawn_with<const N: usize>(
    lane: &Lane<Fake<N>>,
    request: Request,
    context: Context,
) -> JoinHandle<Outcome> {
    let lane = lane.clone();
    tokio::spawn(async move { lane.submit(request, context).await })
}

/// Yields until a condition holds.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// Waits until `count` requests are queued.
pub(crate) async fn queued<const N: usize>(lane: &Lane<Fake<N>>, count: usize) {
    until(|| lane.queue_len() == count).await;
}

/// Submits a request and waits until it reaches the closed gate.
pub(crate) async fn block<const N: usize>(lane: &Lane<Fake<N>>, script: &Arc<Script>) -> JoinHandle<Outcome> {
    let blocker = spawn(lane, Request { key: u32::MAX, ..script.request(1_000_000) });
    script.entered(1).await;
    blocker
}

/// The response of a request that must have been answered.
pub(crate) async fn response(task: JoinHandle<Outcome>) -> u64 {
    task.await.expect("no panic").expect("it is answered").response
}

/// The error of a request that must have failed.
pub(crate) async fn error(task: JoinHandle<Outcome>) -> SubmitError {
    task.await.expect("no panic").expect_err("it fails")
}

/// An instant by the runtime's clock, which may be paused.
pub(crate) fn in_future(after: Duration) -> Instant {
    tokio::time::Instant::now().into_std() + after
}
