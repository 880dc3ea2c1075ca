//! Documents in the order in which they answer a query.

use crate::{
    Client, Result,
    call::Method,
    embed::text_input,
    proto::{self, RankedDocument},
    timing::Timings,
};

const RERANK: Method<proto::RerankRequest, proto::RerankResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/Rerank");

/// How to put documents in order. The default is all of them, with scores as the model's own files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RerankOptions {
    /// Most results; 0 is all documents.
    pub top_n: u32,
    /// Scores as the classifier gives them, unbounded.
    pub raw_scores: bool,
    /// Most tokens of a query and a document together; 0 is the model's own limit.
    pub max_tokens: u32,
}

/// Documents in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Reranked {
    /// Their places in the call and their scores, best first.
    pub results: Vec<RankedDocument>,
    /// Tokens of each pair, in the order given.
    pub token_counts: Vec<u32>,
    /// The model that answered.
    pub model: String,
    /// Where the time went.
    pub timings: Timings,
}

impl Client {
    /// Orders documents by how well they answer a query, by a loaded cross-encoder.
    pub async fn rerank(
        &self,
        model: impl Into<String>,
        query: impl Into<String>,
        documents: impl IntoIterator<Item = impl Into<String>>,
        options: &RerankOptions,
    ) -> Result<Reranked> {
        let RerankOptions { top_n, raw_scores, max_tokens } = *options;
        let (model, query, documents) = (model.into(), query.into(), Some(text_input(documents)));
        let request = proto::RerankRequest { model, query, documents, top_n, raw_scores, max_tokens };
        let reply = self.unary(RERANK, request).await?;
        let proto::RerankResponse { results, token_counts, model } = reply.message;
        Ok(Reranked { results, token_counts, model, timings: reply.timings })
    }
}
