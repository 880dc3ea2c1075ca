//! What can go wrong, what it means for the exit code, and what to do about it.

use std::{io, path::PathBuf};

use accelerd_client::{Code, Error as ClientError};

/// The exit code after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A call failed.
    #[error("{0}")]
    Call(#[from] ClientError),
    /// The arguments contradict each other or the daemon.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Standard output is gone.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// The daemon answers, but takes no work.
    #[error("{0} is not serving")]
    NotServing(String),
    /// A search found nothing, which it has shown already.
    #[error("nothing found")]
    NothingFound,
    /// Ctrl-C came; what was done is said.
    #[error("{0}")]
    Interrupted(String),
    /// Part of the work failed; what and why was said already.
    #[error("{0}")]
    Partial(String),
}

/// What every command returns.
pub type Result<T = (), E = CliError> = std::result::Result<T, E>;

impl CliError {
    /// A file that cannot be read or written.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => INTERRUPTED,
            Self::NothingFound | Self::Output(_) | Self::NotServing(_) | Self::Partial(_) => 1,
            Self::Usage(_) | Self::File { .. } | Self::Format { .. } => 2,
            Self::Call(error) => match error.code() {
                Code::Unavailable => 3,
                Code::NotFound => 4,
                Code::ResourceExhausted => 5,
                Code::DeadlineExceeded => 6,
                Code::InvalidArgument => 2,
                Code::Ok
                | Code::Cancelled
                | Code::Unknown
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Internal
                | Code::DataLoss
                | Code::Unauthenticated => 1,
            },
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let Self::Call(error) = self else { return None };
        if matches!(error, ClientError::Connect { .. }) {
            return Some(
                "is the daemon running? start it with `accelerd serve`, or name another one by --server".into(),
            );
        }
        let resource = error.failure().and_then(|failure| failure.resource.as_ref()).map(|(kind, _)| kind.as_str());
        let violated = |field: &str| error.failure().is_some_and(|f| f.violations.iter().any(|v| v.field == field));
        let hint = match (error.code(), resource) {
            (Code::InvalidArgument, _) if violated("durable") => {
                "start the daemon with `accelerd serve --data-dir FOLDER`"
            }
            (Code::NotFound, Some("collection")) => {
                "`accelctl collections list` shows what there is; `accelctl index` makes one"
            }
            (Code::NotFound, Some("model")) => "`accelctl models` shows what is loaded",
            (Code::AlreadyExists, _) => "choose another name, or delete it with `accelctl collections delete`",
            (Code::ResourceExhausted, _) => {
                "try again later, or with smaller requests; `accelctl stats` shows the queues"
            }
            (Code::DeadlineExceeded, _) => "give it longer with --timeout; `accelctl stats` shows the queues",
            (Code::Unavailable, _) => "the daemon is draining or its connection broke; `accelctl health` tells more",
            (Code::Unimplemented, _) => {
                "the daemon is older than this command; compare `accelctl health` with --version"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> CliError {
        ClientError::Connect { url: "http://localhost:1".into(), reason: "connection refused".into() }.into()
    }

    #[test]
    fn a_daemon_that_is_not_there_says_how_to_start_it() {
        assert_eq!(refused().exit_code(), 3);
        assert!(refused().hint().is_some_and(|hint| hint.contains("accelerd serve")));
    }

    #[test]
    fn bad_files_are_bad_usage() {
        let error = CliError::file("a.npy")(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with("a.npy: "));
    }
}
