//! The byte budget that connections, request messages and responses share.
//!
//! An eighth is reserved for small calls, so that large messages, stalled or not, never lock them out. Each kind has its own
//! cap below the limit, so that stalled responses leave memory for requests and vice versa.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use accelerd_kernels::ledger::{Allowance, Exceeded, Reservation};

use crate::{error::ApiError, resident_memory::WorkSignal};

/// Use of transport memory.
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
    /// The part of the ledger that charges are taken from, if any.
    ledger: Option<LedgerPart>,
}

/// The transport's part of the ledger: an allowance, and a reserve for new connections and small calls, which must be served
/// where data has taken everything else.
#[derive(Debug)]
pub struct LedgerPart {
    allowance: Arc<Allowance>,
    reserve: Reservation,
    reserve_used: AtomicU64,
    /// Told of every charge.
    work: Arc<WorkSignal>,
}

impl LedgerPart {
    /// An allowance and a reserve. The signal is told of every charge.
    pub(crate) fn new(allowance: Arc<Allowance>, reserve: Reservation, work: Arc<WorkSignal>) -> Self {
        Self { allowance, reserve, reserve_used: AtomicU64::new(0), work }
    }

    fn take(&self, bytes: u64, may_use_reserve: bool) -> Result<(), Exceeded> {
        self.work.notify();
        self.allowance.take(bytes).or_else(|refusal| {
            let from_reserve = may_use_reserve && try_add(&self.reserve_used, bytes, self.reserve.bytes());
            if from_reserve { Ok(()) } else { Err(refusal) }
        })
    }

    /// Returns bytes, to the reserve first: whoever took them, it is full again as soon as possible.
    fn release(&self, bytes: u64) {
        let mut to_reserve = 0;
        let _updated = self.reserve_used.fetch_update(Relaxed, Relaxed, |used| {
            to_reserve = used.min(bytes);
            Some(used - to_reserve)
        });
        if bytes > to_reserve {
            self.allowance.release(bytes - to_reserve);
        }
    }
}

impl TransportMemory {
    /// A budget of `limit` bytes, outside of the ledger.
    pub fn new(limit: u64) -> Arc<Self> {
        Self::with(limit, None)
    }

    /// A budget of `limit` bytes, which are taken from a part of the ledger.
    pub fn in_ledger(limit: u64, ledger: LedgerPart) -> Arc<Self> {
        Self::with(limit, Some(ledger))
    }

    fn with(limit: u64, ledger: Option<LedgerPart>) -> Arc<Self> {
        let (used, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, used, used_by_kind: Default::default(), refused, ledger })
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

    /// Returns true if three quarters of the limit, or of the cap of a kind, are in use: stalled calls are then aborted sooner.
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
        reserved_for_small_calls(self.limit)
    }

    fn cap(&self, kind: MemoryKind) -> u64 {
        self.limit / 8 * kind.eighths()
    }

    /// Reserves `bytes`. Small charges may use the reserve and are not bound by their kind's cap.
    pub(crate) fn reserve_bytes(&self, kind: MemoryKind, bytes: u64, small: bool) -> Result<(), ApiError> {
        let reserved = self.charge(kind, bytes, small);
        if reserved.is_err() {
            self.refused.fetch_add(1, Relaxed);
        }
        reserved
    }

    /// As [`Self::reserve_bytes`], without the reason of a refusal.
    pub(crate) fn try_reserve(&self, kind: MemoryKind, bytes: u64, small: bool) -> bool {
        self.reserve_bytes(kind, bytes, small).is_ok()
    }

    fn charge(&self, kind: MemoryKind, bytes: u64, small: bool) -> Result<(), ApiError> {
        let (limit, cap) = if small { (self.limit, u64::MAX) } else { (self.limit - self.reserve(), self.cap(kind)) };
        let full =
            || ApiError::TransportMemory { kind: kind.name(), asked: bytes, held: self.used(), limit: self.limit };
        if !try_add(&self.used_by_kind[kind as usize], bytes, cap) {
            return Err(full());
        }
        if !try_add(&self.used, bytes, limit) {
            self.used_by_kind[kind as usize].fetch_sub(bytes, Relaxed);
            return Err(full());
        }
        let may_use_reserve = small || kind == MemoryKind::Connection;
        let taken = self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.take(bytes, may_use_reserve));
        taken.map_err(|refusal| {
            self.uncharge(kind, bytes);
            refusal.into()
        })
    }

    fn uncharge(&self, kind: MemoryKind, bytes: u64) {
        self.used_by_kind[kind as usize].fetch_sub(bytes, Relaxed);
        self.used.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn release(&self, kind: MemoryKind, bytes: u64) {
        self.uncharge(kind, bytes);
        if let Some(ledger) = &self.ledger {
            ledger.release(bytes);
        }
    }
}

/// The part of a limit that only small calls may use.
pub(crate) fn reserved_for_small_calls(limit: u64) -> u64 {
    limit / 8 * RESERVED_EIGHTHS
}

/// Adds `bytes` if the sum stays within the limit.
fn try_add(used: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    used.fetch_update(Relaxed, Relaxed, sum).is_ok()
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ledger::{Account, Kind, Limit};

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
    fn charges_are_taken_from_the_ledger_and_returned() {
        let account = Account::standalone(Kind::Messages, Limit { bytes: 300, setting: "memory.host_limit" });
        let allowance = Arc::new(Allowance::new(&account, 100, 1).expect("it fits"));
        let memory =
            TransportMemory::in_ledger(800, LedgerPart::new(Arc::clone(&allowance), account.empty(), Arc::default()));
        assert!(memory.try_reserve(MemoryKind::Request, 250, false));
        let refused = memory.reserve_bytes(MemoryKind::Response, 100, true).expect_err("the ledger has 50 left");
        assert!(matches!(refused, ApiError::MemoryLimit { refusal, .. } if refusal.asked == 100));
        assert_eq!((memory.used(), memory.refused(), allowance.taken()), (250, 1, 250));
        memory.release(MemoryKind::Request, 250);
        assert_eq!((memory.used(), allowance.taken()), (0, 0));
    }

    #[test]
    fn connections_and_small_charges_find_memory_where_large_ones_and_data_have_taken_the_rest() {
        let account = Account::standalone(Kind::Messages, Limit { bytes: 300, setting: "memory.host_limit" });
        let allowance = Arc::new(Allowance::new(&account, 100, 1).expect("it fits"));
        let reserve = account.reserve(40).expect("it fits");
        let memory = TransportMemory::in_ledger(800, LedgerPart::new(Arc::clone(&allowance), reserve, Arc::default()));
        assert!(memory.try_reserve(MemoryKind::Request, 260, false));
        assert!(!memory.try_reserve(MemoryKind::Request, 1, false));
        assert!(memory.try_reserve(MemoryKind::Connection, 20, false));
        assert!(memory.try_reserve(MemoryKind::Request, 20, true));
        assert!(!memory.try_reserve(MemoryKind::Request, 1, true), "the reserve is used up");
        memory.release(MemoryKind::Request, 260);
        assert_eq!((memory.used(), allowance.taken()), (40, 40), "the reserve is full again");
        memory.release(MemoryKind::Connection, 20);
        memory.release(MemoryKind::Request, 20);
        assert_eq!((memory.used(), allowance.taken()), (0, 0));
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
