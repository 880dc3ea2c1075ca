//! The worker threads of a device: each opens its own backend, which never leaves the thread, and runs batches until it is
//! stopped.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use accelerd_kernels::{DeviceId, OpError};

use crate::{
    device::{DeviceQueues, PollOutcome, WorkerContext},
    running::Running,
};

/// Counts the workers whose threads have ended.
#[derive(Default)]
pub(crate) struct Ended {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Ended {
    /// Waits until `count` workers have ended, for at most `limit`.
    pub(crate) fn wait(&self, count: usize, limit: Duration) {
        let ended = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        // Each worker says itself whether it has ended.
        let _timed_out = self.changed.wait_timeout_while(ended, limit, |ended| *ended < count);
    }
}

/// Reports the end of a worker on drop, whether it returned or panicked.
struct EndGuard {
    running: Arc<Running>,
    ended: Arc<Ended>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.running.end_thread();
        *self.ended.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.ended.changed.notify_all();
    }
}

/// Starts a worker. It reports once over `opened` whether its backend could be opened, and stops if not.
pub(crate) fn spawn(
    device: &Arc<DeviceQueues>,
    number: usize,
    opened: mpsc::Sender<Result<(), OpError>>,
    ended: &Arc<Ended>,
) -> io::Result<JoinHandle<()>> {
    let running = Arc::clone(&device.running[number]);
    let device = Arc::clone(device);
    let guard = EndGuard { running: Arc::clone(&running), ended: Arc::clone(ended) };
    thread::Builder::new().name(format!("{}-{number}", device.id())).spawn(move || {
        let _guard = guard;
        let short_only = device.workers.has_short_only && number + 1 == device.workers.total;
        let (worker, report) = match WorkerContext::open(device, running, short_only) {
            Ok(worker) => (Some(worker), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The receiver is gone if another worker failed; then this one is about to be stopped as well.
        let _ = opened.send(report);
        drop(opened);
        if let Some(mut worker) = worker {
            work(&mut worker, number);
        }
    })
}

/// Runs batches until the device is lost or the engine stops.
fn work(worker: &mut WorkerContext, number: usize) {
    let device = Arc::clone(&worker.device);
    let short_only = device.signals.short_only.as_ref().filter(|_| worker.short_only);
    let signal = short_only.unwrap_or(&device.signals.any);
    let mut trim = device.trim_signal.listener(number);
    loop {
        let seen = signal.epoch();
        if signal.is_stopped() {
            return;
        }
        trim.trim_if_requested(&worker.backend, &worker.running);
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
