//! The child process as a program of its own, with a GPU that tests stand in for. `sandbox-child probe` tries what a confined child must not do.

mod fake_cuda;
mod probe;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("probe") => probe::run(arguments),
        _ => accelerd_sandbox::child::main(&fake_cuda::FakeCuda),
    }
}
