//! Measures the time that a device takes, by a pair of events on a stream.

use std::{sync::Arc, time::Duration};

use cudarc::driver::sys;

use super::{device::Device, driver, stream::Stream};
use crate::OpError;

/// A pair of events.
pub(super) struct Stopwatch {
    device: Arc<Device>,
    start: sys::CUevent,
    stop: sys::CUevent,
}

impl Stopwatch {
    fn new(device: &Arc<Device>) -> Result<Self, OpError> {
        let event = || {
            let event = driver::event(sys::CUevent_flags::CU_EVENT_DEFAULT);
            event.map_err(|failed| device.error("event", failed))
        };
        Ok(Self { device: Arc::clone(device), start: event()?, stop: event()? })
    }

    /// The time from the first launch of `launches` to the end of the last one, for which it waits.
    pub(super) fn time(stream: &Stream, launches: impl FnOnce() -> Result<(), OpError>) -> Result<Duration, OpError> {
        let device = stream.device();
        device.enter()?;
        let watch = Self::new(device)?;
        // SAFETY: event and stream are alive and of the current context.
        device.check("event", unsafe { sys::cuEventRecord(watch.start, stream.raw()) })?;
        launches()?;
        // SAFETY: as above.
        device.check("event", unsafe { sys::cuEventRecord(watch.stop, stream.raw()) })?;
        stream.synchronize()?;
        let ms = driver::elapsed_ms(watch.start, watch.stop)
            .ok_or_else(|| device.failed("event", "the driver does not tell times of events"))?;
        Ok(Duration::try_from_secs_f32(ms / 1e3).unwrap_or_default())
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            for event in [self.start, self.stop] {
                // SAFETY: created by `event`, destroyed once; the driver lets a recording in progress end first.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
        }
    }
}
