//! Failed accepts, which usually mean that file descriptors are exhausted.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::time::sleep;

/// Pause after a failed accept.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Minimum time between two warnings of a listener.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The failed accepts of a listener, of which few are logged.
#[derive(Debug, Default)]
pub(crate) struct AcceptFailures {
    logged: Option<Instant>,
    /// Since the last warning.
    count: u64,
}

impl AcceptFailures {
    /// Records a failure, and waits before the next accept.
    pub(crate) async fn record(&mut self, error: &io::Error) {
        if let Some(failures) = self.count(Instant::now()) {
            tracing::warn!(%error, failures, "accept failed");
        }
        sleep(RETRY_DELAY).await;
    }

    /// Counts a failure. If a warning is due, returns the number of failures since the last one.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.logged.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_are_logged_once_an_interval_with_their_number() {
        let mut failures = AcceptFailures::default();
        let begin = Instant::now();
        let logged: Vec<_> = (0..500).filter_map(|nth| failures.count(begin + RETRY_DELAY * nth)).collect();
        assert_eq!(logged, [1, 200, 200]);
    }
}
