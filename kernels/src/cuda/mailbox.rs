//! A small value that the device posts while its stream runs on, for loops that decide on the host seldom.

use std::{ptr::NonNull, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{Device, memory::Buffer, stats::event, worker::Worker};
use crate::OpError;

/// Pinned memory for one value, and the event after the copy into it.
#[derive(Debug)]
pub struct Mailbox<T: Pod> {
    device: Arc<Device>,
    stream: sys::CUstream,
    place: NonNull<T>,
    event: sys::CUevent,
    waiting: bool,
}

impl<T: Pod> Mailbox<T> {
    /// An empty mailbox on the worker's stream.
    pub fn new(worker: &Worker) -> Result<Self, OpError> {
        const { assert!(size_of::<T>() > 0) };
        let device = Arc::clone(worker.device());
        device.enter()?;
        let event = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(|e| device.error("event", e))?;
        let mut place = std::ptr::null_mut();
        // SAFETY: writes one address. Pinned memory begins on a page, so it is aligned for any type.
        device.check("mailbox", unsafe { sys::cuMemHostAlloc(&raw mut place, size_of::<T>(), 0) })?;
        let place = NonNull::new(place.cast()).ok_or_else(|| device.failed("mailbox", "no memory"))?;
        Ok(Self { device, stream: worker.stream(), place, event, waiting: false })
    }

    /// Has the first value of `from` posted, as it is when the stream comes to it.
    ///
    /// # Errors
    /// A value that was posted and not taken is lost, after it was waited for.
    pub fn post(&mut self, from: &Buffer<T>) -> Result<(), OpError> {
        self.take()?;
        if from.is_empty() {
            return Err(self.device.failed("mailbox", "an empty buffer"));
        }
        let place = self.place.as_ptr().cast();
        // SAFETY: the buffer holds a value, the pinned memory has room for one, and no copy is under way.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(place, from.ptr().raw, size_of::<T>(), self.stream) };
        self.device.check("mailbox", copied)?;
        // SAFETY: event and stream are alive and of one context.
        self.device.check("mailbox", unsafe { sys::cuEventRecord(self.event, self.stream) })?;
        self.waiting = true;
        Ok(())
    }

    /// Waits for what was posted last; `None` where nothing was posted since.
    pub fn take(&mut self) -> Result<Option<T>, OpError> {
        self.device.enter()?;
        if !self.waiting {
            return Ok(None);
        }
        // SAFETY: the event is alive.
        self.device.check("mailbox", unsafe { sys::cuEventSynchronize(self.event) })?;
        self.waiting = false;
        // SAFETY: the copy has happened, and any bytes make a `Pod`.
        Ok(Some(unsafe { self.place.as_ptr().read() }))
    }
}

impl<T: Pod> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // On a lost device the memory stays: a copy into it may still be under way.
        if self.take().is_ok() {
            // SAFETY: made by `new`, given back once, and no copy uses them any more.
            unsafe {
                let _: CUresult = sys::cuMemFreeHost(self.place.as_ptr().cast());
                let _: CUresult = sys::cuEventDestroy_v2(self.event);
            }
        }
    }
}
