//! The gRPC services. A file here decodes, submits and encodes; it computes nothing.

use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{self, Poll},
};

use accelerd_engine::{Context, Priority};
use accelerd_proto::v1::{
    device_service_server::DeviceServiceServer,
    embed_service_server::{EmbedService as _, EmbedServiceServer},
    parse_service_server::{ParseService as _, ParseServiceServer},
    similarity_service_server::{SimilarityService as _, SimilarityServiceServer},
};
use bytes::Bytes;
use http_body::Body as HttpBody;
use tonic::{
    Request,
    body::Body,
    codegen::{BoxFuture, StdError},
    server::NamedService,
    service::Routes,
};
use tower::Service;

use self::{
    answer::Charged,
    call::{Calls, account},
};
use crate::{layers::deadline::Deadline, serve::App};

mod answer;
mod call;
pub mod compression;
pub mod convert;
mod decoded_size;
pub mod device;
pub mod embed;
pub mod parse;
mod receive;
pub mod similarity;
pub mod status;
mod weigh;

/// The header that says how urgent a call is: `low`, `normal` or `high`.
pub const PRIORITY: &str = "accelerd-priority";

/// What the engine must know of a call beside its request: deadline, priority, principal.
pub fn context<T>(request: &Request<T>) -> Context {
    Context {
        deadline: request.extensions().get::<Deadline>().map(|deadline| deadline.0),
        priority: request.metadata().get(PRIORITY).map_or(Priority::Normal, |value| priority(value.as_bytes())),
        ..Context::default()
    }
}

/// An unknown priority is no reason to refuse work; it is normal.
fn priority(value: &[u8]) -> Priority {
    match value {
        b"low" => Priority::Low,
        b"high" => Priority::High,
        _ => Priority::Normal,
    }
}

/// Every service of the main port. Methods with large messages run by [`call::Calls`], the others by the generated servers.
#[derive(Clone)]
pub(crate) struct Services(Arc<Table>);

struct Table {
    calls: Calls,
    embed: Arc<embed::Embed>,
    similarity: Arc<similarity::Similarity>,
    parse: Arc<parse::Parser>,
    embed_server: EmbedServiceServer<embed::Embed>,
    similarity_server: SimilarityServiceServer<similarity::Similarity>,
    parse_server: ParseServiceServer<parse::Parser>,
    device_server: DeviceServiceServer<device::Devices>,
    other: Routes,
}

/// Requests of health and reflection have at most this many bytes: they are received outside the memory of the transport.
pub(crate) const SMALL_REQUEST: usize = 4 << 10;

/// Sets the sizes of a generated server. Its messages were received, and so decompressed, before.
macro_rules! limited {
    ($service:expr, $app:expr) => {{
        let most = $app.config.server.max_message();
        $service.max_decoding_message_size(most).max_encoding_message_size(most)
    }};
}

impl Services {
    /// The services of a daemon.
    pub(crate) fn new(app: &Arc<App>) -> Self {
        let other = Routes::new(app.health.service());
        let other = if app.config.server.reflection { reflect(other) } else { other };
        let largest = usize::try_from(app.messages.largest_message()).unwrap_or(usize::MAX);
        let limit = app.config.server.max_message().min(largest);
        let embedder = app.embedder.clone();
        let dimensions = Arc::new(move |model: &str| embedder.model(model).map_or(0, |model| model.dimensions()));
        let calls = Calls { limit, offload: app.offload.handle().clone(), dimensions };
        let embed = Arc::new(embed::Embed::new(app));
        let similarity = Arc::new(similarity::Similarity::new(&app.similarity));
        let parse = Arc::new(parse::Parser::new(app));
        Self(Arc::new(Table {
            calls,
            embed_server: limited!(EmbedServiceServer::from_arc(Arc::clone(&embed)), app),
            similarity_server: limited!(SimilarityServiceServer::from_arc(Arc::clone(&similarity)), app),
            parse_server: limited!(ParseServiceServer::from_arc(Arc::clone(&parse)), app),
            device_server: limited!(device::service(app), app),
            embed,
            similarity,
            parse,
            other: other.prepare(),
        }))
    }
}

/// Adds reflection, in the version that is and the one that old tools ask for.
fn reflect(routes: Routes) -> Routes {
    let sets = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(accelerd_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The types of error details, so that tools can show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    match (sets().build_v1(), sets().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(SMALL_REQUEST))
            .add_service(v1alpha.max_decoding_message_size(SMALL_REQUEST)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is not served");
            routes
        }
    }
}

/// Whether a path is one of a service's.
fn names<S: NamedService>(path: &str, _: &S) -> bool {
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
        let calls = table.calls.clone();
        /// Runs a call by a method of a service.
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
                let handler = move |context, batches| service.$method(context, batches);
                Box::pin(ready(Ok(calls.stream(request, handler))))
            }};
        }
        macro_rules! generated {
            ($server:ident) => {{
                let server = table.$server.clone();
                Box::pin(async move { Ok(calls.generated(request, server).await) })
            }};
        }
        let path = request.uri().path();
        match path {
            "/accelerd.v1.EmbedService/Embed" => unary!(embed.embed),
            "/accelerd.v1.EmbedService/EmbedStream" => streaming!(embed.embed_batches),
            "/accelerd.v1.EmbedService/Rerank" => unary!(embed.rerank),
            "/accelerd.v1.EmbedService/Tokenize" => unary!(embed.tokenize),
            "/accelerd.v1.ParseService/Parse" => unary!(parse.parse),
            "/accelerd.v1.ParseService/ParseStream" => streaming!(parse.parse_batches),
            "/accelerd.v1.SimilarityService/Cluster" => unary!(similarity.cluster),
            "/accelerd.v1.SimilarityService/FindSimilar" => unary!(similarity.find_similar),
            "/accelerd.v1.SimilarityService/GetPoints" => unary!(similarity.get_points),
            "/accelerd.v1.SimilarityService/Search" => unary!(similarity.search),
            "/accelerd.v1.SimilarityService/Upsert" => unary!(similarity.upsert),
            "/accelerd.v1.SimilarityService/UpsertStream" => streaming!(similarity.upsert_batches),
            _ if names(path, &table.embed_server) => generated!(embed_server),
            _ if names(path, &table.similarity_server) => generated!(similarity_server),
            _ if names(path, &table.parse_server) => generated!(parse_server),
            _ if names(path, &table.device_server) => generated!(device_server),
            _ => Box::pin(other(table.other.clone(), request)),
        }
    }
}

/// Health and reflection: little to compute, and nothing that waits for another thread.
async fn other<B>(mut routes: Routes, request: http::Request<B>) -> Result<http::Response<Body>, Infallible>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
{
    let call = account(&request);
    let response = routes.call(request.map(Body::new)).await?;
    Ok(response.map(|body| Body::new(Charged { body, call })))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_context_has_deadline_and_priority() {
        let mut request = Request::new(());
        assert_eq!(context(&request).priority, Priority::Normal);
        assert_eq!(context(&request).deadline, None);
        let deadline = Instant::now();
        request.extensions_mut().insert(Deadline(deadline));
        request.metadata_mut().insert(PRIORITY, "high".parse().expect("ascii"));
        assert_eq!(context(&request).priority, Priority::High);
        assert_eq!(context(&request).deadline, Some(deadline));
    }
}
