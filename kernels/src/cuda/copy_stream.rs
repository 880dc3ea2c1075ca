//! Copy streams: uploads and downloads through pinned blocks that overlap with kernels, instead of waiting in the
//! kernels' stream.

use std::{marker::PhantomData, mem::MaybeUninit, ops::Range, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::sys;

use super::{
    device::Device,
    driver::event,
    memcpy_pool::MemcpyPool,
    memory::Buffer,
    pinned::{ALIGN, PinnedBlock, PinnedPool},
    stream::Stream,
};
use crate::OpError;

/// Which stream of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The stream of kernels.
    Compute,
    /// The stream of uploads.
    Upload,
    /// The stream of downloads.
    Download,
}

/// A worker's copy streams, and the event that orders them with its compute stream.
pub(super) struct CopyStreams {
    uploads: sys::CUstream,
    downloads: sys::CUstream,
    event: sys::CUevent,
}

impl CopyStreams {
    pub(super) fn new(device: &Device) -> Result<Self, OpError> {
        let stream = || {
            let mut stream = std::ptr::null_mut();
            // SAFETY: writes one handle.
            let made =
                unsafe { sys::cuStreamCreate(&raw mut stream, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) };
            device.check("stream", made).map(|()| stream)
        };
        Ok(Self { uploads: stream()?, downloads: stream()?, event: untimed(device)? })
    }

    /// Waits for both streams and destroys them; the context is current.
    pub(super) fn destroy(&self) {
        for stream in [self.uploads, self.downloads] {
            // SAFETY: made by `new`, waited for, and destroyed once.
            unsafe {
                let _ = sys::cuStreamSynchronize(stream);
                let _ = sys::cuStreamDestroy_v2(stream);
            }
        }
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}

fn untimed(device: &Device) -> Result<sys::CUevent, OpError> {
    event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(|e| device.error("event", e))
}

impl CopyStreams {
    fn raw(&self, compute: &Stream, kind: StreamKind) -> sys::CUstream {
        match kind {
            StreamKind::Compute => compute.raw(),
            StreamKind::Upload => self.uploads,
            StreamKind::Download => self.downloads,
        }
    }

    /// The stream for uploads.
    pub(super) fn upload_stream(&self) -> sys::CUstream {
        self.uploads
    }

    /// Makes work enqueued on `later` from now on wait for the work on `first`.
    pub(super) fn wait(&self, compute: &Stream, first: StreamKind, later: StreamKind) -> Result<(), OpError> {
        let device = compute.device();
        device.enter()?;
        let first = self.raw(compute, first);
        let later = self.raw(compute, later);
        let event = self.event;
        // SAFETY: streams and event are alive and of one context. The wait is for the event as recorded here, however
        // often it is recorded again.
        let (recorded, waiting) =
            unsafe { (sys::cuEventRecord(event, first), sys::cuStreamWaitEvent(later, event, 0)) };
        device.check("wait", recorded).and(device.check("wait", waiting))
    }

    /// See `Worker::upload_async`.
    pub(super) fn upload(
        &self,
        compute: &Stream,
        block: PinnedBlock,
        plan: &UploadPlan,
    ) -> Result<PendingUpload, OpError> {
        let device = compute.device();
        device.enter()?;
        let sent = InFlight::new(device, block)?;
        let inside = plan.parts.iter().all(|&(_, offset, bytes)| offset + bytes <= sent.block.size());
        assert!(inside, "the regions of an upload are in its block");
        let copy = |&(to, offset, bytes): &(u64, usize, usize)| {
            // SAFETY: the block has that many bytes there and is kept until they are copied; `UploadPlan::add` checked
            // that the buffer has as many.
            let result =
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, sent.block.base().add(offset).cast(), bytes, self.uploads) };
            device.check("upload", result)
        };
        let copied = plan.parts.iter().try_for_each(copy);
        sent.last.record(self.uploads)?;
        copied?;
        self.wait(compute, StreamKind::Upload, StreamKind::Compute)?;
        Ok(PendingUpload(sent))
    }

    /// See `Worker::download_async`.
    pub(super) fn download(
        &self,
        compute: &Stream,
        plan: &DownloadPlan,
        into: &mut PendingDownload,
        on: StreamKind,
    ) -> Result<(), OpError> {
        let device = compute.device();
        let stream = self.raw(compute, on);
        device.enter()?;
        let room = into.0.block.bytes_mut();
        let copied = plan.parts.iter().try_for_each(|&(from, offset, bytes)| {
            let to = room[offset..offset + bytes].as_mut_ptr();
            // SAFETY: `DownloadPlan::add` checked that the buffer has that many bytes. The block has room for them, and
            // is neither read nor returned before the copies are done: the event is recorded after them.
            device.check("download", unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream) })
        });
        into.0.last.record(stream)?;
        copied
    }

    /// An event after the work that is on the stream now.
    pub(super) fn record_event(&self, compute: &Stream, on: StreamKind) -> Result<Event, OpError> {
        let event = Event::new(compute.device())?;
        event.record(self.raw(compute, on))?;
        Ok(event)
    }
}

