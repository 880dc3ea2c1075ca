//! Property tests of the batcher against a model: a plain list of the queued entries.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const NEVER: Duration = Duration::from_secs(3600);

/// An operation on a batcher.
#[derive(Clone, Debug)]
enum Step {
    Push(EntrySpec),
    /// Cancels one of the entries pushed so far.
    Cancel(prop::sample::Index),
    Advance(Duration),
    NextBatch,
    Expire,
    /// Ends a batch that runs, after a time that its cost determines but for a factor of at most two.
    Finish(prop::sample::Index, f64),
}

#[derive(Clone, Debug)]
struct EntrySpec {
    key: u8,
    priority: Priority,
    principal: u64,
    items: u64,
    bytes: u64,
    cost: u64,
    /// Time from the push to the deadline.
    deadline: Option<Duration>,
}

/// A queued entry in the model; its number is its payload.
#[derive(Clone, Debug)]
struct ModelEntry {
    number: usize,
    id: EntryId,
    pushed: EntrySpec,
    arrived: Instant,
    deadline: Option<Instant>,
}

impl ModelEntry {
    fn flow(&self) -> (u8, Priority, u64) {
        (self.pushed.key, self.pushed.priority, self.pushed.principal)
    }
}

/// Histories in which time advances by less than `most` microseconds per step.
fn steps(most: u64) -> impl Strategy<Value = Vec<Step>> {
    let priority = prop::sample::select(vec![Priority::Low, Priority::Normal, Priority::High]);
    let micros = |most: u64| (0..most).prop_map(Duration::from_micros);
    let sizes = (1..6_u64, 1..40_u64, 1..1000_u64);
    let pushed = (0..3_u8, priority, 0..3_u64, sizes, prop::option::weighted(0.3, micros(20_000))).prop_map(
        |(key, priority, principal, (items, bytes, cost), deadline)| EntrySpec {
            key,
            priority,
            principal,
            items,
            bytes,
            cost,
            deadline,
        },
    );
    let step = prop_oneof![
        8 => pushed.prop_map(Step::Push),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => micros(most).prop_map(Step::Advance),
        3 => Just(Step::NextBatch),
        1 => Just(Step::Expire),
        2 => (any::<prop::sample::Index>(), 1.0..2.0).prop_map(|(batch, factor)| Step::Finish(batch, factor)),
    ];
    prop::collection::vec(step, 1..300)
}

fn limits() -> impl Strategy<Value = BatchLimits> {
    let wait = prop::sample::select(vec![0, 2000, 50_000]);
    (1..8_u64, 8..60_u64, wait, 5000..60_000_u64, 200..20_000_u64).prop_map(|(items, bytes, wait, age, time)| {
        BatchLimits {
            items,
            bytes,
            wait: Duration::from_micros(wait),
            age: Duration::from_micros(age),
            time: Duration::from_micros(time),
            slice: Duration::from_micros(time / 4),
        }
    })
}

fn entry(pushed: &EntrySpec, now: Instant, payload: usize) -> Entry<u8, usize> {
    Entry {
        key: pushed.key,
        priority: pushed.priority,
        principal: pushed.principal,
        items: pushed.items,
        bytes: pushed.bytes,
        cost: pushed.cost,
        deadline: pushed.deadline.map(|after| now + after),
        is_screened: false,
        is_continuation: false,
        payload,
    }
}

/// A batcher and its model.
struct CheckedBatcher {
    limits: BatchLimits,
    batcher: Batcher<u8, usize>,
    queued: Vec<ModelEntry>,
    ids: Vec<EntryId>,
    running: Vec<BatchSummary<u8>>,
    now: Instant,
}

impl CheckedBatcher {
    fn new(limits: BatchLimits) -> Self {
        let now = Instant::now();
        let batcher = Batcher::new(limits, Arc::new(Estimate::new(now)));
        Self { limits, batcher, queued: vec![], ids: vec![], running: vec![], now }
    }

