//! Errors of calls, with their details.

use std::{collections::BTreeMap, error::Error as StdError, fmt, time::Duration};

use tonic::Status;
use tonic_types::StatusExt;

use crate::proto;

/// gRPC status codes.
pub use tonic::Code;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is invalid.
    #[error("invalid server address {url:?}: {reason}")]
    Address {
        /// The address.
        url: String,
        /// Why it is invalid.
        reason: String,
    },
    /// The certificates, the key or the token are invalid, or must not be sent to the address.
    #[error("{0}")]
    Credentials(String),
    /// The connection failed.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// The address.
        url: String,
        /// The error of the operating system or of TLS.
        reason: String,
    },
    /// The deadline passed, in the client or in the daemon.
    #[error("deadline of {deadline:?} exceeded after {attempts} attempt(s)")]
    Deadline {
        /// Deadline of the call, retries included.
        deadline: Duration,
        /// Number of attempts.
        attempts: u32,
    },
    /// The daemon returned an error.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// The length of an argument does not match its shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The response violates the protocol.
    #[error("malformed response: {0}")]
    Malformed(String),
}

/// A length that is not a multiple of the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected rows of {dim} elements, got {len} elements")]
pub struct ShapeError {
    /// Number of elements.
    pub len: usize,
    /// Elements per row.
    pub dim: usize,
}

/// An error that the daemon returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// gRPC status code.
    pub code: Code,
    /// Error message.
    pub message: String,
    /// Invalid fields of the request, for `InvalidArgument`.
    pub violations: Vec<FieldViolation>,
    /// Delay before a retry, from RetryInfo.
    pub retry_after: Option<Duration>,
    /// Type and name of the resource, for `NotFound` and `AlreadyExists`.
    pub resource: Option<(String, String)>,
    /// Number of attempts.
    pub attempts: u32,
    /// Reason of the error, such as `MEMORY_LIMIT`, from ErrorInfo; empty if there is none.
    pub reason: String,
    /// Figures of the reason, by name.
    pub metadata: BTreeMap<String, String>,
}

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field, as in `queries.shape`.
    pub field: String,
    /// The expected and the actual value.
    pub description: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.message.is_empty() { self.code.description() } else { &self.message })?;
        for violation in self.violations.iter().filter(|v| !self.message.contains(&v.description)) {
            write!(out, "; {}: {}", violation.field, violation.description)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Reads a status and its details.
    pub(crate) fn of(status: &Status, attempts: u32) -> Self {
        let details = status.get_error_details();
        let error_info = details.error_info().cloned();
        let (reason, metadata) = error_info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
        let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        // The transport has no code for a connection that broke.
        let is_broken = status.code() == Code::Unknown && StdError::source(status).is_some();
        Self {
            code: if is_broken { Code::Unavailable } else { status.code() },
            message: message(status),
            violations: violations
                .iter()
                .map(|v| FieldViolation { field: v.field.clone(), description: v.description.clone() })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            resource: details.resource_info().map(|info| (info.resource_type.clone(), info.resource_name.clone())),
            attempts,
            reason,
            metadata: metadata.into_iter().collect(),
        }
    }
}

/// The message of a status. One that the transport made up gets its cause, such as a TLS alert.
fn message(status: &Status) -> String {
    let cause = StdError::source(status).map(root_cause);
    match cause {
        Some(cause) if !status.message().contains(&cause) => format!("{}: {cause}", status.message()),
        _ => status.message().to_owned(),
    }
}

/// The innermost source of an error, which is the most specific.
pub(crate) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<proto::ItemError> for Error {
    fn from(error: proto::ItemError) -> Self {
        Failure {
            code: Code::from_i32(error.code),
            message: error.message,
            violations: vec![],
            retry_after: None,
            resource: None,
            attempts: 1,
            reason: String::new(),
            metadata: BTreeMap::new(),
        }
        .into()
    }
}

impl Error {
    /// gRPC status code, or the closest one for an error of the client.
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(failure) => failure.code,
            Self::Connect { .. } => Code::Unavailable,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Address { .. } | Self::Credentials(_) | Self::Shape(_) => Code::InvalidArgument,
            Self::Malformed(_) => Code::Internal,
        }
    }

    /// The error that the daemon returned, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Address { .. }
            | Self::Credentials(_)
            | Self::Connect { .. }
            | Self::Deadline { .. }
            | Self::Shape(_)
            | Self::Malformed(_) => None,
        }
    }

    /// Delay before a retry, if the daemon named one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure().and_then(|f| f.retry_after)
    }

    /// Returns true if a message exceeds a limit, of the daemon or of the client.
    pub fn is_message_too_large(&self) -> bool {
        // The text of the client's own transport, which gives no reason.
        let by_transport = |failure: &Failure| {
            failure.code == Code::OutOfRange && failure.message.contains("message length too large")
        };
        self.failure().is_some_and(|failure| failure.reason == "MESSAGE_TOO_LARGE" || by_transport(failure))
    }

    /// Returns true if the code is `NotFound`.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }
}
