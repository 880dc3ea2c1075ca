//! Finds launches that do not end. A GPU whose launch or slice exceeds the limit is lost alone: its callers are answered, and
//! its queues are rerouted. The stuck thread is left behind; should it return, its results are discarded.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use accelerd_kernels::DeviceId;

use crate::{
    device::DeviceQueues,
    loss::{DeviceLoss, LossCause},
    running::Running,
    shared::Shared,
};

/// Bounds of the time between two checks.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// The watchdog's thread; stopped on drop.
pub(crate) struct Watchdog {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Watchdog {
    /// Checks all workers of the engine from now on.
    pub(crate) fn start(shared: Weak<Shared>, limit: Duration) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let seen = Arc::clone(&stop);
        let interval = (limit / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let watch = move || {
            while !seen.wait(interval) {
                let Some(shared) = shared.upgrade() else { return };
                check(&shared, Instant::now(), limit);
            }
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let thread = self.thread.take();
        // The last owner of the engine's state may be a check, which then drops it on this thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It has nothing to report, and takes no lock for long.
            let _panicked = thread.join();
        }
    }
}

impl Stop {
    /// Waits for `interval`; returns whether the watchdog is to stop.
    fn wait(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, interval, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Handles batches that have been running for longer than `limit` at the time `now`.
pub(crate) fn check(shared: &Shared, now: Instant, limit: Duration) {
    for device in &shared.devices {
        for running in &device.running {
            match device.id() {
                DeviceId::Cpu => warn_if_slow(running, now, limit),
                DeviceId::Cuda(_) => lose_if_hung(shared, device, running, now, limit),
            }
        }
    }
}

/// A CPU that is slow is not lost: its work ends at some time.
fn warn_if_slow(running: &Running, now: Instant, limit: Duration) {
    if let Some(slow) = running.warn_overdue(now, limit) {
        tracing::warn!(lane = slow.lane, requests = slow.requests, elapsed = ?slow.elapsed, "a batch on the CPU is slow");
    }
}

fn lose_if_hung(shared: &Shared, device: &DeviceQueues, running: &Running, now: Instant, limit: Duration) {
    let Some((hung, answer_callers)) = running.give_up_overdue(now, limit) else { return };
    let reason = format!("{hung}, expected at most {limit:?}");
    shared.lose(device, &DeviceLoss { device: device.id(), cause: LossCause::Hang, lane: hung.lane, reason });
    if let Some(answer_callers) = answer_callers {
        answer_callers(&device.lost_error());
    }
}
