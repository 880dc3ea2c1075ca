//! A batch as it is filled: its entries, and the room that is left.

use crate::config::Priority;

/// A batch may take this much longer than its first entry alone, where that is more than the limit: scans of one large corpus
/// share a launch at little more than the time of one.
const SHARED_LAUNCH: f64 = 1.25;

/// The same where that is within the limit of any batch: several principals share the fixed part of a long launch.
const CONTENDED_LAUNCH: f64 = 2.0;

/// Nothing joins an entry that alone takes this many times the limit.
const ALONE: f64 = 10.0;

pub(super) struct OpenBatch<T> {
    max_items: u64,
    max_bytes: u64,
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) cost: u64,
    /// Expected seconds.
    pub(super) seconds: f64,
    /// Seconds until the earliest deadline of its entries.
    pub(super) slack: f64,
    /// Expected seconds of its first entry alone.
    pub(super) first_seconds: Option<f64>,
    /// The principal of its first entry.
    pub(super) principal: u64,
    /// Expected seconds that the entries of each level add.
    pub(super) level_seconds: [f64; Priority::COUNT],
    pub(super) sharers: Vec<(Priority, u64)>,
    pub(super) payloads: Vec<T>,
}

impl<T> OpenBatch<T> {
    pub(super) fn new(max_items: u64, max_bytes: u64) -> Self {
        Self {
            max_items,
            max_bytes,
            items: 0,
            bytes: 0,
            cost: 0,
            seconds: 0.0,
            slack: f64::INFINITY,
            first_seconds: None,
            principal: 0,
            level_seconds: [0.0; Priority::COUNT],
            sharers: vec![],
            payloads: vec![],
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.items < self.max_items && self.bytes < self.max_bytes
    }

    pub(super) fn fits(&self, items: u64, bytes: u64) -> bool {
        let fits = |held: u64, more: u64, limit: u64| held.checked_add(more).is_some_and(|sum| sum <= limit);
        fits(self.items, items, self.max_items) && fits(self.bytes, bytes, self.max_bytes)
    }

    /// The longest that the batch may take, in seconds. `ordinary` is the limit of this batch, `maximum` that of any.
    pub(super) fn time_limit(&self, ordinary: f64, maximum: f64) -> f64 {
        match self.first_seconds {
            Some(first) if first <= ALONE * maximum => {
                ordinary.max(first * SHARED_LAUNCH).max(maximum.min(first * CONTENDED_LAUNCH))
            }
            Some(_) | None => ordinary,
        }
    }
}
