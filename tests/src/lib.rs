//! What tests of the daemon share: fuzzing harnesses.

pub mod fuzz;
