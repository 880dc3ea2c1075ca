//! Host memory that all collections may hold together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::error::ApiError;

/// Host memory that all collections may hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Zero means no cap.
    limit: u64,
    used: AtomicU64,
}

/// A share of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of so many bytes; zero means no cap.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// A share of so many bytes, if they are left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Share, ApiError> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| self.limit == 0 || *sum <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Share { budget: Arc::clone(self), bytes }),
            Err(used) => Err(self.full(used, bytes)),
        }
    }

    fn full(&self, used: u64, bytes: u64) -> ApiError {
        let limit = self.limit;
        ApiError::Exhausted(format!(
            "collections hold {used} of at most {limit} bytes (store.memory_limit), the request needs {bytes} more"
        ))
    }

    /// Bytes held, and the most that may be; 0 means no cap.
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.limit)
    }

    /// An empty share, to be resized to what a collection really holds.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Holds so much instead, if what is more is left.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> Result<(), ApiError> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                let mut reserved = self.budget.reserve(more)?;
                // It is this share's from here on.
                reserved.bytes = 0;
            }
            None => _ = self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Says what is really held, which may be more than the cap: it is there already.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let used = &self.budget.used;
        if bytes > self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_budget_refuses_with_its_figures_and_takes_shares_back() {
        let budget = Budget::new(100);
        let mut held = budget.share();
        held.resize(70);
        let error = budget.reserve(31).expect_err("30 are left").to_string();
        assert_eq!(error, "collections hold 70 of at most 100 bytes (store.memory_limit), the request needs 31 more");
        let share = budget.reserve(30).expect("30 are left");
        assert!(budget.reserve(1).is_err());
        drop(share);
        held.resize(10);
        assert!(budget.reserve(90).is_ok());
    }

    #[test]
    fn a_share_grows_only_into_what_is_left() {
        let budget = Budget::new(100);
        let mut share = budget.share();
        share.try_resize(60).expect("100 are left");
        assert!(share.try_resize(101).is_err());
        assert_eq!(budget.now(), (60, 100), "a refusal changes nothing");
        share.try_resize(10).expect("less is always possible");
        share.try_resize(100).expect("90 are left");
        drop(share);
        assert_eq!(budget.now(), (0, 100));
    }

    #[test]
    fn no_cap_takes_everything() {
        assert!(Budget::new(0).reserve(u64::MAX).is_ok());
    }
}
