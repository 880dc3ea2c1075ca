//! One ledger of memory: the bytes that the daemon holds on the host and on each GPU, by kind.
//!
//! A [`Ledger`] has one balance for each [`Place`]. Memory is reserved before it is allocated: [`Account::reserve`] returns a
//! [`Reservation`], or the figures of the limit that it would exceed. Dropping the reservation returns its bytes. Before a
//! reservation is refused by the limit of a place, caches there are evicted, in the order of [`Kind::EVICTION`].
//! Frequent small reservations go through an [`Allowance`], which takes and returns bytes without a lock.
//!
//! The ledger allocates nothing itself and knows no thread, clock or device.

mod allowance;
mod balance;
mod kind;
mod ledger;
#[cfg(all(test, loom))]
mod loom_tests;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

pub use allowance::Allowance;
pub use balance::{Exceeded, Limit};
pub use kind::{Kind, Place};
pub use ledger::{Account, KindMemory, Ledger, PlaceMemory, Reservation};
