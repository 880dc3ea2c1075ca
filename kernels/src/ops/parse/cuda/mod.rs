//! Parsing on a GPU: [`lexer`] makes tokens of sources, [`tree`] makes trees of tokens, and `batch` brings them back and has
//! the CPU finish what is left to it.

mod batch;
pub mod lexer;
pub mod tree;

pub(super) use batch::run;
