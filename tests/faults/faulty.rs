//! An operation that loses its GPU or never ends there, and devices for it.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
};

use accelerd_engine::{Context, Engine, LaneConfig};
use accelerd_kernels::{
    Backend, Device, DeviceId, Discovered, LossScope, Op, OpError, Size,
    cpu::Pool,
    cuda::{self, Args, Grid, Kernel, Module, Source},
    ops,
};

/// Logged once the launch that never ends runs.
pub(crate) const RUNS: &str = "the faulty launch runs";

/// Kernels that end as [`Fault`] says.
static MODULE: Module = Module {
    name: "faulty",
    source: Source { path: "faulty.cu", text: include_str!("faulty.cu") },
    headers: &[],
    defines: &[],
    kernels: &[ACCESS_ILLEGAL_ADDRESS, NEVER_END],
};
pub(crate) const ACCESS_ILLEGAL_ADDRESS: Kernel = Kernel { name: "access_illegal_address", params: &[8] };
const NEVER_END: Kernel = Kernel { name: "never_end", params: &[8] };

/// The fault of a request on a GPU. The CPU answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A kernel's error that ends CUDA in the process.
    StickyError,
    /// A kernel that never ends.
    Hang,
}

impl Fault {
    /// Its name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StickyError => "sticky_error",
            Self::Hang => "hang",
        }
    }

    /// The fault with a name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::StickyError, Self::Hang].into_iter().find(|fault| fault.name() == name)
    }
}

/// The GPUs of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gpus {
    /// CPU pools in their place: their number.
    StandIns(u32),
    /// The first GPUs of this machine: their number.
    Real(u32),
}

impl Gpus {
    /// The number of GPUs.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::StandIns(count) | Self::Real(count) => count,
        }
    }

    /// Opens them, and the CPU pool.
    pub(crate) fn open(self, config: &accelerd::Config) -> Result<Discovered, String> {
        let pool = Pool::start(1)?;
        let mut devices = match self {
            Self::StandIns(count) => stand_ins(count)?,
            Self::Real(count) => {
                let settings = accelerd_kernels::Settings { cuda_ordinals: (0..count).collect(), ..config.devices() };
                let modules = [ops::modules(), vec![&MODULE]].concat();
                cuda::discover(&settings, &modules, &pool)?.into_iter().map(Device::Cuda).collect()
            }
        };
        devices.push(Device::Cpu(pool));
        Ok(Discovered { devices, fallback: None })
    }
}

fn stand_ins(count: u32) -> Result<Vec<Device>, String> {
    (0..count).map(|ordinal| Pool::stand_in(DeviceId::Cuda(ordinal), 1).map(Device::Cpu)).collect()
}

struct Faulty;

impl Op for Faulty {
    const NAME: &'static str = "faulty";
    type Request = Fault;
    type Response = ();
    type Key = ();

    fn key(_: &Fault) {}

    fn size(_: &Fault) -> Size {
        Size { items: 1, bytes: 1 }
    }

    fn run(batch: &[&Fault], on: &mut Backend) -> Result<Vec<()>, OpError> {
        for fault in batch {
            match on {
                Backend::Cuda(worker) => launch(**fault, worker)?,
                Backend::Cpu(_) if on.device() == DeviceId::Cpu => {}
                Backend::Cpu(_) => imitate(**fault, on.device())?,
            }
        }
        Ok(vec![(); batch.len()])
    }
}

fn launch(fault: Fault, worker: &cuda::Worker) -> Result<(), OpError> {
    let flag = worker.alloc_zeroed::<u32>(1)?;
    match fault {
        Fault::StickyError => {
            worker.launch(&ACCESS_ILLEGAL_ADDRESS, Grid::x(1), 1, 0, &mut Args::new().null())?;
        }
        Fault::Hang => {
            worker.launch(&NEVER_END, Grid::x(1), 1, 0, &mut Args::new().ptr(flag.ptr()))?;
            log_that_it_runs();
        }
    }
    worker.synchronize()
}

/// Fails in the place of a kernel.
fn imitate(fault: Fault, device: DeviceId) -> Result<(), OpError> {
    match fault {
        Fault::StickyError => {
            let reason = format!("synchronize after kernel {}: illegal address", ACCESS_ILLEGAL_ADDRESS.name);
            Err(OpError::DeviceLost { device, scope: LossScope::Cuda, reason })
        }
        Fault::Hang => {
            log_that_it_runs();
            loop {
                std::thread::park();
            }
        }
    }
}

fn log_that_it_runs() {
    eprintln!("{{\"message\":\"{RUNS}\"}}");
}

/// Submits a request; the future is ready once it is answered.
pub(crate) fn submit(engine: &Engine, fault: Fault) -> impl Future<Output = Result<(), String>> + Send + use<> {
    let lane = engine.lane::<Faulty>(LaneConfig {
        max_batch_items: 1,
        max_batch_bytes: 1 << 20,
        gpu_max_batch_bytes: 1 << 20,
        max_wait: std::time::Duration::ZERO,
        concurrency: 1,
        max_age: std::time::Duration::from_secs(1),
        max_batch_time: std::time::Duration::from_secs(3600),
        cpu_max_bytes: 0,
        large_request_bytes: 0,
    });
    async move { lane.submit(fault, Context::default()).await.map(drop).map_err(|error| error.to_string()) }
}

/// The memory of GPUs, which a test can hold.
pub(crate) struct Memory(Vec<Holder>);

enum Holder {
    StandIn(Arc<Pool>),
    /// A thread that holds the memory of a GPU while the last message is true. It reports each change.
    Gpu {
        hold: mpsc::Sender<bool>,
        changed: Mutex<mpsc::Receiver<()>>,
    },
}

impl Memory {
    /// That of the GPUs among these devices.
    pub(crate) fn of(devices: &[Device]) -> Self {
        let gpus = devices.iter().filter(|device| device.id() != DeviceId::Cpu);
        Self(gpus.map(|device| Holder::of(device.clone())).collect())
    }

    /// Holds it, or frees it. Returns when that is done.
    pub(crate) fn set_held(&self, is_held: bool) {
        for holder in &self.0 {
            match holder {
                Holder::StandIn(pool) => pool.set_full(is_held),
                Holder::Gpu { hold, changed } => {
                    hold.send(is_held).expect("the thread runs");
                    changed.lock().expect("not poisoned").recv().expect("the thread runs");
                }
            }
        }
    }
}

impl Holder {
    fn of(device: Device) -> Self {
        if let Device::Cpu(pool) = device {
            return Self::StandIn(pool);
        }
        let (hold, asked) = mpsc::channel();
        let (report, changed) = mpsc::channel();
        thread::spawn(move || {
            let Ok(Backend::Cuda(worker)) = device.open() else { panic!("the GPU opens") };
            let mut held = vec![];
            for is_held in asked {
                held.clear();
                if is_held {
                    held = allocate_all(&worker);
                }
                worker.trim().expect("the stream is idle");
                report.send(()).expect("the test waits");
            }
        });
        Self::Gpu { hold, changed: Mutex::new(changed) }
    }
}

/// Allocates nearly all memory of a GPU.
fn allocate_all(worker: &cuda::Worker) -> Vec<cuda::Buffer<u8>> {
    const PIECES: [usize; 2] = [1 << 30, 64 << 20];
    let mut held = vec![];
    for piece in PIECES {
        held.extend(std::iter::from_fn(|| worker.alloc(piece).ok()));
    }
    held
}
