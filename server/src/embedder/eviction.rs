//! Lets the ledger evict models: first the CPU's copies of their weights, then idle models.

use std::sync::Arc;

use accelerd_kernels::ledger::{Kind, Ledger, Place};

use super::embed::Embedder;

impl Embedder {
    /// Has the ledger evict the CPU's copies of weights when host memory is short, and idle models when memory of one of
    /// `places` is. `is_needed` says which names of models are needed although no call is using them.
    pub(crate) fn evict_from(
        &self,
        ledger: &Ledger,
        places: impl IntoIterator<Item = Place>,
        is_needed: impl Fn(&str) -> bool + Send + Sync + Clone + 'static,
    ) {
        let registry = Arc::downgrade(&self.registry);
        ledger.on_eviction(Place::Host, Kind::Copies, move |bytes| {
            registry.upgrade().map_or(0, |registry| registry.evict_cpu_copies(bytes))
        });
        for place in places {
            let registry = Arc::downgrade(&self.registry);
            let is_needed = is_needed.clone();
            ledger.on_eviction(place, Kind::Models, move |bytes| {
                registry.upgrade().map_or(0, |registry| registry.evict_idle(bytes, &is_needed))
            });
        }
    }
}
