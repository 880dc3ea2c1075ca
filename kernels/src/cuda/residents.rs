//! Things kept on a device between requests: copies of what the host owns.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::OpError;

/// Copies by type and id, each kept while its original lives on the host.
#[derive(Default)]
pub struct Residents {
    kept: Mutex<HashMap<(TypeId, u64), Kept>>,
}

struct Kept {
    original: Weak<dyn Any + Send + Sync>,
    copy: Arc<dyn Any + Send + Sync>,
}

impl Residents {
    /// The copy of `original`, made by `make` where there is none yet. Two workers may make one at the same time; both
    /// get the one that was kept. `make` must return only when the copy is whole (`Worker::synchronize`), since the
    /// other workers' streams do not wait for it.
    pub fn get_or_make<T, C>(
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

    /// Drops the copies whose originals are gone.
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
    fn a_copy_is_made_once_and_goes_with_its_original() {
        let residents = Residents::default();
        let original = Arc::new("table".to_owned());
        let first = residents.get_or_make(7, &original, || Ok(1_u32)).expect("made");
        let again = residents.get_or_make(7, &original, || Ok(2_u32)).expect("found");
        assert!(Arc::ptr_eq(&first, &again));
        let other = residents.get_or_make(7, &original, || Ok(3_i8)).expect("another type is another copy");
        assert_eq!(*other, 3);
        residents.sweep();
        assert_eq!(Arc::strong_count(&first), 3, "kept while the original lives");
        drop(original);
        residents.sweep();
        assert_eq!(Arc::strong_count(&first), 2);
    }
}
