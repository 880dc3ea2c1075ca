//! A CUDA stream: launches, fills and allocations in its order. What works with one takes a `&Stream`; [`Worker`]
//! composes all of it.
//!
//! [`Worker`]: super::Worker

use std::{
    cell::{RefCell, RefMut},
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{
    device::{Device, record_launch},
    launch::{Args, Grid},
    memory::{Buffer, StreamHandle},
    module::Kernel,
    stats::{Function, Timers},
};
use crate::OpError;

/// After allocations of this size the pool is compared with its limit.
const LOOK_BYTES: u64 = 1 << 20;

/// A stream of one thread.
pub(super) struct Stream {
    device: Arc<Device>,
    raw: sys::CUstream,
    handle: Arc<StreamHandle>,
    timers: RefCell<Timers>,
    recording: RefCell<Option<Recording>>,
}

/// The stream that launches go to while they are captured, and their kernels.
pub(super) struct Recording {
    pub(super) stream: sys::CUstream,
    pub(super) functions: Vec<Arc<Function>>,
}

/// Whose blocks are scheduled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamPriority {
    Normal,
    High,
}

/// Why an allocation failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum AllocError {
    /// The pool's limit.
    Limit,
    /// The driver's error.
    Driver(CUresult),
}

/// The attribute of a programmatic dependent launch.
fn programmatic_launch() -> sys::CUlaunchAttribute {
    let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
    sys::CUlaunchAttribute { id, pad: [0; 4], value }
}

