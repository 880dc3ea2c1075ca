//! Harnesses of fuzz targets: each takes bytes, which choose a case, and panics on a fault. `tests/fuzz` runs them with fixed seeds on stable
//! Rust, and `tests/libfuzzer` with coverage.

pub mod cases;
pub mod choices;
pub mod daemon;
pub mod files;
pub mod messages;
pub mod rpc;
pub mod seeds;
