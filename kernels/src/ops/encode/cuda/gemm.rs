//! Linear layers: the GEMM kernels of `cu/gemm`, the choice among them by shape, and their launches.

use super::{
    gemm_mma::{MMA_CAPABILITY, launch_gemm_mma},
    hidden_states::HiddenStates,
    launch::{LaunchContext, fit, kernel},
    linear::{ACTIVATION, EPILOGUE, LINEAR, LINEAR_LAUNCH, LinearParams, TILE_SCHEDULER, TILED},
    norm::{NORM, NORM_LAUNCH, NormParams},
    weights::Weight,
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, Kernel, MAINLOOP_SM90, MMA, Module, Source, WGMMA, cu, launch_structs},
    ops::encode::{Activation, DType, Linear},
};

/// The epilogue that clamps to binary16 and writes it, whatever the compute type.
pub(super) const CLAMP_F16: u32 = 5;

/// A tile shape of the Hopper GEMMs with its kernels and launch parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
    pub(super) blocks_per_sm: usize,
    /// Blocks per cluster. They have consecutive row tiles of the same columns and load the weight by multicast.
    pub(super) cluster: usize,
    pub(super) f16: Kernel,
    pub(super) bf16: Kernel,
}

impl Tile {
    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        if dtype == DType::F16 { self.f16 } else { self.bf16 }
    }
}

const fn shared_bytes(stages: u32, rows: u32, columns: u32, staging: u32) -> u32 {
    stages * (rows + columns) * 128 + staging * 2048 + stages * 16
}

/// The highest arithmetic intensity in shared memory.
pub(super) const TILE_128X256: Tile = Tile {
    rows: 128,
    columns: 256,
    threads: 384,
    shared_bytes: shared_bytes(4, 128, 256, 16),
    blocks_per_sm: 1,
    cluster: 2,
    f16: kernel::<LinearParams>("gemm_sm90_f16_128x256"),
    bf16: kernel::<LinearParams>("gemm_sm90_bf16_128x256"),
};
/// For many rows and few k tiles, with columns in multiples of 192: the epilogue overlaps the next mainloop.
pub(super) const PINGPONG_128X192: Tile = Tile {
    rows: 128,
    columns: 192,
    threads: 384,
    shared_bytes: shared_bytes(5, 128, 192, 8) + 16,
    blocks_per_sm: 1,
    cluster: 2,
    f16: kernel::<LinearParams>("gemm_pingpong_f16_128x192"),
    bf16: kernel::<LinearParams>("gemm_pingpong_bf16_128x192"),
};
/// For columns that are not a multiple of 256.
pub(super) const TILE_128X192: Tile = Tile {
    rows: 128,
    columns: 192,
    threads: 384,
    shared_bytes: shared_bytes(4, 128, 192, 16),
    blocks_per_sm: 1,
    cluster: 1,
    f16: kernel::<LinearParams>("gemm_sm90_f16_128x192"),
    bf16: kernel::<LinearParams>("gemm_sm90_bf16_128x192"),
};
/// For thousands of rows.
pub(super) const TILE_128X128: Tile = Tile {
    rows: 128,
    columns: 128,
    threads: 288,
    shared_bytes: shared_bytes(3, 128, 128, 8),
    blocks_per_sm: 2,
    cluster: 1,
    f16: kernel::<LinearParams>("gemm_sm90_f16_128x128"),
    bf16: kernel::<LinearParams>("gemm_sm90_bf16_128x128"),
};
/// For hundreds of rows.
pub(super) const TILE_64X64: Tile = Tile {
    rows: 64,
    columns: 64,
    threads: 160,
    shared_bytes: shared_bytes(6, 64, 64, 4),
    blocks_per_sm: 2,
    cluster: 1,
    f16: kernel::<LinearParams>("gemm_sm90_f16_64x64"),
    bf16: kernel::<LinearParams>("gemm_sm90_bf16_64x64"),
};
/// For so few rows that reading the weights dominates.
pub(super) const TILE_64X16: Tile = Tile {
    rows: 64,
    columns: 16,
    threads: 160,
    shared_bytes: shared_bytes(10, 64, 16, 0),
    blocks_per_sm: 2,
    cluster: 1,
    f16: kernel::<LinearParams>("gemm_sm90_f16_64x16"),
    bf16: kernel::<LinearParams>("gemm_sm90_bf16_64x16"),
};

