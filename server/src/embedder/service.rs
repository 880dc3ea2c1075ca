//! The service of embeddings: the models that a caller may use, and what the caller does with them.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::ops::encode::Precision;
use futures::{Stream, stream::BoxStream};

use super::{
    embed::{Embedded, Embedder, Input, Tokens},
    options::Options,
    registry::{LoadedModel, ModelSource},
    rerank::{RerankQuery, RerankResult},
    tokenize::TokenSpans,
};
use crate::{
    auth::caller::Caller,
    batches::{self, Numbered},
    error::{ApiError, Decoded},
};

/// Texts or tokens to embed, as a caller sends them.
pub(crate) struct EmbedCall {
    /// Name or alias of the model; empty means the built-in one.
    pub(crate) model: String,
    /// Without `waits` and `max_response_bytes`, which the service sets.
    pub(crate) options: Decoded<Options>,
    pub(crate) input: Decoded<Input>,
}

/// Vectors, with the model that computed them.
pub(crate) type EmbeddedBy = (Embedded, Arc<LoadedModel>);

/// The models and their lanes.
#[derive(Debug)]
pub(crate) struct EmbeddingService {
    embedder: Embedder,
    /// Maximum size of a response in bytes.
    max_message: usize,
}

impl EmbeddingService {
    pub(crate) fn new(embedder: Embedder, max_message: usize) -> Self {
        Self { embedder, max_message }
    }

    /// Embeds texts or tokens. Fails while the lane is full.
    pub(crate) async fn embed(
        &self,
        caller: &Caller,
        call: EmbedCall,
        context: Context,
    ) -> Result<EmbeddedBy, ApiError> {
        self.run(caller, call, false, context).await
    }

    /// Embeds the batches of a stream. They wait while the lane is full: a stream has its own backpressure.
    pub(crate) fn embed_stream<E: From<ApiError> + Send + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        context: Context,
        batches: impl Stream<Item = Result<Numbered<EmbedCall>, E>> + Send + 'static,
    ) -> BoxStream<'static, Result<Numbered<EmbeddedBy>, E>> {
        let service = Arc::clone(self);
        batches::answers(batches, move |call| {
            let service = Arc::clone(&service);
            let caller = caller.clone();
            let context = context.clone();
            async move { service.run(&caller, call, true, context).await }
        })
    }

    async fn run(
        &self,
        caller: &Caller,
        call: EmbedCall,
        waits: bool,
        context: Context,
    ) -> Result<EmbeddedBy, ApiError> {
        let model = self.embedder.model_for(caller, &call.model)?;
        let options = Options { waits, max_response_bytes: Some(self.max_message), ..call.options? };
        let embedded = self.embedder.embed(&model, call.input?, &options, context).await?;
        Ok((embedded, model))
    }

    /// Ranks documents by the cross-encoder of this name or alias. Returns the model, too.
    pub(crate) async fn rerank(
        &self,
        caller: &Caller,
        model: &str,
        query: RerankQuery,
        context: Context,
    ) -> Result<(RerankResult, Arc<LoadedModel>), ApiError> {
        if !model.is_empty() {
            self.embedder.model_for(caller, model)?;
        }
        let model = self.embedder.cross_encoder(model, |model| caller.sees_model(model.names()))?;
        Ok((self.embedder.rerank(&model, query, context).await?, model))
    }

    /// Tokenizes texts as the model of this name or alias does.
    pub(crate) async fn tokenize(
        &self,
        caller: &Caller,
        model: &str,
        texts: Decoded<Vec<String>>,
        with_spans: bool,
    ) -> Result<(Tokens, TokenSpans), ApiError> {
        let model = self.embedder.model_for(caller, model)?;
        self.embedder.tokenize(&model, texts?, with_spans).await
    }

    /// The models that the caller may use, sorted by name.
    pub(crate) fn models(&self, caller: &Caller) -> Vec<Arc<LoadedModel>> {
        let mut models = self.embedder.models();
        models.retain(|model| caller.sees_model(model.names()));
        models
    }

    /// Loads a model, whose number type is `precision` instead of the source's.
    pub(crate) async fn load(
        &self,
        caller: &Caller,
        source: ModelSource,
        precision: Decoded<Precision>,
    ) -> Result<Arc<LoadedModel>, ApiError> {
        for name in std::iter::once(&source.name).chain(&source.aliases) {
            caller.check_model(name, [name.as_str()])?;
        }
        let model = self.embedder.load(ModelSource { precision: precision?, ..source }).await?;
        tracing::info!(model = model.name(), bytes = model.bytes(), "model loaded");
        caller.record_change(model.name());
        Ok(model)
    }

    /// Unloads a model by name or alias. Returns its name.
    pub(crate) async fn unload(&self, caller: &Caller, name: &str) -> Result<String, ApiError> {
        self.embedder.model_for(caller, name)?;
        let name = self.embedder.unload(name).await?;
        tracing::info!(model = name, "model unloaded");
        caller.record_change(&name);
        Ok(name)
    }
}
