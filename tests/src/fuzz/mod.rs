//! Harnesses of fuzz targets: each takes bytes, which choose a case, and panics on a fault. `tests/fuzz` runs them with fixed seeds on stable
//! Rust, and `tests/libfuzzer` with coverage.

pub mod cases;
pub mod choices;
mod connection;
mod json;
pub mod judge;
mod messages;
pub mod models;
mod panics;
pub mod rpc;
pub mod seeds;
pub mod snapshots;
pub mod target;
mod words;

use choices::Choices;

/// Files that are changed in one case.
const MAX_CHANGES: usize = 4;
/// Headers of files are changed more often than what follows.
const HEADER_BYTES: usize = 1200;

/// Changes some bytes of a file without regard to its format.
fn changed_bytes(mut bytes: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    for _ in 0..=choices.below(MAX_CHANGES) {
        let rest = if choices.is_one_in(3) { vec![] } else { bytes.split_off(bytes.len().min(HEADER_BYTES)) };
        messages::mutate_bytes(&mut bytes, choices);
        bytes.extend(rest);
    }
    bytes
}

/// Changes values of a JSON document; `None` if the text is not one.
fn changed_json(bytes: &[u8], choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    let mut document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    for _ in 0..=choices.below(MAX_CHANGES) {
        json::mutate(&mut document, choices);
    }
    Some(json::text(&document, choices))
}
