//! Texts to vectors: finds the model, has texts tokenised, and submits them to the lane of tables or of encoders.

use std::{
    fmt, io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use accelerd_engine::{Context, Done, Lane, SubmitError};
use accelerd_kernels::{
    Matrix, Op, OpError,
    ops::{
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, EncodeRequest, Encoded, Output, Pooled},
    },
};
use accelerd_models::{Cut, CutError, Kind, Model, Sequences};
use bytes::{Bytes, BytesMut};
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use tokio::time::sleep;

use crate::{
    config::{self, Config, Limits, to_usize},
    error::ApiError,
    hub::Hub,
    layers::timing,
};

mod cut;
mod load;
mod options;
mod plan;
mod registry;
mod rerank;

use cut::{Cutter, Part};
use options::Choice;
pub use options::{Options, Span};
use plan::{Parting, Plan};
use registry::Registry;
pub use registry::{Served, Source};
pub use rerank::{Ranked, Reranked, Reranking};

/// The model that an empty name means.
pub const BUILTIN: &str = accelerd_models::BUILTIN;

/// Shortest wait for room.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The loaded models and the lanes they run on.
#[derive(Clone)]
pub struct Embedder {
    registry: Arc<Registry>,
    hub: Arc<Hub>,
    tables: Lane<Embed>,
    encoders: Lane<Encode>,
    limits: Limits,
    cutter: Cutter,
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.models().iter().map(|model| model.name().to_owned()).collect();
        f.debug_struct("Embedder").field("models", &names).finish_non_exhaustive()
    }
}

/// What to embed.
#[derive(Clone, Debug)]
pub enum Input {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids and where each text starts in them, then their count.
    Tokens {
        /// Ids of all texts.
        ids: Vec<u32>,
        /// n + 1 offsets.
        offsets: Vec<u32>,
    },
}

impl Input {
    /// How many texts it has, if it is well-formed.
    fn texts(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens { offsets, .. } => offsets.len().saturating_sub(1),
        }
    }
}

/// Token ids of many texts, flattened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Ids of all texts.
    pub ids: Vec<u32>,
    /// Where each text starts, then the length of `ids`.
    pub offsets: Vec<u32>,
}

/// Vectors of some texts.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// How many vectors.
    pub rows: usize,
    /// Dimensions of each.
    pub dimensions: usize,
    /// In what numbers.
    pub output: Output,
    /// The numbers, row after row.
    pub bytes: Bytes,
    /// What the integers of each row are multiplied with.
    pub scales: Vec<f32>,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
}

impl Embedded {
    /// As a matrix. Other numbers than f32 are the daemon's fault, not the caller's.
    pub fn matrix(&self) -> Result<Matrix, ApiError> {
        let failed = |reason: String| {
            let device = accelerd_kernels::DeviceId::Cpu;
            ApiError::from(SubmitError::Op(OpError::Failed { device, kernel: "embed", reason }))
        };
        let matrix = Matrix::from_bytes(self.rows, self.dimensions, self.bytes.clone());
        matrix.map_err(|error| failed(error.to_string()))
    }
}

impl Embedder {
    /// An embedder over some models, with the default limits, that loads no others.
    pub fn new(models: Vec<Arc<Model>>, tables: Lane<Embed>, encoders: Lane<Encode>) -> Self {
        let settings = config::Models::default();
        let registry = Arc::new(Registry::new(models, &settings));
        let hub = Arc::new(Hub::new(&settings.hub, None));
        Self { registry, hub, tables, encoders, limits: default_limits().clone(), cutter: Cutter::default() }
    }

    /// That may load other models, as the settings say. What was loaded before is forgotten.
    #[must_use]
    pub fn with_registry(mut self, models: Vec<Arc<Model>>, settings: &config::Models) -> Self {
        self.registry = Arc::new(Registry::new(models, settings));
        self
    }

    /// That may fetch models from a hub, as its settings say, with a token for models that are not public.
    #[must_use]
    pub fn with_hub(mut self, settings: &config::Hub, token: Option<String>) -> Self {
        self.hub = Arc::new(Hub::new(settings, token));
        self
    }