/// Regions of a block, and the buffers they are copied to.
#[derive(Debug, Default)]
pub(crate) struct UploadPlan {
    parts: Vec<(u64, usize, usize)>,
}

impl UploadPlan {
    /// Adds a copy of a region to a whole buffer.
    ///
    /// # Panics
    /// Where their sizes differ.
    pub(crate) fn add<T: Pod>(&mut self, to: &Buffer<T>, from: Region<T>) {
        assert_eq!(to.len(), from.len, "the region has the size of the buffer");
        self.parts.push((to.ptr().address(), from.at, to.size_bytes()));
    }
}

/// Ranges of buffers, and the regions of a block they are copied to.
#[derive(Debug, Default)]
pub(crate) struct DownloadPlan {
    parts: Vec<(u64, usize, usize)>,
}

impl DownloadPlan {
    /// Adds a copy of the elements from `offset` on.
    ///
    /// # Panics
    /// Where the buffer has too few.
    pub(crate) fn add<T: Pod>(&mut self, from: &Buffer<T>, offset: usize, to: Region<T>) {
        assert!(offset + to.len <= from.len(), "{} from {offset} of a buffer of {}", to.len, from.len());
        if to.len > 0 {
            self.parts.push((from.ptr_at(offset).address(), to.at, to.len * size_of::<T>()));
        }
    }
}

/// Lays out regions of several types in one block.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    bytes: usize,
}

/// A typed range of a block.
#[derive(Debug)]
pub(crate) struct Region<T> {
    at: usize,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Region<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Region<T> {}

impl Layout {
    /// Appends a region of `len` elements.
    pub(crate) fn add<T: Pod>(&mut self, len: usize) -> Region<T> {
        let offset = self.bytes;
        self.bytes += (len * size_of::<T>()).next_multiple_of(ALIGN);
        Region { at: offset, len, of: PhantomData }
    }

    /// Size of the block in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A CUDA event, recorded on a stream.
#[derive(Debug)]
pub(crate) struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

impl Event {
    fn new(device: &Arc<Device>) -> Result<Self, OpError> {
        Ok(Self { event: untimed(device)?, device: Arc::clone(device) })
    }

    /// Records it after the work that is on the stream now.
    fn record(&self, stream: sys::CUstream) -> Result<(), OpError> {
        // SAFETY: event and stream are alive and of one context.
        self.device.check("event", unsafe { sys::cuEventRecord(self.event, stream) })
    }

