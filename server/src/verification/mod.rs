//! Verification: compares outputs with expected ones, and functions with functions.

mod cases;
pub(crate) mod chunks;
mod column;
mod compare;
pub(crate) mod compare_outputs;
pub(crate) mod counterexamples;
mod evaluate;
mod function;
pub(crate) mod generated;
pub(crate) mod header;
pub(crate) mod outcome;
pub(crate) mod outputs;
pub(crate) mod pipeline;
pub(crate) mod policy;
pub(crate) mod report;
mod screen_queue;
mod screening;
mod service;
pub(crate) mod sides;
mod small;
pub(crate) mod totals;
mod unordered;
pub(crate) mod wasm;

pub(crate) use cases::Named;
pub(crate) use service::VerificationService;
