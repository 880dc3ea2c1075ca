//! The operations, one folder each: types, checks, cost, CPU code, CUDA launch, oracle.

pub mod cluster;
pub mod embed;
pub mod encode;
pub mod parse;
pub mod similarity;
