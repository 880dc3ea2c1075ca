//! A budget of retries, which keeps the clients of a failing daemon from multiplying its load.
//!
//! Each call earns a fifth of a retry. Unlike in Finagle's `RetryBudget`, a retry without a token is not refused: it waits for the tokens
//! that are earned with time, so that a call survives as long as its deadline permits.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Retries that a call earns.
const PER_CALL: f64 = 0.2;
/// Retries that are earned with time, so that clients with few calls can retry.
const PER_SECOND: f64 = 1.0;
/// Retries of a new client, and the most that are earned with time.
const RESERVE: f64 = 10.0;
/// The most retries that are kept for later.
const MAX: f64 = 1000.0;

/// The budget that a client and its clones share.
#[derive(Clone, Debug)]
pub(crate) struct RetryBudget(Arc<Mutex<Tokens>>);

#[derive(Debug)]
struct Tokens {
    /// Negative if retries wait.
    balance: f64,
    updated: Option<Instant>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Tokens { balance: RESERVE, updated: None })))
    }
}

impl RetryBudget {
    /// Earns the retries of a call.
    pub(crate) fn deposit(&self) {
        self.with(|tokens| tokens.balance = (tokens.balance + PER_CALL).min(MAX));
    }

    /// Takes a retry. Returns the time until it may be made.
    pub(crate) fn withdraw(&self, now: Instant) -> Duration {
        self.with(|tokens| {
            tokens.earn(now);
            tokens.balance -= 1.0;
            Duration::from_secs_f64((-tokens.balance / PER_SECOND).max(0.0))
        })
    }

    /// Returns a retry that is not made.
    pub(crate) fn put_back(&self) {
        self.with(|tokens| tokens.balance = (tokens.balance + 1.0).min(MAX));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Tokens) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tokens {
    fn earn(&mut self, now: Instant) {
        let passed = self.updated.map_or(Duration::ZERO, |updated| now.saturating_duration_since(updated));
        self.updated = Some(now);
        if self.balance < RESERVE {
            self.balance = (self.balance + passed.as_secs_f64() * PER_SECOND).min(RESERVE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The retries that need not wait.
    fn free(budget: &RetryBudget, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.withdraw(now).is_zero()).count()
    }

    #[test]
    fn a_thousand_calls_earn_two_hundred_retries_beyond_the_reserve() {
        let budget = RetryBudget::default();
        (0..1000).for_each(|_| budget.deposit());
        let retries = free(&budget, Instant::now());
        assert!((209..=210).contains(&retries), "{retries}");
    }

    #[test]
    fn retries_beyond_the_budget_are_spread_over_time() {
        let budget = RetryBudget::default();
        let now = Instant::now();
        assert_eq!(free(&budget, now), 10);
        // One was taken by the check.
        assert_eq!(budget.withdraw(now), 2 * SECOND);
        assert_eq!(budget.withdraw(now), 3 * SECOND);
        budget.put_back();
        assert_eq!(budget.withdraw(now), 3 * SECOND);
        assert_eq!(budget.withdraw(now + 4 * SECOND), Duration::ZERO);
    }

    #[test]
    fn an_idle_client_earns_its_reserve_and_no_more() {
        let budget = RetryBudget::default();
        let now = Instant::now();
        assert_eq!(free(&budget, now), 10);
        assert_eq!(free(&budget, now + 3600 * SECOND), 10);
        (0..10_000).for_each(|_| budget.deposit());
        let retries = free(&budget, now + 7200 * SECOND);
        assert_eq!(retries, 1000);
    }
}
