//! The kernels of search: their sources, their parameters, and the constants and structs they share with the host.

use crate::cuda::{
    COMMON, Kernel, MAINLOOP_MMA, MAINLOOP_SM90, MMA, Module, PINGPONG_LAUNCH, Source, WGMMA, cu, launch_structs,
};

const BOUNDS: Source = cu!("search/bounds.cuh");
const TOPK: Source = cu!("search/topk.cuh");
const EPILOGUE: Source = cu!("search/scan_epilogue.cuh");

launch_structs! {
    header LAUNCH = "launch/search.cuh";

    /// Corpus rows of a tile.
    pub(super) const TILE_ROWS: usize = 128;
    /// Bytes of such a tile: 128 of each row.
    pub(super) const TILE_BYTES: usize = TILE_ROWS * 128;
    /// Keys that a block sorts in shared memory.
    pub(super) const SORTED: usize = 4096;
    /// Keys that a thread of the selecting kernels holds.
    pub(super) const KEYS_PER_THREAD: usize = 32;

    /// Threads of a block, and its rows where each has a warp.
    pub(super) const BLOCK_THREADS: u32 = 256;
    pub(super) const BLOCK_ROWS: usize = 8;
    /// Those that quantise a query.
    pub(super) const QUERY_THREADS: u32 = 128;
    /// The most of the kernels that select keys of a query, and all of the one that does everything for it.
    pub(super) const SELECT_THREADS: u32 = 1024;
    /// Those that sort keys.
    pub(super) const SORT_THREADS: u32 = 512;
    /// Rows of a block that compacts candidates.
    pub(super) const COMPACT_ROWS: usize = 1024;

    /// Stages of a k tile of rows and queries in shared memory, of scans by `mma.sync`.
    const MMA_STAGES: usize = 3;
    /// Their dynamic shared memory.
    pub(super) const fn mma_shared_bytes(queries: usize) -> usize { MMA_STAGES * (TILE_BYTES + 128 * queries) }

    /// Threads of scans by `wgmma`: two consumer warpgroups of 128 rows each, and the producer's.
    pub(super) const WGMMA_THREADS: u32 = 384;
    pub(super) const MAX_STAGES: usize = 16;
    /// A k tile of rows and queries, in dynamic shared memory.
    pub(super) const fn wgmma_stage_bytes(queries: usize) -> usize { 2 * TILE_BYTES + 128 * queries }
    /// The alignment of stages, of which the start of the dynamic shared memory may lack some.
    pub(super) const STAGE_ALIGNMENT: usize = 1024;
    /// The most static shared memory: barriers and candidate buffers.
    pub(super) const BUFFER_BYTES: usize = 8192;

    /// The mask of a query without one.
    pub(super) const NO_MASK: u32 = u32::MAX;
    /// The count to be read from the status.
    pub(super) const NO_COUNT: u32 = u32::MAX;
    /// The status of a query whose candidates exceeded a capacity.
    pub(super) const OVERFLOWED: u32 = u32::MAX;

    pub(super) const F32: u32 = 0;
    pub(super) const F16: u32 = 1;
    pub(super) const BF16: u32 = 2;
    pub(super) const I8: u32 = 3;
    /// A query's copy in f32, for the GEMV kernels.
    pub(super) const QUERY_F32: u32 = 4;
    /// A query's copy in two int8 per column, a coarse part and a fine part in steps of 1/256, for the GEMV kernels.
    pub(super) const QUERY_I8X2: u32 = 5;
    /// No copy of a query.
    pub(super) const QUERY_NONE: u32 = 6;

    pub(super) const COSINE: u32 = 0;
    pub(super) const DOT: u32 = 1;
    pub(super) const SQUARED_L2: u32 = 2;

    const STORE: u32 = 0;
    const SAMPLE: u32 = 1;
    const FILTER: u32 = 2;

    /// A corpus row.
    pub(super) align(16) struct RowMeta {
        /// The quantisation scale.
        scale: f32,
        /// -|x|^2/2 for the squared distance, else 0.
        shift: f32,
        /// The norm of the quantisation error, rounded up.
        error: f32,
        /// The norm, rounded up.
        norm: f32,
    }

    /// A query.
    pub(super) align(16) struct QueryMeta {
        /// The quantisation scale.
        scale: f32,
        /// The factors of the error bound.
        per_error: f32,
        per_norm: f32,
        pruning_threshold: f32,
    }

    /// Parameters of a query.
    pub(super) align(16) struct SearchParams {
        pub(super) k: u32,
        /// The slot of its mask, or `NO_MASK`.
        pub(super) mask: u32,
        /// The worst score to return, if `has_threshold`.
        pub(super) threshold: f32,
        pub(super) has_threshold: u32,
    }

    /// The state of a query.
    #[derive(PartialEq)]
    pub(super) align(16) struct SearchStatus {
        /// The number of rescored candidates, or `OVERFLOWED`.
        pub(super) candidates: u32,
        /// The pruning threshold that they reached.
        pub(super) pruning_threshold: f32,
        /// |q|^2.
        pub(super) squared_norm: f64,
    }

    /// The problem shape of a tiled scan.
    pub(super) struct ScanShape {
        pub(super) rows: u32,
        pub(super) queries: u32,
        pub(super) query_tiles: u32,
        /// Tiles of rows that are scanned: every `tile_stride`-th from the first on.
        pub(super) row_tiles: u32,
        pub(super) tile_stride: u32,
        pub(super) k_tiles: u32,
        pub(super) pitch: u32,
        /// Groups of 16 rows of a scanned tile.
        pub(super) row_groups: u32,
        /// The distance of queries in `upper_bounds`.
        pub(super) stride: u32,
        /// The distance of queries in `candidates`.
        pub(super) capacity: u32,
        pub(super) mask_words: u32,
        /// A [`ScanMode`].
        pub(super) mode: u32,
        /// All scales are 1 and all shifts 0, so that a sum is the approximation itself.
        pub(super) unscaled: u32,
    }
}

