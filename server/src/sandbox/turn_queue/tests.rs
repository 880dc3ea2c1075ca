//! The rules of the queue. A turn is its own waiter.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn queue(processes: usize, queued: usize) -> TurnQueue<Caller> {
    TurnQueue::new(TurnLimits { queued, ..limits(processes, 100) })
}

fn limits(processes: usize, paused: usize) -> TurnLimits {
    let guaranteed = Duration::from_secs(1);
    TurnLimits { processes, processes_of_principal: processes, paused, queued: 100, guaranteed }
}

fn caller(principal: u64, call: u64) -> Caller {
    Caller { principal, call }
}

fn ticket(entered: &Entered) -> Ticket {
    let Entered::Queued(ticket) = entered else { panic!("{entered:?}") };
    *ticket
}

fn enter(queue: &mut TurnQueue<Caller>, principal: u64, call: u64) -> Entered {
    let caller = caller(principal, call);
    queue.enter(caller, false, caller)
}

/// The call that gets the process.
fn release(queue: &mut TurnQueue<Caller>, principal: u64, call: u64) -> Option<u64> {
    begun(queue.release(caller(principal, call))).map(|caller| caller.call)
}

fn begun(begun: Option<Begun<Caller>>) -> Option<Caller> {
    let Begun { caller, waiter } = begun?;
    assert_eq!(caller, waiter);
    Some(caller)
}

/// Who gets the process, one after the other. The first that releases one is `first`.
fn order(queue: &mut TurnQueue<Caller>, mut first: Caller) -> Vec<u64> {
    let next = || {
        first = begun(queue.release(first))?;
        Some(first.call)
    };
    std::iter::from_fn(next).collect()
}

/// The slice of a call that has used `used` is over; the call that runs then.
fn slice(queue: &mut TurnQueue<Caller>, running: Caller, used: Duration) -> (SliceEnd, Option<Caller>) {
    let end = queue.slice_end(running, used);
    let next = match end {
        SliceEnd::Continues => Some(running),
        SliceEnd::Pauses => begun(queue.pause(running, used, running).1),
        SliceEnd::Stops => begun(queue.release(running)),
    };
    (end, next)
}

#[test]
fn principals_take_turns_and_the_calls_of_one_run_in_order() {
    let mut queue = queue(1, 100);
    assert_eq!(enter(&mut queue, 0, 0), Entered::Running);
    for (principal, call) in [(1, 11), (1, 12), (1, 13), (2, 21), (3, 31), (2, 22)] {
        ticket(&enter(&mut queue, principal, call));
    }
    assert_eq!(order(&mut queue, caller(0, 0)), [11, 21, 31, 12, 22, 13]);
}

#[test]
fn fifty_calls_of_one_principal_do_not_delay_another_by_more_than_one() {
    let mut queue = queue(1, 100);
    enter(&mut queue, 1, 0);
    for call in 1..=50 {
        ticket(&enter(&mut queue, 1, call));
    }
    ticket(&enter(&mut queue, 2, 1000));
    assert_eq!(order(&mut queue, caller(1, 0))[..2], [1, 1000]);
}

#[test]
fn a_call_has_several_processes_only_while_no_other_call_waits_for_its_first() {
    let mut queue = queue(3, 100);
    for _ in 0..3 {
        assert_eq!(enter(&mut queue, 1, 1), Entered::Running, "nobody waits");
    }
    for call in [1, 1, 2, 3] {
        ticket(&enter(&mut queue, 1, call));
    }
    assert_eq!(queue.queued(), 2, "calls without a process");
    assert_eq!([release(&mut queue, 1, 1), release(&mut queue, 1, 1)], [Some(2), Some(3)]);
    assert_eq!(release(&mut queue, 1, 1), Some(1), "it has no process any more");
    assert_eq!(release(&mut queue, 1, 2), Some(1), "nobody else waits");
    assert_eq!([1, 1, 3].map(|call| release(&mut queue, 1, call)), [None; 3]);
    assert_eq!((queue.running(), queue.processes_of(1)), (0, 0));
}

#[test]
fn a_call_beyond_the_limit_is_refused_and_one_that_leaves_makes_room() {
    let mut queue = queue(2, 1);
    assert_eq!([enter(&mut queue, 1, 1), enter(&mut queue, 1, 2)], [Entered::Running, Entered::Running]);
    let waiting = ticket(&enter(&mut queue, 1, 3));
    assert_eq!(enter(&mut queue, 2, 4), Entered::Full);
    for known in [1, 3] {
        let further = ticket(&enter(&mut queue, 1, known));
        queue.leave(further);
    }
    let had_turn = ticket(&queue.enter(caller(2, 4), true, caller(2, 4)));
    queue.leave(had_turn);
    queue.leave(waiting);
    queue.leave(waiting);
    ticket(&enter(&mut queue, 2, 5));
    assert_eq!((queue.running(), queue.queued()), (2, 1));
    assert_eq!(order(&mut queue, caller(1, 1)), [5]);
}

