//! Products of tiles on Hopper that read their operands by tensor maps: what `tensor/pingpong.cuh` fixes.

use accelerd_ir::Dtype;

pub(super) use crate::cuda::{
    PINGPONG_COLUMNS as COLUMNS, PINGPONG_LAUNCH, PINGPONG_ROWS as ROWS, PINGPONG_TERMS as TERMS,
    PINGPONG_THREADS as THREADS,
};
use crate::cuda::{Source, cu, pingpong_shared_bytes};

/// The compute capability with `wgmma`.
pub(super) const HOPPER: (u32, u32) = (9, 0);
/// With fewer tiles, a device has idle multiprocessors.
pub(super) const MIN_TILES: usize = 128;
/// Blocks of a cluster.
pub(super) const CLUSTER: u32 = 2;

/// Dynamic shared memory, in bytes, for `stages` stages of k tiles and `buffers` staging buffers of each consumer warp.
pub(super) fn shared_bytes(stages: usize, buffers: usize) -> u32 {
    u32::try_from(pingpong_shared_bytes(stages, buffers)).expect("a few stages")
}

/// The schedule; it includes those of the mainloop and of tensor maps.
pub(super) const PINGPONG: Source = cu!("tensor/pingpong.cuh");

/// C++ of the member of `Operands` that multiplies a type of 16 bits.
pub(super) fn wgmma(dtype: Dtype) -> String {
    let name = if dtype == Dtype::F16 { "F16" } else { "Bf16" };
    format!("#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    typedef Wgmma{name} Wgmma;\n#endif\n")
}
