//! The API of Text Embeddings Inference (TEI) of Hugging Face.

use std::borrow::Cow;

use accelerd_proto::{methods::embed_service, v1 as pb};
use axum::response::Response;
use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::{
    models, rerank,
    vectors::{Inputs, Vector, embed, reranker},
};
use crate::{exchange::Exchange, failure::Failure};

/// A request for vectors.
#[derive(Deserialize)]
struct EmbedRequest {
    inputs: Inputs,
    /// Whether long inputs are truncated, or refused.
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    normalize: Option<bool>,
    prompt_name: Option<String>,
    dimensions: Option<u32>,
    /// The model, which TEI has one of.
    model: Option<String>,
}

/// The side on which long inputs are truncated.
#[derive(Clone, Copy, Deserialize)]
enum Direction {
    #[serde(alias = "left")]
    Left,
    #[serde(alias = "right")]
    Right,
}

impl EmbedRequest {
    fn into_request(self, exchange: &Exchange, normalize: Option<bool>) -> pb::EmbedRequest {
        let long_input = match self.truncate {
            Some(false) => pb::LongInput::Error,
            Some(true) | None => pb::LongInput::Truncate,
        };
        let side = match self.truncation_direction {
            None => pb::TruncationSide::Unspecified,
            Some(Direction::Left) => pb::TruncationSide::Left,
            Some(Direction::Right) => pb::TruncationSide::Right,
        };
        pb::EmbedRequest {
            model: exchange.shared.settings.model_or_default(self.model.unwrap_or_default()),
            input: Some(self.inputs.into_request()),
            dimensions: self.dimensions.unwrap_or(0),
            normalize,
            prompt_name: self.prompt_name.unwrap_or_default(),
            truncation_side: side.into(),
            long_input: long_input.into(),
            ..Default::default()
        }
    }
}

/// A request for scores.
#[derive(Deserialize)]
struct RerankRequest {
    query: String,
    texts: Vec<String>,
    raw_scores: Option<bool>,
    return_text: Option<bool>,
    model: Option<String>,
}

/// A text and its score, best first.
#[derive(Serialize)]
struct Rank<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    score: f32,
}

/// A failure in TEI's form.
pub(crate) fn error(failure: &Failure) -> Value {
    let kind = match failure.status {
        StatusCode::TOO_MANY_REQUESTS => "Overloaded",
        StatusCode::SERVICE_UNAVAILABLE => "Unhealthy",
        status if status.is_server_error() => "Backend",
        _ => "Validation",
    };
    json!({ "error": failure.message, "error_type": kind })
}

/// `POST /embed`: one vector for each input, normalised unless told otherwise.
pub(crate) fn embed_inputs(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<EmbedRequest>().await?;
        respond_vectors(&exchange, request).await
    }
    .boxed()
}

async fn respond_vectors(exchange: &Exchange, request: EmbedRequest) -> Result<Response, Failure> {
    let normalize = Some(request.normalize.unwrap_or(true));
    let vectors = embed(exchange, &request.into_request(exchange, normalize)).await?;
    exchange.respond(&vectors.rows().collect::<Vec<_>>(), vectors.text_bytes())
}

/// `POST /embed_all`: the vectors of all tokens of each input.
pub(crate) fn embed_all(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<EmbedRequest>().await?;
        let pooling = pb::Pooling::None.into();
        let request = pb::EmbedRequest { pooling, ..request.into_request(&exchange, Some(false)) };
        let vectors = embed(&exchange, &request).await?;
        let mut rows = vectors.rows();
        let of_input = |count: &u32| rows.by_ref().take(*count as usize).collect::<Vec<Vector<'_>>>();
        exchange.respond(&vectors.token_counts.iter().map(of_input).collect::<Vec<_>>(), vectors.text_bytes())
    }
    .boxed()
}

/// `POST /rerank`. A body with documents is Jina's, as vLLM and Infinity have it at this path.
pub(crate) fn rerank(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    /// A body of either kind.
    #[derive(Deserialize)]
    struct Kind {
        documents: Option<IgnoredAny>,
    }
    async move {
        let mut exchange = exchange;
        let (kind, received) = exchange.json::<Kind>().await?;
        if kind.documents.is_some() {
            return rerank::respond_jina(&exchange, received.json()?).await;
        }
        respond_ranks(&exchange, received.json()?).await
    }
    .boxed()
}

