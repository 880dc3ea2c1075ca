//! `EmbedService`: embedding, reranking, tokenisation and models.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::ops::encode::{OutputType, Pooling, Precision};
use accelerd_models::{Kind, LongInput, TruncationSide};
use accelerd_proto::v1::{self as pb, embed_request::Input as PbInput};
use futures::StreamExt;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    embedder::{Embedded, Input, LoadedModel, ModelSource, Options, RerankQuery, RerankResult, Span, Tokens},
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        convert,
        handlers::EmbedService,
    },
    status::item_error,
};

/// Batches of a stream that are embedded concurrently.
const WINDOW: usize = 8;

/// The service.
#[derive(Debug)]
pub struct Embed(Arc<App>);

impl Embed {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(Arc::clone(app))
    }
}

impl EmbedService for Embed {
    async fn embed(&self, request: Request<pb::EmbedRequest>) -> Result<Response<pb::EmbedResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        Ok(Response::new(run_embed(&self.0, request.into_inner(), false, &caller, context).await?))
    }

    fn embed_stream(
        &self,
        caller: Caller,
        context: Context,
        batches: Requests<pb::EmbedStreamRequest>,
    ) -> Responses<pb::EmbedStreamResponse> {
        let app = Arc::clone(&self.0);
        let embed = move |batch| embed_batch(Arc::clone(&app), batch, caller.clone(), context.clone());
        batches.map(embed).buffer_unordered(WINDOW).boxed()
    }

    async fn rerank(&self, request: Request<pb::RerankRequest>) -> Result<Response<pb::RerankResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let pb::RerankRequest { model, query, documents, top_n, raw_scores, max_tokens } = request.into_inner();
        let embedder = &self.0.embedder;
        if !model.is_empty() {
            embedder.model_for(&caller, &model)?;
        }
        let model = embedder.cross_encoder(&model, |model| caller.sees_model(model.names()))?;
        let documents = documents.unwrap_or_default().values;
        let request = RerankQuery { query, documents, top: top_n as usize, raw_scores, max_tokens };
        let RerankResult { results, token_counts } = embedder.rerank(&model, request, context).await?;
        let results = results.into_iter().map(|ranked| pb::RankedDocument { index: ranked.index, score: ranked.score });
        let results = results.collect();
        let model = model.name().to_owned();
        Ok(Response::new(pb::RerankResponse { results, token_counts, model }))
    }

    async fn tokenize(&self, request: Request<pb::TokenizeRequest>) -> Result<Response<pb::TokenizeResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::TokenizeRequest { model, texts } = request.into_inner();
        let embedder = &self.0.embedder;
        let model = embedder.model_for(&caller, &model)?;
        let texts = texts.ok_or_else(|| ApiError::invalid("texts", "expected texts, got none"))?;
        let Tokens { ids, offsets } = embedder.tokenize(&model, texts.values).await?;
        Ok(Response::new(pb::TokenizeResponse { tokens: Some(pb::TokenInput { ids, offsets }) }))
    }

    async fn list_models(
        &self,
        request: Request<pb::ListModelsRequest>,
    ) -> Result<Response<pb::ListModelsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let models = self.0.embedder.models();
        let visible = models.iter().filter(|model| caller.sees_model(model.names()));
        Ok(Response::new(pb::ListModelsResponse { models: visible.map(|model| describe(model)).collect() }))
    }

    async fn load_model(
        &self,
        request: Request<pb::LoadModelRequest>,
    ) -> Result<Response<pb::LoadModelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::LoadModelRequest { name, path, aliases, precision } = request.into_inner();
        for name in std::iter::once(&name).chain(&aliases) {
            caller.check_model(name, [name.as_str()]).map_err(ApiError::from)?;
        }
        let precision = match enum_value::<pb::Precision>("precision", precision)? {
            pb::Precision::Unspecified => Precision::Auto,
            pb::Precision::Bf16 => Precision::Bf16,
            pb::Precision::F16 => Precision::F16,
            pb::Precision::F32 => Precision::F32,
        };
        let model = self.0.embedder.load(ModelSource { name, path, aliases, precision }).await?;
        tracing::info!(model = model.name(), bytes = model.bytes(), "model loaded");
        caller.record_change(model.name());
        Ok(Response::new(pb::LoadModelResponse { model: Some(describe(&model)) }))
    }

    async fn unload_model(
        &self,
        request: Request<pb::UnloadModelRequest>,
    ) -> Result<Response<pb::UnloadModelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let name = request.into_inner().name;
        self.0.embedder.model_for(&caller, &name)?;
        let name = self.0.embedder.unload(&name).await?;
        tracing::info!(model = name, "model unloaded");
        caller.record_change(&name);
        Ok(Response::new(pb::UnloadModelResponse { name }))
    }
}

