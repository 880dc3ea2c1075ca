//! The headers of kernels that read rows.

use accelerd_ir::scalar::cuda;

use crate::cuda::{COMMON, Source, cu};

/// What emitted functions and reductions call. A source includes it first, once.
pub(super) const PRELUDE: Source = Source { path: "ir/prelude.cuh", text: cuda::PRELUDE };

/// All of them.
pub(super) const HEADERS: &[Source] = &[
    COMMON,
    PRELUDE,
    cu!("tensor/pack.cuh"),
    cu!("tensor/states.cuh"),
    cu!("tensor/group.cuh"),
    cu!("tensor/operands.cuh"),
    cu!("tensor/reduce.cuh"),
    cu!("tensor/reduce_states.cuh"),
    cu!("tensor/row.cuh"),
    cu!("tensor/softmax.cuh"),
    cu!("tensor/norm.cuh"),
];
