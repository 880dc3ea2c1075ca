//! The bytes that each principal was served at each priority, so that the one served least goes first.
//!
//! Start-time fair queueing: the start tag of a principal's next entry is its own finish tag, or the priority's virtual time
//! if that is later, so that a principal gains no credit while it has nothing queued. The virtual time is the start tag of
//! the entry served last.

use std::collections::HashMap;

use crate::config::Priority;

/// Principals without entries that are kept; beyond this number, all of them are dropped.
const IDLE_SHARES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct FairShare {
    by_principal: HashMap<(Priority, u64), Share>,
    virtual_time: [u64; Priority::COUNT],
    idle: usize,
}

#[derive(Debug, Default)]
struct Share {
    finish_tag: u64,
    queued: usize,
}

impl FairShare {
    pub(super) fn enqueued(&mut self, level: Priority, principal: u64) {
        let now = self.virtual_time[level.index()];
        let mut known = true;
        let share = self.by_principal.entry((level, principal)).or_insert_with(|| {
            known = false;
            Share::default()
        });
        if share.queued == 0 {
            share.finish_tag = share.finish_tag.max(now);
            self.idle -= usize::from(known);
        }
        share.queued += 1;
    }

    /// An entry was removed from the queue, whether served or not.
    pub(super) fn dequeued(&mut self, level: Priority, principal: u64) {
        let Some(share) = self.by_principal.get_mut(&(level, principal)) else { return };
        share.queued -= 1;
        if share.queued == 0 {
            self.idle += 1;
        }
        if self.idle > IDLE_SHARES {
            self.by_principal.retain(|_, share| share.queued > 0);
            self.idle = 0;
        }
    }

    /// The start tag of a principal's next entry; the lowest is served first.
    pub(super) fn start_tag(&self, level: Priority, principal: u64) -> u64 {
        self.by_principal.get(&(level, principal)).map_or(0, |share| share.finish_tag)
    }

    /// Charges a principal for an entry that is served.
    pub(super) fn charge(&mut self, level: Priority, principal: u64, bytes: u64) {
        let now = &mut self.virtual_time[level.index()];
        if let Some(share) = self.by_principal.get_mut(&(level, principal)) {
            *now = share.finish_tag.max(*now);
            share.finish_tag = share.finish_tag.saturating_add(bytes);
        }
    }
}
