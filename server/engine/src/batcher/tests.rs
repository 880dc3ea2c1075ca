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
    RecordLaunch(u8, u64, Duration),
}

#[derive(Clone, Debug)]
struct EntrySpec {
    key: u8,
    priority: Priority,
    principal: u64,
    items: u64,
    bytes: u64,
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
    let pushed = (0..3_u8, priority, 0..3_u64, 1..6_u64, 1..40_u64, prop::option::weighted(0.3, micros(20_000)))
        .prop_map(|(key, priority, principal, items, bytes, deadline)| EntrySpec {
            key,
            priority,
            principal,
            items,
            bytes,
            deadline,
        });
    let step = prop_oneof![
        8 => pushed.prop_map(Step::Push),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => micros(most).prop_map(Step::Advance),
        3 => Just(Step::NextBatch),
        1 => Just(Step::Expire),
        2 => (0..3_u8, 1..8_u64, micros(2000)).prop_map(|(key, items, took)| Step::RecordLaunch(key, items, took)),
    ];
    prop::collection::vec(step, 1..300)
}

fn limits() -> impl Strategy<Value = BatchLimits> {
    let wait = prop::sample::select(vec![0, 2000, 50_000]);
    (1..8_u64, 8..60_u64, wait, 5000..60_000_u64).prop_map(|(items, bytes, wait, age)| BatchLimits {
        items,
        bytes,
        wait: Duration::from_micros(wait),
        age: Duration::from_micros(age),
    })
}

fn entry(pushed: &EntrySpec, now: Instant, payload: usize) -> Entry<u8, usize> {
    Entry {
        key: pushed.key,
        priority: pushed.priority,
        principal: pushed.principal,
        items: pushed.items,
        bytes: pushed.bytes,
        deadline: pushed.deadline.map(|after| now + after),
        payload,
    }
}

/// A batcher and its model.
struct CheckedBatcher {
    limits: BatchLimits,
    batcher: Batcher<u8, usize>,
    queued: Vec<ModelEntry>,
    ids: Vec<EntryId>,
    now: Instant,
}

impl CheckedBatcher {
    fn new(limits: BatchLimits) -> Self {
        Self { limits, batcher: Batcher::new(limits), queued: vec![], ids: vec![], now: Instant::now() }
    }