async fn respond_ranks(exchange: &Exchange, request: RerankRequest) -> Result<Response, Failure> {
    let returns_text = request.return_text.unwrap_or(false);
    let request = pb::RerankRequest {
        model: reranker(exchange, request.model).await?,
        query: request.query,
        documents: Some(pb::TextInput { values: request.texts }),
        raw_scores: request.raw_scores.unwrap_or(false),
        ..Default::default()
    };
    let response = exchange.call(embed_service::RERANK, &request).await?;
    let texts = request.documents.map(|documents| documents.values).unwrap_or_default();
    let text = |index: u32| texts.get(index as usize).filter(|_| returns_text).map(String::as_str);
    let rank = |result: &pb::RankedDocument| {
        let pb::RankedDocument { index, score } = *result;
        Rank { index, text: text(index), score }
    };
    exchange.respond(&response.results.iter().map(rank).collect::<Vec<_>>(), 0)
}

/// A request to compare a sentence with others.
#[derive(Deserialize)]
struct SimilarityRequest {
    inputs: Sentences,
    parameters: Option<SimilarityParameters>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Sentences {
    source_sentence: String,
    sentences: Vec<String>,
}

#[derive(Default, Deserialize)]
struct SimilarityParameters {
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
}

/// `POST /similarity`: the cosine of a sentence and each of the others.
pub(crate) fn similarity(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<SimilarityRequest>().await?;
        respond_similarities(&exchange, request).await
    }
    .boxed()
}

async fn respond_similarities(exchange: &Exchange, request: SimilarityRequest) -> Result<Response, Failure> {
    let SimilarityRequest { inputs: Sentences { source_sentence, mut sentences }, parameters, model } = request;
    if sentences.is_empty() {
        return Err(Failure::invalid("inputs.sentences", "expected at least one"));
    }
    sentences.insert(0, source_sentence);
    let SimilarityParameters { truncate, truncation_direction, prompt_name } = parameters.unwrap_or_default();
    let request = EmbedRequest {
        inputs: Inputs::Texts(sentences),
        truncate,
        truncation_direction,
        normalize: None,
        prompt_name,
        dimensions: None,
        model,
    };
    // The vectors have unit length.
    let vectors = embed(exchange, &request.into_request(exchange, Some(true))).await?;
    let mut rows = vectors.rows();
    let source = rows.next().map(Vector::values).unwrap_or_default();
    exchange.respond(&rows.map(|row| dot(&source, &row.values())).collect::<Vec<_>>(), 0)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// `POST /`: `/rerank` for a body with a query, `/similarity` for one with sentences, else `/embed`.
pub(crate) fn predict(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    /// A body of any kind.
    #[derive(Deserialize)]
    struct Kind {
        query: Option<IgnoredAny>,
    }
    async move {
        let mut exchange = exchange;
        let (kind, received) = exchange.json::<Kind>().await?;
        if kind.query.is_some() {
            return respond_ranks(&exchange, received.json()?).await;
        }
        // Other inputs fail at their first character.
        match received.json() {
            Ok(request) => respond_similarities(&exchange, request).await,
            Err(_) => respond_vectors(&exchange, received.json()?).await,
        }
    }
    .boxed()
}

/// `GET /info`.
pub(crate) fn info(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let models = models::list(&exchange).await?;
        let name = exchange.shared.settings.model_or_default(String::new());
        let name = if name.is_empty() { "builtin" } else { &name };
        let missing = || Failure::new(StatusCode::NOT_FOUND, format!("the model {name:?} of http.model is not loaded"));
        let model = models::named(&models, name).ok_or_else(missing)?;
        let kind = if model.cross_encoder {
            json!({ "reranker": { "id2label": { "0": "LABEL_0" }, "label2id": { "LABEL_0": 0 } } })
        } else {
            json!({ "embedding": { "pooling": pooling_name(model.pooling()) } })
        };
        let answer = json!({
            "model_id": model.name,
            "model_sha": model.sha256,
            "model_dtype": "float32",
            "model_type": kind,
            "max_input_length": if model.default_max_tokens == 0 { u32::MAX } else { model.default_max_tokens },
            "max_concurrent_requests": exchange.shared.settings.max_items,
            "max_batch_tokens": exchange.shared.settings.max_items,
            "max_client_batch_size": exchange.shared.settings.max_texts,
            "auto_truncate": true,
            "tokenization_workers": 1,
            "version": env!("CARGO_PKG_VERSION"),
        });
        exchange.respond(&answer, 0)
    }
    .boxed()
}

