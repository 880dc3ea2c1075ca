//! Runs kernels of clients: device code of `accelerd-ir`, on one piece of memory. It belongs in a process that does nothing else, because
//! an error of a kernel ends CUDA for its process.

use std::{
    collections::HashMap,
    ffi::{CString, c_int, c_void},
    time::{Duration, Instant},
};

use accelerd_ir::kernel::cuda::Launch;
use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute, CUresult};

use super::{
    arch::Arch,
    context::Context,
    device::{PhysicalDevice, attribute},
    driver::{self, event, ok},
};

/// Threads of a block at most: kernels have neither barriers nor shared memory, and small blocks leave no gaps.
const MAX_BLOCK_THREADS: u32 = 256;

/// The most blocks of a launch.
const MAX_BLOCKS: u64 = i32::MAX as u64;

/// Threads of a large grid that a thread of the device runs: as many as kernels run at once that read before they write. A grid is large
/// if the device is then full at least this many times.
const THREADS_OF_GRID: u64 = 4;
const MIN_WAVES: u64 = 2;

/// Alignment of the record of a fault, which follows the memory of a launch.
const ALIGNMENT: u64 = 256;

/// The time that a wait spins, and then sleeps between two queries of the device.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(100);

/// Why a kernel of a client cannot be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// It needs more memory than is allowed, or than the device has.
    #[error("out of device memory")]
    OutOfMemory,
    /// The device still works.
    #[error("{0}")]
    Failed(String),
    /// The process cannot use the device any more.
    #[error("the device is lost: {0}")]
    Lost(String),
}

impl From<CUresult> for UserError {
    fn from(failed: CUresult) -> Self {
        if failed == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Self::OutOfMemory;
        }
        let reason = driver::describe(failed);
        if driver::loss_scope(failed).is_some() { Self::Lost(reason) } else { Self::Failed(reason) }
    }
}

/// Consecutive threads of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserThreads {
    /// The first one, counted row-major.
    pub first: u64,
    /// Their number, at least 1.
    pub count: u64,
    /// Iterations that each may run, of all its loops together.
    pub loop_budget: u64,
    /// Extents of the grid; 1 beyond its dimensions.
    pub grid: [u32; 4],
}

/// A GPU for kernels of clients, in a context of this process. It stays on the thread that opened it, and its resources end with the
/// process: to free anything would wait for threads that may not end.
pub struct UserDevice {
    multiprocessors: u32,
    max_resident_threads: u64,
    max_memory: u64,
    modules: HashMap<u64, Module>,
    loads: u64,
    stream: sys::CUstream,
    /// Around the launch in progress.
    events: [sys::CUevent; 2],
    /// A word of pinned memory, at one address for host and device. Launches end early once it is not 0.
    stop: *mut u32,
    memory: Option<Memory>,
}

/// The memory of launches, with the record of a fault after it.
#[derive(Clone, Copy)]
struct Memory {
    address: u64,
    capacity: u64,
    /// Bytes of the launch.
    bytes: u64,
}

struct Module {
    handle: sys::CUmodule,
    function: sys::CUfunction,
    /// Sizes of the kernel's parameters, if the driver tells them.
    params: Option<Vec<usize>>,
    block_threads: u32,
}

/// Properties of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuProperties {
    /// Its architecture.
    pub arch: Arch,
    /// Peak bandwidth of its memory, in bytes per second.
    pub memory_bandwidth: f64,
}

impl GpuProperties {
    /// The properties of a GPU. This creates no context on it.
    pub fn of(ordinal: u32) -> Result<Self, String> {
        driver::start()?;
        let PhysicalDevice { handle, arch, .. } = PhysicalDevice::get(ordinal)?;
        let attribute = |which| attribute(handle, which).map(f64::from).map_err(driver::describe);
        let clock = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)? * 1e3;
        let bus_bytes = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8.0;
        // Each clock has two transfers.
        Ok(Self { arch, memory_bandwidth: 2.0 * clock * bus_bytes })
    }
}

impl UserDevice {
    /// Creates a context on a GPU. Launches get at most `max_memory` bytes.
    pub fn open(ordinal: u32, max_memory: u64) -> Result<Self, String> {
        driver::start()?;
        let physical = PhysicalDevice::get(ordinal)?;
        Self::create(physical, max_memory).map_err(driver::describe)
    }

