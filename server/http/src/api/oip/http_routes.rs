//! The protocol over HTTP.

use axum::response::Response;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::{
    http_request,
    http_response::{BINARY, HEADER_LENGTH, respond},
    infer,
    metadata::{EXTENSIONS, NAME},
    models,
};
use crate::{
    api::models as loaded,
    body::expect_type,
    exchange::{Exchange, JSON},
    failure::Failure,
};

const MODELS: &str = "/v2/models/";

/// A failure in the protocol's form.
pub(crate) fn error(failure: &Failure) -> Value {
    json!({ "error": failure.message })
}

/// `GET /v2/health/live`.
pub(crate) fn live(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move { exchange.respond_bytes(vec![], JSON) }.boxed()
}

/// `GET /v2/health/ready`.
pub(crate) fn ready(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        if exchange.is_serving().await? {
            return exchange.respond_bytes(vec![], JSON);
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is not serving"))
    }
    .boxed()
}

/// `GET /v2`. Callers without rights are refused.
pub(crate) fn server(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        loaded::list(&exchange).await?;
        exchange.respond(&json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION"), "extensions": EXTENSIONS }), 0)
    }
    .boxed()
}

/// `POST /v2/repository/index`.
pub(crate) fn index(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move { exchange.respond(&models::index(&exchange).await?, 0) }.boxed()
}

/// `GET` of a model or its readiness.
pub(crate) fn model(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let ModelPath { name, version, action } = ModelPath::of(exchange.parts.uri.path())?;
        let found = models::describe(&exchange, &name, &version).await?;
        if action == Action::Ready { exchange.respond_bytes(vec![], JSON) } else { exchange.respond(&found, 0) }
    }
    .boxed()
}

/// `POST` of a request to infer.
pub(crate) fn infer(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let path = ModelPath::of(exchange.parts.uri.path())?;
        if path.action != Action::Infer {
            let message = format!("no such path: {}; see docs/oip.md", exchange.parts.uri.path());
            return Err(Failure::new(StatusCode::NOT_FOUND, message));
        }
        expect_type(&exchange.parts.headers, &[JSON, BINARY])?;
        let mut received = exchange.receive().await?;
        let header_length = header_length(&exchange.parts.headers, received.bytes.len())?;
        received.charge_json_of(header_length, &*exchange.caller.account)?;
        let (request, binary) = http_request::decode(&received.bytes, header_length, path.name, path.version)?;
        let response = infer::infer(&exchange, request, received).await?;
        respond(&exchange, &response, &binary)
    }
    .boxed()
}

/// The length of the JSON of a body: the whole body, unless a header says less.
fn header_length(headers: &HeaderMap, body: usize) -> Result<usize, Failure> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(body) };
    let length = value.to_str().ok().and_then(|text| text.parse::<usize>().ok()).filter(|length| *length <= body);
    length.ok_or_else(|| {
        let message = format!("expected a number of at most {body}, the bytes of the body, got {value:?}");
        Failure::invalid("inference-header-content-length", message)
    })
}

/// The request of a path of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Describe,
    Ready,
    Infer,
}

/// The path of a model. Slashes of names may be encoded or not: `tritonclient` does not encode them.
#[derive(Debug, PartialEq, Eq)]
struct ModelPath {
    name: String,
    /// Empty for the newest.
    version: String,
    action: Action,
}

impl ModelPath {
    fn of(path: &str) -> Result<Self, Failure> {
        let rest = path.strip_prefix(MODELS).unwrap_or_default();
        let (rest, action) = match rest.rsplit_once('/') {
            Some((rest, "ready")) => (rest, Action::Ready),
            Some((rest, "infer")) => (rest, Action::Infer),
            _ => (rest, Action::Describe),
        };
        let versioned =
            rest.rsplit_once('/').and_then(|(rest, version)| Some((rest.strip_suffix("/versions")?, version)));
        let (name, version) = versioned.unwrap_or((rest, ""));
        Ok(Self { name: decoded(name)?, version: decoded(version)?, action })
    }
}

/// The text of a part of a path.
fn decoded(text: &str) -> Result<String, Failure> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|error| Failure::invalid("the path", error.to_string()))?.into_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn names_may_have_slashes_and_versions() {
        let path = |path: &str| {
            let ModelPath { name, version, action } = ModelPath::of(path).expect(path);
            (name, version, action)
        };
        let of = |name: &str, version: &str, action| (name.to_owned(), version.to_owned(), action);
        assert_eq!(path("/v2/models/m"), of("m", "", Action::Describe));
        assert_eq!(path("/v2/models/m/ready"), of("m", "", Action::Ready));
        assert_eq!(path("/v2/models/m/versions/3/infer"), of("m", "3", Action::Infer));
        assert_eq!(path("/v2/models/BAAI/bge/versions/1"), of("BAAI/bge", "1", Action::Describe));
        assert_eq!(path("/v2/models/BAAI%2Fbge/infer"), of("BAAI/bge", "", Action::Infer));
        assert_eq!(path("/v2/models/a%2Fready"), of("a/ready", "", Action::Describe));
        ModelPath::of("/v2/models/%ff").expect_err("not UTF-8");
    }

    #[test]
    fn a_header_that_is_no_length_within_the_body_is_refused() {
        let length = |value: &str| {
            let headers = HeaderMap::from_iter([(HEADER_LENGTH, HeaderValue::from_str(value).expect("a value"))]);
            header_length(&headers, 10)
        };
        assert_eq!(header_length(&HeaderMap::new(), 10).expect("the whole body"), 10);
        assert_eq!((length("0").expect("none"), length("10").expect("all")), (0, 10));
        for wrong in ["-1", "11", "18446744073709551616", "", "1.0", "x", " "] {
            let refusal = length(wrong).expect_err(wrong);
            assert!(refusal.message.contains("at most 10"), "{}", refusal.message);
        }
    }
}
