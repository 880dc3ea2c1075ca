//! One request over HTTP, as a route sees it: its body, its calls of the gRPC services, and its response.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use accelerd_proto::methods::Rpc;
use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, header, request::Parts};
use prost::Message;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body as GrpcBody;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};
use tower::ServiceExt;

use crate::{
    body::{self, Received},
    caller::{Caller, Held},
    failure::Failure,
    replies::{Replies, request_body, requests_body},
    shared::Shared,
};

/// A body of JSON.
pub(crate) const JSON: &str = "application/json";

/// The health of the daemon.
const CHECK: Rpc<HealthCheckRequest, HealthCheckResponse> = Rpc::new("/grpc.health.v1.Health/Check", true);

/// One request.
pub(crate) struct Exchange {
    pub(crate) shared: Shared,
    pub(crate) caller: Caller,
    pub(crate) parts: Parts,
    /// The lock makes the exchange shareable, and is never taken.
    body: Mutex<Body>,
    /// True once a method was called.
    called: Arc<AtomicBool>,
}

impl Exchange {
    pub(crate) fn new(shared: Shared, request: Request) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let caller = Caller::new(&parts)?;
        Ok(Self { shared, caller, parts, body: Mutex::new(body), called: Arc::default() })
    }

    /// Receives the body.
    pub(crate) async fn receive(&mut self) -> Result<Received, Failure> {
        let body = self.body.get_mut().map(std::mem::take).unwrap_or_default();
        let limit = self.shared.settings.max_body;
        body::receive(&self.parts.headers, body, &*self.caller.account, limit).await
    }

    /// Receives a body of JSON in one of some types, with the memory of its value charged.
    pub(crate) async fn receive_json(&mut self, types: &[&str]) -> Result<Received, Failure> {
        body::expect_type(&self.parts.headers, types)?;
        let mut received = self.receive().await?;
        received.charge_json(&*self.caller.account)?;
        Ok(received)
    }

    /// Receives and decodes a body of JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&mut self) -> Result<(T, Received), Failure> {
        let received = self.receive_json(&[JSON]).await?;
        Ok((received.json()?, received))
    }

    /// Calls a unary method.
    pub(crate) async fn call<Q: Message, R: Message + Default>(
        &self,
        rpc: Rpc<Q, R>,
        request: &Q,
    ) -> Result<R, Failure> {
        self.unary(rpc, request_body(request)?).await
    }

    /// As [`Self::call`], but releases the request, and the memory from which it was decoded, before the service is called.
    pub(crate) async fn call_releasing<Q: Message, R: Message + Default>(
        &self,
        rpc: Rpc<Q, R>,
        request: Q,
        received: impl Send,
    ) -> Result<R, Failure> {
        let body = request_body(&request)?;
        drop((request, received));
        self.unary(rpc, body).await
    }

    async fn unary<Q, R: Message + Default>(&self, rpc: Rpc<Q, R>, body: GrpcBody) -> Result<R, Failure> {
        let message = self.send(rpc.path(), body).await?.only().await?;
        R::decode(message).map_err(Failure::internal)
    }

    /// Returns true if the daemon serves calls.
    pub(crate) async fn is_serving(&self) -> Result<bool, Failure> {
        let response = self.call(CHECK, &HealthCheckRequest::default()).await?;
        Ok(response.status() == ServingStatus::Serving)
    }

    /// Calls a method by its path.
    pub(crate) async fn replies(&self, path: &str, requests: &[impl Message]) -> Result<Replies, Failure> {
        self.send(path, requests_body(requests)?).await
    }

    async fn send(&self, path: &str, body: GrpcBody) -> Result<Replies, Failure> {
        let request = self.caller.request(path, body);
        self.called.store(true, Relaxed);
        let response = self.shared.grpc.clone().oneshot(request).await;
        let response = response.unwrap_or_else(|never| match never {});
        Ok(Replies::new(response)?)
    }

    /// A response of JSON, about as long as expected.
    pub(crate) fn respond(&self, value: &impl Serialize, expected: usize) -> Result<Response, Failure> {
        let text = self.charged(expected, || serde_json::to_vec(value).map_err(Failure::internal))?;
        Ok(response(text, JSON))
    }

    /// A response of bytes.
    pub(crate) fn respond_bytes(&self, data: Vec<u8>, content_type: &'static str) -> Result<Response, Failure> {
        Ok(response(self.charged(0, || Ok(data))?, content_type))
    }

    /// Bytes of a response, which own the charge of their memory: what is expected is charged before they are written, and the rest after.
    pub(crate) fn charged(
        &self,
        expected: usize,
        write: impl FnOnce() -> Result<Vec<u8>, Failure>,
    ) -> Result<Bytes, Failure> {
        let before = self.caller.account.charge_response(expected as u64)?;
        let data = write()?;
        let after = self.caller.account.charge_response(data.len().saturating_sub(expected) as u64)?;
        Ok(Bytes::from_owner(Owned { data, _held: Mutex::new([before, after]) }))
    }
}

fn response(data: Bytes, content_type: &'static str) -> Response {
    let length = data.len();
    let mut response = Response::new(Body::from(data));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}

/// Bytes with the charge of their memory. The lock makes the charge shareable, and is never taken.
struct Owned {
    data: Vec<u8>,
    _held: Mutex<[Held; 2]>,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Says a failure in the form of an API.
pub(crate) type ErrorForm = fn(&Failure) -> serde_json::Value;

/// The reason in upper case of a request that was refused before it called a method: an extension of the response.
#[derive(Clone, Debug)]
pub struct Refused(pub String);

/// The response to a request that was refused before it called a method.
pub(crate) fn refused(form: ErrorForm, failure: &Failure) -> Response {
    let mut response = failed(form, failure);
    response.extensions_mut().insert(Refused(failure.refusal_reason()));
    response
}

/// The response to a request that failed.
fn failed(form: ErrorForm, failure: &Failure) -> Response {
    let text = form(failure).to_string();
    let mut response = (failure.status, failure.headers(), text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// The function of a route.
pub(crate) type Route = fn(Exchange) -> BoxFuture<'static, Result<Response, Failure>>;

/// Serves a request off the reactor. A client that goes away ends it.
pub(crate) async fn serve(form: ErrorForm, route: Route, State(shared): State<Shared>, request: Request) -> Response {
    let offload = shared.offload.clone();
    let exchange = Exchange::new(shared, request);
    let called = exchange.as_ref().ok().map(|exchange| Arc::clone(&exchange.called));
    let run = async move { route(exchange?).await };
    let served = AbortOnDropHandle::new(offload.spawn(run)).await;
    let served = served.unwrap_or_else(|_panic| Err(Failure::fault()));
    let failed = if called.is_some_and(|called| called.load(Relaxed)) { failed } else { refused };
    served.unwrap_or_else(|failure| failed(form, &failure))
}
