//! Wakes the workers of a device: an event count.
//!
//! A worker reads the epoch, polls every queue, and sleeps only if the epoch is unchanged. A producer queues,
//! increments the epoch, then checks for sleepers. Either the worker sees the new epoch or the producer sees the
//! sleeper, so no wake-up is lost. While all workers are awake, neither side takes a lock or makes a system call.

use std::time::Instant;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

/// The workers of one device: most run any batch, and one may run short batches only.
pub(crate) struct Signals {
    pub(crate) any: Signal,
    pub(crate) short_only: Option<Signal>,
}

/// Work that a signal announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// For any worker.
    Ordinary,
    /// For workers that run any batch.
    Large,
}

impl Signals {
    pub(crate) fn new(has_short_only: bool) -> Self {
        Self { any: Signal::new(), short_only: has_short_only.then(Signal::new) }
    }

    /// Wakes one sleeping worker that may do the work, if there is one.
    pub(crate) fn notify(&self, work: Work) {
        if !self.any.notify()
            && work == Work::Ordinary
            && let Some(short_only) = &self.short_only
        {
            short_only.notify();
        }
    }

    /// Wakes all workers.
    pub(crate) fn notify_all(&self) {
        self.each(Signal::notify_all);
    }

    /// Stops all workers.
    pub(crate) fn stop(&self) {
        self.each(Signal::stop);
    }

    fn each(&self, call: impl Fn(&Signal)) {
        call(&self.any);
        self.short_only.iter().for_each(call);
    }
}

/// Workers sleep on this.
pub(crate) struct Signal {
    epoch: AtomicU64,
    /// Copy of `Sleep::asleep`, readable without the lock.
    sleepers: AtomicUsize,
    sleep: Mutex<Sleep>,
    wake: Condvar,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Sleep {
    /// Sleeping workers that have not been notified.
    asleep: usize,
    /// Notifications that no worker has consumed yet.
    notified: usize,
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(Sleep::default()),
            wake: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// The epoch, to be read before polling the queues.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Wakes one sleeper, if any, and returns whether there was one. A worker that is about to sleep polls again.
    pub(crate) fn notify(&self) -> bool {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `sleep`: each side writes its variable, then reads the other's, so that at least one
        // of them sees the other's write.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut sleep = lock(&self.sleep);
        let wakes = sleep.asleep > 0;
        if wakes {
            self.set_asleep(&mut sleep, |asleep| asleep - 1);
            sleep.notified += 1;
            // Unlock first: the woken worker would wait for the lock. Any worker may consume the notification, since
            // each polls every queue.
            drop(sleep);
            self.wake.notify_one();
        }
        wakes
    }

    /// Stops all workers.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    /// Wakes every sleeper. Workers that are about to sleep poll again.
    pub(crate) fn notify_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let mut sleep = lock(&self.sleep);
        sleep.notified += sleep.asleep;
        self.set_asleep(&mut sleep, |_| 0);
        self.wake.notify_all();
    }

    /// Returns true if the workers must stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Sleeps while the epoch is `seen`, at most `until` an instant. May wake spuriously.
    pub(crate) fn sleep(&self, seen: u64, until: Option<Instant>) {
        let mut sleep = lock(&self.sleep);
        self.set_asleep(&mut sleep, |asleep| asleep + 1);
        fence(Ordering::SeqCst);
        if self.epoch() == seen {
            sleep = self.wait(sleep, until);
        }
        if sleep.notified > 0 {
            sleep.notified -= 1;
        } else {
            // Not notified: this worker is still counted as asleep.
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
