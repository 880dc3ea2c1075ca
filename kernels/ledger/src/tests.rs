//! Tests of the ledger, its evictions and its allowances.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use proptest::prelude::*;

use super::{Account, Allowance, Kind, Ledger, Limit, Place, PlaceMemory, Reservation};

fn limit(bytes: u64) -> Limit {
    Limit { bytes, setting: "memory.host_limit" }
}

fn ledger(bytes: u64) -> Arc<Ledger> {
    let ledger = Ledger::new();
    ledger.limit(Place::Host, limit(bytes));
    ledger
}

fn host(ledger: &Ledger) -> PlaceMemory {
    ledger.snapshot().into_iter().find(|memory| memory.place == Place::Host).expect("the host has a balance")
}

fn held(ledger: &Ledger, kind: Kind) -> u64 {
    host(ledger).kinds.iter().find(|found| found.kind == kind).map_or(0, |found| found.held)
}

/// A cache whose entries are dropped by eviction, the first one first.
fn cache(ledger: &Arc<Ledger>, kind: Kind, sizes: &[u64]) -> Arc<Mutex<Vec<Reservation>>> {
    let account = ledger.account(Place::Host, kind);
    let entries: Vec<_> = sizes.iter().map(|bytes| account.reserve(*bytes).expect("it fits")).collect();
    let entries = Arc::new(Mutex::new(entries));
    let evicted = Arc::clone(&entries);
    ledger.on_eviction(Place::Host, kind, move |missing| {
        let mut entries = evicted.lock().expect("not poisoned");
        let mut sum = 0;
        while sum < missing && !entries.is_empty() {
            sum += entries.remove(0).bytes();
        }
        sum
    });
    entries
}

#[test]
fn a_refusal_names_the_limit_and_what_each_kind_holds() {
    let ledger = ledger(100);
    let collections = ledger.account(Place::Host, Kind::Collections);
    let models = ledger.account(Place::Host, Kind::Models).reserve(20).expect("100 are left");
    let held = collections.reserve(50).expect("80 are left");
    let refused = collections.reserve(31).expect_err("30 are left");
    assert_eq!((refused.asked, refused.held, refused.limit, refused.missing()), (31, 70, 100, 1));
    assert_eq!(refused.by_kind, [(Kind::Collections, 50), (Kind::Models, 20)]);
    let expected = "memory limit reached (memory.host_limit): 70 of 100 bytes in use in host memory (collections 50, models \
                    20), the request needs 31 more";
    assert_eq!(refused.to_string(), expected);
    drop((held, models));
    assert_eq!(host(&ledger).held, 0, "a refusal reserves nothing");
    collections.reserve(100).expect("all is returned");
}

#[test]
fn a_kind_is_capped_below_the_limit_of_its_place() {
    let ledger = ledger(100);
    ledger.cap(Place::Host, Kind::Models, Limit { bytes: 30, setting: "models.memory_limit" });
    let models = ledger.account(Place::Host, Kind::Models);
    let mut held = models.reserve(20).expect("30 are left");
    let refused = held.try_resize(31).expect_err("above the cap").to_string();
    assert_eq!(refused, "memory limit reached (models.memory_limit): 20 of 30 bytes in use, the request needs 11 more");
    assert_eq!((held.bytes(), models.usage().0), (20, 20), "a failed resize changes nothing");
    held.try_resize(30).expect("at the cap");
    held.try_resize(5).expect("less is always possible");
    ledger.account(Place::Cuda(0), Kind::Models).reserve(1 << 40).expect("another place has its own limits");
}

#[test]
fn what_is_available_is_what_the_cap_and_the_limit_both_leave() {
    let ledger = ledger(100);
    let tensors = ledger.account(Place::Host, Kind::Tensors);
    assert_eq!(tensors.available(), 100);
    ledger.cap(Place::Host, Kind::Tensors, Limit { bytes: 60, setting: "tensors.memory_limit" });
    let mut held = tensors.reserve(20).expect("60 are left");
    assert_eq!(tensors.available(), 40);
    let collections = ledger.account(Place::Host, Kind::Collections).reserve(50).expect("80 are left");
    assert_eq!(tensors.available(), 30, "the place has less left than the cap");
    held.try_resize(50).expect("all that is available");
    assert_eq!(tensors.available(), 0);
    held.record(80);
    assert_eq!(tensors.available(), 0, "recorded use may exceed both");
    drop((held, collections));
    assert_eq!((tensors.available(), ledger.account(Place::Cuda(0), Kind::Tensors).available()), (60, u64::MAX));
}