    /// Has every batch of the given cost take this long, as far as the batcher knows.
    fn knows(&mut self, cost: u64, took: Duration) {
        for _ in 0..20 {
            self.batcher.estimate.record(self.now, cost, took);
        }
    }

    /// Ends all batches that run.
    fn finish_all(&mut self, took: Option<Duration>) {
        for batch in std::mem::take(&mut self.running) {
            self.batcher.batch_finished(self.now, &batch, took);
        }
    }

    /// Trains the arrival model: an entry of each key every 50 us, and launches of 2 ms whatever their size.
    fn train(&mut self) {
        for round in 0..40 {
            self.now += Duration::from_micros(50);
            for key in 0..3 {
                self.push(&plain(key, 1));
                let index = self.batcher.by_key[&key];
                let timing = &mut key_queue_at(&mut self.batcher.key_queues, index).timing;
                timing.record_launch(1 + round % 8, Duration::from_millis(2));
            }
        }
        while !self.queued.is_empty() {
            self.now += Duration::from_micros(50);
            self.next_batch();
        }
    }

    fn apply_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.apply(step);
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Push(pushed) => self.push(pushed),
            Step::Cancel(index) if !self.ids.is_empty() => self.cancel(index.index(self.ids.len())),
            Step::Advance(by) => self.now += *by,
            Step::Expire => self.expire(),
            Step::Finish(index, factor) if !self.running.is_empty() => {
                let batch = self.running.swap_remove(index.index(self.running.len()));
                let took = Duration::from_secs_f64((1e-4 + 1e-6 * batch.cost as f64) * factor);
                self.batcher.batch_finished(self.now, &batch, Some(took));
            }
            Step::Cancel(_) | Step::Finish(..) => {}
            Step::NextBatch => {
                self.expire();
                self.next_batch();
            }
        }
        self.check_sums();
    }

    fn push(&mut self, pushed: &EntrySpec) {
        let number = self.ids.len();
        let id = self.batcher.push(self.now, entry(pushed, self.now, number), Admitted::default());
        let deadline = pushed.deadline.map(|after| self.now + after);
        self.ids.push(id);
        self.queued.push(ModelEntry { number, id, pushed: pushed.clone(), arrived: self.now, deadline });
    }

    fn cancel(&mut self, number: usize) {
        let expected = self.queued.iter().position(|entry| entry.number == number);
        assert_eq!(
            self.batcher.cancel(self.now, self.ids[number]),
            expected.map(|_| number),
            "cancelling returns a queued entry only"
        );
        expected.map(|position| self.queued.remove(position));
    }

    fn expire(&mut self) {
        let now = self.now;
        let is_late = |entry: &ModelEntry| entry.deadline.is_some_and(|at| at <= now);
        let late: Vec<_> = self.queued.extract_if(.., |entry| is_late(entry)).map(|entry| entry.number).collect();
        assert_eq!(self.batcher.expire(now), late);
    }

    /// Forms a batch and checks it, or checks that none was due.
    fn next_batch(&mut self) -> Vec<ModelEntry> {
        let next = self.batcher.next_batch(self.now, false);
        self.check_hopeless();
        match next {
            NextBatch::Empty => {
                assert!(self.queued.is_empty(), "something is queued");
                vec![]
            }
            NextBatch::WaitUntil(until) => {
                self.check_wait(until);
                vec![]
            }
            NextBatch::Ready(batch) => {
                let batched = self.check_batch(&batch);
                self.running.push(batch.summary);
                batched
            }
        }
    }

    /// Removes the entries that were dropped; those before them in their flows are in the batch, or were dropped as well.
    fn check_hopeless(&mut self) {
        for number in self.batcher.take_hopeless() {
            let position = self.queued.iter().position(|entry| entry.number == number).expect("it was queued");
            let entry = self.queued.remove(position);
            let left = entry.deadline.expect("only a deadline can be missed").duration_since(self.now);
            let own = self.batcher.estimate.seconds(entry.pushed.cost).expect("times are known");
            assert!(own > left.as_secs_f64(), "an entry that could meet its deadline is not dropped");
        }
    }

    fn check_wait(&self, until: Instant) {
        let BatchLimits { items, bytes, wait, age, .. } = self.limits;
        assert!(until > self.now, "a wait ends in the future");
        if self.batcher.is_informed {
            // It may be held for a principal whose batch runs, or has just ended.
            return;
        }
        for key in 0..3 {
            let of_key = || self.queued.iter().filter(|entry| entry.pushed.key == key);
            assert!(of_key().map(|entry| entry.pushed.items).sum::<u64>() < items, "a full batch does not wait");
            assert!(of_key().map(|entry| entry.pushed.bytes).sum::<u64>() < bytes, "a full batch does not wait");
        }
        let oldest = self.queued.iter().map(|entry| entry.arrived).min().expect("something is queued");
        assert!(until <= oldest + wait && until <= oldest + age, "no entry waits longer than its limits");
        let deadline = self.queued.iter().filter_map(|entry| entry.deadline).min();
        assert!(deadline.is_none_or(|at| until <= at), "no wait exceeds a deadline");
    }

    fn check_batch(&mut self, batch: &Batch<u8, usize>) -> Vec<ModelEntry> {
        let level = self.queued.iter().map(|entry| entry.pushed.priority).max();
        let overdue = self.queued.iter().any(|entry| self.now.duration_since(entry.arrived) >= self.limits.age);
        let batched: Vec<_> = batch.payloads.iter().map(|number| self.remove(*number)).collect();
        let sum = |of: fn(&EntrySpec) -> u64| batched.iter().map(|entry| of(&entry.pushed)).sum::<u64>();
        let items = sum(|pushed| pushed.items);
        let bytes = sum(|pushed| pushed.bytes);
        let summary = &batch.summary;
        assert_eq!((summary.items, summary.bytes, summary.cost), (items, bytes, sum(|pushed| pushed.cost)));
        assert!(!batched.is_empty());
        assert!(batched.iter().all(|entry| entry.pushed.key == summary.key), "keys are not mixed");
        let fits = items <= self.limits.items && bytes <= self.limits.bytes;
        assert!(fits || batched.len() == 1, "{items} items, {bytes} bytes in {} entries", batched.len());
        self.check_time(batch, &batched);
        let is_shared = self.batcher.is_informed;
        if !overdue && self.limits.wait.is_zero() && !is_shared {
            assert_eq!(
                batched.iter().map(|entry| entry.pushed.priority).max(),
                level,
                "the highest priority is launched first"
            );
        }
        batched
    }

    /// A batch of several entries is expected to keep its time limit and every deadline.
    fn check_time(&self, batch: &Batch<u8, usize>, batched: &[ModelEntry]) {
        let Some(expected) = batch.summary.expected.filter(|_| batched.len() > 1) else { return };
        let alone = self.batcher.estimate.seconds(batched[0].pushed.cost).expect("times are known");
        let limit = self.limits.time.as_secs_f64().max(1.25 * alone) + 1e-6;
        assert!(expected.as_secs_f64() <= limit, "{expected:?} in {} entries", batched.len());
        let earliest = batched.iter().filter_map(|entry| entry.deadline).min();
        assert!(earliest.is_none_or(|at| self.now + expected <= at + Duration::from_micros(1)), "a deadline is missed");
    }

    /// Removes an entry from the model; it must be the first of its flow.
    fn remove(&mut self, number: usize) -> ModelEntry {
        let position = self.queued.iter().position(|entry| entry.number == number).expect("it was queued");
        let entry = self.queued.remove(position);
        let overtaken = self.queued[..position].iter().find(|earlier| earlier.flow() == entry.flow());
        assert!(overtaken.is_none(), "{number} overtook {overtaken:?}");
        entry
    }

    fn check_sums(&self) {
        let sum = |of: fn(&EntrySpec) -> u64| self.queued.iter().map(|entry| of(&entry.pushed)).sum::<u64>();
        assert_eq!(self.batcher.len(), self.queued.len());
        assert_eq!(self.batcher.items(), sum(|pushed| pushed.items));
        assert_eq!(self.batcher.bytes(), sum(|pushed| pushed.bytes));
        assert!(self.queued.iter().all(|entry| self.batcher.entries.get(entry.id).is_some()));
    }
}

