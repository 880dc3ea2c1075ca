//! Texts, code and token ids to vectors.

use futures::{Stream, StreamExt, stream::BoxStream};

use crate::{
    Client, Error, Matrix, Result,
    call::{Method, last},
    proto::{self, embed_request::Input, embed_stream_response},
    timing::Timings,
};

const EMBED: Method<proto::EmbedRequest, proto::EmbedResponse> = Method::repeatable("/accelerd.v1.EmbedService/Embed");
const EMBED_STREAM: Method<proto::EmbedStreamRequest, proto::EmbedStreamResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/EmbedStream");
const TOKENIZE: Method<proto::TokenizeRequest, proto::TokenizeResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/Tokenize");
const LIST_MODELS: Method<proto::ListModelsRequest, proto::ListModelsResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/ListModels");

const LOAD_MODEL: Method<proto::LoadModelRequest, proto::LoadModelResponse> =
    Method::once("/accelerd.v1.EmbedService/LoadModel");
const UNLOAD_MODEL: Method<proto::UnloadModelRequest, proto::UnloadModelResponse> =
    Method::once("/accelerd.v1.EmbedService/UnloadModel");

/// How to embed. The default is the daemon's built-in model at full length, normalised.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbedOptions {
    /// Name or alias of a loaded model; empty means `builtin`.
    pub model: String,
    /// Leading dimensions to keep; 0 keeps all.
    pub dimensions: u32,
    /// Leave vectors at the length the model gives them.
    pub keep_length: bool,
    /// How tokens become vectors.
    pub pooling: proto::Pooling,
    /// Parts of the texts that have vectors instead of the texts, in the order of the texts.
    pub spans: Vec<proto::Span>,
    /// Name of one of the model's prompts.
    pub prompt_name: String,
    /// A prompt in its own words; empty is no prompt.
    pub prompt: Option<String>,
    /// Which end of a long text is left out.
    pub truncation_side: proto::TruncationSide,
    /// What is done with a long text.
    pub long_input: proto::LongInput,
    /// Most tokens of a text; 0 is the model's own limit.
    pub max_tokens: u32,
    /// Whether a GPU computes GELU through the error function.
    pub exact_gelu: bool,
}

impl EmbedOptions {
    /// The request for an input. Set its `output_type` for [`Client::embed_request`].
    pub fn request(&self, input: Input) -> proto::EmbedRequest {
        let options = self.clone();
        proto::EmbedRequest {
            model: options.model,
            input: Some(input),
            dimensions: options.dimensions,
            normalize: options.keep_length.then_some(false),
            pooling: options.pooling.into(),
            spans: options.spans,
            prompt_name: options.prompt_name,
            prompt: options.prompt,
            truncation_side: options.truncation_side.into(),
            long_input: options.long_input.into(),
            max_tokens: options.max_tokens,
            output_type: proto::OutputType::F32.into(),
            exact_gelu: options.exact_gelu,
        }
    }
}

/// A model to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSource {
    /// Its name in requests.
    pub name: String,
    /// Folder or file on the daemon's machine, or `hf://owner/name[@revision]`.
    pub path: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// What it is computed in; unspecified is bf16 on a GPU and f32 on a CPU.
    pub precision: proto::Precision,
}

/// Vectors of some texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One row a text, in the order given.
    pub vectors: Matrix,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
    /// The model that answered.
    pub model: String,
    /// Where the time went.
    pub timings: Timings,
}

impl Embeddings {
    fn new(message: proto::EmbedResponse, timings: Timings) -> Result<Self> {
        let proto::EmbedResponse { embeddings, token_counts, model, .. } = message;
        Ok(Self { vectors: Matrix::from_tensor(embeddings, "embeddings")?, token_counts, model, timings })
    }
}

/// The outcome of one batch of a stream.
#[derive(Debug)]
pub struct EmbedOutcome {
    /// Which batch, counted from 0.
    pub sequence: u64,
    /// Its vectors, or why it has none.
    pub result: Result<Embeddings>,
}

/// Token ids of many texts, flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Ids of all texts, one after the other.
    pub ids: Vec<u32>,
    /// Where each text starts in `ids`, then the length of `ids`.
    pub offsets: Vec<u32>,
}

impl Tokens {
    /// The ids of each text; a pair of offsets that lies gives an empty one.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|pair| self.ids.get(pair[0] as usize..pair[1] as usize).unwrap_or_default())
    }
}

