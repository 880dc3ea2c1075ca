//! The source: its syntax tree, its declarations, and the constants that its names stand for.

pub(crate) mod counters;
pub(crate) mod declarations;
pub(crate) mod environment;
pub(crate) mod syntax;
