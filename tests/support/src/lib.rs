//! Doubles that the tests of several crates share.

mod certificates;
mod fake_daemon;

pub use certificates::{Certificates, CertifiedKey};
pub use fake_daemon::{ClientCertificates, DIM, FakeDaemon, FakeDaemonState, REPORT, busy, tensor};
