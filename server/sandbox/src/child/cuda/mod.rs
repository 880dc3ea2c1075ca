//! Children for CUDA: one that compiles, and one for each GPU that runs what was compiled.

mod active;
mod chunk;
mod compiler;
mod device;
mod runtime;

pub(super) use compiler::compile_on;
pub(super) use device::launch_on;
pub use runtime::{CudaCompiler, CudaDevice, CudaError, CudaRuntime, CudaThreads, NoCuda};
