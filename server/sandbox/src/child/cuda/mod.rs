//! Children for CUDA: one that compiles, one for each GPU that runs what was compiled, and ones that run CUDA C++ of clients.

mod active;
mod chunk;
mod compiler;
mod device;
mod runtime;
mod subject;

pub(super) use compiler::compile_on;
pub(super) use device::launch_on;
pub use runtime::{
    CudaCompiler, CudaDevice, CudaError, CudaRuntime, CudaSubjectDevice, CudaSubjectLaunch, CudaThreads, NoCuda,
};
pub(super) use subject::run_subjects_on;
