//! Maps errors to gRPC statuses with machine-readable details.

use std::{collections::HashMap, time::Duration};

use accelerd_collections::CollectionRefusal;
use accelerd_engine::SubmitError;
use accelerd_kernels::{DeviceId, OpError, ledger::Exceeded};
use accelerd_proto::v1 as pb;
use accelerd_sandbox::{Refusal as SandboxRefusal, SandboxError};
use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{auth::refusal::Refusal, error::ApiError};

mod bounds;

/// The domain of `ErrorInfo` reasons.
const DOMAIN: &str = "accelerd";

/// Retry delay of errors without a better estimate.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let message = error.to_string();
        match error {
            ApiError::Invalid { field, reason } => {
                let details = ErrorDetails::with_bad_request_violation(field, reason);
                bounds::status(Code::InvalidArgument, &message, &details)
            }
            ApiError::NotFound { kind, name } => {
                let details = ErrorDetails::with_resource_info(kind, name, "", "does not exist");
                bounds::status(Code::NotFound, &message, &details)
            }
            ApiError::UnknownTensor(handle) => {
                let details = ErrorDetails::with_resource_info("tensor", handle, "", "does not exist");
                bounds::status(Code::NotFound, &message, &details)
            }
            ApiError::TensorLost { handle, device } => {
                let metadata = HashMap::from([("device".to_owned(), device.to_string())]);
                let mut details = ErrorDetails::with_error_info("DEVICE_LOST", DOMAIN, metadata);
                details.set_resource_info("tensor", handle, "", "was lost with its device");
                bounds::status(Code::NotFound, &message, &details)
            }
            ApiError::AlreadyExists { kind, name } => {
                let details = ErrorDetails::with_resource_info(kind, name, "", "already exists");
                bounds::status(Code::AlreadyExists, &message, &details)
            }
            ApiError::Denied(_) => with_reason(Code::PermissionDenied, message, "NOT_ALLOWED", HashMap::new()),
            ApiError::DataLoss(_) => with_reason(Code::DataLoss, message, "DATA_LOSS", HashMap::new()),
            ApiError::ResponseTooLarge { bytes, limit } | ApiError::OutputsTooLarge { bytes, limit } => {
                too_large(message, bytes as u64, limit as u64)
            }
            ApiError::TranslationTooLarge { limit } => {
                let metadata = [("limit".to_owned(), limit.to_string())];
                with_reason(Code::ResourceExhausted, message, "MESSAGE_TOO_LARGE", metadata.into())
            }
            ApiError::NoMoreKernels { .. } => Self::out_of_range(message),
            ApiError::ThreadPanic(_) => Self::internal(message),
            ApiError::MemoryLimit { refusal, .. } => from_exceeded(&refusal, message),
            ApiError::TransportMemory { .. } => {
                retry(Code::ResourceExhausted, message, "TRANSPORT_MEMORY_FULL", RETRY_AFTER)
            }
            ApiError::ShuttingDown => Self::unavailable(message),
            ApiError::ModelTooLarge { device, requested, free, .. } => {
                let details = out_of_memory(device, requested, free);
                bounds::status(Code::ResourceExhausted, &message, &details)
            }
            ApiError::Exhausted(_) => {
                let mut details = ErrorDetails::with_quota_failure_violation("daemon", message.clone());
                details.set_error_info("EXHAUSTED", DOMAIN, HashMap::new());
                bounds::status(Code::ResourceExhausted, &message, &details)
            }
            ApiError::Unavailable(_) => retry(Code::Unavailable, message, "UNAVAILABLE", RETRY_AFTER),
            ApiError::TokenizerPanic => with_reason(Code::Internal, message, "PANIC", HashMap::new()),
            ApiError::TextIndex(_) => with_reason(Code::Internal, message, "TEXT_INDEX_FAILED", HashMap::new()),
            ApiError::Collection(refusal) => from_collection(refusal, message),
            ApiError::NonFinite { model, item, .. } => {
                let metadata = [("model", model), ("item", item)].map(|(key, value)| (key.to_owned(), value));
                with_reason(Code::FailedPrecondition, message, "NON_FINITE", metadata.into())
            }
            ApiError::SandboxDisabled => {
                with_reason(Code::FailedPrecondition, message, "SANDBOX_DISABLED", HashMap::new())
            }
            ApiError::CudaSourceDisabled => {
                with_reason(Code::FailedPrecondition, message, "CUDA_SOURCE_DISABLED", HashMap::new())
            }
            ApiError::SandboxQueueFull(_) => retry(Code::ResourceExhausted, message, "QUEUE_FULL", RETRY_AFTER),
            ApiError::NoGpu(_) => with_reason(Code::FailedPrecondition, message, "NO_GPU", HashMap::new()),
            ApiError::CaseMemory { asked, limit } => {
                let metadata = [("asked", asked), ("limit", limit.bytes)];
                let metadata = metadata.map(|(key, bytes)| (key.to_owned(), bytes.to_string()));
                with_reason(Code::ResourceExhausted, message, "SANDBOX_OUT_OF_MEMORY", metadata.into())
            }
            ApiError::Sandbox(error) => from_sandbox(&error, message),
            ApiError::Refused(refusal) => refused(&refusal),
            ApiError::Shard { error, .. } => {
                let status = Self::from(*error);
                bounds::status(status.code(), &message, &status.get_error_details())
            }
            ApiError::Submit(error) => from_submit(error, message),
        }
    }
}

