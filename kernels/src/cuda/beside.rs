//! Copies beside the kernels: streams of their own for uploads and downloads, from and to pinned blocks.
//!
//! A copy on such a stream runs while kernels run, where one on the worker's own stream waits for them and they for it.

use std::{marker::PhantomData, mem::MaybeUninit, ops::Range, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::sys;

use super::{
    Device,
    copiers::Copiers,
    memory::Buffer,
    pinned::{ALIGN, Block, PinnedPool},
    stats::event,
    worker::Worker,
};
use crate::OpError;

/// Which stream of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The one that kernels run on: after what was launched before.
    Kernels,
    /// The one for uploads.
    Uploads,
    /// The one for downloads.
    Downloads,
}

/// A worker's streams for copies, and the events by which they wait for its kernels and these for them.
pub(super) struct Beside {
    uploads: sys::CUstream,
    downloads: sys::CUstream,
    event: sys::CUevent,
}

impl Beside {
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

    /// Waits for what is under way, and ends both; the context is current.
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

impl Worker {
    /// A block of pinned memory, with room for at least so many bytes.
    pub(crate) fn block(&self, bytes: usize) -> Result<Block, OpError> {
        self.device().enter()?;
        Ok(self.device().pinned().take(bytes))
    }

    fn stream_of(&self, on: On) -> Result<sys::CUstream, OpError> {
        Ok(match on {
            On::Kernels => self.stream(),
            On::Uploads => self.beside()?.uploads,
            On::Downloads => self.beside()?.downloads,
        })
    }

    /// What is put on `later` from now on happens after what is on `first` by now.
    pub(crate) fn after(&self, first: On, later: On) -> Result<(), OpError> {
        self.device().enter()?;
        let (first, later, event) = (self.stream_of(first)?, self.stream_of(later)?, self.beside()?.event);
        // SAFETY: streams and event are alive and of one context. The wait is for the event as recorded here, however
        // often it is recorded again.
        let (recorded, waiting) =
            unsafe { (sys::cuEventRecord(event, first), sys::cuStreamWaitEvent(later, event, 0)) };
        self.device().check("wait", recorded).and(self.device().check("wait", waiting))
    }

    /// Memory to upload to, at once, whatever the kernels do; they may use it as soon as it has been.
    pub(crate) fn alloc_for_upload<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        let buffer = self.alloc_on(len, self.stream_of(On::Uploads)?)?;
        // It is freed in the order of the kernels' stream, which so has it, too.
        self.after(On::Uploads, On::Kernels)?;
        Ok(buffer)
    }

    /// Copies out of `block`, as `parcel` says, on the stream for uploads; the kernels launched from now on see it. The
    /// buffers must be there for that stream: [`Self::alloc_for_upload`].
    ///
    /// # Panics
    /// Where a part is not in the block.
    pub(crate) fn send(&self, block: Block, parcel: &Parcel) -> Result<Sent, OpError> {
        let device = self.device();
        device.enter()?;
        let stream = self.stream_of(On::Uploads)?;
        let sent = Busy::new(device, block)?;
        let inside = parcel.parts.iter().all(|&(_, at, bytes)| at + bytes <= sent.block.size());
        assert!(inside, "the parcel is in the block");
        let copy = |&(to, at, bytes): &(u64, usize, usize)| {
            // SAFETY: the block has so many bytes there and is kept until they are copied; the buffer has as many, which
            // `Parcel::add` saw to.
            let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, sent.block.base().add(at).cast(), bytes, stream) };
            device.check("upload", result)
        };
        let copied = parcel.parts.iter().try_for_each(copy);
        sent.mark(stream)?;
        copied?;
        self.after(On::Uploads, On::Kernels)?;
        Ok(Sent(sent))
    }

    /// A block for what is to come.
    pub(crate) fn landing(&self, layout: &Layout) -> Result<Landing, OpError> {
        Ok(Landing(Busy::new(self.device(), self.block(layout.bytes)?)?))
    }

    /// Starts to copy what is ordered. On the stream for downloads that waits for no kernel: the caller has waited, and keeps
    /// the buffers until the copies are done.
    ///
    /// # Panics
    /// Where a place is not in the block.
    pub(crate) fn bring(&self, order: &Order, into: &mut Landing, on: On) -> Result<(), OpError> {
        let stream = self.stream_of(on)?;
        self.device().enter()?;
        let room = into.0.block.bytes_mut();
        let copied = order.parts.iter().try_for_each(|&(from, at, bytes)| {
            let to = room[at..at + bytes].as_mut_ptr();
            // SAFETY: the buffer owns so many bytes, which `Order::add` saw to, and the block has room for them, and is neither
            // read nor given away before the copies are done: the event is recorded behind them.
            self.device().check("download", unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream) })
        });
        into.0.mark(stream)?;
        copied
    }

    /// Says when what is on the stream by now has happened.
    pub(crate) fn mark(&self, on: On) -> Result<Mark, OpError> {
        let stream = self.stream_of(on)?;
        let mark = Mark::new(self.device())?;
        mark.record(stream)?;
        Ok(mark)
    }
}

