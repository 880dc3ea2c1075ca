//! Cost of the requests that are being received: they count as queued, so that admission does not promise the same time to all
//! that begin to arrive at once.

use std::collections::HashMap;

use crate::config::Priority;

use super::Terms;

#[derive(Debug, Default)]
pub(super) struct Arriving {
    levels: [u64; Priority::COUNT],
    shares: HashMap<(Priority, u64), u64>,
}

impl Arriving {
    pub(super) fn add(&mut self, terms: Terms) {
        let level = &mut self.levels[terms.priority.index()];
        let share = self.shares.entry((terms.priority, terms.principal)).or_default();
        (*level, *share) = (level.saturating_add(terms.cost), share.saturating_add(terms.cost));
    }

    /// Forgets a request that was added.
    pub(super) fn remove(&mut self, terms: Terms) {
        let level = &mut self.levels[terms.priority.index()];
        *level = level.saturating_sub(terms.cost);
        let key = (terms.priority, terms.principal);
        if let Some(share) = self.shares.get_mut(&key) {
            *share = share.saturating_sub(terms.cost);
            if *share == 0 {
                self.shares.remove(&key);
            }
        }
    }

    pub(super) fn level_cost(&self, priority: Priority) -> u64 {
        self.levels[priority.index()]
    }

    pub(super) fn cost_of(&self, priority: Priority, principal: u64) -> u64 {
        self.shares.get(&(priority, principal)).copied().unwrap_or_default()
    }
}