/// Allocated rows are a multiple of this: the tallest tile that is read whole.
pub(super) const ROW_ALIGNMENT: usize = 2 * TILE_ROWS;

/// The epilogue of a tiled scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ScanMode {
    /// Writes all upper bounds, and the best lower bound of each row group.
    Store = STORE,
    /// Writes the best lower bound of each row group.
    Sample = SAMPLE,
    /// Appends the rows whose upper bound reaches the pruning threshold to the candidates.
    Filter = FILTER,
}

const fn quantise(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] }
}

const fn gemv(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4] }
}

const fn mma(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, size_of::<ScanShape>()] }
}

const fn wgmma(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, size_of::<ScanShape>(), 4] }
}

/// Pads rows to the pitch.
pub(super) const PAD_ROWS: Kernel = Kernel { name: "search_pad_rows", params: &[8, 8, 8, 4, 4] };
/// Quantises queries and initialises their state.
pub(super) const QUANTISE_QUERIES: Kernel =
    Kernel { name: "search_quantise_queries", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4] };
/// Raises pruning thresholds to the k-th best lower bound of row groups.
pub(super) const RAISE_THRESHOLD: Kernel = Kernel { name: "search_raise_threshold", params: &[8, 8, 8, 8, 4, 4] };
/// Compacts the rows whose upper bound reaches the threshold.
pub(super) const COMPACT: Kernel = Kernel { name: "search_compact_candidates", params: &[8, 8, 8, 8, 4, 4] };
/// Raises thresholds to the k-th best lower bound of candidates, and prunes them.
pub(super) const PRUNE: Kernel = Kernel { name: "search_prune_candidates", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4] };
/// Computes scores in f64.
pub(super) const RESCORE: Kernel =
    Kernel { name: "search_rescore", params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4] };
