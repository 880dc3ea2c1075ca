//! Cases as the daemon uses them: generated, searched for mistakes, shrunk.

#![expect(clippy::float_cmp, reason = "values are compared exactly")]

mod common;
mod generate;
mod planted;
mod shrink;
