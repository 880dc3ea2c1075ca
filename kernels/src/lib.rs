//! The computations of accelerd, on the CPU and on CUDA.
//!
//! This crate knows no runtime, protocol or configuration file: it runs validated inputs on a [`Backend`], and returns
//! results or an [`OpError`]. The engine decides when and where a batch runs.

mod backend;
pub mod cpu;
pub mod cuda;
mod device;
mod discovery;
mod error;
mod exit;
mod load_progress;
pub mod matrix;
pub mod op;
pub mod ops;
mod preemption;
mod scheduling;
mod single_flight;

pub use accelerd_ledger as ledger;
pub use backend::{Backend, Device};
pub use cpu::observe::{Observer, observe_kernels};
pub use device::{Choice, DeviceId, DeviceInfo, FallbackStats, KernelStats, PoolStats, Settings};
pub use discovery::{Discovered, discover};
pub use error::{DiscoverError, LossScope, OpError};
pub use exit::exit_at_once;
pub use load_progress::LoadProgress;
pub use matrix::{Matrix, ShapeError};
pub use op::{Op, Size};
pub use preemption::PreemptionHook;
pub use scheduling::use_short_slice;

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian on the wire and are read in place");
