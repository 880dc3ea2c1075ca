//! Executes plans on a GPU.

mod arg_reduce;
mod buffers;
mod headers;
mod launches;
mod reduce;
