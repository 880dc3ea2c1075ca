//! Embeddings and norms: the kernels of `cu/norm`, which read and write whole rows of hidden states.

use super::{
    hidden_states::{HiddenStates, TILED, TILED_LAUNCH},
    launch::{LaunchContext, fit, kernel},
    weights::Weight,
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, Kernel, Module, Source, cu, launch_structs},
    ops::encode::{self, DType, NormKind},
};

launch_structs! {
    pub(super) header NORM_LAUNCH = "launch/norm.cuh";

    /// Kinds of norms; 0 is none.
    const LAYER_NORM: u32 = 1;
    const RMS_NORM: u32 = 2;

    /// The most threads of a block. A row has a warp, or where it is wide such a block.
    const ROW_THREADS: u32 = 256;

    /// Bits of `f32_mask`: operands in f32 although the compute type has 16 bits.
    pub(super) const F32_WORD_EMBEDDINGS: u32 = 1;
    pub(super) const F32_POSITION_EMBEDDINGS: u32 = 2;
    pub(super) const F32_TOKEN_TYPE_EMBEDDINGS: u32 = 4;
    pub(super) const F32_OUT: u32 = 8;

    /// Parameters of a norm.
    pub(super) struct NormParams {
        pub(super) weight: "const float*",
        pub(super) bias: "const float*",
        pub(super) kind: u32,
        pub(super) epsilon: f32,
    }

    /// Parameters of `embedding_norm`.
    pub(super) struct EmbeddingNormParams {
        pub(super) ids: "const u32*",
        pub(super) token_type_ids: "const u32*",
        pub(super) position_rows: "const u32*",
        pub(super) cu_seqlens: "const u32*",
        pub(super) word_embeddings: "const u8*",
        pub(super) position_embeddings: "const u8*",
        pub(super) token_type_embeddings: "const u8*",
        pub(super) out: "u8*",
        pub(super) norm: NormParams,
        pub(super) rows: u32,
        pub(super) sequences: u32,
        pub(super) tiles_per_row: u32,
        pub(super) width: u32,
        pub(super) position_offset: u32,
        pub(super) f32_mask: u32,
    }

    /// Parameters of `residual_norm`.
    pub(super) struct ResidualNormParams {
        pub(super) x: "const u8*",
        pub(super) delta: "const u8*",
        pub(super) out: "u8*",
        pub(super) residual_out: "u8*",
        pub(super) norm: NormParams,
        pub(super) rows: u32,
        pub(super) tiles_per_row: u32,
        pub(super) width: u32,
        pub(super) f32_residual: u32,
        pub(super) reverse: u32,
        pub(super) unused: u32,
    }
}

pub(super) const NO_NORM: NormParams = NormParams { weight: 0, bias: 0, kind: 0, epsilon: 0.0 };

/// Launches of at most this many rows have about one warp for each scheduler of a multiprocessor, and wait for the norm's
/// weights as long as for the rows: their kernels load the weights first.
const PRELOAD_ROWS: usize = 512;
/// Their threads per block.
const PRELOAD_THREADS: u32 = 128;

/// The most columns that each instance of a row kernel supports. Where a smaller instance would not be faster, the next one
/// fills its place.
pub(super) const ROW_WIDTHS: [usize; 3] = [512, 1024, 4096];

/// By dtype, then by [`ROW_WIDTHS`].
pub(super) const EMBEDDING_NORM: [[Kernel; 3]; 3] = [
    [
        kernel::<EmbeddingNormParams>("embedding_norm_f32_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_f32_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_f32_4096"),
    ],
    [
        kernel::<EmbeddingNormParams>("embedding_norm_f16_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_f16_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_f16_4096"),
    ],
    [
        kernel::<EmbeddingNormParams>("embedding_norm_bf16_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_bf16_1024"),
        kernel::<EmbeddingNormParams>("embedding_norm_bf16_4096"),
    ],
];
/// By dtype, then by [`ROW_WIDTHS`].
pub(super) const RESIDUAL_NORM: [[Kernel; 3]; 3] = [
    [
        kernel::<ResidualNormParams>("residual_norm_f32_1024"),
        kernel::<ResidualNormParams>("residual_norm_f32_1024"),
        kernel::<ResidualNormParams>("residual_norm_f32_4096"),
    ],
    [
        kernel::<ResidualNormParams>("residual_norm_f16_512"),
        kernel::<ResidualNormParams>("residual_norm_f16_1024"),
        kernel::<ResidualNormParams>("residual_norm_f16_4096"),
    ],
    [
        kernel::<ResidualNormParams>("residual_norm_bf16_512"),
        kernel::<ResidualNormParams>("residual_norm_bf16_1024"),
        kernel::<ResidualNormParams>("residual_norm_bf16_4096"),
    ],
];
/// The instances for at most [`PRELOAD_ROWS`] rows of at most [`ROW_WIDTHS`]`[1]` columns.
pub(super) const EMBEDDING_NORM_PRELOAD: [[Kernel; 2]; 3] = [
    [EMBEDDING_NORM[0][0]; 2],
    [kernel::<EmbeddingNormParams>("embedding_norm_f16_1024_preload"); 2],
    [kernel::<EmbeddingNormParams>("embedding_norm_bf16_1024_preload"); 2],
];
/// The instances for at most [`PRELOAD_ROWS`] rows of at most [`ROW_WIDTHS`]`[1]` columns.
pub(super) const RESIDUAL_NORM_PRELOAD: [[Kernel; 2]; 3] = [
    [RESIDUAL_NORM[0][0]; 2],
    [
        kernel::<ResidualNormParams>("residual_norm_f16_512_preload"),
        kernel::<ResidualNormParams>("residual_norm_f16_1024_preload"),
    ],
    [
        kernel::<ResidualNormParams>("residual_norm_bf16_512_preload"),
        kernel::<ResidualNormParams>("residual_norm_bf16_1024_preload"),
    ],
];

