//! Graphs of tensor operations: executes the plans of `accelerd-tensor`.

mod cpu;
pub(crate) mod cuda;
mod op;
pub mod oracle;

pub use op::{Execute, ExecuteRequest};
