//! Cases as the daemon uses them: generated, searched for mistakes, shrunk.

mod common;
mod generate;
mod planted;
mod shrink;
