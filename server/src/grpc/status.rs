//! Errors to gRPC statuses with details a program can act on. The only place where that is decided.

use std::{collections::HashMap, time::Duration};

use accelerd_engine::SubmitError;
use accelerd_kernels::OpError;
use accelerd_proto::v1 as pb;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::error::ApiError;

/// The domain of our `ErrorInfo` reasons.
const DOMAIN: &str = "accelerd";

/// When to try again after a refusal that says nothing better.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let message = error.to_string();
        match error {
            ApiError::Invalid { field, reason } => {
                let details = ErrorDetails::with_bad_request_violation(field, reason);
                Self::with_error_details(Code::InvalidArgument, message, details)
            }
            ApiError::NotFound { kind, name } => {
                let details = ErrorDetails::with_resource_info(kind, name, "", "does not exist");
                Self::with_error_details(Code::NotFound, message, details)
            }
            ApiError::AlreadyExists { kind, name } => {
                let details = ErrorDetails::with_resource_info(kind, name, "", "exists already");
                Self::with_error_details(Code::AlreadyExists, message, details)
            }
            ApiError::Denied(_) => with_reason(Code::PermissionDenied, message, "NOT_ALLOWED", HashMap::new()),
            ApiError::DataLoss(_) => with_reason(Code::DataLoss, message, "DATA_LOSS", HashMap::new()),
            ApiError::AnswerTooLarge { bytes, most } => too_large(message, bytes as u64, most as u64),
            ApiError::Exhausted(_) => {
                let details = ErrorDetails::with_quota_failure_violation("daemon", message.clone());
                Self::with_error_details(Code::ResourceExhausted, message, details)
            }
            ApiError::Unavailable(_) => retry(Code::Unavailable, message, "UNAVAILABLE", RETRY_AFTER),
            ApiError::Words(_) => with_reason(Code::Internal, message, "WORDS_FAILED", HashMap::new()),
            ApiError::Submit(error) => from_submit(error, message),
        }
    }
}

fn from_submit(error: SubmitError, message: String) -> Status {
    match error {
        SubmitError::Full { retry_after, .. } => retry(Code::ResourceExhausted, message, "QUEUE_FULL", retry_after),
        SubmitError::TooLarge { measure, asked, limit } => {
            let facts = [("measure", measure.to_owned()), ("asked", asked.to_string()), ("limit", limit.to_string())];
            let facts: HashMap<_, _> = facts.map(|(key, value)| (key.to_owned(), value)).into();
            let mut details = ErrorDetails::with_bad_request_violation("request", message.clone());
            details.set_error_info("TOO_LARGE", DOMAIN, facts);
            Status::with_error_details(Code::InvalidArgument, message, details)
        }
        SubmitError::Draining => {
            let mut details = ErrorDetails::with_error_info("DRAINING", DOMAIN, HashMap::new());
            details.set_retry_info(Some(RETRY_AFTER));
            details.add_precondition_failure_violation("DRAINING", "daemon", "the daemon takes no new work");
            Status::with_error_details(Code::Unavailable, message, details)
        }
        SubmitError::DeadlineExceeded { waited } => {
            let facts = HashMap::from([("waited_ms".to_owned(), waited.as_millis().to_string())]);
            with_reason(Code::DeadlineExceeded, message, "DEADLINE_IN_QUEUE", facts)
        }
        SubmitError::Op(error) => from_op(&error, message),
    }
}

fn from_op(error: &OpError, message: String) -> Status {
    match error {
        OpError::OutOfMemory { device, requested, free } => {
            let mut details = ErrorDetails::with_retry_info(Some(RETRY_AFTER));
            let (requested, free) = (requested.to_string(), free.to_string());
            let facts = [("device", device.to_string()), ("requested_bytes", requested), ("free_bytes", free)];
            let facts: HashMap<_, _> = facts.map(|(key, value)| (key.to_owned(), value)).into();
            details.set_error_info("OUT_OF_MEMORY", DOMAIN, facts);
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
        OpError::Invalid(reason) => {
            let details = ErrorDetails::with_bad_request_violation("request", reason);
            Status::with_error_details(Code::InvalidArgument, message, details)
        }
        OpError::Failed { device, kernel, .. } => {
            let facts = [("device", device.to_string()), ("kernel", (*kernel).to_owned())];
            let facts = facts.map(|(key, value)| (key.to_owned(), value)).into();
            with_reason(Code::Internal, message, "KERNEL_FAILED", facts)
        }
        OpError::DeviceLost { device, .. } => {
            let facts = HashMap::from([("device".to_owned(), device.to_string())]);
            let mut details = ErrorDetails::with_error_info("DEVICE_LOST", DOMAIN, facts);
            details.set_retry_info(Some(RETRY_AFTER));
            Status::with_error_details(Code::Unavailable, message, details)
        }
    }
}

/// The memory of the transport is used up.
pub(crate) fn transport_memory_full(kind: &str, asked: u64, held: u64, limit: u64) -> Status {
    let message =
        format!("admission limit reached: {held} of {limit} bytes of transport memory in use, {kind} need {asked}");
    retry(Code::ResourceExhausted, message, "TRANSPORT_MEMORY_FULL", RETRY_AFTER)
}

/// A call whose caller neither sends the rest of its message nor takes its answer.
pub(crate) fn stalled() -> Status {
    let message = "the call made no progress: its request was not sent on, or its answer not received".to_owned();
    retry(Code::ResourceExhausted, message, "STALLED", RETRY_AFTER)
}

/// Metadata larger than the configured limit.
pub(crate) fn metadata_too_large(asked: usize, limit: usize) -> Status {
    let message = format!("the metadata has {asked} bytes, expected at most {limit}");
    let facts = [("asked".to_owned(), asked.to_string()), ("limit".to_owned(), limit.to_string())];
    with_reason(Code::ResourceExhausted, message, "METADATA_TOO_LARGE", facts.into())
}

/// A message larger than the configured limit.
pub(crate) fn message_too_large(asked: u64, limit: u64) -> Status {
    too_large(format!("the request message has {asked} bytes, expected at most {limit}"), asked, limit)
}

/// A response that no message may carry is the request's doing; the caller learns what to change.
pub(crate) fn response_too_large(size: usize, most: usize) -> Status {
    let advice = "ask for fewer outputs or send fewer sources";
    let message = format!("the response has {size} bytes, a message at most {most}: {advice}");
    too_large(message, size as u64, most as u64)
}

fn too_large(message: String, asked: u64, limit: u64) -> Status {
    let facts = [("asked".to_owned(), asked.to_string()), ("limit".to_owned(), limit.to_string())];
    with_reason(Code::ResourceExhausted, message, "MESSAGE_TOO_LARGE", facts.into())
}

/// The failure of one item of a stream.
pub(crate) fn item_error(status: &Status) -> pb::ItemError {
    pb::ItemError { code: status.code().into(), message: status.message().to_owned() }
}

/// The caller's time is up.
pub(crate) fn deadline_exceeded() -> Status {
    with_reason(Code::DeadlineExceeded, "the deadline passed".to_owned(), "DEADLINE", HashMap::new())
}

/// A handler panicked; the panic's own words stay in the log.
pub(crate) fn panicked() -> Status {
    let message = "the daemon failed on this request; its log says more".to_owned();
    with_reason(Code::Internal, message, "PANIC", HashMap::new())
}

fn with_reason(code: Code, message: String, reason: &str, facts: HashMap<String, String>) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, facts))
}

