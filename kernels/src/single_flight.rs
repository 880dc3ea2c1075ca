//! An LRU cache that creates each value once, however many threads ask for it at the same time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Values by key, bounded by count and by bytes. Values in use are never evicted, so the bounds hold for unused ones:
/// values in use occupy their memory with or without an entry.
pub(crate) struct SingleFlightCache<K, V, E> {
    entries: Mutex<Entries<K, V, E>>,
    max_entries: usize,
    max_bytes: u64,
}

/// A value that is being created, or its result.
type Slot<V, E> = Arc<OnceLock<Result<Arc<V>, E>>>;

struct Entries<K, V, E> {
    by_key: HashMap<K, Entry<V, E>>,
    /// Counts lookups; orders entries by use.
    clock: u64,
}

struct Entry<V, E> {
    slot: Slot<V, E>,
    /// 0 while the value is being created.
    bytes: u64,
    last_used: u64,
}

impl<V, E> Entry<V, E> {
    /// Returns true if only the cache holds the value.
    fn is_unused(&self) -> bool {
        matches!(self.slot.get(), Some(Ok(value)) if Arc::strong_count(value) == 1)
    }
}

impl<K: Clone + Eq + Hash, V, E: Clone> SingleFlightCache<K, V, E> {
    pub(crate) fn new(max_entries: usize, max_bytes: u64) -> Self {
        Self { entries: Mutex::new(Entries { by_key: HashMap::new(), clock: 0 }), max_entries, max_bytes }
    }

