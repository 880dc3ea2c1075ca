//! A request that is being received.

use std::sync::Arc;

use crate::{admission::Permit, batcher::Terms, device::AnyLane};

/// What a request that is being received will take of the budget and of the queue counts as taken until this is dropped.
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
