//! Finds races between the threads of a launch.

use std::collections::HashMap;

/// Components that are watched at a time; a launch that accesses more counts as one with a race.
const MAX_COMPONENTS: usize = 1 << 17;

/// What threads have done with the components of arrays, as long as no race is found: a component that two threads access, at least one of
/// which writes, unless all accesses are atomic. Accesses of the interpreter's threads are all there is to a launch, whatever their order.
#[derive(Clone, Debug, Default)]
pub struct Races {
    /// By array and offset in its data.
    components: HashMap<(u32, usize), Accesses>,
    is_found: bool,
}

/// What a thread does with a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Atomic,
}

#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    readers: Threads,
    writers: Threads,
    atomics: Threads,
}

/// None, one or several threads.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    first: Option<u64>,
    are_several: bool,
}

impl Races {
    /// Whether there is a race.
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    pub(super) fn note(&mut self, thread: u64, array: u32, offset: usize, access: Access) {
        if self.is_found {
            return;
        }
        let seen = self.components.entry((array, offset)).or_default();
        let (readers, writers, atomics) =
            (seen.readers.have_other(thread), seen.writers.have_other(thread), seen.atomics.have_other(thread));
        self.is_found = match access {
            Access::Read => writers || atomics,
            Access::Write => readers || writers || atomics,
            Access::Atomic => readers || writers,
        };
        match access {
            Access::Read => seen.readers.add(thread),
            Access::Write => seen.writers.add(thread),
            Access::Atomic => seen.atomics.add(thread),
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
    fn two_threads_race_if_one_writes_and_not_all_are_atomic() {
        use Access::{Atomic, Read, Write};
        for (first, second, expected) in [
            (Read, Read, false),
            (Atomic, Atomic, false),
            (Read, Write, true),
            (Write, Read, true),
            (Write, Write, true),
            (Atomic, Read, true),
            (Read, Atomic, true),
            (Write, Atomic, true),
            (Atomic, Write, true),
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
