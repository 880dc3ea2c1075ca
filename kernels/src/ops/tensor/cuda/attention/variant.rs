//! Which kernel computes attention, with which tiles. Shapes, types and alignment decide, so that the order of a sum does not depend on
//! the device, but for devices without tensor cores.

use accelerd_ir::Dtype;

use super::super::{launches::blocks_x, pingpong::HOPPER};
use crate::{
    OpError,
    cuda::{Grid, launch_structs},
};

launch_structs! {
    pub(super) header TILES_LAUNCH = "tensor/attention_tiles.cuh";

    /// Queries of a block for each tile of its warps, and keys of a tile.
    const MMA_ROWS: usize = 64;
    const MMA_THREADS: u32 = 128;
    /// Dynamic shared memory: queries or results, of as many columns as the `widest` of both, keys and values.
    const fn mma_shared_bytes(tiles: usize, widest: usize, dim: usize, value_dim: usize) -> usize {
        MMA_ROWS * 2 * (tiles * widest + dim + value_dim)
    }
    /// Rows of a block that combines parts.
    pub(super) const COMBINE_ROWS: usize = 4;

    /// Queries and keys of a tile on Hopper.
    const SM90_ROWS: usize = 128;
    const SM90_THREADS: u32 = 384;
    /// Columns and rows that one copy loads.
    pub(super) const SM90_BOX_COLUMNS: u32 = 64;
    pub(super) const SM90_BOX_ROWS: u32 = 128;
    /// Dynamic shared memory: two slots each of queries, keys and values, and barriers.
    const fn sm90_shared_bytes(dim: usize) -> usize { 6 * SM90_ROWS * dim * 2 + 1024 }

    /// Threads that share 4 rows of queries on general-purpose cores.
    const SIMT_SIDE: usize = 16;
    /// Dynamic shared memory: queries, keys or values, and probabilities.
    const fn simt_shared_bytes(queries: usize, keys: usize, dim: usize) -> usize {
        4 * ((queries + keys) * (dim + 4) + queries * (keys + 4))
    }

    const ROW_THREADS: u32 = 128;
    /// Columns of a block that computes a row.
    const ROW_COLUMNS: usize = 1024;
}

/// Columns up to which rows are kept in shared memory.
const MAX_DIM: usize = 256;
/// The first compute capability with tensor cores for 16-bit types.
const TENSOR_CORES: (u32, u32) = (8, 0);
/// The widest rows on Hopper.
const SM90_MAX_DIM: usize = 128;
/// Distance between rows up to which offsets within a tile fit 32 bits.
const MAX_STRIDE: usize = 1 << 24;
/// Blocks that fill a large device. With fewer, the keys are split; with twice as many, blocks have twice the queries.
const TARGET_BLOCKS: usize = 128;
/// The fewest tiles of keys that a block is launched for.
const MIN_PART_TILES: usize = 4;
/// Parts of the keys: at most the lanes of the warp that combines them.
const MAX_PARTS: usize = 32;

/// The shape and options of an attention step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) dtype: Dtype,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) dim: usize,
    pub(super) value_dim: usize,
    pub(super) is_causal: bool,
    pub(super) has_lengths: bool,
    /// True if tensor maps describe query, key and value.
    pub(super) fits_maps: bool,
    /// The greatest distance between rows of an operand, in elements.
    pub(super) stride: usize,
    /// Vectors that rows can be read and written in.
    pub(super) vector: Vector,
}

impl Problem {
    pub(super) fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Returns true if large tiles have work for all of their threads, and rows are as the kernel for Hopper loads them: it reads all
    /// values of a tile of keys, which a length would have to hide.
    fn fits_sm90(&self) -> bool {
        let widest = self.dim.max(self.value_dim);
        let fills_tiles = self.queries.min(self.keys) >= SM90_ROWS && widest > SM90_MAX_DIM / 4;
        fills_tiles && widest <= SM90_MAX_DIM && self.fits_maps && !self.has_lengths
    }
}

/// The alignment of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vector {
    /// Elements, 1 to 8, that all starts of rows are a multiple of.
    pub(super) start: usize,
    /// Elements, 1 to 4, that are read at once: starts and lengths of rows are a multiple.
    pub(super) read: usize,
}

/// The alignment of rows with these strides and offsets from an aligned address, all in elements, and of these lengths.
pub(super) fn vector(strides: impl Iterator<Item = isize>, offsets: &[usize], lengths: [usize; 2]) -> Vector {
    let all = strides.map(isize::unsigned_abs).chain(offsets.iter().copied()).fold(8, |bits, x| bits | x);
    let start = 1 << all.trailing_zeros().min(3);
    let read = 1 << lengths.iter().fold(all | 4, |bits, x| bits | x).trailing_zeros().min(2);
    Vector { start, read }
}

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Tensor cores of Hopper, with rows padded to `dim` columns.
    Sm90 { dim: usize },
    /// Tensor cores.
    Mma(Mma),
    /// General-purpose cores, with rows padded to `dim` columns and read in vectors of `vec` elements.
    Simt { dim: usize, vec: usize },
    /// A block for each row.
    Rows,
}

