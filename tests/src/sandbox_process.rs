//! A process that runs code of clients.

use std::process::ExitCode;

fn main() -> ExitCode {
    accelerd::sandbox::child_main()
}
