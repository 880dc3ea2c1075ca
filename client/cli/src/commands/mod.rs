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

use accelerd_client::Timings;
use serde::Serializer;

/// Most hits that one search may return.
const MAX_HITS: u32 = 16_384;

/// Stages of a call as an object of milliseconds.
fn milliseconds<S: Serializer>(timings: &Timings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timings.0.iter().map(|stage| (&stage.name, stage.duration.as_secs_f64() * 1e3)))
}
