//! Routes calls to the services: methods with large messages through [`super::call`], the others through generated servers.

use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{self, Poll},
};

use accelerd_proto::v1::{
    device_service_server::DeviceServiceServer,
    embed_service_server::{EmbedService as _, EmbedServiceServer},
    kernel_service_server::{KernelService as _, KernelServiceServer},
    parse_service_server::{ParseService as _, ParseServiceServer},
    similarity_service_server::{SimilarityService as _, SimilarityServiceServer},
    tensor_service_server::{TensorService as _, TensorServiceServer},
    verify_service_server::{VerifyService as _, VerifyServiceServer},
};
use bytes::Bytes;
use http_body::Body as HttpBody;
use tonic::{
    body::Body,
    codegen::{BoxFuture, StdError},
    server::NamedService,
    service::Routes,
};
use tower::Service;

use super::{
    call::{CallRunner, RequestScreen, call_of},
    device, embed,
    encode::ChargedBody,
    kernel, parse, similarity, tensor, verify,
};
use crate::{app::App, status, transport::MAX_UNACCOUNTED_REQUEST};

/// The method whose requests are refused by their length.
const PARSE: &str = "/accelerd.v1.ParseService/Parse";

/// The services of the main port.
#[derive(Clone)]
pub(crate) struct Services(Arc<Table>);

struct Table {
    calls: CallRunner,
    /// The same for [`PARSE`].
    parse_calls: CallRunner,
    embed: Arc<embed::Embed>,
    similarity: Arc<similarity::Similarity>,
    parse: Arc<parse::Parser>,
    tensor: Arc<tensor::Tensors>,
    verify: Arc<verify::Verifier>,
    kernel: Arc<kernel::Kernels>,
    embed_server: EmbedServiceServer<embed::Embed>,
    similarity_server: SimilarityServiceServer<similarity::Similarity>,
    parse_server: ParseServiceServer<parse::Parser>,
    tensor_server: TensorServiceServer<tensor::Tensors>,
    verify_server: VerifyServiceServer<verify::Verifier>,
    kernel_server: KernelServiceServer<kernel::Kernels>,
    device_server: DeviceServiceServer<device::Devices>,
    other: Routes,
}

/// Sets the message size limits of a generated server.
macro_rules! limited {
    ($service:expr, $app:expr) => {{
        let limit = $app.config.server.max_message();
        $service.max_decoding_message_size(limit).max_encoding_message_size(limit)
    }};
}

impl Services {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        let other = Routes::new(app.health.service());
        let other = if app.config.serves_reflection() { with_reflection(other) } else { other };
        let largest = usize::try_from(app.transport_memory.largest_message()).unwrap_or(usize::MAX);
        let limit = app.config.server.max_message().min(largest);
        let embedder = app.embedder.clone();
        let dimensions = Arc::new(move |model: &str| embedder.model(model).map_or(0, |model| model.dimensions()));
        let calls = CallRunner { limit, offload: app.offload.handle().clone(), dimensions, screen: None };
        let embed = Arc::new(embed::Embed::new(app));
        let similarity = Arc::new(similarity::Similarity::new(app));
        let parse = Arc::new(parse::Parser::new(app));
        let tensor = Arc::new(tensor::Tensors::new(app));
        let verify = Arc::new(verify::Verifier::new(app));
        let kernel = Arc::new(kernel::Kernels::new(app));
        let screen = Arc::clone(&parse);
        let screen: RequestScreen = Arc::new(move |length, context| screen.screen(length, context));
        Self(Arc::new(Table {
            parse_calls: CallRunner { screen: Some(screen), ..calls.clone() },
            calls,
            embed_server: limited!(EmbedServiceServer::from_arc(Arc::clone(&embed)), app),
            similarity_server: limited!(SimilarityServiceServer::from_arc(Arc::clone(&similarity)), app),
            parse_server: limited!(ParseServiceServer::from_arc(Arc::clone(&parse)), app),
            tensor_server: limited!(TensorServiceServer::from_arc(Arc::clone(&tensor)), app),
            verify_server: limited!(VerifyServiceServer::from_arc(Arc::clone(&verify)), app),
            kernel_server: limited!(KernelServiceServer::from_arc(Arc::clone(&kernel)), app),
            device_server: limited!(device::service(app), app),
            embed,
            similarity,
            parse,
            tensor,
            verify,
            kernel,
            other: other.prepare(),
        }))
    }
}

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