#[test]
fn recorded_use_may_exceed_the_limit_and_blocks_reservations_only() {
    let ledger = ledger(100);
    let account = ledger.account(Place::Host, Kind::Collections);
    let mut recorded = account.empty();
    recorded.record(120);
    account.reserve(0).expect("nothing is always available");
    recorded.try_resize(120).expect("nothing more is asked for");
    assert!(account.reserve(1).is_err());
    recorded.record(60);
    account.reserve(40).expect("40 are left");
}

#[test]
fn what_moves_from_one_reservation_to_another_counts_once() {
    let ledger = ledger(100);
    let account = ledger.account(Place::Host, Kind::Collections);
    let mut asked = account.of(7).reserve(60).expect("60 are free");
    let mut used = account.empty();
    Reservation::record_all([(&mut used, 50), (&mut asked, 0)]);
    assert_eq!((used.bytes(), asked.bytes(), host(&ledger).held), (50, 0, 50));
    drop((used, asked));
    assert_eq!(host(&ledger).held, 0);
}

#[test]
#[should_panic(expected = "reservations of one place")]
fn reservations_of_two_ledgers_are_not_recorded_in_one_step() {
    let reservations = || ledger(100).account(Place::Host, Kind::Collections).empty();
    Reservation::record_all([(&mut reservations(), 1), (&mut reservations(), 1)]);
}

#[test]
fn caches_are_evicted_in_order_and_only_as_far_as_needed() {
    let ledger = ledger(100);
    let graphs = cache(&ledger, Kind::Graphs, &[10]);
    let copies = cache(&ledger, Kind::Copies, &[20, 20]);
    let models = cache(&ledger, Kind::Models, &[40]);
    let left = || [&graphs, &copies, &models].map(|cache| cache.lock().expect("not poisoned").len());
    let collections = ledger.account(Place::Host, Kind::Collections);
    let _first = collections.reserve(10).expect("10 are left");
    assert_eq!(left(), [1, 2, 1]);
    let _second = collections.reserve(25).expect("a graph and a copy make room");
    assert_eq!(left(), [0, 1, 1]);
    let _third = collections.reserve(60).expect("a copy and a model make room");
    assert_eq!(left(), [0, 0, 0]);
    let evicted: Vec<_> = host(&ledger).kinds.iter().map(|kind| (kind.kind, kind.evicted)).collect();
    assert_eq!(evicted, [(Kind::Collections, 0), (Kind::Models, 40), (Kind::Copies, 40), (Kind::Graphs, 10)]);
    let refused = collections.reserve(10).expect_err("collections are never evicted");
    assert_eq!((refused.held, refused.by_kind.as_slice()), (95, &[(Kind::Collections, 95)][..]));
}

#[test]
fn nothing_is_evicted_for_what_can_never_fit_or_exceeds_a_cap() {
    let ledger = ledger(100);
    ledger.cap(Place::Host, Kind::Collections, limit(90));
    let models = cache(&ledger, Kind::Models, &[40]);
    let collections = ledger.account(Place::Host, Kind::Collections);
    let _held = collections.reserve(50).expect("60 are left");
    let pinned = ledger.account(Place::Host, Kind::Pinned);
    assert!(pinned.reserve(51).is_err(), "collections stay");
    assert!(collections.reserve(41).expect_err("above the cap").is_cap);
    assert_eq!(models.lock().expect("not poisoned").len(), 1);
    pinned.reserve(50).expect("the model makes room");
}

#[test]
fn an_evictor_may_reserve_and_look_at_the_ledger() {
    let ledger = ledger(100);
    let models = cache(&ledger, Kind::Models, &[90]);
    let weak = Arc::downgrade(&ledger);
    let account = ledger.account(Place::Host, Kind::Indexes);
    ledger.on_eviction(Place::Host, Kind::Graphs, move |_| {
        assert!(account.reserve(1000).is_err());
        weak.upgrade().map_or(0, |ledger| ledger.snapshot().len() as u64 - 1)
    });
    ledger.account(Place::Host, Kind::Collections).reserve(50).expect("the model makes room");
    assert!(models.lock().expect("not poisoned").is_empty());
}

#[test]
fn an_allocator_with_its_own_limit_can_ask_for_an_eviction() {
    let ledger = Ledger::new();
    let asked = Arc::new(Mutex::new(vec![]));
    for (kind, limit) in [(Kind::Models, 100), (Kind::Copies, 30), (Kind::Graphs, 5)] {
        let asked = Arc::clone(&asked);
        ledger.on_eviction(Place::Cuda(1), kind, move |bytes| {
            asked.lock().expect("not poisoned").push((kind, bytes));
            bytes.min(limit)
        });
    }
    assert_eq!(ledger.evict(Place::Cuda(1), 20), 20);
    assert_eq!(ledger.evict(Place::Cuda(0), 20), 0);
    assert_eq!(*asked.lock().expect("not poisoned"), [(Kind::Graphs, 20), (Kind::Copies, 15)]);
}

