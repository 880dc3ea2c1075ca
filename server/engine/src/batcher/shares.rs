//! How much each principal was served at each level, so that those served least go first.
//!
//! Start-time fair queueing: a principal's next entry starts at its own finish, or at the level's clock if it was away
//! meanwhile: absence saves nothing up. The clock stands at the start of the entry served last.

use std::collections::HashMap;

use crate::config::Priority;

/// Principals without an entry that are remembered; beyond, all of them are forgotten.
const IDLE_SHARES: usize = 1024;

/// Bytes served, by level and principal.
#[derive(Debug, Default)]
pub(super) struct Shares {
    by_principal: HashMap<(Priority, u64), Share>,
    clocks: [u64; Priority::COUNT],
    idle: usize,
}

#[derive(Debug, Default)]
struct Share {
    finish: u64,
    queued: usize,
}

impl Shares {
    /// An entry was queued.
    pub(super) fn queued(&mut self, level: Priority, principal: u64) {
        let clock = self.clocks[level.index()];
        let mut known = true;
        let share = self.by_principal.entry((level, principal)).or_insert_with(|| {
            known = false;
            Share::default()
        });
        if share.queued == 0 {
            share.finish = share.finish.max(clock);
            self.idle -= usize::from(known);
        }
        share.queued += 1;
    }

    /// An entry left the queue, served or not.
    pub(super) fn left(&mut self, level: Priority, principal: u64) {
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

    /// Where the next entry of a principal starts: the lower, the sooner.
    pub(super) fn served(&self, level: Priority, principal: u64) -> u64 {
        self.by_principal.get(&(level, principal)).map_or(0, |share| share.finish)
    }

    /// An entry of so many bytes is served.
    pub(super) fn charge(&mut self, level: Priority, principal: u64, bytes: u64) {
        let clock = &mut self.clocks[level.index()];
        if let Some(share) = self.by_principal.get_mut(&(level, principal)) {
            *clock = share.finish.max(*clock);
            share.finish = share.finish.saturating_add(bytes);
        }
    }
}
