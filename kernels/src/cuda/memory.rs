//! Device memory: buffers, and the stream-ordered pool that they are allocated from.

use std::{
    fmt,
    marker::PhantomData,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::driver::ok;
use crate::PoolStats;

/// Granularity of the driver's allocations, to which accounted sizes are rounded up.
const GRANULARITY: u64 = 512;

/// A typed device address, as a kernel argument. It does not keep the memory alive.
pub struct DevicePtr<T> {
    pub(super) raw: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.raw)
    }
}

impl<T> DevicePtr<T> {
    /// The null pointer; kernels test for it.
    pub const NULL: Self = Self::from_raw(0);

    /// A pointer to an address.
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self { raw, of: PhantomData }
    }

    /// The address as an integer, for structs passed by value.
    pub const fn address(self) -> u64 {
        self.raw
    }

    /// The same address with another element type.
    pub const fn cast<U>(self) -> DevicePtr<U> {
        DevicePtr::from_raw(self.raw)
    }
}

/// A device memory buffer. Dropping it calls no driver function: the memory is queued, and a worker of the device frees
/// it in stream order at its next allocation, synchronisation or idle reclaim.
///
/// A buffer is written and read in the order of the stream that it was allocated on. To share a buffer between workers,
/// call `Worker::synchronize` before another worker sees it, and synchronise each worker's stream before dropping that
/// worker's reference.
pub struct Buffer<T> {
    raw: u64,
    len: usize,
    owner: Option<Owner>,
    of: PhantomData<fn() -> T>,
}

/// The pool and stream that a buffer was allocated from.
struct Owner {
    pool: Arc<MemoryPool>,
    stream: Arc<StreamHandle>,
    bytes: u64,
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("address", &self.raw).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Buffer<T> {
    /// An empty buffer, without memory.
    pub const fn empty() -> Self {
        Self { raw: 0, len: 0, owner: None, of: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Address of the first element.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.raw)
    }

    /// Address of element `offset`; one past the end is allowed.
    ///
    /// # Panics
    /// If `offset` exceeds the length.
    pub fn ptr_at(&self, offset: usize) -> DevicePtr<T> {
        assert!(offset <= self.len, "element {offset} of a buffer of {}", self.len);
        DevicePtr::from_raw(self.raw + (offset * size_of::<T>()) as u64)
    }
}

impl<T: Pod> Buffer<T> {
    /// Takes ownership of memory that was allocated on `stream` and is charged to `pool`.
    pub(super) fn new(raw: u64, len: usize, bytes: u64, pool: &Arc<MemoryPool>, stream: &Arc<StreamHandle>) -> Self {
        let owner = Owner { pool: Arc::clone(pool), stream: Arc::clone(stream), bytes };
        Self { raw, len, owner: Some(owner), of: PhantomData }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(Owner { pool, stream, bytes }) = self.owner.take() {
            let free = Freed { raw: self.raw, bytes, stream };
            pool.freed.lock().unwrap_or_else(PoisonError::into_inner).push(free);
        }
    }
}

/// A stream handle shared with the buffers allocated on it. A buffer that outlives the stream is freed on another.
pub(super) struct StreamHandle {
    /// The handle, as an integer because pointers are not `Send`; 0 once the stream is closed.
    handle: Mutex<usize>,
}

impl StreamHandle {
    pub(super) fn new(handle: sys::CUstream) -> Arc<Self> {
        Arc::new(Self { handle: Mutex::new(handle as usize) })
    }