/// Tiles of the kernel for tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mma {
    /// Columns of queries and keys, padded.
    pub(super) dim: usize,
    /// Columns of values, padded.
    pub(super) value_dim: usize,
    /// Tiles of 16 queries for each warp.
    pub(super) tiles: usize,
    /// Parts of the keys, each with a block of its own.
    pub(super) parts: usize,
    /// Keys of a part, whole tiles.
    pub(super) part_keys: usize,
}

impl Mma {
    fn choose(problem: &Problem) -> Self {
        let [dim, value_dim] = [problem.dim, problem.value_dim].map(|columns| columns.next_multiple_of(32));
        let heads = problem.batch * problem.heads;
        let blocks = |tiles: usize| heads * problem.queries.div_ceil(MMA_ROWS * tiles);
        // A warp holds the values of 2 tiles in registers only of narrow heads.
        let tiles = if dim.max(value_dim) <= 128 && blocks(2) >= 2 * TARGET_BLOCKS { 2 } else { 1 };
        let keys = if problem.is_causal { problem.keys.min(problem.queries) } else { problem.keys };
        let key_tiles = keys.div_ceil(MMA_ROWS).max(1);
        let blocks = blocks(tiles);
        let wanted = if blocks < TARGET_BLOCKS { 2 * TARGET_BLOCKS / blocks } else { 1 };
        let part_tiles = key_tiles.div_ceil(wanted.min(key_tiles / MIN_PART_TILES).clamp(1, MAX_PARTS));
        let parts = key_tiles.div_ceil(part_tiles);
        Self { dim, value_dim, tiles, parts, part_keys: part_tiles * MMA_ROWS }
    }

    /// f32 values, a maximum and a sum for each row and part.
    pub(super) fn workspace_bytes(&self, problem: &Problem) -> usize {
        self.parts * problem.rows() * (self.value_dim + 2) * size_of::<f32>()
    }
}

/// Queries and keys of a block on general-purpose cores: as many as fit 64 KiB of shared memory.
pub(super) fn simt_tile(dim: usize) -> (usize, usize) {
    match dim {
        0..=64 => (64, 64),
        65..=128 => (64, 32),
        _ => (32, 16),
    }
}

impl Variant {
    pub(super) fn choose(problem: &Problem, capability: (u32, u32)) -> Self {
        let widest = problem.dim.max(problem.value_dim);
        if widest > MAX_DIM || problem.dtype == Dtype::F64 {
            return Self::Rows;
        }
        let fits_tiles = problem.vector.start == 8 && problem.stride <= MAX_STRIDE;
        if problem.dtype.size() == 2 && capability >= TENSOR_CORES && fits_tiles {
            let mma = Mma::choose(problem);
            return if capability == HOPPER && mma.parts == 1 && problem.fits_sm90() {
                Self::Sm90 { dim: widest.next_multiple_of(64) }
            } else {
                Self::Mma(mma)
            };
        }
        Self::Simt { dim: widest.next_power_of_two().max(64), vec: problem.vector.read }
    }

    /// The number of parts of the keys, and the keys of each.
    pub(super) fn parts(self, keys: usize) -> (usize, usize) {
        match self {
            Self::Mma(mma) => (mma.parts, mma.part_keys),
            Self::Sm90 { .. } | Self::Simt { .. } | Self::Rows => (1, keys),
        }
    }

    pub(super) fn grid(self, problem: &Problem) -> Result<Grid, OpError> {
        let heads = problem.batch * problem.heads;
        match self {
            Self::Sm90 { .. } => Ok(Grid::x(blocks_x(heads * problem.queries.div_ceil(SM90_ROWS))?)),
            Self::Mma(mma) => {
                let tiles = problem.queries.div_ceil(MMA_ROWS * mma.tiles);
                Ok(Grid::x(blocks_x(heads * tiles * mma.parts)?))
            }
            Self::Simt { dim, .. } => Ok(Grid::x(blocks_x(heads * problem.queries.div_ceil(simt_tile(dim).0))?)),
            Self::Rows => {
                let columns = u32::try_from(problem.value_dim.div_ceil(ROW_COLUMNS)).unwrap_or(u32::MAX);
                if columns > u32::from(u16::MAX) {
                    let reason = format!("attention to values of {} columns", problem.value_dim);
                    return Err(OpError::Invalid(reason));
                }
                Ok(Grid::xy(blocks_x(problem.rows())?, columns))
            }
        }
    }

    pub(super) fn threads(self) -> u32 {
        match self {
            Self::Sm90 { .. } => SM90_THREADS,
            Self::Mma(_) => MMA_THREADS,
            Self::Simt { dim, .. } => u32::try_from(simt_tile(dim).0 / 4 * SIMT_SIDE).unwrap_or(u32::MAX),
            Self::Rows => ROW_THREADS,
        }
    }

    /// Dynamic shared memory.
    pub(super) fn shared_bytes(self) -> u32 {
        let bytes = match self {
            Self::Sm90 { dim } => sm90_shared_bytes(dim),
            Self::Mma(Mma { dim, value_dim, tiles, .. }) => mma_shared_bytes(tiles, dim.max(value_dim), dim, value_dim),
            Self::Simt { dim, .. } => {
                let (queries, keys) = simt_tile(dim);
                simt_shared_bytes(queries, keys, dim)
            }
            Self::Rows => 0,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}