fn retry(code: Code, message: String, reason: &str, after: Duration) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    details.set_retry_info(Some(after));
    Status::with_error_details(code, message, details)
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::DeviceId;

    use super::*;

    fn status(error: impl Into<ApiError>) -> Status {
        Status::from(error.into())
    }

    fn reason(status: &Status) -> String {
        status.get_details_error_info().expect("error info").reason
    }

    #[test]
    fn a_bad_field_is_named() {
        let status = status(ApiError::invalid("queries.shape", "expected 2 extents, got 3"));
        assert_eq!(status.code(), Code::InvalidArgument);
        let violations = status.get_details_bad_request().expect("bad request").field_violations;
        assert_eq!(violations[0].field, "queries.shape");
        assert_eq!(violations[0].description, "expected 2 extents, got 3");
    }

    #[test]
    fn unknown_and_taken_names_are_resources() {
        let missing = status(ApiError::NotFound { kind: "collection", name: "code".into() });
        let info = missing.get_details_resource_info().expect("resource info");
        assert_eq!((missing.code(), info.resource_name.as_str()), (Code::NotFound, "code"));
        let taken = status(ApiError::AlreadyExists { kind: "collection", name: "code".into() });
        assert_eq!(taken.code(), Code::AlreadyExists);
        assert_eq!(taken.get_details_resource_info().expect("resource info").resource_type, "collection");
    }

    #[test]
    fn a_full_queue_says_when_to_retry() {
        let retry_after = Duration::from_millis(7);
        let full = SubmitError::Full { measure: "items", held: 9, limit: 10, asked: 2, retry_after };
        let status = status(full);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.get_details_retry_info().expect("retry info").retry_delay, Some(retry_after));
    }

    #[test]
    fn a_request_that_can_never_run_is_invalid_and_has_the_figures() {
        let status = status(SubmitError::TooLarge { measure: "bytes", asked: 9, limit: 4 });
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.get_details_error_info().expect("error info").metadata["limit"], "4");
    }

    #[test]
    fn draining_and_a_lost_device_are_unavailable() {
        let draining = status(SubmitError::Draining);
        assert_eq!((draining.code(), reason(&draining).as_str()), (Code::Unavailable, "DRAINING"));
        assert!(draining.get_details_precondition_failure().is_some());
        let lost = OpError::DeviceLost { device: DeviceId::Cuda(1), reason: "illegal address".into() };
        let lost = status(SubmitError::Op(lost));
        assert_eq!((lost.code(), reason(&lost).as_str()), (Code::Unavailable, "DEVICE_LOST"));
    }

    #[test]
    fn the_other_failures_have_their_codes() {
        let op = |error| status(SubmitError::Op(error)).code();
        assert_eq!(op(OpError::OutOfMemory { device: DeviceId::Cpu, requested: 1, free: 0 }), Code::ResourceExhausted);
        assert_eq!(op(OpError::Invalid("no".into())), Code::InvalidArgument);
        let failed = OpError::Failed { device: DeviceId::Cpu, kernel: "k", reason: "r".into() };
        assert_eq!(op(failed), Code::Internal);
        let late = SubmitError::DeadlineExceeded { waited: Duration::from_millis(1) };
        assert_eq!(status(late).code(), Code::DeadlineExceeded);
        assert_eq!(status(ApiError::DataLoss("checksum".into())).code(), Code::DataLoss);
        assert_eq!(status(ApiError::Exhausted("disk".into())).code(), Code::ResourceExhausted);
        assert_eq!(status(ApiError::Unavailable("store".into())).code(), Code::Unavailable);
        let words = status(ApiError::Words("the index of words failed: gone".into()));
        assert_eq!((words.code(), reason(&words).as_str()), (Code::Internal, "WORDS_FAILED"));
    }
}
