//! The byte budget that connections, request messages and responses share.
//!
//! An eighth is reserved for small calls, so that large messages, stalled or not, never lock them out. Each kind has its own
//! cap below the limit, so that stalled responses leave memory for requests and vice versa.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tonic::Status;

use crate::status;

/// What transport memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// A connection's flow-control window and one partial frame.
    Connection,
    /// Request messages, received, decompressed and decoded, and the fixed cost of an open call.
    Request,
    /// Responses, from their encoding until their last byte is sent or dropped.
    Response,
}

impl MemoryKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Connection, Self::Request, Self::Response];

    /// The label in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connections",
            Self::Request => "requests",
            Self::Response => "responses",
        }
    }

    /// The share of the limit that large charges of this kind may take, in eighths.
    fn eighths(self) -> u64 {
        match self {
            Self::Connection => 3,
            Self::Request | Self::Response => 5,
        }
    }
}

/// The share of the limit that only small calls may use, in eighths.
const RESERVED_EIGHTHS: u64 = 1;

/// Memory is under pressure once three quarters of a limit are in use.
const PRESSURE_QUARTERS: u64 = 3;

/// The byte budget of the transport.
#[derive(Debug)]
pub struct TransportMemory {
    limit: u64,
    used: AtomicU64,
    used_by_kind: [AtomicU64; 3],
    refused: AtomicU64,
}

impl TransportMemory {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        let (used, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, used, used_by_kind: Default::default(), refused })
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes of one kind in use.
    pub fn used_by(&self, kind: MemoryKind) -> u64 {
        self.used_by_kind[kind as usize].load(Relaxed)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Charges refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether three quarters of the limit, or of the cap of a kind, are in use: stalled calls are then aborted sooner.
    pub fn is_under_pressure(&self) -> bool {
        let above = |used: u64, limit: u64| used > limit / 4 * PRESSURE_QUARTERS;
        let kinds = [MemoryKind::Request, MemoryKind::Response];
        above(self.used(), self.limit) || kinds.iter().any(|&kind| above(self.used_by(kind), self.cap(kind)))
    }

    /// The largest message that can be held.
    pub(crate) fn largest_message(&self) -> u64 {
        self.cap(MemoryKind::Request).min(self.cap(MemoryKind::Response))
    }

    /// The part of the reserve that one connection may use.
    pub(super) fn reserve_per_connection(&self) -> u64 {
        (self.reserve() / 32).max(256 << 10)
    }

    fn reserve(&self) -> u64 {
        self.limit / 8 * RESERVED_EIGHTHS
    }

    fn cap(&self, kind: MemoryKind) -> u64 {
        self.limit / 8 * kind.eighths()
    }

    /// Reserves `bytes`, or returns false. Small charges may use the reserve and are not bound by their kind's cap.
    pub(crate) fn try_reserve(&self, kind: MemoryKind, bytes: u64, small: bool) -> bool {
        let (limit, cap) = if small { (self.limit, u64::MAX) } else { (self.limit - self.reserve(), self.cap(kind)) };
        if try_add(&self.used_by_kind[kind as usize], bytes, cap) {
            if try_add(&self.used, bytes, limit) {
                return true;
            }
            self.used_by_kind[kind as usize].fetch_sub(bytes, Relaxed);
        }
        self.refused.fetch_add(1, Relaxed);
        false
    }

    pub(crate) fn release(&self, kind: MemoryKind, bytes: u64) {
        self.used_by_kind[kind as usize].fetch_sub(bytes, Relaxed);
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// The status of a refused charge.
    pub(crate) fn exhausted(&self, kind: MemoryKind, bytes: u64) -> Status {
        status::transport_memory_full(kind.name(), bytes, self.used(), self.limit)
    }
}

/// Adds `bytes` if the sum stays within the limit.
fn try_add(used: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    used.fetch_update(Relaxed, Relaxed, sum).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_charges_leave_the_reserve_to_small_ones() {
        let memory = TransportMemory::new(800);
        assert!(memory.try_reserve(MemoryKind::Request, 500, false));
        assert!(memory.try_reserve(MemoryKind::Response, 200, false));
        assert!(!memory.try_reserve(MemoryKind::Response, 1, false), "the reserve is not for large charges");
        assert!(memory.try_reserve(MemoryKind::Response, 100, true), "the reserve is for small charges");
        assert!(!memory.try_reserve(MemoryKind::Response, 1, true), "nothing exceeds the limit");
        assert_eq!((memory.used(), memory.refused()), (800, 2));
    }

    #[test]
    fn no_kind_exceeds_its_cap() {
        for kind in MemoryKind::ALL {
            let memory = TransportMemory::new(800);
            let cap = 100 * kind.eighths();
            assert!(memory.try_reserve(kind, cap, false));
            assert!(!memory.try_reserve(kind, 1, false), "{kind:?}");
            assert_eq!(memory.used_by(kind), cap);
            memory.release(kind, cap);
            assert_eq!((memory.used(), memory.used_by(kind)), (0, 0));
        }
    }

    #[test]
    fn a_refused_charge_reserves_nothing() {
        let memory = TransportMemory::new(80);
        assert!(!memory.try_reserve(MemoryKind::Request, u64::MAX, true));
        assert!(!memory.try_reserve(MemoryKind::Response, 81, true));
        let used = [memory.used(), memory.used_by(MemoryKind::Request), memory.used_by(MemoryKind::Response)];
        assert_eq!(used, [0; 3]);
    }

    #[test]
    fn memory_is_under_pressure_once_three_quarters_of_a_cap_are_used() {
        let memory = TransportMemory::new(800);
        assert!(memory.try_reserve(MemoryKind::Response, 370, false));
        assert!(!memory.is_under_pressure());
        assert!(memory.try_reserve(MemoryKind::Response, 10, false));
        assert!(memory.is_under_pressure());
    }
}
