//! The primary context of a device.

use cudarc::driver::sys::{self, CUresult};

use super::driver::ok;

/// The primary context of a device; released when dropped.
pub(super) struct Context {
    device: sys::CUdevice,
    handle: usize,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `Context::retain`, released once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl Context {
    pub(super) fn retain(device: sys::CUdevice) -> Result<Self, CUresult> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; `device` came from the driver.
        ok(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device) })?;
        Ok(Self { device, handle: handle as usize })
    }

    pub(super) fn bind(&self) -> CUresult {
        // SAFETY: the context is retained while `self` lives.
        unsafe { sys::cuCtxSetCurrent(self.handle as sys::CUcontext) }
    }
}
