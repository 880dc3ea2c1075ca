//! A GPU: its context, memory pool and compiled kernels, shared by its workers.

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::{CString, c_int},
    fmt, mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use accelerd_ledger::{Kind, Ledger, Limit};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};

use super::{
    arch::Arch,
    compile::Compiled,
    context::Context,
    device_cache::DeviceCache,
    driver::{self, ok},
    jit::{Jit, JitCompiler, JitError, JitKernel, JitSource},
    memcpy_pool::MemcpyPool,
    memory::MemoryPool,
    module::Kernel,
    pinned::PinnedPool,
    stats::{FallbackCounters, Function, LaunchCounter, LaunchCounters},
};
use crate::{DeviceId, DeviceInfo, FallbackStats, KernelStats, LossScope, OpError, PoolStats, Settings, cpu};

/// A GPU: context, memory pool and compiled modules, shared by its workers.
pub struct Device {
    info: DeviceInfo,
    arch: Arch,
    l2_bytes: u64,
    shared_bytes: u32,
    max_compute_capability: Option<(u32, u32)>,
    staging_bytes: usize,
    context: Arc<Context>,
    pool: Arc<MemoryPool>,
    pinned: Arc<PinnedPool>,
    cpu: Arc<cpu::Pool>,
    modules: Vec<usize>,
    functions: HashMap<&'static str, Function>,
    jit: Jit,
    counters: LaunchCounters,
    cache: DeviceCache,
    fallbacks: FallbackCounters,
    memcpy_pool: MemcpyPool,
    ledger: Arc<Ledger>,
    /// Counts the requests of the ledger that workers drop their graphs.
    graph_evictions: AtomicU64,
    /// Bytes held by the graphs of all workers.
    graph_bytes: Arc<AtomicU64>,
    lost: OnceLock<(LossScope, String)>,
}

thread_local! {
    /// The kernel that this thread launched last: errors of kernels are returned by later calls, which name none.
    static LAST_LAUNCHED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Records a launch for the descriptions of later errors.
pub(super) fn record_launch(kernel: &'static str) {
    LAST_LAUNCHED.set(Some(kernel));
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("info", &self.info).field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// A device as enumerated by the driver, before its context is created.
#[derive(Clone, Copy)]
pub(super) struct PhysicalDevice {
    pub(super) ordinal: u32,
    pub(super) arch: Arch,
    pub(super) handle: sys::CUdevice,
}

impl PhysicalDevice {
    /// Number of devices.
    pub(super) fn count() -> Result<u32, String> {
        let mut count = 0;
        // SAFETY: writes one int; the driver is initialised.
        ok(unsafe { sys::cuDeviceGetCount(&raw mut count) }).map_err(driver::describe)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Queries the device with this ordinal.
    pub(super) fn get(ordinal: u32) -> Result<Self, String> {
        let mut handle = 0;
        let number = c_int::try_from(ordinal).map_err(|e| e.to_string())?;
        // SAFETY: writes one handle; an ordinal out of range returns an error.
        ok(unsafe { sys::cuDeviceGet(&raw mut handle, number) }).map_err(driver::describe)?;
        let attribute = |which| attribute(handle, which).map_err(driver::describe);
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Self { ordinal, arch: Arch::new(major, minor), handle })
    }

    fn info(self) -> Result<DeviceInfo, CUresult> {
        let mut name = [0_u8; 256];
        // SAFETY: writes at most 256 bytes, the last of them zero.
        ok(unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.handle) })?;
        let mut memory = 0;
        // SAFETY: writes one number.
        ok(unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, self.handle) })?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(DeviceInfo {
            id: DeviceId::Cuda(self.ordinal),
            product: String::from_utf8_lossy(name).into_owned(),
            compute_capability: Some(self.arch.capability()),
            compute_units: attribute(self.handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory_bytes: memory as u64,
        })
    }
}

pub(super) fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<u32, CUresult> {
    let mut value = 0;
    // SAFETY: writes one int; `device` came from the driver.
    ok(unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) })?;
    Ok(u32::try_from(value).unwrap_or(0))
}