/// Whether a path names a method of the service.
fn routes_to<S: NamedService>(path: &str, _: &S) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(S::NAME)).is_some_and(|rest| rest.starts_with('/'))
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
        let table = &self.0;
        let calls = if request.uri().path() == PARSE { table.parse_calls.clone() } else { table.calls.clone() };
        macro_rules! unary {
            ($service:ident . $method:ident) => {{
                let service = Arc::clone(&table.$service);
                let handler = |request| async move { service.$method(request).await };
                Box::pin(async move { Ok(calls.unary(request, handler).await) })
            }};
        }
        macro_rules! streaming {
            ($service:ident . $method:ident) => {{
                let service = Arc::clone(&table.$service);
                let handler = move |caller, context, batches| service.$method(caller, context, batches);
                Box::pin(ready(Ok(calls.stream(request, handler))))
            }};
        }
        macro_rules! generated {
            ($server:ident) => {{
                let server = table.$server.clone();
                let path = request.uri().path().to_owned();
                Box::pin(async move { Ok(with_method(calls.generated(request, server).await, &path)) })
            }};
        }
        let path = request.uri().path();
        match path {
            "/accelerd.v1.EmbedService/Embed" => unary!(embed.embed),
            "/accelerd.v1.EmbedService/EmbedStream" => streaming!(embed.embed_batches),
            "/accelerd.v1.EmbedService/Rerank" => unary!(embed.rerank),
            "/accelerd.v1.EmbedService/Tokenize" => unary!(embed.tokenize),
            "/accelerd.v1.KernelService/Benchmark" => unary!(kernel.benchmark),
            "/accelerd.v1.KernelService/Evaluate" => unary!(kernel.evaluate),
            "/accelerd.v1.KernelService/Compile" => unary!(kernel.compile),
            "/accelerd.v1.KernelService/Launch" => unary!(kernel.launch),
            "/accelerd.v1.KernelService/Translate" => unary!(kernel.translate),
            PARSE => unary!(parse.parse),
            "/accelerd.v1.ParseService/ParseStream" => streaming!(parse.parse_batches),
            "/accelerd.v1.SimilarityService/Cluster" => unary!(similarity.cluster),
            "/accelerd.v1.SimilarityService/FindSimilar" => unary!(similarity.find_similar),
            "/accelerd.v1.SimilarityService/GetPoints" => unary!(similarity.get_points),
            "/accelerd.v1.SimilarityService/Search" => unary!(similarity.search),
            "/accelerd.v1.SimilarityService/Upsert" => unary!(similarity.upsert),
            "/accelerd.v1.SimilarityService/UpsertStream" => streaming!(similarity.upsert_batches),
            "/accelerd.v1.TensorService/CopyTensor" => unary!(tensor.copy_tensor),
            "/accelerd.v1.TensorService/Execute" => unary!(tensor.execute),
            "/accelerd.v1.TensorService/UploadTensor" => {
                let service = Arc::clone(&table.tensor);
                let handler = |caller, context, parts| async move { service.upload(caller, context, parts).await };
                Box::pin(async move { Ok(calls.client_stream(request, handler).await) })
            }
            "/accelerd.v1.TensorService/DownloadTensor" => streaming!(tensor.download),
            "/accelerd.v1.VerifyService/CompareOutputs" => unary!(verify.compare_outputs),
            "/accelerd.v1.VerifyService/Verify" => streaming!(verify.verify_chunks),
            _ if routes_to(path, &table.embed_server) => generated!(embed_server),
            _ if routes_to(path, &table.similarity_server) => generated!(similarity_server),
            _ if routes_to(path, &table.parse_server) => generated!(parse_server),
            _ if routes_to(path, &table.tensor_server) => generated!(tensor_server),
            _ if routes_to(path, &table.verify_server) => generated!(verify_server),
            _ if routes_to(path, &table.kernel_server) => generated!(kernel_server),
            _ if routes_to(path, &table.device_server) => generated!(device_server),
            _ => Box::pin(other(table.other.clone(), request)),
        }
    }
}

/// Names the method in the response of tonic's fallback to an unknown one, which has no message.
fn with_method(response: http::Response<Body>, path: &str) -> http::Response<Body> {
    let is = |name: &str, value: &[u8]| response.headers().get(name).is_some_and(|got| got.as_bytes() == value);
    let has_message = response.headers().get("grpc-message").is_some_and(|message| !message.is_empty());
    if is("grpc-status", b"12") && !has_message { status::unknown_method(path).into_http() } else { response }
}

/// Health and reflection, which run on the reactor.
async fn other<B>(mut routes: Routes, request: http::Request<B>) -> Result<http::Response<Body>, Infallible>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
{
    let (call, path) = (call_of(&request), request.uri().path().to_owned());
    let response = with_method(routes.call(request.map(Body::new)).await?, &path);
    Ok(response.map(|body| Body::new(ChargedBody { body, call })))
}
