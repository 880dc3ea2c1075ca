//! Device copies of host objects, kept between requests.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::OpError;

/// Device copies by type and id, each kept while its host object lives.
#[derive(Default)]
pub struct DeviceCache {
    kept: Mutex<HashMap<(TypeId, u64), Kept>>,
}

struct Kept {
    original: Weak<dyn Any + Send + Sync>,
    copy: Arc<dyn Any + Send + Sync>,
}

impl DeviceCache {
    /// The copy of `original`, made by `make` on a miss. Two workers may make one concurrently; both get the one inserted
    /// first. `make` must return only when the copy is complete (`Worker::synchronize`), since the other workers'
    /// streams do not wait for it.
    pub fn get_or_create<T, C>(
        &self,
        id: u64,
        original: &Arc<T>,
        make: impl FnOnce() -> Result<C, OpError>,
    ) -> Result<Arc<C>, OpError>
    where
        T: Any + Send + Sync,
        C: Any + Send + Sync,
    {
        if let Some(found) = self.get(id) {
            return Ok(found);
        }
        let copy = Arc::new(make()?);
        let original = Arc::downgrade(original);
        let mut kept = self.lock();
        let entry = kept
            .entry((TypeId::of::<C>(), id))
            .or_insert_with(|| Kept { original, copy: Arc::clone(&copy) as Arc<dyn Any + Send + Sync> });
        Ok(Arc::clone(&entry.copy).downcast().unwrap_or(copy))
    }

    fn get<C: Any + Send + Sync>(&self, id: u64) -> Option<Arc<C>> {
        let kept = self.lock();
        Arc::clone(&kept.get(&(TypeId::of::<C>(), id))?.copy).downcast().ok()
    }

    /// Drops the copies whose host objects are dropped.
    pub(super) fn sweep(&self) {
        self.lock().retain(|_, kept| kept.original.strong_count() > 0);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(TypeId, u64), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_once_and_dropped_with_its_host_object() {
        let device_cache = DeviceCache::default();
        let original = Arc::new("table".to_owned());
        let first = device_cache.get_or_create(7, &original, || Ok(1_u32)).expect("made");
        let again = device_cache.get_or_create(7, &original, || Ok(2_u32)).expect("found");
        assert!(Arc::ptr_eq(&first, &again));
        let other = device_cache.get_or_create(7, &original, || Ok(3_i8)).expect("another type is another copy");
        assert_eq!(*other, 3);
        device_cache.sweep();
        assert_eq!(Arc::strong_count(&first), 3, "kept while the original lives");
        drop(original);
        device_cache.sweep();
        assert_eq!(Arc::strong_count(&first), 2);
    }
}
