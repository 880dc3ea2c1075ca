//! Tiles of the Hopper GEMMs, `cu/gemm/gemm_sm90.cu` and `gemm_pingpong.cu`, and the choice among them by shape. A row of a table is a tile: its
//! kernels, its launch and its cost.

use std::cmp::Reverse;

use super::{launch::kernel_of, linear::LinearParams};
use crate::{
    cuda::{Kernel, PINGPONG_COLUMNS, launch_structs, pingpong_shared_bytes},
    ops::encode::DType,
};

/// A tile shape of the Hopper GEMMs with its kernels and launch parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Stages of k tiles in shared memory.
    stages: usize,
    /// Staging buffers of a consumer warp.
    buffers: usize,
    pub(super) threads: u32,
    /// Blocks per cluster. They have consecutive row tiles of the same columns and load the weight by multicast.
    pub(super) cluster: usize,
    pub(super) blocks_per_sm: usize,
    schedule: Schedule,
    cost: TileCost,
    kernels: [Kernel; 2],
}

/// The kernel schedule of CUTLASS by which the warpgroups of a block divide its tiles.
#[derive(Clone, Copy, Debug)]
enum Schedule {
    /// All consumers compute a tile together.
    Cooperative,
    /// Consumers alternate, so that the epilogue of one overlaps the mainloop of the other.
    Pingpong,
}

/// Cost per 64 x 64 outputs of a multiprocessor.
#[derive(Clone, Copy, Debug)]
struct TileCost {
    /// The cost of a k tile; smaller tiles reread more.
    k_tile: usize,
    /// The cost of the epilogue of a tile.
    epilogue: usize,
    /// The cost of the last epilogue, which overlaps nothing.
    end: usize,
}

const fn cost(k_tile: usize, epilogue: usize, end: usize) -> TileCost {
    TileCost { k_tile, epilogue, end }
}

const LINEAR_PARAMS: &[usize] = &[size_of::<LinearParams>()];

launch_structs! {
    pub(super) header GEMM_SM90_LAUNCH = "launch/gemm_sm90.cuh";

    /// Dynamic shared memory: stages of k tiles with two barriers each, and staging buffers of the consumer warps, which have 16 rows each.
    const fn gemm_sm90_shared_bytes(stages: usize, rows: usize, columns: usize, buffers: usize) -> usize {
        stages * ((rows + columns) * 128 + 16) + rows / 16 * buffers * 2048
    }

    pub(super) instances SM90_TILES: [Tile; 5], SM90_KERNELS = GEMM_SM90("gemm_sm90", LINEAR_PARAMS) {
        // The highest arithmetic intensity in shared memory.
        "128x256": { rows: 128, columns: 256, stages: 4, buffers: 2, threads: 384, cluster: 2 }
            cuda { min_blocks: 1 }
            rust { blocks_per_sm: 1, schedule: Schedule::Cooperative, cost: cost(100, 235, 0) },
        // For columns that are not a multiple of 256.
        "128x192": { rows: 128, columns: 192, stages: 4, buffers: 2, threads: 384, cluster: 1 }
            cuda { min_blocks: 1 }
            rust { blocks_per_sm: 1, schedule: Schedule::Cooperative, cost: cost(102, 180, 0) },
        // For thousands of rows: the two blocks of a multiprocessor overlap each other's epilogues.
        "128x128": { rows: 128, columns: 128, stages: 3, buffers: 1, threads: 288, cluster: 1 }
            cuda { min_blocks: 2 }
            rust { blocks_per_sm: 2, schedule: Schedule::Cooperative, cost: cost(130, 0, 0) },
        // For hundreds of rows.
        "64x64": { rows: 64, columns: 64, stages: 6, buffers: 1, threads: 160, cluster: 1 }
            cuda { min_blocks: 0 }
            rust { blocks_per_sm: 2, schedule: Schedule::Cooperative, cost: cost(224, 0, 0) },
        // For so few rows that reading the weights dominates.
        "64x16": { rows: 64, columns: 16, stages: 10, buffers: 0, threads: 160, cluster: 1 }
            cuda { min_blocks: 0 }
            rust { blocks_per_sm: 2, schedule: Schedule::Cooperative, cost: cost(448, 0, 0) },
    }
}

