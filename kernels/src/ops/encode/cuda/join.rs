//! Linear layers with the residual and the norm behind them in one kernel on Hopper, and where that is faster.

use bytemuck::{Pod, Zeroable};

use super::{
    kernels::{Format, Linear, Norm, kernel},
    sources::{self, ENCODE, MMA, RELAY_HEADER, WGMMA},
};
use crate::cuda::{Kernel, Module, modules::COMMON};

/// Rows of a tile.
const ROWS: usize = 128;
/// Below, nobody measured that it is faster.
const LEAST_ROWS: usize = 4096;
/// Tiles of rows that a cluster computes one after the other: one, or so many that what follows a product takes no time.
const MANY_ROUNDS: usize = 4;

/// A linear layer, then what adds it to the residual and normalises the sum.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Join {
    pub(super) layer: Linear,
    pub(super) residual: u64,
    pub(super) norm: Norm,
}

/// The kernels for rows of so many columns, which as many blocks share as they have parts of 192.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    columns: usize,
    pub(super) blocks: u32,
    f16: Kernel,
    bf16: Kernel,
}

const JOINED: [Joined; 2] = [
    Joined {
        columns: 384,
        blocks: 2,
        f16: kernel::<Join>("encode_join_f16_384"),
        bf16: kernel::<Join>("encode_join_bf16_384"),
    },
    Joined {
        columns: 768,
        blocks: 4,
        f16: kernel::<Join>("encode_join_f16_768"),
        bf16: kernel::<Join>("encode_join_bf16_768"),
    },
];

impl Joined {
    pub(super) const THREADS: u32 = 384;
    /// Stages, what panels hold of a tile, sums, factors and barriers.
    pub(super) const SHARED_BYTES: u32 =
        4 * (128 + 192) * 128 + 128 * 192 * 2 + 2 * 4 * 128 * 4 + 3 * 192 * 4 + (2 * 4 + 2 + 32) * 8;

    /// The one for so many rows of so many columns.
    pub(super) fn of(rows: usize, columns: usize) -> Option<&'static Self> {
        JOINED.iter().find(|joined| joined.columns == columns).filter(|_| rows >= LEAST_ROWS)
    }

    /// The kernel for elements of 16 bits.
    pub(super) fn kernel(&self, format: Format) -> Kernel {
        if format == Format::F16 { self.f16 } else { self.bf16 }
    }

    /// Clusters that a launch has, of so many that the device holds at once.
    pub(super) fn clusters(rows: usize, most: usize) -> usize {
        rows.div_ceil(ROWS).min(most)
    }

    /// Whether it is done before a layer that takes `alone` and the norm behind it, on so many clusters. In the unit of
    /// `tile_for`: time of 64 x 64 sums of a step is 100, of all columns of a block's rows.
    pub(super) fn is_faster(&self, rows: usize, steps: usize, clusters: usize, alone: usize) -> bool {
        let rounds = rows.div_ceil(ROWS).div_ceil(clusters);
        // What follows a product takes as long as ten steps, and hides behind the next one.
        let joined = rounds * ((118 * steps).max(1200) + 300) + if rounds > 1 { 600 } else { 0 };
        // Three times its bytes, and a launch.
        let norm = rows * self.columns / 3400 + 1000;
        (rounds == 1 || rounds >= MANY_ROUNDS) && joined < alone / (ROWS * 192) + norm
    }
}

const HEADERS: &[(&str, &str)] = &[COMMON, ENCODE, MMA, WGMMA, sources::LINEAR, RELAY_HEADER, JOIN];
const JOIN: (&str, &str) = ("encode_join.cuh", include_str!("../../../../cu/encode_join.cuh"));

/// f16.
pub(crate) static JOINS_F16: Module = Module {
    name: "encode_join_f16",
    source: include_str!("../../../../cu/encode_join_f16.cu"),
    headers: HEADERS,
    kernels: &[JOINED[0].f16, JOINED[1].f16],
};

/// bf16.
pub(crate) static JOINS_BF16: Module = Module {
    name: "encode_join_bf16",
    source: include_str!("../../../../cu/encode_join_bf16.cu"),
    headers: HEADERS,
    kernels: &[JOINED[0].bf16, JOINED[1].bf16],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::encode::cuda::primitives::tile_for;

    /// Whether a layer of so many columns and steps is joined with its norm.
    fn joins(rows: usize, columns: usize, steps: usize, clusters: usize) -> bool {
        let alone = tile_for(rows, columns, steps, false, 132).1;
        Joined::of(rows, columns).is_some_and(|joined| joined.is_faster(rows, steps, clusters, alone))
    }

    #[test]
    fn layers_join_their_norms_where_that_was_faster() {
        let narrow = [4096, 16_384, 65_536, 1 << 18].map(|rows| [6, 24].map(|steps| joins(rows, 384, steps, 66)));
        assert_eq!(narrow, [[true; 2], [false; 2], [true; 2], [true; 2]]);
        let wide = [4096, 16_384, 65_536, 1 << 18].map(|rows| [12, 48].map(|steps| joins(rows, 768, steps, 30)));
        assert_eq!(wide, [[false; 2], [true, false], [true, false], [true, false]]);
    }

    #[test]
    fn few_rows_and_other_widths_are_not_joined() {
        assert!(Joined::of(4095, 768).is_none() && Joined::of(1 << 18, 1024).is_none());
        assert_eq!([Joined::clusters(129, 30), Joined::clusters(1 << 18, 30)], [2, 30]);
    }
}
