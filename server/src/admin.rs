//! The admin port: metrics, health and settings over HTTP/1.1, for scrapers and people.

use std::{collections::VecDeque, convert::Infallible, future::ready, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
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
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::serve::App;

/// Connections at once; scrapers and people are few. One more takes the place of the oldest: an answer takes no time here, so
/// whoever is connected for long either has it or does not ask.
const MAX_CONNECTIONS: usize = 64;

/// How long a peer may take over its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last, idle, slow or busy.
const LONGEST_CONNECTION: Duration = Duration::from_secs(300);

/// How long the descriptors of a process that ran out of them are waited for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the port until `closing`.
pub(crate) async fn serve(listener: TcpListener, app: Arc<App>, closing: CancellationToken) {
    let mut open = VecDeque::with_capacity(MAX_CONNECTIONS);
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        open.retain(|one: &AbortOnDropHandle<()>| !one.is_finished());
        if open.len() >= MAX_CONNECTIONS {
            open.pop_front();
        }
        let (app, closing) = (Arc::clone(&app), closing.clone());
        open.push_back(AbortOnDropHandle::new(tokio::spawn(async move {
            let served = timeout(LONGEST_CONNECTION, connection(stream, app));
            closing.run_until_cancelled(served).await;
        })));
    }
}

async fn connection(stream: TcpStream, app: Arc<App>) {
    let service = service_fn(|request| ready(Ok::<_, Infallible>(answer(&request, &app))));
    let mut http1 = http1::Builder::new();
    http1.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(16 << 10);
    if let Err(error) = http1.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "an admin connection ended");
    }
}

fn answer(request: &Request<Incoming>, app: &App) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    }
    let health = app.health.now();
    match request.uri().path() {
        "/metrics" => body(StatusCode::OK, prometheus::TEXT_FORMAT, app.metrics.text()),
        "/healthz" => yes_or_no(health.live, "live\n", "not live\n"),
        "/readyz" => yes_or_no(health.ready && health.live, "ready\n", "not ready\n"),
        "/config" => match serde_json::to_string_pretty(&app.config.redacted()) {
            Ok(shown) => body(StatusCode::OK, "application/json", shown),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        "/version" => body(StatusCode::OK, "application/json", version(app).to_string()),
        _ => text(StatusCode::NOT_FOUND, "known: /metrics /healthz /readyz /config /version\n"),
    }
}

fn version(app: &App) -> serde_json::Value {
    let devices = app.engine.devices();
    let devices: Vec<_> = devices.iter().map(|(device, _)| device.id().to_string()).collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "devices": devices, "fallback": app.fallback })
}

fn yes_or_no(yes: bool, good: &str, bad: &str) -> Response<Full<Bytes>> {
    if yes { text(StatusCode::OK, good) } else { text(StatusCode::SERVICE_UNAVAILABLE, bad) }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    body(status, "text/plain; charset=utf-8", text.to_owned())
}

fn body(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
