//! Toy models: one embeds the words of a text, the other scores the words that two texts share.

use std::collections::BTreeSet;

use accelerd_proto::v1::{self as proto, embed_service_server::EmbedService};
use futures::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::{FakeDaemon, Replies, Reply, tensor, toy_vector};

#[tonic::async_trait]
impl EmbedService for FakeDaemon {
    async fn embed(&self, request: Request<proto::EmbedRequest>) -> Reply<proto::EmbedResponse> {
        let priority = request.metadata().get("accelerd-priority").and_then(|value| value.to_str().ok());
        self.state().priorities.push(priority.map(str::to_owned));
        self.enter("Embed").await?;
        toy_embeddings(request.into_inner()).map(Response::new)
    }

    /// Responds to pairs of batches in reverse order.
    async fn embed_stream(
        &self,
        request: Request<Streaming<proto::EmbedStreamRequest>>,
    ) -> Reply<Replies<proto::EmbedStreamResponse>> {
        use proto::embed_stream_response::Result as Step;
        self.enter("EmbedStream").await?;
        let failing = self.state().failing_step.take();
        let answers = request.into_inner().map(move |batch| {
            let batch = batch?;
            let done = if failing == Some(batch.sequence) {
                Err(Status::resource_exhausted("lane is full"))
            } else {
                toy_embeddings(batch.embed.unwrap_or_default())
            };
            let error =
                |status: Status| proto::ItemError { code: status.code().into(), message: status.message().into() };
            let result = done.map_or_else(|status| Step::Error(error(status)), Step::Embed);
            Ok(proto::EmbedStreamResponse { sequence: batch.sequence, result: Some(result) })
        });
        let pairs = answers.chunks(2).flat_map(|pair| futures::stream::iter(pair.into_iter().rev()));
        Ok(Response::new(Box::pin(pairs)))
    }

    /// Scores a document by the number of query words that it contains.
    async fn rerank(&self, request: Request<proto::RerankRequest>) -> Reply<proto::RerankResponse> {
        self.enter("Rerank").await?;
        let proto::RerankRequest { model, query, documents, top_n, raw_scores, .. } = request.into_inner();
        let documents = documents.unwrap_or_default().values;
        if query.is_empty() {
            return Err(Status::invalid_argument("query: expected a text, got none"));
        }
        let words: BTreeSet<_> = query.split_whitespace().collect();
        let found = |text: &str| text.split_whitespace().filter(|word| words.contains(word)).count();
        let factor = if raw_scores { 10.0 } else { 1.0 };
        let score = |text: &String| f32::from(u16::try_from(found(text)).unwrap_or(u16::MAX)) * factor;
        let ranked = (0..).zip(&documents).map(|(index, text)| proto::RankedDocument { index, score: score(text) });
        let mut results: Vec<_> = ranked.collect();
        results.sort_by(|a, b| b.score.total_cmp(&a.score));
        if top_n > 0 {
            results.truncate(top_n as usize);
        }
        let token_counts = documents.iter().map(|text| u32::try_from(text.len()).unwrap_or(0)).collect();
        Ok(Response::new(proto::RerankResponse { results, token_counts, model }))
    }

    async fn tokenize(&self, request: Request<proto::TokenizeRequest>) -> Reply<proto::TokenizeResponse> {
        self.enter("Tokenize").await?;
        let texts = request.into_inner().texts.unwrap_or_default().values;
        let mut ids = vec![];
        let mut offsets = vec![0];
        for text in texts {
            ids.extend(text.bytes().map(u32::from));
            offsets.push(u32::try_from(ids.len()).unwrap_or(0));
        }
        let tokens = Some(proto::TokenInput { ids, offsets });
        Ok(Response::new(proto::TokenizeResponse { tokens, ..Default::default() }))
    }

    async fn list_models(&self, request: Request<proto::ListModelsRequest>) -> Reply<proto::ListModelsResponse> {
        self.state().peers.push(request.remote_addr());
        self.enter("ListModels").await?;
        let model = proto::Model {
            name: "toy".into(),
            dimensions: 64,
            supported_dimensions: vec![64, 32],
            vocabulary_size: 7800,
            size_bytes: 2 << 20,
            sha256: "ab".repeat(32),
            ..Default::default()
        };
        Ok(Response::new(proto::ListModelsResponse { models: vec![model] }))
    }

    async fn load_model(&self, request: Request<proto::LoadModelRequest>) -> Reply<proto::LoadModelResponse> {
        self.enter("LoadModel").await?;
        let proto::LoadModelRequest { name, aliases, .. } = request.into_inner();
        let model = Some(proto::Model { name, aliases, architecture: "bert".into(), ..Default::default() });
        Ok(Response::new(proto::LoadModelResponse { model }))
    }

    async fn unload_model(&self, request: Request<proto::UnloadModelRequest>) -> Reply<proto::UnloadModelResponse> {
        self.enter("UnloadModel").await?;
        Ok(Response::new(proto::UnloadModelResponse { name: request.into_inner().name }))
    }
}

fn toy_embeddings(request: proto::EmbedRequest) -> Result<proto::EmbedResponse, Status> {
    use proto::embed_request::Input;
    let texts = match request.input {
        Some(Input::Texts(texts)) if !texts.values.is_empty() => texts.values,
        Some(Input::Tokens(tokens)) if tokens.offsets.len() > 1 => words_of(&tokens),
        _ => return Err(Status::invalid_argument("no texts")),
    };
    let vectors = vectors_of(&texts, &request.spans)?;
    let token_counts = texts.iter().map(|t| u32::try_from(t.split_whitespace().count()).unwrap_or(0)).collect();
    let embeddings = Some(tensor(&vectors));
    Ok(proto::EmbedResponse { embeddings, token_counts, model: "toy".into(), scales: None })
}

/// The vectors of spans, if there are any, or else of texts.
fn vectors_of(texts: &[String], spans: &[proto::Span]) -> Result<Vec<Vec<f32>>, Status> {
    if spans.is_empty() {
        return Ok(texts.iter().map(|text| toy_vector(text)).collect());
    }
    let text = |span: &proto::Span| texts.get(span.text as usize)?.get(span.start as usize..span.end as usize);
    let outside = || Status::invalid_argument("spans: expected spans of the texts");
    spans.iter().map(|span| text(span).map(toy_vector).ok_or_else(outside)).collect()
}

/// For each text, its ids as words.
fn words_of(tokens: &proto::TokenInput) -> Vec<String> {
    let text = |ends: &[u32]| tokens.ids.get(ends[0] as usize..ends[1] as usize).unwrap_or_default();
    let words = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    tokens.offsets.windows(2).map(text).map(words).collect()
}
