//! Errors with their exit codes and hints.

use std::{io, path::PathBuf};

use accelerd_client::{Code, Error as ClientError};

use crate::hint;

/// Exit code after SIGINT, by the convention of shells.
pub const INTERRUPTED: u8 = 130;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A call failed.
    #[error("{0}")]
    Call(#[from] ClientError),
    /// The arguments are invalid.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file is invalid.
    #[error("{}: {reason}", path.display())]
    Format { path: PathBuf, reason: String },
    /// The threads of the program cannot be started.
    #[error("cannot start threads: {0}")]
    Start(io::Error),
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// The daemon responds but accepts no work.
    #[error("{0} is not serving")]
    NotServing(String),
    /// A search without results, which are printed already.
    #[error("no results")]
    NothingFound,
    /// Outputs differ, as the report says that is printed already.
    #[error("the outputs differ")]
    Differs,
    /// Kernels were not translated, as the report says that is printed already.
    #[error("kernels were not translated")]
    Untranslated,
    /// A suite has mistakes.
    #[error("the suite has mistakes")]
    Suite(Vec<String>),
    /// The daemon cannot be reached to run a suite.
    #[error("{0}")]
    SuiteConnection(ClientError),
    /// Checks of a suite could not be run, as the report says that is printed already.
    #[error("checks could not be run")]
    Unchecked,
    /// A kernel ended with a fault, as the report says that is printed already.
    #[error("the kernel ended with a fault")]
    Fault,
    /// Files cannot be watched.
    #[error("{0}")]
    Watch(String),
    /// The daemon ended a stream without an error.
    #[error("the daemon ended the stream early; run the same command to resume")]
    StreamEnded,
    /// Ctrl-C; the message states the work that was done.
    #[error("{0}")]
    Interrupted(String),
    /// Part of the work failed.
    #[error("{0}")]
    Partial(String),
}

/// Result of a command.
pub type Result<T = (), E = CliError> = std::result::Result<T, E>;

impl CliError {
    /// Returns a function that wraps an I/O error with its path.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// Exit code, as documented in the help.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => INTERRUPTED,
            Self::NothingFound
            | Self::Differs
            | Self::Untranslated
            | Self::Fault
            | Self::Output(_)
            | Self::Start(_)
            | Self::NotServing(_)
            | Self::Watch(_)
            | Self::StreamEnded
            | Self::Partial(_) => 1,
            Self::Usage(_)
            | Self::File { .. }
            | Self::Format { .. }
            | Self::Suite(_)
            | Self::SuiteConnection(_)
            | Self::Unchecked => 2,
            Self::Call(error) => match error.code() {
                Code::Unavailable => 3,
                Code::NotFound => 4,
                Code::ResourceExhausted => 5,
                Code::DeadlineExceeded => 6,
                Code::InvalidArgument => 2,
                Code::Unauthenticated | Code::PermissionDenied => 7,
                Code::Ok
                | Code::Cancelled
                | Code::Unknown
                | Code::AlreadyExists
                | Code::FailedPrecondition
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Internal
                | Code::DataLoss => 1,
            },
        }
    }

    /// The mistakes of a suite, one per line.
    pub fn mistakes(&self) -> &[String] {
        if let Self::Suite(mistakes) = self { mistakes } else { &[] }
    }

    /// Returns true if the report that is printed already says it.
    pub fn is_reported(&self) -> bool {
        matches!(self, Self::NothingFound | Self::Differs | Self::Untranslated | Self::Unchecked | Self::Fault)
    }

    /// Returns true if the same work may succeed later, as after a restart of the daemon.
    pub fn is_transient(&self) -> bool {
        let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted];
        let may_succeed = |error: &ClientError| codes.contains(&error.code()) || error.retry_after().is_some();
        matches!(self, Self::StreamEnded) || matches!(self, Self::Call(error) if may_succeed(error))
    }

    /// Suggests a remedy.
    pub fn hint(&self) -> Option<String> {
        let (Self::Call(error) | Self::SuiteConnection(error)) = self else { return None };
        hint::of(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> CliError {
        ClientError::Connect { url: "http://localhost:1".into(), reason: "connection refused".into() }.into()
    }

    #[test]
    fn an_unreachable_daemon_has_a_hint_how_to_start_it() {
        assert_eq!(refused().exit_code(), 3);
        assert!(refused().hint().is_some_and(|hint| hint.contains("accelerd serve")));
    }

    #[test]
    fn unreadable_files_have_the_exit_code_of_invalid_usage() {
        let error = CliError::file("a.npy")(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with("a.npy: "));
    }
}
