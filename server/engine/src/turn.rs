//! Turns: long batches share a device by slices of time.
//!
//! A long batch runs only while it has one of the device's turns. At a preemption point after its slice it hands the turn to
//! the waiting batch whose principal was served the least time (start-time fair queueing, as in `batcher::fair_share`; of one
//! principal the batch that has waited longest), and waits for its own next turn. Short batches need no turn.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock};

/// Principals whose served time is kept.
const PRINCIPALS: usize = 1024;

/// The turns of one device.
pub(crate) struct Turns {
    /// Time that a batch keeps a turn that others wait for.
    slice: Duration,
    /// Batches that wait for a turn. Read at preemption points without the lock.
    waiting: AtomicUsize,
    state: Mutex<TurnQueue>,
}

struct TurnQueue {
    free: usize,
    /// The device is lost or stops: nobody waits any more.
    is_open: bool,
    /// Nanoseconds that each principal was served, at least the virtual time of when it last came.
    served: HashMap<u64, u64>,
    virtual_time: u64,
    waiters: Vec<Waiter>,
    next_ticket: u64,
}

struct Waiter {
    ticket: u64,
    principal: u64,
    granted: Arc<Condvar>,
}

impl Turns {
    pub(crate) fn new(turns: usize, slice: Duration) -> Self {
        let state = TurnQueue {
            free: turns.max(1),
            is_open: false,
            served: HashMap::new(),
            virtual_time: 0,
            waiters: vec![],
            next_ticket: 0,
        };
        Self { slice, waiting: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    pub(crate) fn slice(&self) -> Duration {
        self.slice
    }

    /// Returns true if a batch waits for a turn.
    pub(crate) fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Waits for a turn. The caller ends it with [`Self::end`].
    pub(crate) fn begin(&self, principal: u64) {
        let mut state = lock(&self.state);
        state.arrive(principal);
        if state.free > 0 && state.waiters.is_empty() {
            state.free -= 1;
            state.virtual_time = state.virtual_time.max(state.served[&principal]);
        } else {
            self.wait(state, principal);
        }
    }

    /// Ends a turn in which a principal was served for `used`.
    pub(crate) fn end(&self, principal: u64, used: Duration) {
        let mut state = lock(&self.state);
        state.charge(principal, used);
        state.free += 1;
        self.grant(&mut state);
    }

    /// Hands the turn to another batch and waits for the next one, if one waits whose principal was served at most as much.
    pub(crate) fn yield_turn(&self, principal: u64, used: Duration) {
        let mut state = lock(&self.state);
        state.charge(principal, used);
        let own = state.served.get(&principal).copied().unwrap_or(0);
        let is_due = state.next().is_some_and(|(served, _)| served <= own);
        if !is_due || state.is_open {
            return;
        }
        state.free += 1;
        self.grant(&mut state);
        self.wait(state, principal);
    }

    /// Lets everybody run from now on: the device is lost, or the engine stops.
    pub(crate) fn open(&self) {
        let mut state = lock(&self.state);
        state.is_open = true;
        for waiter in std::mem::take(&mut state.waiters) {
            waiter.granted.notify_one();
        }
        self.waiting.store(0, Ordering::SeqCst);
    }

    fn wait(&self, mut state: MutexGuard<'_, TurnQueue>, principal: u64) {
        if state.is_open {
            return;
        }
        let ticket = state.next_ticket;
        let granted = Arc::new(Condvar::new());
        state.next_ticket += 1;
        state.waiters.push(Waiter { ticket, principal, granted: Arc::clone(&granted) });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while state.waiters.iter().any(|waiter| waiter.ticket == ticket) {
            state = granted.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Gives free turns to those who wait.
    fn grant(&self, state: &mut TurnQueue) {
        while state.free > 0
            && let Some((served, ticket)) = state.next()
        {
            let position = state.waiters.iter().position(|waiter| waiter.ticket == ticket);
            let waiter = state.waiters.swap_remove(position.expect("it waits"));
            state.free -= 1;
            state.virtual_time = state.virtual_time.max(served);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            waiter.granted.notify_one();
        }
    }
}

impl TurnQueue {
    /// A principal without a batch gains no credit while it is away.
    fn arrive(&mut self, principal: u64) {
        if self.served.len() >= PRINCIPALS && !self.served.contains_key(&principal) {
            let waiters = &self.waiters;
            self.served.retain(|principal, _| waiters.iter().any(|waiter| waiter.principal == *principal));
        }
        let virtual_time = self.virtual_time;
        let served = self.served.entry(principal).or_insert(virtual_time);
        *served = virtual_time.max(*served);
    }

    fn charge(&mut self, principal: u64, used: Duration) {
        let nanos = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        let virtual_time = self.virtual_time;
        let served = self.served.entry(principal).or_insert(virtual_time);
        *served = served.saturating_add(nanos);
    }

    /// The time served and the ticket of the waiter that is next.
    fn next(&self) -> Option<(u64, u64)> {
        let served = |waiter: &Waiter| self.served.get(&waiter.principal).copied().unwrap_or(0);
        self.waiters.iter().map(|waiter| (served(waiter), waiter.ticket)).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicU64, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    const SLICE: Duration = Duration::from_millis(10);

    /// Waits until this many batches wait.
    fn waiting(turns: &Turns, count: usize) {
        while turns.waiting.load(SeqCst) != count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_turn_is_taken_at_once_while_one_is_free() {
        let turns = Turns::new(2, SLICE);
        turns.begin(1);
        turns.begin(2);
        assert!(!turns.is_contended());
        turns.yield_turn(1, SLICE);
        turns.end(1, SLICE);
        turns.begin(3);
        assert!(!turns.is_contended());
    }

    #[test]
    fn a_batch_hands_its_turn_over_and_gets_it_back() {
        let turns = Turns::new(1, SLICE);
        let order = std::sync::Mutex::new(vec![]);
        turns.begin(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                turns.begin(1);
                order.lock().expect("no panic").push("second");
                turns.end(1, SLICE);
            });
            waiting(&turns, 1);
            turns.yield_turn(1, SLICE);
            order.lock().expect("no panic").push("first");
            turns.end(1, SLICE);
        });
        assert_eq!(*order.lock().expect("no panic"), ["second", "first"]);
    }

    #[test]
    fn the_principal_that_was_served_least_goes_first() {
        let turns = Turns::new(1, SLICE);
        let order = std::sync::Mutex::new(vec![]);
        turns.begin(7);
        // Two batches of the principal that has the turn, then one of another.
        thread::scope(|scope| {
            for (place, principal) in [7, 7, 8].into_iter().enumerate() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    turns.begin(principal);
                    order.lock().expect("no panic").push(principal);
                    turns.end(principal, SLICE);
                });
                waiting(turns, place + 1);
            }
            turns.yield_turn(7, 100 * SLICE);
            order.lock().expect("no panic").push(0);
            turns.end(7, SLICE);
        });
        let order = order.into_inner().expect("no panic");
        assert_eq!((order[0], order.len()), (8, 4));
    }