    /// Takes the handle; later frees use another stream.
    pub(super) fn close(&self) -> sys::CUstream {
        mem::take(&mut *self.handle.lock().unwrap_or_else(PoisonError::into_inner)) as sys::CUstream
    }
}

/// Dropped memory, to be freed in the order of the stream that it was allocated on.
struct Freed {
    raw: u64,
    bytes: u64,
    stream: Arc<StreamHandle>,
}

impl Freed {
    /// Frees in the order of its stream, or of `other` if that stream is closed (it was synchronised before).
    fn free(&self, other: sys::CUstream) -> CUresult {
        let handle = self.stream.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = if *handle == 0 { other } else { *handle as sys::CUstream };
        // SAFETY: allocated by the driver and freed once, since a buffer queues itself once; the lock keeps the stream
        // alive during the call. Work on the buffer precedes this call on its stream, or has completed.
        unsafe { sys::cuMemFreeAsync(self.raw, stream) }
    }
}

/// The memory pool of a device, with its own accounting of allocated bytes.
pub(super) struct MemoryPool {
    handle: usize,
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    reserved: AtomicU64,
    freed: Mutex<Vec<Freed>>,
}

impl MemoryPool {
    /// Creates a pool on the device whose context is current. Freed memory stays in the pool.
    pub(super) fn create(ordinal: i32, limit: u64) -> Result<Self, CUresult> {
        let props = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal },
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: `props` is fully initialised and read during the call only.
        ok(unsafe { sys::cuMemPoolCreate(&raw mut handle, &raw const props) })?;
        let mut keep = u64::MAX;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: this attribute is a u64, read during the call.
        ok(unsafe { sys::cuMemPoolSetAttribute(handle, threshold, (&raw mut keep).cast()) })?;
        // Reusing memory freed on another stream must not add a dependency on that stream's work.
        let mut never = 0_i32;
        let waits = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
        // SAFETY: this attribute is an int, read during the call.
        ok(unsafe { sys::cuMemPoolSetAttribute(handle, waits, (&raw mut never).cast()) })?;
        let [used, peak, allocations, reserved] = <[AtomicU64; 4]>::default();
        Ok(Self { handle: handle as usize, limit, used, peak, allocations, reserved, freed: Mutex::default() })
    }

    fn handle(&self) -> sys::CUmemoryPool {
        self.handle as sys::CUmemoryPool
    }

    /// Charges an allocation of `bytes` if the limit allows it; returns the bytes charged.
    pub(super) fn charge(&self, bytes: u64) -> Option<u64> {
        let charged = bytes.checked_next_multiple_of(GRANULARITY)?;
        let add = |used: u64| used.checked_add(charged).filter(|total| self.limit == 0 || *total <= self.limit);
        let before = self.used.fetch_update(Relaxed, Relaxed, add).ok()?;
        self.peak.fetch_max(before + charged, Relaxed);
        Some(charged)
    }

    /// Bytes that can still be allocated if `on_device` bytes are free on the device.
    pub(super) fn free(&self, on_device: u64) -> u64 {
        let used = self.used.load(Relaxed);
        let unused = self.reserved.load(Relaxed).saturating_sub(used);
        let limit = if self.limit == 0 { u64::MAX } else { self.limit.saturating_sub(used) };
        limit.min(on_device.saturating_add(unused))
    }

    /// Bytes that can be allocated if `on_device` bytes are free on the device, once all memory of the pool is freed.
    pub(super) fn attainable(&self, on_device: u64) -> u64 {
        let limit = if self.limit == 0 { u64::MAX } else { self.limit };
        limit.min(on_device.saturating_add(self.query_reserved()))
    }

    /// Reverts a [`Self::charge`].
    pub(super) fn uncharge(&self, charged: u64) {
        self.used.fetch_sub(charged, Relaxed);
    }

    /// Allocates in stream order.
    pub(super) fn allocate(&self, bytes: u64, stream: sys::CUstream) -> Result<u64, CUresult> {
        let mut raw = 0;
        let size = usize::try_from(bytes).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: pool and stream are alive and belong to the current context.
        ok(unsafe { sys::cuMemAllocFromPoolAsync(&raw mut raw, size, self.handle(), stream) })?;
        self.allocations.fetch_add(1, Relaxed);
        Ok(raw)
    }

