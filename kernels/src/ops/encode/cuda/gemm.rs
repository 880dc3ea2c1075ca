//! Linear layers: the GEMM kernels of `cu/gemm`, the choice among them by shape, and their launches.

use super::{
    gemm_mma::{MMA_CAPABILITY, launch_gemm_mma},
    gemm_tiles::{GEMM_PINGPONG_LAUNCH, GEMM_SM90_LAUNCH, PINGPONG_KERNELS, SM90_KERNELS, tile_for},
    hidden_states::{HiddenStates, TILED, TILED_LAUNCH},
    launch::{LaunchContext, fit, kernel, kernel_of},
    linear::{
        ACTIVATION, EPILOGUE, GELU, GELU_TANH, LINEAR, LINEAR_LAUNCH, LinearParams, PLAIN, RELU, SILU, TILE_SCHEDULER,
    },
    norm::{NORM, NORM_LAUNCH, NormParams},
    weights::Weight,
};
use crate::{
    OpError,
    cuda::{
        Args, COMMON, Grid, Kernel, MAINLOOP_SM90, MMA, Module, PINGPONG_COLUMNS, PINGPONG_LAUNCH, PINGPONG_ROWS,
        PINGPONG_THREADS, Source, WGMMA, cu, launch_structs,
    },
    ops::encode::{Activation, DType, Linear},
};

launch_structs! {
    header GEMM_SIMT_LAUNCH = "launch/gemm_simt.cuh";

    /// Rows and columns of a block's tile.
    const SIMT_ROWS: usize = 128;
    const SIMT_COLUMNS: usize = 64;
    const SIMT_THREADS: u32 = 256;
}

/// By dtype: f32 arithmetic without tensor cores, on any device.
const GEMM_SIMT: [Kernel; 3] = [
    kernel::<LinearParams>("gemm_simt_f32"),
    kernel::<LinearParams>("gemm_simt_f16"),
    kernel::<LinearParams>("gemm_simt_bf16"),
];

/// With more rows, other tiles are faster.
const MAX_SKINNY_ROWS: usize = 128;
/// The most shared memory of a block. A deep pipeline hides the latency of the rows, which gains more than leaving room
/// for blocks of the next launch to prefetch their weights.
const SMEM_BYTES: usize = 224 << 10;
/// The most shared memory of a block's weights: it leaves three stages of 64 rows. With two, other tiles are faster.
const MAX_WEIGHT_BYTES: usize = 96 << 10;

#[derive(Clone, Copy, Debug)]
struct SkinnyTile {
    columns: usize,
    kernels: [Kernel; 2],
}

const SKINNY_PARAMS: &[usize] = &[size_of::<LinearParams>(), size_of::<u32>()];

launch_structs! {
    header GEMM_SKINNY_LAUNCH = "launch/gemm_skinny.cuh";

    /// Rows of a tile.
    pub(super) const SKINNY_ROWS: usize = 64;
    const SKINNY_THREADS: u32 = 160;
    /// K tiles of a stage.
    const STAGE_K_TILES: usize = 4;
    const MAX_STAGES: usize = 64;
    const BARRIER_BYTES: usize = 2 * MAX_STAGES * 8;
    /// Shared memory of the weights of `columns` columns, in bytes.
    const fn skinny_weight_bytes(k_tiles: usize, columns: usize) -> usize { k_tiles * columns * 128 }
    /// Shared memory of a k tile of the rows.
    #[allow(clippy::manual_div_ceil, reason = "CUDA has the same expression")]
    const fn skinny_k_tile_bytes(rows: usize) -> usize { (rows + 7) / 8 * 1024 }

    // In ascending order of columns.
    instances SKINNY_TILES: [SkinnyTile; 5], SKINNY_KERNELS = GEMM_SKINNY("gemm_skinny", SKINNY_PARAMS) {
        "8": { columns: 8 },
        "16": { columns: 16 },
        "24": { columns: 24 },
        "32": { columns: 32 },
        "48": { columns: 48 },
    }
}

