//! The queue under overload, in a simulation with a virtual clock: calls arrive at random, and batches take a time that depends
//! on their size and on chance. The seeds are fixed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    batcher::{BatchLimits, BatchSummary, Entry, EntryId, NextBatch, Terms},
    config::Priority,
    estimate::Estimate,
    queue::{PushError, Queue},
    signal::{Signals, Work},
};

/// xorshift64* (Marsaglia, 2003; Vigna, 2016).
struct Rng(u64);

impl Rng {
    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Time between two arrivals of a Poisson process.
    fn gap(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-self.unit().ln() / per_second)
    }

    /// The factor by which a batch takes longer or shorter than usual: up to 30%, and one in a hundred takes three times as
    /// long.
    fn noise(&mut self) -> f64 {
        let outlier = if self.unit() < 0.01 { 3.0 } else { 1.0 };
        outlier * (0.7 + 0.6 * self.unit())
    }
}

/// The time of a batch, in seconds.
#[derive(Clone, Copy, Debug)]
struct Service {
    per_batch: f64,
    per_call: f64,
}

/// A search of 16 queries over 200,000 rows on two cores: batches save little.
const SCAN: Service = Service { per_batch: 0.000_5, per_call: 0.002_5 };

/// Most of the time is shared by all calls of a batch.
const SHARED: Service = Service { per_batch: 0.02, per_call: 0.000_5 };

/// Short batches that share half of their time.
const LAUNCH: Service = Service { per_batch: 0.004, per_call: 0.000_4 };

/// Estimated work of a call.
const COST: u64 = 1000;

const LONGEST_BATCH: Duration = Duration::from_millis(50);

impl Service {
    fn seconds(self, calls: usize) -> f64 {
        self.per_batch + self.per_call * calls as f64
    }

    /// Calls per second in batches of the greatest length, without noise.
    fn ideal_capacity(self) -> f64 {
        let longest = LONGEST_BATCH.as_secs_f64();
        (longest - self.per_batch) / self.per_call / longest
    }

    /// Calls per second of one principal with a thousand calls in flight.
    fn capacity(self) -> f64 {
        let mut simulation = Simulation::new(self, 1, 0xA10E);
        let then = Then::Again(Duration::from_micros(300));
        let call = Call { principal: 7, priority: Priority::Normal, patience: None, then, deadline: None };
        for _ in 0..1000 {
            simulation.schedule(simulation.start, Event::Submit(call));
        }
        simulation.run(WARM_UP, END);
        simulation.total(None).in_time as f64 / MEASURED_SECONDS
    }
}

/// Next action of a caller that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Leave,
    /// Calls again after this time.
    Again(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    principal: u64,
    priority: Priority,
    patience: Option<Duration>,
    then: Then,
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    offered: u64,
    in_time: u64,
    late: u64,
    refused: u64,
    /// Of these, the ones that were received before.
    refused_received: u64,
}

#[derive(Debug)]
enum Event {
    Submit(Call),
    Received(Call, Terms),
    Deadline(EntryId, Call),
    Finish(usize),
    Poll,
}

struct Simulation {
    queue: Queue<u8, Call>,
    service: Service,
    /// Time in which a call is received, if it is screened before.
    receiving: Option<Duration>,
    concurrency: usize,
    rng: Rng,
    now: Instant,
    start: Instant,
    /// By time and number.
    events: BinaryHeap<Reverse<(Instant, usize)>>,
    pending: BTreeMap<usize, Event>,
    next_event: usize,
    running: BTreeMap<usize, (BatchSummary<u8>, Vec<Call>, Duration)>,
    /// Since the end of the warm-up, by priority and principal.
    tallies: BTreeMap<(Priority, u64), Tally>,
}

impl Simulation {
    fn new(service: Service, concurrency: usize, seed: u64) -> Self {
        let now = Instant::now();
        let limits = BatchLimits {
            items: 1 << 16,
            bytes: 1 << 40,
            wait: Duration::ZERO,
            age: Duration::from_millis(100),
            time: LONGEST_BATCH,
            slice: Duration::from_millis(10),
        };
        let queue = Queue::new(
            limits,
            Arc::new(Estimate::new(now)),
            concurrency,
            Work::Ordinary,
            Arc::new(Signals::new(false)),
        );
        Self {
            queue,
            service,
            receiving: None,
            concurrency,
            rng: Rng(seed),
            now,
            start: now,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next_event: 0,
            running: BTreeMap::new(),
            tallies: BTreeMap::new(),
        }
    }

