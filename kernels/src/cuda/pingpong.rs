//! Constants of `gemm/mainloop_sm90.cuh` for products by two consumer warpgroups that alternate, for the operations that have such kernels.

use super::launch_structs;

launch_structs! {
    pub(crate) header PINGPONG_LAUNCH = "launch/pingpong.cuh";

    /// Rows and columns of a block's tile.
    pub(crate) const PINGPONG_ROWS: usize = 128;
    pub(crate) const PINGPONG_COLUMNS: usize = 192;
    /// Terms of 16 bits of a k tile.
    pub(crate) const PINGPONG_TERMS: usize = 64;
    /// Threads of the consumer warpgroups, and of the producer's.
    pub(crate) const PINGPONG_THREADS: u32 = 384;
    /// Dynamic shared memory: stages of k tiles, staging buffers of each consumer warp, and barriers.
    pub(crate) const fn pingpong_shared_bytes(stages: usize, buffers: usize) -> usize {
        stages * ((PINGPONG_ROWS + PINGPONG_COLUMNS) * 128 + 16) + 8 * buffers * 2048 + 16
    }
}
