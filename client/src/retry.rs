//! Which failed calls are retried, and when.

use std::{error::Error as StdError, time::Duration};

use tokio::time::Instant;
use tonic::{Code, ConnectError, Status};

use crate::{Result, error::Failure, retry_budget::RetryBudget};

/// Time for which a call without a deadline is retried, from its first failure.
const WITHOUT_DEADLINE: Duration = Duration::from_secs(60);

/// Which failed calls are retried, and when.
///
/// Calls are retried until their deadline, and streams, which have none, for a minute. `Unavailable` is retried, which includes broken
/// connections, and `ResourceExhausted` with RetryInfo. A call that is not idempotent, such as the creation of a collection, is retried only
/// where the daemon did not execute it: with RetryInfo, or if no connection could be made. A retry that cannot start before the
/// deadline is not made.
///
/// The backoff is exponential with full jitter (Brooker, "Exponential Backoff And Jitter", 2015), after the delay of RetryInfo.
/// A client and its clones share a budget of retries of a fifth of their calls, or one a second if that is more; retries beyond it
/// wait. Attempts that reach no daemon are free.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Maximum attempts per call; 1 disables retries. By default only the deadline bounds them.
    pub max_attempts: u32,
    /// Maximum of the first backoff.
    pub first_wait: Duration,
    /// Maximum of any backoff.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: u32::MAX, first_wait: Duration::from_millis(50), max_wait: Duration::from_secs(2) }
    }
}

impl RetryPolicy {
    /// Disables retries.
    pub const NEVER: Self = Self { max_attempts: 1, first_wait: Duration::ZERO, max_wait: Duration::ZERO };

    /// Time until the attempt after `attempts` failed ones; `None` if the failure is final. `jitter` is in 0..1.
    fn wait(&self, failure: &Failure, is_repeatable: bool, jitter: f64) -> Option<Duration> {
        let hinted = failure.retry_after.is_some();
        let may_retry = (failure.code == Code::Unavailable && (is_repeatable || hinted))
            || (failure.code == Code::ResourceExhausted && hinted);
        let bound = self.first_wait.saturating_mul(1 << (failure.attempts - 1).min(20)).min(self.max_wait);
        (may_retry && failure.attempts < self.max_attempts)
            .then(|| failure.retry_after.unwrap_or_default().saturating_add(bound.mul_f64(jitter)))
    }
}

/// The attempts of a call.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    budget: RetryBudget,
    is_idempotent: bool,
    /// The deadline.
    pub(crate) until: Option<Instant>,
    /// When the first attempt failed.
    failing_since: Option<Instant>,
    /// Number of failed attempts in a row.
    pub(crate) failed: u32,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy, budget: RetryBudget, is_idempotent: bool, until: Option<Instant>) -> Self {
        budget.deposit();
        Self { policy, budget, is_idempotent, until, failing_since: None, failed: 0 }
    }

    /// An attempt of a stream got a response: what comes next has all attempts again.
    pub(crate) fn progressed(&mut self) {
        (self.failed, self.failing_since) = (0, None);
    }

    /// Counts a failed attempt. Returns the time until the next one, or the failure if it is final. `jitter` is in 0..1.
    pub(crate) fn failed(&mut self, status: &Status, now: Instant, jitter: f64) -> Result<Duration> {
        self.failed += 1;
        let failure = Failure::of(status, self.failed);
        let is_sent = !is_not_sent(status);
        let since = *self.failing_since.get_or_insert(now);
        let end = self.until.unwrap_or(since + WITHOUT_DEADLINE);
        let Some(wait) = self.policy.wait(&failure, self.is_idempotent || !is_sent, jitter) else {
            return Err(failure.into());
        };
        if now + wait >= end {
            return Err(failure.into());
        }
        let wait = if is_sent { wait.max(self.budget.withdraw(now)) } else { wait };
        if now + wait < end {
            return Ok(wait);
        }
        self.budget.put_back();
        Err(failure.into())
    }
}

/// Returns true if a status proves that no daemon has seen its call.
fn is_not_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

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

    fn unavailable(retry_after: Option<Duration>) -> Status {
        let mut details = ErrorDetails::new();
        details.set_retry_info(retry_after);
        Status::with_error_details(Code::Unavailable, "draining", details)
    }

    fn refused() -> Status {
        let mut status = Status::unavailable("no connection");
        status.set_source(Arc::new(ConnectError("refused".into())));
        status
    }

    fn attempts(is_idempotent: bool, until: Option<Instant>) -> Attempts {
        Attempts::new(RetryPolicy::default(), RetryBudget::default(), is_idempotent, until)
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
    fn a_call_that_must_not_run_twice_is_repeated_only_if_it_did_not_run() {
        let now = Instant::now();
        let hint = Some(Duration::from_millis(7));
        let mut attempts = attempts(false, Some(now + 60 * SECOND));
        assert!(attempts.failed(&unavailable(hint), now, 0.0).is_ok(), "the daemon says so");
        assert!(attempts.failed(&refused(), now, 0.0).is_ok(), "there was no connection");
        assert!(attempts.failed(&unavailable(None), now, 0.0).is_err(), "it may have run");
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

    /// The seconds for which a call is retried, and its attempts, if all fail like this.
    fn endured(mut attempts: Attempts, status: &Status) -> (u64, u32) {
        let start = Instant::now();
        let mut now = start;
        while let Ok(wait) = attempts.failed(status, now, 0.5) {
            now += wait;
        }
        ((now - start).as_secs(), attempts.failed)
    }

    #[test]
    fn calls_are_retried_until_their_deadline_and_without_one_for_a_minute() {
        let (seconds, made) = endured(attempts(true, Some(Instant::now() + 300 * SECOND)), &refused());
        assert!((297..300).contains(&seconds) && made > 250, "{made} attempts in {seconds} s");
        let (seconds, made) = endured(attempts(true, None), &refused());
        assert!((57..60).contains(&seconds) && made > 50, "{made} attempts in {seconds} s");
    }

    #[test]
    fn a_failing_daemon_gets_few_retries_of_many_calls() {
        let budget = RetryBudget::default();
        let now = Instant::now();
        let until = Some(now + 2 * SECOND);
        let mut retries = 0;
        for _ in 0..1000 {
            let mut attempts = Attempts::new(RetryPolicy::default(), budget.clone(), true, until);
            while attempts.failed(&unavailable(None), now, 0.0).is_ok() {
                retries += 1;
            }
        }
        assert!((200..=212).contains(&retries), "{retries} retries of 1000 calls");
    }

    #[test]
    fn a_stream_that_progresses_starts_to_count_again() {
        let mut attempts = attempts(true, None);
        let mut now = Instant::now();
        for _ in 0..50 {
            assert!(attempts.failed(&refused(), now, 1.0).is_ok());
            now += 30 * SECOND;
            attempts.progressed();
        }
        assert!(attempts.failed(&refused(), now, 1.0).is_ok());
        assert!(attempts.failed(&refused(), now + 61 * SECOND, 1.0).is_err());
    }
}
