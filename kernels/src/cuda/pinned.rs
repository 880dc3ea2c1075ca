//! Pinned host memory in blocks that are used again: the device copies to and from it at the full speed of the bus, and
//! its pages are there already, where fresh memory costs a fault a page.

use std::{
    collections::BTreeMap,
    fmt,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use bytemuck::Pod;
use cudarc::driver::sys;

use super::{device::Context, driver::ok};

/// The smallest block; others are twice, four times, ... as large.
const LEAST_BYTES: usize = 64 << 10;
/// Where parts of a block start: copies to such addresses are fastest, and every number is aligned.
pub(super) const ALIGN: usize = 256;

/// The pinned blocks of a device's workers.
pub(crate) struct PinnedPool {
    context: Arc<Context>,
    most: usize,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Unused ones, by size.
    free: BTreeMap<usize, Vec<Raw>>,
    /// Bytes of all blocks, in use or not.
    bytes: usize,
}

/// The address of a block; the pool or a [`Block`] owns it.
struct Raw(NonNull<u8>);

// SAFETY: an address; who has it alone may use what is there.
unsafe impl Send for Raw {}

impl PinnedPool {
    /// A pool of at most so many bytes.
    pub(super) fn new(context: Arc<Context>, most: usize) -> Arc<Self> {
        Arc::new(Self { context, most, blocks: Mutex::default() })
    }

    /// A block of at least so many bytes. Where the pool is at its limit, or the system
    /// pins no more, the block is ordinary memory, which is right but slower to copy.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Block {
        let size = bytes.next_power_of_two().max(LEAST_BYTES);
        match self.pinned(size) {
            Some(raw) => Block { memory: Memory::Pinned { raw, pool: Arc::clone(self) }, size },
            None => Block { memory: Memory::Plain(vec![MaybeUninit::uninit(); bytes.div_ceil(ALIGN)]), size: bytes },
        }
    }

    fn pinned(&self, size: usize) -> Option<Raw> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raw) = blocks.free.get_mut(&size).and_then(Vec::pop) {
            return Some(raw);
        }
        // To unpin another block in order to pin this one would take longer than to do without.
        if blocks.bytes + size > self.most {
            return None;
        }
        ok(self.context.bind()).ok()?;
        let mut base = std::ptr::null_mut();
        // SAFETY: writes one address. The memory is read by the host, so it must be cached; any worker may use it.
        let pinned = ok(unsafe { sys::cuMemHostAlloc(&raw mut base, size, sys::CU_MEMHOSTALLOC_PORTABLE) });
        let raw = NonNull::new(base.cast()).map(Raw).filter(|_| pinned.is_ok())?;
        blocks.bytes += size;
        Some(raw)
    }

    fn give_back(&self, raw: NonNull<u8>, size: usize) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.free.entry(size).or_default().push(Raw(raw));
    }
}

impl Raw {
    fn unpin(self) {
        // SAFETY: pinned by `PinnedPool::pinned`, unpinned once, and nobody has it any more. The call waits for copies.
        let _ = unsafe { sys::cuMemFreeHost(self.0.as_ptr().cast()) };
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        // A lost context has taken its memory along.
        if ok(self.context.bind()).is_ok() {
            let blocks = self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut blocks.free).into_values().flatten().for_each(Raw::unpin);
        }
    }
}

/// A block of host memory, which goes back to its pool when dropped. What is in it at first may be anything.
pub(crate) struct Block {
    memory: Memory,
    size: usize,
}

enum Memory {
    Pinned { raw: Raw, pool: Arc<PinnedPool> },
    Plain(Vec<MaybeUninit<[u64; ALIGN / 8]>>),
}

// SAFETY: the block owns its memory, and hands out shared slices of it only where it is shared itself.
unsafe impl Sync for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = matches!(self.memory, Memory::Pinned { .. });
        f.debug_struct("Block").field("size", &self.size).field("pinned", &pinned).finish()
    }
}

impl Block {
    /// A block of nothing.
    pub(super) const fn none() -> Self {
        Self { memory: Memory::Plain(vec![]), size: 0 }
    }

    /// Its bytes; at least as many as were asked for.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn base(&self) -> *const u8 {
        match &self.memory {
            Memory::Pinned { raw, .. } => raw.0.as_ptr(),
            Memory::Plain(plain) => plain.as_ptr().cast(),
        }
    }

    /// All of it, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let base = match &mut self.memory {
            Memory::Pinned { raw, .. } => raw.0.as_ptr().cast(),
            Memory::Plain(plain) => plain.as_mut_ptr().cast(),
        };
        // SAFETY: the block owns so many bytes there, and is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(base, self.size) }
    }

    /// `len` numbers from byte `at` on.
    ///
    /// # Safety
    /// They must have been written, and no copy to them be under way.
    ///
    /// # Panics
    /// Where they are not inside of the block, or `at` is not aligned.
    pub(super) unsafe fn part<T: Pod>(&self, at: usize, len: usize) -> &[T] {
        self.check::<T>(at, len);
        // SAFETY: inside of the block and aligned, by the check; written, by the caller's word.
        unsafe { std::slice::from_raw_parts(self.base().add(at).cast(), len) }
    }

    /// The same, to be changed.
    ///
    /// # Safety
    /// As for [`Self::part`].
    pub(super) unsafe fn part_mut<T: Pod>(&mut self, at: usize, len: usize) -> &mut [T] {
        self.check::<T>(at, len);
        let base = self.bytes_mut().as_mut_ptr();
        // SAFETY: as above, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(base.add(at).cast(), len) }
    }

    fn check<T>(&self, at: usize, len: usize) {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let inside = at.checked_add(len * size_of::<T>()).is_some_and(|end| end <= self.size);
        assert!(inside && at.is_multiple_of(align_of::<T>()), "{len} numbers from {at} of {} bytes", self.size);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Memory::Pinned { raw, pool } = &self.memory {
            pool.give_back(raw.0, self.size);
        }
    }
}
