//! Trees on a GPU. The kernels are described in `cu/parse_tree_*.cu`.
//!
//! From what the lexer leaves on the device: long brackets are cut into chunks, lines and chunks are sorted by length and
//! parsed by the grammar's tables, one thread each, and cut lines are joined again; each line finds its place among the
//! others; then nodes become rows, are checked, and get their values. A source that the device cannot finish exactly, for an
//! error above all, is marked with the reason, and the CPU parses it anew.

mod host;
pub(crate) mod kernels;
mod launch;
mod lexed;
mod tables;

pub(super) use launch::{Summary, Trees, trees};
pub(super) use lexed::Lexed;

pub use host::{DeviceLexed, HostLexed, HostTrees};
