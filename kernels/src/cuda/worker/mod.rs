//! A worker thread's CUDA context: its stream, pinned memory and library handles.

mod transfers;

use std::{
    cell::{Cell, OnceCell, RefCell, RefMut},
    fmt,
    marker::PhantomData,
    mem,
    sync::Arc,
    time::Duration,
};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};

use super::{
    async_readback::AsyncReadback,
    blas::{self, Blas},
    copy_stream::{CopyStreams, DownloadPlan, Event, Layout, PendingDownload, PendingUpload, StreamKind, UploadPlan},
    device::Device,
    graph::{CachedGraph, Graph},
    graph_cache::GraphCache,
    jit::{JitKernel, JitSource},
    launch::{Args, Grid, LaunchConfig},
    memory::{Buffer, DevicePtr},
    module::Kernel,
    owner_cache::OwnerCache,
    pinned::PinnedBlock,
    product::Product,
    staging::Staging,
    stopwatch::Stopwatch,
    stream::{AllocError, Stream, StreamPriority},
};
use crate::{OpError, preemption::Preemption};

/// The most generated kernels that values derived from objects of the host keep loaded.
const MAX_DERIVED_KERNELS: usize = 1024;

/// A worker thread's stream, staging memory and library handles. It stays on the thread that opened it.
///
/// All operations are ordered by its stream: a launch sees preceding uploads, and memory dropped after a launch is freed
/// after it. Only `download` and `synchronize` block.
pub struct Worker {
    stream: Stream,
    priority: StreamPriority,
    staging: RefCell<Staging>,
    blas: OnceCell<Blas>,
    copy_streams: OnceCell<CopyStreams>,
    second_stream: OnceCell<Box<Self>>,
    graphs: RefCell<GraphCache<CachedGraph>>,
    /// Values that operations derive from objects of the host, such as launches.
    derived: RefCell<OwnerCache>,
    /// The requests to drop graphs that this worker has carried out.
    graph_evictions: Cell<u64>,
    pub(crate) preemption: Preemption,
    stays_here: PhantomData<*const ()>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("device", self.device()).finish_non_exhaustive()
    }
}

impl Worker {
    /// Opens a worker on the calling thread.
    pub fn open(device: Arc<Device>) -> Result<Self, OpError> {
        Self::open_with_priority(device, StreamPriority::Normal)
    }

    /// Opens a worker whose kernels have a priority.
    pub(crate) fn open_with_priority(device: Arc<Device>, priority: StreamPriority) -> Result<Self, OpError> {
        let staging_bytes = device.staging_bytes();
        Self::with_staging(device, staging_bytes, priority)
    }

    fn with_staging(device: Arc<Device>, bytes: usize, priority: StreamPriority) -> Result<Self, OpError> {
        device.enter()?;
        let staging = Staging::new(&device, bytes)?;
        let graphs = GraphCache::counted_by(Arc::clone(device.graph_bytes()));
        let graph_evictions = Cell::new(device.graph_evictions());
        Ok(Self {
            stream: Stream::new(device, priority)?,
            priority,
            staging: RefCell::new(staging),
            blas: OnceCell::new(),
            copy_streams: OnceCell::new(),
            second_stream: OnceCell::new(),
            graphs: RefCell::new(graphs),
            derived: RefCell::new(OwnerCache::new(MAX_DERIVED_KERNELS)),
            graph_evictions,
            preemption: Preemption::default(),
            stays_here: PhantomData,
        })
    }

    /// Lets other work run if it is due; fails if no caller awaits the running batch any more. Operations call it between
    /// slices of about 5 ms; kernels that are queued on the stream keep running meanwhile.
    pub(crate) fn preemption_point(&self) -> Result<(), OpError> {
        self.preemption.point()
    }

    /// Another worker of the same thread, opened on first use, whose stream runs concurrently with this one's. It has the
    /// minimum of staging memory.
    pub(crate) fn second_stream(&self) -> Result<&Self, OpError> {
        if self.second_stream.get().is_none() {
            let opened = Self::with_staging(Arc::clone(self.device()), 1, self.priority)?;
            let _ = self.second_stream.set(Box::new(opened));
        }
        self.second_stream
            .get()
            .map(|second_stream| &**second_stream)
            .ok_or_else(|| self.device().failed("stream", "was not made"))
    }

    /// The worker's device.
    pub fn device(&self) -> &Arc<Device> {
        self.stream.device()
    }

    /// Multiprocessors of the device.
    pub fn sm_count(&self) -> u32 {
        self.device().info().compute_units
    }

