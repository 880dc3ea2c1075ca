//! A parallel map whose results are consumed in order, with bounded memory.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
};

/// Resources of a helping thread while it runs, such as its memory.
pub type Helper = Box<dyn Send>;

/// An item with the bytes that it takes until its result is consumed.
pub(crate) struct Weighed<T> {
    pub(crate) item: T,
    pub(crate) bytes: usize,
}

/// Maps items and consumes the results in the order of the items. The calling thread does all of it, unless `helper`
/// lets further threads take items ahead. Items of at most `bytes_per_thread` bytes for each thread are in flight, or one
/// item. An error of `consume` ends it.
pub(crate) fn ordered_map<I: Send, T: Send, E>(
    items: impl Iterator<Item = Weighed<I>> + Send,
    bytes_per_thread: usize,
    helper: &dyn Fn() -> Option<Helper>,
    map: impl Fn(I) -> T + Sync,
    mut consume: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let shared = Shared {
        source: Mutex::new(Source { items, next: 0 }),
        flow: Mutex::new(Flow { limit: bytes_per_thread, ..Flow::default() }),
        changed: Condvar::new(),
    };
    let shared = &shared;
    let map = &map;
    thread::scope(|scope| {
        // Helpers end when this thread does, for whatever reason.
        let _stop = Stop { shared, always: true };
        for index in 0.. {
            // A single item needs no help.
            if index > 0
                && !shared.flow().has_ended
                && let Some(helper) = helper()
            {
                shared.flow().limit += bytes_per_thread;
                scope.spawn(move || {
                    shared.help(map);
                    drop(helper);
                });
            }
            let Some(Weighed { item, bytes }) = shared.result(index, map) else { break };
            consume(item)?;
            shared.flow().in_flight -= bytes;
            shared.changed.notify_all();
        }
        Ok(())
    })
}

struct Shared<S, T> {
    /// Locked while an item is read; never locked by who holds `flow`.
    source: Mutex<Source<S>>,
    flow: Mutex<Flow<T>>,
    changed: Condvar,
}

struct Source<S> {
    items: S,
    /// Index of the next item.
    next: usize,
}

struct Flow<T> {
    done: BTreeMap<usize, Weighed<T>>,
    /// Bytes of items that are taken and not consumed.
    in_flight: usize,
    limit: usize,
    /// There are no more items.
    has_ended: bool,
    /// A thread has panicked, or the results are not needed.
    is_stopped: bool,
}

impl<T> Default for Flow<T> {
    fn default() -> Self {
        Self { done: BTreeMap::new(), in_flight: 0, limit: 0, has_ended: false, is_stopped: false }
    }
}

impl<I, S: Iterator<Item = Weighed<I>>, T> Shared<S, T> {
    fn flow(&self) -> MutexGuard<'_, Flow<T>> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next item; `None` if there is none.
    fn take(&self, source: &mut Source<S>) -> Option<(usize, Weighed<I>)> {
        let item = source.items.next();
        let mut flow = self.flow();
        let Some(item) = item else {
            flow.has_ended = true;
            self.changed.notify_all();
            return None;
        };
        flow.in_flight += item.bytes;
        source.next += 1;
        Some((source.next - 1, item))
    }

    /// Maps items until there are no more.
    fn help(&self, map: impl Fn(I) -> T) {
        let _stop = Stop { shared: self, always: false };
        loop {
            let taken = {
                let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
                if !self.wait_for_room() {
                    return;
                }
                self.take(&mut source)
            };
            let Some((index, Weighed { item, bytes })) = taken else { return };
            let item = map(item);
            self.flow().done.insert(index, Weighed { item, bytes });
            self.changed.notify_all();
        }
    }