    fn schedule(&mut self, time: Instant, event: Event) -> usize {
        let number = self.next_event;
        self.next_event += 1;
        self.events.push(Reverse((time, number)));
        self.pending.insert(number, event);
        number
    }

    /// Schedules calls that arrive at random until `until`; a share of them is of each priority.
    fn arrivals(&mut self, per_second: f64, patience: Duration, until: Duration, shares: [(Priority, f64); 3]) {
        let mut time = self.start;
        while time < self.start + until {
            time += self.rng.gap(per_second);
            let mut left = self.rng.unit();
            let chosen = shares.into_iter().find(|(_, share)| {
                left -= share;
                left <= 0.0
            });
            let priority = chosen.map_or(Priority::Normal, |(priority, _)| priority);
            let call = Call { principal: 0, priority, patience: Some(patience), then: Then::Leave, deadline: None };
            self.schedule(time, Event::Submit(call));
        }
    }

    fn run(&mut self, warm_up: Duration, until: Duration) {
        while let Some(Reverse((at, number))) = self.events.pop() {
            if at > self.start + until {
                return;
            }
            self.now = self.now.max(at);
            match self.pending.remove(&number) {
                Some(Event::Submit(call)) => self.submit(call, warm_up),
                Some(Event::Received(call, terms)) => {
                    self.queue.arrived(terms);
                    self.push(call, warm_up);
                }
                Some(Event::Deadline(id, call)) => {
                    if self.queue.cancel(self.now, id).is_some() {
                        self.count(call, warm_up, |tally| tally.late += 1);
                    }
                }
                Some(Event::Finish(batch)) => self.finish(batch, warm_up),
                Some(Event::Poll) | None => {}
            }
            self.poll(warm_up);
        }
    }

    fn count(&mut self, call: Call, warm_up: Duration, change: impl FnOnce(&mut Tally)) {
        if self.now >= self.start + warm_up {
            change(self.tallies.entry((call.priority, call.principal)).or_default());
        }
    }

    fn submit(&mut self, call: Call, warm_up: Duration) {
        let call = Call { deadline: call.patience.map(|patience| self.now + patience), ..call };
        self.count(call, warm_up, |tally| tally.offered += 1);
        let Some(receiving) = self.receiving else { return self.push(call, warm_up) };
        let Call { priority, principal, deadline, .. } = call;
        let terms = Terms { priority, principal, cost: COST, deadline, is_screened: false, is_continuation: false };
        match self.queue.screen(self.now, terms) {
            Ok(()) => {
                self.schedule(self.now + receiving, Event::Received(call, terms));
            }
            Err(_would_miss) => self.count(call, warm_up, |tally| tally.refused += 1),
        }
    }

    fn push(&mut self, call: Call, warm_up: Duration) {
        let is_screened = self.receiving.is_some();
        let entry = Entry {
            key: 0,
            priority: call.priority,
            principal: call.principal,
            items: 1,
            bytes: 1,
            cost: COST,
            deadline: call.deadline,
            is_screened,
            is_continuation: false,
            payload: call,
        };
        match self.queue.push(self.now, entry) {
            Ok(id) => {
                if let Some(deadline) = call.deadline {
                    self.schedule(deadline, Event::Deadline(id, call));
                }
            }
            Err(PushError::WouldMiss(call, _)) => self.count(call, warm_up, |tally| {
                tally.refused += 1;
                tally.refused_received += u64::from(is_screened);
            }),
            Err(PushError::Closed(_)) => panic!("the queue is open"),
        }
    }

