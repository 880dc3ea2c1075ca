//! Memory of the host and of each GPU: what is reserved, and what of it is in use.
//!
//! Calls take their memory from budgets that are reserved in advance, so that a daemon without work holds memory which nothing uses.

use std::collections::BTreeMap;

use accelerd_kernels::{
    PoolStats,
    ledger::{Kind, KindMemory, Place, PlaceMemory},
};

use crate::{app::App, resident_memory};

/// Memory of one place.
#[derive(Debug)]
pub(crate) struct PlaceUse {
    /// What is reserved.
    pub(crate) reserved: PlaceMemory,
    /// Resident memory of the process on the host, as the operating system counts it; 0 on a GPU.
    pub(crate) resident: u64,
    /// Bytes in use, of the kinds that are reserved in advance.
    used: BTreeMap<Kind, u64>,
}

impl PlaceUse {
    /// Bytes in use of a kind: what it holds, unless that is reserved in advance.
    pub(crate) fn used_of(&self, kind: &KindMemory) -> u64 {
        self.used.get(&kind.kind).map_or(kind.held, |used| kind.held.min(*used))
    }

    /// Bytes in use over all kinds.
    pub(crate) fn used(&self) -> u64 {
        self.reserved.kinds.iter().map(|kind| self.used_of(kind)).sum()
    }
}

/// Memory of all places; the host comes first.
pub(crate) fn memory(app: &App) -> Vec<PlaceUse> {
    app.ledger.snapshot().into_iter().map(|reserved| place_use(app, reserved)).collect()
}

fn place_use(app: &App, reserved: PlaceMemory) -> PlaceUse {
    if reserved.place == Place::Host {
        let used = [(Kind::Messages, app.transport_memory.used()), (Kind::Requests, app.requests.taken())];
        return PlaceUse { reserved, resident: resident_memory::total().unwrap_or(0), used: used.into() };
    }
    let devices = app.engine.devices();
    let mut pools = devices.iter().filter(|(device, _)| device.id().place() == reserved.place);
    let pool = pools.find_map(|(device, _)| device.pool_stats());
    let used = pool.map(|pool| (Kind::Pool, used_of_pool(&reserved, pool)));
    PlaceUse { reserved, resident: 0, used: used.into_iter().collect() }
}

/// The part in use of what a GPU's pool has reserved for nothing else that the ledger knows.
fn used_of_pool(reserved: &PlaceMemory, pool: PoolStats) -> u64 {
    let held = reserved.kinds.iter().find(|kind| kind.kind == Kind::Pool).map_or(0, |kind| kind.held);
    held.saturating_sub(pool.reserved_bytes.saturating_sub(pool.used_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kinds: &[(Kind, u64)]) -> PlaceMemory {
        let held = kinds.iter().map(|(_, held)| held).sum();
        let kind = |&(kind, held)| KindMemory { kind, held, cap: u64::MAX, refused: 0, evicted: 0 };
        let kinds = kinds.iter().map(kind).collect();
        PlaceMemory { place: Place::Cuda(0), limit: 1000, held, kinds, principals: vec![] }
    }

    #[test]
    fn what_is_reserved_in_advance_is_not_in_use() {
        let reserved = place(&[(Kind::Messages, 500), (Kind::Collections, 30), (Kind::Requests, 7)]);
        let used = [(Kind::Messages, 20), (Kind::Requests, 9)].into();
        let memory = PlaceUse { reserved, resident: 0, used };
        let used: Vec<_> = memory.reserved.kinds.iter().map(|kind| memory.used_of(kind)).collect();
        assert_eq!((used, memory.used()), (vec![20, 30, 7], 57));
    }

    #[test]
    fn free_blocks_of_a_pool_are_not_in_use() {
        let pool = PoolStats { reserved_bytes: 400, used_bytes: 100, ..PoolStats::default() };
        assert_eq!(used_of_pool(&place(&[(Kind::Copies, 80), (Kind::Pool, 320)]), pool), 20);
        assert_eq!(used_of_pool(&place(&[(Kind::Copies, 80)]), pool), 0);
    }
}