    /// Returns whether there is room for another item, as opposed to none to be taken.
    fn wait_for_room(&self) -> bool {
        let mut flow = self.flow();
        loop {
            if flow.is_stopped || flow.has_ended {
                return false;
            }
            if flow.in_flight == 0 || flow.in_flight < flow.limit {
                return true;
            }
            flow = self.changed.wait(flow).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The result of an item, mapped here if no other thread has taken it; `None` after the last one.
    fn result(&self, index: usize, map: impl Fn(I) -> T) -> Option<Weighed<T>> {
        match self.source.try_lock() {
            Ok(mut source) if source.next == index && !self.flow().has_ended => {
                let (_, Weighed { item, bytes }) = self.take(&mut source)?;
                drop(source);
                return Some(Weighed { item: map(item), bytes });
            }
            Ok(_) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Poisoned(_)) => return None,
        }
        // A helper has the item; or it holds the source, and then takes the item or finds that there is none.
        let mut flow = self.flow();
        loop {
            if let Some(done) = flow.done.remove(&index) {
                return Some(done);
            }
            if flow.is_stopped || (flow.has_ended && flow.in_flight == 0) {
                return None;
            }
            flow = self.changed.wait(flow).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ends all threads when it is dropped, or only if its thread panics.
struct Stop<'a, I, S: Iterator<Item = Weighed<I>>, T> {
    shared: &'a Shared<S, T>,
    always: bool,
}

impl<I, S: Iterator<Item = Weighed<I>>, T> Drop for Stop<'_, I, S, T> {
    fn drop(&mut self) {
        if self.always || thread::panicking() {
            self.shared.flow().is_stopped = true;
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::catch_unwind,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use super::*;

    fn items(count: usize, bytes: usize) -> impl Iterator<Item = Weighed<usize>> + Send {
        (0..count).map(move |item| Weighed { item, bytes })
    }

    /// Allows this many helpers.
    fn helpers(count: usize) -> impl Fn() -> Option<Helper> {
        let left = AtomicUsize::new(count);
        move || {
            left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok()?;
            Some(Box::new(()))
        }
    }

    #[test]
    fn results_are_consumed_in_order_whatever_the_number_of_threads() {
        for threads in [0, 1, 3, 8] {
            let mut seen = vec![];
            let map = |item: usize| {
                (0..item % 7 * 50).for_each(|_| thread::yield_now());
                item * 2
            };
            let consume = |result| {
                seen.push(result);
                Ok::<_, ()>(())
            };
            ordered_map(items(500, 1), 4, &helpers(threads), map, consume).expect("no result is refused");
            assert_eq!(seen, (0..500).map(|item| item * 2).collect::<Vec<_>>(), "{threads} threads");
        }
    }

    #[test]
    fn items_in_flight_are_bounded_by_their_bytes() {
        let (in_flight, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let map = |item: usize| {
            most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
            item
        };
        let consume = |_| {
            thread::yield_now();
            in_flight.fetch_sub(1, SeqCst);
            Ok::<_, ()>(())
        };
        // Two threads with 20 bytes each, and items of 10: one item more than the limit may be taken.
        ordered_map(items(300, 10), 20, &helpers(1), map, consume).expect("no result is refused");
        assert!(most.load(SeqCst) <= 5, "{most:?} items were in flight");
    }

    #[test]
    fn an_item_above_the_limit_is_taken_alone() {
        let mut sum = 0;
        let consume = |item| {
            sum += item;
            Ok::<_, ()>(())
        };
        ordered_map(items(20, usize::MAX / 4), 1, &helpers(3), |item| item, consume).expect("no result is refused");
        assert_eq!(sum, 190);
    }

    #[test]
    fn an_error_ends_all_threads() {
        let consume = |item| if item == 30 { Err("thirty") } else { Ok(()) };
        assert_eq!(ordered_map(items(usize::MAX, 1), 4, &helpers(3), |item| item, consume), Err("thirty"));
    }

    #[test]
    fn a_panic_of_a_thread_ends_all() {
        let map = |item| assert_ne!(item, 30);
        let panicked = catch_unwind(|| ordered_map(items(usize::MAX, 1), 4, &helpers(3), map, |()| Ok::<_, ()>(())));
        assert!(panicked.is_err());
    }
}
