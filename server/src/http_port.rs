//! The HTTP port: the routes of `accelerd-http` over the gRPC services of this daemon.

use std::{convert::Infallible, sync::Arc};

use accelerd_http::{Access, GrpcService, Settings};
use axum::Router;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tonic::{body::Body, codegen::StdError};
use tower::{Service, ServiceBuilder};

use crate::app::App;

/// The routes, which call the services with their layers.
pub(crate) fn service<S, B>(app: &App, stack: S) -> Router
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
    B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
{
    let boxed = ServiceBuilder::new().map_response(|response: Response<_>| response.map(Body::new));
    let grpc = GrpcService::new(boxed.service(stack));
    accelerd_http::router(grpc, app.offload.handle().clone(), settings(app))
}

/// The settings of the routes.
pub(crate) fn settings(app: &App) -> Settings {
    let config = &app.config;
    let http = &config.http;
    let access = Access {
        hosts: http.hosts.clone(),
        origins: http.origins.clone(),
        only_local: http.listen.address().is_some_and(|address| address.ip().to_canonical().is_loopback()),
    };
    Settings {
        access,
        max_body: config.server.max_message(),
        token_arrays: http.token_arrays,
        model: http.model.clone(),
        reranker: http.reranker.clone(),
        max_texts: config.limits.max_texts,
        max_items: config.admission.max_items,
        console: http.console,
        graphs: Arc::clone(&app.graphs),
    }
}
