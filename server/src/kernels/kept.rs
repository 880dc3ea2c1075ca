//! Caches with limits of their entries' number and size.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use accelerd_kernels::ledger::{Account, Reservation};
use lru::LruCache;

/// An entry of a cache.
pub(super) trait CacheEntry {
    type Key: Clone + Eq + Hash;

    fn key(&self) -> &Self::Key;

    /// About the memory that it takes.
    fn size_bytes(&self) -> u64;
}

/// An LRU cache that principals share fairly: the entries of a principal replace its own ones, and those of others only beyond
/// their share.
pub(super) struct Kept<T: CacheEntry> {
    entries: LruCache<T::Key, Entry<T>>,
    /// The keys and bytes of each principal that has entries.
    owners: HashMap<u64, Owned<T::Key>>,
    max_count: usize,
    max_bytes: u64,
    bytes: u64,
}

struct Entry<T> {
    value: Arc<T>,
    reservation: Reservation,
    owner: u64,
}

struct Owned<K: Eq + Hash> {
    keys: LruCache<K, ()>,
    bytes: u64,
}

impl<T: CacheEntry> Kept<T> {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { entries: LruCache::unbounded(), owners: HashMap::new(), max_count, max_bytes, bytes: 0 }
    }

    pub(super) fn get(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let entry = self.entries.get(key)?;
        if let Some(owned) = self.owners.get_mut(&entry.owner) {
            owned.keys.promote(key);
        }
        Some(Arc::clone(&entry.value))
    }

    /// Keeps an entry of a principal in place of others. One that is too large, for which no memory is free, or for which others would
    /// lose a part of their share, is not kept.
    pub(super) fn insert(&mut self, value: Arc<T>, owner: u64, account: &Account) {
        let size = value.size_bytes();
        self.evict(value.key());
        if size > self.max_bytes {
            return;
        }
        while self.entries.len() >= self.max_count || self.bytes + size > self.max_bytes {
            let Some(oldest) = self.replaced_by(owner, size) else { return };
            self.evict(&oldest);
        }
        if let Some(reservation) = account.reserve_unused(size) {
            let key = value.key().clone();
            self.bytes += size;
            let owned = self.owners.entry(owner).or_insert_with(|| Owned { keys: LruCache::unbounded(), bytes: 0 });
            owned.bytes += size;
            owned.keys.put(key.clone(), ());
            self.entries.put(key, Entry { value, reservation, owner });
        }
    }

    /// The entry that goes for a new one: the oldest of its principal if the new one is beyond the principal's share, or else the oldest
    /// of the principal that is the farthest beyond its own.
    fn replaced_by(&self, owner: u64, size: u64) -> Option<T::Key> {
        let own = self.owners.get(&owner);
        let principals = self.owners.len() + usize::from(own.is_none());
        let share_count = (self.max_count / principals).max(1);
        let share_bytes = self.max_bytes / principals as u64;
        let is_beyond = |count: usize, bytes: u64| count > share_count || bytes > share_bytes;
        if let Some(own) = own.filter(|own| is_beyond(own.keys.len() + 1, own.bytes + size)) {
            return oldest(own);
        }
        let others = self.owners.iter().filter(|(of, _)| **of != owner).map(|(_, owned)| owned);
        let beyond = others.filter(|owned| is_beyond(owned.keys.len(), owned.bytes));
        let excess = |owned: &&Owned<T::Key>| {
            let count = owned.keys.len() as f64 / self.max_count as f64;
            count.max(owned.bytes as f64 / self.max_bytes as f64)
        };
        beyond.max_by(|a, b| excess(a).total_cmp(&excess(b))).or(own).and_then(oldest)
    }

    /// The principal of an entry.
    pub(super) fn owner(&self, key: &T::Key) -> Option<u64> {
        self.entries.peek(key).map(|entry| entry.owner)
    }

    /// Drops an entry; returns whether it was there.
    pub(super) fn evict(&mut self, key: &T::Key) -> bool {
        let Some(Entry { reservation, owner, .. }) = self.entries.pop(key) else { return false };
        self.bytes -= reservation.bytes();
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.bytes -= reservation.bytes();
            owned.keys.pop(key);
            if owned.keys.is_empty() {
                self.owners.remove(&owner);
            }
        }
        true
    }

    /// The entries, the most recently used first.
    pub(super) fn list(&self) -> Vec<Arc<T>> {
        self.entries.iter().map(|(_, entry)| Arc::clone(&entry.value)).collect()
    }
}

fn oldest<K: Clone + Eq + Hash>(owned: &Owned<K>) -> Option<K> {
    owned.keys.peek_lru().map(|(key, ())| key.clone())
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ledger::{Kind, Place};

    use super::*;
    use crate::{config::Config, ledger};

    struct Numbered(u32);

    impl CacheEntry for Numbered {
        type Key = u32;

        fn key(&self) -> &u32 {
            &self.0
        }

        fn size_bytes(&self) -> u64 {
            10
        }
    }

    fn keys(kept: &Kept<Numbered>) -> Vec<u32> {
        let mut keys: Vec<_> = kept.list().iter().map(|entry| entry.0).collect();
        keys.sort_unstable();
        keys
    }

    fn account() -> Account {
        ledger::open(&Config::loopback()).account(Place::Host, Kind::Sandbox)
    }

    #[test]
    fn a_principal_replaces_its_own_entries_and_those_of_others_only_beyond_their_share() {
        for mut kept in [Kept::new(4, 1000), Kept::new(1000, 40)] {
            let account = account();
            for key in 0..4 {
                kept.insert(Arc::new(Numbered(key)), 1, &account);
            }
            kept.get(&0);
            kept.insert(Arc::new(Numbered(10)), 2, &account);
            kept.insert(Arc::new(Numbered(11)), 2, &account);
            assert_eq!(keys(&kept), [0, 3, 10, 11], "the first had more than its half; the oldest go");
            for key in 12..50 {
                kept.insert(Arc::new(Numbered(key)), 2, &account);
            }
            assert_eq!(keys(&kept), [0, 3, 48, 49], "the second replaces its own");
            kept.insert(Arc::new(Numbered(4)), 1, &account);
            assert_eq!(keys(&kept), [0, 4, 48, 49], "so does the first");
            assert!(kept.evict(&48) && !kept.evict(&48));
            kept.insert(Arc::new(Numbered(5)), 1, &account);
            assert_eq!(keys(&kept), [0, 4, 5, 49], "what nobody uses is free");
        }
    }
}
