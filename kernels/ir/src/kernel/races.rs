//! Finds races between the threads of a launch.

use std::collections::HashMap;

use super::AtomicOp;

/// Components that are watched at a time; a launch that accesses more counts as one with a race.
const MAX_COMPONENTS: usize = 1 << 17;

/// Accesses of threads to the components of arrays, until a race is found: a component that two threads access, at least one of
/// which writes, unless all accesses are one atomic operation that commutes.
#[derive(Clone, Debug, Default)]
pub struct Races {
    /// By array and offset in its data.
    components: HashMap<(u32, usize), Accesses>,
    is_found: bool,
}

/// An access of a thread to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Atomic(AtomicOp),
}

#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    readers: Threads,
    writers: Threads,
    atomics: Threads,
    /// The last operation of `atomics`.
    atomic_op: Option<AtomicOp>,
}

/// None, one or several threads.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    first: Option<u64>,
    are_several: bool,
}

impl Races {
    /// Returns true if there is a race.
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    pub(super) fn note(&mut self, thread: u64, array: u32, offset: usize, access: Access) {
        if self.is_found {
            return;
        }
        let seen = self.components.entry((array, offset)).or_default();
        let readers = seen.readers.have_other(thread);
        let writers = seen.writers.have_other(thread);
        let atomics = seen.atomics.have_other(thread);
        self.is_found = match access {
            Access::Read => writers || atomics,
            Access::Write => readers || writers || atomics,
            Access::Atomic(op) => {
                let commutes = !matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
                readers || writers || (atomics && !(commutes && seen.atomic_op == Some(op)))
            }
        };
        match access {
            Access::Read => seen.readers.add(thread),
            Access::Write => seen.writers.add(thread),
            Access::Atomic(op) => {
                seen.atomics.add(thread);
                seen.atomic_op = Some(op);
            }
        }
        if self.is_found || self.components.len() > MAX_COMPONENTS {
            self.is_found = true;
            self.components = HashMap::new();
        }
    }
}

impl Threads {
    fn have_other(self, thread: u64) -> bool {
        self.are_several || self.first.is_some_and(|first| first != thread)
    }

    fn add(&mut self, thread: u64) {
        self.are_several = self.have_other(thread);
        self.first.get_or_insert(thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_race(accesses: &[(u64, Access)]) -> bool {
        let mut races = Races::default();
        for (thread, access) in accesses {
            races.note(*thread, 0, 8, *access);
        }
        races.is_found()
    }

    #[test]
    fn two_threads_race_if_one_writes_unless_all_do_one_atomic_operation() {
        use Access::{Read, Write};
        let atomic = |op| Access::Atomic(op);
        let add = atomic(AtomicOp::Add);
        let max = atomic(AtomicOp::Max);
        let exchange = atomic(AtomicOp::Exchange);
        for (first, second, expected) in [
            (Read, Read, false),
            (add, add, false),
            (add, max, true),
            (exchange, exchange, true),
            (Read, Write, true),
            (Write, Read, true),
            (Write, Write, true),
            (add, Read, true),
            (Read, add, true),
            (Write, add, true),
            (add, Write, true),
        ] {
            assert_eq!(is_race(&[(0, first), (1, second)]), expected, "{first:?} {second:?}");
            assert!(!is_race(&[(3, first), (3, second)]), "{first:?} {second:?} of one thread");
        }
        assert!(is_race(&[(0, Read), (1, Read), (1, Write)]));
    }

    #[test]
    fn components_of_other_places_are_independent() {
        let mut races = Races::default();
        for (thread, array, offset) in [(0, 0, 0), (1, 0, 4), (2, 1, 0)] {
            races.note(thread, array, offset, Access::Write);
        }
        assert!(!races.is_found());
    }
}
