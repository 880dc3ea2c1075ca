//! Documents to their order: pairs of a query and a document through a cross-encoder's lane, and their states through its
//! head.

use std::sync::{Arc, OnceLock};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::ops::encode::{Encoded, Head};
use accelerd_models::{Cut, CutError, EncoderModel, Model, Query, hf::Reranker};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};

use super::{
    Embedder, Options, Served,
    cut::{Each, Part},
    options::Choice,
    plan::Plan,
};
use crate::{config::to_usize, error::ApiError};

/// States of more pairs than this are scored beside the threads that serve calls: fewer take no longer than that.
const INLINE_ROWS: usize = 16;

/// What is to be put in order, and how.
#[derive(Clone, Debug, Default)]
pub struct Reranking {
    /// What the documents are to answer.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Most results; 0: all.
    pub top: usize,
    /// Whether scores stay as the head gives them.
    pub raw_scores: bool,
    /// Most tokens of a pair; 0 is the model's own limit.
    pub max_tokens: u32,
}

/// A document and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Its place in the request.
    pub index: u32,
    /// Its score.
    pub score: f32,
}

/// Documents in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Reranked {
    /// Best first.
    pub results: Vec<Ranked>,
    /// Tokens of each pair, in the order of the request.
    pub token_counts: Vec<u32>,
}

impl Embedder {
    /// The cross-encoder of this name or alias.
    pub fn cross_encoder(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let wrong = |what: String| {
            let models = self.models();
            let loaded = models.iter().filter(|model| model.reranker().is_some()).map(|model| model.name());
            let loaded: Vec<_> = loaded.collect();
            let loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") };
            ApiError::invalid("model", format!("{what}; the cross-encoders that are loaded: {loaded}"))
        };
        if name.is_empty() {
            return Err(wrong("expected the name of a cross-encoder".to_owned()));
        }
        let model = self.model(name)?;
        match model.reranker() {
            Some(_) if model.takes_texts() => Ok(model),
            Some(_) => Err(wrong(format!("{:?} has no tokeniser to make pairs with", model.name()))),
            None => Err(wrong(format!("{:?} makes vectors of texts, and is no cross-encoder", model.name()))),
        }
    }

