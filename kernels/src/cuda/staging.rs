//! Pinned host memory between callers' slices and the device: copies from it run at the full speed of the bus and beside
//! the host, where copies from pageable memory reach a fifth of it.

use std::{mem::MaybeUninit, ptr::NonNull};

use cudarc::driver::sys::{self, CUresult};

use super::{device::Device, stats::event};
use crate::OpError;

/// Uploads fill so many pieces in turn: one is packed while those before it are copied.
const UPLOAD_CHUNKS: usize = 4;
/// Downloads alternate between two: one is emptied while the next is filled.
const LANDING_CHUNKS: usize = 2;
/// A new upload starts here in a piece: copies from such addresses are fastest.
const ALIGN: usize = 256;
/// Room below which an upload starts a fresh piece.
const SCANT: usize = 64 << 10;
/// So much is packed before its copy starts, which then runs beside the packing of what follows.
const MOST_SPAN: usize = 512 << 10;
/// From a slice of this size on, so much of it: several threads pack that.
const WIDE_SPAN: usize = 4 << 20;
/// What a worker gets whose settings name no size.
const DEFAULT_BYTES: usize = 32 << 20;
/// The least a worker gets.
const LEAST_BYTES: usize = 1 << 20;

/// A worker's pinned memory: a ring for uploads, two pieces to land downloads in, and slots for single numbers.
pub(super) struct Staging {
    base: NonNull<u8>,
    upload: Ring,
    landing: [Piece; LANDING_CHUNKS],
    landing_bytes: usize,
}

/// Pinned bytes and the event after the last copy that used them.
struct Piece {
    start: usize,
    event: sys::CUevent,
    busy: bool,
}

struct Ring {
    pieces: Vec<Piece>,
    bytes: usize,
    current: usize,
    /// Bytes of the current piece that are taken.
    at: usize,
}

