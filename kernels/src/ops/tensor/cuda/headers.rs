//! The headers of kernels that are templates.

use super::prelude::PRELUDE;
use crate::cuda::{COMMON, Source, cu, launch_structs};

launch_structs! {
    header LAUNCH = "tensor/templates_launch.cuh";

    /// Threads of a block of the kernels whose arguments are words.
    pub(super) const WORDS_THREADS: usize = 256;
    /// Words that a thread copies by index.
    pub(super) const INDEX_UNROLL: usize = 4;
    /// Vectors of a thread in a tile of a scan.
    pub(super) const SCAN_ROUNDS: usize = 4;
    /// Values of a digit of a radix sort, and keys of a thread: of 8 bytes, and of 4.
    pub(super) const RADIX_DIGITS: usize = 256;
    pub(super) const RADIX_ITEMS_64: usize = 8;
    pub(super) const RADIX_ITEMS_32: usize = 12;
}

/// All of them. A source includes the prelude first, once.
pub(super) const HEADERS: &[Source] = &[
    COMMON,
    PRELUDE,
    LAUNCH,
    cu!("tensor/pack.cuh"),
    cu!("tensor/states.cuh"),
    cu!("tensor/group.cuh"),
    cu!("tensor/offsets.cuh"),
    cu!("tensor/operands.cuh"),
    cu!("tensor/reduce.cuh"),
    cu!("tensor/reduce_states.cuh"),
    cu!("tensor/row.cuh"),
    cu!("tensor/softmax.cuh"),
    cu!("tensor/norm.cuh"),
    cu!("tensor/index.cuh"),
    cu!("tensor/scan.cuh"),
    cu!("tensor/sort_key.cuh"),
    cu!("tensor/sort_block.cuh"),
    cu!("tensor/sort_radix.cuh"),
];
