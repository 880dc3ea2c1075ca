//! The budget of bytes that connections, request messages and answers share.
//!
//! An eighth is reserved for small calls, so that large messages, stalled or not, never lock them out. Each kind has a cap
//! of its own below the limit, so that stalled answers leave memory for requests and the reverse.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tonic::Status;

use crate::grpc::status;

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What a connection may send ahead: its flow-control window and one partial frame.
    Connection,
    /// Request messages, received, decompressed and decoded, and what an open call needs.
    Request,
    /// Answers from their encoding until their last byte is sent or dropped.
    Answer,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Connection, Self::Request, Self::Answer];

    /// Its name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connections",
            Self::Request => "requests",
            Self::Answer => "answers",
        }
    }

    /// The share of the limit that large charges of this kind may take, in eighths.
    fn eighths(self) -> u64 {
        match self {
            Self::Connection => 3,
            Self::Request | Self::Answer => 5,
        }
    }
}

/// The share of the limit that only small calls may take, in eighths.
const RESERVED_EIGHTHS: u64 = 1;

/// Memory is scarce once three quarters of a limit are held.
const SCARCE_QUARTERS: u64 = 3;

/// The bytes that the transport may hold.
#[derive(Debug)]
pub struct Memory {
    limit: u64,
    held: AtomicU64,
    by_kind: [AtomicU64; 3],
    refused: AtomicU64,
}

impl Memory {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicU64::new(0), by_kind: Default::default(), refused: AtomicU64::new(0) })
    }

    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Bytes held now of one kind.
    pub fn held_by(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize].load(Relaxed)
    }

    /// Bytes that may be held.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Charges refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether so much is held, in total or of one kind, that stalled calls are not waited for any longer.
    pub fn is_scarce(&self) -> bool {
        let above = |held: u64, limit: u64| held > limit / 4 * SCARCE_QUARTERS;
        let kinds = [Kind::Request, Kind::Answer];
        above(self.held(), self.limit) || kinds.iter().any(|&kind| above(self.held_by(kind), self.cap(kind)))
    }

    /// The largest message that can ever be held.
    pub(crate) fn largest_message(&self) -> u64 {
        self.cap(Kind::Request).min(self.cap(Kind::Answer))
    }

    /// The part of the reserve that one connection may take.
    pub(crate) fn reserve_per_connection(&self) -> u64 {
        (self.reserve() / 32).max(256 << 10)
    }

    fn reserve(&self) -> u64 {
        self.limit / 8 * RESERVED_EIGHTHS
    }

    fn cap(&self, kind: Kind) -> u64 {
        self.limit / 8 * kind.eighths()
    }

    /// Takes `bytes`, or returns false. Small charges may take the reserve and are not bound by their kind's cap.
    pub(crate) fn take(&self, kind: Kind, bytes: u64, small: bool) -> bool {
        let (limit, cap) = if small { (self.limit, u64::MAX) } else { (self.limit - self.reserve(), self.cap(kind)) };
        if add(&self.by_kind[kind as usize], bytes, cap) {
            if add(&self.held, bytes, limit) {
                return true;
            }
            self.by_kind[kind as usize].fetch_sub(bytes, Relaxed);
        }
        self.refused.fetch_add(1, Relaxed);
        false
    }

    pub(crate) fn give(&self, kind: Kind, bytes: u64) {
        self.by_kind[kind as usize].fetch_sub(bytes, Relaxed);
        self.held.fetch_sub(bytes, Relaxed);
    }

    /// The refusal of a charge.
    pub(crate) fn full(&self, kind: Kind, bytes: u64) -> Status {
        status::transport_memory_full(kind.name(), bytes, self.held(), self.limit)
    }
}

/// Adds where the sum stays within the limit.
fn add(held: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let sum = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
    held.fetch_update(Relaxed, Relaxed, sum).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_charges_leave_the_reserve_to_small_ones() {
        let memory = Memory::new(800);
        assert!(memory.take(Kind::Request, 500, false) && memory.take(Kind::Answer, 200, false));
        assert!(!memory.take(Kind::Answer, 1, false), "the reserve is not for large charges");
        assert!(memory.take(Kind::Answer, 100, true), "the reserve is for small charges");
        assert!(!memory.take(Kind::Answer, 1, true), "nothing goes beyond the limit");
        assert_eq!((memory.held(), memory.refused()), (800, 2));
    }

    #[test]
    fn no_kind_takes_what_the_others_need() {
        for kind in Kind::ALL {
            let memory = Memory::new(800);
            let cap = 100 * kind.eighths();
            assert!(memory.take(kind, cap, false));
            assert!(!memory.take(kind, 1, false), "{kind:?}");
            assert_eq!(memory.held_by(kind), cap);
            memory.give(kind, cap);
            assert_eq!((memory.held(), memory.held_by(kind)), (0, 0));
        }
    }

    #[test]
    fn a_refused_charge_holds_nothing() {
        let memory = Memory::new(80);
        assert!(!memory.take(Kind::Request, u64::MAX, true));
        assert!(!memory.take(Kind::Answer, 81, true));
        assert_eq!((memory.held(), memory.held_by(Kind::Request), memory.held_by(Kind::Answer)), (0, 0, 0));
    }

    #[test]
    fn memory_is_scarce_once_three_quarters_of_a_cap_are_held() {
        let memory = Memory::new(800);
        assert!(memory.take(Kind::Answer, 370, false));
        assert!(!memory.is_scarce());
        assert!(memory.take(Kind::Answer, 10, false));
        assert!(memory.is_scarce());
    }
}
