//! Embedding and reranking: models, tokenisation, and requests to the lanes of tables and encoders.

mod call_work;
mod embed;
mod eviction;
mod finite;
mod load;
mod options;
mod prompts;
mod registry;
mod requests;
mod rerank;
mod service;
mod tokenize;
mod tokenizer_pool;

pub use embed::{BUILTIN, Embedded, Embedder, Input, Tokens};
pub use options::{Options, Span};
pub(crate) use prompts::of_collection as prompts_of_collection;
pub use registry::{LoadedModel, ModelSource};
pub use rerank::{RankedDocument, RerankQuery, RerankResult};
pub(crate) use service::{EmbedCall, EmbeddedBy, EmbeddingService};
pub use tokenize::TokenSpans;
