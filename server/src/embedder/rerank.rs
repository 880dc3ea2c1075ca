//! Reranks documents: encodes pairs of query and document with a cross-encoder and applies its classification head.

use std::sync::{Arc, OnceLock};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::ops::encode::{ClassificationHead, Encoded};
use accelerd_models::{EncoderModel, Model, Query, TokenizeError, TokenizeOptions, hf::Reranker};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};

use super::{
    call_work::CallWork,
    embed::Embedder,
    finite::{FiniteCheck, Items},
    options::{Options, ResolvedOptions},
    registry::LoadedModel,
    requests::RequestBuilder,
    tokenizer_pool::{TokenizeFn, TokenizedBatch},
};
use crate::{config::to_usize, error::ApiError};

/// Up to this many pairs are scored inline, which takes no longer than a thread switch.
const INLINE_ROWS: usize = 16;

/// A query and the documents to rank.
#[derive(Clone, Debug, Default)]
pub struct RerankQuery {
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Maximum number of results; 0 means all.
    pub top: usize,
    /// True to return the head's raw scores.
    pub raw_scores: bool,
    /// Maximum number of tokens of a pair; 0 means the model's limit.
    pub max_tokens: u32,
}

/// A document and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedDocument {
    /// Index in the request.
    pub index: u32,
    /// Score.
    pub score: f32,
}

/// Documents in the order of their scores.
#[derive(Clone, Debug, PartialEq)]
pub struct RerankResult {
    /// Highest score first.
    pub results: Vec<RankedDocument>,
    /// Number of tokens of each pair, in the order of the request.
    pub token_counts: Vec<u32>,
}

impl Embedder {
    /// The cross-encoder of this name or alias. An error names the ones that the caller sees.
    pub fn cross_encoder(
        &self,
        name: &str,
        is_visible: impl Fn(&LoadedModel) -> bool,
    ) -> Result<Arc<LoadedModel>, ApiError> {
        let wrong_model = |reason: String| {
            let models = self.models();
            let cross_encoders = models.iter().filter(|model| model.reranker().is_some() && is_visible(model));
            let loaded = cross_encoders.map(|model| model.name());
            let loaded: Vec<_> = loaded.collect();
            let loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") };
            ApiError::invalid("model", format!("{reason}; loaded cross-encoders: {loaded}"))
        };
        if name.is_empty() {
            return Err(wrong_model("expected the name of a cross-encoder".to_owned()));
        }
        let model = self.model(name)?;
        match model.reranker() {
            Some(_) if model.takes_texts() => Ok(model),
            Some(_) => Err(wrong_model(format!("{:?} has no tokenizer for pairs", model.name()))),
            None => Err(wrong_model(format!("expected a cross-encoder, {:?} is an embedding model", model.name()))),
        }
    }

    /// Ranks documents. Boxed for the same reason as [`Self::embed`].
    pub fn rerank<'a>(
        &'a self,
        model: &'a Arc<LoadedModel>,
        request: RerankQuery,
        context: Context,
    ) -> BoxFuture<'a, Result<RerankResult, ApiError>> {
        self.rerank_pairs(model, request, context).boxed()
    }

    async fn rerank_pairs(
        &self,
        model: &Arc<LoadedModel>,
        request: RerankQuery,
        context: Context,
    ) -> Result<RerankResult, ApiError> {
        self.check_pairs(model, &request)?;
        let RerankQuery { query, documents, top, raw_scores, max_tokens } = request;
        let limit = (max_tokens > 0).then_some(max_tokens as usize);
        let query_bytes = query.len();
        let query = self.tokenize_query(model, query, limit).await?;
        let pair: TokenizeFn =
            Arc::new(move |model, document, out| cross_encoder(model)?.0.pair(&query, document, out));
        let work = CallWork::new(documents.iter().map(|document| query_bytes + document.len()).collect());
        let batches = self.tokenizer_pool.batches(model, documents, pair);
        let batches = batches.map(|batch| batch.map_err(|error| rename_field(error, "documents")));
        let (scores, token_counts) = self.score(model, batches.boxed(), &work, context).await?;
        let sigmoid = !raw_scores && model.reranker().is_some_and(|(_, reranker)| reranker.sigmoid);
        Ok(RerankResult { results: rank(&scores, top, sigmoid), token_counts })
    }

    /// Tokenizes the query, once for all documents.
    async fn tokenize_query(
        &self,
        model: &Arc<LoadedModel>,
        text: String,
        limit: Option<usize>,
    ) -> Result<Query, ApiError> {
        let tokenized = Arc::new(OnceLock::new());
        let slot = Arc::clone(&tokenized);
        let split: TokenizeFn = Arc::new(move |model, text, out| {
            let query = cross_encoder(model)?.0.query(text, limit)?;
            out.end_text();
            slot.get_or_init(|| query);
            Ok(())
        });
        self.tokenizer_pool.tokenize(model, vec![text], split).await.map_err(|error| rename_field(error, "query"))?;
        let failed = || ApiError::Unavailable("tokenisation failed".to_owned());
        tokenized.get().cloned().ok_or_else(failed)
    }

    /// The raw scores of pairs, and the token count of each.
    pub(super) async fn score(
        &self,
        model: &Arc<LoadedModel>,
        batches: BoxStream<'static, Result<TokenizedBatch, ApiError>>,
        work: &CallWork,
        context: Context,
    ) -> Result<(Vec<f32>, Vec<u32>), ApiError> {
        let no_head = |_| ApiError::invalid("model", format!("{:?} is not a cross-encoder", model.name()));
        let (encoder, Reranker { head, .. }) = cross_encoder(model).map_err(no_head)?;
        let resolved = ResolvedOptions {
            dimensions: head.hidden(),
            normalize: false,
            pooling: head.pooling(),
            tokenize: TokenizeOptions::default(),
        };
        let encoder = &encoder.encoder;
        let precision = model.precision;
        let options = &Options::default();
        let builder = RequestBuilder { encoder, precision, options, resolved: &resolved };
        let check = FiniteCheck::new(model, Items::Documents);
        let then = |first, encoded| async move {
            let scores = score_pairs(Arc::clone(head), encoded).await?;
            check.rows(first, scores.iter().position(|score| !score.is_finite()))?;
            Ok(scores)
        };
        let (scores, token_counts) = self.encode_each(&builder, batches, work, context, then).boxed().await?;
        Ok((scores.concat(), token_counts))
    }

    /// Checks query and documents against the limits. The query counts once per document.
    fn check_pairs(&self, model: &Model, request: &RerankQuery) -> Result<(), ApiError> {
        let query = request.query.len();
        let documents = request.documents.len();
        if query == 0 {
            return Err(ApiError::invalid("query", "expected a text, got none"));
        }
        self.check_texts("documents", &request.documents)?;
        let max = to_usize(self.limits.max_text_bytes);
        let all = to_usize(self.limits.max_texts_bytes);
        if query > max || query.saturating_mul(documents) > all {
            let reason = format!("expected at most {max} bytes, and {all} over {documents} documents, got {query}");
            return Err(ApiError::invalid("query", reason));
        }
        match model.limits() {
            Some((max, _)) if request.max_tokens as usize > max => {
                let reason = format!("expected 0 to {max} for {:?}, got {}", model.name(), request.max_tokens);
                Err(ApiError::invalid("max_tokens", reason))
            }
            _ => Ok(()),
        }
    }
}