fn from_collection(refusal: CollectionRefusal, message: String) -> Status {
    let (reason, metadata) = match refusal {
        CollectionRefusal::ModelChanged { collection, model, stored, loaded } => {
            let digests = [("stored_digest", stored), ("loaded_digest", loaded)];
            ("MODEL_CHANGED", [vec![("collection", collection), ("model", model)], digests.into()].concat())
        }
        CollectionRefusal::ReadOnly { collection, damage } => {
            ("COLLECTION_READ_ONLY", vec![("collection", collection), ("damage", damage)])
        }
    };
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    with_reason(Code::FailedPrecondition, message, reason, metadata)
}

fn from_submit(error: SubmitError, message: String) -> Status {
    match error {
        SubmitError::Full { retry_after, .. } => retry(Code::ResourceExhausted, message, "QUEUE_FULL", retry_after),
        SubmitError::MemoryLimit(refusal) => from_exceeded(&refusal, message),
        SubmitError::WouldMissDeadline { estimated, left, retry_after } => {
            let metadata =
                [("estimated_ms", estimated.as_millis().to_string()), ("left_ms", left.as_millis().to_string())];
            let metadata: HashMap<_, _> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
            let mut details = ErrorDetails::with_error_info("WOULD_MISS_DEADLINE", DOMAIN, metadata);
            if retry_after.is_some() {
                details.set_retry_info(retry_after);
            }
            bounds::status(Code::ResourceExhausted, &message, &details)
        }
        SubmitError::TooLarge { measure, asked, limit } => {
            let metadata =
                [("measure", measure.to_owned()), ("asked", asked.to_string()), ("limit", limit.to_string())];
            let metadata: HashMap<_, _> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
            let mut details = ErrorDetails::with_bad_request_violation("request", message.clone());
            details.set_error_info("TOO_LARGE", DOMAIN, metadata);
            bounds::status(Code::InvalidArgument, &message, &details)
        }
        SubmitError::Draining => {
            let mut details = ErrorDetails::with_error_info("DRAINING", DOMAIN, HashMap::new());
            details.set_retry_info(Some(RETRY_AFTER));
            details.add_precondition_failure_violation("DRAINING", "daemon", "the daemon accepts no new work");
            bounds::status(Code::Unavailable, &message, &details)
        }
        SubmitError::DeadlineExceeded { waited } => {
            let metadata = HashMap::from([("waited_ms".to_owned(), waited.as_millis().to_string())]);
            with_reason(Code::DeadlineExceeded, message, "DEADLINE_IN_QUEUE", metadata)
        }
        SubmitError::Op(error) => from_op(&error, message),
    }
}

