//! Reranking of documents by a cross-encoder.

use accelerd_proto::methods::embed_service;

use crate::{
    Client, Result,
    embed::text_input,
    proto::{self, RankedDocument},
    timing::Timings,
};

/// Options of a reranking. The default is all documents, with the model's activation function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RerankOptions {
    /// Maximum number of results; 0 means all documents.
    pub top_n: u32,
    /// True to return the classifier's logits instead of activated scores.
    pub raw_scores: bool,
    /// Maximum tokens of a query and a document together; 0 means the model's default.
    pub max_tokens: u32,
}

/// Result of a reranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Reranked {
    /// Indices and scores of the documents, best first.
    pub results: Vec<RankedDocument>,
    /// Number of tokens of each pair, in the order of the request.
    pub token_counts: Vec<u32>,
    /// Name of the model.
    pub model: String,
    /// Server-side timings.
    pub timings: Timings,
}

impl Client {
    /// Ranks documents by their relevance to a query, with a loaded cross-encoder.
    pub async fn rerank(
        &self,
        model: impl Into<String>,
        query: impl Into<String>,
        documents: impl IntoIterator<Item = impl Into<String>>,
        options: &RerankOptions,
    ) -> Result<Reranked> {
        let RerankOptions { top_n, raw_scores, max_tokens } = *options;
        let model = model.into();
        let query = query.into();
        let documents = Some(text_input(documents));
        let request = proto::RerankRequest { model, query, documents, top_n, raw_scores, max_tokens };
        let reply = self.unary(embed_service::RERANK, request).await?;
        let proto::RerankResponse { results, token_counts, model } = reply.message;
        Ok(Reranked { results, token_counts, model, timings: reply.timings })
    }
}
