//! Why a call failed, with everything the daemon said about it.

use std::{fmt, time::Duration};

use tonic::Status;
use tonic_types::StatusExt;

use crate::{matrix::ShapeError, proto};

/// gRPC status codes.
pub use tonic::Code;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("bad server address {url:?}: {reason}")]
    Address {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing answers at the address.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// As given.
        url: String,
        /// What the operating system said.
        reason: String,
    },
    /// The deadline passed, here or at the daemon.
    #[error("no answer within {deadline:?}, after {attempts} attempt(s)")]
    Deadline {
        /// The deadline of the call, retries included.
        deadline: Duration,
        /// How often it was sent.
        attempts: u32,
    },
    /// The daemon refused or failed the call.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// The numbers given are not of the shape stated.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The answer breaks the protocol.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

/// What the daemon said.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The gRPC code.
    pub code: Code,
    /// For people.
    pub message: String,
    /// The fields that are wrong, for `InvalidArgument`.
    pub violations: Vec<FieldViolation>,
    /// When to try again, where the daemon said so.
    pub retry_after: Option<Duration>,
    /// Kind and name of what is missing or taken, for `NotFound` and `AlreadyExists`.
    pub resource: Option<(String, String)>,
    /// How often the call was sent.
    pub attempts: u32,
}

/// A field of the request that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Its path, as in `queries.shape`.
    pub field: String,
    /// What was expected and what was got.
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
    /// Reads a status and its rich details.
    pub(crate) fn of(status: &Status, attempts: u32) -> Self {
        let details = status.get_error_details();
        let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        Self {
            code: status.code(),
            message: status.message().to_owned(),
            violations: violations
                .iter()
                .map(|v| FieldViolation { field: v.field.clone(), description: v.description.clone() })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            resource: details.resource_info().map(|info| (info.resource_type.clone(), info.resource_name.clone())),
            attempts,
        }
    }
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
        }
        .into()
    }
}

impl Error {
    /// The gRPC code that fits best.
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(failure) => failure.code,
            Self::Connect { .. } => Code::Unavailable,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Address { .. } | Self::Shape(_) => Code::InvalidArgument,
            Self::Malformed(_) => Code::Internal,
        }
    }

    /// What the daemon said, if it said anything.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Address { .. }
            | Self::Connect { .. }
            | Self::Deadline { .. }
            | Self::Shape(_)
            | Self::Malformed(_) => None,
        }
    }

    /// When the daemon said to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure().and_then(|f| f.retry_after)
    }

    /// Whether the thing named does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }
}
