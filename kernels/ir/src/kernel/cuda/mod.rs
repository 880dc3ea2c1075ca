//! Emits kernels as CUDA C++: device code for a host that launches it, and programs of their own.

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
mod snippets;
mod standalone;
mod stmt;
mod usage;

pub use device::{DeviceCode, Options, device, prelude};
pub use exact::{Exactness, binary_ulp, unary_ulp};
pub use layout::{Launch, Layout, ParamLayout};
pub use standalone::{Example, Files, standalone};
