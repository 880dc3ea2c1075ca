//! The headers of kernels that are templates.

use super::prelude::PRELUDE;
use crate::cuda::{COMMON, Source, cu};

/// All of them. A source includes the prelude first, once.
pub(super) const HEADERS: &[Source] = &[
    COMMON,
    PRELUDE,
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
