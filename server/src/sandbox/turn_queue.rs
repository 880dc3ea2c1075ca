//! Who has a process: principals take turns, in slices, and the calls of a principal run in order. A pure state machine.
//!
//! A call may ask for several processes. It gets a further one only if no other call waits for its first. A call whose slice is over
//! passes its turn on if others wait, and keeps its process, which pauses.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// Free processes, and the calls that wait for one. `W` is the channel that tells a waiting call of its turn.
///
/// While turns wait, no process is free, unless all turns that wait are of principals with as many processes as they may have.
#[derive(Debug)]
pub(super) struct TurnQueue<W> {
    limits: TurnLimits,
    running: usize,
    paused: usize,
    /// The principals with waiting turns, in the order in which they are served.
    rotation: VecDeque<u64>,
    waiting: HashMap<u64, VecDeque<WaitingTurn<W>>>,
    /// The calls that have a process or wait for one.
    calls: HashMap<u64, CallTurns>,
    /// Running turns of each principal that has some.
    principals: HashMap<u64, usize>,
    tickets: u64,
    is_draining: bool,
}

/// Limits of turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLimits {
    /// Processes that run at once.
    pub(super) processes: usize,
    /// Those of them that one principal may have.
    pub(super) processes_of_principal: usize,
    /// Further processes, which pause.
    pub(super) paused: usize,
    /// Calls that wait for their first turn.
    pub(super) queued: usize,
    /// Time of use before a call can be ended for others.
    pub(super) guaranteed: Duration,
}

#[derive(Debug)]
struct WaitingTurn<W> {
    ticket: Ticket,
    call: u64,
    /// Time that it has used, if it has a process that pauses.
    paused: Option<Duration>,
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

/// Whose a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) principal: u64,
    pub(super) call: u64,
}

/// A turn that begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begun<W> {
    pub(super) caller: Caller,
    pub(super) waiter: W,
}

/// Answer to a call that asks for a process.
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

/// Next step of a call whose slice is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceEnd {
    /// It runs on.
    Continues,
    /// It pauses: others have their turn.
    Pauses,
    /// It ends: another call waits for its first slice, no further call can pause, and no other one has used more.
    Stops,
}

/// Whose turn is next: who has the least of this, and then who was served longest ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// True if the call has a process.
    is_further: bool,
    /// Processes of the principal.
    of_principal: usize,
}

impl<W> TurnQueue<W> {
    pub(super) fn new(limits: TurnLimits) -> Self {
        Self {
            limits,
            running: 0,
            paused: 0,
            rotation: VecDeque::new(),
            waiting: HashMap::new(),
            calls: HashMap::new(),
            principals: HashMap::new(),
            tickets: 0,
            is_draining: false,
        }
    }

    /// Asks for a process. A call that had one before waits however many calls do.
    pub(super) fn enter(&mut self, caller: Caller, had_turn: bool, waiter: W) -> Entered {
        if self.is_draining {
            return Entered::Draining;
        }
        let is_free = self.running < self.limits.processes;
        if is_free && self.running_of(caller.principal) < self.limits.processes_of_principal {
            self.begin(caller);
            return Entered::Running;
        }
        if !had_turn && !self.calls.contains_key(&caller.call) && self.queued() >= self.limits.queued {
            return Entered::Full;
        }
        let ticket = self.ticket(caller.principal);
        let turn = WaitingTurn { ticket, call: caller.call, paused: None, waiter };
        self.waiting_of(caller).push_back(turn);
        Entered::Queued(ticket)
    }

