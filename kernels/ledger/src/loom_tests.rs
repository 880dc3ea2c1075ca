//! Model checks of allowances: every interleaving of callers that take, return and resize.

use std::sync::Arc;

use loom::thread;

use super::{Allowance, Kind, Ledger, Limit, Place};

fn ledger(bytes: u64) -> Arc<Ledger> {
    let ledger = Ledger::new();
    ledger.limit(Place::Host, Limit { bytes, setting: "memory.host_limit" });
    ledger
}

fn held(ledger: &Ledger) -> u64 {
    ledger.snapshot().iter().map(|memory| memory.held).sum()
}

#[test]
fn loom_no_byte_is_lost_or_handed_out_twice() {
    loom::model(|| {
        let ledger = ledger(6);
        let account = ledger.account(Place::Host, Kind::Messages);
        let allowance = Arc::new(Allowance::new(&account, 1, 1).expect("it fits"));
        let other = Arc::clone(&allowance);
        let caller = thread::spawn(move || {
            let taken = other.take(4).is_ok();
            if taken {
                other.release(4);
            }
        });
        if allowance.take(3).is_ok() {
            assert!(allowance.taken() >= 3);
            allowance.release(3);
        }
        caller.join().expect("it does not panic");
        assert_eq!(allowance.taken(), 0);
        allowance.trim();
        assert_eq!(held(&ledger), 1, "the floor is left");
        allowance.take(6).expect("all of the place is available");
    });
}

#[test]
fn loom_a_guaranteed_byte_is_there_while_others_shrink_and_reserve() {
    loom::model(|| {
        let ledger = ledger(4);
        let account = ledger.account(Place::Host, Kind::Messages);
        let allowance = Arc::new(Allowance::new(&account, 2, 2).expect("it fits"));
        let other = Arc::clone(&allowance);
        let data = ledger.account(Place::Host, Kind::Collections);
        let thief = thread::spawn(move || {
            other.trim();
            data.reserve(2).map(|reserved| reserved.bytes())
        });
        allowance.take(2).expect("the floor is guaranteed");
        allowance.release(2);
        thief.join().expect("it does not panic").expect("the floor is not of their part");
        assert_eq!((allowance.taken(), held(&ledger)), (0, 2));
    });
}
