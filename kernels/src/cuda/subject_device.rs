//! Runs kernels of clients that are CUDA C++: nothing checks what they do. It belongs in a process that serves one client and then ends,
//! because a kernel can write all memory of its context, and an error of one ends CUDA for its process.

use std::{
    ffi::{CString, c_int, c_void},
    time::{Duration, Instant},
};

use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute, CUlimit, CUresult};

use super::{
    context::Context,
    device::{PhysicalDevice, attribute},
    driver::{self, event, ok},
    user_device::UserError,
};

/// The granularity at which a context maps memory: bytes after an allocation within it can be written without a fault.
const GRANULE: u64 = 2 << 20;

/// The heap of device code and the buffer of its output. The driver rounds up to the least that it supports.
const DEVICE_HEAP_BYTES: usize = 4 << 10;
const PRINTF_BYTES: usize = 4 << 10;

/// Memory that is overwritten before each launch, so that it finds nothing in the L2 cache, and the number of times. While that runs, the
/// launch is enqueued: its time has no gap of the host.
const SCRATCH_BYTES: usize = 64 << 20;
const SCRATCH_WRITES: usize = 8;

/// Dynamic shared memory that needs no attribute.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(100);

/// A launch of a client's kernel.
#[derive(Clone, Copy, Debug)]
pub struct SubjectLaunch<'a> {
    /// Name of the kernel.
    pub entry: &'a str,
    /// The bytes of each parameter.
    pub params: &'a [Vec<u8>],
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// The outcome of a launch. After the last two the process cannot launch anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectOutcome {
    /// The threads have ended; how long the GPU ran them.
    Ended(Duration),
    /// The GPU cannot launch it.
    NotLaunched(String),
    /// The GPU ended it with an error.
    Fault(String),
    /// It did not end in time, and still runs.
    Timeout,
}

/// A GPU for one client's kernels, in a context of this process. Its resources end with the process.
pub struct SubjectDevice {
    max_resident_threads: u64,
    max_memory: u64,
    stream: sys::CUstream,
    /// Around a launch.
    events: [sys::CUevent; 2],
    scratch: u64,
    /// Address, capacity and the bytes that are in use.
    memory: Option<(u64, u64, u64)>,
}

/// A module that is unloaded when it is dropped. Launches from it must have ended.
struct Module(sys::CUmodule);

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once.
        let _ = unsafe { sys::cuModuleUnload(self.0) };
    }
}

impl SubjectDevice {
    /// Creates a context on a GPU. A launch gets at most `max_memory` bytes.
    pub fn open(ordinal: u32, max_memory: u64) -> Result<Self, String> {
        driver::start()?;
        let physical = PhysicalDevice::get(ordinal)?;
        Self::create(&physical, max_memory).map_err(driver::describe)
    }

    fn create(physical: &PhysicalDevice, max_memory: u64) -> Result<Self, CUresult> {
        let context = Context::retain(physical.handle)?;
        ok(context.bind())?;
        std::mem::forget(context);
        for (limit, bytes) in [
            (CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, DEVICE_HEAP_BYTES),
            (CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, PRINTF_BYTES),
        ] {
            // SAFETY: a limit of the current context, in which no kernel has run.
            ok(unsafe { sys::cuCtxSetLimit(limit, bytes) })?;
        }
        let attribute = |which| attribute(physical.handle, which).map(u64::from);
        let multiprocessors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let resident = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
        let mut stream = std::ptr::null_mut();
        let mut scratch = 0;
        // SAFETY: writes one handle; the context is current.
        ok(unsafe { sys::cuStreamCreate(&raw mut stream, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) })?;
        // SAFETY: writes one address; the context is current.
        ok(unsafe { sys::cuMemAlloc_v2(&raw mut scratch, SCRATCH_BYTES) })?;
        let events = [event(sys::CUevent_flags::CU_EVENT_DEFAULT)?, event(sys::CUevent_flags::CU_EVENT_DEFAULT)?];
        let max_resident_threads = multiprocessors * resident;
        Ok(Self { max_resident_threads, max_memory, stream, events, scratch, memory: None })
    }

