//! Tells a service manager, such as systemd, what the daemon does: `Type=notify-reload`, and its watchdog.
//!
//! Without the environment variable `NOTIFY_SOCKET` nothing is sent. The variables stay set for the daemon that this process may execute
//! after the loss of its GPUs.

use std::{io, time::Duration};

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use crate::health::Reporter;

/// Tells that the daemon serves.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells that settings and credentials are being read again; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => failed(&error),
    }
}

/// Tells that the daemon drains and then exits.
pub(crate) fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Tells the watchdog, twice in its time, that the daemon is live. It restarts one that is not, as Kubernetes does.
pub(crate) async fn keep_alive(health: Reporter) {
    let Some(limit) = watchdog() else { return };
    let mut ticks = interval(limit / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if health.now().live {
            send(&[NotifyState::Watchdog]);
        }
    }
}

/// Time in which the watchdog expects a message of this process, if it does.
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero())
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        failed(&error);
    }
}

fn failed(error: &io::Error) {
    tracing::warn!(%error, "the service manager was not notified");
}