    /// With these limits on texts.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With so many threads that tokenise; 0: as many as the container may use.
    pub fn with_threads(mut self, threads: usize) -> io::Result<Self> {
        self.cutter = Cutter::start(threads)?;
        Ok(self)
    }

    /// The loaded models, by name.
    pub fn models(&self) -> Vec<Arc<Served>> {
        self.registry.all()
    }

    /// The model of this name or alias; empty means `builtin`.
    pub fn model(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let wanted = if name.is_empty() { BUILTIN } else { name };
        self.registry.find(wanted).ok_or_else(|| ApiError::NotFound { kind: "model", name: wanted.to_owned() })
    }

    /// A model that makes vectors, by name or alias.
    pub fn embedding_model(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let model = self.model(name)?;
        rerank::must_embed(&model)?;
        Ok(model)
    }

    /// Embeds texts or tokens. Boxed, as are its parts: a compiler that must look through all of them at once to see that
    /// they may be sent takes minutes.
    pub fn embed<'a>(
        &'a self,
        model: &'a Arc<Served>,
        input: Input,
        options: &'a Options,
        context: Context,
    ) -> BoxFuture<'a, Result<Embedded, ApiError>> {
        self.embed_input(model, input, options, context).boxed()
    }

    async fn embed_input(
        &self,
        model: &Arc<Served>,
        input: Input,
        options: &Options,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        rerank::must_embed(model)?;
        let choice = options.choose(model, matches!(input, Input::Texts(_)))?;
        plan::check_spans(&options.spans, input.texts(), self.limits.max_texts)?;
        let parts = self.parts(model, input, &choice.cut)?;
        match model.kind() {
            Kind::Table(table) => {
                let sequences = cut::joined(parts).boxed().await?;
                self.look_up(&table.table, sequences, options, &choice, context).boxed().await
            }
            Kind::Encoder(encoder) => {
                let (encoder, precision) = (&encoder.encoder, model.precision);
                let plan = Plan { encoder, precision, options, choice: &choice };
                self.encode(&plan, parts, context).boxed().await
            }
        }
    }

    /// Sequences of an input, some of them while others are computed.
    fn parts(
        &self,
        model: &Arc<Served>,
        input: Input,
        how: &Cut,
    ) -> Result<BoxStream<'static, Result<Part, ApiError>>, ApiError> {
        match input {
            Input::Texts(texts) => {
                self.check_texts("texts", &texts)?;
                self.check_prompt(&texts, &how.prompt)?;
                Ok(self.cutter.parts(model, texts, cut::by(how)).boxed())
            }
            Input::Tokens { ids, offsets } => {
                let tokens = self.tokens(model, ids, offsets)?;
                let sequences = cut_tokens(model, &tokens, how)?;
                Ok(stream::once(ready(Ok(Part { first: 0, sequences }))).boxed())
            }
        }
    }

    async fn look_up(
        &self,
        table: &Arc<Table>,
        sequences: Sequences,
        options: &Options,
        choice: &Choice,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        let token_counts = token_counts(&sequences);
        check_answer(token_counts.len(), &token_counts, choice.dimensions, options)?;
        let (table, dimensions, normalize) = (Arc::clone(table), choice.dimensions, choice.normalize);
        let Sequences { ids, offsets, .. } = sequences;
        let request = EmbedRequest { table, ids, offsets, dimensions, normalize };
        let done = submitted(&self.tables, request, options.waits, context).await?;
        let rows = token_counts.len();
        let Pooled { bytes, scales } = written(&done, rows, dimensions, options.output)?;
        Ok(Embedded { rows, dimensions, output: options.output, bytes: bytes.into(), scales, token_counts })
    }

    /// Computes parts as they are cut.
    async fn encode(
        &self,
        plan: &Plan<'_>,
        parts: BoxStream<'static, Result<Part, ApiError>>,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        let (answers, token_counts) = self.encode_each(plan, parts, context, |answer| ready(Ok(answer))).await?;
        let rows = answers.iter().map(|answer| answer.rows).sum();
        let (dimensions, output) = (plan.choice.dimensions, plan.options.output);
        let scales = answers.iter().flat_map(|answer| answer.scales.iter().copied()).collect();
        Ok(Embedded { rows, dimensions, output, bytes: joined(answers), scales, token_counts })
    }

    /// Computes parts as they are cut, and what `then` makes of each answer; with the tokens of each text.
    async fn encode_each<T, F>(
        &self,
        plan: &Plan<'_>,
        parts: BoxStream<'static, Result<Part, ApiError>>,
        context: Context,
        then: impl Fn(Encoded) -> F + Send + Sync,
    ) -> Result<(Vec<T>, Vec<u32>), ApiError>
    where
        T: Send,
        F: Future<Output = Result<T, ApiError>> + Send,
    {
        let (mut rows, mut token_counts) = (0, vec![]);
        let dimensions = plan.choice.dimensions;
        let Parting { tokens, at_once } = Parting::new(plan.encoder.config(), self.encoders.on_gpu());
        let then = &then;
        let requests = parts.map(|part| {
            let part = part?;
            let requests = plan.requests(&part, tokens)?;
            rows += requests.iter().map(EncodeRequest::row_count).sum::<usize>();
            token_counts.extend(self::token_counts(&part.sequences));
            check_answer(rows, &token_counts, dimensions, plan.options)?;
            Ok::<_, ApiError>(stream::iter(requests.into_iter().map(Ok)))
        });
        // A call is refused with its first request where there is no room. Once that was taken the others wait, since what
        // was computed would be lost.
        let mut may_wait = plan.options.waits;
        let answers = requests.try_flatten().map_ok(|request| {
            let may_wait = std::mem::replace(&mut may_wait, true);
            let done = submitted(&self.encoders, request, may_wait, context.clone());
            async move { then(done.await?.response).await }.boxed()
        });
        let answers = answers.try_buffered(at_once).try_collect().await?;
        Ok((answers, token_counts))
    }

    /// Splits texts into token ids, special ones included and cut to no length.
    pub async fn tokenize(&self, model: &Arc<Served>, texts: Vec<String>) -> Result<Tokens, ApiError> {
        self.check_texts("texts", &texts)?;
        let sequences = self.cutter.all(model, texts, cut::whole()).await?;
        Ok(Tokens { ids: sequences.ids, offsets: sequences.offsets })
    }

    /// Checks the texts of a field against the limits.
    fn check_texts(&self, field: &str, texts: &[String]) -> Result<(), ApiError> {
        let field = format!("{field}.values");
        let (most, most_bytes) = (self.limits.max_texts, to_usize(self.limits.max_texts_bytes));
        check_count(&field, texts.len(), most)?;
        let (longest, at) = texts.iter().zip(0..).map(|(text, i)| (text.len(), i)).max().unwrap_or((0, 0));
        let limit = to_usize(self.limits.max_text_bytes);
        if longest > limit {
            let field = format!("{field}[{at}]");
            return Err(ApiError::invalid(field, format!("expected at most {limit} bytes, got {longest}")));
        }
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > most_bytes {
            let reason = format!("expected at most {most_bytes} bytes together, got {bytes}");
            return Err(ApiError::invalid(field, reason));
        }
        Ok(())
    }

    /// A prompt is read with every text, so it counts as often.
    fn check_prompt(&self, texts: &[String], prompt: &str) -> Result<(), ApiError> {
        let (most, all) = (to_usize(self.limits.max_text_bytes), to_usize(self.limits.max_texts_bytes));
        let together = prompt.len().saturating_mul(texts.len());
        if prompt.len() > most || together > all {
            let (got, texts) = (prompt.len(), texts.len());
            let reason = format!("expected at most {most} bytes, and {all} over {texts} texts, got {got}");
            return Err(ApiError::invalid("prompt", reason));
        }
        Ok(())
    }

    /// Checks token ids that a caller made.
    fn tokens(&self, model: &Model, ids: Vec<u32>, offsets: Vec<u32>) -> Result<Tokens, ApiError> {
        const FIELD: &str = "tokens.offsets";
        check_count(FIELD, offsets.len().saturating_sub(1), self.limits.max_texts)?;
        if let Some(first) = offsets.first().filter(|first| **first != 0) {
            return Err(ApiError::invalid(format!("{FIELD}[0]"), format!("expected 0, got {first}")));
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            let reason = format!("expected at least {}, got {}", offsets[at], offsets[at + 1]);
            return Err(ApiError::invalid(format!("{FIELD}[{}]", at + 1), reason));
        }
        let last = offsets.last().copied().unwrap_or(0) as usize;
        if last != ids.len() {
            let reason = format!("expected the last to be the {} ids, got {last}", ids.len());
            return Err(ApiError::invalid(FIELD, reason));
        }
        let rows = model.vocabulary_size();
        if let Some(at) = ids.iter().position(|id| *id as usize >= rows) {
            let reason = format!("expected an id below {rows}, got {}", ids[at]);
            return Err(ApiError::invalid(format!("tokens.ids[{at}]"), reason));
        }
        Ok(Tokens { ids, offsets })
    }
}

