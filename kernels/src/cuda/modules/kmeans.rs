//! The kernels of k-means; `ops::cluster` launches them.

use super::{COMMON, Kernel, Module};

const ASSIGN: &[usize] = &[96];
pub(crate) const ASSIGN_64: Kernel = Kernel { name: "kmeans_assign_64", params: ASSIGN };
pub(crate) const ASSIGN_128: Kernel = Kernel { name: "kmeans_assign_128", params: ASSIGN };
pub(crate) const ASSIGN_ANY: Kernel = Kernel { name: "kmeans_assign_any", params: ASSIGN };
pub(crate) const ASSIGN_SPLIT: Kernel = Kernel { name: "kmeans_assign_split", params: ASSIGN };
pub(crate) const ASSIGN_64_CERTAIN: Kernel = Kernel { name: "kmeans_assign_64_certain", params: ASSIGN };
pub(crate) const ASSIGN_128_CERTAIN: Kernel = Kernel { name: "kmeans_assign_128_certain", params: ASSIGN };
pub(crate) const ASSIGN_ANY_CERTAIN: Kernel = Kernel { name: "kmeans_assign_any_certain", params: ASSIGN };
pub(crate) const ASSIGN_SPLIT_CERTAIN: Kernel = Kernel { name: "kmeans_assign_split_certain", params: ASSIGN };
pub(crate) const COUNT: Kernel = Kernel { name: "kmeans_count", params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(crate) const PLACE: Kernel = Kernel { name: "kmeans_place", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
pub(crate) const OFFSETS: Kernel = Kernel { name: "kmeans_offsets", params: &[8, 8, 8, 4, 4] };
pub(crate) const SCATTER: Kernel = Kernel { name: "kmeans_scatter", params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(crate) const SUM: Kernel = Kernel { name: "kmeans_sum_f32", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(crate) const SUM_X4: Kernel = Kernel { name: "kmeans_sum_f32x4", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(crate) const FINISH: Kernel = Kernel { name: "kmeans_finish", params: &[56, 8, 8, 8, 8, 8, 4] };
pub(crate) const SEED: Kernel = Kernel { name: "kmeans_seed", params: &[56, 8, 8, 8] };
pub(crate) const REFINE: Kernel = Kernel { name: "kmeans_refine", params: &[8, 8, 8, 8, 8, 4, 4] };
pub(crate) const INERTIA: Kernel = Kernel { name: "kmeans_inertia", params: &[8, 8, 8, 8, 8, 4, 4] };

pub(crate) const UNIT: Kernel = Kernel { name: "kmeans_unit", params: &[8, 4, 4] };
pub(crate) const COLUMNS: Kernel = Kernel { name: "kmeans_columns", params: &[8, 8, 8, 4, 4, 4] };
pub(crate) const FRAME: Kernel = Kernel { name: "kmeans_frame", params: &[8, 8, 8, 8, 4, 4, 4] };
pub(crate) const CONVERT: Kernel = Kernel { name: "kmeans_convert", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4] };
pub(crate) const REST: Kernel = Kernel { name: "kmeans_rest", params: &[8, 8, 4, 4] };
pub(crate) const DISTANCES: Kernel = Kernel { name: "kmeans_distances", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4] };
pub(crate) const CHOOSE: Kernel = Kernel { name: "kmeans_choose", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4] };

const KMEANS_HEADER: (&str, &str) = ("kmeans.cuh", include_str!("../../../cu/kmeans.cuh"));

/// The assignment.
pub(crate) static NEAREST: Module = Module {
    name: "kmeans_assign",
    source: include_str!("../../../cu/kmeans_assign.cu"),
    headers: &[COMMON, KMEANS_HEADER],
    kernels: &[
        ASSIGN_64,
        ASSIGN_128,
        ASSIGN_ANY,
        ASSIGN_SPLIT,
        ASSIGN_64_CERTAIN,
        ASSIGN_128_CERTAIN,
        ASSIGN_ANY_CERTAIN,
        ASSIGN_SPLIT_CERTAIN,
    ],
};

/// The rest of the iteration, and the end.
pub(crate) static LLOYD: Module = Module {
    name: "kmeans",
    source: include_str!("../../../cu/kmeans.cu"),
    headers: &[COMMON, KMEANS_HEADER],
    kernels: &[COUNT, PLACE, OFFSETS, SCATTER, SUM, SUM_X4, FINISH, SEED, REFINE, INERTIA],
};

/// What comes before the iteration.
pub(crate) static START: Module = Module {
    name: "kmeans_start",
    source: include_str!("../../../cu/kmeans_start.cu"),
    headers: &[COMMON, KMEANS_HEADER],
    kernels: &[UNIT, COLUMNS, FRAME, CONVERT, REST, DISTANCES, CHOOSE],
};
