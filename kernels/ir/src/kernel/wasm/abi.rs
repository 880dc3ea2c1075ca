//! Where arguments lie in the argument block.

use crate::kernel::{Kernel, ParamType};

/// Bytes of an array in the argument block.
pub const ARRAY_SIZE: u32 = 36;
/// Bytes at the start of memory that belong to the module.
pub const RESERVED: u32 = 64;

/// Offset of an array's shape from its start.
pub(in crate::kernel) const SHAPE: u32 = 4;
/// Offset of an array's strides from its start.
pub(in crate::kernel) const STRIDES: u32 = 20;

/// The layout of the argument block of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentLayout {
    /// Where each argument starts.
    pub offsets: Vec<u32>,
    /// Bytes of the block, a multiple of 8.
    pub size: u32,
}

impl ArgumentLayout {
    /// The layout for a kernel that is well formed.
    pub fn new(kernel: &Kernel) -> Self {
        let mut end: u32 = 0;
        let mut offsets = Vec::with_capacity(kernel.params.len());
        for param in &kernel.params {
            let (size, alignment) = match &param.ty {
                ParamType::Value(element) => (element.size, element.alignment()),
                ParamType::Array(_) => (ARRAY_SIZE, 4),
            };
            let offset = end.next_multiple_of(alignment);
            offsets.push(offset);
            end = offset + size;
        }
        Self { offsets, size: end.next_multiple_of(8) }
    }
}
