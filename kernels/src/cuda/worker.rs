//! What a CUDA worker computes with: a stream, pinned memory and library handles of its own.

use std::{
    cell::{OnceCell, RefCell, RefMut},
    fmt,
    marker::PhantomData,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{
    beside::Beside,
    blas::Blas,
    device::Device,
    graphs::{Graphs, Kept, Recording},
    launch::{Args, Grid},
    memory::{Buffer, Stream},
    modules::Kernel,
    staging::Staging,
    stats::Timers,
};
use crate::OpError;

mod copies;

/// After allocations of this size the pool is looked at, for its limit.
const LOOK_BYTES: u64 = 1 << 20;

/// What a CUDA worker computes with: a stream, staging memory and library handles of its own. It stays on the thread
/// that opened it.
///
/// Everything it does happens in the order of its stream: a launch sees what was uploaded before, and memory dropped
/// after a launch is freed after it. Only `download` and `synchronize` wait.
pub struct Worker {
    device: Arc<Device>,
    stream: sys::CUstream,
    shared: Arc<Stream>,
    staging: RefCell<Staging>,
    timers: RefCell<Timers>,
    blas: OnceCell<Blas>,
    beside: OnceCell<Beside>,
    twin: OnceCell<Box<Self>>,
    recording: RefCell<Option<Recording>>,
    graphs: RefCell<Graphs<Kept>>,
    stays_here: PhantomData<*const ()>,
}

/// When a launch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Once what is before it on the stream is over.
    Ordered,
    /// Once all blocks of the launch before have started, or said that it may; the kernel waits itself for the rest.
    Early,
}

impl Start {
    /// What the driver is told.
    fn attributes(self) -> [sys::CUlaunchAttribute; 1] {
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let value =
            sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: i32::from(self == Self::Early) };
        [sys::CUlaunchAttribute { id, pad: [0; 4], value }]
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Worker {
    /// Opens a worker on the calling thread.
    pub fn open(device: Arc<Device>) -> Result<Self, OpError> {
        let staging_bytes = device.staging_bytes();
        Self::with_staging(device, staging_bytes)
    }

    fn with_staging(device: Arc<Device>, bytes: usize) -> Result<Self, OpError> {
        device.enter()?;
        let staging = Staging::new(&device, bytes)?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one handle. The stream does not wait for the legacy default stream.
        let made = unsafe { sys::cuStreamCreate(&raw mut stream, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) };
        device.check("stream", made)?;
        Ok(Self {
            shared: Stream::new(stream),
            stream,
            staging: RefCell::new(staging),
            timers: RefCell::default(),
            blas: OnceCell::new(),
            beside: OnceCell::new(),
            twin: OnceCell::new(),
            recording: RefCell::default(),
            graphs: RefCell::default(),
            stays_here: PhantomData,
            device,
        })
    }

    /// Another worker of the same thread, opened when first asked for: what runs on its stream runs beside what runs on this
    /// one's. It has the least staging memory there is.
    pub(crate) fn twin(&self) -> Result<&Self, OpError> {
        if self.twin.get().is_none() {
            let opened = Self::with_staging(Arc::clone(&self.device), 1)?;
            let _ = self.twin.set(Box::new(opened));
        }
        self.twin.get().map(|twin| &**twin).ok_or_else(|| self.device.failed("stream", "was not made"))
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Multiprocessors of the device.
    pub fn units(&self) -> u32 {
        self.device.info().units
    }

    /// Compute capability of the device.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.device.arch().capability()
    }

    /// Bytes of the device's level 2 cache.
    pub fn l2_bytes(&self) -> u64 {
        self.device.l2_bytes()
    }

    /// Shared memory a block may ask for at most.
    pub fn shared_bytes(&self) -> u32 {
        self.device.shared_bytes()
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// What is being recorded.
    pub(super) fn recording(&self) -> RefMut<'_, Option<Recording>> {
        self.recording.borrow_mut()
    }

    /// Where launches go: to the stream, unless they are recorded.
    fn launch_stream(&self) -> sys::CUstream {
        self.recording.borrow().as_ref().map_or(self.stream, |recording| recording.stream)
    }

    /// The graphs that it keeps. They go when their owners go, and when memory is short.
    pub(crate) fn graphs(&self) -> RefMut<'_, Graphs<Kept>> {
        self.graphs.borrow_mut()
    }

