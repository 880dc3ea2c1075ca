//! The APIs of Cohere and Jina: reranking.

use accelerd_proto::{methods::embed_service, v1 as pb};
use axum::response::Response;
use futures::{FutureExt, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::vectors::{Document, reranker};
use crate::{exchange::Exchange, failure::Failure};

/// A request to rank documents. Unknown fields are ignored.
#[derive(Deserialize)]
pub(crate) struct RerankRequest {
    model: Option<String>,
    query: String,
    documents: Vec<Document>,
    top_n: Option<u32>,
    /// Of `/v1/rerank` only.
    return_documents: Option<bool>,
}

#[derive(Serialize)]
struct RankedDocument {
    index: u32,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Value>,
}

/// A failure in the form of both: Cohere reads `message`, Jina `detail`.
pub(crate) fn error(failure: &Failure) -> Value {
    json!({ "message": failure.message, "detail": failure.message })
}

/// `POST /v2/rerank` of Cohere.
pub(crate) fn cohere(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json::<RerankRequest>().await?;
        respond(&exchange, request, "2", false).await
    }
    .boxed()
}

/// `POST /v1/rerank` of Jina, and of Cohere.
pub(crate) fn jina(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let mut exchange = exchange;
        let (request, _received) = exchange.json().await?;
        respond_jina(&exchange, request).await
    }
    .boxed()
}

pub(crate) async fn respond_jina(exchange: &Exchange, request: RerankRequest) -> Result<Response, Failure> {
    let returns_documents = request.return_documents.unwrap_or(true);
    respond(exchange, request, "1", returns_documents).await
}

async fn respond(
    exchange: &Exchange,
    request: RerankRequest,
    version: &str,
    returns_documents: bool,
) -> Result<Response, Failure> {
    if request.top_n == Some(0) {
        return Err(Failure::invalid("top_n", "expected at least 1, got 0"));
    }
    let rerank_request = pb::RerankRequest {
        model: reranker(exchange, request.model).await?,
        query: request.query,
        documents: Some(pb::TextInput { values: request.documents.into_iter().map(Document::into_text).collect() }),
        top_n: request.top_n.unwrap_or(0),
        ..Default::default()
    };
    let response = exchange.call(embed_service::RERANK, &rerank_request).await?;
    let texts = rerank_request.documents.map(|documents| documents.values).unwrap_or_default();
    let text = |index: u32| texts.get(index as usize).filter(|_| returns_documents);
    let ranked = response.results.iter().map(|result| RankedDocument {
        index: result.index,
        relevance_score: result.score,
        document: text(result.index).map(|text| json!({ "text": text })),
    });
    let results: Vec<_> = ranked.collect();
    let tokens: u64 = response.token_counts.iter().map(|count| u64::from(*count)).sum();
    let answer = json!({
        "id": request_id(),
        "model": response.model,
        "results": results,
        "usage": { "total_tokens": tokens, "prompt_tokens": tokens },
        "meta": { "api_version": { "version": version }, "billed_units": { "search_units": 1 } },
    });
    exchange.respond(&answer, 0)
}

/// A name of the request for logs of clients.
fn request_id() -> String {
    use std::{
        hash::{BuildHasher, RandomState},
        sync::atomic::{AtomicU64, Ordering::Relaxed},
    };
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}", RandomState::new().hash_one(NEXT.fetch_add(1, Relaxed)))
}
