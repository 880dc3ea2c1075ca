//! Routes calls to the functions of the services, by the table of methods.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::ready,
    sync::{Arc, LazyLock},
    task::{self, Poll},
};

use accelerd_http::{GrpcService, Inference, Settings};
use accelerd_proto::methods::{Method, MethodId};
use bytes::Bytes;
use http_body::Body as HttpBody;
use prost::Message as _;
use tonic::{
    body::Body,
    codegen::{BoxFuture, StdError},
    service::Routes,
};
use tower::Service;

use super::{
    call::{CallRunner, RequestScreen, call_of, serve_server_stream, serve_unary},
    device, embed,
    encode::ChargedBody,
    handlers::{
        DeviceService as _, EmbedService as _, KernelService as _, ParseService as _, SimilarityService as _,
        TensorService as _, VerifyService as _,
    },
    inference::InferenceService,
    kernel, parse, similarity, tensor, verify,
};
use crate::{app::App, status, transport::MAX_UNACCOUNTED_REQUEST};

/// The services of the main port.
#[derive(Clone)]
pub(crate) struct Services {
    table: Arc<Table>,
    /// None of the services that it calls itself.
    inference: Option<Arc<InferenceService>>,
}

struct Table {
    calls: CallRunner,
    /// The same for `Parse`, whose requests are refused by their length.
    parse_calls: CallRunner,
    /// Maximum size of the messages of methods with small requests.
    max_message: usize,
    device_service: Arc<device::Devices>,
    embed_service: Arc<embed::Embed>,
    kernel_service: Arc<kernel::Kernels>,
    parse_service: Arc<parse::Parser>,
    similarity_service: Arc<similarity::Similarity>,
    tensor_service: Arc<tensor::Tensors>,
    verify_service: Arc<verify::Verifier>,
    other: Routes,
}

impl Services {
    /// `settings` are those of the routes of HTTP, with which inference shares its logic.
    pub(crate) fn new(app: &Arc<App>, settings: Settings) -> Self {
        let other = Routes::new(app.health.service());
        let other = if app.config.serves_reflection() { with_reflection(other) } else { other };
        let largest = usize::try_from(app.transport_memory.largest_message()).unwrap_or(usize::MAX);
        let limit = app.config.server.max_message().min(largest);
        let embedder = app.embedder.clone();
        let dimensions = Arc::new(move |model: &str| embedder.model(model).map_or(0, |model| model.dimensions()));
        let calls = CallRunner {
            limit,
            offload: app.offload.handle().clone(),
            dimensions,
            screen: None,
            stream_ends: app.stream_ends.clone(),
        };
        let parse_service = Arc::new(parse::Parser::new(app));
        let parser = Arc::clone(&parse_service);
        let screen: RequestScreen = Arc::new(move |length, context| parser.screen(length, context));
        let table = Arc::new(Table {
            parse_calls: CallRunner { screen: Some(screen), ..calls.clone() },
            calls: calls.clone(),
            max_message: app.config.server.max_message(),
            device_service: Arc::new(device::Devices::new(app)),
            embed_service: Arc::new(embed::Embed::new(app)),
            kernel_service: Arc::new(kernel::Kernels::new(app)),
            parse_service,
            similarity_service: Arc::new(similarity::Similarity::new(app)),
            tensor_service: Arc::new(tensor::Tensors::new(app)),
            verify_service: Arc::new(verify::Verifier::new(app)),
            other: other.prepare(),
        });
        let services = Self { table: Arc::clone(&table), inference: None };
        let inference = Inference::new(GrpcService::new(services), app.offload.handle().clone(), settings);
        let inference = InferenceService { inference, calls, max_message: app.config.server.max_message() };
        Self { table, inference: Some(Arc::new(inference)) }
    }
}

/// The label of a method that the table of methods lacks, by its path: of the health service and of the Open Inference Protocol.
pub(crate) fn other_label(path: &str) -> Option<&'static str> {
    OTHER_LABELS.get(path).copied()
}