pub(super) fn norm_params(norm: &encode::Norm<Weight>) -> NormParams {
    NormParams {
        weight: norm.weight.address(),
        bias: norm.bias.as_ref().map_or(0, Weight::address),
        kind: norm_kind(norm.kind),
        epsilon: norm.epsilon,
    }
}

pub(super) fn norm_kind(kind: NormKind) -> u32 {
    match kind {
        NormKind::Layer => LAYER_NORM,
        NormKind::Rms => RMS_NORM,
    }
}

/// The index of the smallest of [`ROW_WIDTHS`] that holds such rows.
pub(super) fn width_class(dtype: DType, tiles_per_row: u32) -> Result<usize, OpError> {
    let columns = tiles_per_row as usize * dtype.tile_columns();
    let limit = ROW_WIDTHS[ROW_WIDTHS.len() - 1];
    let wide = || OpError::Invalid(format!("hidden states have {columns} columns, a GPU supports at most {limit}"));
    ROW_WIDTHS.iter().position(|fits| *fits >= columns).ok_or_else(wide)
}

/// Launches one warp per row, or one block per row of the widest.
fn launch_rows<T: bytemuck::Pod>(
    launch: &LaunchContext<'_>,
    kernels: &[[Kernel; 3]; 3],
    preload: &[[Kernel; 2]; 3],
    tiles_per_row: u32,
    value: T,
) -> Result<(), OpError> {
    let width = width_class(launch.dtype, tiles_per_row)?;
    let dtype = launch.dtype as usize;
    let rows = launch.rows;
    let preload = preload[dtype].get(width);
    let (kernel, threads) = match preload.filter(|_| rows <= PRELOAD_ROWS) {
        Some(kernel) => (kernel, PRELOAD_THREADS),
        None => (&kernels[dtype][width], ROW_THREADS),
    };
    let blocks = if preload.is_some() { rows.div_ceil(threads as usize / 32) } else { rows };
    launch.worker.launch_pdl(kernel, Grid::x(fit(blocks)?), threads, 0, &mut Args::new().value(value))
}

pub(super) fn embedding_norm(launch: &LaunchContext<'_>, params: EmbeddingNormParams) -> Result<(), OpError> {
    launch_rows(launch, &EMBEDDING_NORM, &EMBEDDING_NORM_PRELOAD, params.tiles_per_row, params)
}

pub(super) fn residual_norm(
    launch: &LaunchContext<'_>,
    x: &HiddenStates,
    delta: Option<&HiddenStates>,
    residual_out: Option<&HiddenStates>,
    out: &HiddenStates,
    norm: NormParams,
) -> Result<(), OpError> {
    let params = ResidualNormParams {
        x: x.address(),
        delta: delta.map_or(0, HiddenStates::address),
        out: out.address(),
        residual_out: residual_out.map_or(0, HiddenStates::address),
        norm,
        rows: fit(launch.rows)?,
        tiles_per_row: out.tiles_per_row,
        width: fit(x.width)?,
        f32_residual: (x.dtype != launch.dtype).into(),
        reverse: launch.direction(),
        unused: 0,
    };
    launch_rows(launch, &RESIDUAL_NORM, &RESIDUAL_NORM_PRELOAD, out.tiles_per_row, params)
}

pub(super) const NORM: Source = cu!("norm/norm.cuh");
const HEADERS: &[Source] = &[COMMON, TILED_LAUNCH, TILED, NORM_LAUNCH, NORM, cu!("norm/row.cuh")];

pub(super) static MODULES: [&Module; 2] = [&EMBEDDING_NORM_MODULE, &RESIDUAL_NORM_MODULE];

static EMBEDDING_NORM_MODULE: Module = Module {
    name: "embedding_norm",
    source: cu!("norm/embedding_norm.cu"),
    headers: HEADERS,
    defines: &[],
    kernels: &[
        EMBEDDING_NORM[0][0],
        EMBEDDING_NORM[0][2],
        EMBEDDING_NORM[1][0],
        EMBEDDING_NORM[1][2],
        EMBEDDING_NORM[2][0],
        EMBEDDING_NORM[2][2],
        EMBEDDING_NORM_PRELOAD[1][0],
        EMBEDDING_NORM_PRELOAD[2][0],
    ],
};

static RESIDUAL_NORM_MODULE: Module = Module {
    name: "residual_norm",
    source: cu!("norm/residual_norm.cu"),
    headers: HEADERS,
    defines: &[],
    kernels: &[
        RESIDUAL_NORM[0][0],
        RESIDUAL_NORM[0][2],
        RESIDUAL_NORM[1][0],
        RESIDUAL_NORM[1][1],
        RESIDUAL_NORM[1][2],
        RESIDUAL_NORM[2][0],
        RESIDUAL_NORM[2][1],
        RESIDUAL_NORM[2][2],
        RESIDUAL_NORM_PRELOAD[1][0],
        RESIDUAL_NORM_PRELOAD[1][1],
        RESIDUAL_NORM_PRELOAD[2][0],
        RESIDUAL_NORM_PRELOAD[2][1],
    ],
};
