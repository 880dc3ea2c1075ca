//! Executes plans on a GPU.

mod arg_reduce;
mod attention;
pub(super) mod benchmark;
mod buffers;
#[cfg(test)]
mod compile;
mod conv;
mod dims;
pub(super) mod download;
pub(crate) mod executor;
mod graph_cache;
mod headers;
mod index;
mod launches;
mod map;
mod matmul;
mod norm;
mod operands;
mod pingpong;
mod pool;
mod prelude;
mod prepared;
mod reduce;
mod row;
mod row_source;
mod scan;
mod softmax;
mod sort;
mod status;
mod step;
mod words;
