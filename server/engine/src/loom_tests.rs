//! Model checks of the queue and its signal: in no interleaving of callers and workers is an entry lost or served
//! twice, or does a worker sleep while a batch could run.

use std::{
    // The tests' own counters, which loom does not model.
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use loom::thread;

use crate::{
    batcher::{BatchLimits, Entry, NextBatch},
    config::Priority,
    estimate::Estimate,
    queue::Queue,
    signal::{Signals, Work},
    turn::Turns,
};

type TestQueue = Queue<u8, usize>;

fn queue(items: u64, concurrency: usize) -> (Arc<TestQueue>, Arc<Signals>) {
    let day = Duration::from_secs(86_400);
    let limits = BatchLimits { items, bytes: 1000, wait: Duration::ZERO, age: day, time: day, slice: day };
    let estimate = Arc::new(Estimate::new(Instant::now()));
    let signals = Arc::new(Signals::new(false));
    (Arc::new(Queue::new(limits, estimate, concurrency, Work::Ordinary, Arc::clone(&signals))), signals)
}

/// Checks a model in all interleavings with at most two preemptions: bugs between a few threads rarely need more, and
/// exploring the rest would take hours.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

fn entry(payload: usize) -> Entry<u8, usize> {
    Entry {
        key: 0,
        priority: Priority::Normal,
        principal: 0,
        items: 1,
        bytes: 1,
        cost: 1,
        deadline: None,
        is_screened: false,
        is_continuation: false,
        payload,
    }
}

/// A worker that counts the entries of its batches until it is stopped.
fn work(queue: &TestQueue, signals: &Signals, now: Instant, served: &AtomicUsize) {
    loop {
        let signal = &signals.any;
        let seen = signal.epoch();
        if signal.is_stopped() {
            return;
        }
        match queue.take(now, false).next {
            NextBatch::Ready(batch) => {
                if queue.is_available() {
                    signals.notify(Work::Ordinary);
                }
                served.fetch_add(batch.payloads.len(), Ordering::SeqCst);
                queue.finish(now, &batch.summary, None);
            }
            NextBatch::WaitUntil(_) | NextBatch::Empty => signal.sleep(seen, None),
        }
    }
}

/// A worker that stops once `all` entries are served; if a wake-up is lost, it sleeps forever.
fn work_until(queue: &TestQueue, signals: &Signals, now: Instant, served: &AtomicUsize, all: usize) {
    while served.load(Ordering::SeqCst) < all {
        let signal = &signals.any;
        let seen = signal.epoch();
        if served.load(Ordering::SeqCst) >= all {
            return;
        }
        match queue.take(now, false).next {
            NextBatch::Ready(batch) => {
                let count = batch.payloads.len();
                if queue.is_available() {
                    signals.notify(Work::Ordinary);
                }
                queue.finish(now, &batch.summary, None);
                if served.fetch_add(count, Ordering::SeqCst) + count >= all {
                    signals.stop();
                }
            }
            NextBatch::WaitUntil(_) | NextBatch::Empty if signal.is_stopped() => return,
            NextBatch::WaitUntil(_) | NextBatch::Empty => signal.sleep(seen, None),
        }
    }
}

#[test]
fn loom_no_wake_up_is_lost_between_a_caller_and_a_worker() {
    let now = Instant::now();
    explore(move || {
        let (queue, signals) = queue(1, 1);
        let served = Arc::new(AtomicUsize::new(0));
        let worker = thread::spawn({
            let queue = Arc::clone(&queue);
            let signals = Arc::clone(&signals);
            let served = Arc::clone(&served);
            move || work_until(&queue, &signals, now, &served, 2)
        });
        assert!(queue.push(now, entry(0)).is_ok());
        assert!(queue.push(now, entry(1)).is_ok());
        worker.join().expect("the thread ends");
        assert_eq!(served.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn loom_two_workers_serve_every_entry() {
    let now = Instant::now();
    explore(move || {
        let (queue, signals) = queue(1, 2);
        let served = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                let signals = Arc::clone(&signals);
                let served = Arc::clone(&served);
                thread::spawn(move || work_until(&queue, &signals, now, &served, 2))
            })
            .collect();
        assert!(queue.push(now, entry(0)).is_ok());
        assert!(queue.push(now, entry(1)).is_ok());
        for worker in workers {
            worker.join().expect("the thread ends");
        }
        assert_eq!(served.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn loom_workers_hand_over_a_single_concurrency_slot() {
    let now = Instant::now();
    explore(move || {
        let (queue, signals) = queue(1, 1);
        let served = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                let signals = Arc::clone(&signals);
                let served = Arc::clone(&served);
                thread::spawn(move || work_until(&queue, &signals, now, &served, 2))
            })
            .collect();
        assert!(queue.push(now, entry(0)).is_ok());
        assert!(queue.push(now, entry(1)).is_ok());
        for worker in workers {
            worker.join().expect("the thread ends");
        }
        assert_eq!(served.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn loom_an_entry_is_either_cancelled_or_served() {
    let now = Instant::now();
    explore(move || {
        let (queue, signals) = queue(8, 1);
        let served = Arc::new(AtomicUsize::new(0));
        let worker = thread::spawn({
            let queue = Arc::clone(&queue);
            let signals = Arc::clone(&signals);
            let served = Arc::clone(&served);
            move || work(&queue, &signals, now, &served)
        });
        let id = queue.push(now, entry(0)).expect("the queue is open");
        let cancelled = usize::from(queue.cancel(now, id).is_some());
        let left = queue.close().len();
        signals.stop();
        worker.join().expect("the thread ends");
        assert_eq!(left, 0);
        assert_eq!(cancelled + served.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_closing_the_queue_returns_or_refuses_every_unserved_entry() {
    let now = Instant::now();
    explore(move || {
        let (queue, signals) = queue(8, 1);
        let served = Arc::new(AtomicUsize::new(0));
        let worker = thread::spawn({
            let queue = Arc::clone(&queue);
            let signals = Arc::clone(&signals);
            let served = Arc::clone(&served);
            move || work(&queue, &signals, now, &served)
        });
        let caller = thread::spawn({
            let queue = Arc::clone(&queue);
            move || usize::from(queue.push(now, entry(0)).is_err())
        });
        let left = queue.close().len();
        signals.stop();
        let refused = caller.join().expect("the thread ends");
        worker.join().expect("the thread ends");
        assert_eq!(refused + left + served.load(Ordering::SeqCst), 1);
        assert_eq!(queue.depth().requests, 0);
    });
}

#[test]
fn loom_a_worker_for_short_batches_serves_what_the_other_has_no_time_for() {
    let now = Instant::now();
    explore(move || {
        let signals = Arc::new(Signals::new(true));
        let queue: Arc<TestQueue> = Arc::new(Queue::new(
            BatchLimits {
                items: 1,
                bytes: 1000,
                wait: Duration::ZERO,
                age: Duration::MAX,
                time: Duration::MAX,
                slice: Duration::MAX,
            },
            Arc::new(Estimate::new(now)),
            2,
            Work::Ordinary,
            Arc::clone(&signals),
        ));
        // The other worker is busy, and polls nothing.
        let worker = thread::spawn({
            let (queue, signals) = (Arc::clone(&queue), Arc::clone(&signals));
            move || {
                let signal = signals.short_only.as_ref().expect("it was asked for");
                loop {
                    let seen = signal.epoch();
                    match queue.take(now, true).next {
                        NextBatch::Ready(batch) => return queue.finish(now, &batch.summary, None),
                        NextBatch::WaitUntil(_) | NextBatch::Empty => signal.sleep(seen, None),
                    }
                }
            }
        });
        assert!(queue.push(now, entry(0)).is_ok());
        worker.join().expect("the thread ends");
        assert_eq!(queue.depth().requests, 0);
    });
}

#[test]
fn loom_every_batch_gets_its_turn() {
    explore(|| {
        let turns = Arc::new(Turns::new(1, Duration::ZERO));
        let batches: Vec<_> = (0..2)
            .map(|principal| {
                let turns = Arc::clone(&turns);
                thread::spawn(move || {
                    turns.begin(principal);
                    turns.yield_turn(principal, Duration::from_millis(1));
                    turns.end(principal, Duration::from_millis(1));
                })
            })
            .collect();
        for batch in batches {
            batch.join().expect("the thread ends");
        }
        assert!(!turns.is_contended());
    });
}
