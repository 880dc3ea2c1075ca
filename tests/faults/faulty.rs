//! An operation that loses its GPU or never ends there, and devices for it.

use accelerd_engine::{Context, Engine, LaneConfig};
use accelerd_kernels::{Backend, Device, DeviceId, Discovered, LossScope, Op, OpError, Size, cpu::Pool};

/// What a request does on a GPU. The CPU answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A kernel's error that ends CUDA in the process.
    StickyError,
    /// A kernel that never ends.
    Hang,
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
        let device = on.device();
        if device == DeviceId::Cpu {
            return Ok(vec![(); batch.len()]);
        }
        if batch.contains(&&Fault::StickyError) {
            let reason = "download after kernel faulty: illegal address".to_owned();
            return Err(OpError::DeviceLost { device, scope: LossScope::Cuda, reason });
        }
        loop {
            std::thread::park();
        }
    }
}

/// Two CPU pools in the place of GPUs, then the CPU.
pub(crate) fn devices() -> Discovered {
    let one = |id| Device::Cpu(Pool::stand_in(id, 1).expect("a thread"));
    Discovered { devices: [DeviceId::Cuda(0), DeviceId::Cuda(1), DeviceId::Cpu].map(one).into(), fallback: None }
}

/// Submits a request; the future is ready once it is answered.
pub(crate) fn submit(engine: &Engine, fault: Fault) -> impl Future<Output = ()> + Send + use<> {
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
    async move {
        // A hang is answered with an error.
        let _answered = lane.submit(fault, Context::default()).await;
    }
}

/// The fault that a variable of the environment names.
pub(crate) fn from_environment(variable: &str) -> Option<Fault> {
    match std::env::var(variable).ok()?.as_str() {
        "sticky" => Some(Fault::StickyError),
        "hang" => Some(Fault::Hang),
        other => panic!("{variable} is {other:?}, expected sticky or hang"),
    }
}
