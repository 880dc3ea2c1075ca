//! `EmbedService`: embedding, reranking, tokenisation and models.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::ops::encode::{OutputType, Pooling, Precision};
use accelerd_models::{LongInput, TruncationSide};
use accelerd_proto::v1::{self as pb, embed_request::Input as PbInput};
use futures::{StreamExt, TryStreamExt};
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    batches::Numbered,
    embedder::{
        EmbedCall, Embedded, EmbeddedBy, EmbeddingService, Input, LoadedModel, ModelSource, Options, RerankQuery,
        RerankResult, Span, TokenSpans, Tokens,
    },
    error::{ApiError, Decoded},
    grpc::{
        call::{Requests, Responses},
        context::context,
        convert,
        handlers::EmbedService,
    },
    status::item_error,
};

/// The service.
#[derive(Debug)]
pub struct Embed(Arc<EmbeddingService>);

impl Embed {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(Arc::new(EmbeddingService::new(app.embedder.clone(), app.config.server.max_message())))
    }
}

impl EmbedService for Embed {
    async fn embed(&self, request: Request<pb::EmbedRequest>) -> Result<Response<pb::EmbedResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let embedded = self.0.embed(&caller, embed_call(request.into_inner()), context).await?;
        Ok(Response::new(response(embedded)))
    }

    fn embed_stream(
        &self,
        caller: Caller,
        context: Context,
        batches: Requests<pb::EmbedStreamRequest>,
    ) -> Responses<pb::EmbedStreamResponse> {
        let batches = batches.map_ok(|pb::EmbedStreamRequest { sequence, embed }| {
            let missing = || ApiError::invalid("embed", "expected a batch, got none");
            (sequence, embed.map(embed_call).ok_or_else(missing))
        });
        self.0.embed_stream(caller, context, batches).map_ok(stream_response).boxed()
    }

    async fn rerank(&self, request: Request<pb::RerankRequest>) -> Result<Response<pb::RerankResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let pb::RerankRequest { model, query, documents, top_n, raw_scores, max_tokens } = request.into_inner();
        let documents = documents.unwrap_or_default().values;
        let query = RerankQuery { query, documents, top: top_n as usize, raw_scores, max_tokens };
        let (RerankResult { results, token_counts }, model) = self.0.rerank(&caller, &model, query, context).await?;
        let results = results.into_iter().map(|ranked| pb::RankedDocument { index: ranked.index, score: ranked.score });
        let results = results.collect();
        let model = model.name().to_owned();
        Ok(Response::new(pb::RerankResponse { results, token_counts, model }))
    }

    async fn tokenize(&self, request: Request<pb::TokenizeRequest>) -> Result<Response<pb::TokenizeResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::TokenizeRequest { model, texts, with_spans } = request.into_inner();
        let missing = || ApiError::invalid("texts", "expected texts, got none");
        let texts = texts.map(|texts| texts.values).ok_or_else(missing);
        let (Tokens { ids, offsets }, spans) = self.0.tokenize(&caller, &model, texts, with_spans).await?;
        let TokenSpans { starts, ends, special, special_texts } = spans;
        let tokens = Some(pb::TokenInput { ids, offsets });
        Ok(Response::new(pb::TokenizeResponse { tokens, starts, ends, special, special_texts }))
    }

    async fn list_models(
        &self,
        request: Request<pb::ListModelsRequest>,
    ) -> Result<Response<pb::ListModelsResponse>, Status> {
        let models = self.0.models(&Caller::of(request.extensions()));
        Ok(Response::new(pb::ListModelsResponse { models: models.iter().map(|model| describe(model)).collect() }))
    }

    async fn load_model(
        &self,
        request: Request<pb::LoadModelRequest>,
    ) -> Result<Response<pb::LoadModelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::LoadModelRequest { name, path, aliases, precision } = request.into_inner();
        let precision = enum_value::<pb::Precision>("precision", precision).map(|precision| match precision {
            pb::Precision::Unspecified => Precision::Auto,
            pb::Precision::Bf16 => Precision::Bf16,
            pb::Precision::F16 => Precision::F16,
            pb::Precision::F32 => Precision::F32,
        });
        let source = ModelSource { name, path, aliases, ..ModelSource::default() };
        let model = self.0.load(&caller, source, precision).await?;
        Ok(Response::new(pb::LoadModelResponse { model: Some(describe(&model)) }))
    }

    async fn unload_model(
        &self,
        request: Request<pb::UnloadModelRequest>,
    ) -> Result<Response<pb::UnloadModelResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let name = self.0.unload(&caller, &request.into_inner().name).await?;
        Ok(Response::new(pb::UnloadModelResponse { name }))
    }
}

fn embed_call(mut request: pb::EmbedRequest) -> EmbedCall {
    let missing = || ApiError::invalid("input", "expected texts or tokens, got neither");
    EmbedCall {
        model: std::mem::take(&mut request.model),
        input: request.input.take().map(input).ok_or_else(missing),
        options: options(request),
    }
}

/// The answer to a batch of a stream.
fn stream_response((sequence, embedded): Numbered<EmbeddedBy>) -> pb::EmbedStreamResponse {
    use pb::embed_stream_response::Result as Outcome;
    let outcome = match embedded {
        Ok(embedded) => Outcome::Embed(response(embedded)),
        Err(error) => Outcome::Error(item_error(&error.into())),
    };
    pb::EmbedStreamResponse { sequence, result: Some(outcome) }
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

fn options(request: pb::EmbedRequest) -> Decoded<Options> {
    let span = |span: pb::Span| Span { text: span.text, start: span.start, end: span.end };
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
        spans: request.spans.into_iter().map(span).collect(),
        prompt: convert::prompt("prompt", request.prompt_name, request.prompt)?,
        truncation_side: match enum_value::<pb::TruncationSide>("truncation_side", request.truncation_side)? {
            pb::TruncationSide::Unspecified => None,
            pb::TruncationSide::Right => Some(TruncationSide::Right),
            pb::TruncationSide::Left => Some(TruncationSide::Left),
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
        ..Options::default()
    })
}

fn response((embedded, model): EmbeddedBy) -> pb::EmbedResponse {
    let columns = embedded.columns();
    let Embedded { rows, output, bytes, scales, token_counts, .. } = embedded;
    let dtype = match output {
        OutputType::F32 => pb::Dtype::F32,
        OutputType::F16 => pb::Dtype::F16,
        OutputType::Bf16 => pb::Dtype::Bf16,
        OutputType::Int8 => pb::Dtype::I8,
        OutputType::Binary => pb::Dtype::U8,
    };
    let scales = (output == OutputType::Int8)
        .then(|| convert::tensor_of(pb::Dtype::F32, &[scales.len()], convert::bytes_of(scales)));
    let embeddings = Some(convert::tensor_of(dtype, &[rows, columns], bytes));
    pb::EmbedResponse { embeddings, token_counts, model: model.name().to_owned(), scales }
}

fn describe(model: &LoadedModel) -> pb::Model {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (max_tokens, default_max_tokens) = model.limits().map_or((0, 0), |(max, limit)| (count(max), count(limit)));
    pb::Model {
        name: model.name().to_owned(),
        dimensions: count(model.dimensions()),
        supported_dimensions: model.offered_dimensions().to_vec(),
        vocabulary_size: count(model.vocabulary_size()),
        size_bytes: model.bytes(),
        sha256: model.sha256().to_owned(),
        digest: model.digest().to_owned(),
        aliases: model.aliases.clone(),
        architecture: model.architecture().to_owned(),
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
        prompt_names: model.prompt_names().cloned().collect(),
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
