//! A budget for frequent small reservations: bytes are taken and returned by one atomic operation, and its size is reserved
//! in blocks.

use crate::{
    balance::Exceeded,
    ledger::{Account, Reservation},
    sync::{AtomicU64, Mutex, SeqCst, lock},
};

/// A budget that grows and shrinks in blocks, and never below its floor.
#[derive(Debug)]
pub struct Allowance {
    /// Bytes that are reserved and not taken.
    free: AtomicU64,
    /// Bytes that are reserved, taken or not.
    reserved: Mutex<Reservation>,
    floor: u64,
    block: u64,
}

impl Allowance {
    /// Reserves `floor` bytes, which are guaranteed from then on. The budget grows beyond it by at least `block` bytes at a
    /// time.
    pub fn new(account: &Account, floor: u64, block: u64) -> Result<Self, Exceeded> {
        let reserved = account.reserve(floor)?;
        Ok(Self { free: AtomicU64::new(floor), reserved: Mutex::new(reserved), floor, block: block.max(1) })
    }

    /// Takes `bytes`, to be returned by [`Self::release`].
    pub fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        let take = |free: u64| free.checked_sub(bytes);
        if self.free.fetch_update(SeqCst, SeqCst, take).is_ok() { Ok(()) } else { self.grow(bytes) }
    }

    /// Returns bytes that [`Self::take`] took. Once more than the floor and two blocks are free, the excess over one block goes
    /// back to the ledger.
    pub fn release(&self, bytes: u64) {
        let free = self.free.fetch_add(bytes, SeqCst) + bytes;
        if free > self.floor.saturating_add(self.block.saturating_mul(2)) {
            self.shrink(self.floor.saturating_add(self.block));
        }
    }

    /// Returns everything beyond the floor that is not taken, for others to use. Returns how much that was; nothing if the
    /// budget is being resized.
    pub fn trim(&self) -> u64 {
        self.shrink(0)
    }

    /// Bytes taken now.
    pub fn taken(&self) -> u64 {
        let reserved = lock(&self.reserved);
        reserved.bytes() - self.free.load(SeqCst)
    }

    /// Takes `bytes` of the free bytes and of a new block.
    fn grow(&self, bytes: u64) -> Result<(), Exceeded> {
        let mut reserved = lock(&self.reserved);
        // All free bytes are withdrawn meanwhile, so that no other caller takes the bytes for which this one makes the budget grow.
        let free = self.free.swap(0, SeqCst);
        let Some(missing) = bytes.checked_sub(free).filter(|missing| *missing > 0) else {
            self.free.fetch_add(free - bytes, SeqCst);
            return Ok(());
        };
        // A whole block saves the next calls the way here, but nothing is evicted for more than this one needs.
        let block = missing.max(self.block);
        let all = reserved.bytes().saturating_add(missing);
        let grown = if reserved.try_grow(block) { Ok(block) } else { reserved.try_resize(all).map(|()| missing) };
        match grown {
            Ok(grown) => {
                self.free.fetch_add(grown - missing, SeqCst);
                Ok(())
            }
            Err(refusal) => {
                self.free.fetch_add(free, SeqCst);
                Err(Exceeded { asked: bytes, ..refusal })
            }
        }
    }

    /// Returns the free bytes beyond `keep`, but nothing of the floor.
    fn shrink(&self, keep: u64) -> u64 {
        // Whoever holds the lock is resizing the budget.
        let Ok(mut reserved) = self.reserved.try_lock() else { return 0 };
        let limit = reserved.bytes().saturating_sub(self.floor);
        let mut returned = 0;
        let take = |free: u64| {
            returned = free.saturating_sub(keep).min(limit);
            (returned > 0).then(|| free - returned)
        };
        if self.free.fetch_update(SeqCst, SeqCst, take).is_err() {
            return 0;
        }
        let less = reserved.bytes() - returned;
        // Shrinking always succeeds.
        let _ = reserved.try_resize(less);
        returned
    }
}
