//! The interface to CUDA that a child needs. The program that becomes a child implements it: this crate links no driver.

use std::{path::PathBuf, time::Duration};

use crate::{
    cuda::CudaCode,
    protocol::{FAULT_RECORD_BYTES, SubjectOutcome},
};

/// CUDA, as far as it is installed.
pub trait CudaRuntime: Sync {
    /// Loads the compiler, which is searched in these folders first. A quick one takes less time, and its code more. An error says why there
    /// is none.
    fn compiler(&self, library_paths: &[PathBuf], quick: bool) -> Result<Box<dyn CudaCompiler>, String>;

    /// Creates a context on a GPU, for launches of at most `memory_bytes`. An error says why it cannot be used.
    fn device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaDevice>, String>;

    /// Creates a context on a GPU, for launches of CUDA C++ of a client, of at most `memory_bytes`.
    fn subject_device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaSubjectDevice>, String>;
}

/// The compiler of CUDA C++.
pub trait CudaCompiler {
    /// Compiles a source for an architecture, given by its compute capability. `entry` is the kernel whose resources are reported, in a source
    /// of a client; there is none for generated code. An error is the compiler's log.
    fn compile(&self, source: &str, capability: (u32, u32), entry: Option<&str>) -> Result<CudaCode, String>;
}

/// A GPU for CUDA C++ of a client. It has the memory of one launch.
pub trait CudaSubjectDevice {
    /// Returns the address of `bytes` of zeros, which take the place of the memory of the last launch.
    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError>;

    /// Writes to the memory.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError>;

    /// Reads from the memory.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError>;

    /// Loads code anew, so that its variables have their initial values, and launches its kernel.
    fn run(&mut self, image: &[u8], launch: &CudaSubjectLaunch, timeout: Duration) -> SubjectOutcome;
}

/// A launch of CUDA C++ of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSubjectLaunch {
    /// Name of the kernel.
    pub entry: String,
    /// The bytes of each parameter.
    pub params: Vec<Vec<u8>>,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// A GPU. It has the memory of one launch, and runs one chunk of threads at a time.
pub trait CudaDevice {
    /// Loads compiled code, and returns a number for its entry.
    fn load(&mut self, image: &[u8], entry: &str) -> Result<u64, CudaError>;

    /// Unloads code.
    fn unload(&mut self, kernel: u64);

    /// Returns the address of `bytes` of zeros, which take the place of the memory of the last launch, and forgets its fault.
    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError>;

    /// Writes to the memory.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError>;

    /// Reads from the memory.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError>;

    /// Starts threads with a parameter block.
    fn start(&mut self, kernel: u64, threads: &CudaThreads, params: &[u8]) -> Result<(), CudaError>;

    /// Waits until the threads have ended, at most for `timeout`. How long they ran, if they have ended.
    fn wait(&mut self, timeout: Duration) -> Result<Option<Duration>, CudaError>;

    /// Asks the threads to end early.
    fn stop(&mut self);

    /// The record of the fault of the lowest thread that had one in this launch.
    fn fault(&mut self) -> Result<Option<[u8; FAULT_RECORD_BYTES]>, CudaError>;
}

/// Why a device does not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no memory for it.
    #[error("out of device memory")]
    OutOfMemory,
    /// The code or the request is wrong; the device works.
    #[error("{0}")]
    Failed(String),
    /// The process cannot use the device any more.
    #[error("the device is lost: {0}")]
    Lost(String),
}

/// Consecutive threads of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaThreads {
    /// The first one, counted row-major.
    pub first: u64,
    /// Their number, at least 1.
    pub count: u64,
    /// Iterations that each may run, of all its loops together.
    pub loop_budget: u64,
    /// Extents of the grid; 1 beyond its dimensions.
    pub grid: [u32; 4],
}

/// The runtime of programs without CUDA.
#[derive(Clone, Copy, Debug)]
pub struct NoCuda;

impl CudaRuntime for NoCuda {
    fn compiler(&self, _: &[PathBuf], _: bool) -> Result<Box<dyn CudaCompiler>, String> {
        Err("this program has no CUDA".to_owned())
    }

    fn device(&self, _: u32, _: u64) -> Result<Box<dyn CudaDevice>, String> {
        Err("this program has no CUDA".to_owned())
    }

    fn subject_device(&self, _: u32, _: u64) -> Result<Box<dyn CudaSubjectDevice>, String> {
        Err("this program has no CUDA".to_owned())
    }
}
