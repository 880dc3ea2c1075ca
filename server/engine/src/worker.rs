//! The threads of a device: each opens a backend that never leaves it, then runs batches until it is told to end.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use accelerd_kernels::{DeviceId, OpError};

use crate::device::{Bench, Desk, Turn};

/// Starts a worker. It reports over `opened` once whether its backend could be opened, and ends at once if not.
pub(crate) fn spawn(
    desk: &Arc<Desk>,
    number: usize,
    opened: mpsc::Sender<Result<(), OpError>>,
) -> io::Result<JoinHandle<()>> {
    let desk = Arc::clone(desk);
    thread::Builder::new().name(format!("{}-{number}", desk.id())).spawn(move || {
        let (backend, report) = match desk.device().open() {
            Ok(backend) => (Some(backend), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Nobody listens any more if another worker failed; then this one is told to end as well.
        let _ = opened.send(report);
        drop(opened);
        if let Some(backend) = backend {
            work(&mut Bench { desk, backend }, number);
        }
    })
}

/// Runs batches until the device is lost or the engine ends.
fn work(bench: &mut Bench, number: usize) {
    let desk = Arc::clone(&bench.desk);
    let (signal, mut broom) = (&desk.signal, desk.tidying.broom(number));
    loop {
        let seen = signal.epoch();
        if signal.is_stopped() {
            return;
        }
        broom.sweep(&bench.backend);
        match Desk::round(bench) {
            Turn::Ran => {}
            Turn::WaitUntil(until) => signal.sleep(seen, Some(until)),
            Turn::Nothing => signal.sleep(seen, None),
        }
        // Where cores are scarce, those who queue run first, and the next batch has more. A GPU is not kept waiting.
        if desk.id() == DeviceId::Cpu {
            thread::yield_now();
        }
    }
}