fn from_op(error: &OpError, message: String) -> Status {
    match error {
        OpError::OutOfMemory { device, requested, free } => {
            let mut details = out_of_memory(*device, *requested, *free);
            details.set_retry_info(Some(RETRY_AFTER));
            bounds::status(Code::ResourceExhausted, &message, &details)
        }
        OpError::MemoryLimit(refusal) => from_exceeded(refusal, message),
        OpError::Invalid(reason) => {
            let details = ErrorDetails::with_bad_request_violation("request", reason);
            bounds::status(Code::InvalidArgument, &message, &details)
        }
        // The caller's name of the node is better, where it is known.
        OpError::IndexOutOfRange { node, input, reason } => {
            let details = ErrorDetails::with_bad_request_violation(format!("nodes[{node}].inputs[{input}]"), reason);
            bounds::status(Code::InvalidArgument, &message, &details)
        }
        OpError::Failed { device, kernel, .. } => {
            let metadata = [("device", device.to_string()), ("kernel", (*kernel).to_owned())];
            let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
            with_reason(Code::Internal, message, "KERNEL_FAILED", metadata)
        }
        OpError::DeviceLost { device, .. } => {
            let metadata = HashMap::from([("device".to_owned(), device.to_string())]);
            let mut details = ErrorDetails::with_error_info("DEVICE_LOST", DOMAIN, metadata);
            details.set_retry_info(Some(RETRY_AFTER));
            bounds::status(Code::Unavailable, &message, &details)
        }
        OpError::Cancelled => Status::cancelled(bounds::message(&message)),
    }
}

fn from_sandbox(error: &SandboxError, message: String) -> Status {
    match error {
        SandboxError::Refused(SandboxRefusal::NoCompiler(_)) => {
            with_reason(Code::FailedPrecondition, message, "NO_CUDA_COMPILER", HashMap::new())
        }
        SandboxError::Refused(_) => {
            let details = ErrorDetails::with_bad_request_violation("request", message.clone());
            bounds::status(Code::InvalidArgument, &message, &details)
        }
        SandboxError::Timeout { .. } => with_reason(Code::DeadlineExceeded, message, "DEADLINE", HashMap::new()),
        SandboxError::Canceled => Status::cancelled(bounds::message(&message)),
        SandboxError::Busy => retry(Code::ResourceExhausted, message, "SANDBOX_BUSY", RETRY_AFTER),
        SandboxError::Preempted(_) => retry(Code::ResourceExhausted, message, "SANDBOX_PREEMPTED", RETRY_AFTER),
        SandboxError::OutOfMemory(_) => {
            with_reason(Code::ResourceExhausted, message, "SANDBOX_OUT_OF_MEMORY", HashMap::new())
        }
        SandboxError::Start(_) => retry(Code::Unavailable, message, "SANDBOX_NOT_STARTED", RETRY_AFTER),
        // Another try would end another process.
        SandboxError::Crashed { .. } | SandboxError::Protocol(_) => {
            with_reason(Code::Internal, message, "SANDBOX_CRASHED", HashMap::new())
        }
    }
}

/// The figures of an allocation that failed.
fn out_of_memory(device: DeviceId, requested: u64, free: u64) -> ErrorDetails {
    let (requested, free) = (requested.to_string(), free.to_string());
    let metadata = [("device", device.to_string()), ("requested_bytes", requested), ("free_bytes", free)];
    let metadata: HashMap<_, _> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
    ErrorDetails::with_error_info("OUT_OF_MEMORY", DOMAIN, metadata)
}

