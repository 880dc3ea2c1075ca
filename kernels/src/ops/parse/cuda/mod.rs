//! Parsing on a GPU: [`lexer`] makes tokens of sources, [`tree`] makes trees of tokens, `slice` takes so many sources
//! through both, and `batch` keeps slices on their way, their columns landing in `areas`. What the device leaves to the CPU
//! is in `left`; `foreseen` finds some of it ahead, and `crew` has the CPU's threads parse it.

mod areas;
mod batch;
mod crew;
mod foreseen;
mod left;
pub mod lexer;
mod slice;
pub mod tree;

pub(super) use batch::run;
