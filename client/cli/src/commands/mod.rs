//! One file or folder a command: its arguments, its work, its report.

pub mod bench;
pub mod cluster;
pub mod collections;
pub mod embed;
pub mod generate;
pub mod health;
pub mod index;
pub mod models;
pub mod parse;
pub mod rerank;
pub mod search;
pub mod similar;
pub mod stats;

/// Most hits that one search may return.
const MAX_HITS: u32 = 16_384;
