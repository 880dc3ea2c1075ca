//! Memory that requests and models left behind on a device: its workers give it back when they are told that there is some.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use accelerd_kernels::Backend;
use tokio::sync::watch;

/// How often the workers of a device were told, and how often each of them has done so.
pub(crate) struct Tidying {
    told: AtomicU64,
    /// By worker; one that has ended has nothing left.
    done: watch::Sender<Vec<u64>>,
}

/// A worker's part in it. Dropped when the worker ends.
pub(crate) struct Broom<'a> {
    tidying: &'a Tidying,
    number: usize,
    done: u64,
}

impl Tidying {
    /// Of so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { told: AtomicU64::new(0), done: watch::Sender::new(vec![0; workers]) }
    }

    /// Tells the workers, who are to be woken. What comes back is ready once each of them has given back what it held, or
    /// has ended.
    pub(crate) fn tell(&self) -> impl Future<Output = ()> + Send + use<> {
        let told = self.told.fetch_add(1, SeqCst) + 1;
        let mut done = self.done.subscribe();
        async move {
            // With the sender the engine is gone, and all workers with it.
            let _gone = done.wait_for(|done| done.iter().all(|done| *done >= told)).await;
        }
    }

    /// For the worker of this number.
    pub(crate) fn broom(&self, number: usize) -> Broom<'_> {
        Broom { tidying: self, number, done: 0 }
    }

    fn set_done(&self, number: usize, done: u64) {
        self.done.send_modify(|all| all[number] = done);
    }
}

impl Broom<'_> {
    /// Gives back what is left behind, if somebody said since the last time that there is something.
    pub(crate) fn sweep(&mut self, backend: &Backend) {
        let told = self.tidying.told.load(SeqCst);
        if told == self.done {
            return;
        }
        if let Err(error) = backend.give_back() {
            // Whatever ails the device, its next batch says so.
            tracing::warn!(device = %backend.device(), %error, "memory could not be given back");
        }
        self.done = told;
        self.tidying.set_done(self.number, told);
    }
}

impl Drop for Broom<'_> {
    fn drop(&mut self) {
        self.tidying.set_done(self.number, u64::MAX);
    }
}