/// By dtype: f32 arithmetic without tensor cores, on any device.
const GEMM_SIMT: [Kernel; 3] = [
    kernel::<LinearParams>("gemm_simt_f32"),
    kernel::<LinearParams>("gemm_simt_f16"),
    kernel::<LinearParams>("gemm_simt_bf16"),
];

/// Rows of a skinny tile.
pub(super) const SKINNY_ROWS: usize = 64;
/// With more rows, other tiles are faster.
const MAX_SKINNY_ROWS: usize = 128;
const STAGE_K_TILES: usize = 4;
const MAX_STAGES: usize = 64;
const BARRIER_BYTES: usize = 2 * MAX_STAGES * 8;
/// The most shared memory of a block. A deep pipeline hides the latency of the rows, which gains more than leaving room
/// for blocks of the next launch to prefetch their weights.
const SMEM_BYTES: usize = 224 << 10;
/// The most shared memory of a block's weights: it leaves three stages of 64 rows. With two, other tiles are faster.
const MAX_WEIGHT_BYTES: usize = 96 << 10;

#[derive(Clone, Copy, Debug)]
struct SkinnyTile {
    columns: usize,
    f16: Kernel,
    bf16: Kernel,
}

const fn skinny_tile(columns: usize, f16: &'static str, bf16: &'static str) -> SkinnyTile {
    const PARAMS: &[usize] = &[size_of::<LinearParams>(), size_of::<u32>()];
    SkinnyTile { columns, f16: Kernel { name: f16, params: PARAMS }, bf16: Kernel { name: bf16, params: PARAMS } }
}

/// In ascending order of columns.
const SKINNY_TILES: [SkinnyTile; 5] = [
    skinny_tile(8, "gemm_skinny_f16_8", "gemm_skinny_bf16_8"),
    skinny_tile(16, "gemm_skinny_f16_16", "gemm_skinny_bf16_16"),
    skinny_tile(24, "gemm_skinny_f16_24", "gemm_skinny_bf16_24"),
    skinny_tile(32, "gemm_skinny_f16_32", "gemm_skinny_bf16_32"),
    skinny_tile(48, "gemm_skinny_f16_48", "gemm_skinny_bf16_48"),
];

/// The launch of a GEMM with few rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct SkinnyGemm {
    tile: SkinnyTile,
    pub(super) blocks: usize,
    pub(super) stages: usize,
    pub(super) shared_bytes: usize,
}

impl SkinnyGemm {
    pub(super) const THREADS: u32 = 160;

    /// The narrowest tile with at most one block per multiprocessor: latency dominates, and each block reads all rows. None
    /// where the layer does not fit.
    pub(super) fn of(rows: usize, columns: usize, k_tiles: usize, gated: bool, sm_count: usize) -> Option<Self> {
        let blocks = |tile: &SkinnyTile| rows.div_ceil(SKINNY_ROWS) * columns.div_ceil(tile.columns);
        let fits = |tile: &&SkinnyTile| {
            columns.is_multiple_of(tile.columns)
                && (!gated || tile.columns.is_multiple_of(16))
                && blocks(tile) <= sm_count
                && k_tiles * tile.columns * 128 <= MAX_WEIGHT_BYTES
        };
        let tile = SKINNY_TILES.iter().filter(|_| rows <= MAX_SKINNY_ROWS).find(fits)?;
        let weights = BARRIER_BYTES + k_tiles * tile.columns * 128;
        let k_tile = rows.min(SKINNY_ROWS).next_multiple_of(8) * 128;
        let tail = SKINNY_ROWS * 128 - k_tile;
        let most = (SMEM_BYTES - weights - tail) / (STAGE_K_TILES * k_tile);
        let stages = k_tiles.div_ceil(STAGE_K_TILES).min(most.min(MAX_STAGES));
        let shared_bytes = weights + k_tiles.min(STAGE_K_TILES * stages) * k_tile + tail;
        Some(Self { tile: *tile, blocks: blocks(tile), stages, shared_bytes })
    }

    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        if dtype == DType::F16 { self.tile.f16 } else { self.tile.bf16 }
    }
}

