//! The kernels of k-means: their sources and parameters.

use crate::cuda::{COMMON, Kernel, Module, Source, cu, launch_structs};

launch_structs! {
    header LAUNCH = "launch/kmeans.cuh";

    /// Threads of a block of most kernels, and its warps.
    pub(super) const BLOCK_THREADS: u32 = 256;
    pub(super) const BLOCK_WARPS: usize = 8;
    /// Those of the kernels that are one block, or take 32 centres.
    pub(super) const WIDE_THREADS: u32 = 1024;
    /// Those of the kernels with a block for each centre.
    pub(super) const CENTER_THREADS: u32 = 128;
    /// Those of the sort, whose warps have a run of rows each.
    pub(super) const SORT_THREADS: u32 = 128;
    pub(super) const SORT_WARPS: usize = 4;
    /// Dynamic shared memory of the sort: a counter for each centre and warp.
    pub(super) const fn counter_bytes(clusters: usize) -> usize { SORT_WARPS * clusters * 4 }

    /// Rows of a block of the assignment, and centres of a tile: where a warp keeps rows in registers or rows are split, and else.
    pub(super) const ASSIGN_ROWS: usize = 256;
    pub(super) const NARROW_TILE: usize = 64;
    pub(super) const WIDE_TILE: usize = 128;

    /// Sorted rows that one warp sums.
    pub(super) const SEGMENT: usize = 64;
    /// Candidates per pass over the rows, and the most per step.
    pub(super) const TRIALS: usize = 8;
    pub(super) const MAX_TRIALS: usize = 64;
    /// The rows of a block of the initialisation are a multiple of this.
    pub(super) const SHARE_STEP: usize = 128;

    /// The state of a run; the host reads it every few iterations.
    pub(super) struct KMeansState {
        /// Converged: later kernels of the iteration return at once.
        pub(super) done: u32,
        pub(super) iterations: u32,
        /// Finished blocks of a kernel whose last block adds the partial sums.
        ticket: u32,
        /// Rows listed for an exact assignment.
        pub(super) ambiguous: u32,
        /// The candidate chosen by the last step of the initialisation.
        best: u32,
        unused: u32,
        /// The scale of the centred coordinates.
        scale: f32,
        /// The largest centred norm of a centre.
        max_center_norm: f32,
        /// The squared movement at which the iteration has converged.
        tolerance: f64,
        /// The sum of the squared centred norms of all rows.
        pub(super) sum_squares: f64,
        /// The sum of the squared centred distances to the nearest initial centre.
        pub(super) potential: f64,
        /// The sum of the squared distances to the final centres.
        pub(super) inertia: f64,
    }

    /// Parameters of the assignment. Rows and centres are centred coordinates; the low parts may be null.
    pub(super) struct AssignParams {
        pub(super) rows: "const u16*",
        pub(super) rows_low: "const u16*",
        pub(super) centers: "const u16*",
        pub(super) centers_low: "const u16*",
        pub(super) half_norms: "const float*",
        pub(super) norms: "const float*",
        pub(super) labels: "u32*",
        pub(super) scores: "float*",
        pub(super) list: "u32*",
        pub(super) state: "KMeansState*",
        pub(super) count: u32,
        pub(super) tiles: u32,
        pub(super) pitch: u32,
        pub(super) dim: u32,
    }

    /// The centres.
    pub(super) struct CenterBuffers {
        /// f32[clusters, dim].
        pub(super) exact: "float*",
        /// f16[padded, pitch].
        pub(super) centered: "u16*",
        /// As `centered`; may be null.
        pub(super) low: "u16*",
        /// f32[padded]: |c|^2 / 2.
        pub(super) half_norms: "float*",
        /// f32[dim].
        pub(super) mean: "const float*",
        pub(super) clusters: u32,
        pub(super) dim: u32,
        pub(super) pitch: u32,
        pub(super) unused: u32,
    }
}

const HEADERS: &[Source] = &[COMMON, LAUNCH, cu!("kmeans/state.cuh")];

