//! Executes plans on a GPU.

mod arg_reduce;
mod buffers;
#[cfg(test)]
mod compile;
#[cfg(test)]
mod device_tests;
pub(crate) mod executor;
mod headers;
mod launches;
mod map;
mod matmul;
mod norm;
mod pace;
mod prelude;
mod reduce;
mod row;
#[cfg(test)]
mod row_device_tests;
mod softmax;