impl Staging {
    /// Pins memory of the device whose context is current.
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, OpError> {
        let bytes = if bytes == 0 { DEFAULT_BYTES } else { bytes.max(LEAST_BYTES) };
        let upload_bytes = (bytes / 2 / UPLOAD_CHUNKS).next_multiple_of(ALIGN);
        let landing_bytes = (bytes / 2 / LANDING_CHUNKS).next_multiple_of(ALIGN);
        let total = upload_bytes * UPLOAD_CHUNKS + landing_bytes * LANDING_CHUNKS;
        let mut base = std::ptr::null_mut();
        // SAFETY: writes one address. No flags: the memory is read by the host too, so it must be cached.
        device.check("pinned staging memory", unsafe { sys::cuMemHostAlloc(&raw mut base, total, 0) })?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| device.failed("pinned staging memory", "null"))?;
        let piece = |start| Piece::new(device, start);
        let pieces = (0..UPLOAD_CHUNKS).map(|i| piece(i * upload_bytes)).collect::<Result<_, _>>()?;
        let behind = UPLOAD_CHUNKS * upload_bytes;
        let landing = [piece(behind)?, piece(behind + landing_bytes)?];
        Ok(Self { base, upload: Ring { pieces, bytes: upload_bytes, current: 0, at: 0 }, landing, landing_bytes })
    }

    /// Says that everything on the stream has happened: all of it is free.
    pub(super) fn release(&mut self) {
        self.upload.pieces.iter_mut().chain(&mut self.landing).for_each(|piece| piece.busy = false);
        (self.upload.current, self.upload.at) = (0, 0);
    }

    /// Copies the bytes of `parts`, one after the other, to device memory from `to` on, through the ring. They must not
    /// be more than `room`; returns how many they are.
    pub(super) fn upload<'a>(
        &mut self,
        device: &Device,
        stream: sys::CUstream,
        parts: impl Iterator<Item = &'a [u8]>,
        to: u64,
        room: usize,
    ) -> Result<usize, OpError> {
        let (mut sent, mut span) = (0, self.span(device, MOST_SPAN)?);
        for mut part in parts {
            if part.len() > room - sent - span.filled {
                let reason = format!("more than the {room} bytes that the buffer has room for");
                return Err(device.failed("upload", &reason));
            }
            while !part.is_empty() {
                if span.filled == span.room {
                    sent += self.send(device, stream, &span, to + sent as u64)?;
                    span = self.span(device, if part.len() < WIDE_SPAN { MOST_SPAN } else { WIDE_SPAN })?;
                }
                let (now, later) = part.split_at(part.len().min(span.room - span.filled));
                // SAFETY: the span is free pinned memory of this staging, which no copy uses and nobody else sees.
                let into = unsafe {
                    let start = self.base.as_ptr().add(span.start + span.filled).cast::<MaybeUninit<u8>>();
                    std::slice::from_raw_parts_mut(start, now.len())
                };
                device.copiers().copy(now, into);
                span.filled += now.len();
                part = later;
            }
        }
        Ok(sent + self.send(device, stream, &span, to + sent as u64)?)
    }

    /// What is left of the current piece, or the next one once the copies from it have happened; `most` at most.
    fn span(&mut self, device: &Device, most: usize) -> Result<Span, OpError> {
        let ring = &mut self.upload;
        if ring.bytes - ring.at < SCANT {
            ring.current = (ring.current + 1) % ring.pieces.len();
            ring.at = 0;
            ring.pieces[ring.current].wait(device)?;
        }
        let room = (ring.bytes - ring.at).min(most);
        Ok(Span { start: ring.pieces[ring.current].start + ring.at, room, filled: 0 })
    }

    /// Starts the copy of a filled span.
    fn send(&mut self, device: &Device, stream: sys::CUstream, span: &Span, to: u64) -> Result<usize, OpError> {
        if span.filled == 0 {
            return Ok(0);
        }
        // SAFETY: the span lies in the pinned memory, and is not written again before the event below has happened;
        // the caller has room for it at `to`.
        let result = unsafe {
            let from = self.base.as_ptr().add(span.start).cast();
            sys::cuMemcpyHtoDAsync_v2(to, from, span.filled, stream)
        };
        device.check("upload", result)?;
        let ring = &mut self.upload;
        ring.at = (ring.at + span.filled).next_multiple_of(ALIGN).min(ring.bytes);
        ring.pieces[ring.current].mark(device, stream)?;
        Ok(span.filled)
    }

    /// Copies device memory from `from` on into `out`, and waits for it.
    pub(super) fn download(
        &mut self,
        device: &Device,
        stream: sys::CUstream,
        from: u64,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), OpError> {
        let size = self.landing_bytes;
        let mut at = from;
        let mut coming = out.chunks(size).map(<[_]>::len).collect::<Vec<_>>().into_iter().enumerate();
        let mut land = |this: &mut Self| -> Result<(), OpError> {
            let Some((turn, len)) = coming.next() else { return Ok(()) };
            let piece = &mut this.landing[turn % LANDING_CHUNKS];
            // SAFETY: the piece lies in the pinned memory and has been emptied; the caller owns `len` bytes at `at`.
            let result = unsafe {
                let into = this.base.as_ptr().add(piece.start).cast();
                sys::cuMemcpyDtoHAsync_v2(into, at, len, stream)
            };
            at += len as u64;
            device.check("download", result)?;
            piece.mark(device, stream)
        };
        land(self)?;
        for (turn, out) in out.chunks_mut(size).enumerate() {
            land(self)?;
            let piece = &mut self.landing[turn % LANDING_CHUNKS];
            piece.wait(device)?;
            // SAFETY: the copy into the piece has happened, and the next one into it starts after this borrow ends.
            let landed = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(piece.start), out.len()) };
            device.copiers().copy(landed, out);
        }
        Ok(())
    }

    /// Unpins the memory; the stream has been waited for.
    pub(super) fn destroy(&mut self) {
        for piece in self.upload.pieces.drain(..) {
            piece.destroy();
        }
        for piece in &self.landing {
            piece.destroy();
        }
        // SAFETY: pinned by `new`, freed once, and no copy uses it any more.
        let _ = unsafe { sys::cuMemFreeHost(self.base.as_ptr().cast()) };
    }
}

/// Free bytes of the ring, some of them filled.
struct Span {
    start: usize,
    room: usize,
    filled: usize,
}

impl Piece {
    fn new(device: &Device, start: usize) -> Result<Self, OpError> {
        let event = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(|e| device.error("event", e))?;
        Ok(Self { start, event, busy: false })
    }

    /// Says that a copy which uses the piece has just been put on the stream.
    fn mark(&mut self, device: &Device, stream: sys::CUstream) -> Result<(), OpError> {
        // SAFETY: event and stream are alive and of one context.
        device.check("event", unsafe { sys::cuEventRecord(self.event, stream) })?;
        self.busy = true;
        Ok(())
    }

    /// Waits until the copies that use the piece have happened.
    fn wait(&mut self, device: &Device) -> Result<(), OpError> {
        if self.busy {
            // SAFETY: the event is alive.
            device.check("copy", unsafe { sys::cuEventSynchronize(self.event) })?;
            self.busy = false;
        }
        Ok(())
    }

    fn destroy(&self) {
        // SAFETY: made by `new` and destroyed once.
        let _: CUresult = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}
