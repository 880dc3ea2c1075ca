//! Embeddings, tokenization and models.

use std::ops::Range;

use accelerd_proto::methods::embed_service;
use futures::{Stream, StreamExt, stream::BoxStream};

use crate::{
    Client, Error, Matrix, Result,
    parts::text_bytes,
    proto::{self, embed_request::Input, embed_stream_response},
    resume::Resend,
    timing::Timings,
};

/// Options of an embedding. The default is the daemon's built-in model with all dimensions, normalised.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbedOptions {
    /// Name or alias of a loaded model; empty means `builtin`.
    pub model: String,
    /// Leading dimensions to keep (Matryoshka embeddings); 0 keeps all.
    pub dimensions: u32,
    /// True to return vectors without scaling them to unit length.
    pub keep_length: bool,
    /// Pooling over tokens.
    pub pooling: proto::Pooling,
    /// Late chunking: spans that have a vector each instead of the texts, in the order of the texts.
    pub spans: Vec<proto::Span>,
    /// Name of one of the model's prompts.
    pub prompt_name: String,
    /// The prompt itself, instead of its name; empty means none.
    pub prompt: Option<String>,
    /// Side on which a long text is truncated.
    pub truncation_side: proto::TruncationSide,
    /// Treatment of a long text.
    pub long_input: proto::LongInput,
    /// Maximum tokens of a text; 0 means the model's default.
    pub max_tokens: u32,
    /// True if a GPU computes GELU by the error function instead of an approximation.
    pub exact_gelu: bool,
}

impl EmbedOptions {
    /// Returns the request for an input, whose `output_type` can be changed for [`Client::embed_request`].
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
    /// Name in requests.
    pub name: String,
    /// Folder or file on the daemon's machine, or `hf://owner/name[@revision]`.
    pub path: String,
    /// Other names in requests.
    pub aliases: Vec<String>,
    /// Precision of its computation; default bf16 on a GPU and f32 on a CPU.
    pub precision: proto::Precision,
}

/// Vectors of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One row per text, in the order of the request.
    pub vectors: Matrix,
    /// Number of tokens of each text.
    pub token_counts: Vec<u32>,
    /// Name of the model.
    pub model: String,
    /// Server-side timings.
    pub timings: Timings,
}

/// Texts or token ids to embed, of which parts can be taken.
enum Rows {
    Texts(Vec<String>),
    Tokens(Tokens),
}

impl Rows {
    fn sizes(&self) -> Vec<usize> {
        match self {
            Self::Texts(texts) => texts.iter().map(|text| text_bytes(text)).collect(),
            // At most five bytes for an id, and five for an offset.
            Self::Tokens(tokens) => tokens.iter().map(|ids| 5 * ids.len() + 5).collect(),
        }
    }

    fn field(&self) -> &'static str {
        match self {
            Self::Texts(_) => "texts",
            Self::Tokens(_) => "tokens",
        }
    }

    fn part(&self, part: Range<usize>) -> Input {
        match self {
            Self::Texts(texts) => Input::Texts(text_input(&texts[part])),
            Self::Tokens(tokens) => Input::Tokens(tokens.part(part)),
        }
    }
}

impl Embeddings {
    fn new(message: proto::EmbedResponse, timings: Timings) -> Result<Self> {
        let proto::EmbedResponse { embeddings, token_counts, model, .. } = message;
        Ok(Self { vectors: Matrix::from_tensor(embeddings, "embeddings")?, token_counts, model, timings })
    }
}

/// Outcome of one batch of a stream.
#[derive(Debug)]
pub struct EmbedOutcome {
    /// Index of the batch.
    pub sequence: u64,
    /// Its vectors, or why the batch failed.
    pub result: Result<Embeddings>,
}

/// Token ids of n texts, concatenated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Ids of all texts.
    pub ids: Vec<u32>,
    /// Where each text starts in `ids`, followed by the length of `ids`: n + 1 numbers.
    pub offsets: Vec<u32>,
}

