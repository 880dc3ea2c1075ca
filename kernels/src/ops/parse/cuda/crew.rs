//! The CPU's threads at work on what is left to it: few of them while others pack, for whom the device waits.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Mutex, PoisonError},
};

/// Of so many threads one is at work while sources are packed.
const THREADS_FOR_ONE: usize = 4;
/// As many threads are about as fast as the device. Columns are brought in the order of their sources, so that what a thread is
/// late with holds up all behind it.
const DEVICE_IN_THREADS: i64 = 64;

/// What a thread has to do; the one that can wait least is the greatest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// To parse source number `at`.
    Parse {
        /// How long that can wait.
        slack: Reverse<i64>,
        at: usize,
    },
    /// To look for long lines in the sources from one to before another; the sooner, the sooner the CPU begins with these.
    LookThrough(Reverse<usize>, usize),
}

impl Job {
    /// To parse a source. `before`: bytes of the sources before it; when the device has done them, this should be there.
    pub(super) fn parse(at: usize, bytes: usize, before: usize) -> Self {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let slack = number(before).saturating_sub(number(bytes).saturating_mul(DEVICE_IN_THREADS));
        Self::Parse { slack: Reverse(slack), at }
    }
}

/// Jobs, and how many threads are at them.
#[derive(Debug)]
pub(super) struct Crew {
    threads: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    jobs: BinaryHeap<Job>,
    at_work: usize,
    most: usize,
}

impl Crew {
    pub(super) fn new(threads: usize) -> Self {
        let most = (threads / THREADS_FOR_ONE).max(1);
        Self { threads, state: Mutex::new(State { jobs: BinaryHeap::new(), at_work: 0, most }) }
    }

    /// Adds jobs; says how many more threads are to [come for them](Self::next).
    pub(super) fn call(&self, jobs: Vec<Job>) -> usize {
        self.with(|state| {
            state.jobs.extend(jobs);
            state.hands()
        })
    }

    /// From now on every thread may work; says how many more are to come.
    pub(super) fn all_hands(&self) -> usize {
        self.with(|state| {
            state.most = self.threads.max(1);
            state.hands()
        })
    }

    /// The next job of a thread that came; without one it leaves.
    pub(super) fn next(&self) -> Option<Job> {
        self.with(|state| {
            let job = state.jobs.pop();
            state.at_work -= usize::from(job.is_none());
            job
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn hands(&mut self) -> usize {
        let hands = self.jobs.len().min(self.most - self.at_work);
        self.at_work += hands;
        hands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_work_until_all_may() {
        let crew = Crew::new(8);
        assert_eq!(crew.call((0..3).map(|at| Job::parse(at, 1, at)).collect()), 2);
        assert_eq!(crew.call(vec![Job::LookThrough(Reverse(0), 4)]), 0);
        assert!(crew.next().is_some() && crew.next().is_some());
        assert_eq!(crew.all_hands(), 2);
        assert!(crew.next().is_some() && crew.next().is_some());
        assert!((0..4).all(|_| crew.next().is_none()));
        assert_eq!(crew.call(vec![Job::parse(3, 1, 0)]), 1);
    }

    #[test]
    fn what_can_wait_least_goes_first() {
        let crew = Crew::new(1);
        let (large, early, late) =
            (Job::parse(7, 1 << 20, 1 << 24), Job::parse(0, 10, 0), Job::parse(9, 1 << 10, 1 << 24));
        let jobs = vec![late, Job::LookThrough(Reverse(5), 9), early, large, Job::LookThrough(Reverse(0), 5)];
        assert_eq!(crew.call(jobs), 1);
        let order = std::iter::from_fn(|| crew.next()).map(|job| match job {
            Job::Parse { at, .. } => at,
            Job::LookThrough(_, end) => 100 + end,
        });
        assert_eq!(order.collect::<Vec<_>>(), [105, 109, 7, 0, 9]);
    }

    #[test]
    fn one_works_where_there_is_one_thread() {
        let crew = Crew::new(1);
        assert_eq!(crew.call((0..3).map(|at| Job::parse(at, 1, 0)).collect()), 1);
        assert_eq!(crew.all_hands(), 0);
    }
}