/// Threshold, compaction, pruning, rescoring and sorting fused.
pub(super) const REFINE: Kernel = Kernel { name: "search_refine", params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
/// Sorts keys and keeps the best.
pub(super) const TOP_K: Kernel = Kernel { name: "search_top_k", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
/// Quantises rows; by format.
pub(super) const QUANTISE_ROWS: [Kernel; 4] = [
    quantise("search_quantise_rows_f32"),
    quantise("search_quantise_rows_f16"),
    quantise("search_quantise_rows_bf16"),
    quantise("search_quantise_rows_i8"),
];
/// Scans for one, two or four queries; by format.
pub(super) const SCAN_GEMV: [[Kernel; 3]; 4] = [
    [gemv("search_scan_gemv_f32_q1"), gemv("search_scan_gemv_f32_q2"), gemv("search_scan_gemv_f32_q4")],
    [gemv("search_scan_gemv_f16_q1"), gemv("search_scan_gemv_f16_q2"), gemv("search_scan_gemv_f16_q4")],
    [gemv("search_scan_gemv_bf16_q1"), gemv("search_scan_gemv_bf16_q2"), gemv("search_scan_gemv_bf16_q4")],
    [gemv("search_scan_gemv_i8_q1"), gemv("search_scan_gemv_i8_q2"), gemv("search_scan_gemv_i8_q4")],
];
/// Scans for tiles of 16 or 128 queries by `mma.sync`; by format.
pub(super) const SCAN_MMA: [[Kernel; 2]; 4] = [
    [mma("search_scan_mma_f32_q16"), mma("search_scan_mma_f32_q128")],
    [mma("search_scan_mma_f16_q16"), mma("search_scan_mma_f16_q128")],
    [mma("search_scan_mma_bf16_q16"), mma("search_scan_mma_bf16_q128")],
    [mma("search_scan_mma_i8_q16"), mma("search_scan_mma_i8_q128")],
];
/// The same by `wgmma`, and for 128 queries also by clusters of two blocks; by format, from f16 on.
pub(super) const SCAN_WGMMA: [[Kernel; 3]; 3] = [
    [
        wgmma("search_scan_wgmma_f16_q16"),
        wgmma("search_scan_wgmma_f16_q128"),
        wgmma("search_scan_wgmma_f16_q128_cluster2"),
    ],
    [
        wgmma("search_scan_wgmma_bf16_q16"),
        wgmma("search_scan_wgmma_bf16_q128"),
        wgmma("search_scan_wgmma_bf16_q128_cluster2"),
    ],
    [
        wgmma("search_scan_wgmma_i8_q16"),
        wgmma("search_scan_wgmma_i8_q128"),
        wgmma("search_scan_wgmma_i8_q128_cluster2"),
    ],
];

const fn mma_module(name: &'static str, defines: &'static [&'static str], kernels: &'static [Kernel]) -> Module {
    let headers = &[COMMON, LAUNCH, BOUNDS, MMA, MAINLOOP_MMA, EPILOGUE];
    Module { name, source: cu!("search/scan_mma.cu"), headers, defines, kernels }
}

const fn wgmma_module(name: &'static str, defines: &'static [&'static str], kernels: &'static [Kernel]) -> Module {
    let headers = &[COMMON, LAUNCH, BOUNDS, MMA, WGMMA, PINGPONG_LAUNCH, MAINLOOP_SM90, EPILOGUE];
    Module { name, source: cu!("search/scan_wgmma.cu"), headers, defines, kernels }
}

const DEFINES_F32: &[&str] = &["DTYPE=f32", "SCAN_FORMAT=F32"];
const DEFINES_F16: &[&str] = &["DTYPE=f16", "SCAN_FORMAT=F16"];
const DEFINES_BF16: &[&str] = &["DTYPE=bf16", "SCAN_FORMAT=BF16"];
const DEFINES_I8: &[&str] = &["DTYPE=i8", "SCAN_FORMAT=I8"];

static QUANTISE_MODULE: Module = Module {
    name: "search_quantise",
    source: cu!("search/quantise.cu"),
    headers: &[COMMON, LAUNCH, BOUNDS],
    defines: &[],
    kernels: &[QUANTISE_ROWS[0], QUANTISE_ROWS[1], QUANTISE_ROWS[2], QUANTISE_ROWS[3], PAD_ROWS, QUANTISE_QUERIES],
};
static REFINE_MODULE: Module = Module {
    name: "search_refine",
    source: cu!("search/refine.cu"),
    headers: &[COMMON, LAUNCH, BOUNDS, TOPK],
    defines: &[],
    kernels: &[RAISE_THRESHOLD, COMPACT, PRUNE, RESCORE, TOP_K, REFINE],
};
static SCAN_GEMV_MODULE: Module = Module {
    name: "search_scan_gemv",
    source: cu!("search/scan_gemv.cu"),
    headers: &[COMMON, LAUNCH, BOUNDS],
    defines: &[],
    kernels: &[
        SCAN_GEMV[0][0],
        SCAN_GEMV[0][1],
        SCAN_GEMV[0][2],
        SCAN_GEMV[1][0],
        SCAN_GEMV[1][1],
        SCAN_GEMV[1][2],
        SCAN_GEMV[2][0],
        SCAN_GEMV[2][1],
        SCAN_GEMV[2][2],
        SCAN_GEMV[3][0],
        SCAN_GEMV[3][1],
        SCAN_GEMV[3][2],
    ],
};
static SCAN_MMA_F32: Module = mma_module("search_scan_mma_f32", DEFINES_F32, &SCAN_MMA[0]);
static SCAN_MMA_F16: Module = mma_module("search_scan_mma_f16", DEFINES_F16, &SCAN_MMA[1]);
static SCAN_MMA_BF16: Module = mma_module("search_scan_mma_bf16", DEFINES_BF16, &SCAN_MMA[2]);
static SCAN_MMA_I8: Module = mma_module("search_scan_mma_i8", DEFINES_I8, &SCAN_MMA[3]);
static SCAN_WGMMA_F16: Module = wgmma_module("search_scan_wgmma_f16", DEFINES_F16, &SCAN_WGMMA[0]);
static SCAN_WGMMA_BF16: Module = wgmma_module("search_scan_wgmma_bf16", DEFINES_BF16, &SCAN_WGMMA[1]);
static SCAN_WGMMA_I8: Module = wgmma_module("search_scan_wgmma_i8", DEFINES_I8, &SCAN_WGMMA[2]);

pub(crate) static MODULES: &[&Module] = &[
    &QUANTISE_MODULE,
    &REFINE_MODULE,
    &SCAN_GEMV_MODULE,
    &SCAN_MMA_F32,
    &SCAN_MMA_F16,
    &SCAN_MMA_BF16,
    &SCAN_MMA_I8,
    &SCAN_WGMMA_F16,
    &SCAN_WGMMA_BF16,
    &SCAN_WGMMA_I8,
];
