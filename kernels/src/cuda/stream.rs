//! A CUDA stream: launches, fills and allocations in its order. What works with one takes a `&Stream`; [`Worker`]
//! composes all of it.
//!
//! [`Worker`]: super::Worker

use std::{
    any::Any,
    cell::{Cell, RefCell, RefMut},
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{
    device::{Device, record_launch},
    driver::{event, ok},
    in_flight::InFlight,
    jit::JitKernel,
    launch::{Args, LaunchConfig},
    memory::{Buffer, StreamHandle},
    module::Kernel,
    stats::{Function, LaunchCounter, Timers},
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
    in_flight: RefCell<InFlight>,
    /// Recorded where `in_flight` was closed last.
    in_flight_end: Cell<Option<sys::CUevent>>,
}

/// The stream that launches go to while they are captured, and what they launch.
pub(super) struct Recording {
    pub(super) stream: sys::CUstream,
    /// With the bytes that each launch moves.
    pub(super) counters: Vec<(Arc<LaunchCounter>, u64)>,
    pub(super) jit_kernels: Vec<Arc<JitKernel>>,
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
        let mut lowest = 0;
        let mut highest = 0;
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
        let (timers, recording, in_flight, in_flight_end) = Default::default();
        Ok(Self { device, raw, handle: StreamHandle::new(raw), timers, recording, in_flight, in_flight_end })
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
        self.in_flight.borrow_mut().clear();
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
        self.in_flight.get_mut().clear();
        if let Some(end) = self.in_flight_end.take() {
            // SAFETY: created by `event`, destroyed once, and nothing waits for it.
            let _ = unsafe { sys::cuEventDestroy_v2(end) };
        }
    }

    /// Keeps an object until the work enqueued so far has completed.
    pub(super) fn keep<T: Any + Send + Sync>(&self, object: &Arc<T>) {
        let mut in_flight = self.in_flight.borrow_mut();
        if in_flight.keep(object) {
            in_flight.advance(|| self.is_past_end(), || self.mark_end());
        }
    }

    /// Returns true if the stream has completed the work before the last `mark_end`.
    fn is_past_end(&self) -> bool {
        // SAFETY: the event is alive; the call does not block.
        self.in_flight_end.get().is_some_and(|end| unsafe { sys::cuEventQuery(end) } == CUresult::CUDA_SUCCESS)
    }

    /// Marks the end of the work enqueued so far; `false` if the driver fails.
    fn mark_end(&self) -> bool {
        let end = self.in_flight_end.get().or_else(|| event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).ok());
        self.in_flight_end.set(end);
        // SAFETY: event and stream are alive and of the current context.
        end.is_some_and(|end| unsafe { sys::cuEventRecord(end, self.raw) } == CUresult::CUDA_SUCCESS)
    }

    /// Launches a built-in kernel.
    pub(super) fn launch(&self, kernel: &Kernel, config: &LaunchConfig, args: &mut Args) -> Result<(), OpError> {
        self.device.enter()?;
        self.launch_function(self.device.function(kernel)?, kernel.params, config, args)
    }

    /// Launches a generated kernel, and keeps it loaded until it has completed.
    pub(super) fn launch_jit(
        &self,
        kernel: &Arc<JitKernel>,
        config: &LaunchConfig,
        args: &mut Args,
    ) -> Result<(), OpError> {
        self.device.enter()?;
        self.launch_function(kernel.function(), kernel.params(), config, args)?;
        match &mut *self.recording() {
            Some(recording) => recording.jit_kernels.push(Arc::clone(kernel)),
            None => self.keep(kernel),
        }
        Ok(())
    }

    /// Launches a function whose parameters have these sizes; the context is current.
    fn launch_function(
        &self,
        function: &Function,
        params: &[usize],
        config: &LaunchConfig,
        args: &mut Args,
    ) -> Result<(), OpError> {
        let &LaunchConfig { pdl, grid, block_threads, shared_bytes, moved_bytes } = config;
        let name = function.name();
        if let Some(mismatch) = args.mismatch(params) {
            return Err(self.device.failed(name, &mismatch));
        }
        if grid.is_empty() {
            return Ok(());
        }
        self.allow_shared(function, shared_bytes)?;
        let mut attributes = [programmatic_launch()];
        let mut config = sys::CUlaunchConfig {
            gridDimX: grid.x,
            gridDimY: grid.y,
            gridDimZ: grid.z,
            blockDimX: block_threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: self.raw,
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::from(pdl),
        };
        let mut addresses = args.addresses();
        let launched = self.enqueue(function.counter(), moved_bytes, |stream| {
            config.hStream = stream;
            let function = function.handle();
            let arguments = addresses.as_mut_ptr();
            // SAFETY: the arguments are alive, and as many and as large as the kernel declares; that declaration is
            // compared with the compiled code, by a test or when the kernel is loaded. What the pointers point to is the
            // caller's contract.
            ok(unsafe { sys::cuLaunchKernelEx(&raw const config, function, arguments, std::ptr::null_mut()) })
        });
        launched.map_err(|failed| self.device.error(name, failed))
    }

    /// Has `work` enqueue launches, which move these bytes, where launches go: to the stream, counted and timed, or to the capture in
    /// progress.
    pub(super) fn enqueue<E>(
        &self,
        counter: &Arc<LaunchCounter>,
        moved_bytes: u64,
        work: impl FnOnce(sys::CUstream) -> Result<(), E>,
    ) -> Result<(), E> {
        record_launch(counter.name());
        let stream = self.launch_target();
        match &mut *self.recording() {
            Some(recording) => {
                recording.counters.push((Arc::clone(counter), moved_bytes));
                work(stream)
            }
            None => self.timers.borrow_mut().around(counter, moved_bytes, stream, || work(stream)),
        }
    }

    /// Calls `launches`, and times all that it launches.
    pub(super) fn timing_all<R>(&self, launches: impl FnOnce() -> R) -> R {
        self.timers.borrow_mut().is_timing_all = true;
        let result = launches();
        self.timers.borrow_mut().is_timing_all = false;
        result
    }

    /// Active blocks of a function on each multiprocessor.
    pub(super) fn max_active_blocks(
        &self,
        function: &Function,
        block_threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, OpError> {
        self.device.enter()?;
        self.allow_shared(function, shared_bytes)?;
        let threads = i32::try_from(block_threads).unwrap_or(i32::MAX);
        let mut blocks = 0;
        // SAFETY: writes one int; the function is alive.
        let asked = unsafe {
            let function = function.handle();
            let bytes = shared_bytes as usize;
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, bytes)
        };
        self.device.check(function.name(), asked)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// The block size with the highest occupancy, and the fewest blocks that reach it on the whole device.
    pub(super) fn potential_block_size(&self, function: &Function, shared_bytes: u32) -> Result<(u32, u32), OpError> {
        self.device.enter()?;
        self.allow_shared(function, shared_bytes)?;
        let mut blocks = 0;
        let mut threads = 0;
        // SAFETY: writes two ints; the function is alive. Without a callback every block has the same shared memory.
        let asked = unsafe {
            let function = function.handle();
            let bytes = shared_bytes as usize;
            sys::cuOccupancyMaxPotentialBlockSize(&raw mut blocks, &raw mut threads, function, None, bytes, 0)
        };
        self.device.check(function.name(), asked)?;
        Ok((u32::try_from(threads).unwrap_or(0), u32::try_from(blocks).unwrap_or(0)))
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
        self.allow_shared(function, shared_bytes)?;
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

    /// Raises the limit of a function's dynamic shared memory, where it is lower; stays raised.
    fn allow_shared(&self, function: &Function, bytes: u32) -> Result<(), OpError> {
        if bytes <= function.shared_bytes.load(Relaxed) {
            return Ok(());
        }
        let _alone = function.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= function.shared_bytes.load(Relaxed) {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let wanted = i32::try_from(bytes).map_err(|e| self.device.failed(function.name(), &e.to_string()))?;
        // SAFETY: the function is alive.
        self.device.check(function.name(), unsafe { sys::cuFuncSetAttribute(function.handle(), attribute, wanted) })?;
        function.shared_bytes.store(bytes, Relaxed);
        Ok(())
    }
}
