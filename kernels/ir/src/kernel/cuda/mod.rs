//! Emits kernels as CUDA C++: [`device`] code for a host that does not trust the kernel, and programs of their own for readers and nvcc.
//!
//! Both have the names and the structure of the source: expressions are trees, loops are `for` loops where their range is simple, a load
//! stands where its only reader is. Emission is deterministic, and takes time in proportion to the kernel.
//!
//! **Device code** follows [`prelude`] in a translation unit. Its `__global__` function takes a [`Launch`] and a block of parameters that
//! the host fills by [`DeviceCode::layout`]:
//!
//! ```
//! use accelerd_ir::kernel::cuda::{Launch, Options, device, prelude};
//! # use accelerd_ir::kernel::Kernel;
//! # let kernel = Kernel { name: "noop".into(), grid_dims: 1, params: vec![], locals: vec![], body: vec![], sites: vec![] };
//! let code = device(&kernel, Options::default());
//! let unit = [prelude(), code.source.clone()].join("\n");
//! let block = vec![0; code.layout().size];
//! let launch = Launch { stop: 0, fault: 0x7000, first: 0, count: 100, loop_budget: 1 << 20, grid: [100, 1, 1, 1] };
//! // Compile `unit` with -fmad=false; launch `code.entry` with the arguments `launch.to_bytes()` and `block`.
//! ```
//!
//! **Numerics.** Without contraction to fused multiply-adds, exact operations have the bits of the interpreter; see
//! [`Kernel::is_bit_exact`](crate::kernel::Kernel::is_bit_exact). Atomic sums of f32 are the device's `atomicAdd`, which may flush
//! subnormal numbers to zero. Overflow of integers, shifts and casts are never undefined in the emitted C++.

mod access;
mod assigned;
mod contraction;
mod cpp_expr;
mod declare;
mod device;
mod emitter;
mod exact;
mod expr;
mod layout;
mod names;
mod param_block;
mod read_ahead;
mod snippets;
mod standalone;
mod stmt;
mod usage;

pub use device::{DeviceCode, Options, device, one_thread_prelude, prelude};
pub use exact::Exactness;
pub use layout::{Launch, Layout, ParamLayout};
pub use param_block::ParamBlock;
pub use standalone::{Example, Files, standalone};