    /// Frees all dropped buffers; returns the first error.
    pub(super) fn free_dropped(&self, on: sys::CUstream) -> CUresult {
        let freed = mem::take(&mut *self.freed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut first = CUresult::CUDA_SUCCESS;
        for block in freed {
            let result = block.free(on);
            self.uncharge(block.bytes);
            first = if first == CUresult::CUDA_SUCCESS { result } else { first };
        }
        first
    }

    /// Returns unused memory above `keep` bytes to the driver.
    pub(super) fn trim(&self, keep: u64) {
        // SAFETY: the pool is alive. An error leaves the pool as it was.
        let _ = unsafe { sys::cuMemPoolTrimTo(self.handle(), usize::try_from(keep).unwrap_or(usize::MAX)) };
    }

    /// Updates the reserved bytes, and trims the pool if they exceed the limit, as fragmentation can cause. The pool's
    /// context must be current.
    pub(super) fn refresh(&self) {
        let reserved = self.query_reserved();
        if self.limit != 0 && reserved > self.limit {
            self.trim(self.limit);
        }
        self.reserved.store(reserved, Relaxed);
    }

    fn query_reserved(&self) -> u64 {
        let mut value = 0_u64;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        // SAFETY: this attribute is a u64, written during the call.
        let _ = unsafe { sys::cuMemPoolGetAttribute(self.handle(), attribute, (&raw mut value).cast()) };
        value
    }

    /// The statistics as of the last [`Self::refresh`]; calls no driver function.
    pub(super) fn stats(&self) -> PoolStats {
        PoolStats {
            used_bytes: self.used.load(Relaxed),
            reserved_bytes: self.reserved.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            limit_bytes: self.limit,
            allocations: self.allocations.load(Relaxed),
        }
    }

    /// Destroys the pool. Outstanding memory stays valid until it is freed or its context is released.
    pub(super) fn destroy(&self) {
        // SAFETY: called once, by the device that created the pool, after its last worker was dropped.
        let _ = unsafe { sys::cuMemPoolDestroy(self.handle()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(limit: u64) -> Arc<MemoryPool> {
        let [used, peak, allocations, reserved] = <[AtomicU64; 4]>::default();
        Arc::new(MemoryPool { handle: 0, limit, used, peak, allocations, reserved, freed: Mutex::default() })
    }

    #[test]
    fn charges_respect_the_limit_and_can_be_reverted() {
        let pool = pool(1024);
        assert_eq!(pool.charge(1), Some(512));
        assert_eq!(pool.charge(513), None);
        assert_eq!(pool.charge(512), Some(512));
        assert_eq!(pool.charge(1), None);
        pool.uncharge(512);
        assert_eq!(pool.charge(5), Some(512));
        assert_eq!(pool.charge(u64::MAX), None);
        assert_eq!((pool.free(1 << 20), pool.free(0)), (0, 0));
        pool.uncharge(512);
        assert_eq!((pool.free(1 << 20), pool.free(100)), (512, 100), "bounded by the limit, and by the device");
        assert_eq!(pool.charge(512), Some(512));
        let stats = pool.stats();
        assert_eq!((stats.used_bytes, stats.peak_bytes, stats.limit_bytes), (1024, 1024, 1024));
    }

    #[test]
    fn dropping_a_buffer_queues_it_without_a_driver_call() {
        let pool = pool(0);
        let stream = StreamHandle::new(std::ptr::null_mut());
        let buffer = Buffer::<f32>::new(4096, 3, pool.charge(12).expect("no limit"), &pool, &stream);
        assert_eq!((buffer.len(), buffer.size_bytes(), buffer.ptr_at(3).raw), (3, 12, 4108));
        std::thread::spawn(move || drop(buffer)).join().expect("the drop does not panic");
        assert_eq!(pool.freed.lock().expect("not poisoned").len(), 1);
        drop(Buffer::<u8>::empty());
        assert_eq!(pool.freed.lock().expect("not poisoned").len(), 1);
    }
}