    /// The address of `bytes` of zeros, in place of the memory of the launch before. Whatever can be written around them is zero as well.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, UserError> {
        if bytes > self.max_memory {
            return Err(UserError::OutOfMemory);
        }
        let needed = bytes.max(1).next_multiple_of(GRANULE);
        let fitting = self.memory.take().map(|(address, capacity, _)| (address, capacity));
        let (address, capacity) = match fitting {
            Some((address, capacity)) if capacity >= needed => (address, capacity),
            other => (Self::replace(other.map(|(address, _)| address), needed)?, needed),
        };
        self.memory = Some((address, capacity, bytes));
        self.clear(address, capacity)?;
        self.synchronize()?;
        Ok(address)
    }

    fn replace(old: Option<u64>, bytes: u64) -> Result<u64, UserError> {
        if let Some(old) = old {
            // SAFETY: allocated below, freed once; what used it has ended.
            ok(unsafe { sys::cuMemFree_v2(old) })?;
        }
        let mut address = 0;
        let length = usize::try_from(bytes).map_err(|_| UserError::OutOfMemory)?;
        // SAFETY: writes one address; the context is current.
        ok(unsafe { sys::cuMemAlloc_v2(&raw mut address, length) })?;
        Ok(address)
    }

    fn clear(&self, address: u64, bytes: u64) -> Result<(), UserError> {
        let length = usize::try_from(bytes).map_err(|_| UserError::OutOfMemory)?;
        // SAFETY: the allocation at the address has this many bytes.
        Ok(ok(unsafe { sys::cuMemsetD8Async(address, 0, length, self.stream) })?)
    }

    /// The address of bytes `offset` of the memory.
    fn address(&self, offset: u64, length: usize) -> Result<u64, UserError> {
        let outside = || UserError::Failed("an access outside of the memory of the launch".to_owned());
        let (address, _, bytes) = self.memory.ok_or_else(outside)?;
        let end = offset.checked_add(length as u64).filter(|end| *end <= bytes);
        end.map(|_| address + offset).ok_or_else(outside)
    }

    /// Writes to the memory.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), UserError> {
        let to = self.address(offset, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: the memory has this many bytes there; the host's live until the stream is synchronised.
            ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.stream) })?;
            self.synchronize()?;
        }
        Ok(())
    }

    /// Reads from the memory, after the launch has ended.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), UserError> {
        let from = self.address(offset, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: as in `write`.
            ok(unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from, bytes.len(), self.stream) })?;
            self.synchronize()?;
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), UserError> {
        // SAFETY: the stream is alive.
        Ok(ok(unsafe { sys::cuStreamSynchronize(self.stream) })?)
    }

    /// Reloads a module, so that its variables have their initial values, and launches its kernel. The image is a CUBIN, or PTX that ends
    /// with a zero.
    pub fn run(&mut self, image: &[u8], launch: &SubjectLaunch<'_>, timeout: Duration) -> SubjectOutcome {
        match self.prepare(image, launch) {
            Ok((module, function)) => {
                let outcome = self.launch(function, launch, timeout);
                if outcome == SubjectOutcome::Timeout {
                    // The driver would wait for the launch.
                    std::mem::forget(module);
                }
                outcome
            }
            Err(UserError::Lost(reason)) => SubjectOutcome::Fault(reason),
            Err(error) => SubjectOutcome::NotLaunched(error.to_string()),
        }
    }

    fn prepare(&self, image: &[u8], launch: &SubjectLaunch<'_>) -> Result<(Module, sys::CUfunction), UserError> {
        let failed = |reason: String| Err(UserError::Failed(reason));
        if image.last() != Some(&0) && !image.starts_with(b"\x7fELF") {
            return failed("the image is neither machine code nor PTX".to_owned());
        }
        let entry = CString::new(launch.entry).map_err(|error| UserError::Failed(error.to_string()))?;
        let mut handle = std::ptr::null_mut();
        let mut function = std::ptr::null_mut();
        // SAFETY: the image is a CUBIN, or text that ends with a zero; the driver copies it.
        ok(unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) })?;
        let module = Module(handle);
        // SAFETY: writes one handle, which lives as long as its module.
        let result = unsafe { sys::cuModuleGetFunction(&raw mut function, module.0, entry.as_ptr()) };
        if result == CUresult::CUDA_ERROR_NOT_FOUND {
            return failed(format!("the source has no kernel {:?} with C linkage", launch.entry));
        }
        ok(result)?;
        let sizes: Vec<_> = launch.params.iter().map(Vec::len).collect();
        if let Some(result) = driver::function_params(function).filter(|result| *result != sizes) {
            return failed(format!("the kernel has parameters of {result:?} bytes, expected {sizes:?}"));
        }
        let local = function_attribute(function, CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
        // The driver allocates the stacks of all threads that can be resident.
        if local.saturating_mul(self.max_resident_threads) > self.max_memory {
            return failed(format!("the kernel needs {local} bytes of local memory for each thread"));
        }
        if launch.shared_bytes > DEFAULT_SHARED_BYTES {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = c_int::try_from(launch.shared_bytes).unwrap_or(c_int::MAX);
            // SAFETY: the function is alive.
            ok(unsafe { sys::cuFuncSetAttribute(function, attribute, bytes) })?;
        }
        Ok((module, function))
    }

    fn launch(&self, function: sys::CUfunction, launch: &SubjectLaunch<'_>, timeout: Duration) -> SubjectOutcome {
        match self.start(function, launch).map_err(UserError::from) {
            Ok(()) => {}
            Err(UserError::Lost(reason)) => return SubjectOutcome::Fault(reason),
            Err(error) => return SubjectOutcome::NotLaunched(error.to_string()),
        }
        match self.wait(timeout) {
            Ok(true) => {}
            Ok(false) => return SubjectOutcome::Timeout,
            Err(failed) => return SubjectOutcome::Fault(driver::describe(failed)),
        }
        // Nothing that the kernel started may outlive its time.
        // SAFETY: a context is current.
        if let Err(failed) = ok(unsafe { sys::cuCtxSynchronize() }) {
            return SubjectOutcome::Fault(driver::describe(failed));
        }
        let ms = driver::elapsed_ms(self.events[0], self.events[1]).unwrap_or(0.0);
        SubjectOutcome::Ended(Duration::try_from_secs_f32(ms / 1e3).unwrap_or_default())
    }

    /// Enqueues a launch between two events.
    fn start(&self, function: sys::CUfunction, launch: &SubjectLaunch<'_>) -> Result<(), CUresult> {
        let params: Vec<_> = launch.params.iter().map(|bytes| words(bytes)).collect();
        let mut arguments: Vec<*mut c_void> = params.iter().map(|words| words.as_ptr().cast_mut().cast()).collect();
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared_bytes,
            hStream: self.stream,
            attrs: std::ptr::null_mut(),
            numAttrs: 0,
        };
        for _ in 0..SCRATCH_WRITES {
            // SAFETY: the allocation has this many bytes.
            ok(unsafe { sys::cuMemsetD8Async(self.scratch, 0, SCRATCH_BYTES, self.stream) })?;
        }
        // SAFETY: event and stream are alive and of the current context.
        ok(unsafe { sys::cuEventRecord(self.events[0], self.stream) })?;
        // SAFETY: the driver copies the arguments, whose number and sizes are those of the kernel. What the kernel does with them stays in
        // this process and its context.
        ok(unsafe {
            let no_extra = std::ptr::null_mut();
            sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), no_extra)
        })?;
        // SAFETY: as above.
        ok(unsafe { sys::cuEventRecord(self.events[1], self.stream) })
    }

    /// Waits until the launch has ended, but not longer than `timeout`; whether it has ended.
    fn wait(&self, timeout: Duration) -> Result<bool, CUresult> {
        let begin = Instant::now();
        loop {
            // SAFETY: the event is alive; the call does not block.
            let state = unsafe { sys::cuEventQuery(self.events[1]) };
            if state != CUresult::CUDA_ERROR_NOT_READY {
                return ok(state).map(|()| true);
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return Ok(false);
            }
            if waited > SPIN {
                std::thread::sleep(NAP);
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

fn function_attribute(function: sys::CUfunction, which: CUfunction_attribute) -> Result<u64, CUresult> {
    let mut value: c_int = 0;
    // SAFETY: writes one int; the function is alive.
    ok(unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) })?;
    Ok(u64::try_from(value).unwrap_or(0))
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
