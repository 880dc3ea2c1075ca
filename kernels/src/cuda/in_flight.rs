//! Keeps loaded code alive until the launches that use it have completed.

use std::{
    any::Any,
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::Arc,
};

/// Objects in the current generation before it is closed.
const GENERATION: usize = 64;

/// Objects that the launches of a stream use. Objects are kept in two generations: a closed one is released as a whole once the
/// stream has completed the work before its end, while later launches join the open one. So a launch costs a lookup, and
/// about two generations of objects stay alive.
#[derive(Default)]
pub(super) struct InFlight {
    open: HashMap<usize, Arc<dyn Any + Send + Sync>>,
    closed: HashMap<usize, Arc<dyn Any + Send + Sync>>,
}

impl InFlight {
    /// Keeps an object; returns whether it is new and the open generation is full.
    pub(super) fn keep<T: Any + Send + Sync>(&mut self, object: &Arc<T>) -> bool {
        let Entry::Vacant(place) = self.open.entry(Arc::as_ptr(object).addr()) else { return false };
        place.insert(Arc::clone(object) as Arc<dyn Any + Send + Sync>);
        self.open.len() >= GENERATION
    }

    /// Closes the open generation. `is_complete`: whether the work before the last close is done. `mark`: marks the end of
    /// the work enqueued so far.
    pub(super) fn advance(&mut self, is_complete: impl FnOnce() -> bool, mark: impl FnOnce() -> bool) {
        let released = self.closed.is_empty() || is_complete();
        if released && mark() {
            self.closed = mem::take(&mut self.open);
        }
    }

    /// Releases all objects; the stream is synchronised.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.closed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(objects: &[Arc<usize>]) -> Vec<bool> {
        objects.iter().map(|object| Arc::strong_count(object) > 1).collect()
    }

    #[test]
    fn a_generation_is_released_after_the_work_that_uses_it() {
        let mut in_flight = InFlight::default();
        let objects = [0, 1, 2].map(Arc::new);
        in_flight.keep(&objects[0]);
        in_flight.advance(|| unreachable!("nothing is closed"), || true);
        in_flight.keep(&objects[1]);
        in_flight.advance(|| false, || unreachable!("the closed generation is still in use"));
        assert_eq!(alive(&objects), [true, true, false]);
        in_flight.keep(&objects[2]);
        in_flight.advance(|| true, || true);
        assert_eq!(alive(&objects), [false, true, true]);
        in_flight.clear();
        assert_eq!(alive(&objects), [false; 3]);
    }

    #[test]
    fn objects_stay_where_the_end_of_the_work_cannot_be_marked() {
        let mut in_flight = InFlight::default();
        let object = Arc::new(0);
        in_flight.keep(&object);
        in_flight.advance(|| true, || false);
        assert_eq!(Arc::strong_count(&object), 2);
    }

    #[test]
    fn an_object_is_kept_once_however_often_it_is_launched() {
        let mut in_flight = InFlight::default();
        let object = Arc::new(0);
        assert!((0..2 * GENERATION).all(|_| !in_flight.keep(&object)));
        assert_eq!(Arc::strong_count(&object), 2);
        let others: Vec<_> = (1..GENERATION).map(Arc::new).collect();
        let full: Vec<_> = others.iter().map(|other| in_flight.keep(other)).collect();
        assert_eq!(full.iter().filter(|full| **full).count(), 1, "only the last one fills it");
    }
}
