//! Who gets the next free process: principals take turns, and the calls of a principal run in order. A pure state machine.
//!
//! A call may ask for several processes. It gets a further one only if no other call waits for its first.

use std::collections::{HashMap, VecDeque};

/// Free processes, and who waits for one. `W` is what a waiting turn is told by.
///
/// While turns wait, no process is free.
#[derive(Debug)]
pub(super) struct TurnQueue<W> {
    processes: usize,
    running: usize,
    max_queued: usize,
    /// The principals with waiting turns, in the order in which they are served.
    rotation: VecDeque<u64>,
    waiting: HashMap<u64, VecDeque<WaitingTurn<W>>>,
    /// The calls that have a process or wait for one.
    calls: HashMap<u64, CallTurns>,
    tickets: u64,
    is_draining: bool,
}

#[derive(Debug)]
struct WaitingTurn<W> {
    ticket: Ticket,
    call: u64,
    waiter: W,
}

/// The turns of a call.
#[derive(Clone, Copy, Debug, Default)]
struct CallTurns {
    running: usize,
    waiting: usize,
}

/// A waiting turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    principal: u64,
    number: u64,
}

/// Who asks for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) principal: u64,
    pub(super) call: u64,
    /// Whether the call had a process before. It waits then however many calls do.
    pub(super) had_turn: bool,
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
            rotation: VecDeque::new(),
            waiting: HashMap::new(),
            calls: HashMap::new(),
            tickets: 0,
            is_draining: false,
        }
    }

    /// Asks for a process.
    pub(super) fn enter(&mut self, caller: Caller, waiter: W) -> Entered {
        let Caller { principal, call, had_turn } = caller;
        if self.is_draining {
            return Entered::Draining;
        }
        if self.running < self.processes {
            self.running += 1;
            self.calls.entry(call).or_default().running += 1;
            return Entered::Running;
        }
        if !had_turn && !self.calls.contains_key(&call) && self.queued() >= self.max_queued {
            return Entered::Full;
        }
        self.calls.entry(call).or_default().waiting += 1;
        self.tickets += 1;
        let ticket = Ticket { principal, number: self.tickets };
        let of_principal = self.waiting.entry(principal).or_default();
        if of_principal.is_empty() {
            self.rotation.push_back(principal);
        }
        of_principal.push_back(WaitingTurn { ticket, call, waiter });
        Entered::Queued(ticket)
    }

    /// A turn is waited for no longer. Changes nothing if its call has been told already.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        let Some(of_principal) = self.waiting.get(&ticket.principal) else { return };
        let Some(at) = of_principal.iter().position(|turn| turn.ticket == ticket) else { return };
        self.take(ticket.principal, at);
    }

    /// A call is done with a process, which is handed to the call that is returned.
    pub(super) fn release(&mut self, call: u64) -> Option<(u64, W)> {
        self.change(call, |turns| turns.running -= 1);
        let Some(next) = self.pop() else {
            self.running -= 1;
            return None;
        };
        self.calls.entry(next.call).or_default().running += 1;
        Some((next.call, next.waiter))
    }

    /// The next turn of a call without a process, or if there is none, of a call that has some.
    fn pop(&mut self) -> Option<WaitingTurn<W>> {
        let next = |is_next: &dyn Fn(&WaitingTurn<W>) -> bool| {
            self.rotation
                .iter()
                .find_map(|principal| Some((*principal, self.waiting[principal].iter().position(is_next)?)))
        };
        let has_none = |turn: &WaitingTurn<W>| self.calls[&turn.call].running == 0;
        let (principal, at) = next(&has_none).or_else(|| next(&|_| true))?;
        let turn = self.take(principal, at);
        if self.waiting.contains_key(&principal) {
            self.rotation.retain(|other| *other != principal);
            self.rotation.push_back(principal);
        }
        turn
    }

    fn take(&mut self, principal: u64, at: usize) -> Option<WaitingTurn<W>> {
        let of_principal = self.waiting.get_mut(&principal)?;
        let turn = of_principal.remove(at)?;
        if of_principal.is_empty() {
            self.waiting.remove(&principal);
            self.rotation.retain(|other| *other != principal);
        }
        self.change(turn.call, |turns| turns.waiting -= 1);
        Some(turn)
    }

    fn change(&mut self, call: u64, change: impl FnOnce(&mut CallTurns)) {
        let Some(turns) = self.calls.get_mut(&call) else { return };
        change(turns);
        if turns.running + turns.waiting == 0 {
            self.calls.remove(&call);
        }
    }

    /// Accepts no further calls, or accepts them again.
    pub(super) fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Processes in use.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Calls that wait and have no process.
    pub(super) fn queued(&self) -> usize {
        self.calls.values().filter(|turns| turns.running == 0).count()
    }

    /// Processes of a call.
    pub(super) fn processes_of(&self, call: u64) -> usize {
        self.calls.get(&call).map_or(0, |turns| turns.running)
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

    /// A turn of a call, which is its own waiter.
    fn enter(queue: &mut TurnQueue<u64>, principal: u64, call: u64) -> Entered {
        queue.enter(Caller { principal, call, had_turn: false }, call)
    }

    /// Who gets the process, one after the other. The first that releases one is `call`.
    fn order(queue: &mut TurnQueue<u64>, mut call: u64) -> Vec<u64> {
        let next = || {
            let (next, told) = queue.release(call)?;
            call = next;
            Some(told)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn principals_take_turns_and_the_calls_of_one_run_in_order() {
        let mut queue = TurnQueue::new(1, 100);
        assert_eq!(enter(&mut queue, 0, 0), Entered::Running);
        for (principal, call) in [(1, 11), (1, 12), (1, 13), (2, 21), (3, 31), (2, 22)] {
            ticket(&enter(&mut queue, principal, call));
        }
        assert_eq!(order(&mut queue, 0), [11, 21, 31, 12, 22, 13]);
    }

    #[test]
    fn fifty_calls_of_one_principal_do_not_delay_another_by_more_than_one() {
        let mut queue = TurnQueue::new(1, 100);
        enter(&mut queue, 1, 0);
        for call in 1..=50 {
            ticket(&enter(&mut queue, 1, call));
        }
        ticket(&enter(&mut queue, 2, 1000));
        assert_eq!(order(&mut queue, 0)[..2], [1, 1000]);
    }

    #[test]
    fn a_call_has_several_processes_only_while_no_other_call_waits_for_its_first() {
        let mut queue = TurnQueue::new(3, 100);
        for _ in 0..3 {
            assert_eq!(enter(&mut queue, 1, 1), Entered::Running, "nobody waits");
        }
        for call in [1, 1, 2, 3] {
            ticket(&enter(&mut queue, 1, call));
        }
        assert_eq!(queue.queued(), 2, "calls without a process");
        assert_eq!([queue.release(1), queue.release(1)], [Some((2, 2)), Some((3, 3))]);
        assert_eq!(queue.release(1), Some((1, 1)), "it has no process any more");
        assert_eq!(queue.release(2), Some((1, 1)), "nobody else waits");
        assert_eq!((queue.release(1), queue.release(1), queue.release(3)), (None, None, None));
        assert_eq!((queue.running(), queue.processes_of(1)), (0, 0));
    }

    #[test]
    fn a_call_beyond_the_limit_is_refused_and_one_that_leaves_makes_room() {
        let mut queue = TurnQueue::new(2, 1);
        assert_eq!([enter(&mut queue, 1, 1), enter(&mut queue, 1, 2)], [Entered::Running, Entered::Running]);
        let waiting = ticket(&enter(&mut queue, 1, 3));
        assert_eq!(enter(&mut queue, 2, 4), Entered::Full);
        for known in [1, 3] {
            let further = ticket(&enter(&mut queue, 1, known));
            queue.leave(further);
        }
        let had_turn = ticket(&queue.enter(Caller { principal: 2, call: 4, had_turn: true }, 4));
        queue.leave(had_turn);
        queue.leave(waiting);
        queue.leave(waiting);
        ticket(&enter(&mut queue, 2, 5));
        assert_eq!((queue.running(), queue.queued()), (2, 1));
        assert_eq!(order(&mut queue, 1), [5]);
    }

    #[test]
    fn a_queue_that_drains_refuses_new_calls_and_serves_those_that_wait() {
        let mut queue = TurnQueue::new(1, 10);
        enter(&mut queue, 1, 1);
        enter(&mut queue, 1, 2);
        queue.set_draining(true);
        assert_eq!(enter(&mut queue, 1, 3), Entered::Draining);
        assert_eq!((order(&mut queue, 1), queue.running()), (vec![2], 0));
        queue.set_draining(false);
        assert_eq!(enter(&mut queue, 1, 4), Entered::Running);
    }

    proptest! {
        #[test]
        fn no_turn_is_lost_no_process_idles_while_turns_wait_and_no_call_waits_for_the_second_of_another(
            processes in 1_usize..4,
            steps in prop::collection::vec((0_u64..6, 0_u8..3), 1..200),
        ) {
            let mut queue = TurnQueue::new(processes, 10);
            let (mut running, mut waiting) = (vec![], vec![]);
            for (call, action) in steps {
                match action {
                    0 => match enter(&mut queue, call / 2, call) {
                        Entered::Running => running.push(call),
                        Entered::Queued(ticket) => waiting.push((ticket, call)),
                        Entered::Full | Entered::Draining => prop_assert!(false, "there is room"),
                    },
                    1 => if let Some(at) = running.iter().position(|other| *other == call) {
                        running.remove(at);
                        if let Some((next, _)) = queue.release(call) {
                            let is_first = |of: u64| !running.contains(&of);
                            let first = waiting.iter().any(|(_, of)| is_first(*of));
                            prop_assert!(!first || is_first(next), "{next} has a process, and another call has none");
                            let told = waiting.iter().position(|(_, of)| *of == next).expect("it waits");
                            waiting.remove(told);
                            running.push(next);
                        }
                    },
                    _ => if let Some((ticket, _)) = waiting.pop() {
                        queue.leave(ticket);
                    },
                }
                prop_assert_eq!(queue.running(), running.len());
                prop_assert!(waiting.is_empty() || running.len() == processes);
            }
        }
    }
}