impl Device {
    /// Creates the context and the pools, and loads the kernels.
    pub(super) fn open(
        physical: PhysicalDevice,
        compiled: &[Compiled],
        jit: JitCompiler,
        settings: &Settings,
        cpu: &Arc<cpu::Pool>,
    ) -> Result<Arc<Self>, String> {
        let device = Self::create(physical, jit, settings, cpu).map_err(driver::describe)?.load_modules(compiled)?;
        let device = Arc::new(device);
        device.register_in_ledger();
        Ok(device)
    }

    /// Reports its memory to the ledger, and has it evict graphs.
    fn register_in_ledger(self: &Arc<Self>) {
        let place = self.info.id.place();
        let limit = Some(self.pool_stats().limit_bytes).filter(|limit| *limit > 0).unwrap_or(self.info.memory_bytes);
        self.ledger.limit(place, Limit { bytes: limit, setting: "cuda.pool_limit" });
        let graphs = Arc::clone(&self.graph_bytes);
        self.ledger.observe(place, Kind::Graphs, move || graphs.load(Relaxed));
        let weak = Arc::downgrade(self);
        self.ledger.observe_total(place, move || weak.upgrade().map_or(0, |device| device.pool_stats().reserved_bytes));
        let weak = Arc::downgrade(self);
        self.ledger.on_eviction(place, Kind::Graphs, move |_| {
            if let Some(device) = weak.upgrade() {
                device.graph_evictions.fetch_add(1, Relaxed);
            }
            // Each worker drops its own at its next allocation: nothing is free yet.
            0
        });
    }

    /// Evicts caches in its memory, until about `bytes` are free. Returns how many were evicted.
    pub(super) fn evict(&self, bytes: u64) -> u64 {
        self.ledger.evict(self.info.id.place(), bytes)
    }

    /// Number of requests that workers drop their graphs.
    pub(super) fn graph_evictions(&self) -> u64 {
        self.graph_evictions.load(Relaxed)
    }

    /// Counts the bytes of all graphs.
    pub(super) fn graph_bytes(&self) -> &Arc<AtomicU64> {
        &self.graph_bytes
    }

    fn create(
        physical: PhysicalDevice,
        jit: JitCompiler,
        settings: &Settings,
        cpu: &Arc<cpu::Pool>,
    ) -> Result<Self, CUresult> {
        let handle = physical.handle;
        let pools = attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
        if pools == 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let context = Arc::new(Context::retain(handle)?);
        ok(context.bind())?;
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(Self {
            info: physical.info()?,
            arch: physical.arch,
            l2_bytes: u64::from(attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            shared_bytes: attribute(handle, shared)?,
            max_compute_capability: settings.max_compute_capability,
            staging_bytes: settings.staging_bytes,
            pool: Arc::new(MemoryPool::create(handle, settings.pool_limit_bytes)?),
            pinned: PinnedPool::new(Arc::clone(&context), settings.pinned_bytes, &settings.ledger),
            cpu: Arc::clone(cpu),
            context,
            modules: vec![],
            functions: HashMap::new(),
            jit: Jit::new(jit),
            counters: LaunchCounters::default(),
            cache: DeviceCache::default(),
            fallbacks: FallbackCounters::default(),
            memcpy_pool: MemcpyPool::default(),
            ledger: Arc::clone(&settings.ledger),
            graph_evictions: AtomicU64::new(0),
            graph_bytes: Arc::default(),
            lost: OnceLock::new(),
        })
    }

    /// Loads every module and looks up its kernels; the context is current.
    fn load_modules(mut self, compiled: &[Compiled]) -> Result<Self, String> {
        for one in compiled {
            let name = one.module.name;
            let failed =
                |result| format!("kernels {name} do not load on {}: {}", self.info.id, driver::describe(result));
            let mut module = std::ptr::null_mut();
            // SAFETY: the image is a whole CUBIN, or PTX that ends with a zero; the driver copies it.
            ok(unsafe { sys::cuModuleLoadData(&raw mut module, one.image.as_ptr().cast()) }).map_err(failed)?;
            self.modules.push(module as usize);
            for kernel in one.module.kernels {
                let symbol = CString::new(kernel.name).map_err(|e| e.to_string())?;
                let mut function = std::ptr::null_mut();
                // SAFETY: writes one handle, which lives as long as its module.
                ok(unsafe { sys::cuModuleGetFunction(&raw mut function, module, symbol.as_ptr()) }).map_err(failed)?;
                self.functions.insert(kernel.name, Function::new(LaunchCounter::new(kernel.name), function));
            }
        }
        Ok(self)
    }

    /// Fixed properties.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// State of its memory pool.
    pub fn pool_stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Counters of the kernels that ran, by name. Generated kernels count under their templates.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        let built_in = self.functions.values().filter_map(|function| function.counter().stats());
        let mut stats: Vec<_> = built_in.chain(self.counters.stats()).collect();
        stats.sort_by_key(|counter| counter.name);
        stats
    }

