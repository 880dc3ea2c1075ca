//! The worker threads of a device: each opens its own backend, which never leaves the thread, and runs batches until it is
//! stopped.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use accelerd_kernels::{DeviceId, OpError};

use crate::device::{DeviceQueues, PollOutcome, WorkerContext};

/// Starts a worker. It reports once over `opened` whether its backend could be opened, and stops if not.
pub(crate) fn spawn(
    device: &Arc<DeviceQueues>,
    number: usize,
    opened: mpsc::Sender<Result<(), OpError>>,
) -> io::Result<JoinHandle<()>> {
    let device = Arc::clone(device);
    thread::Builder::new().name(format!("{}-{number}", device.id())).spawn(move || {
        let (backend, report) = match device.handle().open() {
            Ok(backend) => (Some(backend), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The receiver is gone if another worker failed; then this one is about to be stopped as well.
        let _ = opened.send(report);
        drop(opened);
        if let Some(backend) = backend {
            work(&mut WorkerContext { device, backend }, number);
        }
    })
}

/// Runs batches until the device is lost or the engine stops.
fn work(worker: &mut WorkerContext, number: usize) {
    let device = Arc::clone(&worker.device);
    let (signal, mut trim) = (&device.signal, device.trim_signal.listener(number));
    loop {
        let seen = signal.epoch();
        if signal.is_stopped() {
            return;
        }
        trim.trim_if_requested(&worker.backend);
        match DeviceQueues::poll(worker) {
            PollOutcome::Ran => {}
            PollOutcome::WaitUntil(until) => signal.sleep(seen, Some(until)),
            PollOutcome::Idle => signal.sleep(seen, None),
        }
        // Where cores are scarce, callers get to run and fill the next batch. A GPU is not kept waiting.
        if device.id() == DeviceId::Cpu {
            thread::yield_now();
        }
    }
}
