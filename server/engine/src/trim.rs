//! Asks the workers of a device to free the memory that they hold but do not use.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use accelerd_kernels::Backend;
use tokio::sync::watch;

use crate::running::Running;

/// Counts the requests to trim, and those that each worker has carried out.
pub(crate) struct TrimSignal {
    requested: AtomicU64,
    /// By worker; `u64::MAX` once the worker has stopped.
    completed: watch::Sender<Vec<u64>>,
}

/// One worker's side of the signal. Dropped when the worker stops.
pub(crate) struct TrimListener<'a> {
    signal: &'a TrimSignal,
    worker: usize,
    completed: u64,
}

impl TrimSignal {
    pub(crate) fn new(workers: usize) -> Self {
        Self { requested: AtomicU64::new(0), completed: watch::Sender::new(vec![0; workers]) }
    }

    /// Requests a trim; the caller wakes the workers. The future is ready once each of them has trimmed or stopped.
    pub(crate) fn request(&self) -> impl Future<Output = ()> + Send + use<> {
        let requested = self.requested.fetch_add(1, SeqCst) + 1;
        let mut completed = self.completed.subscribe();
        async move {
            // An error means that the sender is dropped: the engine and all workers have stopped.
            let _stopped = completed.wait_for(|all| all.iter().all(|done| *done >= requested)).await;
        }
    }

    pub(crate) fn listener(&self, worker: usize) -> TrimListener<'_> {
        TrimListener { signal: self, worker, completed: 0 }
    }

    /// Lets nobody wait for the workers any more: the device is lost, and one of them may hang.
    pub(crate) fn release(&self) {
        self.completed.send_modify(|all| all.fill(u64::MAX));
    }

    fn set_completed(&self, worker: usize, completed: u64) {
        self.completed.send_modify(|all| all[worker] = all[worker].max(completed));
    }
}

impl TrimListener<'_> {
    /// Trims the backend if that was requested since the last call.
    pub(crate) fn trim_if_requested(&mut self, backend: &Backend, running: &Running) {
        let requested = self.signal.requested.load(SeqCst);
        if requested == self.completed {
            return;
        }
        let _guard = running.begin("trim", 0, None);
        if let Err(error) = backend.trim() {
            // The next batch reports whatever is wrong with the device.
            tracing::warn!(device = %backend.device(), %error, "memory could not be trimmed");
        }
        self.completed = requested;
        self.signal.set_completed(self.worker, requested);
    }
}

impl Drop for TrimListener<'_> {
    fn drop(&mut self) {
        self.signal.set_completed(self.worker, u64::MAX);
    }
}
