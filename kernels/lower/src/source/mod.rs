//! The source: its syntax tree, what it declares, and the constants that its names stand for.

pub(crate) mod declarations;
pub(crate) mod environment;
pub(crate) mod syntax;
