//! The engine as its callers see it, running an operation that fails on demand.

mod batching;
mod budget;
mod fake;
mod faults;
mod leaving;
mod tidying;