    /// Starts all batches that may run.
    fn poll(&mut self, warm_up: Duration) {
        while self.running.len() < self.concurrency {
            let taken = self.queue.take(self.now, false);
            for call in taken.expired.into_iter().chain(taken.hopeless) {
                self.count(call, warm_up, |tally| tally.late += 1);
            }
            match taken.next {
                NextBatch::Empty => return,
                NextBatch::WaitUntil(until) => {
                    self.schedule(until, Event::Poll);
                    return;
                }
                NextBatch::Ready(batch) => {
                    let seconds = self.service.seconds(batch.payloads.len()) * self.rng.noise();
                    let took = Duration::from_secs_f64(seconds);
                    let number = self.next_event;
                    let scheduled = self.schedule(self.now + took, Event::Finish(number));
                    self.running.insert(scheduled, (batch.summary, batch.payloads, took));
                }
            }
        }
    }

    fn finish(&mut self, batch: usize, warm_up: Duration) {
        let (summary, calls, took) = self.running.remove(&batch).expect("it runs");
        self.queue.finish(self.now, &summary, Some(took));
        for call in calls {
            let is_late = call.deadline.is_some_and(|deadline| deadline < self.now);
            self.count(call, warm_up, |tally| if is_late { tally.late += 1 } else { tally.in_time += 1 });
            if let Then::Again(think) = call.then {
                self.schedule(self.now + think, Event::Submit(call));
            }
        }
    }

    /// The sum over all principals of a priority, or of all.
    fn total(&self, priority: Option<Priority>) -> Tally {
        let of = self.tallies.iter().filter(|((level, _), _)| priority.is_none_or(|priority| priority == *level));
        of.fold(Tally::default(), |sum, (_, tally)| Tally {
            offered: sum.offered + tally.offered,
            in_time: sum.in_time + tally.in_time,
            late: sum.late + tally.late,
            refused: sum.refused + tally.refused,
            refused_received: sum.refused_received + tally.refused_received,
        })
    }
}

const WARM_UP: Duration = Duration::from_secs(6);
const END: Duration = Duration::from_secs(16);
const MEASURED_SECONDS: f64 = 10.0;

const SEED: u64 = 0x5EED;

/// Offers a multiple of the capacity, and returns the simulation and the offered rate.
fn overload(service: Service, load: f64, patience: Duration, high: f64, seed: u64) -> (Simulation, f64) {
    let mut simulation = Simulation::new(service, 1, seed);
    let offered = service.ideal_capacity() * load;
    let shares = [(Priority::High, high), (Priority::Normal, 0.7 * (1.0 - high)), (Priority::Low, 0.3 * (1.0 - high))];
    simulation.arrivals(offered, patience, END, shares);
    simulation.run(WARM_UP, END);
    (simulation, offered)
}

