//! Who gets the next free process: principals take turns, and the calls of a principal run in order. A pure state machine.

use std::collections::{HashMap, VecDeque};

/// Free processes, and who waits for one. `W` is what a waiting call is told by.
///
/// While calls wait, no process is free.
#[derive(Debug)]
pub(super) struct TurnQueue<W> {
    processes: usize,
    running: usize,
    max_queued: usize,
    queued: usize,
    /// The principals with waiting calls, in the order of their turns.
    rotation: VecDeque<u64>,
    waiting: HashMap<u64, VecDeque<(Ticket, W)>>,
    tickets: u64,
    is_draining: bool,
}

/// A waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    principal: u64,
    number: u64,
}

/// What becomes of a call that asks for a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// It has one, and releases it.
    Running,
    /// It waits until it is told, or leaves.
    Queued(Ticket),
    /// As many calls wait as may.
    Full,
    /// No further calls are accepted.
    Draining,
}

impl<W> TurnQueue<W> {
    pub(super) fn new(processes: usize, max_queued: usize) -> Self {
        Self {
            processes,
            running: 0,
            max_queued,
            queued: 0,
            rotation: VecDeque::new(),
            waiting: HashMap::new(),
            tickets: 0,
            is_draining: false,
        }
    }

    /// Asks for a process. A call that had one before waits however many calls do.
    pub(super) fn enter(&mut self, principal: u64, waiter: W, had_turn: bool) -> Entered {
        if self.is_draining {
            return Entered::Draining;
        }
        if self.running < self.processes {
            self.running += 1;
            return Entered::Running;
        }
        if self.queued >= self.max_queued && !had_turn {
            return Entered::Full;
        }
        self.queued += 1;
        self.tickets += 1;
        let ticket = Ticket { principal, number: self.tickets };
        let of_principal = self.waiting.entry(principal).or_default();
        if of_principal.is_empty() {
            self.rotation.push_back(principal);
        }
        of_principal.push_back((ticket, waiter));
        Entered::Queued(ticket)
    }

    /// A call waits no longer. Changes nothing if it has been told already.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        let Some(of_principal) = self.waiting.get_mut(&ticket.principal) else { return };
        let Some(at) = of_principal.iter().position(|(waiting, _)| *waiting == ticket) else { return };
        of_principal.remove(at);
        self.queued -= 1;
        if of_principal.is_empty() {
            self.waiting.remove(&ticket.principal);
            self.rotation.retain(|principal| *principal != ticket.principal);
        }
    }

    /// A call is done with its process, which is handed to the one that is returned.
    pub(super) fn release(&mut self) -> Option<W> {
        let next = self.pop();
        if next.is_none() {
            self.running -= 1;
        }
        next
    }

    fn pop(&mut self) -> Option<W> {
        let principal = self.rotation.pop_front()?;
        let of_principal = self.waiting.get_mut(&principal)?;
        let (_, waiter) = of_principal.pop_front()?;
        self.queued -= 1;
        if of_principal.is_empty() {
            self.waiting.remove(&principal);
        } else {
            self.rotation.push_back(principal);
        }
        Some(waiter)
    }

    /// Accepts no further calls, or accepts them again.
    pub(super) fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Calls that have a process.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Calls that wait.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket(entered: &Entered) -> Ticket {
        let Entered::Queued(ticket) = entered else { panic!("{entered:?}") };
        *ticket
    }

    /// Who gets the process, one after the other.
    fn order<W>(queue: &mut TurnQueue<W>) -> Vec<W> {
        std::iter::from_fn(|| queue.release()).collect()
    }

    #[test]
    fn principals_take_turns_and_the_calls_of_one_run_in_order() {
        let mut queue = TurnQueue::new(1, 100);
        assert_eq!(queue.enter(0, "first", false), Entered::Running);
        for (principal, name) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            ticket(&queue.enter(principal, name, false));
        }
        assert_eq!(order(&mut queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn fifty_calls_of_one_principal_do_not_delay_another_by_more_than_one() {
        let mut queue = TurnQueue::new(1, 100);
        queue.enter(1, 0, false);
        for call in 1..=50 {
            ticket(&queue.enter(1, call, false));
        }
        ticket(&queue.enter(2, 1000, false));
        assert_eq!((queue.release(), queue.release()), (Some(1), Some(1000)));
    }

    #[test]
    fn a_call_beyond_the_limit_is_refused_and_one_that_leaves_makes_room() {
        let mut queue = TurnQueue::new(2, 1);
        assert_eq!([queue.enter(1, 'a', false), queue.enter(1, 'b', false)], [Entered::Running, Entered::Running]);
        let waiting = ticket(&queue.enter(1, 'c', false));
        assert_eq!(queue.enter(2, 'd', false), Entered::Full);
        let had_turn = ticket(&queue.enter(2, 'd', true));
        queue.leave(had_turn);
        queue.leave(waiting);
        queue.leave(waiting);
        ticket(&queue.enter(2, 'e', false));
        assert_eq!((queue.running(), queue.queued()), (2, 1));
        assert_eq!(order(&mut queue), ['e']);
    }

    #[test]
    fn a_queue_that_drains_refuses_new_calls_and_serves_those_that_wait() {
        let mut queue = TurnQueue::new(1, 10);
        queue.enter(1, 'a', false);
        queue.enter(1, 'b', false);
        queue.set_draining(true);
        assert_eq!(queue.enter(1, 'c', false), Entered::Draining);
        assert_eq!((queue.release(), queue.release(), queue.running()), (Some('b'), None, 0));
        queue.set_draining(false);
        assert_eq!(queue.enter(1, 'd', false), Entered::Running);
    }

    proptest! {
        #[test]
        fn no_call_is_lost_and_no_process_idles_while_calls_wait(
            processes in 1_usize..4,
            steps in prop::collection::vec((0_u64..4, 0_u8..3), 1..200),
        ) {
            let mut queue = TurnQueue::new(processes, 10);
            let (mut running, mut waiting) = (0, vec![]);
            for (nth, (principal, action)) in steps.into_iter().enumerate() {
                match action {
                    0 => match queue.enter(principal, nth, false) {
                        Entered::Running => running += 1,
                        Entered::Queued(ticket) => waiting.push((ticket, nth)),
                        Entered::Full => prop_assert_eq!(waiting.len(), 10),
                        Entered::Draining => prop_assert!(false, "it does not drain"),
                    },
                    1 if running > 0 => match queue.release() {
                        Some(told) => waiting.retain(|(_, call)| *call != told),
                        None => running -= 1,
                    },
                    _ => if let Some((ticket, _)) = waiting.pop() {
                        queue.leave(ticket);
                    },
                }
                prop_assert_eq!((queue.running(), queue.queued()), (running, waiting.len()));
                prop_assert!(waiting.is_empty() || running == processes);
            }
        }
    }
}
