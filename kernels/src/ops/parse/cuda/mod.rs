//! Parsing on a GPU: [`lexer`] makes tokens of sources, [`tree`] makes trees of tokens, `slice` takes so many sources
//! through both, and `batch` keeps slices on their way and has the CPU finish what is left to it.

mod areas;
mod batch;
mod crew;
mod foreseen;
mod left;
pub mod lexer;
mod slice;
pub mod tree;

pub(super) use batch::run;