/// The caller may not do this.
pub(crate) fn refused(refusal: &Refusal) -> Status {
    let message = refusal.to_string();
    let reason = refusal.reason();
    match refusal {
        Refusal::NoCredentials | Refusal::WrongCredentials(_) => {
            with_reason(Code::Unauthenticated, message, reason, HashMap::new())
        }
        Refusal::Role { needed, got } => {
            let metadata = [("needed".to_owned(), needed.to_string()), ("got".to_owned(), got.to_string())];
            with_reason(Code::PermissionDenied, message, reason, metadata.into())
        }
        Refusal::Name { kind, name } => {
            let metadata = HashMap::from([((*kind).to_owned(), name.clone())]);
            with_reason(Code::PermissionDenied, message, reason, metadata)
        }
        Refusal::Rate { .. }
        | Refusal::BytesInFlight { .. }
        | Refusal::ResidentBytes { .. }
        | Refusal::TensorCount { .. } => {
            let mut details = ErrorDetails::with_quota_failure_violation("principal", message.clone());
            details.set_error_info(reason, DOMAIN, HashMap::new());
            if let Some(retry_after) = refusal.retry_after() {
                details.set_retry_info(Some(retry_after));
            }
            bounds::status(Code::ResourceExhausted, &message, &details)
        }
    }
}

/// The figures of a limit: what was asked for, what the limit is, and what each kind holds. Memory of calls is free again
/// soon, memory of data is not.
#[expect(clippy::needless_pass_by_value, reason = "callers hand over a text that they made")]
fn from_exceeded(refusal: &Exceeded, message: String) -> Status {
    let Exceeded { place, kind, asked, held, limit, setting, .. } = refusal;
    let mut metadata = HashMap::from([
        ("place".to_owned(), place.to_string()),
        ("kind".to_owned(), kind.to_string()),
        ("setting".to_owned(), (*setting).to_owned()),
        ("asked_bytes".to_owned(), asked.to_string()),
        ("held_bytes".to_owned(), held.to_string()),
        ("limit_bytes".to_owned(), limit.to_string()),
    ]);
    metadata.extend(refusal.by_kind.iter().map(|(kind, held)| (format!("held_{kind}_bytes"), held.to_string())));
    let mut details = ErrorDetails::with_error_info("MEMORY_LIMIT", DOMAIN, metadata);
    if refusal.is_transient() {
        details.set_retry_info(Some(RETRY_AFTER));
    } else {
        details.add_quota_failure_violation("daemon", message.clone());
    }
    bounds::status(Code::ResourceExhausted, &message, &details)
}

/// The client neither sends the rest of a message nor receives the response.
pub(crate) fn stalled() -> Status {
    let message = "the call stalled: the client stopped sending the request or receiving the response".to_owned();
    retry(Code::ResourceExhausted, message, "STALLED", RETRY_AFTER)
}

/// The metadata exceeds the configured limit.
pub(crate) fn metadata_too_large(asked: usize, limit: usize) -> Status {
    let message = format!("the metadata has {asked} bytes, expected at most {limit}");
    let metadata = [("asked".to_owned(), asked.to_string()), ("limit".to_owned(), limit.to_string())];
    with_reason(Code::ResourceExhausted, message, "METADATA_TOO_LARGE", metadata.into())
}

/// A request message exceeds the configured limit.
pub(crate) fn message_too_large(asked: u64, limit: u64) -> Status {
    too_large(format!("the request message has {asked} bytes, expected at most {limit}"), asked, limit)
}

/// A status within the bounds.
pub(crate) fn bounded(status: &Status) -> Status {
    bounds::status(status.code(), status.message(), &status.get_error_details())
}

/// The bytes of a request are not one message of the method.
pub(crate) fn malformed_message(reason: &str) -> Status {
    let mut details = ErrorDetails::with_bad_request_violation("request", reason);
    details.set_error_info("MALFORMED_MESSAGE", DOMAIN, HashMap::new());
    bounds::status(Code::InvalidArgument, &format!("malformed request message: {reason}"), &details)
}