    /// Bytes of device memory that recorded launches may hold. Where they are 0, or too few, operations launch their
    /// kernels one by one, and compute the same.
    pub fn limit_graphs(&self, bytes: usize) {
        self.graphs().limit(bytes);
    }

    /// How many graphs it keeps.
    pub fn kept_graphs(&self) -> usize {
        self.graphs().graphs()
    }

    /// Gives back what its graphs hold; says whether there was any.
    fn drop_graphs(&self) -> bool {
        self.graphs.try_borrow_mut().is_ok_and(|mut graphs| graphs.clear())
    }

    /// Memory for `len` elements, with whatever was there before: write all of it before anything is read.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        self.alloc_on(len, self.stream)
    }

    /// Memory for `len` elements that `stream` may use at once, and the worker's own after what is on that stream by then.
    pub(super) fn alloc_on<T: Pod>(&self, len: usize, stream: sys::CUstream) -> Result<Buffer<T>, OpError> {
        self.tidy()?;
        if len == 0 || size_of::<T>() == 0 {
            return Ok(Buffer::empty());
        }
        let pool = self.device.pool();
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let out_of_memory =
            || OpError::OutOfMemory { device: self.device.info().id, requested: bytes, free: self.free_bytes() };
        let counted = match pool.count(bytes) {
            None if self.drop_graphs() => {
                self.tidy()?;
                pool.count(bytes)
            }
            counted => counted,
        };
        let counted = counted.ok_or_else(out_of_memory)?;
        let first = pool.allocate(counted, stream);
        let allocated =
            if first == Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) { self.allocate_again(counted, stream) } else { first };
        match allocated {
            Ok(raw) => {
                if counted >= LOOK_BYTES {
                    pool.look();
                }
                Ok(Buffer::new(raw, len, counted, pool, &self.shared))
            }
            Err(failed) => {
                pool.discount(counted);
                let full = failed == CUresult::CUDA_ERROR_OUT_OF_MEMORY;
                Err(if full { out_of_memory() } else { self.device.error("allocation", failed) })
            }
        }
    }

    /// Bytes that could be had now, of what the pool may take and the device has.
    pub(crate) fn free_bytes(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers, of the device whose context is current.
        let asked = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        let on_device = if asked == CUresult::CUDA_SUCCESS { free as u64 } else { 0 };
        self.device.pool().free(on_device)
    }

    /// Tries once more when everything that was freed has come back, by whichever stream.
    fn allocate_again(&self, bytes: u64, stream: sys::CUstream) -> Result<u64, CUresult> {
        self.drop_graphs();
        // SAFETY: the context is current. What fails is said by whoever waits for it.
        let _ = unsafe { sys::cuCtxSynchronize() };
        if self.synchronize().is_ok() {
            self.device.pool().trim(0);
        }
        self.device.pool().allocate(bytes, stream)
    }

    /// Memory for `len` elements, all bytes zero.
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        let buffer = self.alloc(len)?;
        self.fill_zero(&buffer)?;
        Ok(buffer)
    }

    /// Sets all bytes to zero.
    pub fn fill_zero<T: Pod>(&self, buffer: &Buffer<T>) -> Result<(), OpError> {
        self.device.enter()?;
        if buffer.is_empty() {
            return Ok(());
        }
        // SAFETY: the buffer owns this many bytes there.
        let result = unsafe { sys::cuMemsetD8Async(buffer.ptr().raw, 0, buffer.size_bytes(), self.launch_stream()) };
        self.device.check("fill", result)
    }

    /// Waits until everything on the stream has happened, and takes freed memory back.
    pub fn synchronize(&self) -> Result<(), OpError> {
        self.device.enter()?;
        // SAFETY: the stream is alive.
        self.device.check("synchronize", unsafe { sys::cuStreamSynchronize(self.stream) })?;
        self.staging.borrow_mut().release();
        self.timers.borrow_mut().collect();
        self.tidy()?;
        self.device.pool().look();
        Ok(())
    }

    /// Takes back memory whose buffers were dropped. For a worker that has nothing else to do.
    pub fn tidy(&self) -> Result<(), OpError> {
        self.device.enter()?;
        self.device.residents().sweep();
        if let Ok(mut graphs) = self.graphs.try_borrow_mut() {
            graphs.sweep();
        }
        self.device.check("free", self.device.pool().free_dropped(self.stream))
    }

    /// Takes back memory whose buffers were dropped, and gives what lies unused to the driver. Waits for the stream.
    pub fn give_back(&self) -> Result<(), OpError> {
        // What is freed is unused once the stream has come so far.
        self.tidy()?;
        self.synchronize()?;
        self.device.pool().trim(0);
        self.device.pool().look();
        Ok(())
    }

    /// Launches a kernel on the stream. A grid without blocks does nothing. `shared_bytes` is dynamic shared memory.
    ///
    /// # Errors
    /// Wrong arguments, in count or size, fail before the launch. What the kernel itself does wrong may show only in a
    /// later call that waits.
    pub fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        block_threads: u32,
        shared_bytes: u32,
        args: &mut Args,
    ) -> Result<(), OpError> {
        self.launch_when(kernel, Start::Ordered, grid, block_threads, shared_bytes, args)
    }

    /// The same for a kernel that waits itself for what is on the stream before it (`wait_for_launches` in
    /// `cu/common.cuh`): where the device can, it starts before that is over, so that its start costs no time.
    pub fn launch_early(
        &self,
        kernel: &Kernel,
        grid: Grid,
        block_threads: u32,
        shared_bytes: u32,
        args: &mut Args,
    ) -> Result<(), OpError> {
        let start = if self.compute_capability() >= (9, 0) { Start::Early } else { Start::Ordered };
        self.launch_when(kernel, start, grid, block_threads, shared_bytes, args)
    }

    fn launch_when(
        &self,
        kernel: &Kernel,
        start: Start,
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
        let function = self.device.function(kernel)?;
        if shared_bytes > function.shared_bytes.load(Relaxed) {
            self.allow_shared(kernel, shared_bytes)?;
        }
        let stream = self.launch_stream();
        let mut attributes = start.attributes();
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
            numAttrs: u32::from(start == Start::Early),
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

    /// How many clusters of a kernel the device holds at once, where it is launched so each time; at least one.
    pub fn clusters(
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
            hStream: self.launch_stream(),
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

    /// The matrix library, opened when first asked for.
    pub(super) fn blas(&self) -> Result<&Blas, OpError> {
        if self.blas.get().is_none() {
            let opened = Blas::open(self)?;
            let _ = self.blas.set(opened);
        }
        self.blas.get().ok_or_else(|| self.device.failed("libcublasLt", "was not opened"))
    }

    /// The streams for copies, made when first asked for.
    pub(super) fn beside(&self) -> Result<&Beside, OpError> {
        if self.beside.get().is_none() {
            let made = Beside::new(&self.device)?;
            let _ = self.beside.set(made);
        }
        self.beside.get().ok_or_else(|| self.device.failed("stream", "was not made"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.blas.take();
        self.graphs.take();
        if self.device.enter().is_err() {
            self.shared.close();
            return;
        }
        // SAFETY: the stream is alive. Waited for before it closes: from then on what was allocated on it is freed in
        // the order of other streams.
        let _ = unsafe { sys::cuStreamSynchronize(self.stream) };
        if let Some(beside) = self.beside.take() {
            beside.destroy();
        }
        // SAFETY: the stream is this worker's and destroyed once; nothing is freed on it any more.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.shared.close()) };
        self.timers.get_mut().destroy();
        self.staging.get_mut().destroy();
    }
}
