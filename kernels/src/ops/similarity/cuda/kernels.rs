//! The kernels of similarity search: their sources, their arguments, and the structs they share with the host.

use bytemuck::{Pod, Zeroable};

use crate::cuda::{Kernel, Module, modules::COMMON};

const SHARED: (&str, &str) = ("similarity.cuh", include_str!("../../../../cu/similarity.cuh"));
const TOPK: (&str, &str) = ("topk.cuh", include_str!("../../../../cu/topk.cuh"));
const MMA: (&str, &str) = ("mma.cuh", include_str!("../../../../cu/mma.cuh"));
const WGMMA: (&str, &str) = ("wgmma.cuh", include_str!("../../../../cu/wgmma.cuh"));
const TILE: (&str, &str) = ("similarity_tile.cuh", include_str!("../../../../cu/similarity_tile.cuh"));
const TILES: (&str, &str) = ("similarity_tiles.cuh", include_str!("../../../../cu/similarity_tiles.cuh"));
const GROUPS: (&str, &str) = ("similarity_warpgroup.cuh", include_str!("../../../../cu/similarity_warpgroup.cuh"));

/// Corpus rows of a tile, and of a peak.
pub(super) const TILE_ROWS: usize = 128;
/// Bytes of such a tile: 128 of each row.
pub(super) const TILE_BYTES: usize = TILE_ROWS * 128;
/// Allocated rows are a multiple of this: the tallest tile that is read whole.
pub(super) const ROWS_STEP: usize = 256;
/// Keys that one block sorts in shared memory.
pub(super) const SORTED: usize = 4096;
/// A query without a mask.
pub(super) const NO_MASK: u32 = u32::MAX;
/// A count that is not given but read from the status.
pub(super) const NO_COUNT: u32 = u32::MAX;
/// A status whose candidates had no room.
pub(super) const OVERFLOW: u32 = u32::MAX;
/// Modes of a scan by tiles.
pub(super) const STORE: u32 = 0;
/// See [`STORE`].
pub(super) const SAMPLE: u32 = 1;
/// See [`STORE`].
pub(super) const FILTER: u32 = 2;

/// `Wish` of similarity.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Wish {
    pub(super) k: u32,
    pub(super) mask: u32,
    pub(super) threshold: f32,
    pub(super) bounded: u32,
}

/// `Status` of similarity.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub(super) struct Status {
    pub(super) kept: u32,
    pub(super) floor: f32,
    pub(super) norm2: f64,
}

/// `Shape` of similarity_tile.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Shape {
    pub(super) n: u32,
    pub(super) queries: u32,
    pub(super) query_tiles: u32,
    pub(super) row_tiles: u32,
    pub(super) apart: u32,
    pub(super) steps: u32,
    pub(super) pitch: u32,
    pub(super) groups: u32,
    pub(super) stride: u32,
    pub(super) room: u32,
    pub(super) mask_words: u32,
    pub(super) mode: u32,
    pub(super) plain: u32,
}

/// Bytes of `Row` and of `Query`.
pub(super) const ROW_BYTES: usize = 16;
/// See [`ROW_BYTES`].
pub(super) const QUERY_BYTES: usize = 16;

const fn quantise(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 4, 4, 4, 4, 4] }
}

const fn vector(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4] }
}

const fn tiles(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, size_of::<Shape>()] }
}

const fn groups(name: &'static str) -> Kernel {
    Kernel { name, params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, size_of::<Shape>(), 4] }
}

/// Gives rows a pitch.
pub(super) const SPREAD: Kernel = Kernel { name: "similarity_spread", params: &[8, 8, 8, 4, 4] };
/// Copies queries for a scan.
pub(super) const PREPARE: Kernel =
    Kernel { name: "similarity_prepare", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4] };
/// Raises floors by groups of rows.
pub(super) const FLOOR: Kernel = Kernel { name: "similarity_floor", params: &[8, 8, 8, 8, 4, 4] };
/// Keeps rows whose upper bound reaches the floor.
pub(super) const COLLECT: Kernel = Kernel { name: "similarity_collect", params: &[8, 8, 8, 8, 4, 4] };
/// Raises floors by candidates, and lists those that are left.
pub(super) const NARROW: Kernel = Kernel { name: "similarity_narrow", params: &[8, 8, 8, 8, 8, 8, 8, 4, 4, 4] };
/// Computes exact scores.
pub(super) const RESCORE: Kernel =
    Kernel { name: "similarity_rescore", params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4] };
