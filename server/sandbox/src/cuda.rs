//! Kernels compiled for GPUs.

use serde::{Deserialize, Serialize};

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaCode {
    /// Code for a GPU: machine code, or PTX for an architecture that is newer than the compiler.
    pub image: Vec<u8>,
    /// PTX.
    pub ptx: String,
    /// Resources of the kernel; `None` if there is no machine code.
    pub resources: Option<CudaResources>,
}

/// Resources of a compiled kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Stack of a thread, in local memory.
    pub stack_bytes: u32,
    /// Bytes of the instructions that write registers to the stack for want of registers.
    pub spill_store_bytes: u32,
    /// Bytes of the instructions that read them back.
    pub spill_load_bytes: u32,
    /// The most threads of a block, by the number of registers.
    pub max_block_threads: u32,
}
