//! Linear layers of few rows on Hopper: the kernels, and which one fits.

use super::{
    kernels::{self, Format},
    sources::{ENCODE, LINEAR, MMA, WGMMA},
};
use crate::cuda::{Kernel, Module, modules::COMMON};

/// Rows of a tile.
const ROWS: usize = 64;
/// Beyond, other tiles are faster.
const MOST_ROWS: usize = 128;
/// Steps of a stage, and stages at most.
const STAGE_STEPS: usize = 4;
const MOST_STAGES: usize = 64;
/// Shared memory for barriers.
const ROOM: usize = 2 * MOST_STAGES * 8;
/// Shared memory that a block takes at most. With so many stages rows are on their way long enough before they are needed;
/// that counts for more than room for the next launch's blocks, which would copy their weights meanwhile.
const SHARED: usize = 224 << 10;
/// Shared memory that a block's weights may take: three stages of 64 rows fit beside them. With two, other tiles are faster.
const WEIGHTS: usize = 96 << 10;

/// Tiles of so many columns, with their kernels.
#[derive(Clone, Copy, Debug)]
struct Kind {
    columns: usize,
    f16: Kernel,
    bf16: Kernel,
}

const fn kind(columns: usize, f16: &'static str, bf16: &'static str) -> Kind {
    const PARAMS: &[usize] = &[size_of::<kernels::Linear>(), size_of::<u32>()];
    Kind { columns, f16: Kernel { name: f16, params: PARAMS }, bf16: Kernel { name: bf16, params: PARAMS } }
}

/// From the fewest columns to the most.
const KINDS: [Kind; 5] = [
    kind(8, "encode_few_f16_8", "encode_few_bf16_8"),
    kind(16, "encode_few_f16_16", "encode_few_bf16_16"),
    kind(24, "encode_few_f16_24", "encode_few_bf16_24"),
    kind(32, "encode_few_f16_32", "encode_few_bf16_32"),
    kind(48, "encode_few_f16_48", "encode_few_bf16_48"),
];

/// How a layer of few rows is launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few {
    kind: Kind,
    pub(super) blocks: usize,
    pub(super) stages: usize,
    pub(super) shared_bytes: usize,
}

impl Few {
    pub(super) const THREADS: u32 = 160;

    /// The tiles that make as many blocks as there are multiprocessors, and hardly more: what a block waits for takes
    /// longest, and each reads all rows. None where the layer does not fit.
    pub(super) fn of(rows: usize, columns: usize, steps: usize, gated: bool, units: usize) -> Option<Self> {
        let blocks = |kind: &Kind| rows.div_ceil(ROWS) * columns.div_ceil(kind.columns);
        let fits = |kind: &&Kind| {
            columns.is_multiple_of(kind.columns)
                && (!gated || kind.columns.is_multiple_of(16))
                && blocks(kind) <= units
                && steps * kind.columns * 128 <= WEIGHTS
        };
        let kind = KINDS.iter().filter(|_| rows <= MOST_ROWS).find(fits)?;
        let weights = ROOM + steps * kind.columns * 128;
        let step = rows.min(ROWS).next_multiple_of(8) * 128;
        let behind = ROWS * 128 - step;
        let most = (SHARED - weights - behind) / (STAGE_STEPS * step);
        let stages = steps.div_ceil(STAGE_STEPS).min(most.min(MOST_STAGES));
        let shared_bytes = weights + steps.min(STAGE_STEPS * stages) * step + behind;
        Some(Self { kind: *kind, blocks: blocks(kind), stages, shared_bytes })
    }

    /// The kernel for elements of 16 bits.
    pub(super) fn kernel(&self, format: Format) -> Kernel {
        if format == Format::F16 { self.kind.f16 } else { self.kind.bf16 }
    }
}

const HEADERS: &[(&str, &str)] = &[COMMON, ENCODE, MMA, WGMMA, LINEAR, FEW];
const FEW: (&str, &str) = ("encode_few.cuh", include_str!("../../../../cu/encode_few.cuh"));

/// f16.
pub(crate) static FEW_F16: Module = Module {
    name: "encode_few_f16",
    source: include_str!("../../../../cu/encode_few_f16.cu"),
    headers: HEADERS,
    kernels: &[KINDS[0].f16, KINDS[1].f16, KINDS[2].f16, KINDS[3].f16, KINDS[4].f16],
};

/// bf16.
pub(crate) static FEW_BF16: Module = Module {
    name: "encode_few_bf16",
    source: include_str!("../../../../cu/encode_few_bf16.cu"),
    headers: HEADERS,
    kernels: &[KINDS[0].bf16, KINDS[1].bf16, KINDS[2].bf16, KINDS[3].bf16, KINDS[4].bf16],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_take_about_as_many_blocks_as_there_are_units() {
        let columns = |rows, columns, gated| Few::of(rows, columns, 12, gated, 132).map(|few| few.kind.columns);
        assert_eq!([768, 2304, 3072].map(|wide| columns(32, wide, false)), [8, 24, 24].map(Some));
        assert_eq!([384, 1152, 4096].map(|wide| columns(64, wide, false)), [8, 16, 32].map(Some));
        assert_eq!([768, 3072].map(|wide| columns(64, wide, true)), [16, 32].map(Some), "gates come in sixteens");
        assert_eq!([768, 2304, 3072, 4096].map(|wide| columns(128, wide, false)), [Some(16), Some(48), Some(48), None]);
        assert_eq!([columns(129, 384, false), columns(64, 8192, false)], [None; 2], "not few");
    }

    #[test]
    fn a_block_has_all_its_weights_and_at_least_three_stages() {
        let few = |rows, steps| Few::of(rows, 768, steps, false, 132).map(|few| (few.stages, few.shared_bytes));
        assert_eq!(few(32, 12), Some((3, 1024 + 12 * 1024 + 12 * 4096 + 4096)), "all steps");
        assert_eq!(few(32, 48), Some((10, 1024 + 48 * 1024 + 40 * 4096 + 4096)));
        assert_eq!(few(1, 1), Some((1, 1024 + 1024 + 1024 + 7168)));
        assert_eq!(few(64, 96), Some((3, 1024 + 96 * 1024 + 12 * 8192)));
        assert_eq!(few(64, 97), None, "too many weights");
        let shapes = (1..=128).flat_map(|rows| (1..=if rows <= 64 { 96 } else { 48 }).map(move |steps| (rows, steps)));
        for (rows, steps) in shapes {
            let Some((stages, shared_bytes)) = few(rows, steps) else { panic!("{rows} rows, {steps} steps") };
            assert!(shared_bytes <= 227 << 10 && stages <= MOST_STAGES && stages >= steps.div_ceil(4).min(3));
        }
    }
}