/// Submits a request, again and again where it may wait for room.
async fn submitted<O: Op>(
    lane: &Lane<O>,
    request: O::Request,
    may_wait: bool,
    context: Context,
) -> Result<Done<O::Response>, ApiError>
where
    O::Request: Clone,
{
    if !may_wait {
        return Ok(lane.submit(request, context).await.inspect(timing::record)?);
    }
    loop {
        match lane.submit(request.clone(), context.clone()).await {
            Err(SubmitError::Full { retry_after, .. }) => sleep(retry_after.max(LEAST_WAIT)).await,
            done => return Ok(done.inspect(timing::record)?),
        }
    }
}

fn default_limits() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| Config::default().limits)
}

fn check_count(field: &str, got: usize, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&got) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("expected 1 to {most} texts, got {got}")))
}

/// What a message has besides vectors, scales and token counts: names, shapes, tags.
const MESSAGE_BYTES: usize = 1 << 10;

/// Refuses what no message could carry before it is computed. A token count takes at most five bytes, a scale four.
fn check_answer(rows: usize, counts: &[u32], dimensions: usize, options: &Options) -> Result<(), ApiError> {
    let row = options.output.row_bytes(dimensions).saturating_add(4);
    let bytes = rows.saturating_mul(row).saturating_add(5 * counts.len() + MESSAGE_BYTES);
    match options.max_answer_bytes {
        Some(most) if bytes > most => Err(ApiError::AnswerTooLarge { bytes, most }),
        _ => Ok(()),
    }
}