    /// Counters of work that its operations pass to the CPU.
    pub(crate) fn fallbacks(&self) -> &FallbackCounters {
        &self.fallbacks
    }

    /// Work that it passed to the CPU, by operation and reason.
    pub fn fallback_stats(&self) -> Vec<FallbackStats> {
        self.fallbacks.stats()
    }

    /// Takes the device out of service: later calls fail at once, instead of waiting for a kernel that never ends or
    /// repeating an error. Objects on it are abandoned rather than freed, since freeing waits for its kernels.
    pub fn mark_lost(&self, scope: LossScope, reason: &str) {
        self.lost.get_or_init(|| (scope, reason.to_owned()));
    }

    /// Data kept on the device between requests, such as tables.
    pub fn device_cache(&self) -> &DeviceCache {
        &self.cache
    }

    /// Architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Compute capability by which operations choose kernels: its own, or the configured maximum.
    pub fn kernel_capability(&self) -> (u32, u32) {
        let own = self.arch.capability();
        self.max_compute_capability.map_or(own, |limit| own.min(limit))
    }

    /// Size of the L2 cache.
    pub fn l2_bytes(&self) -> u64 {
        self.l2_bytes
    }

    /// Maximum shared memory per block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    pub(super) fn staging_bytes(&self) -> usize {
        self.staging_bytes
    }

    pub(super) fn pool(&self) -> &Arc<MemoryPool> {
        &self.pool
    }

    pub(crate) fn pinned(&self) -> &Arc<PinnedPool> {
        &self.pinned
    }

    /// The CPU pool for the host work of its operations.
    pub fn cpu(&self) -> &cpu::Pool {
        &self.cpu
    }

    /// A loaded kernel.
    pub(super) fn function(&self, kernel: &Kernel) -> Result<&Function, OpError> {
        let unknown = || self.failed(kernel.name, "no module has this kernel");
        self.functions.get(kernel.name).ok_or_else(unknown)
    }

    /// The launch counter with this name, for libraries and the templates of generated kernels.
    pub(super) fn counter(&self, name: &'static str) -> Arc<LaunchCounter> {
        self.counters.get(name)
    }

    /// The kernel of a generated source, compiled and loaded by the first worker that asks for it.
    pub(super) fn jit(&self, source: &JitSource) -> Result<Arc<JitKernel>, OpError> {
        self.enter()?;
        self.jit.kernel(source, || self.counters.get(source.template)).map_err(|error| match error {
            JitError::Source(reason) => self.failed(source.template, &reason),
            JitError::Driver(failed) => self.error(source.template, failed),
        })
    }

    /// Number of generated kernels that are loaded, and the bytes of their code.
    pub fn jit_usage(&self) -> (usize, u64) {
        self.jit.usage()
    }

    /// Unloads the generated kernels that were evicted and are not used any more; the context is current.
    pub(super) fn unload_unused(&self) {
        self.jit.unload_unused();
    }

    /// Makes its context current on the calling thread; fails once the device is lost.
    pub(super) fn enter(&self) -> Result<(), OpError> {
        match self.lost.get() {
            Some((scope, reason)) => Err(self.lost_error(*scope, reason)),
            None => self.check("context", self.context.bind()),
        }
    }

    /// Converts a driver result into an error of `what`.
    pub(super) fn check(&self, what: &'static str, result: CUresult) -> Result<(), OpError> {
        ok(result).map_err(|failed| self.error(what, failed))
    }

    /// The error of `what`; one that the device does not recover from marks it as lost for good.
    pub(super) fn error(&self, what: &'static str, failed: CUresult) -> OpError {
        if failed == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.out_of_memory(0);
        }
        let reason = driver::describe(failed);
        let Some(scope) = driver::loss_scope(failed) else { return self.failed(what, &reason) };
        let (scope, reason) = self.lost.get_or_init(|| (scope, describe_loss(what, LAST_LAUNCHED.get(), &reason)));
        self.lost_error(*scope, reason)
    }

    /// The error of an allocation of `requested` bytes.
    pub(super) fn out_of_memory(&self, requested: u64) -> OpError {
        OpError::OutOfMemory { device: self.info.id, requested, free: self.free_bytes() }
    }

    /// Bytes that can be allocated now, by the pool's limit and the free memory of the device, whose context is current.
    pub(super) fn free_bytes(&self) -> u64 {
        self.pool().free(free_memory())
    }

    /// Fails if `bytes` could not be allocated even if the pool and all graphs were freed: another process holds the memory,
    /// or there is too little.
    pub(super) fn check_attainable(&self, bytes: u64) -> Result<(), OpError> {
        let unpooled = free_memory().saturating_add(self.graph_bytes.load(Relaxed));
        if bytes > self.pool().attainable(unpooled) { Err(self.out_of_memory(bytes)) } else { Ok(()) }
    }

    fn lost_error(&self, scope: LossScope, reason: &str) -> OpError {
        OpError::DeviceLost { device: self.info.id, scope, reason: reason.to_owned() }
    }

    /// A failure that leaves the device usable.
    pub(super) fn failed(&self, kernel: &'static str, reason: &str) -> OpError {
        OpError::Failed { device: self.info.id, kernel, reason: reason.to_owned() }
    }

    /// The threads that copy host memory.
    pub(crate) fn memcpy_pool(&self) -> &MemcpyPool {
        &self.memcpy_pool
    }
}

