//! Inference: a request over either wire becomes a call of the service that computes it.

use accelerd_proto::{
    methods::embed_service,
    v1::{self as pb, embed_request},
};

pub(crate) use super::request::Request;
pub(super) use super::request::Response;
use super::{
    datatype::Datatype,
    graph, metadata, models,
    request::{DOCUMENTS, EMBEDDING, QUERY, SCORES, TEXT, check_outputs, of_service, take_fixed},
    tensor::Tensor,
};
use crate::{exchange::Exchange, failure::Failure};

/// Infers. `received` holds the memory of the encoded request, which is released before the service is called.
pub(super) async fn infer(exchange: &Exchange, request: Request, received: impl Send) -> Result<Response, Failure> {
    if request.model.is_empty() {
        return Err(Failure::invalid("model", "expected the name of a model"));
    }
    let (model, id) = (request.model.clone(), request.id.clone());
    if let Some(loaded) = graph::load(exchange, &model).await? {
        let version = loaded.version.to_string();
        let outputs = graph::execute(exchange, loaded, request, received).await?;
        return Ok(Response { model, version, id, outputs });
    }
    metadata::check_version(&model, &request.version, metadata::VERSION)?;
    let has = |name: &str| request.inputs.iter().any(|input| input.name == name);
    let output = if has(QUERY) || has(DOCUMENTS) {
        rerank(exchange, request, received).await?
    } else if has(TEXT) {
        embed(exchange, request, received).await?
    } else {
        // No model has such inputs: only a caller that errs pays for the second call.
        let inputs = models::of_service(exchange, &model).await?.inputs;
        let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
        return Err(Failure::invalid("inputs", format!("expected {}", names.join(" and "))));
    };
    Ok(Response { model, version: metadata::VERSION.to_string(), id, outputs: vec![output] })
}

async fn embed(exchange: &Exchange, request: Request, received: impl Send) -> Result<Tensor, Failure> {
    check_outputs(&request.outputs, &[EMBEDDING])?;
    let [text] = take_fixed(request.inputs, [TEXT])?;
    let held = exchange.caller.account.charge(text.texts_bytes())?;
    let parameters = &request.parameters;
    let dimensions = parameters.count("dimensions")?.unwrap_or(0);
    let long_input = match parameters.bool("truncate")? {
        Some(false) => pb::LongInput::Error,
        Some(true) => pb::LongInput::Truncate,
        None => pb::LongInput::Unspecified,
    };
    let embed_request = pb::EmbedRequest {
        model: request.model,
        input: Some(embed_request::Input::Texts(pb::TextInput { values: text.texts()? })),
        dimensions: u32::try_from(dimensions).unwrap_or(u32::MAX),
        normalize: parameters.bool("normalize")?,
        prompt_name: parameters.text("prompt_name")?.unwrap_or_default(),
        long_input: long_input.into(),
        ..Default::default()
    };
    let held = (received, text, held);
    let response: pb::EmbedResponse = exchange.call_releasing(embed_service::EMBED, embed_request, held).await?;
    let missing = || Failure::internal("the response has no vectors");
    of_service(EMBEDDING, response.embeddings.ok_or_else(missing)?)
}

async fn rerank(exchange: &Exchange, request: Request, received: impl Send) -> Result<Tensor, Failure> {
    check_outputs(&request.outputs, &[SCORES])?;
    let [query, documents] = take_fixed(request.inputs, [QUERY, DOCUMENTS])?;
    let held = exchange.caller.account.charge(query.texts_bytes() + documents.texts_bytes())?;
    let [text] = <[String; 1]>::try_from(query.texts()?)
        .map_err(|texts| Failure::invalid(QUERY, format!("expected one element, got {}", texts.len())))?;
    let values = documents.texts()?;
    let mut scores = vec![0.0f32; values.len()];
    let rerank_request = pb::RerankRequest {
        model: request.model,
        query: text,
        documents: Some(pb::TextInput { values }),
        raw_scores: request.parameters.bool("raw_scores")?.unwrap_or(false),
        ..Default::default()
    };
    let held = (received, query, documents, held);
    let response: pb::RerankResponse = exchange.call_releasing(embed_service::RERANK, rerank_request, held).await?;
    for result in response.results {
        if let Some(score) = scores.get_mut(result.index as usize) {
            *score = result.score;
        }
    }
    let data = scores.iter().flat_map(|score| score.to_le_bytes()).collect::<Vec<_>>();
    Tensor::new(SCORES.to_owned(), Datatype::Fp32, vec![i64::try_from(scores.len()).unwrap_or(i64::MAX)], data.into())
}
