//! What accelerd computes, on the CPU and on CUDA.
//!
//! This crate knows no runtime, no protocol and no configuration file: it takes validated matrices, runs them on a
//! [`Backend`], and returns results or an [`OpError`]. When and where a batch runs is the engine's business.

pub mod backend;
pub mod cpu;
pub mod cuda;
mod error;
pub mod matrix;
pub mod op;
pub mod ops;

pub use backend::{
    Backend, Choice, Device, DeviceId, DeviceInfo, Discovered, KernelStats, LeftStats, PoolStats, Settings,
};
pub use cpu::observe::{Observer, observe_kernels};
pub use error::{DiscoverError, OpError};
pub use matrix::{Matrix, ShapeError};
pub use op::{Op, Size};

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian on the wire and are read in place");