    /// A turn is waited for no longer. Changes nothing if its call has been told already.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        let Some(of_principal) = self.waiting.get(&ticket.principal) else { return };
        let Some(at) = of_principal.iter().position(|turn| turn.ticket == ticket) else { return };
        self.take(ticket.principal, at);
    }

    /// A call is done with a process, which is handed to the turn that is returned.
    pub(super) fn release(&mut self, caller: Caller) -> Option<Begun<W>> {
        self.end(caller);
        self.pop()
    }

    /// Decides about a running call that has used its process for `used`.
    pub(super) fn slice_end(&self, caller: Caller, used: Duration) -> SliceEnd {
        let (mut can_begin, mut is_kept_out) = (false, false);
        for (principal, turns) in &self.waiting {
            for turn in turns {
                let has_claim = self.has_claim(*principal, turn.call, caller);
                let may_begin = turn.paused.is_some() || self.paused < self.limits.paused;
                can_begin |= has_claim && may_begin;
                is_kept_out |= has_claim && !may_begin;
            }
        }
        if is_kept_out && used >= self.limits.guaranteed && used >= self.most_used() {
            SliceEnd::Stops
        } else if can_begin {
            SliceEnd::Pauses
        } else {
            SliceEnd::Continues
        }
    }

    /// A call passes its turn on, to the turn that is returned, and keeps its process.
    pub(super) fn pause(&mut self, caller: Caller, used: Duration, waiter: W) -> (Ticket, Option<Begun<W>>) {
        self.end(caller);
        let ticket = self.ticket(caller.principal);
        let turn = WaitingTurn { ticket, call: caller.call, paused: Some(used), waiter };
        // It was begun before the others of its principal.
        self.waiting_of(caller).push_front(turn);
        self.paused += 1;
        self.move_to_back(caller.principal);
        (ticket, self.pop())
    }

    /// The turn of the lowest rank, by the order of principals.
    fn pop(&mut self) -> Option<Begun<W>> {
        let mut next: Option<(Rank, u64, usize)> = None;
        for principal in &self.rotation {
            for (at, turn) in self.waiting[principal].iter().enumerate() {
                let rank = self.current_rank(*principal, turn.call);
                let may_begin = turn.paused.is_some() || self.paused <= self.limits.paused;
                let is_capped = rank.of_principal >= self.limits.processes_of_principal;
                if may_begin && !is_capped && next.is_none_or(|(least, ..)| rank < least) {
                    next = Some((rank, *principal, at));
                }
            }
        }
        let (_, principal, at) = next?;
        let turn = self.take(principal, at)?;
        if self.waiting.contains_key(&principal) {
            self.move_to_back(principal);
        }
        let caller = Caller { principal, call: turn.call };
        self.begin(caller);
        Some(Begun { caller, waiter: turn.waiter })
    }

    fn take(&mut self, principal: u64, position: usize) -> Option<WaitingTurn<W>> {
        let of_principal = self.waiting.get_mut(&principal)?;
        let turn = of_principal.remove(position)?;
        if of_principal.is_empty() {
            self.waiting.remove(&principal);
            self.rotation.retain(|other| *other != principal);
        }
        self.paused -= usize::from(turn.paused.is_some());
        self.change(turn.call, |turns| turns.waiting -= 1);
        Some(turn)
    }

    fn ticket(&mut self, principal: u64) -> Ticket {
        self.tickets += 1;
        Ticket { principal, number: self.tickets }
    }

    /// The waiting turns of a principal, of which the call is about to have a further one.
    fn waiting_of(&mut self, Caller { principal, call }: Caller) -> &mut VecDeque<WaitingTurn<W>> {
        self.change(call, |turns| turns.waiting += 1);
        if !self.waiting.contains_key(&principal) {
            self.rotation.push_back(principal);
        }
        self.waiting.entry(principal).or_default()
    }

    fn move_to_back(&mut self, principal: u64) {
        self.rotation.retain(|other| *other != principal);
        self.rotation.push_back(principal);
    }

    fn begin(&mut self, Caller { principal, call }: Caller) {
        self.running += 1;
        *self.principals.entry(principal).or_default() += 1;
        self.change(call, |turns| turns.running += 1);
    }

    fn end(&mut self, Caller { principal, call }: Caller) {
        self.running -= 1;
        if let Some(running) = self.principals.get_mut(&principal) {
            *running -= 1;
            if *running == 0 {
                self.principals.remove(&principal);
            }
        }
        self.change(call, |turns| turns.running -= 1);
    }

    fn change(&mut self, call: u64, change: impl FnOnce(&mut CallTurns)) {
        let turns = self.calls.entry(call).or_default();
        change(turns);
        if turns.running + turns.waiting == 0 {
            self.calls.remove(&call);
        }
    }

    fn current_rank(&self, principal: u64, call: u64) -> Rank {
        Rank { is_further: self.processes_of(call) > 0, of_principal: self.running_of(principal) }
    }

    /// The rank of a waiting turn once `ended` has ended.
    fn rank(&self, principal: u64, call: u64, ended: Caller) -> Rank {
        let is_further = self.processes_of(call) > usize::from(call == ended.call);
        let of_principal = self.running_of(principal) - usize::from(principal == ended.principal);
        Rank { is_further, of_principal }
    }

    /// Returns true if a waiting turn would be before a running one, if that ended and waited again.
    fn has_claim(&self, principal: u64, call: u64, running: Caller) -> bool {
        let waiting = self.rank(principal, call, running);
        let ended = self.rank(running.principal, running.call, running);
        let is_before = waiting < ended || (waiting == ended && principal != running.principal);
        is_before && waiting.of_principal < self.limits.processes_of_principal
    }

    /// Returns the longest time of use among the calls that pause.
    fn most_used(&self) -> Duration {
        let paused = self.waiting.values().flatten().filter_map(|turn| turn.paused);
        paused.max().unwrap_or_default()
    }

    fn running_of(&self, principal: u64) -> usize {
        self.principals.get(&principal).copied().unwrap_or_default()
    }

    /// Accepts no further calls, or accepts them again.
    pub(super) fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Processes that run.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Processes that pause.
    pub(super) fn paused(&self) -> usize {
        self.paused
    }

    /// Calls that wait and have no process that runs.
    pub(super) fn queued(&self) -> usize {
        self.calls.values().filter(|turns| turns.running == 0).count()
    }

    /// Running processes of a call.
    pub(super) fn processes_of(&self, call: u64) -> usize {
        self.calls.get(&call).map_or(0, |turns| turns.running)
    }
}

#[cfg(test)]
mod tests;
