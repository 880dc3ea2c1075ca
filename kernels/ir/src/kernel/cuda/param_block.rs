//! The parameter block of a launch whose arrays lie in one piece of the device's memory.

use super::layout::{Layout, ParamLayout};
use crate::kernel::wasm::{ArgumentLayout, MemoryImage, RESERVED, SHAPE, STRIDES};
use crate::kernel::{Kernel, ParamType};

/// The parameter block of a launch that a [`MemoryImage`] lays out: device code finds arrays where a module would, from the start of its
/// memory on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamBlock {
    /// The block, with addresses from the start of the memory.
    pub bytes: Vec<u8>,
    /// Where the block has addresses, 8 bytes each: the host adds that of the memory.
    pub addresses: Vec<usize>,
}

impl ParamBlock {
    /// The block for the arguments of `image`, which is one of the same kernel. The kernel needs no body.
    pub fn new<B>(kernel: &Kernel, image: &MemoryImage<B>) -> Self {
        let layout = Layout::new(kernel);
        let arguments = ArgumentLayout::new(kernel);
        let mut block = Self { bytes: vec![0; layout.size], addresses: vec![] };
        let start = (image.arguments - RESERVED) as usize;
        for ((param, to), from) in kernel.params.iter().zip(&layout.params).zip(&arguments.offsets) {
            let argument = &image.head[start + *from as usize..];
            match (&param.ty, to) {
                (ParamType::Value(element), ParamLayout::Value(offsets)) => {
                    for (component, to) in element.components.iter().zip(offsets) {
                        let from = component.offset as usize;
                        block.write(*to, &argument[from..from + component.dtype.size()]);
                    }
                }
                (ParamType::Array(array), ParamLayout::Array { data, strides, shape }) => {
                    block.addresses.push(*data);
                    block.write(*data, &argument[..4]);
                    for axis in 0..usize::from(array.dims) {
                        // Strides of an image are not negative.
                        block.write(strides + 8 * axis, &argument[STRIDES as usize + 4 * axis..][..4]);
                        block.write(shape + 4 * axis, &argument[SHAPE as usize + 4 * axis..][..4]);
                    }
                }
                (ParamType::Value(_), ParamLayout::Array { .. }) | (ParamType::Array(_), ParamLayout::Value(_)) => {
                    unreachable!("the layout is that of the kernel")
                }
            }
        }
        block
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}