#[test]
fn a_queue_that_drains_refuses_new_calls_and_serves_those_that_wait() {
    let mut queue = queue(1, 10);
    enter(&mut queue, 1, 1);
    enter(&mut queue, 2, 2);
    queue.set_draining(true);
    assert_eq!(enter(&mut queue, 1, 3), Entered::Draining);
    let (end, next) = slice(&mut queue, caller(1, 1), Duration::ZERO);
    assert_eq!((end, next), (SliceEnd::Pauses, Some(caller(2, 2))), "it has begun before");
    assert_eq!((order(&mut queue, caller(2, 2)), queue.running()), (vec![1], 0));
    queue.set_draining(false);
    assert_eq!(enter(&mut queue, 1, 4), Entered::Running);
}

#[test]
fn a_call_pauses_for_another_principal_and_not_for_its_own_calls() {
    let mut queue = queue(1, 10);
    enter(&mut queue, 1, 10);
    ticket(&enter(&mut queue, 1, 11));
    assert_eq!(slice(&mut queue, caller(1, 10), Duration::ZERO).0, SliceEnd::Continues);
    ticket(&enter(&mut queue, 2, 20));
    assert_eq!(slice(&mut queue, caller(1, 10), Duration::ZERO), (SliceEnd::Pauses, Some(caller(2, 20))));
    assert_eq!(queue.paused(), 1);
    assert_eq!(slice(&mut queue, caller(2, 20), Duration::ZERO), (SliceEnd::Pauses, Some(caller(1, 10))));
    assert_eq!(order(&mut queue, caller(1, 10)), [20, 11]);
    assert_eq!(queue.paused(), 0);
}

#[test]
fn a_call_with_two_processes_passes_one_on_to_a_call_of_its_principal_that_has_none() {
    let mut queue = queue(2, 10);
    assert_eq!([enter(&mut queue, 1, 10), enter(&mut queue, 1, 10)], [Entered::Running, Entered::Running]);
    ticket(&enter(&mut queue, 1, 11));
    assert_eq!(slice(&mut queue, caller(1, 10), Duration::ZERO), (SliceEnd::Pauses, Some(caller(1, 11))));
    assert_eq!(slice(&mut queue, caller(1, 10), Duration::ZERO).0, SliceEnd::Continues, "it has one");
    assert_eq!(slice(&mut queue, caller(1, 11), Duration::ZERO).0, SliceEnd::Continues, "the other call has one");
}

#[test]
fn a_principal_has_no_more_than_its_share_while_processes_are_free() {
    let mut queue = TurnQueue::new(TurnLimits { processes_of_principal: 2, ..limits(4, 10) });
    assert_eq!([enter(&mut queue, 1, 1), enter(&mut queue, 1, 2)], [Entered::Running, Entered::Running]);
    ticket(&enter(&mut queue, 1, 3));
    assert_eq!(enter(&mut queue, 2, 4), Entered::Running);
    assert_eq!(release(&mut queue, 2, 4), None);
    assert_eq!(release(&mut queue, 1, 1), Some(3));
}

#[test]
fn where_no_further_call_can_pause_the_one_that_has_used_the_most_ends() {
    let mut queue = TurnQueue::new(limits(1, 1));
    let [short, long] = [100, 2000].map(Duration::from_millis);
    enter(&mut queue, 1, 1);
    ticket(&enter(&mut queue, 2, 2));
    assert_eq!(slice(&mut queue, caller(1, 1), long), (SliceEnd::Pauses, Some(caller(2, 2))));
    ticket(&enter(&mut queue, 3, 3));
    assert_eq!(queue.slice_end(caller(2, 2), long * 2), SliceEnd::Stops);
    assert_eq!(slice(&mut queue, caller(2, 2), short), (SliceEnd::Pauses, Some(caller(1, 1))), "1 has used more");
    assert_eq!(slice(&mut queue, caller(1, 1), long), (SliceEnd::Stops, Some(caller(3, 3))));
    assert_eq!(slice(&mut queue, caller(3, 3), short), (SliceEnd::Pauses, Some(caller(2, 2))));
}

#[test]
fn a_call_that_has_used_little_runs_on_where_none_can_pause() {
    let mut queue = TurnQueue::new(limits(1, 0));
    enter(&mut queue, 1, 1);
    ticket(&enter(&mut queue, 2, 2));
    assert_eq!(slice(&mut queue, caller(1, 1), Duration::from_millis(999)).0, SliceEnd::Continues);
    assert_eq!(slice(&mut queue, caller(1, 1), Duration::from_secs(1)), (SliceEnd::Stops, Some(caller(2, 2))));
}