/// The launch of a GEMM with few rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct SkinnyGemm {
    tile: SkinnyTile,
    pub(super) blocks: usize,
    pub(super) stages: usize,
    pub(super) shared_bytes: usize,
}

impl SkinnyGemm {
    /// The narrowest tile with at most one block per multiprocessor: latency dominates, and each block reads all rows. None
    /// where the layer does not fit.
    pub(super) fn of(rows: usize, columns: usize, k_tiles: usize, gated: bool, sm_count: usize) -> Option<Self> {
        let blocks = |tile: &SkinnyTile| rows.div_ceil(SKINNY_ROWS) * columns.div_ceil(tile.columns);
        let fits = |tile: &&SkinnyTile| {
            columns.is_multiple_of(tile.columns)
                && (!gated || tile.columns.is_multiple_of(16))
                && blocks(tile) <= sm_count
                && skinny_weight_bytes(k_tiles, tile.columns) <= MAX_WEIGHT_BYTES
        };
        let tile = SKINNY_TILES.iter().filter(|_| rows <= MAX_SKINNY_ROWS).find(fits)?;
        let weights = BARRIER_BYTES + skinny_weight_bytes(k_tiles, tile.columns);
        let k_tile = skinny_k_tile_bytes(rows.min(SKINNY_ROWS));
        let tail = SKINNY_ROWS * 128 - k_tile;
        let limit = (SMEM_BYTES - weights - tail) / (STAGE_K_TILES * k_tile);
        let stages = k_tiles.div_ceil(STAGE_K_TILES).min(limit.min(MAX_STAGES));
        let shared_bytes = weights + k_tiles.min(STAGE_K_TILES * stages) * k_tile + tail;
        Some(Self { tile: *tile, blocks: blocks(tile), stages, shared_bytes })
    }

    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        kernel_of(&self.tile.kernels, dtype)
    }
}

/// Not measured with fewer rows.
const MIN_ROWS: usize = 4096;
/// The fused kernel is faster with one wave of row tiles, or with enough waves to overlap the epilogue.
const MIN_WAVES: usize = 4;

launch_structs! {
    header LINEAR_RESIDUAL_NORM_LAUNCH = "launch/linear_residual_norm.cuh",
        includes "launch/linear.cuh", "launch/norm.cuh";

    /// Stages of k tiles in shared memory.
    const RESIDUAL_NORM_STAGES: usize = 4;
    /// Dynamic shared memory: stages of k tiles, staging of the epilogue, row sums, column factors, and barriers.
    const fn residual_norm_shared_bytes(stages: usize) -> usize {
        stages * (128 + 192) * 128 + 128 * 192 * 2 + 2 * 4 * 128 * 4 + 3 * 192 * 4 + (2 * stages + 2 + 32) * 8
    }

    /// Parameters of `linear_residual_norm`.
    pub(super) struct LinearResidualNormParams {
        pub(super) layer: LinearParams,
        pub(super) residual: "const u8*",
        pub(super) norm: NormParams,
    }

    // By width: a cluster of one block per 192 columns computes a row tile.
    instances FUSED: [LinearResidualNorm; 2], FUSED_KERNELS = LINEAR_RESIDUAL_NORM("linear_residual_norm", FUSED_PARAMS) {
        "384": { columns: 384, cluster: 2 },
        "768": { columns: 768, cluster: 4 },
    }
}

const FUSED_PARAMS: &[usize] = &[size_of::<LinearResidualNormParams>()];

/// The fused kernels for a width.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinearResidualNorm {
    columns: usize,
    /// Blocks of a cluster.
    pub(super) cluster: u32,
    kernels: [Kernel; 2],
}

impl LinearResidualNorm {
    pub(super) const THREADS: u32 = PINGPONG_THREADS;

