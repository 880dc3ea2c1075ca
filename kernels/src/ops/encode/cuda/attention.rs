//! Self-attention: QK norm and rotary embedding, then the attention kernels of `cu/attention`.

use super::{
    device_batch::{DeviceBatch, WORK_ITEMS_LAUNCH},
    head_dim::{MMA_HEAD_DIMS, mma_head_dim_index, padded_head_dim},
    hidden_states::{HiddenStates, TILED, TILED_LAUNCH},
    launch::{LaunchContext, fit, kernel},
    norm::{NORM, NORM_LAUNCH, norm_kind},
    weights::Weight,
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, Kernel, MMA, Module, Source, WGMMA, cu, launch_structs},
    ops::encode::{Attention, DType, QkNorm},
};

launch_structs! {
    header QK_NORM_ROPE_LAUNCH = "launch/qk_norm_rope.cuh";

    const QK_NORM_ROPE_THREADS: u32 = 256;
    /// Dynamic shared memory: the queries and keys of a row.
    const fn qk_norm_rope_shared_bytes(heads: usize, head_dim: usize) -> usize { heads * head_dim * 4 }

    /// Parameters of `qk_norm_rope`.
    pub(super) struct QkNormRopeParams {
        pub(super) qkv: "u8*",
        pub(super) cu_seqlens: "const u32*",
        pub(super) query_weight: "const float*",
        pub(super) query_bias: "const float*",
        pub(super) key_weight: "const float*",
        pub(super) key_bias: "const float*",
        pub(super) rotary: "const float*",
        pub(super) sequences: u32,
        pub(super) tiles_per_row: u32,
        pub(super) heads: u32,
        pub(super) kv_heads: u32,
        pub(super) head_dim: u32,
        pub(super) padded_head_dim: u32,
        pub(super) rotary_dims: u32,
        pub(super) kind: u32,
        pub(super) all_heads: u32,
        pub(super) epsilon: f32,
    }
}

launch_structs! {
    header ATTENTION_LAUNCH = "launch/attention.cuh";

    /// The window of a layer that has none.
    const NO_WINDOW: u32 = u32::MAX;

    const MMA_THREADS: u32 = 128;
    /// Keys and values of 64 rows of a head.
    const fn mma_kv_bytes(dim: usize) -> usize { 2 * 64 * dim * 2 }
    /// For longer sequences, they have several stages.
    const MMA_KV_STAGES: usize = 3;

    /// Rows of a block of `attention_simt`, each of a warp.
    const SIMT_ROWS: usize = 4;
    const SIMT_THREADS: u32 = 128;
    /// Dynamic shared memory: a query and its output for each row.
    const fn simt_shared_bytes(head_dim: usize) -> usize { SIMT_ROWS * 2 * head_dim * 4 }

    /// Rows of keys and values, of a tile of 64, and of queries, of a tile of 128, in shared memory: loads start at a multiple of 8.
    const KV_TILE_BYTES: u32 = (64 + 8) * 128;
    const Q_TILE_BYTES: u32 = (128 + 8) * 128;
    /// Threads of the Hopper kernels for heads of up to 64 columns: two teams of two consumer warpgroups, each with its own pipeline, and a
    /// warpgroup of producers.
    const D64_THREADS: u32 = 640;
    const KV_STAGES: u32 = 4;
    /// Keys and values, two slots of queries, and work items and barriers.
    const TEAM_SMEM_BYTES: u32 = 2 * KV_STAGES * KV_TILE_BYTES + 2 * Q_TILE_BYTES + 1024;
    const D64_SMEM_BYTES: u32 = 2 * TEAM_SMEM_BYTES;
    /// Columns of 128 bytes that a team processes at once: one head of 64 columns, or two of 32.
    const COLUMN_WIDTH: usize = 64;
    /// Threads of the kernel for heads of 128 columns: two consumer warpgroups and a warpgroup of the producer.
    const D128_THREADS: u32 = 384;
    /// A head is two columns of 128 bytes; two slots each of keys, values and queries, and work items and barriers.
    const D128_SMEM_BYTES: u32 = 6 * 2 * Q_TILE_BYTES + 1024;

    /// Parameters of all attention kernels.
    pub(super) struct AttentionParams {
        pub(super) qkv: "const u8*",
        pub(super) out: "u8*",
        pub(super) cu_seqlens: "const u32*",
        pub(super) work_items: "const uint2*",
        pub(super) slopes: "const float*",
        pub(super) relative_bias: "const float*",
        pub(super) rows: u32,
        pub(super) sequences: u32,
        pub(super) tiles_per_row: u32,
        pub(super) out_tiles_per_row: u32,
        pub(super) heads: u32,
        pub(super) kv_heads: u32,
        pub(super) group_size: u32,
        pub(super) head_dim: u32,
        pub(super) padded_head_dim: u32,
        pub(super) max_seqlen: u32,
        pub(super) causal: u32,
        pub(super) window: u32,
        pub(super) long_items: u32,
        pub(super) whole_items: u32,
        pub(super) middle_items: u32,
        pub(super) short_items: u32,
        pub(super) scale: f32,
        pub(super) out_bf16: u32,
        pub(super) reverse: u32,
        pub(super) unused: u32,
    }
}

