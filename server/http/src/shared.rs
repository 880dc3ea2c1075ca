//! State that all routes share: the gRPC services, the runtime, and settings.

use std::{convert::Infallible, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tonic::body::Body as GrpcBody;
use tower::util::BoxCloneSyncService;

use crate::{access::Access, graphs::Graphs};

/// The gRPC services of the daemon in this process, with their layers.
pub type GrpcService = BoxCloneSyncService<http::Request<GrpcBody>, http::Response<GrpcBody>, Infallible>;

/// The settings of the routes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names and origins of requests.
    pub access: Access,
    /// Maximum size of a body in bytes.
    pub max_body: usize,
    /// The meaning of arrays of token ids in OpenAI's API.
    pub token_arrays: TokenArrays,
    /// The model of requests that name none; empty means the built-in one.
    pub model: String,
    /// The reranker of requests that name none; empty means the only one that is loaded.
    pub reranker: String,
    /// Maximum number of texts of a request.
    pub max_texts: usize,
    /// Maximum number of inputs of all requests together.
    pub max_items: u64,
    /// Whether the console is served.
    pub console: bool,
    /// Graphs as files, which are models of the Open Inference Protocol.
    pub graphs: Arc<Graphs>,
}

impl Settings {
    /// The model of a request.
    pub(crate) fn model_or_default(&self, asked: String) -> String {
        if asked.is_empty() { self.model.clone() } else { asked }
    }
}

/// State of all routes.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) grpc: GrpcService,
    pub(crate) offload: Handle,
    pub(crate) settings: Arc<Settings>,
}

/// The meaning of arrays of token ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenArrays {
    /// Texts in OpenAI's encoding `cl100k_base`.
    #[default]
    Cl100kBase,
    /// Token ids of the model.
    Model,
    /// Nothing: they are refused.
    Refuse,
}
