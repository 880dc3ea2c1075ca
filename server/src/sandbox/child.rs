//! The child process, to which this program lends its CUDA driver.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use accelerd_kernels::cuda::{
    Arch, SubjectDevice, SubjectLaunch, SubjectOutcome as Outcome, UserCode, UserCompiler, UserDevice, UserError,
    UserThreads,
};
use accelerd_sandbox::{
    CudaCode, CudaResources, SubjectOutcome,
    child::{
        self, CudaCompiler, CudaDevice, CudaError, CudaRuntime, CudaSubjectDevice, CudaSubjectLaunch, CudaThreads,
    },
};

/// Runs this process as a child that runs code of clients, until its parent ends it.
pub fn main() -> ExitCode {
    child::main(&Cuda)
}

struct Cuda;

struct Compiler(UserCompiler);

struct Gpu(UserDevice);

struct SubjectGpu(SubjectDevice);

impl CudaRuntime for Cuda {
    fn compiler(&self, library_paths: &[PathBuf], quick: bool) -> Result<Box<dyn CudaCompiler>, String> {
        Ok(Box::new(Compiler(UserCompiler::find(library_paths, quick)?)))
    }

    fn device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaDevice>, String> {
        Ok(Box::new(Gpu(UserDevice::open(ordinal, memory_bytes)?)))
    }

    fn subject_device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaSubjectDevice>, String> {
        Ok(Box::new(SubjectGpu(SubjectDevice::open(ordinal, memory_bytes)?)))
    }
}

impl CudaCompiler for Compiler {
    fn compile(&self, source: &str, (major, minor): (u32, u32), entry: Option<&str>) -> Result<CudaCode, String> {
        let arch = Arch::new(major, minor);
        let UserCode { image, ptx, resources } = match entry {
            Some(entry) => self.0.compile_source(source, entry, arch)?,
            None => self.0.compile(source, arch)?,
        };
        let resources = resources.map(|needs| CudaResources {
            registers: needs.registers,
            shared_bytes: needs.shared_bytes,
            stack_bytes: needs.stack_bytes,
            spill_store_bytes: needs.spill_store_bytes,
            spill_load_bytes: needs.spill_load_bytes,
            max_block_threads: needs.max_block_threads,
        });
        Ok(CudaCode { image, ptx, resources })
    }
}

impl CudaDevice for Gpu {
    fn load(&mut self, image: &[u8], entry: &str) -> Result<u64, CudaError> {
        self.0.load(image, entry).map_err(error)
    }

    fn unload(&mut self, kernel: u64) {
        self.0.unload(kernel);
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError> {
        self.0.allocate(bytes).map_err(error)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError> {
        self.0.write(at, bytes).map_err(error)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.0.read(at, bytes).map_err(error)
    }

    fn start(&mut self, kernel: u64, threads: &CudaThreads, params: &[u8]) -> Result<(), CudaError> {
        let CudaThreads { first, count, loop_budget, grid } = *threads;
        self.0.start(kernel, &UserThreads { first, count, loop_budget, grid }, params).map_err(error)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Duration>, CudaError> {
        self.0.wait(timeout).map_err(error)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn fault(&mut self) -> Result<Option<[u8; 40]>, CudaError> {
        self.0.fault().map_err(error)
    }
}

impl CudaSubjectDevice for SubjectGpu {
    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError> {
        self.0.allocate(bytes).map_err(error)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError> {
        self.0.write(at, bytes).map_err(error)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.0.read(at, bytes).map_err(error)
    }

    fn run(&mut self, image: &[u8], launch: &CudaSubjectLaunch, timeout: Duration) -> SubjectOutcome {
        let CudaSubjectLaunch { entry, params, grid, block, shared_bytes } = launch;
        let launch = SubjectLaunch { entry, params, grid: *grid, block: *block, shared_bytes: *shared_bytes };
        match self.0.run(image, &launch, timeout) {
            Outcome::Ended(time) => SubjectOutcome::Ended(time),
            Outcome::NotLaunched(reason) => SubjectOutcome::NotLaunched(reason),
            Outcome::Fault(reason) => SubjectOutcome::Fault(reason),
            Outcome::Timeout => SubjectOutcome::Timeout,
        }
    }
}

fn error(error: UserError) -> CudaError {
    match error {
        UserError::OutOfMemory => CudaError::OutOfMemory,
        UserError::Failed(reason) => CudaError::Failed(reason),
        UserError::Lost(reason) => CudaError::Lost(reason),
    }
}
