//! Linear layers by `mma.sync`, on GPUs from compute capability 8.0 on that have no kernels of their own: the tiles of
//! `cu/gemm/gemm_mma.cu` and the choice among them by shape.

use super::{
    launch::{LaunchContext, fit, kernel},
    linear::{ACTIVATION, EPILOGUE, LINEAR, LINEAR_LAUNCH, LinearParams, TILED},
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, Kernel, MAINLOOP_MMA, MMA, Module, Source, cu},
    ops::encode::DType,
};

/// The first compute capability with `mma.sync` for both 16-bit types.
pub(super) const MMA_CAPABILITY: (u32, u32) = (8, 0);

/// A tile shape with its kernels and launch parameters.
#[derive(Clone, Copy, Debug)]
struct MmaTile {
    rows: usize,
    columns: usize,
    threads: u32,
    stages: usize,
    /// Cost of 64 x 64 x 64 products on a multiprocessor, in percent of that of the largest tile: smaller tiles read each
    /// element from shared memory for fewer products.
    cost: usize,
    f16: Kernel,
    bf16: Kernel,
}

/// By descending size. Their estimated costs are the reads of shared memory, not measurements.
const TILES: [MmaTile; 4] = [
    MmaTile {
        rows: 256,
        columns: 128,
        threads: 256,
        stages: 3,
        cost: 100,
        f16: kernel::<LinearParams>("gemm_mma_f16_256x128"),
        bf16: kernel::<LinearParams>("gemm_mma_bf16_256x128"),
    },
    MmaTile {
        rows: 128,
        columns: 128,
        threads: 128,
        stages: 3,
        cost: 110,
        f16: kernel::<LinearParams>("gemm_mma_f16_128x128"),
        bf16: kernel::<LinearParams>("gemm_mma_bf16_128x128"),
    },
    MmaTile {
        rows: 64,
        columns: 64,
        threads: 128,
        stages: 4,
        cost: 180,
        f16: kernel::<LinearParams>("gemm_mma_f16_64x64"),
        bf16: kernel::<LinearParams>("gemm_mma_bf16_64x64"),
    },
    MmaTile {
        rows: 64,
        columns: 16,
        threads: 128,
        stages: 6,
        cost: 350,
        f16: kernel::<LinearParams>("gemm_mma_f16_64x16"),
        bf16: kernel::<LinearParams>("gemm_mma_bf16_64x16"),
    },
];

impl MmaTile {
    fn shared_bytes(&self) -> usize {
        self.stages * (self.rows + self.columns) * 128
    }

    fn blocks(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.rows) * columns.div_ceil(self.columns)
    }

    fn kernel(&self, dtype: DType) -> &Kernel {
        if dtype == DType::F16 { &self.f16 } else { &self.bf16 }
    }

    /// Estimated time of a layer: that of the multiprocessor with the most blocks, which share its tensor cores.
    fn time(&self, rows: usize, columns: usize, sm_count: usize) -> usize {
        self.blocks(rows, columns).div_ceil(sm_count) * self.rows * self.columns * self.cost
    }
}

/// The tile with the least estimated time among those that fit the shared memory of a block; the smallest fits that of any
/// device. All tiles give the same bits.
fn tile_for(rows: usize, columns: usize, sm_count: usize, shared_bytes: usize) -> &'static MmaTile {
    let fitting = TILES.iter().filter(|tile| tile.shared_bytes() <= shared_bytes);
    fitting.min_by_key(|tile| tile.time(rows, columns, sm_count)).unwrap_or(&TILES[3])
}

pub(super) fn launch_gemm_mma(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let (rows, columns) = (launch.rows, layer.columns as usize);
    let (sm_count, shared_bytes) = (launch.worker.sm_count() as usize, launch.worker.shared_bytes() as usize);
    let tile = tile_for(rows, columns, sm_count, shared_bytes);
    let (grid, shared_bytes) = (Grid::x(fit(tile.blocks(rows, columns))?), fit(tile.shared_bytes())?);
    let kernel = tile.kernel(launch.dtype);
    launch.worker.launch_pdl(kernel, grid, tile.threads, shared_bytes, &mut Args::new().value(layer))
}

const HEADERS: &[Source] =
    &[COMMON, TILED, ACTIVATION, MMA, MAINLOOP_MMA, LINEAR_LAUNCH, LINEAR, EPILOGUE, cu!("gemm/gemm_mma.cuh")];

pub(super) static MODULES: [&Module; 2] = [&GEMM_MMA_F16, &GEMM_MMA_BF16];

static GEMM_MMA_F16: Module = Module {
    name: "gemm_mma_f16",
    source: cu!("gemm/gemm_mma.cu"),
    headers: HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &[TILES[0].f16, TILES[1].f16, TILES[2].f16, TILES[3].f16],
};

static GEMM_MMA_BF16: Module = Module {
    name: "gemm_mma_bf16",
    source: cu!("gemm/gemm_mma.cu"),
    headers: HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &[TILES[0].bf16, TILES[1].bf16, TILES[2].bf16, TILES[3].bf16],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and columns of the tile on a device of 108 multiprocessors with 163 KiB of shared memory a block.
    fn tile(rows: usize, columns: usize) -> (usize, usize) {
        let tile = tile_for(rows, columns, 108, 163 << 10);
        (tile.rows, tile.columns)
    }

    #[test]
    fn tiles_are_chosen_to_fill_the_device() {
        assert_eq!([1, 32, 64].map(|rows| tile(rows, 768)), [(64, 16); 3]);
        assert_eq!([tile(512, 768), tile(1 << 18, 768)], [(64, 64), (256, 128)]);
    }

    #[test]
    fn tiles_fit_the_shared_memory_of_a_block() {
        let largest = |shared_bytes| tile_for(1 << 18, 768, 84, shared_bytes).rows;
        assert_eq!([163 << 10, 99 << 10, 64 << 10].map(largest), [256, 128, 64]);
    }
}