    pub(super) fn of(rows: usize, columns: usize) -> Option<&'static Self> {
        FUSED.iter().find(|fused| fused.columns == columns).filter(|_| rows >= MIN_ROWS)
    }

    pub(super) fn kernel(&self, dtype: DType) -> Kernel {
        kernel_of(&self.kernels, dtype)
    }

    pub(super) fn shared_bytes() -> Result<u32, OpError> {
        fit(residual_norm_shared_bytes(RESIDUAL_NORM_STAGES))
    }

    /// Clusters of a launch, where the device holds at most `limit` at once.
    pub(super) fn clusters(rows: usize, limit: usize) -> usize {
        rows.div_ceil(PINGPONG_ROWS).min(limit)
    }

    /// Returns true if the fused kernel on `clusters` clusters is faster than a GEMM of cost `alone` and a norm. In the cost unit of
    /// [`tile_for`] per 64 x 64 outputs: a k tile costs 100.
    pub(super) fn is_faster(&self, rows: usize, k_tiles: usize, clusters: usize, alone: usize) -> bool {
        let waves = rows.div_ceil(PINGPONG_ROWS).div_ceil(clusters);
        // The epilogue costs ten k tiles and overlaps the next mainloop.
        let fused = waves * ((118 * k_tiles).max(1200) + 300) + if waves > 1 { 600 } else { 0 };
        // Three passes over the rows, and a launch.
        let norm = rows * self.columns / 3400 + 1000;
        (waves == 1 || waves >= MIN_WAVES) && fused < alone / (PINGPONG_ROWS * PINGPONG_COLUMNS) + norm
    }
}

/// The kernels' code of an activation. Their GELU is exact enough to serve both precisions.
pub(super) fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Gelu => GELU,
        Activation::GeluTanh => GELU_TANH,
        Activation::Relu => RELU,
        Activation::Silu => SILU,
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
        activation: PLAIN,
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
    let rows = launch.rows;
    let columns = linear.weight.rows as usize;
    let k_tiles = linear.weight.tiles_per_row as usize;
    let fits = launch.worker.compute_capability().0 == 9
        && launch.dtype != DType::F32
        && [x.dtype, residual.dtype, linear.weight.out_dtype] == [launch.dtype; 3]
        && [linear.outputs, residual.width] == [columns; 2];
    let Some(fused) = LinearResidualNorm::of(rows, columns).filter(|_| fits) else {
        return Ok(None);
    };
    let kernel = fused.kernel(launch.dtype);
    let shared_bytes = LinearResidualNorm::shared_bytes()?;
    let limit = launch.worker.clusters(&kernel, fused.cluster, LinearResidualNorm::THREADS, shared_bytes)?;
    let clusters = LinearResidualNorm::clusters(rows, limit as usize);
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
    let blocks = fit(launch.rows.div_ceil(SIMT_ROWS) * (layer.columns as usize).div_ceil(SIMT_COLUMNS))?;
    let kernel = &GEMM_SIMT[launch.dtype as usize];
    launch.worker.launch_pdl(kernel, Grid::x(blocks), SIMT_THREADS, 0, &mut Args::new().value(layer))
}

fn launch_gemm_sm90(launch: &LaunchContext<'_>, layer: LinearParams) -> Result<(), OpError> {
    let rows = launch.rows;
    let columns = layer.columns as usize;
    let mut args = Args::new().value(layer);
    let sm_count = launch.worker.sm_count();
    if let Some(skinny) = SkinnyGemm::of(rows, columns, layer.k_tiles as usize, layer.gated != 0, sm_count as usize) {
        let grid = Grid::x(fit(skinny.blocks)?);
        let kernel = skinny.kernel(launch.dtype);
        let shared_bytes = fit(skinny.shared_bytes)?;
        let mut args = args.u32(fit(skinny.stages)?);
        return launch.worker.launch_pdl(&kernel, grid, SKINNY_THREADS, shared_bytes, &mut args);
    }
    let (tile, _) = tile_for(rows, columns, layer.k_tiles as usize, layer.gated != 0, sm_count as usize);
    let cluster = tile.cluster;
    let blocks = rows.div_ceil(tile.rows * cluster) * cluster * columns.div_ceil(tile.columns);
    let maximum = (tile.blocks_per_sm * sm_count as usize / cluster * cluster).max(cluster);
    let grid = Grid::x(fit(blocks.min(maximum))?);
    let shared_bytes = fit(tile.shared_bytes())?;
    launch.worker.launch_pdl(&tile.kernel(launch.dtype), grid, tile.threads, shared_bytes, &mut args)
}