    fn create(physical: PhysicalDevice, max_memory: u64) -> Result<Self, CUresult> {
        let context = Context::retain(physical.handle)?;
        ok(context.bind())?;
        let multiprocessors = attribute(physical.handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let resident = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        let resident = attribute(physical.handle, resident)?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one handle; the context is current.
        ok(unsafe { sys::cuStreamCreate(&raw mut stream, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) })?;
        let events = [event(sys::CUevent_flags::CU_EVENT_DEFAULT)?, event(sys::CUevent_flags::CU_EVENT_DEFAULT)?];
        let mut stop: *mut c_void = std::ptr::null_mut();
        // SAFETY: writes one address. With unified addressing, which every 64-bit device has, the device sees the memory at it.
        ok(unsafe { sys::cuMemHostAlloc(&raw mut stop, size_of::<u32>(), sys::CU_MEMHOSTALLOC_DEVICEMAP) })?;
        std::mem::forget(context);
        Ok(Self {
            multiprocessors: multiprocessors.max(1),
            max_resident_threads: u64::from(multiprocessors) * u64::from(resident),
            max_memory,
            modules: HashMap::new(),
            loads: 0,
            stream,
            events,
            stop: stop.cast(),
            memory: None,
        })
    }

    /// Loads a compiled kernel: a whole CUBIN, or PTX that ends with a zero.
    pub fn load(&mut self, image: &[u8], entry: &str) -> Result<u64, UserError> {
        if image.last() != Some(&0) && !image.starts_with(b"\x7fELF") {
            return Err(UserError::Failed("the image is neither machine code nor PTX".to_owned()));
        }
        let entry = CString::new(entry).map_err(|error| UserError::Failed(error.to_string()))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image is a CUBIN, or text that ends with a zero; the driver copies it.
        ok(unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) })?;
        match self.function(handle, &entry) {
            Ok(module) => {
                self.loads += 1;
                self.modules.insert(self.loads, module);
                Ok(self.loads)
            }
            Err(error) => {
                // SAFETY: loaded above, unloaded once; nothing was launched from it.
                let _ = unsafe { sys::cuModuleUnload(handle) };
                Err(error)
            }
        }
    }

    fn function(&self, handle: sys::CUmodule, entry: &CString) -> Result<Module, UserError> {
        let mut function = std::ptr::null_mut();
        // SAFETY: writes one handle, which lives as long as its module.
        ok(unsafe { sys::cuModuleGetFunction(&raw mut function, handle, entry.as_ptr()) })?;
        let (mut local, mut blocks, mut threads): (c_int, c_int, c_int) = (0, 0, 0);
        let size = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
        // SAFETY: writes one int; the function is alive.
        ok(unsafe { sys::cuFuncGetAttribute(&raw mut local, size, function) })?;
        // The driver allocates the stacks of all threads that can be resident.
        if u64::try_from(local).unwrap_or(0).saturating_mul(self.max_resident_threads) > self.max_memory {
            return Err(UserError::OutOfMemory);
        }
        // SAFETY: writes two ints; the function is alive. It has no dynamic shared memory.
        ok(unsafe { sys::cuOccupancyMaxPotentialBlockSize(&raw mut blocks, &raw mut threads, function, None, 0, 0) })?;
        let block_threads = u32::try_from(threads).unwrap_or(0).clamp(32, MAX_BLOCK_THREADS);
        Ok(Module { handle, function, params: driver::function_params(function), block_threads })
    }

    /// Unloads a kernel; no launch may be in progress.
    pub fn unload(&mut self, kernel: u64) {
        if let Some(module) = self.modules.remove(&kernel) {
            // SAFETY: loaded once, unloaded once; what launched from it has ended.
            let _ = unsafe { sys::cuModuleUnload(module.handle) };
        }
    }

    /// The address of `bytes` of zeros, in place of the memory of the launch before, and no record of a fault.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, UserError> {
        if bytes > self.max_memory {
            return Err(UserError::OutOfMemory);
        }
        let capacity = bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let fitting = self.memory.filter(|memory| memory.capacity >= capacity);
        let address = match fitting {
            Some(memory) => memory.address,
            None => self.grow(capacity)?,
        };
        let capacity = fitting.map_or(capacity, |memory| memory.capacity);
        self.memory = Some(Memory { address, capacity, bytes });
        let length = usize::try_from(bytes).map_err(|_| UserError::OutOfMemory)?;
        if length > 0 {
            // SAFETY: the allocation has this many bytes there.
            ok(unsafe { sys::cuMemsetD8Async(address, 0, length, self.stream) })?;
        }
        self.upload(self.fault_address(), &Launch::no_fault())?;
        Ok(address)
    }

    fn grow(&mut self, capacity: u64) -> Result<u64, UserError> {
        if let Some(memory) = self.memory.take() {
            // SAFETY: allocated below, freed once; what used it has ended.
            ok(unsafe { sys::cuMemFree_v2(memory.address) })?;
        }
        let mut address = 0;
        let length = usize::try_from(capacity).map_err(|_| UserError::OutOfMemory)?;
        // SAFETY: writes one address; the context is current.
        ok(unsafe { sys::cuMemAlloc_v2(&raw mut address, length) })?;
        Ok(address)
    }

    /// Where the record of a fault lies.
    fn fault_address(&self) -> u64 {
        self.memory.map_or(0, |memory| memory.address + memory.bytes.next_multiple_of(ALIGNMENT))
    }

    /// The address of bytes `offset` of the memory.
    fn address(&self, offset: u64, length: usize) -> Result<u64, UserError> {
        let outside = || UserError::Failed("an access outside of the memory of the launch".to_owned());
        let memory = self.memory.ok_or_else(outside)?;
        let end = offset.checked_add(length as u64).filter(|end| *end <= memory.bytes);
        end.map(|_| memory.address + offset).ok_or_else(outside)
    }

    /// Writes to the memory.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), UserError> {
        self.upload(self.address(offset, bytes.len())?, bytes)
    }

    /// Reads from the memory, after all launches have ended.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), UserError> {
        self.download(self.address(offset, bytes.len())?, bytes)
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), UserError> {
        if !bytes.is_empty() {
            // SAFETY: the memory has this many bytes there; the host's live until the stream is synchronised.
            ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.stream) })?;
            self.synchronize()?;
        }
        Ok(())
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), UserError> {
        if !bytes.is_empty() {
            // SAFETY: as in `upload`.
            ok(unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from, bytes.len(), self.stream) })?;
            self.synchronize()?;
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), UserError> {
        // SAFETY: the stream is alive.
        Ok(ok(unsafe { sys::cuStreamSynchronize(self.stream) })?)
    }

    /// Starts threads of a kernel with a parameter block, whose addresses are those of the memory. No other ones may be running.
    pub fn start(&mut self, kernel: u64, threads: &UserThreads, params: &[u8]) -> Result<(), UserError> {
        let unknown = || UserError::Failed("the kernel is not loaded".to_owned());
        let module = self.modules.get(&kernel).ok_or_else(unknown)?;
        if module.params.as_ref().is_some_and(|sizes| *sizes != [Launch::SIZE, params.len()]) {
            return Err(UserError::Failed(format!(
                "the kernel has other parameters than one of {} bytes",
                params.len()
            )));
        }
        self.set_stop(0);
        let UserThreads { first, count, loop_budget, grid } = *threads;
        let launch = Launch { stop: self.stop as u64, fault: self.fault_address(), first, count, loop_budget, grid };
        let launch = words(&launch.to_bytes());
        let params = words(params);
        let mut arguments: [*mut c_void; 2] = [launch.as_ptr().cast_mut().cast(), params.as_ptr().cast_mut().cast()];
        let block_threads = self.block_threads(module, count);
        let is_large = count >= THREADS_OF_GRID * MIN_WAVES * self.max_resident_threads;
        let threads = if is_large { count.div_ceil(THREADS_OF_GRID) } else { count };
        let blocks = threads.div_ceil(block_threads.into()).clamp(1, MAX_BLOCKS);
        let config = sys::CUlaunchConfig {
            gridDimX: u32::try_from(blocks).expect("at most as many as fit"),
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: block_threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream,
            attrs: std::ptr::null_mut(),
            numAttrs: 0,
        };
        // SAFETY: event and stream are alive and of the current context.
        ok(unsafe { sys::cuEventRecord(self.events[0], self.stream) })?;
        // SAFETY: the driver copies the arguments, which are as large as the code of `accelerd-ir` declares for the layout of the same
        // kernel. That code checks each access against arrays that lie in the memory.
        ok(unsafe {
            let no_extra = std::ptr::null_mut();
            sys::cuLaunchKernelEx(&raw const config, module.function, arguments.as_mut_ptr(), no_extra)
        })?;
        // SAFETY: as above.
        ok(unsafe { sys::cuEventRecord(self.events[1], self.stream) })?;
        Ok(())
    }

    /// Blocks of few threads, where there would be fewer blocks than multiprocessors.
    fn block_threads(&self, module: &Module, count: u64) -> u32 {
        let share = count.div_ceil(self.multiprocessors.into()).next_multiple_of(32);
        u32::try_from(share).unwrap_or(u32::MAX).min(module.block_threads)
    }

    /// Waits until the threads have ended, but not longer than `timeout`. How long they ran, if they have ended.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Duration>, UserError> {
        let begin = Instant::now();
        loop {
            // SAFETY: the event is alive; the call does not block.
            let state = unsafe { sys::cuEventQuery(self.events[1]) };
            if state != CUresult::CUDA_ERROR_NOT_READY {
                ok(state)?;
                let ms = driver::elapsed_ms(self.events[0], self.events[1]).unwrap_or(0.0);
                return Ok(Some(Duration::try_from_secs_f32(ms / 1e3).unwrap_or_default()));
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return Ok(None);
            }
            if waited > SPIN {
                std::thread::sleep(NAP);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Ends the running threads early. Those that do not loop run to their end.
    pub fn stop(&mut self) {
        self.set_stop(1);
    }

    fn set_stop(&self, value: u32) {
        // SAFETY: pinned memory of this size that lives as long as the device; kernels read it as volatile.
        unsafe { self.stop.write_volatile(value) };
    }

    /// The record of the fault of the lowest thread that had one since the memory was allocated.
    pub fn fault(&mut self) -> Result<Option<[u8; accelerd_ir::kernel::FaultRecord::SIZE]>, UserError> {
        let mut bytes = [0; Launch::FAULT_SIZE];
        self.download(self.fault_address(), &mut bytes)?;
        let record = *bytes.first_chunk().expect("a record comes first");
        Ok(Launch::fault(&bytes).map(|_| record))
    }
}

/// Bytes at an address that is a multiple of 8.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
