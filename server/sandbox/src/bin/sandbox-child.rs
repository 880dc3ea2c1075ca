//! The child process as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    accelerd_sandbox::child::main()
}
