//! The limit on the host memory of all collections.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::error::CollectionError;

/// The host memory of all collections: reserved before it is allocated, and limited.
#[derive(Debug)]
pub(crate) struct Budget {
    /// 0 means no limit.
    limit: u64,
    used: AtomicU64,
}

/// Reserved bytes of a budget, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit` bytes; 0 means no limit.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Reserves bytes if they are available.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, CollectionError> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| self.limit == 0 || *sum <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Reservation { budget: Arc::clone(self), bytes }),
            Err(used) => Err(self.full(used, bytes)),
        }
    }

    fn full(&self, used: u64, bytes: u64) -> CollectionError {
        let limit = self.limit;
        CollectionError::Exhausted(format!(
            "memory limit reached (store.memory_limit): {used} of {limit} bytes in use, the request needs {bytes} more"
        ))
    }

    /// Bytes in use, and the limit; 0 means no limit.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.limit)
    }

    /// An empty reservation, to be resized to the actual use of a collection.
    pub(crate) fn empty_reservation(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Reservation {
    /// Grows or shrinks to `bytes`; growing fails if the difference is not available.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> Result<(), CollectionError> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                let mut reserved = self.budget.reserve(more)?;
                // Ownership of the bytes moves to this reservation.
                reserved.bytes = 0;
            }
            None => _ = self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Records actual use, which may exceed the limit because the memory is already allocated.
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

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_budget_reports_its_usage_and_recovers_released_bytes() {
        let budget = Budget::new(100);
        let mut held = budget.empty_reservation();
        held.resize(70);
        let error = budget.reserve(31).expect_err("30 are left").to_string();
        assert_eq!(
            error,
            "memory limit reached (store.memory_limit): 70 of 100 bytes in use, the request needs 31 more"
        );
        let reservation = budget.reserve(30).expect("30 are left");
        assert!(budget.reserve(1).is_err());
        drop(reservation);
        held.resize(10);
        assert!(budget.reserve(90).is_ok());
    }

    #[test]
    fn a_reservation_grows_only_within_the_limit() {
        let budget = Budget::new(100);
        let mut reservation = budget.empty_reservation();
        reservation.try_resize(60).expect("100 are left");
        assert!(reservation.try_resize(101).is_err());
        assert_eq!(budget.usage(), (60, 100), "a failed resize changes nothing");
        reservation.try_resize(10).expect("less is always possible");
        reservation.try_resize(100).expect("90 are left");
        drop(reservation);
        assert_eq!(budget.usage(), (0, 100));
    }

    #[test]
    fn an_unlimited_budget_grants_everything() {
        assert!(Budget::new(0).reserve(u64::MAX).is_ok());
    }
}
