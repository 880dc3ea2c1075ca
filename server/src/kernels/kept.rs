//! What is kept within limits of its number and size.

use std::{hash::Hash, sync::Arc};

use accelerd_kernels::ledger::{Account, Reservation};
use lru::LruCache;

/// What is kept.
pub(super) trait CacheEntry {
    type Key: Clone + Eq + Hash;

    fn key(&self) -> &Self::Key;

    /// About the memory that it takes.
    fn size_bytes(&self) -> u64;
}

/// An LRU cache.
pub(super) struct Kept<T: CacheEntry> {
    entries: LruCache<T::Key, (Arc<T>, Reservation)>,
    max_count: usize,
    max_bytes: u64,
    bytes: u64,
}

impl<T: CacheEntry> Kept<T> {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { entries: LruCache::unbounded(), max_count, max_bytes, bytes: 0 }
    }

    pub(super) fn get(&mut self, key: &T::Key) -> Option<Arc<T>> {
        self.entries.get(key).map(|(entry, _)| Arc::clone(entry))
    }

    /// Keeps an entry, in place of the least recently used ones. One that is too large, or for which no memory is free, is not kept.
    pub(super) fn insert(&mut self, entry: Arc<T>, account: &Account) {
        let size = entry.size_bytes();
        self.evict(entry.key());
        if size > self.max_bytes {
            return;
        }
        while self.entries.len() >= self.max_count || self.bytes + size > self.max_bytes {
            let Some((_, (_, oldest))) = self.entries.pop_lru() else { break };
            self.bytes -= oldest.bytes();
        }
        if let Some(reservation) = account.reserve_unused(size) {
            self.bytes += size;
            self.entries.put(entry.key().clone(), (entry, reservation));
        }
    }

    /// Drops an entry; returns whether it was there.
    pub(super) fn evict(&mut self, key: &T::Key) -> bool {
        let dropped = self.entries.pop(key);
        self.bytes -= dropped.as_ref().map_or(0, |(_, reservation)| reservation.bytes());
        dropped.is_some()
    }

    /// The entries, the most recently used first.
    pub(super) fn list(&self) -> Vec<Arc<T>> {
        self.entries.iter().map(|(_, (entry, _))| Arc::clone(entry)).collect()
    }
}
