//! Doubles that the tests of several crates share.

mod fake_daemon;

pub use fake_daemon::{DIM, FakeDaemon, State, busy, tensor};
