//! Products of tiles on Hopper that read their operands by tensor maps: what `tensor/pingpong.cuh` fixes.

use accelerd_ir::Dtype;

use crate::cuda::{Source, cu};

/// The compute capability with `wgmma`.
pub(super) const HOPPER: (u32, u32) = (9, 0);
/// Rows and columns of a block's tile.
pub(super) const ROWS: usize = 128;
pub(super) const COLUMNS: usize = 192;
/// Terms of 16 bits of a k tile.
pub(super) const TERMS: usize = 64;
/// With fewer tiles, a device has idle multiprocessors.
pub(super) const MIN_TILES: usize = 128;
pub(super) const THREADS: u32 = 384;
/// Blocks of a cluster.
pub(super) const CLUSTER: u32 = 2;

/// A k tile of a block's rows and columns.
const STAGE_BYTES: u32 = (128 + 192) * 128;
const _: () = assert!(STAGE_BYTES as usize == (ROWS + COLUMNS) * 128, "128 bytes of each row and column");

/// Dynamic shared memory: stages of k tiles, staging buffers of each consumer warp, and barriers.
pub(super) const fn shared_bytes(stages: u32, buffers: u32) -> u32 {
    stages * (STAGE_BYTES + 16) + 8 * buffers * 2048 + 16
}

/// The schedule; it includes those of the mainloop and of tensor maps.
pub(super) const PINGPONG: Source = cu!("tensor/pingpong.cuh");

/// C++ of the member of `Operands` that multiplies a type of 16 bits.
pub(super) fn wgmma(dtype: Dtype) -> String {
    let name = if dtype == Dtype::F16 { "F16" } else { "Bf16" };
    format!("#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    typedef Wgmma{name} Wgmma;\n#endif\n")
}
