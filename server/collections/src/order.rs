//! The rows of a generation in the order of their ids, for scrolling.
//!
//! The order is built for the first page. A row never changes its point within a generation, so the order only grows:
//! later rows are scanned linearly until there are enough of them to be worth a merge.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use accelerd_store::Ids;

use super::{
    PointId,
    budget::Budget,
    points::{self, Points},
};

/// This many unsorted rows cost a page little.
const MIN_ROWS: usize = 1024;
/// Rows are merged into the order when it lacks more than one in this many plus `MIN_ROWS`.
const LAG: usize = 16;
/// Bytes per row while the order is built: the row twice, and its id.
const ENTRY_BYTES: u64 = 24;

/// The order of ids, built on demand.
#[derive(Debug, Default)]
pub(super) struct IdOrder(Mutex<Arc<Sorted>>);

/// Rows in the order of their ids, deleted ones included.
#[derive(Debug, Default)]
pub(super) struct Sorted(Vec<u32>);

impl IdOrder {
    /// Bytes in host memory.
    pub(super) fn host_bytes(&self) -> u64 {
        let Sorted(rows) = &**self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (rows.capacity() * size_of::<u32>()) as u64
    }

    /// Drops the order, unless it is in use; the next page sorts again.
    pub(super) fn evict(&self) {
        if let Ok(mut sorted) = self.0.try_lock()
            && Arc::strong_count(&sorted) == 1
        {
            *sorted = Arc::default();
        }
    }

    /// The sorted rows, which lack a few of the last ones, or all that the budget has no memory for. Returns whether
    /// the order was rebuilt.
    pub(super) fn sorted(&self, points: &RwLock<Points>, budget: &Arc<Budget>) -> (Arc<Sorted>, bool) {
        let mut sorted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = sorted.0.len();
        let rows = points::read(points).rows();
        if rows - merged <= MIN_ROWS + rows / LAG {
            return (Arc::clone(&sorted), false);
        }
        let Some(_reservation) = budget.reserve_index(rows as u64 * ENTRY_BYTES) else {
            return (Arc::clone(&sorted), false);
        };
        let all: Vec<u32> = (0..u32::try_from(rows).expect("rows of a collection are counted in 32 bits")).collect();
        // The ids are copied so that the lock is not held while they are sorted.
        let ids = points::read(points).ids_of(&all);
        let mut order = Vec::with_capacity(rows);
        order.extend_from_slice(&sorted.0);
        order.extend_from_slice(&all[merged..]);
        // The stable sort merges the sorted prefix with the new rows.
        match ids {
            Ids::Numbers(ids) => sort(&mut order, merged, |row| ids[row as usize]),
            Ids::Uuids(ids) => sort(&mut order, merged, |row| ids[row as usize]),
        }
        *sorted = Arc::new(Sorted(order));
        (Arc::clone(&sorted), true)
    }
}

fn sort<K: Ord>(order: &mut [u32], sorted: usize, id: impl Fn(u32) -> K) {
    // A replaced row and its replacement have the same id; ordered by row, the current one comes last.
    let key = |row: &u32| (id(*row), *row);
    order[sorted..].sort_unstable_by_key(key);
    order.sort_by_key(key);
}

impl Sorted {
    /// Rows whose id is greater than `after`, ascending by id.
    pub(super) fn after(&self, points: &Points, after: Option<PointId>) -> &[u32] {
        &self.0[self.0.partition_point(|row| points.id(*row) <= after)..]
    }

    /// Rows that the order lacks.
    pub(super) fn unsorted(&self, points: &Points) -> Range<u32> {
        let count = |rows: usize| u32::try_from(rows).expect("rows of a collection are counted in 32 bits");
        count(self.0.len())..count(points.rows())
    }
}
