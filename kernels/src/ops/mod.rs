//! The operations, one folder each: types, checks, cost, CPU code, CUDA launch, oracle.

pub mod cluster;
pub mod compare;
pub mod embed;
pub mod encode;
pub mod parse;
pub mod similarity;
pub mod tensor;
pub mod translate;

use crate::cuda::Module;

/// The CUDA modules of all operations.
pub fn modules() -> Vec<&'static Module> {
    [
        cluster::cuda::MODULES,
        compare::cuda::MODULES,
        embed::cuda::MODULES,
        &encode::cuda::modules(),
        parse::cuda::MODULES,
        similarity::cuda::MODULES,
    ]
    .concat()
}
