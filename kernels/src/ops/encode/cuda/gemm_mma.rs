//! Linear layers by `mma.sync`, on GPUs from compute capability 8.0 on that have no kernels of their own: the tiles of
//! `cu/gemm/gemm_mma.cu` and the choice among them by shape.

use super::{
    hidden_states::{TILED, TILED_LAUNCH},
    launch::{LaunchContext, fit, kernel_of},
    linear::{ACTIVATION, EPILOGUE, LINEAR, LINEAR_LAUNCH, LinearParams, TILE_SCHEDULER},
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, Kernel, MAINLOOP_MMA, MMA, Module, Source, cu, launch_structs},
    ops::encode::DType,
};

/// The first compute capability with `mma.sync` for both 16-bit types.
pub(super) const MMA_CAPABILITY: (u32, u32) = (8, 0);

/// A tile shape with its kernels and launch parameters.
#[derive(Clone, Copy, Debug)]
struct MmaTile {
    rows: usize,
    columns: usize,
    /// Rows and columns of a warp.
    warp_rows: usize,
    warp_columns: usize,
    /// Stages of k tiles in shared memory.
    stages: usize,
    /// Blocks that a multiprocessor runs at once, where its shared memory suffices.
    blocks_per_sm: usize,
    /// Time of a k tile per element of the output, in percent of that of the largest tile: smaller tiles read each element from
    /// shared memory for fewer products.
    cost: usize,
    /// Time per element of the output that its k tiles do not account for, in the same unit: that of the epilogue, unless other
    /// blocks hide it.
    ends: usize,
    kernels: [Kernel; 2],
}

const LINEAR_PARAMS: &[usize] = &[size_of::<LinearParams>()];

launch_structs! {
    header GEMM_MMA_LAUNCH = "launch/gemm_mma.cuh";

    /// Threads of a block: a warp for each of its tiles.
    const fn gemm_mma_threads(rows: usize, columns: usize, warp_rows: usize, warp_columns: usize) -> usize {
        32 * (rows / warp_rows) * (columns / warp_columns)
    }
    /// Dynamic shared memory: stages of k tiles.
    const fn gemm_mma_shared_bytes(stages: usize, rows: usize, columns: usize) -> usize {
        stages * (rows + columns) * 128
    }

    // By descending size, with the times measured on an H200.
    instances TILES: [MmaTile; 4], KERNELS = GEMM_MMA("gemm_mma", LINEAR_PARAMS) {
        // The highest arithmetic intensity in shared memory.
        "256x128": { rows: 256, columns: 128, warp_rows: 64, warp_columns: 64, stages: 3 }
            cuda { min_blocks: 1 }
            rust { blocks_per_sm: 1, cost: 100, ends: 100 },
        // Two blocks of a multiprocessor overlap each other's epilogues.
        "128x128": { rows: 128, columns: 128, warp_rows: 64, warp_columns: 64, stages: 3 }
            cuda { min_blocks: 2 }
            rust { blocks_per_sm: 2, cost: 104, ends: 50 },
        // For hundreds of rows.
        "64x64": { rows: 64, columns: 64, warp_rows: 32, warp_columns: 32, stages: 4 }
            cuda { min_blocks: 0 }
            rust { blocks_per_sm: 3, cost: 150, ends: 50 },
        // For so few rows that reading the weights dominates.
        "64x16": { rows: 64, columns: 16, warp_rows: 16, warp_columns: 16, stages: 6 }
            cuda { min_blocks: 0 }
            rust { blocks_per_sm: 3, cost: 300, ends: 100 },
    }
}

impl MmaTile {
    fn shared_bytes(&self) -> usize {
        gemm_mma_shared_bytes(self.stages, self.rows, self.columns)
    }

    fn threads(&self) -> usize {
        gemm_mma_threads(self.rows, self.columns, self.warp_rows, self.warp_columns)
    }