#[test]
fn a_paused_call_that_leaves_makes_room_for_another_to_pause() {
    let mut queue = TurnQueue::new(limits(1, 1));
    enter(&mut queue, 1, 1);
    ticket(&enter(&mut queue, 2, 2));
    let (paused, next) = queue.pause(caller(1, 1), Duration::ZERO, caller(1, 1));
    assert_eq!(begun(next), Some(caller(2, 2)));
    ticket(&enter(&mut queue, 3, 3));
    queue.leave(paused);
    assert_eq!(slice(&mut queue, caller(2, 2), Duration::ZERO), (SliceEnd::Pauses, Some(caller(3, 3))));
}

proptest! {
    #[test]
    fn no_turn_is_lost_no_process_idles_while_turns_wait_and_no_call_waits_for_the_second_of_another(
        processes in 1_usize..4,
        paused in 0_usize..3,
        steps in prop::collection::vec((0_u64..6, 0_u8..4), 1..200),
    ) {
        // The waiter of a turn is its number, since a call may wait for several turns.
        let mut queue = TurnQueue::new(limits(processes, paused));
        let mut running: Vec<u64> = vec![];
        let mut waiting: BTreeMap<usize, (Ticket, u64)> = BTreeMap::new();
        for (number, (call, action)) in steps.into_iter().enumerate() {
            let of = caller(call / 2, call);
            let at = running.iter().position(|other| *other == call);
            match (action, at) {
                (0, _) => match queue.enter(of, false, number) {
                    Entered::Running => running.push(call),
                    Entered::Queued(ticket) => {
                        waiting.insert(number, (ticket, call));
                    }
                    Entered::Full | Entered::Draining => prop_assert!(false, "there is room"),
                },
                (1, Some(at)) => {
                    running.remove(at);
                    if let Some(next) = queue.release(of) {
                        let is_first = |of: u64| !running.contains(&of);
                        let first = waiting.values().any(|(_, of)| is_first(*of));
                        let call = next.caller.call;
                        prop_assert!(!first || is_first(call), "{call} has a process, and another call has none");
                        prop_assert_eq!(waiting.remove(&next.waiter).map(|(_, of)| of), Some(call));
                        running.push(call);
                    }
                }
                (2, Some(at)) => if queue.slice_end(of, Duration::ZERO) == SliceEnd::Pauses {
                    let (ticket, next) = queue.pause(of, Duration::ZERO, number);
                    let next = next.expect("it pauses for another");
                    prop_assert_ne!(next.caller.call, call);
                    running.remove(at);
                    prop_assert_eq!(waiting.remove(&next.waiter).map(|(_, of)| of), Some(next.caller.call));
                    waiting.insert(number, (ticket, call));
                    running.push(next.caller.call);
                },
                _ => if let Some((_, (ticket, _))) = waiting.pop_last() {
                    queue.leave(ticket);
                },
            }
            prop_assert!(queue.paused() <= paused);
            prop_assert_eq!(queue.running(), running.len());
            prop_assert!(waiting.is_empty() || running.len() == processes);
        }
    }

    #[test]
    fn with_n_principals_each_has_a_slice_within_n_plus_one(
        processes in 1_usize..4,
        calls in prop::collection::vec(0_u64..8, 1..40),
        ends in prop::collection::vec(0_u8..4, 200),
    ) {
        let mut queue = TurnQueue::new(limits(processes, 100));
        let mut running = vec![];
        for (call, principal) in (0..).zip(&calls) {
            if enter(&mut queue, *principal, call) == Entered::Running {
                running.push(caller(*principal, call));
            }
        }
        let mut left: HashMap<u64, usize> = HashMap::new();
        for principal in &calls {
            *left.entry(*principal).or_default() += 1;
        }
        // Slices since a principal that has calls has had one, and how many principals had calls then.
        let mut since: HashMap<u64, (usize, usize)> = left.keys().map(|principal| (*principal, (0, left.len()))).collect();
        for ends in ends {
            if running.is_empty() {
                break;
            }
            let of = running.remove(0);
            for (slices, _) in since.values_mut() {
                *slices += 1;
            }
            since.insert(of.principal, (0, left.len()));
            let next = if ends == 0 {
                let calls = left.get_mut(&of.principal).expect("it has calls");
                *calls -= 1;
                if *calls == 0 {
                    left.remove(&of.principal);
                    since.remove(&of.principal);
                }
                begun(queue.release(of))
            } else {
                slice(&mut queue, of, Duration::ZERO).1
            };
            running.extend(next);
            // The slice that is counted last is that of the principal itself; those of the other processes may end before it.
            for (slices, principals) in since.values() {
                prop_assert!(*slices <= principals + processes, "{slices} slices, {principals} principals");
            }
        }
    }
}