pub(crate) fn text_input(texts: impl IntoIterator<Item = impl Into<String>>) -> proto::TextInput {
    proto::TextInput { values: texts.into_iter().map(Into::into).collect() }
}

impl Client {
    /// Embeds texts with the built-in model.
    pub async fn embed(&self, texts: impl IntoIterator<Item = impl Into<String>>) -> Result<Embeddings> {
        self.embed_with(texts, &EmbedOptions::default()).await
    }

    /// Embeds texts.
    pub async fn embed_with(
        &self,
        texts: impl IntoIterator<Item = impl Into<String>>,
        options: &EmbedOptions,
    ) -> Result<Embeddings> {
        self.embed_input(Input::Texts(text_input(texts)), options).await
    }

    /// Embeds token ids, as [`Client::tokenize`] makes them.
    pub async fn embed_tokens(&self, tokens: Tokens, options: &EmbedOptions) -> Result<Embeddings> {
        let Tokens { ids, offsets } = tokens;
        self.embed_input(Input::Tokens(proto::TokenInput { ids, offsets }), options).await
    }

    async fn embed_input(&self, input: Input, options: &EmbedOptions) -> Result<Embeddings> {
        let reply = self.unary(EMBED, options.request(input)).await?;
        Embeddings::new(reply.message, reply.timings)
    }

    /// Embeds batch after batch of a corpus, each by the same options. Each is answered as it finishes, perhaps before an
    /// earlier one; one that fails does not end the stream. Nothing is retried.
    pub async fn embed_stream(
        &self,
        batches: impl Stream<Item = Vec<String>> + Send + 'static,
        options: &EmbedOptions,
    ) -> Result<BoxStream<'static, Result<EmbedOutcome>>> {
        let (options, mut sequences) = (options.clone(), 0..);
        let requests = batches.map(move |texts| proto::EmbedStreamRequest {
            sequence: sequences.next().unwrap_or_default(),
            embed: Some(options.request(Input::Texts(proto::TextInput { values: texts }))),
        });
        let answers = self.both_stream(EMBED_STREAM, requests).await?;
        Ok(answers.map(|answer| answer.map_err(last).and_then(outcome)).boxed())
    }

    /// Embeds as a message says, and answers with the message: for numbers other than f32.
    pub async fn embed_request(&self, request: proto::EmbedRequest) -> Result<proto::EmbedResponse> {
        Ok(self.unary(EMBED, request).await?.message)
    }

    /// Splits texts into the token ids a model would see. An empty name means `builtin`.
    pub async fn tokenize(
        &self,
        model: impl Into<String>,
        texts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Tokens> {
        let request = proto::TokenizeRequest { model: model.into(), texts: Some(text_input(texts)) };
        let tokens = self.unary(TOKENIZE, request).await?.message.tokens;
        let proto::TokenInput { ids, offsets } = tokens.ok_or_else(|| Error::Malformed("no tokens".into()))?;
        Ok(Tokens { ids, offsets })
    }

    /// The models that are loaded, by name.
    pub async fn models(&self) -> Result<Vec<proto::Model>> {
        Ok(self.unary(LIST_MODELS, proto::ListModelsRequest {}).await?.message.models)
    }

    /// Loads a model from a folder or file on the daemon's machine, or from its hub.
    pub async fn load_model(&self, source: ModelSource) -> Result<proto::Model> {
        let ModelSource { name, path, aliases, precision } = source;
        let request = proto::LoadModelRequest { name, path, aliases, precision: precision.into() };
        let model = self.unary(LOAD_MODEL, request).await?.message.model;
        model.ok_or_else(|| Error::Malformed("no model".into()))
    }

    /// Forgets a model; its name.
    pub async fn unload_model(&self, name: impl Into<String>) -> Result<String> {
        let request = proto::UnloadModelRequest { name: name.into() };
        Ok(self.unary(UNLOAD_MODEL, request).await?.message.name)
    }
}

fn outcome(answer: proto::EmbedStreamResponse) -> Result<EmbedOutcome> {
    use embed_stream_response::Result as Step;
    let result = match answer.result {
        Some(Step::Embed(response)) => Embeddings::new(response, Timings::default()),
        Some(Step::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("batch {} without an outcome", answer.sequence))),
    };
    Ok(EmbedOutcome { sequence: answer.sequence, result })
}