fn plain(key: u8, bytes: u64) -> EntrySpec {
    EntrySpec { key, priority: Priority::Normal, principal: 0, items: 1, bytes, cost: bytes, deadline: None }
}

fn limits_without_wait(items: u64, bytes: u64) -> BatchLimits {
    BatchLimits { items, bytes, wait: Duration::ZERO, age: NEVER, time: NEVER, slice: NEVER }
}

proptest! {
    /// No entry is lost or returned twice, each flow keeps its order, batches keep their limits, and no due entry
    /// waits.
    #[test]
    fn invariants_hold_in_every_history(limits in limits(), steps in steps(3000)) {
        let mut checked = CheckedBatcher::new(limits);
        checked.apply_all(&steps);
        let left: Vec<_> = checked.queued.iter().map(|entry| entry.number).collect();
        prop_assert_eq!(checked.batcher.drain(), left);
        prop_assert_eq!((checked.batcher.items(), checked.batcher.bytes(), checked.batcher.len()), (0, 0, 0));
    }

    /// The same for traffic dense enough for batches to be held open.
    #[test]
    fn invariants_hold_in_every_dense_history(limits in limits(), steps in steps(60)) {
        let mut checked = CheckedBatcher::new(limits);
        checked.train();
        checked.apply_all(&steps);
    }

    /// An overdue entry of the lowest priority is served although higher ones never run out, whatever is queued already.
    #[test]
    fn an_overdue_entry_is_served_beside_endless_urgent_ones(
        limits in limits(), steps in steps(3000), target in plain_entry()
    ) {
        let mut checked = CheckedBatcher::new(limits);
        checked.apply_all(&steps);
        checked.expire();
        let older = checked.queued.len();
        let number = checked.ids.len();
        checked.push(&target);
        checked.now += limits.age;
        // It takes at least as long as any other, so that ten of them earn the time of one.
        let rush = EntrySpec { priority: Priority::High, deadline: None, cost: 1000, ..target };
        let most = 1000 + 40 * (older + 1);
        let served = (0..most).any(|_| {
            for key in 0..3 {
                let rush = EntrySpec { key, ..rush.clone() };
                if !checked.queued.iter().any(|entry| entry.flow() == (key, Priority::High, rush.principal)) {
                    checked.push(&rush);
                }
            }
            checked.expire();
            let served = checked.next_batch().iter().any(|entry| entry.number == number);
            checked.now += limits.time + limits.wait;
            checked.finish_all(None);
            served
        });
        prop_assert!(served, "not served in {most} batches");
    }

    /// Of two priorities that always have overdue entries, the lower one gets a tenth of the time.
    #[test]
    fn a_priority_keeps_a_tenth_of_the_time(high in 1..50_u64, low in 1..50_u64) {
        let limits = BatchLimits { items: 1, age: Duration::ZERO, ..limits_without_wait(1, 1 << 20) };
        let mut checked = CheckedBatcher::new(BatchLimits { time: Duration::from_millis(50), ..limits });
        let spec = |priority, cost| EntrySpec { priority, cost, ..plain(0, 1) };
        (1..=50).for_each(|cost| checked.knows(cost, Duration::from_millis(cost)));
        let mut time = [0; 2];
        // The level is never empty, which would forfeit its credit.
        (0..2).for_each(|_| checked.push(&spec(Priority::Low, low)));
        for _ in 0..3000 {
            checked.push(&spec(Priority::High, high));
            for entry in checked.next_batch() {
                let is_low = entry.pushed.priority == Priority::Low;
                time[usize::from(is_low)] += entry.pushed.cost;
                if is_low {
                    checked.push(&spec(Priority::Low, low));
                }
            }
            checked.finish_all(None);
        }
        let part = time[1] as f64 / time[0] as f64;
        prop_assert!((0.07..0.13).contains(&part), "{part} of the time");
    }

    /// Keys of one priority that always have entries take turns, even if an entry is larger than many batches.
    #[test]
    fn busy_keys_take_turns(sizes in prop::collection::vec(1..500_u64, 2..6)) {
        let mut checked = CheckedBatcher::new(limits_without_wait(4, 100));
        let keys = sizes.len();
        let push = |checked: &mut CheckedBatcher, key: usize| {
            checked.push(&plain(u8::try_from(key).expect("few keys"), sizes[key]));
        };
        for key in 0..keys {
            (0..8).for_each(|_| push(&mut checked, key));
        }
        let mut passed_over = vec![0; keys];
        for _ in 0..200 {
            let served = checked.next_batch();
            let key = usize::from(served[0].pushed.key);
            for (other, count) in passed_over.iter_mut().enumerate() {
                *count = if other == key { 0 } else { *count + 1 };
                let turns = usize::try_from(sizes[other].div_ceil(100)).expect("few turns");
                prop_assert!(*count <= keys * turns, "key {other} was passed over {count} times");
            }
            (0..served.len()).for_each(|_| push(&mut checked, key));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))] // Each case is slow: its model is long.

    /// Principals of one priority that always have entries are served equal cost, whatever the sizes of their entries.
    #[test]
    fn principals_share_by_cost(sizes in prop::collection::vec(1..50_u64, 2..5)) {
        let mut checked = CheckedBatcher::new(limits_without_wait(64, 200));
        let of = |principal: usize| EntrySpec { principal: principal as u64, ..plain(0, sizes[principal]) };
        for principal in 0..sizes.len() {
            (0..220).for_each(|_| checked.push(&of(principal)));
        }
        let mut bytes = vec![0; sizes.len()];
        for _ in 0..100 {
            for entry in checked.next_batch() {
                let principal = usize::try_from(entry.pushed.principal).expect("few principals");
                bytes[principal] += entry.pushed.bytes;
                checked.push(&of(principal));
            }
        }
        // Start-time fair queueing: two flows differ by at most one entry of each, plus a batch, since an entry that
        // does not fit is skipped.
        let largest = sizes.iter().max().expect("some");
        let least = bytes.iter().min().expect("some");
        let most = bytes.iter().max().expect("some");
        prop_assert!(most - least <= 2 * largest + 200, "{bytes:?} with entries of {sizes:?}");
    }
}