/// Rows of a tile of the fused kernel.
const RESIDUAL_NORM_ROWS: usize = 128;
/// Not measured with fewer rows.
const MIN_ROWS: usize = 4096;
/// The fused kernel is faster with one wave of row tiles, or with enough waves to overlap the epilogue.
const MIN_WAVES: usize = 4;

launch_structs! {
    header LINEAR_RESIDUAL_NORM_LAUNCH = "launch/linear_residual_norm.cuh",
        includes "launch/linear.cuh", "launch/norm.cuh";

    /// Parameters of `linear_residual_norm`.
    pub(super) struct LinearResidualNormParams {
        pub(super) layer: LinearParams,
        pub(super) residual: "const u8*",
        pub(super) norm: NormParams,
    }
}

/// The fused kernels for a width. A cluster of one block per 192 columns computes a row tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinearResidualNorm {
    columns: usize,
    pub(super) blocks: u32,
    f16: Kernel,
    bf16: Kernel,
}

const LINEAR_RESIDUAL_NORM: [LinearResidualNorm; 2] = [
    LinearResidualNorm {
        columns: 384,
        blocks: 2,
        f16: kernel::<LinearResidualNormParams>("linear_residual_norm_f16_384"),
        bf16: kernel::<LinearResidualNormParams>("linear_residual_norm_bf16_384"),
    },
    LinearResidualNorm {
        columns: 768,
        blocks: 4,
        f16: kernel::<LinearResidualNormParams>("linear_residual_norm_f16_768"),
        bf16: kernel::<LinearResidualNormParams>("linear_residual_norm_bf16_768"),
    },
];

impl LinearResidualNorm {
    pub(super) const THREADS: u32 = 384;
    /// Stages, epilogue staging, row sums, column factors and barriers.
    pub(super) const SHARED_BYTES: u32 =
        4 * (128 + 192) * 128 + 128 * 192 * 2 + 2 * 4 * 128 * 4 + 3 * 192 * 4 + (2 * 4 + 2 + 32) * 8;

    pub(super) fn of(rows: usize, columns: usize) -> Option<&'static Self> {
        LINEAR_RESIDUAL_NORM.iter().find(|fused| fused.columns == columns).filter(|_| rows >= MIN_ROWS)
    }

    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        if dtype == DType::F16 { self.f16 } else { self.bf16 }
    }

    /// Clusters of a launch, where the device holds at most `most` at once.
    pub(super) fn clusters(rows: usize, most: usize) -> usize {
        rows.div_ceil(RESIDUAL_NORM_ROWS).min(most)
    }

    /// Whether the fused kernel on `clusters` clusters is faster than a GEMM of cost `alone` and a norm. In the cost unit of
    /// [`tile_for`] per 64 x 64 outputs: a k tile costs 100.
    pub(super) fn is_faster(&self, rows: usize, k_tiles: usize, clusters: usize, alone: usize) -> bool {
        let waves = rows.div_ceil(RESIDUAL_NORM_ROWS).div_ceil(clusters);
        // The epilogue costs ten k tiles and overlaps the next mainloop.
        let fused = waves * ((118 * k_tiles).max(1200) + 300) + if waves > 1 { 600 } else { 0 };
        // Three passes over the rows, and a launch.
        let norm = rows * self.columns / 3400 + 1000;
        (waves == 1 || waves >= MIN_WAVES) && fused < alone / (RESIDUAL_NORM_ROWS * 192) + norm
    }
}

/// The tile with the least estimated cost, and that cost. All tiles give the same bits.
pub(super) fn tile_for(rows: usize, columns: usize, k_tiles: usize, gated: bool, sm_count: usize) -> (Tile, usize) {
    // Cost per 64 x 64 outputs of a multiprocessor: of a k tile (smaller tiles reread more), of the epilogue of a tile, and
    // of the last epilogue, which overlaps nothing.
    let candidates = [
        (TILE_128X256, 100, 235, 0),
        (PINGPONG_128X192, 106, 60, 400),
        (TILE_128X192, 102, 180, 0),
        (TILE_128X128, 130, 0, 0),
        (TILE_64X64, 224, 0, 0),
        (TILE_64X16, 448, 0, 0),
    ];
    let cost = |(tile, k_tile, tile_end, end): &(Tile, usize, usize, usize)| {
        let tiles = rows.div_ceil(tile.rows * tile.cluster) * tile.cluster * columns.div_ceil(tile.columns);
        let waves = tiles.div_ceil(sm_count * tile.blocks_per_sm);
        let each = tile.blocks_per_sm.min(tiles.div_ceil(sm_count)) * tile.rows * tile.columns;
        (waves * (k_tile * k_tiles + tile_end) + end) * each
    };
    let fits =
        |(tile, ..): &&(Tile, usize, usize, usize)| tile.columns != 192 || (columns.is_multiple_of(192) && !gated);
    let costs = candidates.iter().filter(fits).map(|candidate| (candidate.0, cost(candidate)));
    costs.min_by_key(|(_, cost)| *cost).unwrap_or((TILE_128X256, usize::MAX))
}