fn cross_encoder(model: &Model) -> Result<(&EncoderModel, &Reranker), TokenizeError> {
    model.reranker().ok_or(TokenizeError::NoTokenizer)
}

/// Applies the head to the pooled states of pairs.
async fn score_pairs(head: Arc<ClassificationHead>, encoded: Encoded) -> Result<Vec<f32>, ApiError> {
    let rows = encoded.rows;
    let work = move || {
        let numbers = encoded.bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        head.scores(&numbers.collect::<Vec<_>>())
    };
    let failed = |_| ApiError::Unavailable("scoring failed".to_owned());
    let scores = if rows <= INLINE_ROWS { work() } else { tokio::task::spawn_blocking(work).await.map_err(failed)? };
    scores.map_err(|error| SubmitError::Op(error).into())
}

/// Sorts by raw score, highest first, then by index; NaN comes last.
fn rank(scores: &[f32], top: usize, sigmoid: bool) -> Vec<RankedDocument> {
    let mut results: Vec<_> = (0..).zip(scores).map(|(index, score)| RankedDocument { index, score: *score }).collect();
    results.sort_by(|a, b| {
        let unordered = || a.score.is_nan().cmp(&b.score.is_nan());
        b.score.partial_cmp(&a.score).unwrap_or_else(unordered)
    });
    if top > 0 {
        results.truncate(top);
    }
    if sigmoid {
        for ranked in &mut results {
            ranked.score = (1.0 + (-ranked.score).exp()).recip();
        }
    }
    results
}

/// Renames the field `texts` in a tokenizer's error to the request's field.
fn rename_field(error: ApiError, name: &str) -> ApiError {
    let ApiError::Invalid { field, reason } = error else { return error };
    let field = match field.strip_prefix("texts") {
        Some(_) if name == "query" => name.to_owned(),
        Some(rest) => format!("{name}{rest}"),
        None => field,
    };
    ApiError::Invalid { field, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(scores: &[f32], top: usize) -> Vec<u32> {
        rank(scores, top, false).iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn results_are_sorted_by_score_then_index_with_nan_last() {
        assert_eq!(order(&[0.5, 2.0, -1.0, 2.0], 0), [1, 3, 0, 2]);
        assert_eq!(order(&[f32::NAN, -0.0, f32::NEG_INFINITY, 0.0, f32::NAN], 0), [1, 3, 2, 0, 4]);
        assert_eq!(order(&[0.5, 2.0, -1.0], 2), [1, 0]);
        assert!(order(&[], 3).is_empty());
    }

    #[test]
    fn sigmoid_bounds_scores_and_keeps_their_order() {
        let ranked = rank(&[40.0, 50.0, 0.0, -200.0], 0, true);
        let expected = [(1, 1.0), (0, 1.0), (2, 0.5), (3, 0.0)];
        assert_eq!(ranked, expected.map(|(index, score)| RankedDocument { index, score }));
    }

    #[test]
    fn errors_name_the_field_of_the_request() {
        let message = |field: &str, name| rename_field(ApiError::invalid(field, "bad"), name).to_string();
        assert_eq!(message("texts.values[3]", "documents"), "documents.values[3]: bad");
        assert_eq!(message("texts.values[0]", "query"), "query: bad");
        assert_eq!(message("query", "documents"), "query: bad");
    }
}
