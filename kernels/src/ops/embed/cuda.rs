//! Embedding by table on a GPU: every request of a batch in one upload, one launch and one download.

use crate::cuda::{Kernel, Module, modules::COMMON};

const POOL: Kernel = Kernel { name: "embed_pool_i8", params: &[8, 8, 8, 8, 8, 8, 4] };

/// The kernel.
pub(crate) static MODULE: Module =
    Module { name: "embed", source: include_str!("../../../cu/embed.cu"), headers: &[COMMON], kernels: &[POOL] };
