//! Asynchronous read-back of one small value, for loops whose host side checks for convergence every few iterations.

use std::{ptr::NonNull, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{device::Device, driver::event, memory::Buffer, stream::Stream};
use crate::OpError;

/// Pinned memory for one value, and the event after the copy into it.
#[derive(Debug)]
pub struct AsyncReadback<T: Pod> {
    device: Arc<Device>,
    stream: sys::CUstream,
    place: NonNull<T>,
    event: sys::CUevent,
    waiting: bool,
}

impl<T: Pod> AsyncReadback<T> {
    /// A read-back on `stream`.
    pub(super) fn new(stream: &Stream) -> Result<Self, OpError> {
        const { assert!(size_of::<T>() > 0) };
        let device = Arc::clone(stream.device());
        device.enter()?;
        let event = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(|e| device.error("event", e))?;
        let mut place = std::ptr::null_mut();
        // SAFETY: writes one address. Pinned memory begins on a page, so it is aligned for any type.
        device.check("readback", unsafe { sys::cuMemHostAlloc(&raw mut place, size_of::<T>(), 0) })?;
        let place = NonNull::new(place.cast()).ok_or_else(|| device.failed("readback", "no memory"))?;
        Ok(Self { device, stream: stream.raw(), place, event, waiting: false })
    }

    /// Starts to copy the first value of `from`, after the work on the stream. Waits for, and discards, an earlier value that
    /// no caller waited for.
    pub fn start(&mut self, from: &Buffer<T>) -> Result<(), OpError> {
        self.wait()?;
        if from.is_empty() {
            return Err(self.device.failed("readback", "an empty buffer"));
        }
        let place = self.place.as_ptr().cast();
        // SAFETY: the buffer holds a value, the pinned memory has room for one, and no copy is under way.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(place, from.ptr().raw, size_of::<T>(), self.stream) };
        self.device.check("readback", copied)?;
        // SAFETY: event and stream are alive and of one context.
        self.device.check("readback", unsafe { sys::cuEventRecord(self.event, self.stream) })?;
        self.waiting = true;
        Ok(())
    }

    /// Waits for the value of the last [`Self::start`]; `None` where it was taken already.
    pub fn wait(&mut self) -> Result<Option<T>, OpError> {
        self.device.enter()?;
        if !self.waiting {
            return Ok(None);
        }
        // SAFETY: the event is alive.
        self.device.check("readback", unsafe { sys::cuEventSynchronize(self.event) })?;
        self.waiting = false;
        // SAFETY: the copy has happened, and any bytes make a `Pod`.
        Ok(Some(unsafe { self.place.as_ptr().read() }))
    }
}

impl<T: Pod> Drop for AsyncReadback<T> {
    fn drop(&mut self) {
        // On a lost device the memory stays: a copy into it may still be under way.
        if self.wait().is_ok() {
            // SAFETY: made by `new`, freed once, and no copy uses them any more.
            unsafe {
                let _: CUresult = sys::cuMemFreeHost(self.place.as_ptr().cast());
                let _: CUresult = sys::cuEventDestroy_v2(self.event);
            }
        }
    }
}
