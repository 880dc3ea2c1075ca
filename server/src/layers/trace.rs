//! Records a span, a duration and a status code for every call; the span's parent is the client's W3C trace context.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use accelerd_http::code_name;
use accelerd_proto::methods::Method;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use pin_project_lite::pin_project;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Level, Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::telemetry::Metrics;

/// The target of request spans: logged from level `debug` on, always traced.
pub const TARGET: &str = "accelerd::request";

/// Metric label of unknown methods: client input must not increase the cardinality of metrics.
const UNKNOWN: &str = "unknown";

/// The label of a method that is not of this daemon's protocol, by its path: of the health service.
pub(crate) type OtherLabel = fn(&str) -> Option<&'static str>;

/// The label of a method by its path.
fn label(path: &str, other: OtherLabel) -> &'static str {
    match Method::of_path(path) {
        Some(method) => &method.path[1..],
        None => other(path).unwrap_or(UNKNOWN),
    }
}

/// The method in OpenTelemetry's semantic conventions, where unknown methods are `_OTHER`.
fn rpc_method(method: &'static str) -> &'static str {
    if method == UNKNOWN { "_OTHER" } else { method }
}

/// Returns true if a code is an error of the server, by OpenTelemetry's semantic conventions for gRPC.
fn is_server_error(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// The service of a method's label.
fn service(method: &'static str) -> &'static str {
    method.split_once('/').map_or("", |(service, _)| service)
}

/// Records spans and metrics of calls.
#[derive(Clone, Debug)]
pub struct TraceLayer {
    metrics: Arc<Metrics>,
    other_label: OtherLabel,
}

impl TraceLayer {
    pub(crate) fn new(metrics: Arc<Metrics>, other_label: OtherLabel) -> Self {
        Self { metrics, other_label }
    }
}

/// See [`TraceLayer`].
#[derive(Clone, Debug)]
pub struct TraceService<S> {
    inner: S,
    layer: TraceLayer,
}

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TraceService { inner, layer: self.clone() }
    }
}

impl<S, A, B> Service<Request<A>> for TraceService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<TraceBody<B>>;
    type Error = S::Error;
    type Future = TraceFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let method = label(request.uri().path(), self.layer.other_label);
        let call = CallRecorder::begin(Arc::clone(&self.layer.metrics), method, request.headers());
        let inner = call.span.in_scope(|| self.inner.call(request));
        TraceFuture { inner, call: Some(call) }
    }
}

/// Records a call when dropped; without a status code, the call was cancelled.
#[derive(Debug)]
struct CallRecorder {
    metrics: Arc<Metrics>,
    method: &'static str,
    start: Instant,
    span: Span,
    code: Code,
}

impl CallRecorder {
    fn begin(metrics: Arc<Metrics>, method: &'static str, headers: &HeaderMap) -> Self {
        // OpenTelemetry's semantic conventions for RPC; rpc.system, rpc.service and rpc.grpc.status_code are those up to 1.37.
        let span = tracing::span!(target: TARGET, Level::DEBUG, "request",
            otel.name = if method == UNKNOWN { "grpc" } else { method }, otel.kind = "server", otel.status_code = Empty,
            rpc.system.name = "grpc", rpc.method = rpc_method(method), rpc.response.status_code = Empty, error.type = Empty,
            rpc.system = "grpc", rpc.service = service(method), rpc.grpc.status_code = Empty);
        if !span.is_disabled() {
            let parent = TraceContextPropagator::new().extract(&Headers(headers));
            // Fails only without an OpenTelemetry layer.
            let _no_layer = span.set_parent(parent);
        }
        metrics.request_started();
        Self { metrics, method, start: Instant::now(), span, code: Code::Cancelled }
    }

    /// Takes the status code from headers or trailers, if present.
    fn read_status(&mut self, headers: &HeaderMap) {
        if let Some(value) = headers.get("grpc-status") {
            self.code = Code::from_bytes(value.as_bytes());
        }
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        let code = code_name(self.code);
        let failed = is_server_error(self.code);
        self.metrics.request_ended(self.method, rpc_method(self.method), code, failed, took);
        if !self.span.is_disabled() {
            self.span.record("rpc.response.status_code", code);
            self.span.record("rpc.grpc.status_code", i32::from(self.code));
            if is_server_error(self.code) {
                self.span.record("error.type", code);
                self.span.record("otel.status_code", "ERROR");
            }
            let latency_ms = took.as_secs_f64() * 1e3;
            tracing::debug!(target: TARGET, parent: &self.span, method = self.method, code, latency_ms, "call ended");
        }
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

pin_project! {
    /// A recorded call.
    #[derive(Debug)]
    pub struct TraceFuture<F> {
        #[pin]
        inner: F,
        call: Option<CallRecorder>,
    }
}

impl<F, B, E> Future for TraceFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TraceBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let entered = this.call.as_ref().map(|call| call.span.enter());
        let result = ready!(this.inner.poll(cx));
        drop(entered);
        let mut call = this.call.take();
        Poll::Ready(result.map(|response| {
            if let Some(call) = &mut call {
                call.read_status(response.headers());
            }
            response.map(|inner| TraceBody { inner, call })
        }))
    }
}

