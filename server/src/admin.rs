//! The admin port: metrics, health and settings over HTTP/1.1.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{accept_failures::AcceptFailures, app::App, start::Starting, telemetry::Metrics};

/// State that the port shows: health and metrics at once, the rest when the daemon has started.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) starting: Starting,
    pub(crate) app: Arc<OnceLock<Arc<App>>>,
}

/// Maximum number of open connections; a new one replaces the oldest. Responses are immediate, so the oldest is idle.
const MAX_CONNECTIONS: usize = 64;

const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);

const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);

/// Serves the port until `closing` is cancelled.
pub(crate) async fn serve(listener: TcpListener, state: AdminState, closing: CancellationToken) {
    let mut open = VecDeque::with_capacity(MAX_CONNECTIONS);
    let mut failures = AcceptFailures::default();
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                failures.record(&error).await;
                continue;
            }
        };
        open.retain(|one: &AbortOnDropHandle<()>| !one.is_finished());
        if open.len() >= MAX_CONNECTIONS {
            open.pop_front();
        }
        let (state, closing) = (state.clone(), closing.clone());
        open.push_back(AbortOnDropHandle::new(tokio::spawn(async move {
            let served = timeout(MAX_CONNECTION_AGE, serve_connection(stream, peer, state));
            closing.run_until_cancelled(served).await;
        })));
    }
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, state: AdminState) {
    let is_local = peer.ip().to_canonical().is_loopback();
    let state = &state;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (head, _body) = request.into_parts();
        Ok::<_, Infallible>(respond(&head, state, is_local).await)
    });
    let mut http1 = http1::Builder::new();
    http1.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).max_buf_size(16 << 10);
    if let Err(error) = http1.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "admin connection failed");
    }
}

async fn respond(request: &Parts, state: &AdminState, is_local: bool) -> Response<Full<Bytes>> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    }
    let Starting { health, metrics, .. } = &state.starting;
    let health = health.now();
    match request.uri.path() {
        "/metrics" => metrics_text(Arc::clone(metrics)).await,
        "/healthz" => probe(health.live, "live\n", "not live\n"),
        "/readyz" => probe(health.ready && health.live, "ready\n", "not ready\n"),
        // Callers of this port have no credentials, so that only this machine may see how the daemon is set up.
        "/config" if !is_local => text(StatusCode::FORBIDDEN, "settings are shown only to loopback addresses\n"),
        path @ ("/config" | "/version") => match state.app.get() {
            Some(app) if path == "/config" => config(app),
            Some(app) => body(StatusCode::OK, "application/json", version(app).to_string()),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "the daemon is starting\n"),
        },
        _ => text(StatusCode::NOT_FOUND, "not found; try /metrics /healthz /readyz /config /version\n"),
    }
}

/// Collects the metrics on a thread of their own: a file system that hangs blocks no other request.
async fn metrics_text(metrics: Arc<Metrics>) -> Response<Full<Bytes>> {
    match spawn_blocking(move || metrics.text()).await {
        Ok(metrics) => body(StatusCode::OK, prometheus::TEXT_FORMAT, metrics),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn config(app: &App) -> Response<Full<Bytes>> {
    match serde_json::to_string_pretty(&app.config.redacted()) {
        Ok(json) => body(StatusCode::OK, "application/json", json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn version(app: &App) -> serde_json::Value {
    let devices = app.engine.devices();
    let devices: Vec<_> = devices.iter().map(|(device, _)| device.id().to_string()).collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "devices": devices, "fallback": app.fallback })
}

fn probe(healthy: bool, yes: &str, no: &str) -> Response<Full<Bytes>> {
    if healthy { text(StatusCode::OK, yes) } else { text(StatusCode::SERVICE_UNAVAILABLE, no) }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    body(status, "text/plain; charset=utf-8", text.to_owned())
}

fn body(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
