//! Executes plans on a GPU.

mod arg_reduce;
mod buffers;
#[cfg(test)]
mod compile;
mod headers;
mod launches;
mod map;
mod norm;
mod reduce;
mod row;
mod softmax;