/// Their labels by their paths, leaked once so that labels are static.
static OTHER_LABELS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let files = |set| prost_types::FileDescriptorSet::decode(set).unwrap_or_default().file;
    let files = [files(tonic_health::pb::FILE_DESCRIPTOR_SET), files(accelerd_proto::DESCRIPTORS)].concat();
    let mut labels = HashMap::new();
    for file in files.iter().filter(|file| file.package() != "accelerd.v1") {
        for service in &file.service {
            for method in &service.method {
                let path: &'static str = format!("/{}.{}/{}", file.package(), service.name(), method.name()).leak();
                labels.insert(path, &path[1..]);
            }
        }
    }
    labels
});

/// Adds reflection v1, and v1alpha for older tools.
fn with_reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(accelerd_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Types of error details.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(MAX_UNACCOUNTED_REQUEST))
            .add_service(v1alpha.max_decoding_message_size(MAX_UNACCOUNTED_REQUEST)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is disabled");
            routes
        }
    }
}

impl<B> Service<http::Request<B>> for Services
where
    B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let table = &self.table;
        let Some(method) = Method::of_path(request.uri().path()) else {
            if let Some(inference) = &self.inference
                && InferenceService::serves(request.uri().path())
            {
                return inference.call(request);
            }
            return Box::pin(other(table.other.clone(), request));
        };
        let calls = if method.id == MethodId::ParseParse { &table.parse_calls } else { &table.calls }.clone();
        macro_rules! run {
            ($field:ident $name:ident unary small) => {
                run!($field $name serve_unary)
            };
            ($field:ident $name:ident server_stream small) => {
                run!($field $name serve_server_stream)
            };
            ($field:ident $name:ident unary $size:ident) => {{
                let service = Arc::clone(&table.$field);
                let handler = |request| async move { service.$name(request).await };
                Box::pin(async move { Ok(calls.unary(request, handler).await) })
            }};
            ($field:ident $name:ident client_stream $size:ident) => {{
                let service = Arc::clone(&table.$field);
                let handler = |caller, context, requests| async move { service.$name(caller, context, requests).await };
                Box::pin(async move { Ok(calls.client_stream(request, handler).await) })
            }};
            ($field:ident $name:ident $streaming:ident $size:ident) => {{
                let service = Arc::clone(&table.$field);
                let handler = move |caller, context, requests| service.$name(caller, context, requests);
                Box::pin(ready(Ok(calls.stream(request, handler))))
            }};
            ($field:ident $name:ident $serve:ident) => {{
                let service = Arc::clone(&table.$field);
                let handler = move |request| {
                    let service = Arc::clone(&service);
                    async move { service.$name(request).await }
                };
                let serve = $serve(table.max_message, handler);
                Box::pin(async move { Ok(calls.small(request, serve).await) })
            }};
        }
        macro_rules! dispatch {
            ($($service:ident $field:ident {
                $($id:ident $name:ident $cardinality:ident $size:ident $request:ident $response:ident;)*
            })*) => {
                match method.id {
                    $($(MethodId::$id => run!($field $name $cardinality $size),)*)*
                }
            };
        }
        accelerd_proto::with_all_services!(dispatch)
    }
}

/// Names the method in the response of tonic's fallback to an unknown one, which has no message.
fn with_method(response: http::Response<Body>, path: &str) -> http::Response<Body> {
    let is = |name: &str, value: &[u8]| response.headers().get(name).is_some_and(|got| got.as_bytes() == value);
    let has_message = response.headers().get("grpc-message").is_some_and(|message| !message.is_empty());
    if is("grpc-status", b"12") && !has_message { status::unknown_method(path).into_http() } else { response }
}

/// Health and reflection, which run on the reactor, and unknown methods.
async fn other<B>(mut routes: Routes, request: http::Request<B>) -> Result<http::Response<Body>, Infallible>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
{
    let call = call_of(&request);
    let path = request.uri().path().to_owned();
    let response = with_method(routes.call(request.map(Body::new)).await?, &path);
    Ok(response.map(|body| Body::new(ChargedBody { body, call })))
}
