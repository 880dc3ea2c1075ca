//! Device memory: buffers, the pool they come from, and how they go back to it.

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

/// The driver hands memory out in such steps, so they are what is counted.
const STEP: u64 = 512;

/// An address in device memory, for kernels. Plain data: it keeps nothing alive.
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
    /// Points nowhere; kernels test for it.
    pub const NULL: Self = Self::from_raw(0);

    pub(super) const fn from_raw(raw: u64) -> Self {
        Self { raw, of: PhantomData }
    }

    /// The address as a number, for structs that are passed by value.
    pub const fn address(self) -> u64 {
        self.raw
    }

    /// The same address, read as another type.
    pub const fn cast<U>(self) -> DevicePtr<U> {
        DevicePtr::from_raw(self.raw)
    }
}

/// Memory of a GPU. Dropping one calls no driver: it is queued, and a worker of the device frees it in stream order
/// when it next allocates, waits or idles.
///
/// A buffer is written and read in the order of the stream that it was allocated on. Who shares one between workers
/// must wait for its content (`Worker::synchronize`) before another worker sees it, and must drop his share only after
/// his own stream has been waited for.
pub struct Buffer<T> {
    raw: u64,
    len: usize,
    owner: Option<Owner>,
    of: PhantomData<fn() -> T>,
}

/// Where a buffer came from.
struct Owner {
    pool: Arc<Pool>,
    stream: Arc<Stream>,
    bytes: u64,
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("address", &self.raw).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Buffer<T> {
    /// A buffer of no elements.
    pub const fn empty() -> Self {
        Self { raw: 0, len: 0, owner: None, of: PhantomData }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Where it starts.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.raw)
    }

    /// Where element `at` lies; one past the end is allowed.
    ///
    /// # Panics
    /// Where `at` is beyond that.
    pub fn ptr_at(&self, at: usize) -> DevicePtr<T> {
        assert!(at <= self.len, "element {at} of a buffer of {}", self.len);
        DevicePtr::from_raw(self.raw + (at * size_of::<T>()) as u64)
    }
}