/// Floor, candidates, exact scores and sorting at once.
pub(super) const FINISH: Kernel =
    Kernel { name: "similarity_finish", params: &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
/// Sorts, and keeps the best.
pub(super) const SORT: Kernel = Kernel { name: "similarity_sort", params: &[8, 8, 8, 8, 8, 8, 4, 4, 4, 4] };
/// Copies rows for scanning; by format.
pub(super) const QUANTISE: [Kernel; 4] = [
    quantise("similarity_quantise_f32"),
    quantise("similarity_quantise_f16"),
    quantise("similarity_quantise_bf16"),
    quantise("similarity_quantise_i8"),
];
/// Scans for one, two or four queries; by format.
pub(super) const VECTOR: [[Kernel; 3]; 4] = [
    [vector("similarity_vector_f32_1"), vector("similarity_vector_f32_2"), vector("similarity_vector_f32_4")],
    [vector("similarity_vector_f16_1"), vector("similarity_vector_f16_2"), vector("similarity_vector_f16_4")],
    [vector("similarity_vector_bf16_1"), vector("similarity_vector_bf16_2"), vector("similarity_vector_bf16_4")],
    [vector("similarity_vector_i8_1"), vector("similarity_vector_i8_2"), vector("similarity_vector_i8_4")],
];
/// Scans for 16 or 128 queries at a time by `mma.sync`; by format.
pub(super) const TILED: [[Kernel; 2]; 4] = [
    [tiles("similarity_tiles_f32_16"), tiles("similarity_tiles_f32_128")],
    [tiles("similarity_tiles_f16_16"), tiles("similarity_tiles_f16_128")],
    [tiles("similarity_tiles_bf16_16"), tiles("similarity_tiles_bf16_128")],
    [tiles("similarity_tiles_i8_16"), tiles("similarity_tiles_i8_128")],
];
/// The same by warpgroups, and for 128 queries by pairs of blocks; by format, from f16 on.
pub(super) const GROUPED: [[Kernel; 3]; 3] = [
    [
        groups("similarity_warpgroup_f16_16"),
        groups("similarity_warpgroup_f16_128"),
        groups("similarity_warpgroup_f16_pair"),
    ],
    [
        groups("similarity_warpgroup_bf16_16"),
        groups("similarity_warpgroup_bf16_128"),
        groups("similarity_warpgroup_bf16_pair"),
    ],
    [
        groups("similarity_warpgroup_i8_16"),
        groups("similarity_warpgroup_i8_128"),
        groups("similarity_warpgroup_i8_pair"),
    ],
];

/// Copies of rows and queries.
pub(crate) static COPY: Module = Module {
    name: "similarity_copy",
    source: include_str!("../../../../cu/similarity_copy.cu"),
    headers: &[COMMON, SHARED],
    kernels: &[QUANTISE[0], QUANTISE[1], QUANTISE[2], QUANTISE[3], SPREAD, PREPARE],
};
/// What makes answers of bounds.
pub(crate) static ANSWER: Module = Module {
    name: "similarity_answer",
    source: include_str!("../../../../cu/similarity_answer.cu"),
    headers: &[COMMON, SHARED, TOPK],
    kernels: &[FLOOR, COLLECT, NARROW, RESCORE, SORT, FINISH],
};
/// Scans for few queries.
pub(crate) static VECTORS: Module = Module {
    name: "similarity_vector",
    source: include_str!("../../../../cu/similarity_vector.cu"),
    headers: &[COMMON, SHARED],
    kernels: &[
        VECTOR[0][0],
        VECTOR[0][1],
        VECTOR[0][2],
        VECTOR[1][0],
        VECTOR[1][1],
        VECTOR[1][2],
        VECTOR[2][0],
        VECTOR[2][1],
        VECTOR[2][2],
        VECTOR[3][0],
        VECTOR[3][1],
        VECTOR[3][2],
    ],
};
/// Scans of f32 by `mma.sync`.
pub(crate) static TILES_F32: Module = Module {
    name: "similarity_tiles_f32",
    source: include_str!("../../../../cu/similarity_tiles_f32.cu"),
    headers: &[COMMON, SHARED, MMA, TILE, TILES],
    kernels: &TILED[0],
};
/// Scans of f16 by `mma.sync`.
pub(crate) static TILES_F16: Module = Module {
    name: "similarity_tiles_f16",
    source: include_str!("../../../../cu/similarity_tiles_f16.cu"),
    headers: &[COMMON, SHARED, MMA, TILE, TILES],
    kernels: &TILED[1],
};
/// Scans of bf16 by `mma.sync`.
pub(crate) static TILES_BF16: Module = Module {
    name: "similarity_tiles_bf16",
    source: include_str!("../../../../cu/similarity_tiles_bf16.cu"),
    headers: &[COMMON, SHARED, MMA, TILE, TILES],
    kernels: &TILED[2],
};
/// Scans of i8 by `mma.sync`.
pub(crate) static TILES_I8: Module = Module {
    name: "similarity_tiles_i8",
    source: include_str!("../../../../cu/similarity_tiles_i8.cu"),
    headers: &[COMMON, SHARED, MMA, TILE, TILES],
    kernels: &TILED[3],
};
/// Scans of f16 by warpgroups.
pub(crate) static GROUPS_F16: Module = Module {
    name: "similarity_warpgroup_f16",
    source: include_str!("../../../../cu/similarity_warpgroup_f16.cu"),
    headers: &[COMMON, SHARED, MMA, WGMMA, TILE, GROUPS],
    kernels: &GROUPED[0],
};
/// Scans of bf16 by warpgroups.
pub(crate) static GROUPS_BF16: Module = Module {
    name: "similarity_warpgroup_bf16",
    source: include_str!("../../../../cu/similarity_warpgroup_bf16.cu"),
    headers: &[COMMON, SHARED, MMA, WGMMA, TILE, GROUPS],
    kernels: &GROUPED[1],
};
/// Scans of i8 by warpgroups.
pub(crate) static GROUPS_I8: Module = Module {
    name: "similarity_warpgroup_i8",
    source: include_str!("../../../../cu/similarity_warpgroup_i8.cu"),
    headers: &[COMMON, SHARED, MMA, WGMMA, TILE, GROUPS],
    kernels: &GROUPED[2],
};
