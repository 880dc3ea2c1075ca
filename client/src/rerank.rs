//! Reranking of documents by a cross-encoder.

use std::ops::Range;

use accelerd_proto::methods::embed_service;

use crate::{
    Client, Error, Result,
    call::Reply,
    embed::text_input,
    parts::text_bytes,
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
    /// Ranks documents by their relevance to a query, with a loaded cross-encoder; in several calls if they exceed a message.
    pub async fn rerank(
        &self,
        model: impl Into<String>,
        query: impl Into<String>,
        documents: impl IntoIterator<Item = impl Into<String>>,
        options: &RerankOptions,
    ) -> Result<Reranked> {
        let RerankOptions { top_n, raw_scores, max_tokens } = *options;
        let query = query.into();
        let common =
            proto::RerankRequest { model: model.into(), query, documents: None, top_n, raw_scores, max_tokens };
        let texts: Vec<String> = documents.into_iter().map(Into::into).collect();
        let call = |part: Range<usize>, until| {
            let documents = Some(text_input(&texts[part]));
            self.unary_until(embed_service::RERANK, proto::RerankRequest { documents, ..common.clone() }, until)
        };
        let parts = self.parts(texts.iter().map(|text| text_bytes(text)), common.query.len());
        joined(self.in_parts("documents", parts, call).await?, top_n)
    }
}

/// Merges ranked parts. Of equal scores the lower index comes first, and NaN comes last, as in one call.
fn joined(done: Vec<(Range<usize>, Reply<proto::RerankResponse>)>, top_n: u32) -> Result<Reranked> {
    let is_split = done.len() > 1;
    let mut all = Reranked { results: vec![], token_counts: vec![], model: String::new(), timings: Timings::default() };
    for (part, Reply { message, timings }) in done {
        let start =
            u32::try_from(part.start).map_err(|_| Error::Malformed("more documents than indices".to_owned()))?;
        let moved = |ranked: RankedDocument| RankedDocument { index: start.saturating_add(ranked.index), ..ranked };
        all.results.extend(message.results.into_iter().map(moved));
        all.token_counts.extend(message.token_counts);
        all.model = message.model;
        all.timings.add(timings);
    }
    if is_split {
        all.results.sort_by(|a, b| {
            let unordered = || a.score.is_nan().cmp(&b.score.is_nan());
            b.score.partial_cmp(&a.score).unwrap_or_else(unordered)
        });
        all.results.truncate(if top_n == 0 { usize::MAX } else { top_n as usize });
    }
    Ok(all)
}