#[test]
fn principals_are_charged_separately_and_forgotten_at_zero() {
    let ledger = ledger(100);
    let account = ledger.account(Place::Host, Kind::Models);
    let mine = account.of(7).reserve(10).expect("fits");
    let theirs = account.of(9).reserve(5).expect("fits");
    let own = account.reserve(1).expect("fits");
    assert_eq!(host(&ledger).principals, [(0, 1), (7, 10), (9, 5)]);
    drop((mine, own));
    assert_eq!(host(&ledger).principals, [(9, 5)]);
    drop(theirs);
}

#[test]
fn observed_memory_is_reported_and_never_refused() {
    let ledger = ledger(10);
    let bytes = Arc::new(AtomicU64::new(50));
    let read = Arc::clone(&bytes);
    ledger.observe(Place::Host, Kind::Pool, move || read.load(SeqCst));
    ledger.account(Place::Host, Kind::Models).reserve(10).expect("what is observed counts for no limit");
    assert_eq!((host(&ledger).held, held(&ledger, Kind::Pool)), (50, 50));
}

#[test]
fn what_an_allocator_reserved_for_nothing_known_counts_as_its_pool() {
    let ledger = Ledger::new();
    ledger.observe(Place::Cuda(0), Kind::Graphs, || 10);
    ledger.observe(Place::Cuda(0), Kind::Copies, || 25);
    ledger.observe_total(Place::Cuda(0), || 100);
    let memory = &ledger.snapshot()[0];
    let kinds: Vec<_> = memory.kinds.iter().map(|kind| (kind.kind, kind.held)).collect();
    assert_eq!((memory.held, kinds), (100, vec![(Kind::Copies, 25), (Kind::Graphs, 10), (Kind::Pool, 65)]));
}

#[test]
fn an_allowance_keeps_its_floor_while_others_fill_the_rest() {
    let ledger = ledger(100);
    let allowance = Allowance::new(&ledger.account(Place::Host, Kind::Messages), 20, 8).expect("it fits");
    let _data = ledger.account(Place::Host, Kind::Collections).reserve(80).expect("80 are left");
    allowance.take(20).expect("the floor is guaranteed");
    let refused = allowance.take(1).expect_err("the rest is in use");
    assert_eq!((refused.kind, refused.asked, refused.held), (Kind::Messages, 1, 100));
    allowance.release(20);
    assert_eq!((allowance.taken(), held(&ledger, Kind::Messages)), (0, 20));
}

#[test]
fn an_allowance_grows_by_blocks_and_shrinks_when_it_is_idle() {
    let ledger = ledger(1000);
    let allowance = Allowance::new(&ledger.account(Place::Host, Kind::Requests), 10, 50).expect("it fits");
    allowance.take(11).expect("one block");
    assert_eq!(held(&ledger, Kind::Requests), 60);
    allowance.take(300).expect("what is missing");
    assert_eq!((held(&ledger, Kind::Requests), allowance.taken()), (311, 311));
    allowance.release(311);
    assert_eq!((held(&ledger, Kind::Requests), allowance.taken()), (60, 0), "one block beyond the floor stays");
    assert_eq!((allowance.trim(), held(&ledger, Kind::Requests)), (50, 10));
    assert_eq!(allowance.trim(), 0);
}

#[test]
fn what_an_allowance_does_not_use_is_there_for_others() {
    let ledger = ledger(100);
    let account = ledger.account(Place::Host, Kind::Messages);
    let allowance = Arc::new(Allowance::new(&account, 10, 40).expect("it fits"));
    let weak = Arc::downgrade(&allowance);
    ledger.on_eviction(Place::Host, Kind::Messages, move |_| weak.upgrade().map_or(0, |allowance| allowance.trim()));
    allowance.take(30).expect("a block");
    assert_eq!(held(&ledger, Kind::Messages), 50);
    let _data = ledger.account(Place::Host, Kind::Collections).reserve(70).expect("20 are unused");
    assert!(allowance.take(1).is_err());
    assert_eq!((host(&ledger).held, allowance.taken()), (100, 30));
}

