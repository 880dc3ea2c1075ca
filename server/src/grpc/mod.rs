//! The gRPC services. A file here decodes, submits and encodes; it computes nothing.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{self, Poll},
};

use accelerd_engine::{Context, Priority};
use accelerd_proto::v1::{
    device_service_server::DeviceServiceServer, embed_service_server::EmbedServiceServer,
    parse_service_server::ParseServiceServer, similarity_service_server::SimilarityServiceServer,
};
use bytes::Bytes;
use http_body::Body as HttpBody;
use tonic::{
    Request,
    body::Body,
    codec::CompressionEncoding,
    codegen::{BoxFuture, StdError},
    server::NamedService,
    service::Routes,
};
use tower::Service;

use crate::{layers::deadline::Deadline, serve::App};

mod bulk;
pub mod convert;
pub mod device;
pub mod embed;
pub mod parse;
pub mod similarity;
pub mod status;

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

/// Every service of the main port. Ours are found by the start of the path, which is cheaper than a router; what is
/// called seldom goes through one.
#[derive(Clone)]
pub(crate) struct Services(Arc<Table>);

struct Table {
    embed: EmbedServiceServer<embed::Embed>,
    similarity: SimilarityServiceServer<similarity::Similarity>,
    bulk: bulk::Served,
    parse: ParseServiceServer<parse::Parser>,
    device: DeviceServiceServer<device::Devices>,
    other: Routes,
}

/// Sets sizes and compressions of a generated server.
macro_rules! limited {
    ($service:expr, $app:expr) => {{
        let most = $app.config.server.max_message();
        $service
            .max_decoding_message_size(most)
            .max_encoding_message_size(most)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Gzip)
    }};
}

impl Services {
    /// The services of a daemon.
    pub(crate) fn new(app: &Arc<App>) -> Self {
        let other = Routes::new(app.health.service());
        let other = if app.config.server.reflection { reflect(other) } else { other };
        Self(Arc::new(Table {
            embed: limited!(embed::service(app), app),
            similarity: limited!(similarity::service(&app.similarity), app),
            bulk: bulk::Served {
                service: similarity::Similarity(app.similarity.clone()),
                limit: app.config.server.max_message(),
                control: app.control.clone(),
            },
            parse: limited!(parse::service(app), app),
            device: limited!(device::service(app), app),
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
        (Ok(v1), Ok(v1alpha)) => routes.add_service(v1).add_service(v1alpha),
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
        let path = request.uri().path();
        if names(path, &self.0.embed) {
            self.0.embed.clone().call(request)
        } else if let Some(method) = bulk::Method::of(&request) {
            method.call(&self.0.bulk, request)
        } else if names(path, &self.0.similarity) {
            self.0.similarity.clone().call(request)
        } else if names(path, &self.0.parse) {
            self.0.parse.clone().call(request)
        } else if names(path, &self.0.device) {
            self.0.device.clone().call(request)
        } else {
            Box::pin(self.0.other.clone().call(request))
        }
    }
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