/// By dtype.
pub(super) const QK_NORM_ROPE: [Kernel; 3] = [
    kernel::<QkNormRopeParams>("qk_norm_rope_f32"),
    kernel::<QkNormRopeParams>("qk_norm_rope_f16"),
    kernel::<QkNormRopeParams>("qk_norm_rope_bf16"),
];
/// By dtype: f32 arithmetic without tensor cores, on any device, for any head size.
pub(super) const ATTENTION_SIMT: [Kernel; 3] = [
    kernel::<AttentionParams>("attention_simt_f32"),
    kernel::<AttentionParams>("attention_simt_f16"),
    kernel::<AttentionParams>("attention_simt_bf16"),
];
/// By [`MMA_HEAD_DIMS`]: for sequences of at most 64 tokens, and for longer ones.
pub(super) const ATTENTION_MMA: [[Kernel; 2]; 3] = [
    [kernel::<AttentionParams>("attention_mma_32"), kernel::<AttentionParams>("attention_mma_32_long")],
    [kernel::<AttentionParams>("attention_mma_64"), kernel::<AttentionParams>("attention_mma_64_long")],
    [kernel::<AttentionParams>("attention_mma_128"), kernel::<AttentionParams>("attention_mma_128_long")],
];

/// A Hopper kernel for sequences of more than 64 tokens with its launch parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sm90Kernel {
    pub(super) kernel: Kernel,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

const fn sm90(name: &'static str, threads: u32, shared_bytes: u32) -> Sm90Kernel {
    Sm90Kernel { kernel: kernel::<AttentionParams>(name), threads, shared_bytes }
}

/// By [`MMA_HEAD_DIMS`].
pub(super) const ATTENTION_SM90: [Sm90Kernel; 3] = [
    sm90("attention_sm90_32", D64_THREADS, D64_SMEM_BYTES),
    sm90("attention_sm90_64", D64_THREADS, D64_SMEM_BYTES),
    sm90("attention_sm90_128", D128_THREADS, D128_SMEM_BYTES),
];

/// The `mma.sync` kernels for a head size, if any. They read binary16.
fn mma_kernels(dtype: DType, head: usize, capability: (u32, u32)) -> Option<&'static [Kernel; 2]> {
    mma_head_dim_index(dtype, head, capability).map(|index| &ATTENTION_MMA[index])
}

/// The Hopper kernel for these heads, if any. Two heads of 32 columns must have their own keys; heads of 128 have no biases.
fn sm90_kernel(
    [heads, kv_heads, padded]: [usize; 3],
    biased: bool,
    capability: (u32, u32),
) -> Option<&'static Sm90Kernel> {
    let sm90 = &ATTENTION_SM90[MMA_HEAD_DIMS.iter().position(|head| *head == padded)?];
    let heads_per_column = COLUMN_WIDTH / padded;
    let fits = match heads_per_column {
        0 => !biased,
        1 => true,
        _ => heads == kv_heads && heads.is_multiple_of(heads_per_column),
    };
    (capability.0 == 9 && fits).then_some(sm90)
}

