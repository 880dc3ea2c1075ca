//! Errors with their exit codes and hints.

use std::{io, path::PathBuf};

use accelerd_client::{Code, Error as ClientError};

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
            | Self::NotServing(_)
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

    /// Suggests a remedy.
    pub fn hint(&self) -> Option<String> {
        let (Self::Call(error) | Self::SuiteConnection(error)) = self else { return None };
        if let ClientError::Connect { reason, .. } = error {
            return Some(connect_hint(reason).into());
        }
        let resource = error.failure().and_then(|failure| failure.resource.as_ref()).map(|(kind, _)| kind.as_str());
        let violated = |field: &str| error.failure().is_some_and(|f| f.violations.iter().any(|v| v.field == field));
        let hint = match (error.code(), resource) {
            (Code::InvalidArgument, _) if violated("durable") => {
                "start the daemon with `accelerd serve --data-dir FOLDER`"
            }
            (Code::NotFound, Some("collection")) => {
                "`accelctl collections list` lists the collections; `accelctl index` creates one"
            }
            (Code::NotFound, Some("model")) => "`accelctl models` lists the loaded models",
            (Code::NotFound, Some("kernel")) => "`accelctl kernel list` lists the compiled kernels",
            (Code::NotFound, Some("tensor")) => "`accelctl tensor list` lists the resident tensors",
            (Code::AlreadyExists, _) => "choose another name, or delete it with `accelctl collections delete`",
            (Code::ResourceExhausted, _) => "retry later, or send smaller requests; `accelctl stats` shows the queues",
            (Code::DeadlineExceeded, _) => "increase --timeout; `accelctl stats` shows the queues",
            (Code::Unauthenticated, _) => {
                "set the token with --token-file or ACCELERD_TOKEN, or a client certificate with --tls-cert and --tls-key"
            }
            (Code::PermissionDenied, _) => "the daemon's file of principals says what each may do",
            (Code::Cancelled | Code::Unknown | Code::Internal | Code::Unavailable, _) if is_broken(error) => {
                "the connection broke; if the daemon serves TLS, use an https:// address"
            }
            (Code::Unavailable, _) => "the daemon is draining or the connection broke; see `accelctl health`",
            (Code::Unimplemented, _) => {
                "the daemon is older than this client; compare `accelctl health` with --version"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Messages of hyper, h2 and the operating system about a connection that ended: which of them notices first is a matter of timing.
const BROKEN: [&str; 5] =
    ["connection closed", "connection reset", "connection was not ready", "broken pipe", "invalid size"];

/// Returns true if the transport failed after it was connected, as with plaintext to a daemon that serves TLS.
fn is_broken(error: &ClientError) -> bool {
    let message = error.to_string().to_lowercase();
    BROKEN.iter().any(|part| message.contains(part))
}

/// Suggests a remedy for a failed connection.
fn connect_hint(reason: &str) -> &'static str {
    if reason.contains("UnknownIssuer") || reason.contains("BadSignature") {
        "name the authority of the daemon's certificate with --tls-ca"
    } else if reason.contains("not valid for name") {
        "set --server to a name in the certificate, or name one with --tls-server-name"
    } else if reason.contains("InvalidContentType") {
        "does the daemon serve TLS? without it, use an http:// address"
    } else {
        "is the daemon running? start it with `accelerd serve`, or set its address with --server"
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