/// Free bytes of the device whose context is current.
fn free_memory() -> u64 {
    let mut free = 0;
    let mut total = 0;
    // SAFETY: writes two integers.
    let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    if result == CUresult::CUDA_SUCCESS { free as u64 } else { 0 }
}

/// Names the failed call, and the kernel launched before it, which is the likely cause.
fn describe_loss(what: &str, launched: Option<&str>, reason: &str) -> String {
    match launched {
        Some(kernel) if kernel != what => format!("{what} after kernel {kernel}: {reason}"),
        Some(_) | None => format!("{what}: {reason}"),
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.cache.clear();
        if self.lost.get().is_some() {
            // Releasing the context or the pinned memory would wait for a kernel that hangs.
            mem::forget((Arc::clone(&self.context), Arc::clone(&self.pinned)));
        } else if ok(self.context.bind()).is_ok() {
            for module in &self.modules {
                // SAFETY: loaded once in this context, unloaded once; the last worker that could launch from it was dropped.
                let _ = unsafe { sys::cuModuleUnload(*module as sys::CUmodule) };
            }
            self.jit.unload_all();
            let _ = self.pool.free_dropped(std::ptr::null_mut());
            self.pool.destroy();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_names_the_call_and_the_kernel_before_it() {
        assert_eq!(describe_loss("download", Some("gemm"), "trap"), "download after kernel gemm: trap");
        assert_eq!(describe_loss("gemm", Some("gemm"), "trap"), "gemm: trap");
        assert_eq!(describe_loss("context", None, "trap"), "context: trap");
    }
}