/// Parts of a block, and the buffers that they are copied to.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    parts: Vec<(u64, usize, usize)>,
}

impl Parcel {
    /// Adds what is to be in a buffer.
    ///
    /// # Panics
    /// Where that has another size.
    pub(crate) fn add<T: Pod>(&mut self, to: &Buffer<T>, from: Place<T>) {
        assert_eq!(to.len(), from.len, "the place has the size of the buffer");
        self.parts.push((to.ptr().address(), from.at, to.size_bytes()));
    }
}

/// Parts of buffers, and where in a block they are copied to.
#[derive(Debug, Default)]
pub(crate) struct Order {
    parts: Vec<(u64, usize, usize)>,
}

impl Order {
    /// Adds numbers from element `at` of a buffer on.
    ///
    /// # Panics
    /// Where the buffer has fewer.
    pub(crate) fn add<T: Pod>(&mut self, from: &Buffer<T>, at: usize, to: Place<T>) {
        assert!(at + to.len <= from.len(), "{} from {at} of a buffer of {}", to.len, from.len());
        if to.len > 0 {
            self.parts.push((from.ptr_at(at).address(), to.at, to.len * size_of::<T>()));
        }
    }
}

/// Where numbers of several kinds lie in a block.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    bytes: usize,
}

/// Where numbers lie in what has come.
#[derive(Debug)]
pub(crate) struct Place<T> {
    at: usize,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl Layout {
    /// Room for so many numbers.
    pub(crate) fn add<T: Pod>(&mut self, len: usize) -> Place<T> {
        let at = self.bytes;
        self.bytes += (len * size_of::<T>()).next_multiple_of(ALIGN);
        Place { at, len, of: PhantomData }
    }

    /// The bytes that the block needs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An event behind something on a stream.
#[derive(Debug)]
pub(crate) struct Mark {
    device: Arc<Device>,
    event: sys::CUevent,
}

impl Mark {
    fn new(device: &Arc<Device>) -> Result<Self, OpError> {
        Ok(Self { event: untimed(device)?, device: Arc::clone(device) })
    }

    /// Moves it behind what is on the stream now.
    fn record(&self, stream: sys::CUstream) -> Result<(), OpError> {
        // SAFETY: event and stream are alive and of one context.
        self.device.check("event", unsafe { sys::cuEventRecord(self.event, stream) })
    }

    /// Waits for what is before it; for nothing where it was never recorded.
    pub(crate) fn wait(&self) -> Result<(), OpError> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check("copy", unsafe { sys::cuEventSynchronize(self.event) })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}

/// A block that copies use, and the mark behind the last of them. All are on one stream.
#[derive(Debug)]
struct Busy {
    block: Block,
    last: Mark,
}

impl Busy {
    fn new(device: &Arc<Device>, block: Block) -> Result<Self, OpError> {
        Ok(Self { block, last: Mark::new(device)? })
    }

    fn mark(&self, stream: sys::CUstream) -> Result<(), OpError> {
        self.last.record(stream)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // A device that is lost copies no more.
        let _ = self.last.wait();
    }
}

/// An upload under way; dropping it waits until the block may be used again.
#[derive(Debug)]
#[must_use = "dropping it waits for the copy"]
pub(crate) struct Sent(#[expect(dead_code, reason = "waits when dropped")] Busy);

/// A block that copies go into; dropping it waits for them.
#[derive(Debug)]
#[must_use = "dropping it waits for the copies"]
pub(crate) struct Landing(Busy);

impl Landing {
    /// Copies bytes to where each of them begins, which no copy of the device goes to.
    ///
    /// # Panics
    /// Where they are to overlap, or to be outside of the block.
    pub(crate) fn write(&mut self, mut parts: Vec<(usize, &[u8])>, copiers: &Copiers) {
        parts.retain(|part| !part.1.is_empty());
        parts.sort_unstable_by_key(|part| part.0);
        let (mut room, mut before) = (self.0.block.bytes_mut(), 0);
        let mut jobs = Vec::with_capacity(parts.len());
        for (at, bytes) in parts {
            let (own, rest) = room.split_at_mut(at - before).1.split_at_mut(bytes.len());
            (room, before) = (rest, at + bytes.len());
            jobs.push((bytes, own));
        }
        copiers.copy_all(jobs);
    }

    /// Waits until everything has come.
    pub(crate) fn wait(mut self) -> Result<Landed, OpError> {
        self.0.last.wait()?;
        Ok(Landed(std::mem::replace(&mut self.0.block, Block::none())))
    }
}

/// What has come, in the places of its layout.
#[derive(Debug)]
pub(crate) struct Landed(Block);

impl Landed {
    /// So many numbers in a block of the pool; `write` writes all of them.
    pub(crate) fn written<T: Pod>(
        pool: &Arc<PinnedPool>,
        len: usize,
        write: impl FnOnce(&mut [MaybeUninit<T>]),
    ) -> (Self, Place<T>) {
        let place = Layout::default().add(len);
        let mut block = pool.take(len * size_of::<T>());
        let room = block.bytes_mut()[..len * size_of::<T>()].as_mut_ptr();
        // SAFETY: room for so many, aligned as blocks are; any bytes make a `Pod`.
        write(unsafe { std::slice::from_raw_parts_mut(room.cast(), len) });
        (Self(block), place)
    }

    /// The numbers in a place.
    ///
    /// # Panics
    /// Where the place is of another, larger order.
    pub(crate) fn get<T: Pod>(&self, Place { at, len, .. }: Place<T>) -> &[T] {
        // SAFETY: the copies to the block are done. A place of another order names bytes that may not be written, but are
        // inside of the block; what pinned memory holds is some number.
        unsafe { self.0.part(at, len) }
    }

    /// The same, to be changed.
    pub(crate) fn get_mut<T: Pod>(&mut self, Place { at, len, .. }: Place<T>) -> &mut [T] {
        // SAFETY: as above, and this is borrowed alone.
        unsafe { self.0.part_mut(at, len) }
    }
}

impl<T> Place<T> {
    /// Its bytes in the block.
    pub(crate) fn bytes(self) -> Range<usize> {
        self.at..self.at + self.len * size_of::<T>()
    }

    /// How many numbers it has.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Both places as one, if `next` begins where this one ends.
    pub(crate) fn with_next(self, next: Self) -> Option<Self> {
        (self.at + self.len * size_of::<T>() == next.at).then_some(Self { len: self.len + next.len, ..self })
    }

    /// Some of its numbers.
    ///
    /// # Panics
    /// Where it has fewer.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        Self { at: self.at + range.start * size_of::<T>(), len: range.len(), of: PhantomData }
    }
}