fn pooling_name(pooling: pb::Pooling) -> &'static str {
    match pooling {
        pb::Pooling::Cls => "cls",
        pb::Pooling::Last => "last_token",
        pb::Pooling::Max => "max",
        pb::Pooling::WeightedMean => "weighted_mean",
        pb::Pooling::None => "none",
        pb::Pooling::Mean | pb::Pooling::Unspecified => "mean",
    }
}

/// `GET /health`.
pub(crate) fn health(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        if exchange.is_serving().await? {
            return exchange.respond(&json!({}), 0);
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is not serving"))
    }
    .boxed()
}

/// Texts to tokenize.
#[derive(Deserialize)]
struct TokenizeRequest {
    inputs: Inputs,
    add_special_tokens: Option<bool>,
    model: Option<String>,
}

/// A token. `start` and `stop` are bytes of the text, as in TEI; a special token has none.
#[derive(Debug, PartialEq, Serialize)]
struct Token<'a> {
    id: u32,
    text: Cow<'a, str>,
    special: bool,
    start: Option<u32>,
    stop: Option<u32>,
}

/// `POST /tokenize`: the tokens of each input.
pub(crate) fn tokenize(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<TokenizeRequest>().await?;
        let texts = match request.inputs {
            Inputs::Text(text) => vec![text],
            Inputs::Texts(texts) => texts,
            Inputs::Tokens(_) | Inputs::TokenLists(_) => return Err(Failure::invalid("inputs", "expected texts")),
        };
        let with_special = request.add_special_tokens.unwrap_or(true);
        let model = exchange.shared.settings.model_or_default(request.model.unwrap_or_default());
        let mut request = pb::TokenizeRequest { model, texts: Some(pb::TextInput { values: texts }), with_spans: true };
        let response = exchange.call(embed_service::TOKENIZE, &request).await?;
        let texts = request.texts.take().map(|texts| texts.values).unwrap_or_default();
        exchange.respond(&tokens(&texts, &response, with_special), 0)
    }
    .boxed()
}

/// The tokens of each text.
fn tokens<'a>(texts: &'a [String], response: &'a pb::TokenizeResponse, with_special: bool) -> Vec<Vec<Token<'a>>> {
    let Some(tokens) = &response.tokens else { return vec![] };
    let spans = response.starts.iter().zip(&response.ends).zip(&response.special);
    let mut all = tokens.ids.iter().zip(spans);
    let of_text = |(text, bounds): (&'a String, &[u32])| {
        let of_text = all.by_ref().take((bounds[1] - bounds[0]) as usize);
        let kept = of_text.filter(|(_, (_, special))| with_special || !**special);
        kept.map(|(&id, ((&start, &stop), &special))| {
            if special {
                let text = response.special_texts.get(&id).map_or("", String::as_str);
                return Token { id, text: text.into(), special, start: None, stop: None };
            }
            let bytes = text.as_bytes().get(start as usize..stop as usize).unwrap_or_default();
            Token { id, text: String::from_utf8_lossy(bytes), special, start: Some(start), stop: Some(stop) }
        })
        .collect()
    };
    texts.iter().zip(tokens.offsets.windows(2)).map(of_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_have_no_place_and_can_be_left_out() {
        let response = pb::TokenizeResponse {
            tokens: Some(pb::TokenInput { ids: vec![2, 9, 3, 2, 3], offsets: vec![0, 3, 5] }),
            starts: vec![0, 2, 5, 0, 0],
            ends: vec![0, 5, 5, 0, 0],
            special: vec![true, false, true, true, true],
            special_texts: [(2, "[CLS]".to_owned())].into(),
        };
        let texts = ["é漢".to_owned(), String::new()];
        let word = || Token { id: 9, text: "漢".into(), special: false, start: Some(2), stop: Some(5) };
        assert_eq!(tokens(&texts, &response, false), [vec![word()], vec![]]);
        let special = |id, text: &'static str| Token { id, text: text.into(), special: true, start: None, stop: None };
        let first = vec![special(2, "[CLS]"), word(), special(3, "")];
        assert_eq!(tokens(&texts, &response, true), [first, vec![special(2, "[CLS]"), special(3, "")]]);
    }
}