impl Stream {
    /// A stream on the device, whose context is current. The waiting blocks of a stream of high priority are scheduled before
    /// those of others; running blocks are not interrupted.
    pub(super) fn new(device: Arc<Device>, priority: StreamPriority) -> Result<Self, OpError> {
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: writes two numbers.
        let ranged = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut lowest, &raw mut highest) };
        device.check("stream", ranged)?;
        let level = match priority {
            StreamPriority::Normal => lowest,
            StreamPriority::High => highest,
        };
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle. The stream does not wait for the legacy default stream.
        let made = unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, flags, level) };
        device.check("stream", made)?;
        let (timers, recording) = Default::default();
        Ok(Self { device, raw, handle: StreamHandle::new(raw), timers, recording })
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// The capture in progress.
    pub(super) fn recording(&self) -> RefMut<'_, Option<Recording>> {
        self.recording.borrow_mut()
    }

    /// Where launches go: to the stream, or to the capture in progress.
    fn launch_target(&self) -> sys::CUstream {
        self.recording.borrow().as_ref().map_or(self.raw, |recording| recording.stream)
    }

    /// Memory for `len` elements, usable on `on` at once and freed in the order of this stream.
    pub(super) fn allocate<T: Pod>(&self, len: usize, on: sys::CUstream) -> Result<Buffer<T>, AllocError> {
        if len == 0 || size_of::<T>() == 0 {
            return Ok(Buffer::empty());
        }
        let pool = self.device.pool();
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let charged = pool.charge(bytes).ok_or(AllocError::Limit)?;
        let raw = pool.allocate(charged, on).map_err(|failed| {
            pool.uncharge(charged);
            AllocError::Driver(failed)
        })?;
        if charged >= LOOK_BYTES {
            pool.refresh();
        }
        Ok(Buffer::new(raw, len, charged, pool, &self.handle))
    }

    /// Sets all bytes to zero.
    pub(super) fn fill_zero<T: Pod>(&self, buffer: &Buffer<T>) -> Result<(), OpError> {
        self.device.enter()?;
        if buffer.is_empty() {
            return Ok(());
        }
        // SAFETY: the buffer owns this many bytes there.
        let result = unsafe { sys::cuMemsetD8Async(buffer.ptr().raw, 0, buffer.size_bytes(), self.launch_target()) };
        self.device.check("fill", result)
    }

    /// Waits until everything on the stream is done.
    pub(super) fn synchronize(&self) -> Result<(), OpError> {
        self.device.enter()?;
        self.device.check("synchronize", self.wait())?;
        self.timers.borrow_mut().collect();
        Ok(())
    }

    /// Waits; the context is current.
    pub(super) fn wait(&self) -> CUresult {
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamSynchronize(self.raw) }
    }

    /// Has its buffers freed on other streams from now on.
    pub(super) fn close(&self) {
        self.handle.close();
    }

    /// Destroys it; the context is current, and the stream was waited for.
    pub(super) fn destroy(&mut self) {
        // SAFETY: this worker's stream, destroyed once; nothing is freed on it any more.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.handle.close()) };
        self.timers.get_mut().destroy();
    }

    /// Launches a kernel. `pdl`: by programmatic dependent launch.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        pdl: bool,
        grid: Grid,
        block_threads: u32,
        shared_bytes: u32,
        args: &mut Args,
    ) -> Result<(), OpError> {
        self.device.enter()?;
        if let Some(mismatch) = args.mismatch(kernel) {
            return Err(self.device.failed(kernel.name, &mismatch));
        }
        if grid.is_empty() {
            return Ok(());
        }
        record_launch(kernel.name);
        let function = self.device.function(kernel)?;
        if shared_bytes > function.shared_bytes.load(Relaxed) {
            self.allow_shared(kernel, shared_bytes)?;
        }
        let stream = self.launch_target();
        let mut attributes = [programmatic_launch()];
        let config = sys::CUlaunchConfig {
            gridDimX: grid.x,
            gridDimY: grid.y,
            gridDimZ: grid.z,
            blockDimX: block_threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::from(pdl),
        };
        let mut addresses = args.addresses();
        let mut launch = || {
            // SAFETY: the arguments are alive, and as many and as large as the kernel declares; that declaration is
            // compared with the compiled code by a test. What the pointers point to is the caller's contract.
            unsafe {
                sys::cuLaunchKernelEx(
                    &raw const config,
                    function.handle(),
                    addresses.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        };
        let result = match &mut *self.recording() {
            Some(recording) => {
                recording.functions.push(Arc::clone(function));
                launch()
            }
            None => self.timers.borrow_mut().around(function, stream, launch),
        };
        self.device.check(kernel.name, result)
    }

    /// See `Worker::clusters`.
    pub(super) fn clusters(
        &self,
        kernel: &Kernel,
        cluster_blocks: u32,
        block_threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, OpError> {
        self.device.enter()?;
        let function = self.device.function(kernel)?;
        let known = function.clusters.load(Relaxed);
        if known > 0 {
            return Ok(known);
        }
        self.allow_shared(kernel, shared_bytes)?;
        let config = sys::CUlaunchConfig {
            gridDimX: cluster_blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: block_threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: self.launch_target(),
            attrs: std::ptr::null_mut(),
            numAttrs: 0,
        };
        let mut clusters = 0;
        // SAFETY: writes one int; the function is alive.
        let asked =
            unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut clusters, function.handle(), &raw const config) };
        self.device.check(kernel.name, asked)?;
        let clusters = u32::try_from(clusters).unwrap_or(0).max(1);
        function.clusters.store(clusters, Relaxed);
        Ok(clusters)
    }

    /// Raises the limit of a kernel's dynamic shared memory, where it is lower; stays raised.
    fn allow_shared(&self, kernel: &Kernel, bytes: u32) -> Result<(), OpError> {
        let function = self.device.function(kernel)?;
        let _alone = function.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= function.shared_bytes.load(Relaxed) {
            return Ok(());
        }
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let wanted = i32::try_from(bytes).map_err(|e| self.device.failed(kernel.name, &e.to_string()))?;
        // SAFETY: the function is alive.
        self.device.check(kernel.name, unsafe { sys::cuFuncSetAttribute(function.handle(), most, wanted) })?;
        function.shared_bytes.store(bytes, Relaxed);
        Ok(())
    }
}