impl<T: Pod> Buffer<T> {
    /// Takes memory that was allocated on `stream` and is counted in `pool`.
    pub(super) fn new(raw: u64, len: usize, bytes: u64, pool: &Arc<Pool>, stream: &Arc<Stream>) -> Self {
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

/// A worker's stream, as far as others know it: buffers that outlive the worker ask whether it is still there.
pub(super) struct Stream {
    /// The handle, as a number so that it may be shared; 0 once the worker is gone.
    handle: Mutex<usize>,
}

impl Stream {
    pub(super) fn new(handle: sys::CUstream) -> Arc<Self> {
        Arc::new(Self { handle: Mutex::new(handle as usize) })
    }

    /// Takes the handle away, after which nothing is freed on it any more.
    pub(super) fn close(&self) -> sys::CUstream {
        mem::take(&mut *self.handle.lock().unwrap_or_else(PoisonError::into_inner)) as sys::CUstream
    }
}

/// Memory to be freed in the order of the stream it was allocated on.
struct Freed {
    raw: u64,
    bytes: u64,
    stream: Arc<Stream>,
}

impl Freed {
    /// Frees in the order of its own stream, or of `other` where that is gone (it was waited for before it went).
    fn free(&self, other: sys::CUstream) -> CUresult {
        let handle = self.stream.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = if *handle == 0 { other } else { *handle as sys::CUstream };
        // SAFETY: allocated by the driver and freed once, since a buffer queues itself once; the lock keeps the stream
        // alive during the call. Work on the buffer is ahead of this on its stream, or was waited for.
        unsafe { sys::cuMemFreeAsync(self.raw, stream) }
    }
}

/// The memory pool of a device, with our own count of what is handed out.
pub(super) struct Pool {
    handle: usize,
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    reserved: AtomicU64,
    freed: Mutex<Vec<Freed>>,
}

impl Pool {
    /// A pool on a device whose context is current. It keeps what was freed instead of giving it back to the driver.
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
        // No stream is to wait for another one's work only because that one has freed what fits.
        let (mut never, waits) = (0_i32, sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
        // SAFETY: this attribute is an int, read during the call.
        ok(unsafe { sys::cuMemPoolSetAttribute(handle, waits, (&raw mut never).cast()) })?;
        let [used, peak, allocations, reserved] = <[AtomicU64; 4]>::default();
        Ok(Self { handle: handle as usize, limit, used, peak, allocations, reserved, freed: Mutex::default() })
    }

    fn handle(&self) -> sys::CUmemoryPool {
        self.handle as sys::CUmemoryPool
    }

    /// Counts `bytes` as handed out, if the limit allows; says how many were counted.
    pub(super) fn count(&self, bytes: u64) -> Option<u64> {
        let counted = bytes.checked_next_multiple_of(STEP)?;
        let add = |used: u64| used.checked_add(counted).filter(|total| self.limit == 0 || *total <= self.limit);
        let before = self.used.fetch_update(Relaxed, Relaxed, add).ok()?;
        self.peak.fetch_max(before + counted, Relaxed);
        Some(counted)
    }

    /// Bytes that could still be handed out where the driver has `on_device` free.
    pub(super) fn free(&self, on_device: u64) -> u64 {
        let used = self.used.load(Relaxed);
        let unused = self.reserved.load(Relaxed).saturating_sub(used);
        let most = if self.limit == 0 { u64::MAX } else { self.limit.saturating_sub(used) };
        most.min(on_device.saturating_add(unused))
    }

    /// Takes back what [`Self::count`] counted.
    pub(super) fn discount(&self, counted: u64) {
        self.used.fetch_sub(counted, Relaxed);
    }

    /// Allocates in stream order.
    pub(super) fn allocate(&self, bytes: u64, stream: sys::CUstream) -> Result<u64, CUresult> {
        let mut raw = 0;
        let size = usize::try_from(bytes).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: pool and stream are alive, and belong to the current context.
        ok(unsafe { sys::cuMemAllocFromPoolAsync(&raw mut raw, size, self.handle(), stream) })?;
        self.allocations.fetch_add(1, Relaxed);
        Ok(raw)
    }

    /// Frees what was dropped since; returns the first error.
    pub(super) fn free_dropped(&self, on: sys::CUstream) -> CUresult {
        let freed = mem::take(&mut *self.freed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut first = CUresult::CUDA_SUCCESS;
        for one in freed {
            let result = one.free(on);
            self.discount(one.bytes);
            first = if first == CUresult::CUDA_SUCCESS { result } else { first };
        }
        first
    }

    /// Gives what lies unused above `keep` bytes back to the driver.
    pub(super) fn trim(&self, keep: u64) {
        // SAFETY: the pool is alive. An error leaves the pool as it was.
        let _ = unsafe { sys::cuMemPoolTrimTo(self.handle(), usize::try_from(keep).unwrap_or(usize::MAX)) };
    }

    /// Asks the driver how much it has handed to the pool, and gives back what lies unused beyond the limit: fragments
    /// may make a pool larger than what is used of it. For threads whose context is the pool's.
    pub(super) fn look(&self) {
        let reserved = self.ask_reserved();
        if self.limit != 0 && reserved > self.limit {
            self.trim(self.limit);
        }
        self.reserved.store(reserved, Relaxed);
    }

    fn ask_reserved(&self) -> u64 {
        let mut value = 0_u64;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        // SAFETY: this attribute is a u64, written during the call.
        let _ = unsafe { sys::cuMemPoolGetAttribute(self.handle(), attribute, (&raw mut value).cast()) };
        value
    }

    /// The state of it, as its workers last saw it: this calls no driver.
    pub(super) fn stats(&self) -> PoolStats {
        PoolStats {
            used_bytes: self.used.load(Relaxed),
            reserved_bytes: self.reserved.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            limit_bytes: self.limit,
            allocations: self.allocations.load(Relaxed),
        }
    }

    /// Ends it. Memory still handed out stays valid until it is freed, or its context ends.
    pub(super) fn destroy(&self) {
        // SAFETY: called once, by the device that made the pool, when no worker is left to use it.
        let _ = unsafe { sys::cuMemPoolDestroy(self.handle()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(limit: u64) -> Arc<Pool> {
        let [used, peak, allocations, reserved] = <[AtomicU64; 4]>::default();
        Arc::new(Pool { handle: 0, limit, used, peak, allocations, reserved, freed: Mutex::default() })
    }

    #[test]
    fn the_limit_holds_and_what_was_taken_back_may_be_taken_again() {
        let pool = pool(1024);
        assert_eq!(pool.count(1), Some(512));
        assert_eq!(pool.count(513), None);
        assert_eq!(pool.count(512), Some(512));
        assert_eq!(pool.count(1), None);
        pool.discount(512);
        assert_eq!(pool.count(5), Some(512));
        assert_eq!(pool.count(u64::MAX), None);
        assert_eq!((pool.free(1 << 20), pool.free(0)), (0, 0));
        pool.discount(512);
        assert_eq!((pool.free(1 << 20), pool.free(100)), (512, 100), "by the limit, and by the device");
        assert_eq!(pool.count(512), Some(512));
        let stats = pool.stats();
        assert_eq!((stats.used_bytes, stats.peak_bytes, stats.limit_bytes), (1024, 1024, 1024));
    }

    #[test]
    fn a_dropped_buffer_is_queued_and_calls_no_driver() {
        let pool = pool(0);
        let stream = Stream::new(std::ptr::null_mut());
        let buffer = Buffer::<f32>::new(4096, 3, pool.count(12).expect("no limit"), &pool, &stream);
        assert_eq!((buffer.len(), buffer.size_bytes(), buffer.ptr_at(3).raw), (3, 12, 4108));
        std::thread::spawn(move || drop(buffer)).join().expect("the drop does not panic");
        assert_eq!(pool.freed.lock().expect("not poisoned").len(), 1);
        drop(Buffer::<u8>::empty());
        assert_eq!(pool.freed.lock().expect("not poisoned").len(), 1);
    }
}
