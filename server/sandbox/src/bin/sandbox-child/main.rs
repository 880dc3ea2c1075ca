//! The child process as a program of its own, with a GPU that tests stand in for.

mod fake_cuda;

use std::process::ExitCode;

fn main() -> ExitCode {
    accelerd_sandbox::child::main(&fake_cuda::FakeCuda)
}