/// A response would exceed the maximum message size.
pub(crate) fn response_too_large(bytes: usize, limit: usize) -> Status {
    ApiError::OutputsTooLarge { bytes, limit }.into()
}

fn too_large(message: String, asked: u64, limit: u64) -> Status {
    let metadata = [("asked".to_owned(), asked.to_string()), ("limit".to_owned(), limit.to_string())];
    with_reason(Code::ResourceExhausted, message, "MESSAGE_TOO_LARGE", metadata.into())
}

/// The error of one item of a stream.
pub(crate) fn item_error(status: &Status) -> pb::ItemError {
    pb::ItemError { code: status.code().into(), message: bounds::message(status.message()) }
}

/// A message that travels in a response, within the bound of those of statuses.
pub(crate) fn bounded_message(text: &str) -> String {
    bounds::message(text)
}

/// Cuts the status in headers or trailers, which need not be this module's: that of a library, or of a service such as health.
pub(crate) fn bound_trailers(trailers: &mut HeaderMap) {
    const PARTS: [&str; 2] = ["grpc-message", "grpc-status-details-bin"];
    let bytes: usize = PARTS.iter().filter_map(|name| trailers.get(*name)).map(http::HeaderValue::len).sum();
    if bytes <= bounds::MAX_STATUS_BYTES {
        return;
    }
    if let Some(status) = Status::from_header_map(trailers) {
        for name in PARTS {
            trailers.remove(name);
        }
        let bounded = bounds::status(status.code(), status.message(), &status.get_error_details());
        // The message and the details are valid header values: they are encoded.
        let _encoded = bounded.add_header(trailers);
    }
}

/// The daemon accepts no new work.
pub(crate) fn draining() -> Status {
    ApiError::Submit(SubmitError::Draining).into()
}

/// The call's deadline has passed.
pub(crate) fn deadline_exceeded() -> Status {
    with_reason(Code::DeadlineExceeded, "the deadline passed".to_owned(), "DEADLINE", HashMap::new())
}

/// No service has the method.
pub(crate) fn unknown_method(path: &str) -> Status {
    let message = format!("there is no method {path:?}; reflection and the proto files list the methods");
    with_reason(Code::Unimplemented, message, "UNKNOWN_METHOD", HashMap::new())
}

