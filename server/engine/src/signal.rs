//! Wakes the workers of a device when there is something for them.
//!
//! A worker reads the epoch, looks at every queue, and goes to sleep only if the epoch is still the same: whatever was
//! queued after it had looked has moved the epoch. Whoever queues moves the epoch, then looks for sleepers. Either the
//! worker sees the new epoch or the other sees the sleeper; each being awake costs neither a lock nor a system call.

use std::time::Instant;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

/// What the workers of one device sleep on.
pub(crate) struct Signal {
    epoch: AtomicU64,
    /// `Sleep::asleep`, readable without the lock.
    sleepers: AtomicUsize,
    sleep: Mutex<Sleep>,
    wake: Condvar,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Sleep {
    /// Workers asleep that nobody has called yet.
    asleep: usize,
    /// Calls that no worker has answered yet.
    calls: usize,
}

impl Signal {
    /// Nobody sleeps.
    pub(crate) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(Sleep::default()),
            wake: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// To be read before looking for work.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Wakes one sleeper, if there is one; a worker that is about to sleep looks again.
    pub(crate) fn notify(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // Against the fence in `sleep`: of two threads that each write, pass the fence and read what the other wrote, at
        // least one sees it.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut sleep = lock(&self.sleep);
        if sleep.asleep > 0 {
            self.set_asleep(&mut sleep, |asleep| asleep - 1);
            sleep.calls += 1;
            // Let go first: the sleeper would wake only to wait for the lock. Whoever answers the call looks at every queue.
            drop(sleep);
            self.wake.notify_one();
        }
    }

    /// Tells all workers to end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    /// Wakes every sleeper; workers that are about to sleep look again.
    pub(crate) fn notify_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let mut sleep = lock(&self.sleep);
        sleep.calls += sleep.asleep;
        self.set_asleep(&mut sleep, |_| 0);
        self.wake.notify_all();
    }

    /// Whether the workers are to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Sleeps until something may have changed since the epoch was read, or until an instant. May wake for nothing.
    pub(crate) fn sleep(&self, seen: u64, until: Option<Instant>) {
        let mut sleep = lock(&self.sleep);
        self.set_asleep(&mut sleep, |asleep| asleep + 1);
        fence(Ordering::SeqCst);
        if self.epoch() == seen {
            sleep = self.wait(sleep, until);
        }
        if sleep.calls > 0 {
            sleep.calls -= 1;
        } else {
            // Nobody called: it is still counted as asleep.
            self.set_asleep(&mut sleep, |asleep| asleep - 1);
        }
    }

    fn wait<'a>(
        &self,
        sleep: crate::sync::MutexGuard<'a, Sleep>,
        until: Option<Instant>,
    ) -> crate::sync::MutexGuard<'a, Sleep> {
        use std::sync::PoisonError;
        match until {
            None => self.wake.wait(sleep).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.wake.wait_timeout(sleep, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn set_asleep(&self, sleep: &mut Sleep, change: impl FnOnce(usize) -> usize) {
        sleep.asleep = change(sleep.asleep);
        self.sleepers.store(sleep.asleep, Ordering::SeqCst);
    }
}
