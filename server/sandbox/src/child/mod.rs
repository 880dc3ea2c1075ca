//! The child process: receives modules and calls, runs them, answers.

mod active_call;
mod active_launch;
mod cache;
mod clock;
mod confine;
mod constants;
mod cuda;
mod data;
mod driver;
mod driver_runner;
mod engine;
mod inspect;
mod instance_runner;
mod launch_runner;
mod pace;
mod progress;
mod purity;
mod serve;
mod slice_columns;
mod subject;
mod undo;

pub(crate) use clock::OUT_OF_MEMORY_EXIT;
pub use confine::missing_confinement;
#[doc(hidden)]
pub use confine::{Access, confine_to, limit_resources};
pub use cuda::{
    CudaCompiler, CudaDevice, CudaError, CudaRuntime, CudaSubjectDevice, CudaSubjectLaunch, CudaThreads, NoCuda,
};
pub use serve::main;

/// Why the child ends.
type Error = Box<dyn std::error::Error + Send + Sync>;
