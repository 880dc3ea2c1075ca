//! A pool of pinned host memory, which copies at full bus bandwidth; reused blocks cost no page faults.

use std::{
    collections::BTreeMap,
    fmt,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_ledger::{Account, Kind, Ledger, Place, Reservation};
use bytemuck::Pod;
use cudarc::driver::sys;

use super::{context::Context, driver::ok};

/// Minimum block size; sizes are powers of two.
const MIN_BYTES: usize = 64 << 10;
/// Alignment of regions, at which copies are fastest and every type is aligned.
pub(super) const ALIGN: usize = 256;

/// The pinned blocks of a device's workers.
pub(crate) struct PinnedPool {
    context: Arc<Context>,
    limit: usize,
    account: Account,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Free blocks by size.
    free: BTreeMap<usize, Vec<Raw>>,
    /// Bytes of all blocks, free or in use.
    bytes: usize,
    /// Host memory of all blocks.
    reserved: Vec<Reservation>,
}

/// The address of a block; the pool or a [`PinnedBlock`] owns it.
struct Raw(NonNull<u8>);

// SAFETY: an address with one owner, which alone accesses the memory.
unsafe impl Send for Raw {}

impl PinnedPool {
    /// A pool of at most `limit` bytes.
    pub(super) fn new(context: Arc<Context>, limit: usize, ledger: &Ledger) -> Arc<Self> {
        let account = ledger.account(Place::Host, Kind::Pinned);
        Arc::new(Self { context, limit, account, blocks: Mutex::default() })
    }

    /// Where pinned host memory is charged.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Takes a block of at least `bytes`. If the pool is at its limit or pinning fails, the block is pageable memory, which
    /// only copies more slowly.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> PinnedBlock {
        let size = bytes.next_power_of_two().max(MIN_BYTES);
        match self.pinned(size) {
            Some(raw) => PinnedBlock { memory: Memory::Pinned { raw, pool: Arc::clone(self) }, size },
            None => {
                PinnedBlock { memory: Memory::Plain(vec![MaybeUninit::uninit(); bytes.div_ceil(ALIGN)]), size: bytes }
            }
        }
    }

    fn pinned(&self, size: usize) -> Option<Raw> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raw) = blocks.free.get_mut(&size).and_then(Vec::pop) {
            return Some(raw);
        }
        // Unpinning another block to pin this one would take longer than a pageable copy.
        if blocks.bytes + size > self.limit {
            return None;
        }
        // Pageable memory serves as well, so nothing is evicted for a block.
        let reserved = self.account.reserve_unused(size as u64)?;
        ok(self.context.bind()).ok()?;
        let mut base = std::ptr::null_mut();
        // SAFETY: writes one address. The host reads the memory, so it is not write-combined; any worker may use it.
        let pinned = ok(unsafe { sys::cuMemHostAlloc(&raw mut base, size, sys::CU_MEMHOSTALLOC_PORTABLE) });
        let raw = NonNull::new(base.cast()).map(Raw).filter(|_| pinned.is_ok())?;
        blocks.bytes += size;
        blocks.reserved.push(reserved);
        Some(raw)
    }

    fn put_back(&self, raw: NonNull<u8>, size: usize) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.free.entry(size).or_default().push(Raw(raw));
    }
}

impl Raw {
    fn unpin(self) {
        // SAFETY: pinned by `PinnedPool::pinned`, unpinned once, and no longer in use. The call waits for copies.
        let _ = unsafe { sys::cuMemFreeHost(self.0.as_ptr().cast()) };
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        // The memory of a lost context is already released.
        if ok(self.context.bind()).is_ok() {
            let blocks = self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut blocks.free).into_values().flatten().for_each(Raw::unpin);
        }
    }
}

/// A block of host memory, initially uninitialised; returns to its pool on drop.
pub(crate) struct PinnedBlock {
    memory: Memory,
    size: usize,
}

enum Memory {
    Pinned { raw: Raw, pool: Arc<PinnedPool> },
    Plain(Vec<MaybeUninit<[u64; ALIGN / 8]>>),
}

// SAFETY: the block owns its memory, and a shared reference gives only shared slices of it.
unsafe impl Sync for PinnedBlock {}

impl fmt::Debug for PinnedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = matches!(self.memory, Memory::Pinned { .. });
        f.debug_struct("PinnedBlock").field("size", &self.size).field("pinned", &pinned).finish()
    }
}

impl PinnedBlock {
    /// An empty block.
    pub(super) const fn none() -> Self {
        Self { memory: Memory::Plain(vec![]), size: 0 }
    }

    /// Size in bytes; at least the requested one.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn base(&self) -> *const u8 {
        match &self.memory {
            Memory::Pinned { raw, .. } => raw.0.as_ptr(),
            Memory::Plain(plain) => plain.as_ptr().cast(),
        }
    }

    /// The whole block, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let base = match &mut self.memory {
            Memory::Pinned { raw, .. } => raw.0.as_ptr().cast(),
            Memory::Plain(plain) => plain.as_mut_ptr().cast(),
        };
        // SAFETY: the block owns `size` bytes there and is mutably borrowed.
        unsafe { std::slice::from_raw_parts_mut(base, self.size) }
    }

    /// `len` elements starting at byte `offset`.
    ///
    /// # Safety
    /// They must be initialised, and no copy to them in flight.
    ///
    /// # Panics
    /// If they exceed the block, or `offset` is not aligned.
    pub(super) unsafe fn part<T: Pod>(&self, offset: usize, len: usize) -> &[T] {
        self.check::<T>(offset, len);
        // SAFETY: inside the block and aligned, by the check; initialised, by the caller's contract.
        unsafe { std::slice::from_raw_parts(self.base().add(offset).cast(), len) }
    }

    /// Mutable variant of [`Self::part`].
    ///
    /// # Safety
    /// As for [`Self::part`].
    pub(super) unsafe fn part_mut<T: Pod>(&mut self, offset: usize, len: usize) -> &mut [T] {
        self.check::<T>(offset, len);
        let base = self.bytes_mut().as_mut_ptr();
        // SAFETY: as above, and mutably borrowed.
        unsafe { std::slice::from_raw_parts_mut(base.add(offset).cast(), len) }
    }

    fn check<T>(&self, offset: usize, len: usize) {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let inside = offset.checked_add(len * size_of::<T>()).is_some_and(|end| end <= self.size);
        assert!(inside && offset.is_multiple_of(align_of::<T>()), "{len} numbers from {offset} of {} bytes", self.size);
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        if let Memory::Pinned { raw, pool } = &self.memory {
            pool.put_back(raw.0, self.size);
        }
    }
}