    fn tiles(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.rows) * columns.div_ceil(self.columns)
    }

    fn kernel(&self, dtype: DType) -> Kernel {
        kernel_of(&self.kernels, dtype)
    }

    /// Estimated time of a layer: that of the multiprocessor with the most tiles, which share its tensor cores.
    fn time(&self, [rows, columns, k_tiles]: [usize; 3], sm_count: usize) -> usize {
        let tiles = self.tiles(rows, columns).div_ceil(sm_count);
        tiles * self.rows * self.columns * (self.cost * k_tiles + self.ends)
    }
}

/// The tile with the least estimated time for a layer of rows, columns and k tiles, among those that fit the shared memory of a
/// block; the smallest fits that of any device. All tiles give the same bits.
fn tile_for(shape: [usize; 3], sm_count: usize, shared_bytes: usize) -> &'static MmaTile {
    const ALL: &[MmaTile] = &TILES;
    let fitting = ALL.iter().filter(|tile| tile.shared_bytes() <= shared_bytes);
    fitting.min_by_key(|tile| tile.time(shape, sm_count)).unwrap_or(&ALL[ALL.len() - 1])
}

pub(super) fn launch_gemm_mma(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let rows = launch.rows;
    let columns = layer.columns as usize;
    let k_tiles = layer.k_tiles as usize;
    let sm_count = launch.worker.sm_count() as usize;
    let shared_bytes = launch.worker.shared_bytes() as usize;
    let tile = tile_for([rows, columns, k_tiles], sm_count, shared_bytes);
    let blocks = tile.tiles(rows, columns).min(sm_count * tile.blocks_per_sm);
    let grid = Grid::x(fit(blocks)?);
    let threads = fit(tile.threads())?;
    let shared_bytes = fit(tile.shared_bytes())?;
    launch.worker.launch_pdl(&tile.kernel(launch.dtype), grid, threads, shared_bytes, &mut Args::new().value(layer))
}

const HEADERS: &[Source] = &[
    COMMON,
    TILED_LAUNCH,
    TILED,
    ACTIVATION,
    MMA,
    MAINLOOP_MMA,
    LINEAR_LAUNCH,
    LINEAR,
    EPILOGUE,
    TILE_SCHEDULER,
    GEMM_MMA_LAUNCH,
    cu!("gemm/gemm_mma.cuh"),
];

pub(super) static MODULES: [&Module; 2] = [&GEMM_MMA_F16, &GEMM_MMA_BF16];

static GEMM_MMA_F16: Module = Module {
    name: "gemm_mma_f16",
    source: cu!("gemm/gemm_mma.cu"),
    headers: HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &KERNELS[0],
};

static GEMM_MMA_BF16: Module = Module {
    name: "gemm_mma_bf16",
    source: cu!("gemm/gemm_mma.cu"),
    headers: HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &KERNELS[1],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and columns of the tile for a layer of 12 k tiles, on a device of 108 multiprocessors with 163 KiB of shared memory a
    /// block.
    fn tile(rows: usize, columns: usize) -> (usize, usize) {
        let tile = tile_for([rows, columns, 12], 108, 163 << 10);
        (tile.rows, tile.columns)
    }

    #[test]
    fn tiles_are_chosen_to_fill_the_device() {
        assert_eq!([1, 32, 64].map(|rows| tile(rows, 768)), [(64, 16); 3]);
        assert_eq!([tile(512, 768), tile(1 << 18, 768)], [(64, 64), (128, 128)]);
    }

    #[test]
    fn blocks_that_hide_epilogues_are_chosen_for_few_k_tiles() {
        let tile = |k_tiles| tile_for([1 << 18, 768, k_tiles], 108, 163 << 10).rows;
        assert_eq!([6, 48].map(tile), [128, 256]);
    }

    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        let largest = |shared_bytes| tile_for([1 << 18, 768, 48], 84, shared_bytes).rows;
        assert_eq!([163 << 10, 99 << 10, 64 << 10].map(largest), [256, 128, 64]);
    }
}