async fn run_embed(
    app: &App,
    request: pb::EmbedRequest,
    waits: bool,
    caller: &Caller,
    context: Context,
) -> Result<pb::EmbedResponse, ApiError> {
    let model = app.embedder.model_for(caller, &request.model)?;
    let max_response_bytes = Some(app.config.server.max_message());
    let options = Options { waits, max_response_bytes, ..options(&request)? };
    let input = request.input.ok_or_else(|| ApiError::invalid("input", "expected texts or tokens, got neither"))?;
    let embedded = app.embedder.embed(&model, self::input(input), &options, context).await?;
    Ok(response(embedded, model.name()))
}

/// Embeds one batch of a stream. Its error is part of the response; only an error of the stream ends it.
async fn embed_batch(
    app: Arc<App>,
    batch: Result<pb::EmbedStreamRequest, Status>,
    caller: Caller,
    context: Context,
) -> Result<pb::EmbedStreamResponse, Status> {
    use pb::embed_stream_response::Result as Outcome;
    let pb::EmbedStreamRequest { sequence, embed } = batch?;
    let embedded = match embed {
        Some(request) => run_embed(&app, request, true, &caller, context).await,
        None => Err(ApiError::invalid("embed", "expected a batch, got none")),
    };
    let outcome = embedded.map_or_else(|error| Outcome::Error(item_error(&error.into())), Outcome::Embed);
    Ok(pb::EmbedStreamResponse { sequence, result: Some(outcome) })
}

fn input(input: PbInput) -> Input {
    match input {
        PbInput::Texts(texts) => Input::Texts(texts.values),
        PbInput::Tokens(pb::TokenInput { ids, offsets }) => Input::Tokens { ids, offsets },
    }
}

/// The enum value of a number, or a field violation.
fn enum_value<T: TryFrom<i32>>(field: &str, number: i32) -> Result<T, ApiError> {
    T::try_from(number).map_err(|_| ApiError::invalid(field, format!("expected a known enum value, got {number}")))
}

