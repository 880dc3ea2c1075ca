//! The API of Text Embeddings Inference (TEI) of Hugging Face.

use accelerd_proto::{methods::embed_service, v1 as pb};
use axum::response::Response;
use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    exchange::{Exchange, JSON},
    failure::Failure,
    vectors::{Inputs, Vector, embed, reranker},
};

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
    #[serde(default)]
    model: String,
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
            model: exchange.shared.settings.model_or_default(self.model),
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
    #[serde(default)]
    raw_scores: bool,
    #[serde(default)]
    return_text: bool,
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
    exchange.respond(&vectors.rows().collect::<Vec<_>>())
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
        exchange.respond(&vectors.token_counts.iter().map(of_input).collect::<Vec<_>>())
    }
    .boxed()
}

/// `POST /rerank`.
pub(crate) fn rerank(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<RerankRequest>().await?;
        respond_ranks(&exchange, request).await
    }
    .boxed()
}

async fn respond_ranks(exchange: &Exchange, request: RerankRequest) -> Result<Response, Failure> {
    let returns_text = request.return_text;
    let request = pb::RerankRequest {
        model: reranker(exchange, request.model).await?,
        query: request.query,
        documents: Some(pb::TextInput { values: request.texts }),
        raw_scores: request.raw_scores,
        ..Default::default()
    };
    let response = exchange.call(embed_service::RERANK, &request).await?;
    let texts = request.documents.map(|documents| documents.values).unwrap_or_default();
    let text = |index: u32| texts.get(index as usize).filter(|_| returns_text).map(String::as_str);
    let rank = |result: &pb::RankedDocument| {
        let pb::RankedDocument { index, score } = *result;
        Rank { index, text: text(index), score }
    };
    exchange.respond(&response.results.iter().map(rank).collect::<Vec<_>>())
}

/// `POST /`: `/rerank` for a body with a query, else `/embed`.
pub(crate) fn predict(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    /// A body of either kind.
    #[derive(Deserialize)]
    struct Kind {
        query: Option<serde::de::IgnoredAny>,
    }
    async move {
        let mut exchange = exchange;
        let received = exchange.receive_json().await?;
        let malformed = |error: serde_json::Error| Failure::new(StatusCode::BAD_REQUEST, format!("the body: {error}"));
        let kind: Kind = serde_json::from_slice(&received.bytes).map_err(malformed)?;
        if kind.query.is_some() {
            respond_ranks(&exchange, serde_json::from_slice(&received.bytes).map_err(malformed)?).await
        } else {
            respond_vectors(&exchange, serde_json::from_slice(&received.bytes).map_err(malformed)?).await
        }
    }
    .boxed()
}

/// `GET /info`.
pub(crate) fn info(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let models = exchange.call(embed_service::LIST_MODELS, &pb::ListModelsRequest {}).await?.models;
        let name = exchange.shared.settings.model_or_default(String::new());
        let name = if name.is_empty() { "builtin" } else { &name };
        let is_named = |model: &&pb::Model| model.name == name || model.aliases.iter().any(|alias| alias == name);
        let missing = || Failure::new(StatusCode::NOT_FOUND, format!("the model {name:?} of http.model is not loaded"));
        let model = models.iter().find(is_named).ok_or_else(missing)?;
        let kind = if model.cross_encoder {
            json!({ "reranker": { "id2label": { "0": "LABEL_0" }, "label2id": { "LABEL_0": 0 } } })
        } else {
            json!({ "embedding": { "pooling": pooling_name(model.pooling()) } })
        };
        exchange.respond(&json!({
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
        }))
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
            return exchange.respond_bytes(b"{}".to_vec(), JSON);
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is not serving"))
    }
    .boxed()
}

/// Texts to tokenize.
#[derive(Deserialize)]
struct TokenizeRequest {
    inputs: Inputs,
    #[serde(default)]
    model: String,
}

/// A token.
#[derive(Serialize)]
struct Token {
    id: u32,
}

/// `POST /tokenize`: the tokens of each input, special tokens included.
pub(crate) fn tokenize(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<TokenizeRequest>().await?;
        let texts = match request.inputs {
            Inputs::Text(text) => vec![text],
            Inputs::Texts(texts) => texts,
            Inputs::Tokens(_) | Inputs::TokenLists(_) => return Err(Failure::invalid("inputs", "expected texts")),
        };
        let model = exchange.shared.settings.model_or_default(request.model);
        let request = pb::TokenizeRequest { model, texts: Some(pb::TextInput { values: texts }) };
        let tokens = exchange.call(embed_service::TOKENIZE, &request).await?.tokens.unwrap_or_default();
        let of_text = |bounds: &[u32]| {
            let ids = tokens.ids.get(bounds[0] as usize..bounds[1] as usize).unwrap_or_default();
            ids.iter().map(|&id| Token { id }).collect::<Vec<_>>()
        };
        exchange.respond(&tokens.offsets.windows(2).map(of_text).collect::<Vec<_>>())
    }
    .boxed()
}
