//! Applies the rules of access to all requests, and answers the preflight requests of pages that are allowed.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::{api::json_rpc, exchange::refused, shared::Shared};

/// Refuses requests of pages of other sites, and answers the preflight requests of pages that are allowed.
pub(crate) async fn protect(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let access = &shared.settings.access;
    if let Err(refusal) = access.check(request.method(), request.uri(), request.headers()) {
        return refused(json_rpc::error, &refusal);
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let listed = origin.filter(|origin| origin.to_str().is_ok_and(|origin| access.lists_origin(origin)));
    let is_preflight = request.method() == Method::OPTIONS;
    let mut response = match &listed {
        Some(_) if is_preflight => preflight(request.headers()),
        _ => next.run(request).await,
    };
    if let Some(origin) = listed {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
    response
}

/// Permits the method and the headers that a page asks for.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    if let Some(asked) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}
