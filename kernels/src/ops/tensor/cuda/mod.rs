//! Executes plans on a GPU.

mod buffers;
#[cfg(test)]
mod compile;
mod map;
