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
/// Blocks that share what they read of the rows.
const CLUSTER: usize = 4;

/// A tile's columns with its kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few {
    columns: usize,
    stages: u32,
    f16: Kernel,
    bf16: Kernel,
}

const fn few(columns: usize, stages: u32, f16: &'static str, bf16: &'static str) -> Few {
    const PARAMS: &[usize] = &[size_of::<kernels::Linear>()];
    Few { columns, stages, f16: Kernel { name: f16, params: PARAMS }, bf16: Kernel { name: bf16, params: PARAMS } }
}

/// From the fewest columns to the most.
const KINDS: [Few; 3] = [
    few(8, 12, "encode_few_f16_8", "encode_few_bf16_8"),
    few(16, 10, "encode_few_f16_16", "encode_few_bf16_16"),
    few(24, 9, "encode_few_f16_24", "encode_few_bf16_24"),
];

impl Few {
    pub(super) const THREADS: u32 = 160;

    /// The one that makes as many blocks as there are multiprocessors, and hardly more: what a block waits for takes
    /// longest, and each reads all rows.
    pub(super) fn of(rows: usize, columns: usize, gated: bool, units: usize) -> Option<Self> {
        let fits = |few: &&Self| {
            columns.is_multiple_of(few.columns)
                && (!gated || few.columns.is_multiple_of(16))
                && (columns / few.columns).is_multiple_of(CLUSTER)
                && few.blocks(rows, columns) <= units
        };
        KINDS.iter().filter(|_| rows <= MOST_ROWS).find(fits).copied()
    }

    pub(super) fn blocks(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(ROWS) * columns.div_ceil(self.columns)
    }

    pub(super) fn shared_bytes(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "some tens")]
        let row_bytes = (ROWS + self.columns) as u32 * 128;
        self.stages * (row_bytes + 16)
    }

    /// The kernel for elements of 16 bits.
    pub(super) fn kernel(&self, format: Format) -> Kernel {
        if format == Format::F16 { self.f16 } else { self.bf16 }
    }
}

const HEADERS: &[(&str, &str)] = &[COMMON, ENCODE, MMA, WGMMA, LINEAR, FEW];
const FEW: (&str, &str) = ("encode_few.cuh", include_str!("../../../../cu/encode_few.cuh"));

/// f16.
pub(crate) static FEW_F16: Module = Module {
    name: "encode_few_f16",
    source: include_str!("../../../../cu/encode_few_f16.cu"),
    headers: HEADERS,
    kernels: &[KINDS[0].f16, KINDS[1].f16, KINDS[2].f16],
};

/// bf16.
pub(crate) static FEW_BF16: Module = Module {
    name: "encode_few_bf16",
    source: include_str!("../../../../cu/encode_few_bf16.cu"),
    headers: HEADERS,
    kernels: &[KINDS[0].bf16, KINDS[1].bf16, KINDS[2].bf16],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_take_about_as_many_blocks_as_there_are_units() {
        let columns = |rows, columns, gated| Few::of(rows, columns, gated, 132).map(|few| few.columns);
        assert_eq!([768, 2304, 3072].map(|wide| columns(32, wide, false)), [8, 24, 24].map(Some));
        assert_eq!([384, 1152, 1536].map(|wide| columns(64, wide, false)), [8, 16, 16].map(Some));
        assert_eq!([768, 1536].map(|wide| columns(64, wide, true)), [16, 16].map(Some), "gates come in sixteens");
        assert_eq!([768, 2304].map(|wide| columns(128, wide, false)), [Some(16), None]);
        assert_eq!([columns(129, 384, false), columns(64, 8192, false)], [None; 2], "not few");
        assert_eq!(KINDS[0].shared_bytes(), 12 * (72 * 128 + 16));
    }
}