/// The epilogue codes of `common/activation.cuh`. GELU there is exact enough to serve both precisions.
pub(super) fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
        Activation::Silu => 4,
    }
}

/// The parameters of a GEMM with the bias epilogue.
pub(super) fn linear_params(
    rows: usize,
    x: &HiddenStates,
    linear: &Linear<Weight>,
    out: &HiddenStates,
) -> Result<LinearParams, OpError> {
    Ok(LinearParams {
        x: x.address(),
        weight: linear.weight.address(),
        bias: linear.bias.as_ref().map_or(0, Weight::address),
        out: out.address(),
        rows: fit(rows)?,
        columns: linear.weight.rows,
        k_tiles: linear.weight.tiles_per_row,
        out_tiles_per_row: out.tiles_per_row,
        activation: 0,
        gated: 0,
        reverse: 0,
        unused: 0,
    })
}

/// The fused kernel and its number of clusters, where it is faster than a GEMM and a norm.
pub(super) fn linear_residual_norm(
    launch: &LaunchContext<'_>,
    x: &HiddenStates,
    linear: &Linear<Weight>,
    residual: &HiddenStates,
) -> Result<Option<(&'static LinearResidualNorm, usize)>, OpError> {
    let (rows, columns, k_tiles) = (launch.rows, linear.weight.rows as usize, linear.weight.tiles_per_row as usize);
    let fits = launch.worker.compute_capability().0 == 9
        && launch.dtype != DType::F32
        && [x.dtype, residual.dtype, linear.weight.out_dtype] == [launch.dtype; 3]
        && [linear.outputs, residual.width] == [columns; 2];
    let Some(fused) = LinearResidualNorm::of(rows, columns).filter(|_| fits) else {
        return Ok(None);
    };
    let kernel = fused.kernel(launch.dtype);
    let most =
        launch.worker.clusters(&kernel, fused.blocks, LinearResidualNorm::THREADS, LinearResidualNorm::SHARED_BYTES)?;
    let clusters = LinearResidualNorm::clusters(rows, most as usize);
    let alone = tile_for(rows, columns, k_tiles, false, launch.worker.sm_count() as usize).1;
    Ok(fused.is_faster(rows, k_tiles, clusters, alone).then_some((fused, clusters)))
}

/// Launches a layer: on tensor cores from compute capability 8.0 on, by wgmma on Hopper.
pub(super) fn launch_gemm(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let capability = launch.worker.compute_capability();
    if launch.dtype == DType::F32 || capability < MMA_CAPABILITY {
        launch_gemm_simt(launch, layer)
    } else if capability.0 == 9 {
        launch_gemm_sm90(launch, layer)
    } else {
        launch_gemm_mma(launch, layer)
    }
}

fn launch_gemm_simt(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let blocks = fit(launch.rows.div_ceil(128) * layer.columns.div_ceil(64) as usize)?;
    let kernel = &GEMM_SIMT[launch.dtype as usize];
    launch.worker.launch_pdl(kernel, Grid::x(blocks), 256, 0, &mut Args::new().value(layer))
}

fn launch_gemm_sm90(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let (rows, columns, mut args) = (launch.rows, layer.columns as usize, Args::new().value(layer));
    let sm_count = launch.worker.sm_count();
    if let Some(skinny) = SkinnyGemm::of(rows, columns, layer.k_tiles as usize, layer.gated != 0, sm_count as usize) {
        let (grid, kernel, shared_bytes) =
            (Grid::x(fit(skinny.blocks)?), skinny.kernel(launch.dtype), fit(skinny.shared_bytes)?);
        let mut args = args.u32(fit(skinny.stages)?);
        return launch.worker.launch_pdl(&kernel, grid, SkinnyGemm::THREADS, shared_bytes, &mut args);
    }
    let (tile, _) = tile_for(rows, columns, layer.k_tiles as usize, layer.gated != 0, sm_count as usize);
    let cluster = tile.cluster;
    let blocks = rows.div_ceil(tile.rows * cluster) * cluster * columns.div_ceil(tile.columns);
    let most = (tile.blocks_per_sm * sm_count as usize / cluster * cluster).max(cluster);
    let grid = Grid::x(fit(blocks.min(most))?);
    launch.worker.launch_pdl(&tile.kernel(launch.dtype), grid, tile.threads, tile.shared_bytes, &mut args)
}

