//! Executes plans on a GPU.

mod arg_reduce;
mod buffers;
#[cfg(test)]
mod compile;
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
mod softmax;