#[test]
fn a_refused_allowance_takes_nothing() {
    let allowance = Allowance::new(&Account::standalone(Kind::Messages, limit(100)), 10, 40).expect("it fits");
    assert!(allowance.take(101).is_err());
    assert!(allowance.take(u64::MAX).is_err());
    assert_eq!(allowance.taken(), 0);
    allowance.take(100).expect("all of it");
    assert!(Allowance::new(&Account::standalone(Kind::Messages, limit(9)), 10, 40).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(usize, u64),
    Resize(usize, u64),
    Release(usize),
    Take(u64),
    ReturnTaken(usize),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || 0_u64..400;
    prop_oneof![
        (0_usize..4, bytes()).prop_map(|(kind, bytes)| Step::Reserve(kind, bytes)),
        (0_usize..8, bytes()).prop_map(|(index, bytes)| Step::Resize(index, bytes)),
        (0_usize..8).prop_map(Step::Release),
        bytes().prop_map(Step::Take),
        (0_usize..8).prop_map(Step::ReturnTaken),
        Just(Step::Trim),
    ]
}

proptest! {
    #[test]
    fn no_limit_is_exceeded_and_nothing_is_lost(steps in proptest::collection::vec(step(), 0..200)) {
        const KINDS: [Kind; 4] = [Kind::Collections, Kind::Models, Kind::Pinned, Kind::Indexes];
        let ledger = ledger(1000);
        ledger.cap(Place::Host, Kind::Models, limit(300));
        let allowance = Allowance::new(&ledger.account(Place::Host, Kind::Messages), 100, 64).expect("it fits");
        let (mut reserved, mut taken): (Vec<(Kind, Reservation)>, Vec<u64>) = (vec![], vec![]);
        for step in steps {
            match step {
                Step::Reserve(kind, bytes) => {
                    let kind = KINDS[kind];
                    let before = (host(&ledger).held, held(&ledger, kind));
                    match ledger.account(Place::Host, kind).of(kind as u64).reserve(bytes) {
                        Ok(one) => reserved.push((kind, one)),
                        Err(refusal) => {
                            let over = before.0 + bytes > 1000 || (kind == Kind::Models && before.1 + bytes > 300);
                            prop_assert!(over, "{refusal}");
                        }
                    }
                }
                Step::Resize(index, bytes) => {
                    if let Some((_, one)) = reserved.get_mut(index) {
                        let before = one.bytes();
                        let resized = one.try_resize(bytes);
                        prop_assert_eq!(one.bytes(), if resized.is_ok() { bytes } else { before });
                        prop_assert!(resized.is_ok() || bytes > before);
                    }
                }
                Step::Release(index) => drop((index < reserved.len()).then(|| reserved.swap_remove(index))),
                Step::Take(bytes) => {
                    if allowance.take(bytes).is_ok() {
                        taken.push(bytes);
                    } else {
                        prop_assert!(taken.iter().sum::<u64>() + bytes > 100, "the floor is guaranteed");
                    }
                }
                Step::ReturnTaken(index) => {
                    if index < taken.len() {
                        allowance.release(taken.swap_remove(index));
                    }
                }
                Step::Trim => _ = allowance.trim(),
            }
            let memory = host(&ledger);
            prop_assert!(memory.held <= 1000 && held(&ledger, Kind::Models) <= 300);
            for kind in KINDS {
                let sum: u64 = reserved.iter().filter(|(of, _)| *of == kind).map(|(_, one)| one.bytes()).sum();
                prop_assert_eq!(held(&ledger, kind), sum);
            }
            let sum: u64 = taken.iter().sum();
            prop_assert_eq!(allowance.taken(), sum);
            prop_assert!(held(&ledger, Kind::Messages) >= sum.max(100));
            prop_assert_eq!(memory.principals.iter().map(|(_, bytes)| bytes).sum::<u64>(), memory.held);
        }
        drop((reserved, allowance));
        prop_assert_eq!((host(&ledger).held, host(&ledger).principals), (0, vec![]));
    }
}

#[test]
fn threads_that_share_an_allowance_lose_no_byte() {
    let ledger = ledger(10_000);
    let allowance = Allowance::new(&ledger.account(Place::Host, Kind::Messages), 1000, 100).expect("it fits");
    std::thread::scope(|scope| {
        for seed in 0..4_u64 {
            let allowance = &allowance;
            scope.spawn(move || {
                let mut number = seed + 1;
                for _ in 0..20_000 {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = (number >> 33) % 3000;
                    if allowance.take(bytes).is_ok() {
                        allowance.release(bytes);
                    }
                }
            });
        }
    });
    assert_eq!(allowance.taken(), 0);
    assert!((1000..=1200).contains(&held(&ledger, Kind::Messages)), "{:?}", host(&ledger));
}