pin_project! {
    /// A response body that records the status code in its trailers.
    #[derive(Debug)]
    pub struct TraceBody<B> {
        #[pin]
        inner: B,
        call: Option<CallRecorder>,
    }
}

impl<B> HttpBody for TraceBody<B>
where
    B: HttpBody<Data = Bytes, Error = Status>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        // Work done while the body is polled belongs to the call's span.
        let entered = this.call.as_ref().map(|call| call.span.enter());
        let polled = this.inner.poll_frame(cx);
        drop(entered);
        let polled = ready!(polled);
        match (&polled, this.call.as_mut()) {
            (Some(Ok(frame)), Some(call)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    call.read_status(trailers);
                    *this.call = None;
                }
            }
            (Some(Err(status)), Some(call)) => call.code = status.code(),
            (None, Some(_)) => *this.call = None,
            (_, None) => {}
        }
        Poll::Ready(polled)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use accelerd_proto::methods::embed_service;
    use http_body_util::BodyExt;
    use tonic::body::Body;
    use tower::{ServiceExt, service_fn};

    use super::*;

    const PATH: &str = embed_service::EMBED.path();

    fn layer(metrics: &Arc<Metrics>) -> TraceLayer {
        TraceLayer::new(Arc::clone(metrics), |path| (path == "/health/Check").then_some("health/Check"))
    }

    fn metrics() -> Arc<Metrics> {
        Arc::new(Metrics::new(None).expect("metrics without an endpoint"))
    }

    async fn call(metrics: &Arc<Metrics>, path: &str, response: Response<Body>) {
        let mut response = Some(response);
        let handler = service_fn(move |_: Request<()>| {
            std::future::ready(Ok::<_, Infallible>(response.take().expect("one call")))
        });
        let request = Request::builder().uri(path).body(()).expect("a request");
        let Ok(response) = layer(metrics).layer(handler).oneshot(request).await;
        let _body = response.into_body().collect().await;
    }

    #[tokio::test]
    async fn calls_are_counted_by_method_and_code() {
        let metrics = metrics();
        call(&metrics, PATH, Status::not_found("no").into_http()).await;
        let mut trailers = HeaderMap::new();
        Status::ok("").add_header(&mut trailers).expect("a header");
        let frames = [Ok::<_, Status>(Frame::data(Bytes::new())), Ok(Frame::trailers(trailers))];
        let frames = futures::stream::iter(frames);
        call(&metrics, PATH, Response::new(Body::new(http_body_util::StreamBody::new(frames)))).await;
        call(&metrics, "/made.up/Path", Status::unimplemented("").into_http()).await;
        call(&metrics, "/health/Check", Status::ok("").into_http()).await;
        let text = metrics.text();
        let label = &PATH[1..];
        for (method, code) in
            [(label, "NOT_FOUND"), (label, "OK"), ("unknown", "UNIMPLEMENTED"), ("health/Check", "OK")]
        {
            let line = format!("accelerd_request_duration_seconds_count{{code=\"{code}\",method=\"{method}\"}} 1");
            assert!(text.contains(&line), "{line} in {text}");
        }
        for labels in [
            "error_type=\"UNIMPLEMENTED\",rpc_method=\"_OTHER\",rpc_response_status_code=\"UNIMPLEMENTED\",rpc_system_name=\"grpc\"".to_owned(),
            format!("rpc_method=\"{label}\",rpc_response_status_code=\"NOT_FOUND\",rpc_system_name=\"grpc\""),
        ] {
            let line = format!("rpc_server_call_duration_seconds_count{{{labels}}} 1");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains("accelerd_requests_in_flight 0"), "{text}");
        assert!(!text.contains("made.up"));
    }

    #[tokio::test]
    async fn a_call_dropped_without_a_response_is_cancelled() {
        let metrics = metrics();
        let never = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let request = Request::builder().uri(PATH).body(()).expect("a request");
        drop(layer(&metrics).layer(never).oneshot(request));
        let request = Request::builder().uri(PATH).body(()).expect("a request");
        drop(layer(&metrics).layer(never).call(request));
        assert!(metrics.text().contains("code=\"CANCELLED\""));
    }
}