    /// Compute capability by which operations choose kernels: the device's, or the configured maximum.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.device().kernel_capability()
    }

    /// Size of the device's L2 cache in bytes.
    pub fn l2_bytes(&self) -> u64 {
        self.device().l2_bytes()
    }

    /// Maximum shared memory per block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.device().shared_bytes()
    }

    /// The graph cache. Graphs are evicted when their owners are dropped and when memory is short.
    pub(crate) fn graphs(&self) -> RefMut<'_, GraphCache<CachedGraph>> {
        self.graphs.borrow_mut()
    }

    /// Values that operations derive from objects of the host. The weights are the numbers of generated kernels that they keep loaded.
    pub(crate) fn derived(&self) -> RefMut<'_, OwnerCache> {
        self.derived.borrow_mut()
    }

    /// Sets the maximum bytes of device memory held by graphs. Without a graph, operations launch their kernels one by one,
    /// with the same results.
    pub fn limit_graph_bytes(&self, bytes: usize) {
        self.graphs().limit(bytes);
    }

    /// Number of cached graphs.
    pub fn graph_count(&self) -> usize {
        self.graphs().graphs()
    }

    /// Drops all graphs; returns whether there were any.
    fn drop_graphs(&self) -> bool {
        self.graphs.try_borrow_mut().is_ok_and(|mut graphs| graphs.clear())
    }

    /// Allocates `len` uninitialised elements: write them before they are read.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        self.alloc_on(len, self.stream.raw())
    }

    /// Allocates `len` elements in the order of `stream`; the worker's stream may use them after waiting for that order.
    fn alloc_on<T: Pod>(&self, len: usize, stream: sys::CUstream) -> Result<Buffer<T>, OpError> {
        const FULL: CUresult = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        self.reclaim()?;
        let mut allocated = self.stream.allocate(len, stream);
        if matches!(allocated, Err(AllocError::Limit | AllocError::Driver(FULL))) {
            // Caches are evicted only if the allocation fits afterwards.
            self.device().check_attainable(bytes)?;
        }
        if matches!(allocated, Err(AllocError::Limit)) && self.drop_graphs() {
            self.reclaim()?;
            allocated = self.stream.allocate(len, stream);
        }
        if matches!(allocated, Err(AllocError::Driver(FULL))) {
            self.drain();
            allocated = self.stream.allocate(len, stream);
        }
        // The last resort before the request fails: the caches of the device.
        if matches!(allocated, Err(AllocError::Limit | AllocError::Driver(FULL))) && self.device().evict(bytes) > 0 {
            self.reclaim()?;
            self.drain();
            allocated = self.stream.allocate(len, stream);
        }
        allocated.map_err(|error| match error {
            AllocError::Driver(failed) if failed != FULL => self.device().error("allocation", failed),
            AllocError::Limit | AllocError::Driver(_) => self.device().out_of_memory(bytes),
        })
    }

    /// Bytes that can be allocated now, by the pool's limit and the device's free memory.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.device().free_bytes()
    }

    /// Fails if `bytes` cannot be allocated even after all caches are freed. A caller that allocates several parts asks first:
    /// otherwise caches would be evicted for the parts that fit, although the whole does not.
    pub(crate) fn check_attainable(&self, bytes: u64) -> Result<(), OpError> {
        self.device().enter()?;
        self.device().check_attainable(bytes)
    }

    /// Frees all that can be freed: graphs, and memory that pending work on any stream still uses.
    fn drain(&self) {
        self.drop_graphs();
        // SAFETY: the context is current. The next blocking call reports an error.
        let _ = unsafe { sys::cuCtxSynchronize() };
        if self.synchronize().is_ok() {
            self.device().pool().trim(0);
        }
    }

    /// Allocates `len` elements, all bytes zero.
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        let buffer = self.alloc(len)?;
        self.fill_zero(&buffer)?;
        Ok(buffer)
    }

    /// Sets all bytes to zero.
    pub fn fill_zero<T: Pod>(&self, buffer: &Buffer<T>) -> Result<(), OpError> {
        self.stream.fill_zero(buffer)
    }

    /// Waits for all work on the stream, and reclaims dropped memory.
    pub fn synchronize(&self) -> Result<(), OpError> {
        self.stream.synchronize()?;
        self.staging.borrow_mut().release();
        self.reclaim()?;
        self.device().pool().refresh();
        Ok(())
    }

    /// Frees the memory of dropped buffers. An idle worker calls it too.
    pub fn reclaim(&self) -> Result<(), OpError> {
        self.device().enter()?;
        self.device().device_cache().sweep();
        if self.stream.recording().is_none() {
            self.device().unload_unused();
        }
        if let Ok(mut graphs) = self.graphs.try_borrow_mut() {
            graphs.sweep();
            let requested = self.device().graph_evictions();
            if self.graph_evictions.replace(requested) != requested {
                graphs.clear();
            }
        }
        self.device().check("free", self.device().pool().free_dropped(self.stream.raw()))
    }

    /// Frees the memory of dropped buffers and returns unused pool memory to the driver. Waits for the stream.
    pub fn trim(&self) -> Result<(), OpError> {
        // Stream-ordered frees complete at the synchronisation.
        self.reclaim()?;
        self.synchronize()?;
        self.device().pool().trim(0);
        self.device().pool().refresh();
        Ok(())
    }

    /// Launches a kernel on the stream. An empty grid is a no-op. `shared_bytes` is dynamic shared memory.
    ///
    /// # Errors
    /// A wrong count or size of arguments fails before the launch. A later blocking call may report an error of the kernel
    /// itself.
    pub fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        block_threads: u32,
        shared_bytes: u32,
        args: &mut Args,
    ) -> Result<(), OpError> {
        self.stream.launch(
            kernel,
            &LaunchConfig { pdl: false, grid, block_threads, shared_bytes, moved_bytes: 0 },
            args,
        )
    }

    /// Launches with programmatic dependent launch, if the device supports it: the kernel starts before the preceding
    /// kernels on the stream complete, and waits for them itself (`griddepcontrol_wait` in `cu/common/common.cuh`).
    pub fn launch_pdl(
        &self,
        kernel: &Kernel,
        grid: Grid,
        block_threads: u32,
        shared_bytes: u32,
        args: &mut Args,
    ) -> Result<(), OpError> {
        let pdl = self.compute_capability() >= (9, 0);
        self.stream.launch(kernel, &LaunchConfig { pdl, grid, block_threads, shared_bytes, moved_bytes: 0 }, args)
    }

    /// The kernel of a generated source. The first worker of the device that asks for it compiles it, or loads it from
    /// disk, which takes milliseconds; hashing the source takes microseconds, so keep a kernel that is launched often.
    ///
    /// # Errors
    /// [`OpError::Failed`] names the template, with the first lines of the compiler's log.
    pub fn jit(&self, source: &JitSource) -> Result<Arc<JitKernel>, OpError> {
        self.device().jit(source)
    }

    /// Launches a generated kernel, as [`Self::launch`] does a built-in one.
    ///
    /// # Errors
    /// As [`Self::launch`].
    pub fn launch_jit(&self, kernel: &Arc<JitKernel>, config: &LaunchConfig, args: &mut Args) -> Result<(), OpError> {
        self.stream.launch_jit(kernel, config, args)
    }

    /// Maximum number of active blocks of a generated kernel on each multiprocessor; 0 if not even one fits.
    pub fn max_active_blocks(&self, kernel: &JitKernel, block_threads: u32, shared_bytes: u32) -> Result<u32, OpError> {
        self.stream.max_active_blocks(kernel.function(), block_threads, shared_bytes)
    }

    /// The block size of a generated kernel with the highest occupancy, and the fewest blocks that reach that occupancy
    /// on the whole device.
    pub fn potential_block_size(&self, kernel: &JitKernel, shared_bytes: u32) -> Result<(u32, u32), OpError> {
        self.stream.potential_block_size(kernel.function(), shared_bytes)
    }

    /// Maximum number of active clusters of a kernel, at least 1. The launch sizes must be the same in every call.
    pub fn clusters(
        &self,
        kernel: &Kernel,
        cluster_blocks: u32,
        block_threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, OpError> {
        self.stream.clusters(kernel, cluster_blocks, block_threads, shared_bytes)
    }

    /// Captures the launches and fills of `launches` in a graph without running them. It may allocate buffers; copies and
    /// blocking calls are not captured.
    pub fn record<T>(&self, launches: impl FnOnce() -> Result<T, OpError>) -> Result<(Graph, T), OpError> {
        Graph::record(&self.stream, launches)
    }

    /// Enqueues a graph on the stream.
    pub fn replay(&self, graph: &Graph) -> Result<(), OpError> {
        graph.replay(&self.stream)
    }

    /// Waits for the work that `launches` enqueues. Returns its time on the device.
    pub(crate) fn time(&self, launches: impl FnOnce() -> Result<(), OpError>) -> Result<Duration, OpError> {
        Stopwatch::time(&self.stream, launches)
    }

    /// Calls `launches`, and times each kernel that it launches. Launches are sampled otherwise, and those of a graph are not timed: so that
    /// the times of kernels that mostly run in graphs are known, some of their runs are launched one by one.
    pub(crate) fn timing_all<R>(&self, launches: impl FnOnce() -> R) -> R {
        self.stream.timing_all(launches)
    }

    /// Enqueues a cuBLASLt product on the stream. `bias` is read only by an epilogue that adds one; `moved_bytes` are for statistics. The library is opened, and
    /// a plan created, by the first product that needs them. In a capture they must exist ([`Self::prepare_multiply`]).
    ///
    /// # Errors
    /// The error names a missing library, or types and shapes that the library does not multiply. The caller guarantees that
    /// the pointers address matrices of these shapes.
    pub fn multiply<A, B, C, D>(
        &self,
        product: &Product,
        a: DevicePtr<A>,
        b: DevicePtr<B>,
        c: DevicePtr<C>,
        bias: DevicePtr<D>,
        moved_bytes: u64,
    ) -> Result<(), OpError> {
        self.device().enter()?;
        if product.is_empty() {
            return Ok(());
        }
        if self.blas.get().is_none() && self.stream.recording().is_some() {
            return Err(blas::not_prepared(self.device()));
        }
        self.blas()?.multiply(&self.stream, product, [a.raw, b.raw, c.raw], bias.raw, moved_bytes)
    }

    /// Opens cuBLASLt and creates the plan of a product, so that [`Self::multiply`] can be captured in a graph. A plan is for
    /// the alignments of these addresses; nothing is read or written there.
    ///
    /// # Errors
    /// As [`Self::multiply`]; fails during a capture.
    pub fn prepare_multiply<A, B, C>(
        &self,
        product: &Product,
        a: DevicePtr<A>,
        b: DevicePtr<B>,
        c: DevicePtr<C>,
    ) -> Result<(), OpError> {
        self.device().enter()?;
        if product.is_empty() {
            return Ok(());
        }
        if self.stream.recording().is_some() {
            return Err(blas::not_prepared(self.device()));
        }
        self.blas()?.prepare(self.device(), product, [a.raw, b.raw, c.raw])
    }

    /// An asynchronous read-back on the stream.
    pub fn async_readback<T: Pod>(&self) -> Result<AsyncReadback<T>, OpError> {
        AsyncReadback::new(&self.stream)
    }

    /// Allocates memory for an upload, which need not wait for kernels; kernels may use it after the upload.
    pub(crate) fn alloc_for_upload<T: Pod>(&self, len: usize) -> Result<Buffer<T>, OpError> {
        let copies = self.copy_streams()?;
        let buffer = self.alloc_on(len, copies.upload_stream())?;
        // The buffer is freed in the order of the compute stream, which therefore waits for the allocation.
        copies.wait(&self.stream, StreamKind::Upload, StreamKind::Compute)?;
        Ok(buffer)
    }

    /// Enqueues the copies of `plan` from `block` on the upload stream; kernels launched afterwards see them. The buffers
    /// come from [`Self::alloc_for_upload`].
    ///
    /// # Panics
    /// If a region lies outside the block.
    pub(crate) fn upload_async(&self, block: PinnedBlock, plan: &UploadPlan) -> Result<PendingUpload, OpError> {
        self.copy_streams()?.upload(&self.stream, block, plan)
    }

    /// A pinned block for downloads of this layout.
    pub(crate) fn pending_download(&self, layout: &Layout) -> Result<PendingDownload, OpError> {
        self.device().enter()?;
        PendingDownload::new(self.device(), self.device().pinned().take(layout.bytes()))
    }

    /// Starts the copies of `plan`. Copies on the download stream wait for no kernel: the caller has waited, and keeps the
    /// buffers alive until the copies complete.
    ///
    /// # Panics
    /// If a region lies outside the block.
    pub(crate) fn download_async(
        &self,
        plan: &DownloadPlan,
        into: &mut PendingDownload,
        on: StreamKind,
    ) -> Result<(), OpError> {
        self.copy_streams()?.download(&self.stream, plan, into, on)
    }

    /// Records an event after the work enqueued on a stream so far.
    pub(crate) fn record_event(&self, on: StreamKind) -> Result<Event, OpError> {
        self.copy_streams()?.record_event(&self.stream, on)
    }

    /// cuBLASLt, opened on first use.
    fn blas(&self) -> Result<&Blas, OpError> {
        if self.blas.get().is_none() {
            let workspace = self.alloc(Blas::workspace_bytes(self.device()))?;
            let opened = Blas::open(self.device(), workspace)?;
            let _ = self.blas.set(opened);
        }
        self.blas.get().ok_or_else(|| self.device().failed("libcublasLt", "was not opened"))
    }

    /// The copy streams, created on first use.
    fn copy_streams(&self) -> Result<&CopyStreams, OpError> {
        if self.copy_streams.get().is_none() {
            let made = CopyStreams::new(self.device())?;
            let _ = self.copy_streams.set(made);
        }
        self.copy_streams.get().ok_or_else(|| self.device().failed("stream", "was not made"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.graphs.take();
        if self.device().enter().is_err() {
            // Destroying the library's handle waits for the device, which may hang.
            mem::forget(self.blas.take());
            self.stream.close();
            return;
        }
        self.blas.take();
        // Wait before closing the stream: its buffers are then freed in the order of other streams.
        let _ = self.stream.wait();
        if let Some(streams) = self.copy_streams.take() {
            streams.destroy();
        }
        self.stream.destroy();
        self.staging.get_mut().destroy();
    }
}