fn plain_entry() -> impl Strategy<Value = EntrySpec> {
    (0..3_u8, 0..3_u64, 1..6_u64, 1..80_u64).prop_map(|(key, principal, items, bytes)| EntrySpec {
        key,
        priority: Priority::Low,
        principal,
        items,
        bytes,
        cost: bytes,
        deadline: None,
    })
}

#[test]
fn an_idle_worker_never_waits_for_a_lone_entry() {
    let mut checked = CheckedBatcher::new(BatchLimits { wait: NEVER, ..limits_without_wait(64, 1000) });
    for _ in 0..50 {
        checked.now += Duration::from_millis(20);
        checked.push(&plain(0, 1));
        assert_eq!(checked.next_batch().len(), 1);
        checked.finish_all(Some(Duration::from_millis(1)));
    }
}

#[test]
fn a_batch_is_held_open_if_its_traffic_pays_for_the_wait() {
    let mut checked =
        CheckedBatcher::new(BatchLimits { wait: Duration::from_millis(5), ..limits_without_wait(64, 1000) });
    checked.train();
    checked.now += Duration::from_micros(50);
    checked.push(&plain(0, 1));
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now, false) else {
        panic!("filling pays here")
    };
    checked.check_wait(until);
    checked.now = until + Duration::from_millis(5);
    assert_eq!(checked.next_batch().len(), 1, "no entry came: it is not held longer");
}

