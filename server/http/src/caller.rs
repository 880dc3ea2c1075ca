//! The caller of a request, as the gRPC services are told of it: credentials, deadline, and account of memory.

use std::{any::Any, sync::Arc, time::Duration};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION, request::Parts};
use tokio::time::Instant;
use tonic::Status;

use crate::failure::Failure;

/// Something that is held until it is dropped, such as charged memory.
pub type Held = Box<dyn Any + Send>;

/// The account of a request at the transport: its memory, and whether its client makes progress. The transport puts it into
/// the extensions of the request as `Arc<dyn Account>`.
pub trait Account: Send + Sync {
    /// Charges bytes of the request until the returned value is dropped.
    fn charge(&self, bytes: u64) -> Result<Held, Status>;

    /// Charges bytes of the response until the returned value is dropped.
    fn charge_response(&self, bytes: u64) -> Result<Held, Status>;

    /// Waits for the rest of the request until the returned value is dropped. A client that sends nothing meanwhile stalls.
    fn waits_for_request(&self) -> Held;

    /// Records bytes of the request that arrived.
    fn received(&self, bytes: usize);
}

/// The timeout of a request: a number of seconds, or a number with one of the units `ms`, `s`, `m` and `h`.
const TIMEOUT: HeaderName = HeaderName::from_static("accelerd-timeout");

/// The headers that the services read.
const FORWARDED: [HeaderName; 5] = [
    AUTHORIZATION,
    HeaderName::from_static("accelerd-priority"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// Longer timeouts count as none.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The caller of a request.
#[derive(Clone)]
pub(crate) struct Caller {
    headers: HeaderMap,
    extensions: Extensions,
    deadline: Option<Instant>,
    pub(crate) account: Arc<dyn Account>,
}

impl Caller {
    pub(crate) fn new(parts: &Parts) -> Result<Self, Failure> {
        let account = parts.extensions.get::<Arc<dyn Account>>().cloned();
        let account = account.expect("the transport gives each request an account");
        let mut headers = HeaderMap::new();
        for name in FORWARDED {
            for value in parts.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let timeout = parts.headers.get(TIMEOUT).map(timeout).transpose()?;
        let deadline = timeout.filter(|timeout| *timeout < MAX_TIMEOUT).map(|timeout| Instant::now() + timeout);
        Ok(Self { headers, extensions: parts.extensions.clone(), deadline, account })
    }

    /// A gRPC request of this caller.
    pub(crate) fn request<B>(&self, path: &str, body: B) -> http::Request<B> {
        let mut request = http::Request::new(body);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = path.parse().expect("the path of a method is a URI");
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            // At most eight digits.
            let value = if left < 100_000_000 { format!("{left}m") } else { format!("{}S", left / 1000) };
            request.headers_mut().insert("grpc-timeout", value.parse().expect("digits and a unit"));
        }
        request
    }
}

/// The value of [`TIMEOUT`].
fn timeout(value: &HeaderValue) -> Result<Duration, Failure> {
    let parsed = value.to_str().ok().and_then(parse_timeout);
    parsed.ok_or_else(|| {
        let expected = "expected a number of seconds, or a number with one of the units ms, s, m and h";
        Failure::invalid(TIMEOUT.as_str(), format!("{expected}, got {value:?}"))
    })
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok().filter(|number| *number >= 0.0)? * unit;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_a_unit_or_are_seconds() {
        let parsed = |text: &str| parse_timeout(text).map(|timeout| timeout.as_millis());
        assert_eq!(parsed("1.5"), Some(1500));
        assert_eq!(parsed(" 250ms "), Some(250));
        assert_eq!(parsed("2m"), Some(120_000));
        assert_eq!(parsed("1h"), Some(3_600_000));
        assert_eq!(parse_timeout("1e300"), Some(MAX_TIMEOUT));
        for malformed in ["", "s", "-1", "1d", "1 s", "ms", "NaN", "1,5"] {
            assert_eq!(parsed(malformed), None, "{malformed}");
        }
    }
}
