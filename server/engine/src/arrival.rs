//! A request that is being received.

use std::sync::Arc;

use crate::{admission::Permit, batcher::Terms, device::AnyLane};

/// A request that is being received. Its items and bytes count as admitted and queued until this is dropped.
pub struct Arrival {
    lane: Arc<dyn AnyLane>,
    terms: Terms,
    _permit: Permit,
}

impl Arrival {
    pub(crate) fn new(lane: Arc<dyn AnyLane>, terms: Terms, permit: Permit) -> Self {
        Self { lane, terms, _permit: permit }
    }
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrival").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.lane.arrived(self.terms);
    }
}