#[test]
fn a_batch_is_held_open_for_at_most_max_wait() {
    let most = Duration::from_micros(200);
    let mut checked = CheckedBatcher::new(BatchLimits { wait: most, ..limits_without_wait(64, 1000) });
    checked.train();
    checked.now += Duration::from_micros(50);
    checked.push(&plain(0, 1));
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now, false) else {
        panic!("filling pays here")
    };
    assert_eq!(until, checked.now + most);
    checked.now = until;
    checked.push(&plain(0, 1));
    assert_eq!(checked.next_batch().len(), 2, "the wait counts from the first entry");
}

#[test]
fn a_batch_is_not_held_open_past_a_deadline() {
    let mut checked =
        CheckedBatcher::new(BatchLimits { wait: Duration::from_millis(5), ..limits_without_wait(64, 1000) });
    checked.train();
    checked.now += Duration::from_micros(50);
    let deadline = |after| EntrySpec { deadline: Some(after), ..plain(0, 1) };
    checked.push(&deadline(Duration::from_micros(2300)));
    // The launch takes 2 ms: it must begin within 300 us.
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now, false) else {
        panic!("filling pays here")
    };
    assert!(until <= checked.now + Duration::from_micros(300));
    checked.push(&deadline(Duration::from_micros(1900)));
    assert_eq!(checked.next_batch().len(), 2, "the wait is over already");
}