/// A handler panicked. The panic message is only logged.
pub(crate) fn panicked() -> Status {
    let message = "internal error; see the daemon's log".to_owned();
    with_reason(Code::Internal, message, "PANIC", HashMap::new())
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over a text that they made")]
fn with_reason(code: Code, message: String, reason: &str, metadata: HashMap<String, String>) -> Status {
    bounds::status(code, &message, &ErrorDetails::with_error_info(reason, DOMAIN, metadata))
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over a text that they made")]
fn retry(code: Code, message: String, reason: &str, after: Duration) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    details.set_retry_info(Some(after));
    bounds::status(code, &message, &details)
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::{
        DeviceId, LossScope,
        ledger::{Kind, Place},
    };

    use super::*;
    use crate::auth::role::Role;

    fn status(error: impl Into<ApiError>) -> Status {
        Status::from(error.into())
    }

    fn reason(status: &Status) -> String {
        status.get_details_error_info().expect("error info").reason
    }

    #[test]
    fn an_invalid_field_is_named() {
        let status = status(ApiError::invalid("queries.shape", "expected 2 extents, got 3"));
        assert_eq!(status.code(), Code::InvalidArgument);
        let violations = status.get_details_bad_request().expect("bad request").field_violations;
        assert_eq!(violations[0].field, "queries.shape");
        assert_eq!(violations[0].description, "expected 2 extents, got 3");
    }

    #[test]
    fn a_response_that_no_message_holds_has_its_figures() {
        let outputs = status(ApiError::OutputsTooLarge { bytes: 7, limit: 5 });
        let expected = "the response needs 7 bytes, the maximum is 5: request fewer outputs, or send less in a call";
        assert_eq!((outputs.code(), outputs.message()), (Code::ResourceExhausted, expected));
        let metadata = outputs.get_details_error_info().expect("error info").metadata;
        assert_eq!((metadata["asked"].as_str(), metadata["limit"].as_str()), ("7", "5"));
        let files = status(ApiError::TranslationTooLarge { limit: 5 });
        let expected = "the files have more than 5 bytes, the maximum: request fewer kernels or targets";
        assert_eq!((files.code(), files.message()), (Code::ResourceExhausted, expected));
        assert_eq!([reason(&outputs), reason(&files)], ["MESSAGE_TOO_LARGE"; 2]);
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
    fn a_tensor_that_was_lost_with_its_device_is_not_found_for_that_reason() {
        let unknown = status(ApiError::UnknownTensor("ab".into()));
        assert_eq!((unknown.code(), unknown.get_details_error_info().is_none()), (Code::NotFound, true));
        let lost = status(ApiError::TensorLost { handle: "ab".into(), device: DeviceId::Cuda(1) });
        assert_eq!((lost.code(), reason(&lost).as_str()), (Code::NotFound, "DEVICE_LOST"));
        for status in [unknown, lost] {
            let info = status.get_details_resource_info().expect("resource info");
            assert_eq!((info.resource_type.as_str(), info.resource_name.as_str()), ("tensor", "ab"));
        }
    }

    #[test]
    fn a_full_queue_has_a_retry_delay() {
        let retry_after = Duration::from_millis(7);
        let full = SubmitError::Full { measure: "items", held: 9, limit: 10, asked: 2, retry_after };
        let status = status(full);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.get_details_retry_info().expect("retry info").retry_delay, Some(retry_after));
    }

    #[test]
    fn a_memory_limit_has_its_figures_and_a_retry_delay_only_for_calls() {
        let exceeded = |kind| Exceeded {
            place: Place::Host,
            kind,
            asked: 5,
            held: 97,
            limit: 100,
            setting: "memory.host_limit",
            is_cap: false,
            by_kind: vec![(Kind::Collections, 90), (Kind::Models, 7)],
        };
        let call = status(SubmitError::MemoryLimit(Box::new(exceeded(Kind::Requests))));
        assert!(call.get_details_retry_info().is_some() && call.get_details_quota_failure().is_none());
        let data = status(exceeded(Kind::Collections));
        assert!(data.get_details_retry_info().is_none() && data.get_details_quota_failure().is_some());
        assert_eq!((data.code(), reason(&data).as_str()), (Code::ResourceExhausted, "MEMORY_LIMIT"));
        let figures = data.get_details_error_info().expect("error info").metadata;
        for (key, value) in [
            ("place", "host"),
            ("kind", "collections"),
            ("setting", "memory.host_limit"),
            ("asked_bytes", "5"),
            ("held_bytes", "97"),
            ("limit_bytes", "100"),
            ("held_collections_bytes", "90"),
            ("held_models_bytes", "7"),
        ] {
            assert_eq!(figures[key], value, "{key}");
        }
    }

    #[test]
    fn a_request_that_would_miss_its_deadline_has_a_retry_delay_and_the_estimate() {
        let estimated = Duration::from_millis(900);
        let left = Duration::from_millis(200);
        let retry_after = Duration::from_millis(700);
        let refused = |retry_after| status(SubmitError::WouldMissDeadline { estimated, left, retry_after });
        let busy = refused(Some(retry_after));
        assert_eq!((busy.code(), reason(&busy).as_str()), (Code::ResourceExhausted, "WOULD_MISS_DEADLINE"));
        assert_eq!(busy.get_details_retry_info().expect("retry info").retry_delay, Some(retry_after));
        assert_eq!(busy.get_details_error_info().expect("error info").metadata["estimated_ms"], "900");
        let too_long = refused(None);
        assert_eq!((too_long.code(), reason(&too_long).as_str()), (Code::ResourceExhausted, "WOULD_MISS_DEADLINE"));
        assert!(too_long.get_details_retry_info().is_none(), "a retry would take as long");
        assert!(too_long.message().contains("a longer deadline"), "{}", too_long.message());
    }

    #[test]
    fn a_request_above_the_limit_is_invalid_and_names_it() {
        let status = status(SubmitError::TooLarge { measure: "bytes", asked: 9, limit: 4 });
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.get_details_error_info().expect("error info").metadata["limit"], "4");
    }

    #[test]
    fn draining_and_a_lost_device_are_unavailable() {
        let draining = status(SubmitError::Draining);
        assert_eq!((draining.code(), reason(&draining).as_str()), (Code::Unavailable, "DRAINING"));
        assert!(draining.get_details_precondition_failure().is_some());
        let lost = OpError::DeviceLost {
            device: DeviceId::Cuda(1),
            scope: LossScope::Device,
            reason: "illegal address".into(),
        };
        let lost = status(SubmitError::Op(lost));
        assert_eq!((lost.code(), reason(&lost).as_str()), (Code::Unavailable, "DEVICE_LOST"));
    }

    #[test]
    fn refusals_map_to_codes_with_reasons() {
        let missing = status(Refusal::NoCredentials);
        assert_eq!((missing.code(), reason(&missing).as_str()), (Code::Unauthenticated, "NO_CREDENTIALS"));
        let wrong = status(Refusal::WrongCredentials("no"));
        assert_eq!((wrong.code(), reason(&wrong).as_str()), (Code::Unauthenticated, "WRONG_CREDENTIALS"));
        let role = status(Refusal::Role { needed: Role::Admin, got: Role::Read });
        assert_eq!((role.code(), reason(&role).as_str()), (Code::PermissionDenied, "ROLE_TOO_LOW"));
        assert_eq!(role.get_details_error_info().expect("error info").metadata["needed"], "admin");
        let name = status(Refusal::Name { kind: "collection", name: "code".into() });
        assert_eq!((name.code(), reason(&name).as_str()), (Code::PermissionDenied, "COLLECTION_NOT_ALLOWED"));
        assert_eq!(name.get_details_error_info().expect("error info").metadata["collection"], "code");
        let retry_after = Duration::from_millis(7);
        let rate = status(Refusal::Rate { per_second: "3".into(), retry_after });
        assert_eq!((rate.code(), reason(&rate).as_str()), (Code::ResourceExhausted, "RATE_EXCEEDED"));
        assert_eq!(rate.get_details_retry_info().expect("retry info").retry_delay, Some(retry_after));
        assert_eq!(rate.get_details_quota_failure().expect("quota failure").violations[0].subject, "principal");
        let full = status(Refusal::BytesInFlight { used: 9, limit: 10, asked: 2 });
        assert!(full.get_details_retry_info().is_some());
        let never = status(Refusal::BytesInFlight { used: 0, limit: 10, asked: 11 });
        assert_eq!(never.code(), Code::ResourceExhausted);
        assert!(never.get_details_retry_info().is_none(), "a retry cannot succeed");
    }

    #[test]
    fn only_a_call_that_may_fit_later_is_to_be_tried_again() {
        let device = DeviceId::Cuda(0);
        let call = status(SubmitError::Op(OpError::OutOfMemory { device, requested: 5, free: 3 }));
        let model =
            status(ApiError::ModelTooLarge { message: "it does not fit".into(), device, requested: 5, free: 3 });
        for status in [&call, &model] {
            assert_eq!((status.code(), reason(status).as_str()), (Code::ResourceExhausted, "OUT_OF_MEMORY"));
            let info = status.get_details_error_info().expect("it has figures");
            assert_eq!((&*info.metadata["requested_bytes"], &*info.metadata["free_bytes"]), ("5", "3"));
        }
        assert!(call.get_details_retry_info().is_some());
        assert!(model.get_details_retry_info().is_none(), "a retry cannot succeed");
    }

    #[test]
    fn errors_of_the_sandbox_have_reasons() {
        let limit = accelerd_kernels::ledger::Limit { bytes: 4, setting: "sandbox.case_memory" };
        let no_compiler = SandboxError::Refused(SandboxRefusal::NoCompiler("none".into()));
        let crashed = SandboxError::Crashed { signal: Some(9), code: None, stderr: String::new() };
        let cases = [
            (ApiError::SandboxDisabled, Code::FailedPrecondition, "SANDBOX_DISABLED", false),
            (ApiError::CudaSourceDisabled, Code::FailedPrecondition, "CUDA_SOURCE_DISABLED", false),
            (ApiError::SandboxQueueFull(3), Code::ResourceExhausted, "QUEUE_FULL", true),
            (ApiError::NoGpu("none".into()), Code::FailedPrecondition, "NO_GPU", false),
            (no_compiler.into(), Code::FailedPrecondition, "NO_CUDA_COMPILER", false),
            (ApiError::CaseMemory { asked: 9, limit }, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY", false),
            (crashed.into(), Code::Internal, "SANDBOX_CRASHED", false),
            (SandboxError::Protocol("no".into()).into(), Code::Internal, "SANDBOX_CRASHED", false),
            (SandboxError::Start("no".into()).into(), Code::Unavailable, "SANDBOX_NOT_STARTED", true),
            (SandboxError::Busy.into(), Code::ResourceExhausted, "SANDBOX_BUSY", true),
            (SandboxError::Preempted(Duration::ZERO).into(), Code::ResourceExhausted, "SANDBOX_PREEMPTED", true),
            (SandboxError::OutOfMemory(String::new()).into(), Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY", false),
            (SandboxError::Timeout { killed: true }.into(), Code::DeadlineExceeded, "DEADLINE", false),
        ];
        for (error, code, expected, is_retried) in cases {
            let status = status(error);
            assert_eq!((status.code(), reason(&status).as_str()), (code, expected));
            assert_eq!(status.get_details_retry_info().is_some(), is_retried, "{expected}");
        }
        let refused = || ApiError::from(SandboxError::Refused(accelerd_sandbox::Refusal::NoMemory));
        for (error, field) in [(refused(), "request"), (refused().refused_in("module"), "module")] {
            let violations = status(error).get_details_bad_request().expect("bad request").field_violations;
            assert_eq!(violations[0].field, field);
        }
    }

    #[test]
    fn other_errors_map_to_their_codes() {
        let op = |error| status(SubmitError::Op(error)).code();
        assert_eq!(op(OpError::Invalid("no".into())), Code::InvalidArgument);
        let index = status(SubmitError::Op(OpError::IndexOutOfRange { node: 3, input: 1, reason: "no".into() }));
        let violations = index.get_details_bad_request().expect("bad request").field_violations;
        assert_eq!((index.code(), violations[0].field.as_str()), (Code::InvalidArgument, "nodes[3].inputs[1]"));
        let failed = OpError::Failed { device: DeviceId::Cpu, kernel: "k", reason: "r".into() };
        assert_eq!(op(failed), Code::Internal);
        let late = SubmitError::DeadlineExceeded { waited: Duration::from_millis(1) };
        assert_eq!(status(late).code(), Code::DeadlineExceeded);
        assert_eq!(status(ApiError::DataLoss("checksum".into())).code(), Code::DataLoss);
        let disk = status(ApiError::Exhausted("disk".into()));
        assert_eq!((disk.code(), reason(&disk).as_str()), (Code::ResourceExhausted, "EXHAUSTED"));
        assert_eq!(status(ApiError::Unavailable("store".into())).code(), Code::Unavailable);
        let panic = status(ApiError::TokenizerPanic);
        assert_eq!((panic.code(), reason(&panic).as_str()), (Code::Internal, "PANIC"));
        let words = status(ApiError::TextIndex("the text index failed: gone".into()));
        assert_eq!((words.code(), reason(&words).as_str()), (Code::Internal, "TEXT_INDEX_FAILED"));
    }
}