launch_structs! {
    pub(super) header GEMM_PINGPONG_LAUNCH = "launch/gemm_pingpong.cuh";

    pub(super) instances PINGPONG_TILES: [Tile; 1], PINGPONG_KERNELS = GEMM_PINGPONG("gemm_pingpong", LINEAR_PARAMS) {
        // For many rows and few k tiles, with columns in multiples of 192.
        "128x192": { rows: 128, columns: 192, stages: 5, buffers: 1, threads: 384, cluster: 2 }
            cuda { min_blocks: 1 }
            rust { blocks_per_sm: 1, schedule: Schedule::Pingpong, cost: cost(106, 60, 400) },
    }
}

/// Columns of the widest tile: weights are padded to a multiple of it in rows.
pub(super) const MAX_COLUMNS: usize = {
    let mut most = PINGPONG_COLUMNS;
    let mut at = 0;
    while at < SM90_TILES.len() {
        if SM90_TILES[at].columns > most {
            most = SM90_TILES[at].columns;
        }
        at += 1;
    }
    most
};

impl Tile {
    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        kernel_of(&self.kernels, dtype)
    }

    pub(super) fn shared_bytes(&self) -> usize {
        match self.schedule {
            Schedule::Cooperative => gemm_sm90_shared_bytes(self.stages, self.rows, self.columns, self.buffers),
            Schedule::Pingpong => pingpong_shared_bytes(self.stages, self.buffers),
        }
    }

    /// Estimated cost of a layer of rows, columns and k tiles.
    fn cost(&self, [rows, columns, k_tiles]: [usize; 3], sm_count: usize) -> usize {
        let TileCost { k_tile, epilogue, end } = self.cost;
        let tiles = rows.div_ceil(self.rows * self.cluster) * self.cluster * columns.div_ceil(self.columns);
        let waves = tiles.div_ceil(sm_count * self.blocks_per_sm);
        let each = self.blocks_per_sm.min(tiles.div_ceil(sm_count)) * self.rows * self.columns;
        (waves * (k_tile * k_tiles + epilogue) + end) * each
    }
}

/// The tile with the least estimated cost, of equal ones the largest, and that cost. All tiles give the same bits.
pub(super) fn tile_for(
    rows: usize,
    columns: usize,
    k_tiles: usize,
    gated: bool,
    sm_count: usize,
) -> (&'static Tile, usize) {
    const TILES: [&[Tile]; 2] = [&PINGPONG_TILES, &SM90_TILES];
    let fits = |tile: &&Tile| tile.columns != 192 || (columns.is_multiple_of(192) && !gated);
    let candidates = TILES.iter().copied().flatten().filter(fits);
    let costs = candidates.map(|tile| (tile, tile.cost([rows, columns, k_tiles], sm_count)));
    let least = costs.min_by_key(|(tile, cost)| (*cost, Reverse(tile.rows * tile.columns)));
    least.unwrap_or((&TILES[1][0], usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_chosen_to_fill_the_device() {
        let tile = |rows, columns, k_tiles| tile_for(rows, columns, k_tiles, false, 132).0;
        assert_eq!([1, 32, 64].map(|rows| tile(rows, 768, 12).columns), [16; 3]);
        let large =
            |columns, k_tiles| (tile(1 << 18, columns, k_tiles).columns, tile(1 << 18, columns, k_tiles).cluster);
        assert_eq!(large(768, 48), (256, 2), "many k tiles");
        assert_eq!([large(768, 12), large(3072, 12), large(1152, 6)], [(192, 2); 3], "few k tiles");
        assert_eq!(large(1024, 16), (256, 2), "192 do not divide them");
        assert_eq!(tile_for(1 << 18, 1152, 6, true, 132).0.columns % 128, 0, "a gated tile has whole halves");
        assert!((64..=192).contains(&tile(1024, 1152, 6).columns));
    }
}