#[test]
fn entries_larger_than_a_batch_run_alone() {
    let mut checked = CheckedBatcher::new(limits_without_wait(4, 100));
    for bytes in [10, 500, 20, 30] {
        checked.push(&plain(0, bytes));
    }
    let sizes: Vec<Vec<_>> =
        (0..3).map(|_| checked.next_batch().iter().map(|entry| entry.pushed.bytes).collect()).collect();
    assert_eq!(sizes, [vec![10], vec![500], vec![20, 30]]);
}

#[test]
fn an_entry_that_does_not_fit_is_skipped_for_other_principals() {
    let mut checked = CheckedBatcher::new(limits_without_wait(8, 100));
    checked.push(&EntrySpec { principal: 1, ..plain(0, 60) });
    checked.push(&EntrySpec { principal: 2, ..plain(0, 60) });
    checked.push(&EntrySpec { principal: 3, ..plain(0, 40) });
    let principals: Vec<_> = checked.next_batch().iter().map(|entry| entry.pushed.principal).collect();
    assert_eq!(principals, [1, 3]);
    let principals: Vec<_> = checked.next_batch().iter().map(|entry| entry.pushed.principal).collect();
    assert_eq!(principals, [2]);
}

#[test]
fn principals_are_charged_their_part_of_a_batch_whoever_joined_first() {
    let mut checked = CheckedBatcher::new(limits_without_wait(64, 1 << 20));
    // The first entry pays for the launch, the others add nothing to its time.
    for cost in [1, 2, 4, 8] {
        checked.knows(cost, Duration::from_millis(8));
    }
    let entries = [(1, 1), (2, 1), (3, 1), (4, 4), (4, 1)];
    for (principal, cost) in entries {
        checked.push(&EntrySpec { principal, cost, ..plain(0, 1) });
    }
    assert_eq!(checked.next_batch().len(), entries.len());
    let charged = |principal| checked.batcher.fair_share.start_tag(plain(0, 1).priority, principal);
    assert_eq!([1, 2, 3, 4].map(charged), [1_000_000, 1_000_000, 1_000_000, 5_000_000], "in nanoseconds");
}

