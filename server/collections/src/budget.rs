//! The host memory of all collections, as accounts of the ledger: rows, the indexes that are built again when a request needs
//! them, and the working memory of writers.

use std::sync::Arc;

use accelerd_kernels::ledger::{Account, Kind, Ledger, Limit, Place, Reservation};

use crate::error::CollectionError;

/// The setting of the cap, as refusals name it.
const SETTING: &str = "store.memory_limit";

/// The host memory of all collections: reserved before it is allocated, and limited.
#[derive(Debug)]
pub(crate) struct Budget {
    rows: Account,
    indexes: Account,
    writers: Account,
}

impl Budget {
    /// A budget of `cap` bytes for rows within the limits of the ledger; 0 means no cap.
    pub(crate) fn new(ledger: &Ledger, cap: u64) -> Arc<Self> {
        if cap > 0 {
            ledger.cap(Place::Host, Kind::Collections, Limit { bytes: cap, setting: SETTING });
        }
        let account = |kind| ledger.account(Place::Host, kind);
        Arc::new(Self {
            rows: account(Kind::Collections),
            indexes: account(Kind::Indexes),
            writers: account(Kind::Writers),
        })
    }

    /// Reserves bytes for rows if they are available.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation, CollectionError> {
        Ok(self.rows.reserve(bytes)?)
    }

    /// As [`Self::reserve`], charged to a principal.
    pub(crate) fn reserve_for(&self, principal: u64, bytes: u64) -> Result<Reservation, CollectionError> {
        Ok(self.rows.of(principal).reserve(bytes)?)
    }

    /// Reserves bytes for a copy of rows that lives as long as a request of this principal.
    pub(crate) fn reserve_working(&self, principal: u64, bytes: u64) -> Result<Reservation, CollectionError> {
        Ok(self.writers.of(principal).reserve(bytes)?)
    }

    /// Reserves bytes for an index if nothing must be evicted for it.
    pub(crate) fn reserve_index(&self, bytes: u64) -> Option<Reservation> {
        self.indexes.reserve_unused(bytes)
    }

    /// Where the working memory of writers is charged.
    pub(crate) fn writers(&self) -> &Account {
        &self.writers
    }

    /// Bytes of rows in use, and their cap; 0 means no cap.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let (held, cap) = self.rows.usage();
        (held, if cap == Limit::NONE { 0 } else { cap.bytes })
    }

    /// An empty reservation for rows, to be resized to the actual use.
    pub(crate) fn empty_reservation(&self) -> Reservation {
        self.rows.empty()
    }

    /// An empty reservation for indexes, to be resized to the actual use.
    pub(crate) fn empty_index_reservation(&self) -> Reservation {
        self.indexes.empty()
    }

    /// A budget of a ledger of its own, with a limit; 0 means no limit.
    #[cfg(test)]
    pub(crate) fn standalone(limit: u64) -> Arc<Self> {
        let ledger = Ledger::new();
        if limit > 0 {
            ledger.limit(Place::Host, Limit { bytes: limit, setting: "memory.host_limit" });
        }
        Self::new(&ledger, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_budget_reports_its_usage_and_recovers_released_bytes() {
        let budget = Budget::new(&Ledger::new(), 100);
        let mut held = budget.empty_reservation();
        held.record(70);
        let error = budget.reserve(31).expect_err("30 are left").to_string();
        assert_eq!(
            error,
            "memory limit reached (store.memory_limit): 70 of 100 bytes in use, the request needs 31 more"
        );
        let reservation = budget.reserve_for(3, 30).expect("30 are left");
        assert!(budget.reserve(1).is_err());
        drop(reservation);
        held.record(10);
        assert!(budget.reserve(90).is_ok());
        assert_eq!(budget.usage(), (10, 100));
    }

    #[test]
    fn indexes_use_what_is_left_of_the_host_limit_and_not_the_cap_of_rows() {
        let ledger = Ledger::new();
        ledger.limit(Place::Host, Limit { bytes: 200, setting: "memory.host_limit" });
        let budget = Budget::new(&ledger, 100);
        let _rows = budget.reserve(100).expect("the cap");
        let _index = budget.reserve_index(100).expect("the rest");
        assert!(budget.reserve_index(1).is_none());
    }

    #[test]
    fn an_unlimited_budget_grants_everything() {
        let budget = Budget::new(&Ledger::new(), 0);
        assert_eq!(budget.usage(), (0, 0));
        assert!(budget.reserve(u64::MAX).is_ok());
    }
}
