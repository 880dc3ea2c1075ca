//! The memory layout of the arguments that a launch passes to emitted device code. It is little-endian, as the device is.

use crate::kernel::{FaultRecord, Kernel, ParamType};

/// Where the arguments lie in the parameter block of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the block, a multiple of 8. Devices before CUDA 12.1 take up to 4096 bytes of parameters, with [`Launch::SIZE`].
    pub size: usize,
    /// The layout of each parameter.
    pub params: Vec<ParamLayout>,
}

/// Where an argument lies in the parameter block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamLayout {
    /// Where each component of a value lies.
    Value(Vec<usize>),
    /// An array: the address of its first element, 8 bytes; strides in bytes, i64 each, of which the last has the value of an i32; extents, i32
    /// each.
    Array {
        /// Where the address lies.
        data: usize,
        /// Where the first stride lies.
        strides: usize,
        /// Where the first extent lies.
        shape: usize,
    },
}

impl Layout {
    /// The layout for a kernel, whose body does not matter.
    pub fn new(kernel: &Kernel) -> Self {
        let mut size = 0;
        let mut take = |bytes: usize, alignment: usize| {
            let offset = usize::next_multiple_of(size, alignment);
            size = offset + bytes;
            offset
        };
        let mut params = vec![];
        for param in &kernel.params {
            params.push(match &param.ty {
                ParamType::Value(element) => {
                    let sizes = element.components.iter().map(|component| component.dtype.size());
                    ParamLayout::Value(sizes.map(|size| take(size, size)).collect())
                }
                ParamType::Array(array) => {
                    let dims = usize::from(array.dims);
                    let data = take((8 + 12 * dims).next_multiple_of(8), 8);
                    ParamLayout::Array { data, strides: data + 8, shape: data + 8 + 8 * dims }
                }
            });
        }
        Self { size: size.next_multiple_of(8).max(8), params }
    }
}

/// The first parameter of each emitted kernel: which threads a launch runs, and where it reports.
///
/// A grid of the kernel is run by one launch or several, each of consecutive threads, by any number of blocks of any number of
/// threads: a thread of the device runs every so many threads of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Address of a word of 32 bits, in memory of the host that is mapped, or 0. Once the word is not 0 the launch ends early: threads
    /// look at it every 4096 iterations of their loops, and at least every 64 threads of the grid.
    pub stop: u64,
    /// Address of [`Self::FAULT_SIZE`] bytes of the device's memory, aligned to 8.
    pub fault: u64,
    /// The first thread, by its row-major position in the grid.
    pub first: u64,
    /// Number of threads.
    pub count: u64,
    /// Iterations that each thread may run, of all its loops together.
    pub loop_budget: u64,
    /// Extents of the grid; 1 beyond its dimensions.
    pub grid: [u32; 4],
}

impl Launch {
    /// Bytes in memory.
    pub const SIZE: usize = 56;
    /// Bytes of the memory for a fault.
    pub const FAULT_SIZE: usize = 56;

    /// The launch in memory, aligned to 8.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let longs = [self.stop, self.fault, self.first, self.count, self.loop_budget];
        for (to, long) in bytes.chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&long.to_le_bytes());
        }
        for (to, extent) in bytes[40..].chunks_exact_mut(4).zip(self.grid) {
            to.copy_from_slice(&extent.to_le_bytes());
        }
        bytes
    }

    /// The content of the memory for a fault before the first launch over a grid.
    pub fn no_fault() -> [u8; Self::FAULT_SIZE] {
        let mut bytes = [0; Self::FAULT_SIZE];
        bytes[..8].fill(0xff);
        bytes[40..48].fill(0xff);
        bytes
    }

    /// The fault of the lowest thread that had one, from the memory for it after launches over a grid.
    pub fn fault(bytes: &[u8; Self::FAULT_SIZE]) -> Option<FaultRecord> {
        let (record, _) = bytes.split_first_chunk().expect("a record comes first");
        let record = FaultRecord::from_bytes(record);
        (record.kind != 0).then_some(record)
    }

    /// Returns true if a launch ended early because of [`Self::stop`], from the memory for its fault.
    pub fn is_stopped(bytes: &[u8; Self::FAULT_SIZE]) -> bool {
        bytes[52..].iter().any(|byte| *byte != 0)
    }
}