const ASSIGN: &[usize] = &[size_of::<AssignParams>()];
pub(super) const ASSIGN_64: Kernel = Kernel { name: "kmeans_assign_64", params: ASSIGN };
pub(super) const ASSIGN_128: Kernel = Kernel { name: "kmeans_assign_128", params: ASSIGN };
pub(super) const ASSIGN_ANY: Kernel = Kernel { name: "kmeans_assign_any", params: ASSIGN };
pub(super) const ASSIGN_SPLIT: Kernel = Kernel { name: "kmeans_assign_split", params: ASSIGN };
pub(super) const ASSIGN_64_CHECKED: Kernel = Kernel { name: "kmeans_assign_64_checked", params: ASSIGN };
pub(super) const ASSIGN_128_CHECKED: Kernel = Kernel { name: "kmeans_assign_128_checked", params: ASSIGN };
pub(super) const ASSIGN_ANY_CHECKED: Kernel = Kernel { name: "kmeans_assign_any_checked", params: ASSIGN };
pub(super) const ASSIGN_SPLIT_CHECKED: Kernel = Kernel { name: "kmeans_assign_split_checked", params: ASSIGN };

pub(super) const COUNT_LABELS: Kernel = Kernel { name: "kmeans_count_labels", params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(super) const RESEED_EMPTY: Kernel =
    Kernel { name: "kmeans_reseed_empty", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
pub(super) const SCAN_COUNTS: Kernel = Kernel { name: "kmeans_scan_counts", params: &[8, 8, 8, 4, 4] };
pub(super) const SCATTER_ROWS: Kernel = Kernel { name: "kmeans_scatter_rows", params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(super) const SUM_SEGMENTS: Kernel = Kernel { name: "kmeans_sum_segments_f32", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(super) const SUM_SEGMENTS_X4: Kernel = Kernel { name: "kmeans_sum_segments_f32x4", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(super) const UPDATE_CENTERS: Kernel =
    Kernel { name: "kmeans_update_centers", params: &[size_of::<CenterBuffers>(), 8, 8, 8, 8, 8, 4] };
pub(super) const SET_CENTERS: Kernel =
    Kernel { name: "kmeans_set_centers", params: &[size_of::<CenterBuffers>(), 8, 8, 8] };
pub(super) const ASSIGN_EXACT: Kernel = Kernel { name: "kmeans_assign_exact", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(super) const INERTIA: Kernel = Kernel { name: "kmeans_inertia", params: &[8, 8, 8, 8, 8, 4, 4] };

pub(super) const NORMALISE_ROWS: Kernel = Kernel { name: "kmeans_normalise_rows", params: &[8, 4, 4] };
pub(super) const COLUMN_SUMS: Kernel = Kernel { name: "kmeans_column_sums", params: &[8, 8, 8, 4, 4, 4] };
pub(super) const MEAN_AND_SCALE: Kernel = Kernel { name: "kmeans_mean_and_scale", params: &[8, 8, 8, 8, 4, 4, 4] };
pub(super) const CENTER_ROWS: Kernel = Kernel { name: "kmeans_center_rows", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4] };
pub(super) const RESET: Kernel = Kernel { name: "kmeans_reset", params: &[8, 8, 4, 4] };
pub(super) const INIT_DISTANCES: Kernel =
    Kernel { name: "kmeans_init_distances", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(super) const INIT_CHOOSE: Kernel =
    Kernel { name: "kmeans_init_choose", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4] };

static ASSIGN_MODULE: Module = Module {
    name: "kmeans_assign",
    source: cu!("kmeans/assign.cu"),
    headers: HEADERS,
    defines: &[],
    kernels: &[
        ASSIGN_64,
        ASSIGN_128,
        ASSIGN_ANY,
        ASSIGN_SPLIT,
        ASSIGN_64_CHECKED,
        ASSIGN_128_CHECKED,
        ASSIGN_ANY_CHECKED,
        ASSIGN_SPLIT_CHECKED,
    ],
};
static LLOYD_MODULE: Module = Module {
    name: "kmeans_lloyd",
    source: cu!("kmeans/lloyd.cu"),
    headers: HEADERS,
    defines: &[],
    kernels: &[
        COUNT_LABELS,
        RESEED_EMPTY,
        SCAN_COUNTS,
        SCATTER_ROWS,
        SUM_SEGMENTS,
        SUM_SEGMENTS_X4,
        UPDATE_CENTERS,
        SET_CENTERS,
        ASSIGN_EXACT,
        INERTIA,
    ],
};
static INIT_MODULE: Module = Module {
    name: "kmeans_init",
    source: cu!("kmeans/init.cu"),
    headers: HEADERS,
    defines: &[],
    kernels: &[NORMALISE_ROWS, COLUMN_SUMS, MEAN_AND_SCALE, CENTER_ROWS, RESET, INIT_DISTANCES, INIT_CHOOSE],
};

pub(crate) static MODULES: &[&Module] = &[&ASSIGN_MODULE, &LLOYD_MODULE, &INIT_MODULE];