    /// Waits for it; returns at once if it was never recorded.
    pub(crate) fn wait(&self) -> Result<(), OpError> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check("copy", unsafe { sys::cuEventSynchronize(self.event) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}

/// A block in use by copies of one stream, and the event after the last of them.
#[derive(Debug)]
struct InFlight {
    block: PinnedBlock,
    last: Event,
}

impl InFlight {
    fn new(device: &Arc<Device>, block: PinnedBlock) -> Result<Self, OpError> {
        Ok(Self { block, last: Event::new(device)? })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // A lost device copies no more.
        let _ = self.last.wait();
    }
}

/// An upload in flight; dropping it waits until the block may be reused.
#[derive(Debug)]
#[must_use = "dropping it waits for the copy"]
pub(crate) struct PendingUpload(#[expect(dead_code, reason = "waits when dropped")] InFlight);

/// A block that downloads are written to; dropping it waits for them.
#[derive(Debug)]
#[must_use = "dropping it waits for the copies"]
pub(crate) struct PendingDownload(InFlight);

impl PendingDownload {
    /// A block that no copy goes to yet.
    pub(super) fn new(device: &Arc<Device>, block: PinnedBlock) -> Result<Self, OpError> {
        Ok(Self(InFlight::new(device, block)?))
    }

    /// Copies host bytes to the given offsets, which no copy of the device writes.
    ///
    /// # Panics
    /// Where they overlap or exceed the block.
    pub(crate) fn write(&mut self, mut parts: Vec<(usize, &[u8])>, memcpy_pool: &MemcpyPool) {
        parts.retain(|part| !part.1.is_empty());
        parts.sort_unstable_by_key(|part| part.0);
        let mut room = self.0.block.bytes_mut();
        let mut before = 0;
        let mut jobs = Vec::with_capacity(parts.len());
        for (offset, bytes) in parts {
            let (own, rest) = room.split_at_mut(offset - before).1.split_at_mut(bytes.len());
            (room, before) = (rest, offset + bytes.len());
            jobs.push((bytes, own));
        }
        memcpy_pool.copy_all(jobs);
    }

    /// Waits for the copies.
    pub(crate) fn wait(mut self) -> Result<HostBuffer, OpError> {
        self.0.last.wait()?;
        Ok(HostBuffer(std::mem::replace(&mut self.0.block, PinnedBlock::none())))
    }
}

/// Downloaded data, by the regions of its layout.
#[derive(Debug)]
pub(crate) struct HostBuffer(PinnedBlock);

impl HostBuffer {
    /// A block of the pool with `len` elements, all of which `write` writes.
    pub(crate) fn written<T: Pod>(
        pool: &Arc<PinnedPool>,
        len: usize,
        write: impl FnOnce(&mut [MaybeUninit<T>]),
    ) -> (Self, Region<T>) {
        let place = Layout::default().add(len);
        let mut block = pool.take(len * size_of::<T>());
        let room = block.bytes_mut()[..len * size_of::<T>()].as_mut_ptr();
        // SAFETY: the block holds `len` elements, aligned; any bytes make a `Pod`.
        write(unsafe { std::slice::from_raw_parts_mut(room.cast(), len) });
        (Self(block), place)
    }

    /// The elements of a region.
    ///
    /// # Panics
    /// Where the region exceeds the block.
    pub(crate) fn get<T: Pod>(&self, Region { at: offset, len, .. }: Region<T>) -> &[T] {
        // SAFETY: the copies to the block are done. A place of another order names bytes that may not be written, but are
        // inside of the block; what pinned memory holds is some number.
        unsafe { self.0.part(offset, len) }
    }

    /// The elements of a region, mutably.
    pub(crate) fn get_mut<T: Pod>(&mut self, Region { at: offset, len, .. }: Region<T>) -> &mut [T] {
        // SAFETY: as above, and this is borrowed alone.
        unsafe { self.0.part_mut(offset, len) }
    }
}

impl<T> Region<T> {
    /// The byte range in the block.
    pub(crate) fn bytes(self) -> Range<usize> {
        self.at..self.at + self.len * size_of::<T>()
    }

    /// Number of elements.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns true if it is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Both regions as one, if `next` starts where this one ends.
    pub(crate) fn with_next(self, next: Self) -> Option<Self> {
        (self.at + self.len * size_of::<T>() == next.at).then_some(Self { len: self.len + next.len, ..self })
    }

    /// A subrange of the elements.
    ///
    /// # Panics
    /// Where it exceeds the region.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        Self { at: self.at + range.start * size_of::<T>(), len: range.len(), of: PhantomData }
    }
}
