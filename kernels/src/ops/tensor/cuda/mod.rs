//! Executes plans on a GPU.

mod buffers;
#[cfg(test)]
mod compile;
#[cfg(test)]
mod device_tests;
pub(crate) mod executor;
mod map;
mod matmul;
mod pace;
mod prelude;