/// QK norm and rotary embedding, in place.
pub(super) fn qk_norm_rope(
    launch: &LaunchContext<'_>,
    batch: &DeviceBatch,
    qkv: &HiddenStates,
    params: &Attention<'_, Weight>,
) -> Result<(), OpError> {
    if params.query_norm.is_none() && params.rotary.is_none() {
        return Ok(());
    }
    let address = |weight: Option<&Weight>| weight.map_or(0, Weight::address);
    let queries = params.query_norm.map(|norm| norm.1);
    let keys = params.query_norm.map(|norm| norm.2);
    let rope_params = QkNormRopeParams {
        qkv: qkv.address(),
        cu_seqlens: batch.cu_seqlens(),
        query_weight: address(queries.map(|norm| &norm.weight)),
        query_bias: address(queries.and_then(|norm| norm.bias.as_ref())),
        key_weight: address(keys.map(|norm| &norm.weight)),
        key_bias: address(keys.and_then(|norm| norm.bias.as_ref())),
        rotary: address(params.rotary.map(|rotary| rotary.0)),
        sequences: fit(batch.sequences)?,
        tiles_per_row: qkv.tiles_per_row,
        heads: fit(params.heads)?,
        kv_heads: fit(params.kv_heads)?,
        head_dim: fit(params.head_dim)?,
        padded_head_dim: fit(padded_head_dim(launch.dtype, params.head_dim))?,
        rotary_dims: fit(params.rotary.map_or(0, |rotary| rotary.1))?,
        kind: queries.map_or(0, |norm| norm_kind(norm.kind)),
        all_heads: matches!(params.query_norm, Some((QkNorm::AllHeads, ..))).into(),
        epsilon: queries.map_or(0.0, |norm| norm.epsilon),
    };
    let shared_bytes = fit(qk_norm_rope_shared_bytes(params.heads + params.kv_heads, params.head_dim))?;
    let grid = Grid::x(fit(launch.rows)?);
    launch.worker.launch_pdl(
        &QK_NORM_ROPE[qkv.dtype as usize],
        grid,
        QK_NORM_ROPE_THREADS,
        shared_bytes,
        &mut Args::new().value(rope_params),
    )
}

pub(super) fn attention(
    launch: &LaunchContext<'_>,
    batch: &DeviceBatch,
    qkv: &HiddenStates,
    out: &HiddenStates,
    params: &Attention<'_, Weight>,
) -> Result<(), OpError> {
    let padded = padded_head_dim(launch.dtype, params.head_dim);
    let items = &batch.items;
    let attention_params = AttentionParams {
        qkv: qkv.address(),
        out: out.address(),
        cu_seqlens: batch.cu_seqlens(),
        work_items: batch.address(0),
        slopes: params.slopes.map_or(0, Weight::address),
        relative_bias: params.relative_bias.map_or(0, Weight::address),
        rows: fit(launch.rows)?,
        sequences: fit(batch.sequences)?,
        tiles_per_row: qkv.tiles_per_row,
        out_tiles_per_row: out.tiles_per_row,
        heads: fit(params.heads)?,
        kv_heads: fit(params.kv_heads)?,
        group_size: fit(params.heads / params.kv_heads)?,
        head_dim: fit(params.head_dim)?,
        padded_head_dim: fit(padded)?,
        max_seqlen: fit(params.max_tokens)?,
        causal: params.causal.into(),
        window: params.window.map_or(Ok(NO_WINDOW), fit)?,
        long_items: fit(items.long)?,
        whole_items: fit(items.whole)?,
        middle_items: fit(items.middle)?,
        short_items: fit(items.short)?,
        scale: params.scale,
        out_bf16: (out.dtype == DType::Bf16).into(),
        reverse: launch.direction(),
        unused: 0,
    };
    let mut args = Args::new().value(attention_params);
    if let Some([short, long]) = mma_kernels(launch.dtype, params.head_dim, launch.worker.compute_capability()) {
        let [short_blocks, long_blocks] = items.blocks(params.heads);
        let kv_bytes = mma_kv_bytes(padded);
        launch.worker.launch_pdl(short, Grid::x(fit(short_blocks)?), MMA_THREADS, fit(kv_bytes)?, &mut args)?;
        let biased = params.slopes.or(params.relative_bias).is_some();
        let capability = launch.worker.compute_capability();
        if let Some(sm90) = sm90_kernel([params.heads, params.kv_heads, padded], biased, capability) {
            let grid = Grid::x(fit(long_blocks)?.min(launch.worker.sm_count()));
            return launch.worker.launch_pdl(&sm90.kernel, grid, sm90.threads, sm90.shared_bytes, &mut args);
        }
        let grid = Grid::x(fit(long_blocks)?);
        let shared_bytes = fit(MMA_KV_STAGES * kv_bytes)?;
        return launch.worker.launch_pdl(long, grid, MMA_THREADS, shared_bytes, &mut args);
    }
    let grid = Grid::xy(fit(launch.rows.div_ceil(SIMT_ROWS))?, fit(params.heads)?);
    let shared_bytes = fit(simt_shared_bytes(params.head_dim))?;
    launch.worker.launch_pdl(&ATTENTION_SIMT[launch.dtype as usize], grid, SIMT_THREADS, shared_bytes, &mut args)
}