    /// The value of `key`; on a miss the result of `create`, with its size in bytes. Concurrent callers with the same key
    /// wait for one `create` and share its result; those with other keys do not wait. An error is not kept.
    pub(crate) fn get_or_create(&self, key: &K, create: impl FnOnce() -> Result<(V, u64), E>) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let mut created_bytes = None;
        let result = slot
            .get_or_init(|| {
                let (value, bytes) = create()?;
                created_bytes = Some(bytes);
                Ok(Arc::new(value))
            })
            .clone();
        match (&result, created_bytes) {
            (Ok(_), Some(bytes)) => self.settle(key, &slot, bytes),
            (Ok(_), None) => {}
            (Err(_), _) => self.remove_failed(key, &slot),
        }
        result
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let removed = std::mem::take(&mut self.lock().by_key);
        drop(removed);
    }

    /// Number of entries and their bytes.
    pub(crate) fn usage(&self) -> (usize, u64) {
        let entries = self.lock();
        (entries.by_key.len(), entries.bytes())
    }

    fn slot(&self, key: &K) -> Slot<V, E> {
        let mut entries = self.lock();
        entries.clock += 1;
        let now = entries.clock;
        if let Some(entry) = entries.by_key.get_mut(key) {
            entry.last_used = now;
            return Arc::clone(&entry.slot);
        }
        let slot = Slot::default();
        entries.by_key.insert(key.clone(), Entry { slot: Arc::clone(&slot), bytes: 0, last_used: now });
        slot
    }

    /// Records the size of a new value, and evicts others beyond the bounds.
    fn settle(&self, key: &K, slot: &Slot<V, E>, bytes: u64) {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_key.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.slot, slot)) {
            entry.bytes = bytes;
        }
        let evicted = entries.evict(self.max_entries, self.max_bytes);
        drop(entries);
        // Values are dropped without the lock.
        drop(evicted);
    }

    fn remove_failed(&self, key: &K, slot: &Slot<V, E>) {
        let mut entries = self.lock();
        if entries.by_key.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot)) {
            entries.by_key.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V, E>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, V, E> Entries<K, V, E> {
    fn bytes(&self) -> u64 {
        self.by_key.values().map(|entry| entry.bytes).sum()
    }

    /// Removes the least recently used of the unused entries until the rest is within the bounds.
    fn evict(&mut self, max_entries: usize, max_bytes: u64) -> Vec<Entry<V, E>> {
        let mut evicted = vec![];
        let mut bytes = self.bytes();
        while self.by_key.len() > max_entries || bytes > max_bytes {
            let unused = self.by_key.iter().filter(|(_, entry)| entry.is_unused());
            let oldest = unused.min_by_key(|(_, entry)| entry.last_used).map(|(key, _)| key.clone());
            let Some(entry) = oldest.and_then(|key| self.by_key.remove(&key)) else { break };
            bytes -= entry.bytes;
            evicted.push(entry);
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicU32, Ordering::Relaxed},
        },
        thread,
    };

    use super::*;

    type Cache = SingleFlightCache<u32, u32, String>;

    fn get(cache: &Cache, key: u32) -> Arc<u32> {
        cache.get_or_create(&key, || Ok((key, 10))).expect("created")
    }

    /// The keys that have an entry. The probe does not change the order of eviction.
    fn kept(cache: &Cache, keys: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let entries = cache.lock();
        keys.into_iter().filter(|key| entries.by_key.contains_key(key)).collect()
    }

    #[test]
    fn concurrent_callers_of_one_key_share_one_creation() {
        let cache = Cache::new(8, 1000);
        let created = AtomicU32::new(0);
        let start = Barrier::new(4);
        let values: Vec<_> = thread::scope(|scope| {
            let ask = || {
                start.wait();
                cache.get_or_create(&1, || Ok((created.fetch_add(1, Relaxed), 10))).expect("created")
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(created.load(Relaxed), 1);
        assert!(values.iter().all(|value| Arc::ptr_eq(value, &values[0])));
    }

    #[test]
    fn different_keys_are_created_concurrently() {
        let cache = Cache::new(8, 1000);
        let both = Barrier::new(2);
        // Each creation waits for the other one: in sequence they would never end.
        let create = |key| {
            cache.get_or_create(&key, || {
                both.wait();
                Ok((key, 10))
            })
        };
        let values = thread::scope(|scope| {
            let threads = [1, 2].map(|key| scope.spawn(move || create(key).map(|value| *value)));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(values, [Ok(1), Ok(2)]);
    }

    #[test]
    fn least_recently_used_values_are_evicted_beyond_the_count() {
        let cache = Cache::new(2, 1000);
        for key in [1, 2, 1, 3] {
            get(&cache, key);
        }
        assert_eq!((kept(&cache, 1..4), cache.usage()), (vec![1, 3], (2, 20)));
    }

    #[test]
    fn values_are_evicted_beyond_the_bytes() {
        let cache = Cache::new(100, 25);
        for key in [1, 2, 3] {
            get(&cache, key);
        }
        assert_eq!((kept(&cache, 1..4), cache.usage()), (vec![2, 3], (2, 20)));
    }

    #[test]
    fn values_in_use_stay_until_they_are_dropped() {
        let cache = Cache::new(1, 1000);
        let first = get(&cache, 1);
        get(&cache, 2);
        get(&cache, 3);
        assert_eq!(kept(&cache, 1..4), [1, 3], "the first is in use, and the last was when it was inserted");
        let third = get(&cache, 3);
        get(&cache, 4);
        assert_eq!(kept(&cache, 1..5), [1, 3, 4]);
        drop((first, third));
        get(&cache, 5);
        assert_eq!(kept(&cache, 1..6), [5]);
    }

    #[test]
    fn an_error_is_returned_and_not_kept() {
        let cache = Cache::new(8, 1000);
        let error = cache.get_or_create(&1, || Err("no".to_owned())).expect_err("it fails");
        assert_eq!((error.as_str(), cache.usage()), ("no", (0, 0)));
        assert_eq!(*get(&cache, 1), 1);
    }

    #[test]
    fn clearing_drops_the_values() {
        let cache = Cache::new(8, 1000);
        let value = get(&cache, 1);
        cache.clear();
        assert_eq!((Arc::strong_count(&value), cache.usage()), (1, (0, 0)));
    }
}