    #[test]
    fn a_batch_that_was_served_less_keeps_its_turn() {
        let turns = Turns::new(1, SLICE);
        turns.begin(1);
        turns.end(1, 50 * SLICE);
        turns.begin(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                turns.begin(1);
                turns.end(1, SLICE);
            });
            waiting(&turns, 1);
            // It would not return if it gave up its turn: nobody yields to it.
            turns.yield_turn(2, SLICE);
            assert!(turns.is_contended());
            turns.end(2, SLICE);
        });
    }

    #[test]
    fn an_open_device_makes_nobody_wait() {
        let turns = Turns::new(1, SLICE);
        turns.begin(1);
        thread::scope(|scope| {
            scope.spawn(|| turns.begin(2));
            waiting(&turns, 1);
            turns.open();
        });
        turns.begin(3);
        turns.yield_turn(3, SLICE);
        assert!(!turns.is_contended());
    }

    #[test]
    fn at_most_as_many_batches_run_as_there_are_turns() {
        let turns = Turns::new(2, SLICE);
        let running = AtomicU64::new(0);
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for principal in 0..8 {
                let turns = &turns;
                let running = &running;
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    turns.begin(principal);
                    for _ in 0..200 {
                        assert!(running.fetch_add(1, SeqCst) < 2);
                        running.fetch_sub(1, SeqCst);
                        turns.yield_turn(principal, SLICE);
                    }
                    turns.end(principal, SLICE);
                });
            }
        });
        assert_eq!(turns.state.lock().expect("no panic").free, 2);
    }
}
