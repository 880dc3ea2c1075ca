//! The rows of a generation in the order of their ids, for those who read a collection through.
//!
//! It is made when a first page is asked for. Which point a row is never changes within a generation, so it only grows: rows
//! that came later are looked through one by one until there are enough of them to be worth a merge.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_store::Ids;

use super::{
    PointId,
    budget::Budget,
    points::{Generation, Points},
};

/// So many rows that are not in order cost a page little.
const LEAST_ROWS: usize = 1024;
/// Rows are merged into the order when more than one in so many are not in it.
const LAG: usize = 16;
/// Bytes a row while the order is made: its number twice, and its id.
const ENTRY_BYTES: u64 = 24;

/// The order, once there is one.
#[derive(Debug, Default)]
pub(super) struct Order(Mutex<Arc<Sorted>>);

/// Rows in the order of their ids, dead ones included.
#[derive(Debug, Default)]
pub(super) struct Sorted(Vec<u32>);

impl Order {
    /// Bytes held.
    pub(super) fn host_bytes(&self) -> u64 {
        let Sorted(rows) = &**self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (rows.capacity() * size_of::<u32>()) as u64
    }
}

impl Generation {
    /// The rows in order, all but a few of the last ones. Where the budget has no memory left for them, all are missing.
    /// Says whether it was made anew.
    pub(super) fn sorted(&self, budget: &Arc<Budget>) -> (Arc<Sorted>, bool) {
        let mut sorted = self.order().0.lock().unwrap_or_else(PoisonError::into_inner);
        let (there, rows) = (sorted.0.len(), self.read().rows());
        if rows - there <= LEAST_ROWS + rows / LAG {
            return (Arc::clone(&sorted), false);
        }
        let Ok(_while_it_is_made) = budget.reserve(rows as u64 * ENTRY_BYTES) else {
            return (Arc::clone(&sorted), false);
        };
        let all: Vec<u32> = (0..u32::try_from(rows).expect("rows of a collection are counted in 32 bits")).collect();
        // A copy of the ids, so that nobody waits while they are sorted.
        let ids = self.read().ids_of(&all);
        let mut order = Vec::with_capacity(rows);
        order.extend_from_slice(&sorted.0);
        order.extend_from_slice(&all[there..]);
        // Where rows were in order before, a stable sort merges.
        match ids {
            Ids::Numbers(ids) => sort(&mut order, there, |row| ids[row as usize]),
            Ids::Uuids(ids) => sort(&mut order, there, |row| ids[row as usize]),
        }
        *sorted = Arc::new(Sorted(order));
        (Arc::clone(&sorted), true)
    }
}

fn sort<K: Ord>(order: &mut [u32], sorted: usize, id: impl Fn(u32) -> K) {
    // A row that replaced another has the same id; in order of rows, the current one comes last.
    let key = |row: &u32| (id(*row), *row);
    order[sorted..].sort_unstable_by_key(key);
    order.sort_by_key(key);
}

impl Sorted {
    /// Rows whose id is above one, ascending by id.
    pub(super) fn above(&self, points: &Points, after: Option<PointId>) -> &[u32] {
        &self.0[self.0.partition_point(|row| points.id(*row) <= after)..]
    }

    /// Rows that are not in it.
    pub(super) fn missing(&self, points: &Points) -> Range<u32> {
        let count = |rows: usize| u32::try_from(rows).expect("rows of a collection are counted in 32 bits");
        count(self.0.len())..count(points.rows())
    }
}
