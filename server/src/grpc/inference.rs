//! `inference.GRPCInferenceService`, the Open Inference Protocol. Its methods call the services of this daemon with the caller of
//! the request, after the layers have let it pass.

use std::{convert::Infallible, sync::Arc};

use accelerd_http::{Account, Inference};
use accelerd_proto::inference as pb;
use bytes::Bytes;
use futures::StreamExt;
use http::{Extensions, HeaderMap, Request};
use http_body::Body as HttpBody;
use tonic::{
    Response, Status,
    body::Body,
    codegen::{BoxFuture, StdError},
    metadata::MetadataMap,
};

use super::{
    call::{CallRunner, call_of, serve_unary},
    cost::RequestCost,
};
use crate::{
    auth::role::{self, Access, INFERENCE},
    status,
    transport::http1::CallAccount,
};

/// Serves the methods.
pub(super) struct InferenceService {
    pub(super) inference: Inference,
    pub(super) calls: CallRunner,
    /// Maximum size of the messages of methods with small requests.
    pub(super) max_message: usize,
}

impl RequestCost for pb::ModelInferRequest {}

impl InferenceService {
    /// Returns true if a path is that of one of the methods.
    pub(super) fn serves(path: &str) -> bool {
        path.starts_with(INFERENCE) && role::access(path) != Access::Unknown
    }

    /// Runs a call of a method that it serves.
    pub(super) fn call<B>(&self, mut request: Request<B>) -> BoxFuture<http::Response<Body>, Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
    {
        let account: Arc<dyn Account> = Arc::new(CallAccount(call_of(&request)));
        request.extensions_mut().insert(account);
        let calls = self.calls.clone();
        let inference = self.inference.clone();
        macro_rules! small {
            (|$inference:ident, $request:ident: $kind:ident| $response:expr) => {{
                let handler = move |$request: tonic::Request<pb::$kind>| {
                    let $inference = inference.clone();
                    async move { { $response }.map_err(|status: Status| status::bounded(&status)) }
                };
                let serve = serve_unary(self.max_message, handler);
                Box::pin(async move { Ok(calls.small(request, serve).await) })
            }};
        }
        match request.uri().path().strip_prefix(INFERENCE).unwrap_or_default() {
            "ModelInfer" => {
                let handler = |request, charge| async move {
                    inference.model_infer(request, charge).await.map_err(|status| status::bounded(&status))
                };
                Box::pin(async move { Ok(calls.charged_unary(request, handler).await) })
            }
            "ModelStreamInfer" => Box::pin(std::future::ready(Ok(stream(inference, calls, request)))),
            "ServerLive" => small!(|_inference, _request: ServerLiveRequest| {
                Ok(Response::new(pb::ServerLiveResponse { live: true }))
            }),
            "ServerReady" => small!(|inference, request: ServerReadyRequest| inference.server_ready(request).await),
            "ServerMetadata" => small!(|_inference, _request: ServerMetadataRequest| {
                Ok(Response::new(accelerd_http::server_metadata()))
            }),
            "ModelReady" => small!(|inference, request: ModelReadyRequest| inference.model_ready(request).await),
            "ModelMetadata" => {
                small!(|inference, request: ModelMetadataRequest| inference.model_metadata(request).await)
            }
            "RepositoryIndex" => {
                small!(|inference, request: RepositoryIndexRequest| inference.repository_index(request).await)
            }
            _ => Box::pin(std::future::ready(Ok(status::unknown_method(request.uri().path()).into_http()))),
        }
    }
}

/// One response for each request, in order. The metadata of the call applies to each.
fn stream<B>(inference: Inference, calls: CallRunner, request: Request<B>) -> http::Response<Body>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
{
    let headers = request.headers().clone();
    let extensions = request.extensions().clone();
    calls.stream(request, move |_caller, _context, requests| {
        let responses = requests.then(move |received| {
            let (inference, headers, extensions) = (inference.clone(), headers.clone(), extensions.clone());
            async move { Ok(infer_next(&inference, headers, extensions, received?).await) }
        });
        responses.boxed()
    })
}

async fn infer_next(
    inference: &Inference,
    headers: HeaderMap,
    extensions: Extensions,
    message: pb::ModelInferRequest,
) -> pb::ModelStreamInferResponse {
    let id = message.id.clone();
    let request = tonic::Request::from_parts(MetadataMap::from_headers(headers), extensions, message);
    match inference.model_infer(request, ()).await {
        Ok(response) => {
            pb::ModelStreamInferResponse { infer_response: Some(response.into_inner()), ..Default::default() }
        }
        Err(status) => {
            let infer_response = Some(pb::ModelInferResponse { id, ..Default::default() });
            pb::ModelStreamInferResponse { error_message: status.message().to_owned(), infer_response }
        }
    }
}
