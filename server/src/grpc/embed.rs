//! `EmbedService`: texts and token ids to vectors.

use std::sync::Arc;

use accelerd_proto::v1::{
    self as pb,
    embed_request::Input as PbInput,
    embed_service_server::{EmbedService, EmbedServiceServer},
};
use tonic::{Request, Response, Status};

use crate::{
    embedder::{Embedded, Input, Tokens},
    error::ApiError,
    grpc::{context, convert},
    serve::App,
};

/// The service.
#[derive(Debug)]
pub struct Embed(Arc<App>);

/// The service over the daemon's embedder.
pub(crate) fn service(app: &Arc<App>) -> EmbedServiceServer<Embed> {
    EmbedServiceServer::new(Embed(Arc::clone(app)))
}

#[tonic::async_trait]
impl EmbedService for Embed {
    async fn embed(&self, request: Request<pb::EmbedRequest>) -> Result<Response<pb::EmbedResponse>, Status> {
        let context = context(&request);
        let pb::EmbedRequest { model, input, dimensions, normalize } = request.into_inner();
        let embedder = &self.0.embedder;
        let model = embedder.model(&model)?;
        let input = input.ok_or_else(|| ApiError::invalid("input", "expected texts or tokens, got neither"))?;
        let normalize = normalize.unwrap_or(true);
        let embedded = embedder.embed(&model, self::input(input), dimensions, normalize, context).await?;
        Ok(Response::new(response(embedded, model.name())))
    }

    async fn tokenize(&self, request: Request<pb::TokenizeRequest>) -> Result<Response<pb::TokenizeResponse>, Status> {
        let pb::TokenizeRequest { model, texts } = request.into_inner();
        let embedder = &self.0.embedder;
        let model = embedder.model(&model)?;
        let texts = texts.ok_or_else(|| ApiError::invalid("texts", "expected texts, got none"))?;
        let Tokens { ids, offsets } = embedder.tokenize(&model, texts.values).await?;
        Ok(Response::new(pb::TokenizeResponse { tokens: Some(pb::TokenInput { ids, offsets }) }))
    }

    async fn list_models(&self, _: Request<pb::ListModelsRequest>) -> Result<Response<pb::ListModelsResponse>, Status> {
        let models = self.0.embedder.models().iter().map(|model| describe(model)).collect();
        Ok(Response::new(pb::ListModelsResponse { models }))
    }
}

fn input(input: PbInput) -> Input {
    match input {
        PbInput::Texts(texts) => Input::Texts(texts.values),
        PbInput::Tokens(pb::TokenInput { ids, offsets }) => Input::Tokens { ids, offsets },
    }
}

fn response(embedded: Embedded, model: &str) -> pb::EmbedResponse {
    let Embedded { vectors, token_counts } = embedded;
    pb::EmbedResponse { embeddings: Some(convert::tensor(&vectors)), token_counts, model: model.to_owned() }
}

fn describe(model: &accelerd_models::Model) -> pb::Model {
    let table = model.table();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    pb::Model {
        name: model.name().to_owned(),
        dimensions: count(table.dim),
        offered_dimensions: model.offered_dimensions().to_vec(),
        vocabulary_size: count(model.vocabulary_size()),
        size_bytes: (table.values.len() + 4 * table.scales.len()) as u64,
        sha256: model.sha256().to_owned(),
    }
}
