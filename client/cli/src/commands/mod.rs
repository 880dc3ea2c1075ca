//! One module per command, with its arguments, its implementation and its report.

pub mod bench;
pub mod cluster;
pub mod collections;
pub mod conditions;
pub mod dataset;
pub mod drain;
pub mod embed;
pub mod generate;
pub mod health;
pub mod index;
pub mod kernel;
pub mod models;
pub mod parse;
mod prompts;
pub mod report;
pub mod rerank;
pub mod search;
pub mod similar;
mod small_output;
pub mod snapshots;
pub mod stats;
pub mod tensor;
pub mod verify;

/// Maximum hits of a search.
const MAX_HITS: u32 = 16_384;