const GEMM_SM90: Source = cu!("gemm/gemm_sm90.cuh");
const GEMM_PINGPONG: Source = cu!("gemm/gemm_pingpong.cuh");

const SM90_HEADERS: &[Source] = &[
    COMMON,
    TILED,
    ACTIVATION,
    MMA,
    WGMMA,
    MAINLOOP_SM90,
    LINEAR_LAUNCH,
    LINEAR,
    EPILOGUE,
    TILE_SCHEDULER,
    GEMM_SM90,
    GEMM_PINGPONG,
];
const RESIDUAL_NORM_HEADERS: &[Source] = &[
    COMMON,
    TILED,
    ACTIVATION,
    MMA,
    WGMMA,
    MAINLOOP_SM90,
    LINEAR_LAUNCH,
    LINEAR,
    EPILOGUE,
    TILE_SCHEDULER,
    GEMM_SM90,
    GEMM_PINGPONG,
    NORM_LAUNCH,
    NORM,
    LINEAR_RESIDUAL_NORM_LAUNCH,
];

pub(super) static MODULES: [&Module; 9] = [
    &GEMM_SIMT_MODULE,
    &GEMM_SM90_F16,
    &GEMM_SM90_BF16,
    &GEMM_PINGPONG_F16,
    &GEMM_PINGPONG_BF16,
    &GEMM_SKINNY_F16,
    &GEMM_SKINNY_BF16,
    &LINEAR_RESIDUAL_NORM_F16,
    &LINEAR_RESIDUAL_NORM_BF16,
];

static GEMM_SIMT_MODULE: Module = Module {
    name: "gemm_simt",
    source: cu!("gemm/gemm_simt.cu"),
    headers: &[COMMON, TILED, ACTIVATION, LINEAR_LAUNCH, LINEAR],
    defines: &[],
    kernels: &GEMM_SIMT,
};

