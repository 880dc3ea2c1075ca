//! The `accelerd` command: serve, ask a daemon for its health, check and show the settings.

use std::process::ExitCode;

mod cli;

/// Frees and reuses large buffers far faster than the system's allocator, which large messages need.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
