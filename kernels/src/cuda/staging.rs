//! Pinned staging memory between callers' slices and the device. Its copies are asynchronous and run at full bus
//! bandwidth; copies from pageable memory reach a fifth of it.

use std::{mem::MaybeUninit, ptr::NonNull};

use accelerd_ledger::Reservation;
use cudarc::driver::sys::{self, CUresult};

use super::{device::Device, driver::event};
use crate::OpError;

/// Chunks of the upload ring: one is packed while the preceding ones are copied.
const UPLOAD_CHUNKS: usize = 4;
/// Download chunks, double-buffered: one is emptied while the next is filled.
const DOWNLOAD_CHUNKS: usize = 2;
/// Alignment of uploads in a chunk, at which copies are fastest.
const ALIGN: usize = 256;
/// An upload starts a new chunk if the current one has less free space than this.
const MIN_REMAINING: usize = 64 << 10;
/// Bytes packed per copy, which overlaps with the packing of the next span.
const SPAN_BYTES: usize = 512 << 10;
/// Span size for slices of at least this size, which several threads pack.
const LARGE_SPAN_BYTES: usize = 4 << 20;
/// Default size of a worker's staging memory.
const DEFAULT_BYTES: usize = 32 << 20;
/// Minimum size.
const MIN_BYTES: usize = 1 << 20;

/// A worker's staging memory: a ring of chunks for uploads and two chunks for downloads.
pub(super) struct Staging {
    base: NonNull<u8>,
    upload: Ring,
    download_chunks: [Chunk; DOWNLOAD_CHUNKS],
    download_bytes: usize,
    _reserved: Reservation,
}

/// Pinned bytes and the event after the last copy that used them.
struct Chunk {
    start: usize,
    event: sys::CUevent,
    busy: bool,
}

struct Ring {
    chunks: Vec<Chunk>,
    bytes: usize,
    current: usize,
    /// Bytes in use in the current chunk.
    at: usize,
}

