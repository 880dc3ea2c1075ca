//! The kernels: which sources there are, what each holds, and what each kernel takes.

pub(crate) mod kmeans;

use crate::ops::{
    encode::cuda::{few, join, sources as encode},
    parse::cuda::{lexer::kernels as parse, tree::kernels as trees},
    similarity::cuda::kernels as similarity,
};

/// One CUDA source with its kernels; compiled as a whole.
#[derive(Debug)]
pub struct Module {
    /// Its name, unique.
    pub name: &'static str,
    /// The text of its `.cu` file.
    pub source: &'static str,
    /// What it includes: the name between the quotes, and the text.
    pub headers: &'static [(&'static str, &'static str)],
    /// Its `extern "C"` kernels.
    pub kernels: &'static [Kernel],
}

/// A kernel: its name, unique over all modules, and the sizes of its parameters in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its `extern "C"` name.
    pub name: &'static str,
    /// Sizes of its parameters, in order.
    pub params: &'static [usize],
}

/// The header that every module may include.
pub const COMMON: (&str, &str) = ("common.cuh", include_str!("../../cu/common.cuh"));

/// Every module. All are compiled when a device is opened.
pub static MODULES: &[&Module] = &[
    &kmeans::LLOYD,
    &kmeans::NEAREST,
    &kmeans::START,
    &crate::ops::embed::cuda::MODULE,
    &encode::WEIGHTS,
    &encode::ROWS,
    &encode::TURNS,
    &encode::ANSWERS,
    &encode::EXACT,
    &encode::LINEARS_F16,
    &encode::LINEARS_BF16,
    &encode::RELAYS_F16,
    &encode::RELAYS_BF16,
    &join::JOINS_F16,
    &join::JOINS_BF16,
    &few::FEW_F16,
    &few::FEW_BF16,
    &encode::ATTENDS,
    &encode::ATTEND_GROUPS,
    &encode::ATTEND_WIDE,
    &parse::LINE_STATES,
    &parse::LEXER,
    &parse::WRITER,
    &parse::STRUCTURE,
    &parse::NAMES,
    &trees::ORDERS,
    &trees::CUTTER,
    &trees::MERGER,
    &trees::DRIVER,
    &trees::NESTING,
    &trees::COLUMNS,
    &trees::CONSTANTS,
    &similarity::COPY,
    &similarity::ANSWER,
    &similarity::VECTORS,
    &similarity::TILES_F32,
    &similarity::TILES_F16,
    &similarity::TILES_BF16,
    &similarity::TILES_I8,
    &similarity::GROUPS_F16,
    &similarity::GROUPS_BF16,
    &similarity::GROUPS_I8,
];
