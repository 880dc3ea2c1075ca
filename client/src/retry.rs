//! Retry policy.

use std::time::Duration;

use tonic::Code;

use crate::error::Failure;

/// Which failed calls are retried, and when.
///
/// `Unavailable` is retried, and `ResourceExhausted` with RetryInfo. A call that is not idempotent, such as the creation of
/// a collection, is retried only with RetryInfo, because then the daemon did not execute it. A retry that cannot start
/// before the deadline is not made.
///
/// The backoff is exponential with full jitter (Brooker, "Exponential Backoff And Jitter", 2015).
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Maximum attempts per call; 1 disables retries.
    pub max_attempts: u32,
    /// Maximum of the first backoff.
    pub first_wait: Duration,
    /// Maximum of any backoff.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, first_wait: Duration::from_millis(50), max_wait: Duration::from_secs(2) }
    }
}

impl RetryPolicy {
    /// Disables retries.
    pub const NEVER: Self = Self { max_attempts: 1, first_wait: Duration::ZERO, max_wait: Duration::ZERO };

    /// Time until the next attempt; `None` if the failure is final. `jitter` is in 0..1.
    pub(crate) fn wait(&self, failure: &Failure, idempotent: bool, jitter: f64) -> Option<Duration> {
        let hinted = failure.retry_after.is_some();
        let may_retry = (failure.code == Code::Unavailable && (idempotent || hinted))
            || (failure.code == Code::ResourceExhausted && hinted);
        let bound = self.first_wait.saturating_mul(1 << (failure.attempts - 1).min(20)).min(self.max_wait);
        (may_retry && failure.attempts < self.max_attempts)
            .then(|| failure.retry_after.unwrap_or_default() + bound.mul_f64(jitter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: Code, retry_after: Option<Duration>, attempts: u32) -> Failure {
        Failure {
            code,
            message: String::new(),
            violations: vec![],
            retry_after,
            resource: None,
            attempts,
            reason: String::new(),
            metadata: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn only_unavailable_and_hinted_exhaustion_are_retried() {
        let policy = RetryPolicy::default();
        let hint = Some(Duration::from_millis(7));
        for code in (0..17).map(Code::from_i32) {
            let retried = policy.wait(&failure(code, None, 1), true, 0.5).is_some();
            assert_eq!(retried, code == Code::Unavailable, "{code:?}");
            let retried = policy.wait(&failure(code, hint, 1), true, 0.5).is_some();
            assert_eq!(retried, matches!(code, Code::Unavailable | Code::ResourceExhausted), "{code:?} with a hint");
        }
    }

    #[test]
    fn a_call_that_must_not_run_twice_needs_a_hint() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(&failure(Code::Unavailable, None, 1), false, 0.0), None);
        let hint = Duration::from_millis(7);
        assert_eq!(policy.wait(&failure(Code::Unavailable, Some(hint), 1), false, 0.0), Some(hint));
    }

    #[test]
    fn waits_double_up_to_their_bound_and_attempts_end() {
        let policy = RetryPolicy {
            max_attempts: 6,
            first_wait: Duration::from_millis(100),
            max_wait: Duration::from_millis(500),
        };
        let waits = (1..=6).map(|n| policy.wait(&failure(Code::Unavailable, None, n), true, 1.0));
        let millis: Vec<_> = waits.map(|w| w.map(|w| w.as_millis())).collect();
        assert_eq!(millis, [Some(100), Some(200), Some(400), Some(500), Some(500), None]);
    }

    #[test]
    fn a_hint_is_a_lower_bound_of_the_wait() {
        let policy = RetryPolicy::default();
        let hint = Duration::from_millis(300);
        let wait = policy.wait(&failure(Code::ResourceExhausted, Some(hint), 1), true, 0.5);
        assert_eq!(wait, Some(hint + policy.first_wait / 2));
    }
}
