//! Connects the collections to the daemon: its callers, its embedder, its timings and its errors.

mod changes;
mod clustering;
mod cursor;
mod queries;
mod rows;
mod service;

use accelerd_collections::{BoxError, CollectionError, PromptChoice, TextEmbedder, TextOptions};
use accelerd_engine::Context;
use accelerd_kernels::Matrix;
use accelerd_store::Prompts;
use futures::{FutureExt as _, future::BoxFuture};

pub(crate) use self::{
    changes::UpsertCall,
    clustering::{ClusterCall, ClusterInput},
    queries::{FetchCall, FindSimilarCall, HybridCall, ScrollCall, SearchCall},
    rows::finite_rows,
    service::{CollectionService, CreateCall},
};
use crate::{
    embedder::{Embedder, Input, Options, prompts_of_collection},
    error::ApiError,
};

impl TextEmbedder for Embedder {
    fn dimensions(&self, model: &str, asked: u32) -> Result<u32, BoxError> {
        let model = self.embedding_model(model)?;
        let offered = model.offered_dimensions();
        match offered.first() {
            Some(all) if asked == 0 => Ok(*all),
            _ if model.offers(asked) => Ok(asked),
            _ => {
                let reason = format!("model {:?} offers {offered:?}, got {asked}", model.name());
                Err(ApiError::invalid("dimensions", reason).into())
            }
        }
    }

    fn digest(&self, model: &str) -> Result<String, BoxError> {
        Ok(self.embedding_model(model)?.digest().to_owned())
    }

    fn prompts(&self, model: &str, document: PromptChoice, query: PromptChoice) -> Result<Option<Prompts>, BoxError> {
        let model = self.embedding_model(model)?;
        Ok(prompts_of_collection(&model, document, query)?)
    }

    fn embed<'a>(
        &'a self,
        model: &'a str,
        texts: Vec<String>,
        options: TextOptions,
        context: Context,
    ) -> BoxFuture<'a, Result<(Matrix, String), BoxError>> {
        let embedded = async move {
            let TextOptions { dimensions, prompt, may_wait } = options;
            let options = Options { waits: may_wait, prompt, ..Options::unit(dimensions) };
            let model = self.model(model)?;
            let embedded = Embedder::embed(self, &model, Input::Texts(texts), &options, context).await?;
            Ok::<_, BoxError>((embedded.matrix()?, model.digest().to_owned()))
        };
        embedded.boxed()
    }
}

impl From<CollectionError> for ApiError {
    fn from(error: CollectionError) -> Self {
        match error {
            CollectionError::Invalid { field, reason } => Self::Invalid { field, reason },
            CollectionError::NotFound { kind, name } => Self::NotFound { kind, name },
            CollectionError::AlreadyExists { kind, name } => Self::AlreadyExists { kind, name },
            CollectionError::Denied(reason) => Self::Denied(reason),
            CollectionError::DataLoss(reason) => Self::DataLoss(reason),
            CollectionError::MemoryLimit(refusal) => Self::MemoryLimit { context: String::new(), refusal },
            CollectionError::Exhausted(reason) => Self::Exhausted(reason),
            CollectionError::Unavailable(reason) => Self::Unavailable(reason),
            error @ CollectionError::TextIndex(_) => Self::TextIndex(error.to_string()),
            CollectionError::Refused(refusal) => Self::Collection(refusal),
            CollectionError::Submit(error) => Self::Submit(error),
            // The daemon's own embedder returns no other errors.
            CollectionError::Embedder(error) => {
                error.downcast().map_or_else(|other| Self::Unavailable(other.to_string()), |error| *error)
            }
        }
    }
}