    /// Trains the arrival model: an entry of each key every 50 us, and launches of 2 ms whatever their size.
    fn train(&mut self) {
        for round in 0..40 {
            self.now += Duration::from_micros(50);
            for key in 0..3 {
                self.push(&plain(key, 1));
                self.batcher.record_launch(&key, 1 + round % 8, Duration::from_millis(2));
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
            Step::Cancel(_) => {}
            Step::Advance(by) => self.now += *by,
            Step::Expire => self.expire(),
            Step::RecordLaunch(key, items, took) => self.batcher.record_launch(key, *items, *took),
            Step::NextBatch => {
                self.expire();
                self.next_batch();
            }
        }
        self.check_sums();
    }

    fn push(&mut self, pushed: &EntrySpec) {
        let number = self.ids.len();
        let id = self.batcher.push(self.now, entry(pushed, self.now, number));
        let deadline = pushed.deadline.map(|after| self.now + after);
        self.ids.push(id);
        self.queued.push(ModelEntry { number, id, pushed: pushed.clone(), arrived: self.now, deadline });
    }

    fn cancel(&mut self, number: usize) {
        let expected = self.queued.iter().position(|entry| entry.number == number);
        assert_eq!(
            self.batcher.cancel(self.ids[number]),
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
        match self.batcher.next_batch(self.now) {
            NextBatch::Empty => {
                assert!(self.queued.is_empty(), "something is queued");
                vec![]
            }
            NextBatch::WaitUntil(until) => {
                self.check_wait(until);
                vec![]
            }
            NextBatch::Ready(batch) => self.check_batch(&batch),
        }
    }

    fn check_wait(&self, until: Instant) {
        let BatchLimits { items, bytes, wait, age } = self.limits;
        assert!(until > self.now, "a wait ends in the future");
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
        let oldest = self.queued[0].clone();
        let level = self.queued.iter().map(|entry| entry.pushed.priority).max();
        let batched: Vec<_> = batch.payloads.iter().map(|number| self.remove(*number)).collect();
        let sum = |of: fn(&EntrySpec) -> u64| batched.iter().map(|entry| of(&entry.pushed)).sum::<u64>();
        let (items, bytes) = (sum(|pushed| pushed.items), sum(|pushed| pushed.bytes));
        assert_eq!((batch.items, batch.bytes), (items, bytes));
        assert!(!batched.is_empty());
        assert!(batched.iter().all(|entry| entry.pushed.key == batch.key), "keys are not mixed");
        let fits = items <= self.limits.items && bytes <= self.limits.bytes;
        assert!(fits || batched.len() == 1, "{items} items, {bytes} bytes in {} entries", batched.len());
        if self.now.duration_since(oldest.arrived) >= self.limits.age {
            assert_eq!(batched[0].number, oldest.number, "an overdue entry is launched first");
        } else if self.limits.wait.is_zero() {
            assert_eq!(
                batched.iter().map(|entry| entry.pushed.priority).max(),
                level,
                "the highest priority is launched first"
            );
        }
        batched
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
    EntrySpec { key, priority: Priority::Normal, principal: 0, items: 1, bytes, deadline: None }
}

fn limits_without_wait(items: u64, bytes: u64) -> BatchLimits {
    BatchLimits { items, bytes, wait: Duration::ZERO, age: NEVER }
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

    /// Once an entry is overdue, each batch contains the oldest entry, so that the number of older entries bounds its
    /// wait.
    #[test]
    fn an_overdue_entry_waits_only_for_older_ones(limits in limits(), steps in steps(3000), target in plain_entry()) {
        let mut checked = CheckedBatcher::new(limits);
        checked.apply_all(&steps);
        checked.expire();
        let older = checked.queued.len();
        let number = checked.ids.len();
        checked.push(&target);
        checked.now += limits.age;
        // Later entries do not delay it, whatever their priority.
        let rush = EntrySpec { priority: Priority::High, deadline: None, ..target };
        let served = (0..=older).any(|_| {
            (0..3).for_each(|key| checked.push(&EntrySpec { key, ..rush.clone() }));
            checked.expire();
            checked.next_batch().iter().any(|entry| entry.number == number)
        });
        prop_assert!(served, "not served in {} batches", older + 1);
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

    /// Principals of one priority that always have entries are served equal bytes, whatever the sizes of their entries.
    #[test]
    fn principals_share_by_bytes(sizes in prop::collection::vec(1..50_u64, 2..5)) {
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
        let (least, most) = (bytes.iter().min().expect("some"), bytes.iter().max().expect("some"));
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
        checked.batcher.record_launch(&0, 1, Duration::from_millis(1));
    }
}

#[test]
fn a_batch_is_held_open_if_its_traffic_pays_for_the_wait() {
    let mut checked =
        CheckedBatcher::new(BatchLimits { wait: Duration::from_millis(5), ..limits_without_wait(64, 1000) });
    checked.train();
    checked.now += Duration::from_micros(50);
    checked.push(&plain(0, 1));
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now) else { panic!("filling pays here") };
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
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now) else { panic!("filling pays here") };
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
    let NextBatch::WaitUntil(until) = checked.batcher.next_batch(checked.now) else { panic!("filling pays here") };
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
fn two_keys_that_alternate_still_fill_their_batches() {
    let mut checked = CheckedBatcher::new(limits_without_wait(64, 1 << 20));
    (0..512).for_each(|number| checked.push(&plain(u8::from(number % 2 == 0), 1)));
    let sizes: Vec<_> = (0..8).map(|_| checked.next_batch().len()).collect();
    assert_eq!(sizes, [64; 8]);
}

#[test]
fn idle_keys_are_evicted() {
    let mut batcher = Batcher::new(limits_without_wait(4, 100));
    let now = Instant::now();
    for key in 0..10_000_u32 {
        let entry = Entry {
            key,
            priority: Priority::Normal,
            principal: u64::from(key),
            items: 1,
            bytes: 1,
            deadline: None,
            payload: (),
        };
        let id = batcher.push(now, entry);
        assert!(batcher.cancel(id).is_some());
    }
    assert!(batcher.by_key.len() <= IDLE_KEYS + 1);
    assert!(batcher.key_queues.len() <= IDLE_KEYS + 2);
}