fn options(request: &pb::EmbedRequest) -> Result<Options, ApiError> {
    let span = |span: &pb::Span| Span { text: span.text, start: span.start, end: span.end };
    Ok(Options {
        dimensions: request.dimensions,
        normalize: request.normalize,
        pooling: match enum_value::<pb::Pooling>("pooling", request.pooling)? {
            pb::Pooling::Unspecified => None,
            pb::Pooling::Cls => Some(Pooling::Cls),
            pb::Pooling::Mean => Some(Pooling::Mean),
            pb::Pooling::Max => Some(Pooling::Max),
            pb::Pooling::Last => Some(Pooling::Last),
            pb::Pooling::WeightedMean => Some(Pooling::WeightedMean),
            pb::Pooling::None => Some(Pooling::None),
        },
        spans: request.spans.iter().map(span).collect(),
        prompt_name: request.prompt_name.clone(),
        prompt: request.prompt.clone(),
        truncation_side: match enum_value::<pb::TruncationSide>("truncation_side", request.truncation_side)? {
            pb::TruncationSide::Unspecified | pb::TruncationSide::Right => TruncationSide::Right,
            pb::TruncationSide::Left => TruncationSide::Left,
        },
        long_input: match enum_value::<pb::LongInput>("long_input", request.long_input)? {
            pb::LongInput::Unspecified | pb::LongInput::Truncate => LongInput::Truncate,
            pb::LongInput::Error => LongInput::Error,
            pb::LongInput::Chunk => LongInput::Chunk,
        },
        max_tokens: request.max_tokens,
        output: match enum_value::<pb::OutputType>("output_type", request.output_type)? {
            pb::OutputType::Unspecified | pb::OutputType::F32 => OutputType::F32,
            pb::OutputType::F16 => OutputType::F16,
            pb::OutputType::Bf16 => OutputType::Bf16,
            pb::OutputType::Int8 => OutputType::Int8,
            pb::OutputType::Binary => OutputType::Binary,
        },
        exact_gelu: request.exact_gelu,
        waits: false,
        max_response_bytes: None,
    })
}

fn response(embedded: Embedded, model: &str) -> pb::EmbedResponse {
    let Embedded { rows, dimensions, output, bytes, scales, token_counts } = embedded;
    let (dtype, columns) = match output {
        OutputType::F32 => (pb::Dtype::F32, dimensions),
        OutputType::F16 => (pb::Dtype::F16, dimensions),
        OutputType::Bf16 => (pb::Dtype::Bf16, dimensions),
        OutputType::Int8 => (pb::Dtype::I8, dimensions),
        OutputType::Binary => (pb::Dtype::U8, dimensions.div_ceil(8)),
    };
    let scales = (output == OutputType::Int8)
        .then(|| convert::tensor_of(pb::Dtype::F32, &[scales.len()], convert::bytes_of(scales)));
    let embeddings = Some(convert::tensor_of(dtype, &[rows, columns], bytes));
    pb::EmbedResponse { embeddings, token_counts, model: model.to_owned(), scales }
}

fn describe(model: &LoadedModel) -> pb::Model {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (max_tokens, default_max_tokens) = model.limits().map_or((0, 0), |(max, limit)| (count(max), count(limit)));
    let (architecture, prompt_names) = match model.kind() {
        Kind::Table(_) => ("table".to_owned(), vec![]),
        Kind::Encoder(encoder) => (encoder.architecture.clone(), encoder.prompts.keys().cloned().collect()),
    };
    pb::Model {
        name: model.name().to_owned(),
        dimensions: count(model.dimensions()),
        supported_dimensions: model.offered_dimensions().to_vec(),
        vocabulary_size: count(model.vocabulary_size()),
        size_bytes: model.bytes(),
        sha256: model.sha256().to_owned(),
        digest: model.digest().to_owned(),
        aliases: model.aliases.clone(),
        architecture,
        max_tokens,
        default_max_tokens,
        pooling: match model.pooling() {
            Pooling::Cls => pb::Pooling::Cls,
            Pooling::Mean => pb::Pooling::Mean,
            Pooling::Max => pb::Pooling::Max,
            Pooling::WeightedMean => pb::Pooling::WeightedMean,
            Pooling::Last => pb::Pooling::Last,
            Pooling::None => pb::Pooling::None,
        }
        .into(),
        normalize: model.normalize(),
        prompt_names,
        accepts_text: model.takes_texts(),
        cross_encoder: model.reranker().is_some(),
        precision: precision(model.precision.on_gpu()).into(),
        cpu_precision: precision(model.precision.on_cpu()).into(),
    }
}

fn precision(precision: Precision) -> pb::Precision {
    match precision {
        Precision::Auto => pb::Precision::Unspecified,
        Precision::Bf16 => pb::Precision::Bf16,
        Precision::F16 => pb::Precision::F16,
        Precision::F32 => pb::Precision::F32,
    }
}