#[test]
fn two_keys_that_alternate_still_fill_their_batches() {
    let mut checked = CheckedBatcher::new(limits_without_wait(64, 1 << 20));
    (0..512).for_each(|number| checked.push(&plain(u8::from(number % 2 == 0), 1)));
    let sizes: Vec<_> = (0..8).map(|_| checked.next_batch().len()).collect();
    assert_eq!(sizes, [64; 8]);
}

#[test]
fn idle_keys_are_evicted() {
    let mut batcher = Batcher::new(limits_without_wait(4, 100), Arc::new(Estimate::new(Instant::now())));
    let now = Instant::now();
    for key in 0..10_000_u32 {
        let entry = Entry {
            key,
            priority: Priority::Normal,
            principal: u64::from(key),
            items: 1,
            bytes: 1,
            cost: 1,
            deadline: None,
            is_screened: false,
            is_continuation: false,
            payload: (),
        };
        let id = batcher.push(now, entry, Admitted::default());
        assert!(batcher.cancel(now, id).is_some());
    }
    assert!(batcher.by_key.len() <= IDLE_KEYS + 1);
    assert!(batcher.key_queues.len() <= IDLE_KEYS + 2);
}

#[test]
fn an_entry_that_came_before_times_were_known_is_not_dropped_for_those_of_entries_beyond_comparison() {
    let start = Instant::now();
    let estimate = Arc::new(Estimate::new(start));
    let mut batcher = Batcher::new(limits_without_wait(4, 1 << 30), Arc::clone(&estimate));
    let entry = |cost| Entry {
        key: 0,
        priority: Priority::Normal,
        principal: 1,
        items: 1,
        bytes: 1,
        cost,
        deadline: Some(start + Duration::from_secs(60)),
        is_screened: false,
        is_continuation: false,
        payload: (),
    };
    batcher.push(start, entry(12 << 20), Admitted::default());
    (0..4).for_each(|_| estimate.record(start, 16, Duration::from_millis(10)));
    assert!(estimate.seconds(12 << 20).is_some_and(|seconds| seconds > 1000.0));
    assert!(matches!(batcher.next_batch(start, false), NextBatch::Ready(_)));
    assert!(batcher.take_hopeless().is_empty());
    batcher.push(start, entry(1 << 20), Admitted::default());
    (0..4).for_each(|_| estimate.record(start, 1 << 19, Duration::from_secs(100)));
    let _none = batcher.next_batch(start, false);
    assert_eq!(batcher.take_hopeless().len(), 1, "a size that compares");
}

#[test]
fn an_entry_that_is_too_long_by_itself_is_told_apart_from_one_that_waits_too_long() {
    let start = Instant::now();
    let estimate = Arc::new(Estimate::new(start));
    (0..4).for_each(|_| estimate.record(start, 100, Duration::from_secs(1)));
    let mut batcher = Batcher::new(limits_without_wait(4, 1000), estimate);
    let terms = |left, is_continuation| {
        let deadline = Some(start + left);
        let priority = Priority::Normal;
        Terms { priority, principal: 1, cost: 100, deadline, is_screened: false, is_continuation }
    };
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(3));
    let refused = batcher.admit(start, terms(short, false), true).expect_err("it takes a second");
    assert!(!refused.fits_alone, "{refused:?}");
    batcher.admit(start, terms(long, false), true).expect("nothing waits");
    for principal in 1..=10 {
        let entry = Entry {
            key: 0,
            priority: Priority::Normal,
            principal,
            items: 1,
            bytes: 1,
            cost: 100,
            deadline: None,
            is_screened: false,
            is_continuation: false,
            payload: (),
        };
        batcher.push(start, entry, Admitted::default());
    }
    let refused = batcher.admit(start, terms(long, false), false).expect_err("others take ten seconds");
    assert!(refused.fits_alone, "{refused:?}");
    batcher.admit(start, terms(long, true), false).expect("what its call did before would be wasted");
    assert!(!batcher.admit(start, terms(short, true), false).expect_err("it takes a second").fits_alone);
}
