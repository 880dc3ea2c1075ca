//! The API of OpenAI: embeddings and models.

use accelerd_proto::v1 as pb;
use axum::response::Response;
use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    models, token_arrays,
    vectors::{Inputs, Vector, embed},
};
use crate::{exchange::Exchange, failure::Failure};

/// A request for embeddings. Unknown fields, such as `user`, are ignored. A null, which LiteLLM sends, means that there is no value.
#[derive(Deserialize)]
struct EmbeddingsRequest {
    model: Option<String>,
    input: Inputs,
    encoding_format: Option<Value>,
    dimensions: Option<u32>,
}

/// The form of vectors in the response.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EncodingFormat {
    /// Lists of numbers.
    Float,
    /// The bytes of the f32 numbers in little-endian order.
    Base64,
}

impl EncodingFormat {
    fn of(value: Option<&Value>) -> Result<Self, Failure> {
        match value.map(Value::as_str) {
            None | Some(Some("float")) => Ok(Self::Float),
            Some(Some("base64")) => Ok(Self::Base64),
            Some(_) => Err(Failure::invalid("encoding_format", "expected \"float\" or \"base64\"")),
        }
    }

    fn object(self, index: usize, vector: Vector<'_>) -> EmbeddingObject<'_> {
        let embedding = match self {
            Self::Float => Embedding::Float(vector),
            Self::Base64 => Embedding::Base64(vector.base64()),
        };
        EmbeddingObject { object: "embedding", index, embedding }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Embedding<'a> {
    Float(Vector<'a>),
    Base64(String),
}

#[derive(Serialize)]
struct EmbeddingObject<'a> {
    object: &'static str,
    index: usize,
    embedding: Embedding<'a>,
}

#[derive(Serialize)]
struct EmbeddingsResponse<'a> {
    object: &'static str,
    data: Vec<EmbeddingObject<'a>>,
    model: &'a str,
    usage: Usage,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// A failure in OpenAI's form.
pub(crate) fn error(failure: &Failure) -> Value {
    let kind = match failure.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    let code = match failure.status {
        StatusCode::NOT_FOUND => Some("model_not_found".to_owned()),
        StatusCode::UNAUTHORIZED => Some("invalid_api_key".to_owned()),
        _ => failure.reason.as_ref().map(|reason| reason.to_lowercase()),
    };
    json!({ "error": { "message": failure.message, "type": kind, "param": failure.field, "code": code } })
}

/// `POST /v1/embeddings`.
pub(crate) fn embeddings(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    create_embeddings(exchange).boxed()
}

async fn create_embeddings(mut exchange: Exchange) -> Result<Response, Failure> {
    let (request, received) = exchange.json::<EmbeddingsRequest>().await?;
    check_not_empty(&request.input)?;
    let format = EncodingFormat::of(request.encoding_format.as_ref())?;
    if request.dimensions == Some(0) {
        return Err(Failure::invalid("dimensions", "expected at least 1, got 0"));
    }
    let input = token_arrays::decode(request.input, exchange.shared.settings.token_arrays)?;
    let embed_request = pb::EmbedRequest {
        model: exchange.shared.settings.model_or_default(request.model.unwrap_or_default()),
        input: Some(input.into_request()),
        dimensions: request.dimensions.unwrap_or(0),
        ..Default::default()
    };
    drop(received);
    let vectors = embed(&exchange, &embed_request).await?;
    let tokens = vectors.tokens();
    let data = vectors.rows().enumerate().map(|(index, vector)| format.object(index, vector)).collect();
    let usage = Usage { prompt_tokens: tokens, total_tokens: tokens };
    let response = EmbeddingsResponse { object: "list", data, model: &vectors.model, usage };
    exchange.respond(&response, vectors.text_bytes())
}

/// Refuses an input without text, as OpenAI does.
fn check_not_empty(input: &Inputs) -> Result<(), Failure> {
    let is_empty = match input {
        Inputs::Text(text) => text.is_empty(),
        Inputs::Texts(texts) => texts.is_empty() || texts.iter().any(String::is_empty),
        Inputs::Tokens(tokens) => tokens.is_empty(),
        Inputs::TokenLists(lists) => lists.is_empty() || lists.iter().any(Vec::is_empty),
    };
    if is_empty { Err(Failure::invalid("input", "expected at least one text, and no empty one")) } else { Ok(()) }
}

/// `GET /v1/models`.
pub(crate) fn all_models(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let data: Vec<_> = models::list(&exchange).await?.iter().flat_map(objects).collect();
        exchange.respond(&json!({ "object": "list", "data": data }), 0)
    }
    .boxed()
}

/// `GET /v1/models/NAME`.
pub(crate) fn model(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    async move {
        let path = exchange.parts.uri.path();
        let encoded = path.strip_prefix("/v1/models/").unwrap_or_default();
        let name = percent_encoding::percent_decode_str(encoded).decode_utf8_lossy();
        let found = models::list(&exchange).await?.iter().flat_map(objects).find(|object| object["id"] == *name);
        let unknown = || Failure::new(StatusCode::NOT_FOUND, format!("the model {name:?} is not loaded"));
        exchange.respond(&found.ok_or_else(unknown)?, 0)
    }
    .boxed()
}

/// The objects of a model, one for each of its names.
fn objects(model: &pb::Model) -> impl Iterator<Item = Value> {
    // Clients read the time of creation, which the daemon does not know.
    models::names(model).map(|name| json!({ "id": name, "object": "model", "created": 0, "owned_by": "accelerd" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_form_of_openai() {
        let not_found = Failure::from(tonic::Status::not_found("no model \"x\""));
        let expected = json!({ "error": {
            "message": "no model \"x\"", "type": "invalid_request_error", "param": null, "code": "model_not_found"
        } });
        assert_eq!(error(&not_found), expected);
        let invalid = error(&Failure::invalid("dimensions", "too many"));
        assert_eq!(
            (&invalid["error"]["param"], &invalid["error"]["type"]),
            (&json!("dimensions"), &json!("invalid_request_error"))
        );
        let kind = |status: tonic::Status| error(&Failure::from(status))["error"]["type"].clone();
        assert_eq!(kind(tonic::Status::unauthenticated("")), "authentication_error");
        assert_eq!(kind(tonic::Status::resource_exhausted("")), "rate_limit_error");
        assert_eq!(kind(tonic::Status::deadline_exceeded("")), "server_error");
    }

    #[test]
    fn null_is_as_no_value() {
        let text = r#"{"input": "a", "model": null, "encoding_format": null, "dimensions": null, "user": null}"#;
        let request: EmbeddingsRequest = serde_json::from_str(text).expect("a request");
        assert!(request.model.is_none() && request.encoding_format.is_none() && request.dimensions.is_none());
    }

    #[test]
    fn other_formats_are_refused() {
        let format = |value: Value| EncodingFormat::of(Some(&value)).map_err(|failure| failure.field);
        assert_eq!(
            (format(json!("float")), format(json!("base64"))),
            (Ok(EncodingFormat::Float), Ok(EncodingFormat::Base64))
        );
        for other in [json!("md5"), json!(["float"]), json!(1), json!("")] {
            assert_eq!(format(other), Err(Some("encoding_format".to_owned())));
        }
    }

    #[test]
    fn an_empty_input_is_refused_and_unknown_fields_are_ignored() {
        let parsed = |text: &str| serde_json::from_str::<EmbeddingsRequest>(text).expect("a request").input;
        check_not_empty(&parsed(r#"{"input": "a", "user": "u", "model": "m"}"#)).expect("a text");
        for empty in [r#""""#, "[]", r#"["a", ""]"#, "[[]]", "[[1], []]"] {
            let refusal = check_not_empty(&parsed(&format!(r#"{{"input": {empty}}}"#))).expect_err(empty);
            assert_eq!(refusal.field.as_deref(), Some("input"));
        }
    }
}