const GEMM_SM90: Source = cu!("gemm/gemm_sm90.cuh");
const GEMM_PINGPONG: Source = cu!("gemm/gemm_pingpong.cuh");

const SM90_HEADERS: &[Source] = &[
    COMMON,
    TILED_LAUNCH,
    TILED,
    ACTIVATION,
    MMA,
    WGMMA,
    PINGPONG_LAUNCH,
    MAINLOOP_SM90,
    LINEAR_LAUNCH,
    LINEAR,
    EPILOGUE,
    TILE_SCHEDULER,
    GEMM_SM90_LAUNCH,
    GEMM_SM90,
    GEMM_PINGPONG_LAUNCH,
    GEMM_PINGPONG,
    GEMM_SKINNY_LAUNCH,
];
const RESIDUAL_NORM_HEADERS: &[Source] = &[
    COMMON,
    TILED_LAUNCH,
    TILED,
    ACTIVATION,
    MMA,
    WGMMA,
    PINGPONG_LAUNCH,
    MAINLOOP_SM90,
    LINEAR_LAUNCH,
    LINEAR,
    EPILOGUE,
    TILE_SCHEDULER,
    GEMM_SM90_LAUNCH,
    GEMM_SM90,
    GEMM_PINGPONG_LAUNCH,
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
    headers: &[COMMON, TILED_LAUNCH, TILED, ACTIVATION, LINEAR_LAUNCH, LINEAR, GEMM_SIMT_LAUNCH],
    defines: &[],
    kernels: &GEMM_SIMT,
};

static GEMM_SM90_F16: Module = Module {
    name: "gemm_sm90_f16",
    source: cu!("gemm/gemm_sm90.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &SM90_KERNELS[0],
};

static GEMM_SM90_BF16: Module = Module {
    name: "gemm_sm90_bf16",
    source: cu!("gemm/gemm_sm90.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &SM90_KERNELS[1],
};

static GEMM_PINGPONG_F16: Module = Module {
    name: "gemm_pingpong_f16",
    source: cu!("gemm/gemm_pingpong.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &PINGPONG_KERNELS[0],
};

static GEMM_PINGPONG_BF16: Module = Module {
    name: "gemm_pingpong_bf16",
    source: cu!("gemm/gemm_pingpong.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &PINGPONG_KERNELS[1],
};

static GEMM_SKINNY_F16: Module = Module {
    name: "gemm_skinny_f16",
    source: cu!("gemm/gemm_skinny.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &SKINNY_KERNELS[0],
};

static GEMM_SKINNY_BF16: Module = Module {
    name: "gemm_skinny_bf16",
    source: cu!("gemm/gemm_skinny.cu"),
    headers: SM90_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &SKINNY_KERNELS[1],
};

static LINEAR_RESIDUAL_NORM_F16: Module = Module {
    name: "linear_residual_norm_f16",
    source: cu!("gemm/linear_residual_norm.cu"),
    headers: RESIDUAL_NORM_HEADERS,
    defines: &["DTYPE=f16"],
    kernels: &FUSED_KERNELS[0],
};

static LINEAR_RESIDUAL_NORM_BF16: Module = Module {
    name: "linear_residual_norm_bf16",
    source: cu!("gemm/linear_residual_norm.cu"),
    headers: RESIDUAL_NORM_HEADERS,
    defines: &["DTYPE=bf16"],
    kernels: &FUSED_KERNELS[1],
};

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Returns true if a layer of this shape is fused with its norm.
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