/// Rows of a table's answer in the numbers asked for. A response of another shape is the operation's fault.
fn written(done: &Done<Vec<f32>>, rows: usize, dimensions: usize, output: Output) -> Result<Pooled, ApiError> {
    let device = done.device;
    if done.response.len() != rows * dimensions {
        let reason = format!("expected [{rows}, {dimensions}] numbers, got {}", done.response.len());
        return Err(SubmitError::Op(OpError::Failed { device, kernel: "embed", reason }).into());
    }
    Ok(Pooled::of(&done.response, dimensions, output))
}

fn joined(answers: Vec<Encoded>) -> Bytes {
    let bytes = answers.iter().map(|answer| answer.bytes.len()).sum();
    let mut answers = answers.into_iter().map(|answer| answer.bytes);
    match (answers.next(), answers.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut joined = BytesMut::with_capacity(bytes);
            [first, second].into_iter().chain(answers).for_each(|part| joined.extend_from_slice(&part));
            joined.freeze()
        }
    }
}

fn token_counts(sequences: &Sequences) -> Vec<u32> {
    let counts = (0..sequences.texts()).map(|text| sequences.tokens(text).len());
    counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect()
}

/// Cuts the checked ids that a caller made.
fn cut_tokens(model: &Model, tokens: &Tokens, how: &Cut) -> Result<Sequences, ApiError> {
    let mut sequences = Sequences::default();
    for (at, ends) in tokens.offsets.windows(2).enumerate() {
        let ids = &tokens.ids[ends[0] as usize..ends[1] as usize];
        let wrong = |error: CutError| ApiError::invalid(format!("tokens.offsets[{}]", at + 1), error.to_string());
        model.cut_ids(ids, how, &mut sequences).map_err(wrong)?;
    }
    Ok(sequences)
}
