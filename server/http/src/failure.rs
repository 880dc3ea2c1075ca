//! Why a request failed, to be said in the form of the API that was called.

use std::{collections::HashMap, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The field of the request that is at fault.
    pub(crate) field: Option<String>,
    /// The reason in upper case, such as `QUEUE_FULL`.
    pub(crate) reason: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    /// The code over gRPC.
    pub(crate) code: Code,
}

impl Failure {
    /// A failure that only HTTP knows.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let code = match status {
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::FORBIDDEN => Code::PermissionDenied,
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Code::Unimplemented,
            status if status.is_server_error() => Code::Internal,
            _ => Code::InvalidArgument,
        };
        Self { status, message: message.into(), field: None, reason: None, retry_after: None, code }
    }

    /// A failure of the daemon.
    #[expect(clippy::needless_pass_by_value, reason = "it maps errors by its name")]
    pub(crate) fn internal(reason: impl ToString) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason.to_string())
    }

    /// A panic, of which the log has the message.
    pub(crate) fn fault() -> Self {
        Self::internal("the request failed by a fault of the daemon")
    }

    /// A field with an invalid value.
    pub(crate) fn invalid(field: &str, message: impl AsRef<str>) -> Self {
        let message = format!("{field}: {}", message.as_ref());
        Self { field: Some(field.to_owned()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// The reason in upper case, which is the name of the status if there is no other.
    pub(crate) fn refusal_reason(&self) -> String {
        self.reason.clone().unwrap_or_else(|| status_reason(self.status))
    }

    /// The headers of the response: when to try again, and how to sign in.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(retry_after) = self.retry_after {
            let seconds = retry_after.as_secs_f64().ceil().max(1.0);
            headers.insert(header::RETRY_AFTER, number(seconds));
            // Clients of OpenAI wait for this time instead, if it is there.
            let milliseconds = HeaderName::from_static("retry-after-ms");
            headers.insert(milliseconds, number((retry_after.as_secs_f64() * 1e3).ceil()));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        headers
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let mut details = ErrorDetails::new();
        if let Some(reason) = failure.reason {
            details.set_error_info(reason, "accelerd", HashMap::new());
        }
        if failure.retry_after.is_some() {
            details.set_retry_info(failure.retry_after);
        }
        if let Some(field) = failure.field {
            details.add_bad_request_violation(field, failure.message.as_str());
        }
        Self::with_error_details(failure.code, failure.message, details)
    }
}

/// The name of a status in upper case, such as `UNSUPPORTED_MEDIA_TYPE`.
#[must_use]
pub fn status_reason(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("OTHER").to_uppercase().replace(' ', "_")
}

fn number(value: f64) -> HeaderValue {
    HeaderValue::from_str(&format!("{value:.0}")).expect("digits")
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.clone());
        let violation = details.bad_request().and_then(|request| request.field_violations.first());
        Self {
            status: http_status(status.code(), reason.as_deref()),
            message: status.message().to_owned(),
            field: violation.map(|violation| violation.field.clone()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            reason,
            code: status.code(),
        }
    }
}

/// The status of a gRPC code, as `google.rpc.Code` maps it; a message that is too large has a status of its own.
fn http_status(code: Code, reason: Option<&str>) -> StatusCode {
    if matches!(reason, Some("MESSAGE_TOO_LARGE" | "TOO_LARGE")) {
        return StatusCode::PAYLOAD_TOO_LARGE;
    }
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Cancelled => StatusCode::from_u16(499).expect("three digits"),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The name of a gRPC code in JSON.
#[must_use]
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_field_reason_and_delay() {
        let mut details = ErrorDetails::with_error_info("QUEUE_FULL", "accelerd", HashMap::new());
        details.set_retry_info(Some(Duration::from_millis(1500)));
        details.add_bad_request_violation("texts", "too many");
        let status = Status::with_error_details(Code::ResourceExhausted, "the lane is full", details);
        let failure = Failure::from(status);
        assert_eq!(failure.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!((failure.field.as_deref(), failure.reason.as_deref()), (Some("texts"), Some("QUEUE_FULL")));
        let headers = failure.headers();
        assert_eq!((&headers["retry-after"], &headers["retry-after-ms"]), (&number(2.0), &number(1500.0)));
    }

    #[test]
    fn a_missing_token_says_how_to_sign_in() {
        let failure = Failure::from(Status::unauthenticated("no token"));
        assert_eq!(failure.status, StatusCode::UNAUTHORIZED);
        assert_eq!(failure.headers()["www-authenticate"], "Bearer");
        assert!(!failure.headers().contains_key("retry-after"));
    }
}
