//! Values that a worker derives from host objects, by the identity of each object.

use std::{
    any::Any,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, Weak},
};

/// An LRU cache of values by owner, bounded by their total weight.
pub(crate) struct OwnerCache {
    /// By the owner's address, which no other object has while there is a weak reference.
    entries: HashMap<usize, Entry>,
    max_weight: usize,
    /// Counts uses; orders entries by them.
    clock: u64,
}

struct Entry {
    owner: Weak<dyn Any + Send + Sync>,
    value: Rc<dyn Any>,
    weight: usize,
    last_used: u64,
}

impl OwnerCache {
    pub(crate) fn new(max_weight: usize) -> Self {
        Self { entries: HashMap::new(), max_weight, clock: 0 }
    }

    /// The value of an owner.
    pub(crate) fn get<T: Any + Send + Sync, V: Any>(&mut self, owner: &Arc<T>) -> Option<Rc<V>> {
        self.clock += 1;
        let entry = self.entries.get_mut(&Arc::as_ptr(owner).addr())?;
        entry.last_used = self.clock;
        Rc::clone(&entry.value).downcast().ok()
    }

    /// Inserts the value of an owner, unless it alone exceeds the maximum. Drops those whose owners are dropped, and then those that
    /// were not used for longest, down to the maximum.
    pub(crate) fn insert<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, weight: usize, value: Rc<dyn Any>) {
        self.entries.retain(|_, entry| entry.owner.strong_count() > 0);
        if weight > self.max_weight {
            return;
        }
        self.clock += 1;
        let weak = Arc::downgrade(owner);
        let last_used = self.clock;
        self.entries.insert(Arc::as_ptr(owner).addr(), Entry { owner: weak, value, weight, last_used });
        let mut total: usize = self.entries.values().map(|entry| entry.weight).sum();
        while total > self.max_weight {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_used).map(|(address, _)| *address);
            let Some(entry) = oldest.and_then(|address| self.entries.remove(&address)) else { break };
            total -= entry.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(cache: &mut OwnerCache, owner: &Arc<u8>) -> Option<&'static str> {
        cache.get::<u8, &str>(owner).as_deref().copied()
    }

    #[test]
    fn values_belong_to_one_object_and_the_least_recently_used_ones_are_evicted() {
        let mut cache = OwnerCache::new(10);
        let owners = [7, 7, 7].map(Arc::new);
        cache.insert(&owners[0], 4, Rc::new("first"));
        cache.insert(&owners[1], 4, Rc::new("second"));
        assert_eq!(get(&mut cache, &owners[0]), Some("first"));
        cache.insert(&owners[2], 4, Rc::new("third"));
        let kept = owners.each_ref().map(|owner| get(&mut cache, owner));
        assert_eq!(kept, [Some("first"), None, Some("third")]);
        cache.insert(&owners[1], 11, Rc::new("too heavy"));
        assert_eq!(get(&mut cache, &owners[1]), None);
    }

    #[test]
    fn values_of_dropped_objects_are_dropped_with_the_next_insertion() {
        let mut cache = OwnerCache::new(10);
        let owner = Arc::new(1_u8);
        let other = Arc::new(1_u8);
        let value = Rc::new(());
        cache.insert(&owner, 1, Rc::clone(&value) as Rc<dyn Any>);
        drop(owner);
        assert_eq!(Rc::strong_count(&value), 2);
        cache.insert(&other, 1, Rc::new(()));
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