impl Tokens {
    /// Ids of each text; empty for a text with invalid offsets.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|pair| self.between(pair[0], pair[1]))
    }

    fn between(&self, start: u32, end: u32) -> &[u32] {
        self.ids.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The message of some texts. Offsets that are no offsets stay so, which the daemon refuses.
    fn part(&self, part: Range<usize>) -> proto::TokenInput {
        if part.len() + 1 >= self.offsets.len() {
            return proto::TokenInput { ids: self.ids.clone(), offsets: self.offsets.clone() };
        }
        let offsets = &self.offsets[part.start..=part.end];
        let ids = self.between(offsets[0], offsets[part.len()]).to_vec();
        proto::TokenInput { ids, offsets: offsets.iter().map(|offset| offset.wrapping_sub(offsets[0])).collect() }
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

    /// Embeds texts, in several calls if they exceed a message.
    pub async fn embed_with(
        &self,
        texts: impl IntoIterator<Item = impl Into<String>>,
        options: &EmbedOptions,
    ) -> Result<Embeddings> {
        self.embed_rows(Rows::Texts(texts.into_iter().map(Into::into).collect()), options).await
    }

    /// Embeds token ids, such as those of [`Client::tokenize`], in several calls if they exceed a message.
    pub async fn embed_tokens(&self, tokens: Tokens, options: &EmbedOptions) -> Result<Embeddings> {
        self.embed_rows(Rows::Tokens(tokens), options).await
    }

    async fn embed_rows(&self, rows: Rows, options: &EmbedOptions) -> Result<Embeddings> {
        let prompt = options.prompt.as_ref().map_or(0, String::len);
        let sizes = rows.sizes();
        let count = sizes.len();
        let call = |part: Range<usize>, until| {
            let spans = spans_of(&options.spans, &part, count);
            let request = proto::EmbedRequest { spans, ..options.request(rows.part(part)) };
            self.unary_until(embed_service::EMBED, request, until)
        };
        let parts = self.parts(sizes.into_iter().map(|size| size + prompt), prompt);
        let done = self.in_parts(rows.field(), parts, call).await?;
        let parts = done.into_iter().map(|(part, reply)| {
            let mut embeddings = Embeddings::new(reply.message, reply.timings)?;
            // Without spans, a part has a vector for each input.
            if !options.spans.is_empty() && spans_of(&options.spans, &part, count).is_empty() {
                embeddings.vectors = Matrix::new(vec![], embeddings.vectors.dim())?;
            }
            Ok(embeddings)
        });
        joined(parts.collect::<Result<_>>()?)
    }

    /// Embeds batches over one stream. Outcomes come in the order of completion; a failed batch does not end the stream.
    /// After a lost connection, or the drain of a daemon, batches without an outcome are sent again.
    pub async fn embed_stream(
        &self,
        batches: impl Stream<Item = Vec<String>> + Send + 'static,
        options: &EmbedOptions,
    ) -> Result<BoxStream<'static, Result<EmbedOutcome>>> {
        let options = options.clone();
        let mut sequences = 0..;
        let requests = batches.map(move |texts| proto::EmbedStreamRequest {
            sequence: sequences.next().unwrap_or_default(),
            embed: Some(options.request(Input::Texts(proto::TextInput { values: texts }))),
        });
        let responses = self.resumable_stream(embed_service::EMBED_STREAM, requests, Resend::Unanswered).await?;
        Ok(responses.map(|response| response.and_then(outcome)).boxed())
    }

    /// Sends a request as a message and returns the response message, for output types other than f32.
    pub async fn embed_request(&self, request: proto::EmbedRequest) -> Result<proto::EmbedResponse> {
        Ok(self.unary(embed_service::EMBED, request).await?.message)
    }

    /// Converts texts to the token ids of a model, in several calls if they exceed a message. An empty name means `builtin`.
    pub async fn tokenize(
        &self,
        model: impl Into<String>,
        texts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Tokens> {
        let model = model.into();
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let call = |part: Range<usize>, until| {
            let request = proto::TokenizeRequest {
                model: model.clone(),
                texts: Some(text_input(&texts[part])),
                with_spans: false,
            };
            self.unary_until(embed_service::TOKENIZE, request, until)
        };
        let done = self.in_parts("texts", self.parts(texts.iter().map(|text| text_bytes(text)), 0), call).await?;
        let mut all = Tokens { ids: vec![], offsets: vec![0] };
        for (_, reply) in done {
            let tokens = reply.message.tokens.ok_or_else(|| Error::Malformed("no tokens".into()))?;
            let before = u32::try_from(all.ids.len()).ok();
            let moved = tokens.offsets.iter().skip(1).map(|offset| before?.checked_add(*offset));
            let moved: Option<Vec<_>> = moved.collect();
            all.offsets.extend(moved.ok_or_else(|| Error::Malformed("more tokens than offsets can count".into()))?);
            all.ids.extend(tokens.ids);
        }
        Ok(all)
    }

    /// Sends a request as a message and returns the response message, for the spans of tokens.
    pub async fn tokenize_request(&self, request: proto::TokenizeRequest) -> Result<proto::TokenizeResponse> {
        Ok(self.unary(embed_service::TOKENIZE, request).await?.message)
    }

    /// Lists the loaded models, sorted by name.
    pub async fn models(&self) -> Result<Vec<proto::Model>> {
        Ok(self.unary(embed_service::LIST_MODELS, proto::ListModelsRequest {}).await?.message.models)
    }

    /// Loads a model from a folder or file on the daemon's machine, or from its hub.
    pub async fn load_model(&self, source: ModelSource) -> Result<proto::Model> {
        let ModelSource { name, path, aliases, precision } = source;
        let request = proto::LoadModelRequest { name, path, aliases, precision: precision.into() };
        let model = self.unary(embed_service::LOAD_MODEL, request).await?.message.model;
        model.ok_or_else(|| Error::Malformed("no model".into()))
    }

    /// Unloads a model, by name or alias. Returns its name.
    pub async fn unload_model(&self, name: impl Into<String>) -> Result<String> {
        let request = proto::UnloadModelRequest { name: name.into() };
        Ok(self.unary(embed_service::UNLOAD_MODEL, request).await?.message.name)
    }
}

/// The spans in a part of `count` inputs. The last part also has those of no input, which the daemon refuses.
fn spans_of(spans: &[proto::Span], part: &Range<usize>, count: usize) -> Vec<proto::Span> {
    let is_in = |text: usize| part.contains(&text) || (text >= count && part.end == count);
    let spans = spans.iter().filter(|span| is_in(span.text as usize));
    let first = u32::try_from(part.start).unwrap_or(u32::MAX);
    spans.map(|span| proto::Span { text: span.text - first, ..*span }).collect()
}

/// Joins the vectors of parts.
fn joined(parts: Vec<Embeddings>) -> Result<Embeddings> {
    let is_split = parts.len() > 1;
    let mut parts = parts.into_iter();
    let mut all = parts.next().ok_or_else(|| Error::Malformed("no embeddings".into()))?;
    if !is_split {
        return Ok(all);
    }
    let dim = all.vectors.dim();
    let mut numbers = all.vectors.as_slice().to_vec();
    for part in parts {
        numbers.extend_from_slice(part.vectors.as_slice());
        all.token_counts.extend(part.token_counts);
        all.timings.add(part.timings);
    }
    all.vectors = Matrix::new(numbers, dim)?;
    Ok(all)
}

fn outcome(response: proto::EmbedStreamResponse) -> Result<EmbedOutcome> {
    use embed_stream_response::Result as Wire;
    let result = match response.result {
        Some(Wire::Embed(response)) => Embeddings::new(response, Timings::default()),
        Some(Wire::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("no result of batch {}", response.sequence))),
    };
    Ok(EmbedOutcome { sequence: response.sequence, result })
}
