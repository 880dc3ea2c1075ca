//! Errors of all calls.

use accelerd_client::{Code, Error};

/// Reasons of errors of which memory is the cause.
const MEMORY_REASONS: [&str; 4] = ["MEMORY_LIMIT", "OUT_OF_MEMORY", "RESIDENT_BYTES_EXCEEDED", "TRANSPORT_MEMORY_FULL"];

/// Result of a call.
pub type CudaResult<T> = Result<T, CudaError>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The daemon or its device has not enough memory.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// An argument is invalid.
    #[error("{0}")]
    InvalidArgument(String),
    /// A source exceeds a limit of the parser.
    #[error("{name}: expected at most {limit}, got {count}")]
    LimitExceeded {
        /// Name of the limit in `ParserConfig`.
        name: &'static str,
        /// The limit.
        limit: u32,
        /// What the source has.
        count: usize,
    },
    /// A source is not valid Python.
    #[error("{0}")]
    InvalidSource(String),
    /// No daemon can be reached.
    #[error("{0}")]
    DeviceNotFound(String),
    /// The daemon refused the call or failed.
    #[error(transparent)]
    Failed(Error),
}

impl From<Error> for CudaError {
    fn from(error: Error) -> Self {
        let reason = error.failure().map(|failure| failure.reason.as_str()).unwrap_or_default();
        if MEMORY_REASONS.contains(&reason) {
            return Self::OutOfMemory(error.to_string());
        }
        if matches!(error, Error::Connect { .. } | Error::Address { .. }) {
            return Self::DeviceNotFound(error.to_string());
        }
        if error.code() == Code::InvalidArgument {
            Self::InvalidArgument(error.to_string())
        } else {
            Self::Failed(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_client::Failure;

    use super::*;

    fn failure(code: Code, reason: &str) -> CudaError {
        let failure = Failure {
            code,
            message: "4 of 3 bytes".to_owned(),
            violations: vec![],
            retry_after: None,
            resource: None,
            attempts: 1,
            reason: reason.to_owned(),
            metadata: std::collections::BTreeMap::new(),
        };
        Error::from(failure).into()
    }

    #[test]
    fn an_error_says_whether_memory_was_the_reason() {
        for reason in MEMORY_REASONS {
            assert_eq!(failure(Code::ResourceExhausted, reason).to_string(), "out of memory: 4 of 3 bytes");
        }
        assert_eq!(failure(Code::ResourceExhausted, "QUEUE_FULL").to_string(), "4 of 3 bytes");
        assert!(matches!(failure(Code::InvalidArgument, ""), CudaError::InvalidArgument(_)));
    }
}