#[test]
fn goodput_stays_near_the_capacity_at_every_load_and_deadline() {
    let mut failures = vec![];
    for service in [SCAN, SHARED] {
        let capacity = service.capacity();
        for patience in [200, 1000, 5000].map(Duration::from_millis) {
            for load in [0.5, 0.9, 1.0, 1.5, 2.0, 5.0, 10.0] {
                let (simulation, offered) = overload(service, load, patience, 0.0, SEED);
                let total = simulation.total(None);
                let rate = total.in_time as f64 / MEASURED_SECONDS;
                let part = rate / offered.min(capacity);
                if part < 0.9 {
                    failures.push(format!("{service:?} x {load} within {patience:?}: {part:.2}, {total:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn hardly_a_call_is_received_and_then_refused() {
    for (service, patience) in [(SCAN, 200), (SHARED, 200), (SCAN, 1000)] {
        let capacity = service.capacity();
        for load in [2.0, 5.0, 10.0] {
            let mut simulation = Simulation::new(service, 1, SEED);
            simulation.receiving = Some(Duration::from_millis(5));
            let shares = [(Priority::High, 0.0), (Priority::Normal, 0.7), (Priority::Low, 0.3)];
            simulation.arrivals(service.ideal_capacity() * load, Duration::from_millis(patience), END, shares);
            simulation.run(WARM_UP, END);
            let total = simulation.total(None);
            let context = format!("{service:?} x {load} within {patience} ms: {total:?}");
            assert!(total.in_time as f64 / MEASURED_SECONDS > 0.9 * capacity, "{context}");
            assert!(total.refused > 0 && 50 * total.refused_received < total.refused, "{context}");
        }
    }
}

/// Histories in which slow batches come in a row: what was learned from them must not last.
#[test]
fn goodput_recovers_from_slow_batches() {
    for seed in [0x7_8DDE_6E5F, 0xF1BB_CDCB_FA53_E0A8, 0x539_7BAD_0F1D] {
        for (load, patience) in [(5.0, 1000), (0.9, 200)] {
            let (simulation, offered) = overload(SHARED, load, Duration::from_millis(patience), 0.0, seed);
            let rate = simulation.total(None).in_time as f64 / MEASURED_SECONDS;
            let part = rate / offered.min(SHARED.capacity());
            assert!(part > 0.9, "seed {seed:x}, x {load} within {patience} ms: {part:.2}");
        }
    }
}

#[test]
fn urgent_calls_are_served_first_at_every_load() {
    for service in [SCAN, SHARED] {
        for patience in [200, 1000, 5000].map(Duration::from_millis) {
            for load in [1.0, 2.0, 5.0, 10.0] {
                // Half of the capacity.
                let (simulation, _) = overload(service, load, patience, 0.5 / load, SEED);
                let [high, low] = [Priority::High, Priority::Low].map(|level| simulation.total(Some(level)));
                let share = |tally: Tally| tally.in_time as f64 / tally.offered as f64;
                // One batch in a hundred takes most of the shortest deadline.
                assert!(share(high) > 0.9, "{service:?} x {load} within {patience:?}: {high:?}");
                assert!(load < 2.0 || share(low) < share(high), "{service:?} x {load} within {patience:?}: {low:?}");
            }
        }
    }
}

#[test]
fn calls_that_cannot_be_served_are_refused_at_once_instead_of_late() {
    for patience in [200, 1000, 5000].map(Duration::from_millis) {
        let (simulation, _) = overload(SCAN, 10.0, patience, 0.0, SEED);
        let normal = simulation.total(Some(Priority::Normal));
        let unanswered = normal.refused + normal.late;
        assert!(normal.late * 10 < unanswered, "within {patience:?}: {normal:?}");
    }
}

#[test]
fn no_call_is_refused_while_the_queue_is_short() {
    let (simulation, _) = overload(SCAN, 0.3, Duration::from_secs(1), 0.0, SEED);
    let total = simulation.total(None);
    assert_eq!((total.refused, total.late), (0, 0), "{total:?}");
}

/// Rate of calls in time of ten principals with one call in flight each, and of one with `greedy`. All call again after `think`.
fn rates(service: Service, greedy: usize, think: Duration) -> (f64, f64) {
    let mut simulation = Simulation::new(service, 1, 0xFA12);
    let call = |principal| Call {
        principal,
        priority: Priority::Normal,
        patience: None,
        then: Then::Again(think),
        deadline: None,
    };
    for principal in 1..=10 {
        simulation.schedule(simulation.start, Event::Submit(call(principal)));
    }
    for _ in 0..greedy {
        simulation.schedule(simulation.start, Event::Submit(call(0)));
    }
    simulation.run(WARM_UP, END);
    let mut rates = [0.0; 2];
    for ((_, principal), tally) in &simulation.tallies {
        rates[usize::from(*principal == 0)] += tally.in_time as f64 / MEASURED_SECONDS;
    }
    (rates[0], rates[1])
}

#[test]
fn principals_with_one_call_in_flight_keep_their_rate_next_to_one_with_a_thousand() {
    for (service, think) in [(SCAN, 300), (SHARED, 300), (LAUNCH, 300), (SHARED, 8000)] {
        let think = Duration::from_micros(think);
        let (alone, _) = rates(service, 0, think);
        let (contended, greedy) = rates(service, 1000, think);
        let rates =
            format!("{service:?}, {think:?}: {contended} instead of {alone} a second, and {greedy} of the other");
        assert!(contended > 0.9 * alone, "{rates}");
        assert!(greedy > 0.5 * alone / 10.0, "{rates}");
    }
}

#[test]
fn one_principal_alone_uses_the_whole_device() {
    for service in [SCAN, SHARED] {
        let capacity = service.capacity();
        let ideal = service.ideal_capacity();
        assert!(capacity > 0.85 * ideal, "{service:?}: {capacity} instead of {ideal}");
    }
}