impl Staging {
    /// Pins memory of the device whose context is current.
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, OpError> {
        let bytes = if bytes == 0 { DEFAULT_BYTES } else { bytes.max(MIN_BYTES) };
        let upload_bytes = (bytes / 2 / UPLOAD_CHUNKS).next_multiple_of(ALIGN);
        let download_bytes = (bytes / 2 / DOWNLOAD_CHUNKS).next_multiple_of(ALIGN);
        let total = upload_bytes * UPLOAD_CHUNKS + download_bytes * DOWNLOAD_CHUNKS;
        let mut reserved = device.pinned().account().empty();
        // The settings say how much, so it is never refused.
        reserved.record(total as u64);
        let mut base = std::ptr::null_mut();
        // SAFETY: writes one address. No flags: the host reads the memory too, so it is not write-combined.
        device.check("pinned staging memory", unsafe { sys::cuMemHostAlloc(&raw mut base, total, 0) })?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| device.failed("pinned staging memory", "null"))?;
        let chunk = |start| Chunk::new(device, start);
        let chunks = (0..UPLOAD_CHUNKS).map(|i| chunk(i * upload_bytes)).collect::<Result<_, _>>()?;
        let downloads_at = UPLOAD_CHUNKS * upload_bytes;
        let download_chunks = [chunk(downloads_at)?, chunk(downloads_at + download_bytes)?];
        Ok(Self {
            base,
            upload: Ring { chunks, bytes: upload_bytes, current: 0, at: 0 },
            download_chunks,
            download_bytes,
            _reserved: reserved,
        })
    }

    /// Marks all of it free, after the stream was synchronised.
    pub(super) fn release(&mut self) {
        self.upload.chunks.iter_mut().chain(&mut self.download_chunks).for_each(|chunk| chunk.busy = false);
        (self.upload.current, self.upload.at) = (0, 0);
    }

    /// Concatenates `parts` into device memory starting at `to`, through the ring. Fails if they exceed `capacity` bytes;
    /// returns their total size.
    pub(super) fn upload<'a>(
        &mut self,
        device: &Device,
        stream: sys::CUstream,
        parts: impl Iterator<Item = &'a [u8]>,
        to: u64,
        capacity: usize,
    ) -> Result<usize, OpError> {
        let mut sent = 0;
        let mut span = self.span(device, SPAN_BYTES)?;
        for mut part in parts {
            if part.len() > capacity - sent - span.filled {
                let reason = format!("exceeds the buffer's capacity of {capacity} bytes");
                return Err(device.failed("upload", &reason));
            }
            while !part.is_empty() {
                if span.filled == span.capacity {
                    sent += self.send(device, stream, &span, to + sent as u64)?;
                    span =
                        self.span(device, if part.len() < LARGE_SPAN_BYTES { SPAN_BYTES } else { LARGE_SPAN_BYTES })?;
                }
                let (now, later) = part.split_at(part.len().min(span.capacity - span.filled));
                // SAFETY: the span is free pinned memory of this ring, which no copy uses and nothing else borrows.
                let into = unsafe {
                    let start = self.base.as_ptr().add(span.start + span.filled).cast::<MaybeUninit<u8>>();
                    std::slice::from_raw_parts_mut(start, now.len())
                };
                device.memcpy_pool().copy(now, into);
                span.filled += now.len();
                part = later;
            }
        }
        Ok(sent + self.send(device, stream, &span, to + sent as u64)?)
    }

    /// The rest of the current chunk, or the next chunk once its copies are done; at most `limit` bytes.
    fn span(&mut self, device: &Device, limit: usize) -> Result<Span, OpError> {
        let ring = &mut self.upload;
        if ring.bytes - ring.at < MIN_REMAINING {
            ring.current = (ring.current + 1) % ring.chunks.len();
            ring.at = 0;
            ring.chunks[ring.current].wait(device)?;
        }
        let capacity = (ring.bytes - ring.at).min(limit);
        Ok(Span { start: ring.chunks[ring.current].start + ring.at, capacity, filled: 0 })
    }

    /// Starts the copy of a filled span.
    fn send(&mut self, device: &Device, stream: sys::CUstream, span: &Span, to: u64) -> Result<usize, OpError> {
        if span.filled == 0 {
            return Ok(0);
        }
        // SAFETY: the span lies in the pinned memory, and is not written again before the event below completes; the
        // caller checked the capacity at `to`.
        let result = unsafe {
            let from = self.base.as_ptr().add(span.start).cast();
            sys::cuMemcpyHtoDAsync_v2(to, from, span.filled, stream)
        };
        device.check("upload", result)?;
        let ring = &mut self.upload;
        ring.at = (ring.at + span.filled).next_multiple_of(ALIGN).min(ring.bytes);
        ring.chunks[ring.current].record(device, stream)?;
        Ok(span.filled)
    }

    /// Copies device memory starting at `from` into `out`, and waits for it.
    pub(super) fn download(
        &mut self,
        device: &Device,
        stream: sys::CUstream,
        from: u64,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), OpError> {
        let size = self.download_bytes;
        let mut offset = from;
        let mut lengths = out.chunks(size).map(<[_]>::len).collect::<Vec<_>>().into_iter().enumerate();
        let mut start_next = |this: &mut Self| -> Result<(), OpError> {
            let Some((index, len)) = lengths.next() else { return Ok(()) };
            let chunk = &mut this.download_chunks[index % DOWNLOAD_CHUNKS];
            // SAFETY: the chunk lies in the pinned memory and has been emptied; the caller owns `len` bytes at `offset`.
            let result = unsafe {
                let into = this.base.as_ptr().add(chunk.start).cast();
                sys::cuMemcpyDtoHAsync_v2(into, offset, len, stream)
            };
            offset += len as u64;
            device.check("download", result)?;
            chunk.record(device, stream)
        };
        start_next(self)?;
        for (index, out) in out.chunks_mut(size).enumerate() {
            start_next(self)?;
            let chunk = &mut self.download_chunks[index % DOWNLOAD_CHUNKS];
            chunk.wait(device)?;
            // SAFETY: the copy into the chunk is complete, and the next one into it starts after this borrow ends.
            let downloaded = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(chunk.start), out.len()) };
            device.memcpy_pool().copy(downloaded, out);
        }
        Ok(())
    }

    /// Unpins the memory; the stream was synchronised.
    pub(super) fn destroy(&mut self) {
        for chunk in self.upload.chunks.drain(..) {
            chunk.destroy();
        }
        for chunk in &self.download_chunks {
            chunk.destroy();
        }
        // SAFETY: pinned by `new` and freed once; all copies are complete.
        let _ = unsafe { sys::cuMemFreeHost(self.base.as_ptr().cast()) };
    }
}

/// A free range of the ring, partly filled.
struct Span {
    start: usize,
    capacity: usize,
    filled: usize,
}

impl Chunk {
    fn new(device: &Device, start: usize) -> Result<Self, OpError> {
        let event = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(|e| device.error("event", e))?;
        Ok(Self { start, event, busy: false })
    }

    /// Records the event after a copy just enqueued.
    fn record(&mut self, device: &Device, stream: sys::CUstream) -> Result<(), OpError> {
        // SAFETY: event and stream are alive and of the same context.
        device.check("event", unsafe { sys::cuEventRecord(self.event, stream) })?;
        self.busy = true;
        Ok(())
    }

    /// Waits for the copies that use the chunk.
    fn wait(&mut self, device: &Device) -> Result<(), OpError> {
        if self.busy {
            // SAFETY: the event is alive.
            device.check("copy", unsafe { sys::cuEventSynchronize(self.event) })?;
            self.busy = false;
        }
        Ok(())
    }

    fn destroy(&self) {
        // SAFETY: created by `new` and destroyed once.
        let _: CUresult = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}
