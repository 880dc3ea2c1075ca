//! Tests of the engine's public API with an operation that fails on demand.

mod admission;
mod batching;
mod cancellation;
mod fake;
mod faults;
mod full_gpu;
mod lanes;
mod trim;
mod turns;
mod watchdog;