    /// Puts documents in order. Boxed, as embedding is.
    pub fn rerank<'a>(
        &'a self,
        model: &'a Arc<Served>,
        asked: Reranking,
        context: Context,
    ) -> BoxFuture<'a, Result<Reranked, ApiError>> {
        self.rerank_pairs(model, asked, context).boxed()
    }

    async fn rerank_pairs(
        &self,
        model: &Arc<Served>,
        asked: Reranking,
        context: Context,
    ) -> Result<Reranked, ApiError> {
        self.check_pairs(model, &asked)?;
        let Reranking { query, documents, top, raw_scores, max_tokens } = asked;
        let limit = (max_tokens > 0).then_some(max_tokens as usize);
        let query = self.query(model, query, limit).await?;
        let pair: Each = Arc::new(move |model, document, out| cross_encoder(model)?.0.pair(&query, document, out));
        let parts = self.cutter.parts(model, documents, pair).map(|part| part.map_err(|e| of_field(e, "documents")));
        let (scores, token_counts) = self.score(model, parts.boxed(), context).await?;
        let sigmoid = !raw_scores && model.reranker().is_some_and(|(_, reranker)| reranker.sigmoid);
        Ok(Reranked { results: best(&scores, top, sigmoid), token_counts })
    }

    /// Splits the query, once for all documents.
    async fn query(&self, model: &Arc<Served>, text: String, limit: Option<usize>) -> Result<Query, ApiError> {
        let made = Arc::new(OnceLock::new());
        let keep = Arc::clone(&made);
        let split: Each = Arc::new(move |model, text, out| {
            let query = cross_encoder(model)?.0.query(text, limit)?;
            out.end_text();
            keep.get_or_init(|| query);
            Ok(())
        });
        self.cutter.all(model, vec![text], split).await.map_err(|error| of_field(error, "query"))?;
        let unmade = || ApiError::Unavailable("tokenisation was stopped".to_owned());
        made.get().cloned().ok_or_else(unmade)
    }

    /// The raw scores of pairs, with the tokens of each.
    pub(super) async fn score(
        &self,
        model: &Arc<Served>,
        parts: BoxStream<'static, Result<Part, ApiError>>,
        context: Context,
    ) -> Result<(Vec<f32>, Vec<u32>), ApiError> {
        let no_head = |_| ApiError::invalid("model", format!("{:?} is no cross-encoder", model.name()));
        let (encoder, Reranker { head, .. }) = cross_encoder(model).map_err(no_head)?;
        let choice =
            Choice { dimensions: head.hidden(), normalize: false, pooling: head.pooling(), cut: Cut::default() };
        let (encoder, precision, options) = (&encoder.encoder, model.precision, &Options::default());
        let plan = Plan { encoder, precision, options, choice: &choice };
        let then = |answer| scored(Arc::clone(head), answer);
        let (scores, token_counts) = self.encode_each(&plan, parts, context, then).boxed().await?;
        Ok((scores.concat(), token_counts))
    }

    /// Checks query and documents against the limits. The query is read with every document, so it counts as often.
    fn check_pairs(&self, model: &Model, asked: &Reranking) -> Result<(), ApiError> {
        let (query, documents) = (asked.query.len(), asked.documents.len());
        if query == 0 {
            return Err(ApiError::invalid("query", "expected a text, got none"));
        }
        self.check_texts("documents", &asked.documents)?;
        let (most, all) = (to_usize(self.limits.max_text_bytes), to_usize(self.limits.max_texts_bytes));
        if query > most || query.saturating_mul(documents) > all {
            let reason = format!("expected at most {most} bytes, and {all} over {documents} documents, got {query}");
            return Err(ApiError::invalid("query", reason));
        }
        match model.limits() {
            Some((most, _)) if asked.max_tokens as usize > most => {
                let reason = format!("expected 0 to {most} for {:?}, got {}", model.name(), asked.max_tokens);
                Err(ApiError::invalid("max_tokens", reason))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a model that makes no vectors.
pub(super) fn must_embed(model: &Model) -> Result<(), ApiError> {
    if model.reranker().is_none() {
        return Ok(());
    }
    let reason = format!("{:?} is a cross-encoder: it scores pairs by Rerank, and makes no vectors", model.name());
    Err(ApiError::invalid("model", reason))
}

fn cross_encoder(model: &Model) -> Result<(&EncoderModel, &Reranker), CutError> {
    model.reranker().ok_or(CutError::NoTokenizer)
}

/// The scores of an answer's states.
async fn scored(head: Arc<Head>, answer: Encoded) -> Result<Vec<f32>, ApiError> {
    let rows = answer.rows;
    let work = move || {
        let numbers = answer.bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        head.scores(&numbers.collect::<Vec<_>>())
    };
    let stopped = |_| ApiError::Unavailable("scoring was stopped".to_owned());
    let scores = if rows <= INLINE_ROWS { work() } else { tokio::task::spawn_blocking(work).await.map_err(stopped)? };
    scores.map_err(|error| SubmitError::Op(error).into())
}

/// The best raw scores first, the lower index where they are equal, what is no number last.
fn best(scores: &[f32], top: usize, sigmoid: bool) -> Vec<Ranked> {
    let mut results: Vec<_> = (0..).zip(scores).map(|(index, score)| Ranked { index, score: *score }).collect();
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

/// An error of the texts that are cut here, which callers know by another field.
fn of_field(error: ApiError, name: &str) -> ApiError {
    match error {
        ApiError::Invalid { field, reason } => {
            let field = match field.strip_prefix("texts") {
                Some(_) if name == "query" => name.to_owned(),
                Some(rest) => format!("{name}{rest}"),
                None => field,
            };
            ApiError::Invalid { field, reason }
        }
        other @ (ApiError::NotFound { .. }
        | ApiError::AlreadyExists { .. }
        | ApiError::Denied(_)
        | ApiError::DataLoss(_)
        | ApiError::AnswerTooLarge { .. }
        | ApiError::Exhausted(_)
        | ApiError::Unavailable(_)
        | ApiError::Words(_)
        | ApiError::Submit(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(scores: &[f32], top: usize) -> Vec<u32> {
        best(scores, top, false).iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn the_best_come_first_ties_by_index_and_what_is_no_number_last() {
        assert_eq!(order(&[0.5, 2.0, -1.0, 2.0], 0), [1, 3, 0, 2]);
        assert_eq!(order(&[f32::NAN, -0.0, f32::NEG_INFINITY, 0.0, f32::NAN], 0), [1, 3, 2, 0, 4]);
        assert_eq!(order(&[0.5, 2.0, -1.0], 2), [1, 0]);
        assert!(order(&[], 3).is_empty());
    }

    #[test]
    fn the_logistic_function_bounds_scores_and_keeps_the_order_of_raw_ones() {
        let ranked = best(&[40.0, 50.0, 0.0, -200.0], 0, true);
        let expected = [(1, 1.0), (0, 1.0), (2, 0.5), (3, 0.0)];
        assert_eq!(ranked, expected.map(|(index, score)| Ranked { index, score }));
    }

    #[test]
    fn errors_name_the_field_that_the_caller_knows() {
        let told = |field: &str, name| of_field(ApiError::invalid(field, "bad"), name).to_string();
        assert_eq!(told("texts.values[3]", "documents"), "documents.values[3]: bad");
        assert_eq!(told("texts.values[0]", "query"), "query: bad");
        assert_eq!(told("query", "documents"), "query: bad");
    }
}