static GEMM_SM90_F16: Module = Module {
    name: "gemm_sm90_f16",
    source: cu!("gemm/gemm_sm90.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &[TILE_128X256.f16, TILE_128X192.f16, TILE_128X128.f16, TILE_64X64.f16, TILE_64X16.f16],
};

static GEMM_SM90_BF16: Module = Module {
    name: "gemm_sm90_bf16",
    source: cu!("gemm/gemm_sm90.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &[TILE_128X256.bf16, TILE_128X192.bf16, TILE_128X128.bf16, TILE_64X64.bf16, TILE_64X16.bf16],
};

static GEMM_PINGPONG_F16: Module = Module {
    name: "gemm_pingpong_f16",
    source: cu!("gemm/gemm_pingpong.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &[PINGPONG_128X192.f16],
};

static GEMM_PINGPONG_BF16: Module = Module {
    name: "gemm_pingpong_bf16",
    source: cu!("gemm/gemm_pingpong.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &[PINGPONG_128X192.bf16],
};

static GEMM_SKINNY_F16: Module = Module {
    name: "gemm_skinny_f16",
    source: cu!("gemm/gemm_skinny.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &[SKINNY_TILES[0].f16, SKINNY_TILES[1].f16, SKINNY_TILES[2].f16, SKINNY_TILES[3].f16, SKINNY_TILES[4].f16],
};

static GEMM_SKINNY_BF16: Module = Module {
    name: "gemm_skinny_bf16",
    source: cu!("gemm/gemm_skinny.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &[
        SKINNY_TILES[0].bf16,
        SKINNY_TILES[1].bf16,
        SKINNY_TILES[2].bf16,
        SKINNY_TILES[3].bf16,
        SKINNY_TILES[4].bf16,
    ],
};

static LINEAR_RESIDUAL_NORM_F16: Module = Module {
    name: "linear_residual_norm_f16",
    source: cu!("gemm/linear_residual_norm.cu"),
    headers: RESIDUAL_NORM_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &[LINEAR_RESIDUAL_NORM[0].f16, LINEAR_RESIDUAL_NORM[1].f16],
};

static LINEAR_RESIDUAL_NORM_BF16: Module = Module {
    name: "linear_residual_norm_bf16",
    source: cu!("gemm/linear_residual_norm.cu"),
    headers: RESIDUAL_NORM_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &[LINEAR_RESIDUAL_NORM[0].bf16, LINEAR_RESIDUAL_NORM[1].bf16],
};

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

    #[test]
    fn skinny_tiles_fill_the_multiprocessors() {
        let columns =
            |rows, columns, gated| SkinnyGemm::of(rows, columns, 12, gated, 132).map(|skinny| skinny.tile.columns);
        assert_eq!([768, 2304, 3072].map(|wide| columns(32, wide, false)), [8, 24, 24].map(Some));
        assert_eq!([384, 1152, 4096].map(|wide| columns(64, wide, false)), [8, 16, 32].map(Some));
        assert_eq!([768, 3072].map(|wide| columns(64, wide, true)), [16, 32].map(Some), "gates come in sixteens");
        assert_eq!([768, 2304, 3072, 4096].map(|wide| columns(128, wide, false)), [Some(16), Some(48), Some(48), None]);
        assert_eq!([columns(129, 384, false), columns(64, 8192, false)], [None; 2], "not few");
    }

    #[test]
    fn a_block_has_all_its_weights_and_at_least_three_stages() {
        let skinny = |rows, k_tiles| {
            SkinnyGemm::of(rows, 768, k_tiles, false, 132).map(|skinny| (skinny.stages, skinny.shared_bytes))
        };
        assert_eq!(skinny(32, 12), Some((3, 1024 + 12 * 1024 + 12 * 4096 + 4096)), "all k tiles");
        assert_eq!(skinny(32, 48), Some((10, 1024 + 48 * 1024 + 40 * 4096 + 4096)));
        assert_eq!(skinny(1, 1), Some((1, 1024 + 1024 + 1024 + 7168)));
        assert_eq!(skinny(64, 96), Some((3, 1024 + 96 * 1024 + 12 * 8192)));
        assert_eq!(skinny(64, 97), None, "too many weights");
        let shapes =
            (1..=128).flat_map(|rows| (1..=if rows <= 64 { 96 } else { 48 }).map(move |k_tiles| (rows, k_tiles)));
        for (rows, k_tiles) in shapes {
            let Some((stages, shared_bytes)) = skinny(rows, k_tiles) else { panic!("{rows} rows, {k_tiles} k tiles") };
            assert!(shared_bytes <= 227 << 10 && stages <= MAX_STAGES && stages >= k_tiles.div_ceil(4).min(3));
        }
    }

    /// Whether a layer of this shape is fused with its norm.
    fn is_fused(rows: usize, columns: usize, k_tiles: usize, clusters: usize) -> bool {
        let alone = tile_for(rows, columns, k_tiles, false, 132).1;
        LinearResidualNorm::of(rows, columns)
            .is_some_and(|linear_residual_norm| linear_residual_norm.is_faster(rows, k_tiles, clusters, alone))
    }

    #[test]
    fn layers_are_fused_with_their_norms_where_it_is_faster() {
        let narrow =
            [4096, 16_384, 65_536, 1 << 18].map(|rows| [6, 24].map(|k_tiles| is_fused(rows, 384, k_tiles, 66)));
        assert_eq!(narrow, [[true; 2], [false; 2], [true; 2], [true; 2]]);
        let wide = [4096, 16_384, 65_536, 1 << 18].map(|rows| [12, 48].map(|k_tiles| is_fused(rows, 768, k_tiles, 30)));
        assert_eq!(wide, [[false; 2], [true, false], [true, false], [true, false]]);
    }

    #[test]
    fn few_rows_and_other_widths_are_not_fused() {
        assert!(LinearResidualNorm::of(4095, 768).is_none() && LinearResidualNorm::of(1 << 18, 1024).is_none());
        assert_eq!([LinearResidualNorm::clusters(129, 30), LinearResidualNorm::clusters(1 << 18, 30)], [2, 30]);
    }
}
