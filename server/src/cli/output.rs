//! Output and exit codes of the commands.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// Exit code for invalid settings or arguments.
pub(super) const INVALID_SETTINGS: u8 = 2;

/// Prints to standard output.
pub(super) fn print(text: impl fmt::Display) -> ExitCode {
    // A closed pipe, as in `| head`, is not a failure.
    let _closed = writeln!(io::stdout(), "{text}");
    ExitCode::SUCCESS
}

/// Prints an error to standard error.
pub(super) fn fail(error: &impl fmt::Display, code: u8) -> ExitCode {
    let _closed = writeln!(io::stderr(), "accelerd: {error}");
    ExitCode::from(code)
}
