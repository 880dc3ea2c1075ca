//! Executes plans on a GPU.

mod buffers;