const ACTIVATION: Source = cu!("common/activation.cuh");
const ATTENTION: Source = cu!("attention/attention.cuh");
const ONLINE_SOFTMAX: Source = cu!("attention/online_softmax.cuh");
const ATTENTION_MMA_HEADER: Source = cu!("attention/attention_mma.cuh");
const ATTENTION_SM90_HEADER: Source = cu!("attention/attention_sm90_d64.cuh");
const WARP_SCHEDULER: Source = cu!("attention/warp_scheduler.cuh");
const SM90_HEADERS: &[Source] = &[
    COMMON,
    TILED_LAUNCH,
    TILED,
    ACTIVATION,
    MMA,
    WGMMA,
    WORK_ITEMS_LAUNCH,
    ATTENTION_LAUNCH,
    ATTENTION,
    ONLINE_SOFTMAX,
    WARP_SCHEDULER,
    ATTENTION_MMA_HEADER,
    ATTENTION_SM90_HEADER,
];

pub(super) static MODULES: [&Module; 5] =
    [&QK_NORM_ROPE_MODULE, &ATTENTION_SIMT_MODULE, &ATTENTION_MMA_MODULE, &ATTENTION_SM90_D64, &ATTENTION_SM90_D128];

static QK_NORM_ROPE_MODULE: Module = Module {
    name: "qk_norm_rope",
    source: cu!("attention/qk_norm_rope.cu"),
    headers: &[COMMON, TILED_LAUNCH, TILED, NORM_LAUNCH, NORM, QK_NORM_ROPE_LAUNCH],
    defines: &[],
    kernels: &QK_NORM_ROPE,
};

static ATTENTION_SIMT_MODULE: Module = Module {
    name: "attention_simt",
    source: cu!("attention/attention_simt.cu"),
    headers: &[COMMON, TILED_LAUNCH, TILED, ACTIVATION, WORK_ITEMS_LAUNCH, ATTENTION_LAUNCH, ATTENTION],
    defines: &[],
    kernels: &ATTENTION_SIMT,
};

static ATTENTION_MMA_MODULE: Module = Module {
    name: "attention_mma",
    source: cu!("attention/attention_mma.cu"),
    headers: &[
        COMMON,
        TILED_LAUNCH,
        TILED,
        ACTIVATION,
        MMA,
        WORK_ITEMS_LAUNCH,
        ATTENTION_LAUNCH,
        ATTENTION,
        ONLINE_SOFTMAX,
        ATTENTION_MMA_HEADER,
    ],
    defines: &[],
    kernels: &[
        ATTENTION_MMA[0][0],
        ATTENTION_MMA[0][1],
        ATTENTION_MMA[1][0],
        ATTENTION_MMA[1][1],
        ATTENTION_MMA[2][0],
        ATTENTION_MMA[2][1],
    ],
};

static ATTENTION_SM90_D64: Module = Module {
    name: "attention_sm90_d64",
    source: cu!("attention/attention_sm90_d64.cu"),
    headers: SM90_HEADERS,
    defines: &[],
    kernels: &[ATTENTION_SM90[0].kernel, ATTENTION_SM90[1].kernel],
};

static ATTENTION_SM90_D128: Module = Module {
    name: "attention_sm90_d128",
    source: cu!("attention/attention_sm90_d128.cu"),
    headers: SM90_HEADERS,
    defines: &[],
    kernels: &[ATTENTION_SM90[2].kernel],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_core_kernels_support_padded_heads_of_32_64_and_128() {
        let takes = |dtype, head, major| mma_kernels(dtype, head, (major, 0)).map(|kernels| kernels[0].name);
        assert_eq!(takes(DType::Bf16, 20, 8), Some("attention_mma_32"));
        assert_eq!(takes(DType::F16, 128, 9), Some("attention_mma_128"));
        assert_eq!([takes(DType::F32, 64, 9), takes(DType::F16, 160, 9), takes(DType::Bf16, 64, 7)], [None; 3]);
    }

    #[test]
    fn hopper_kernels_need_pairs_of_narrow_heads_and_wide_heads_without_biases() {
        let takes = |heads: [usize; 3], biased| sm90_kernel(heads, biased, (9, 0)).map(|sm90| sm90.kernel.name);
        assert_eq!(takes([12, 12, 32], true), Some("attention_sm90_32"));
        assert_eq!(takes([7, 1, 64], true), Some("attention_sm90_64"));
        assert_eq!(takes([16, 8, 128], false), Some("attention_sm90_128"));
        assert_eq!([takes([3, 3, 32], false), takes([4, 2, 32], false), takes([4, 4, 40], false)], [None; 3]);
        assert!(takes([4, 4, 128], true).is_none(), "biases");
        assert!(sm90_kernel([4, 4, 64], false, (8, 0)).is_none(), "no warpgroups");
    }
}
