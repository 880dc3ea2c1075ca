//! The paths of the HTTP port.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{get, post},
};
use http::{StatusCode, Uri};
use tokio::runtime::Handle;
use tonic::body::Body as GrpcBody;
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt, util::MapRequest};

use crate::{
    api::json_rpc,
    console,
    endpoints::APIS,
    exchange::{refused, serve},
    failure::Failure,
    openapi,
    protect::protect,
    shared::{GrpcService, Settings, Shared},
    unread,
};

/// The routes. Requests are served on the runtime `offload`, and their extensions have an `Arc<dyn Account>`.
pub fn router(grpc: GrpcService, offload: Handle, settings: Settings) -> Router {
    let shared = Shared { grpc, offload, settings: Arc::new(settings) };
    let endpoints = APIS.iter().flat_map(|api| api.endpoints.iter().map(|endpoint| (api.error, endpoint)));
    let routes = endpoints
        .fold(Router::new(), |routes, (error, endpoint)| routes.route(endpoint.path, endpoint.method_router(error)));
    let routes = if shared.settings.console { routes.merge(console::routes()) } else { routes };
    let routes = routes
        .route("/openapi.json", get(openapi::openapi))
        .route("/docs", get(openapi::docs))
        .route("/{service}/{method}", post(call_or_grpc_web))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(shared.clone(), protect))
        .layer(from_fn(unread::close_after))
        .with_state(shared);
    Router::new().fallback_service(MapRequest::new(routes, merge_slashes))
}

/// Removes slashes at the end of the path and repeated ones, which clients make of base URLs that end with a slash.
fn merge_slashes(mut request: Request) -> Request {
    let path = request.uri().path();
    if path.contains("//") || (path.len() > 1 && path.ends_with('/')) {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
        let mut uri = request.uri().clone().into_parts();
        uri.path_and_query = format!("/{}{query}", parts.join("/")).parse().ok();
        *request.uri_mut() = Uri::from_parts(uri).expect("a path with fewer slashes is one");
    }
    request
}

/// A method over JSON, or over gRPC-Web, by the type of the body.
async fn call_or_grpc_web(State(shared): State<Shared>, request: Request) -> Response {
    if !json_rpc::is_grpc_web(&request) {
        return serve(json_rpc::error, json_rpc::call, State(shared), request).await;
    }
    let response = GrpcWebLayer::new().layer(shared.grpc).oneshot(request.map(GrpcBody::new)).await;
    let Ok(response) = response;
    response.map(axum::body::Body::new)
}

async fn not_found(request: Request) -> Response {
    let message = format!("no such path: {}; see /docs", request.uri().path());
    refused(json_rpc::error, &Failure::new(StatusCode::NOT_FOUND, message))
}

async fn method_not_allowed(request: Request) -> Response {
    let message = format!("{} does not apply to {}", request.method(), request.uri().path());
    refused(json_rpc::error, &Failure::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_merged() {
        let merged = |uri: &str| {
            let request = Request::builder().uri(uri).body(axum::body::Body::empty()).expect("a request");
            merge_slashes(request).uri().to_string()
        };
        assert_eq!(merged("/v1//embeddings/?a=//b/"), "/v1/embeddings?a=//b/");
        assert_eq!(merged("//embed"), "/embed");
        for same in ["/", "/v1/models/org/name?x", "http://localhost/a", "*"] {
            assert_eq!(merged(same), same);
        }
        assert_eq!(merged("//"), "/");
        assert_eq!(merged("http://localhost//a"), "http://localhost/a");
    }
}
