//! Texts to vectors: finds the model, tokenises off the reactor, submits to the embed lane.

use std::{
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
};

use accelerd_engine::{Context, Done, Lane, SubmitError};
use accelerd_kernels::{
    Matrix, OpError, cpu,
    ops::{
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, EncodeRequest, Encoded, Output, Pooled},
    },
};
use accelerd_models::{Cut, CutError, Kind, Model, Sequences};
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use rayon::prelude::*;

use crate::{
    config::{self, Config, Limits, to_usize},
    error::ApiError,
    layers::timing,
};

mod options;
mod plan;
mod registry;

use options::Choice;
pub use options::{Options, Span};
use plan::Plan;
use registry::Registry;
pub use registry::{Served, Source};

/// The model that an empty name means.
pub const BUILTIN: &str = accelerd_models::BUILTIN;

/// Requests of one call that are queued at once.
const AT_ONCE: usize = 4;

/// Texts of more bytes than this are tokenised on the CPU pool: less takes no longer than to hand it over and back.
const INLINE_BYTES: usize = 8 << 10;

/// Bytes of text that are worth a task of their own.
const TASK_BYTES: usize = 16 << 10;

/// The loaded models and the lanes they run on.
#[derive(Clone)]
pub struct Embedder {
    registry: Arc<Registry>,
    tables: Lane<Embed>,
    encoders: Lane<Encode>,
    limits: Limits,
    pool: Option<Arc<cpu::Pool>>,
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
        let registry = Arc::new(Registry::new(models, &config::Models::default()));
        Self { registry, tables, encoders, limits: default_limits().clone(), pool: None }
    }

    /// That may load other models, as the settings say. What was loaded before is forgotten.
    #[must_use]
    pub fn with_registry(mut self, models: Vec<Arc<Model>>, settings: &config::Models) -> Self {
        self.registry = Arc::new(Registry::new(models, settings));
        self
    }

    /// With these limits on texts.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With a pool that large inputs are tokenised on.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<cpu::Pool>) -> Self {
        self.pool = Some(pool);
        self
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

    /// Loads a model for a caller, who may name only what the settings offer.
    pub async fn load(&self, source: Source) -> Result<Arc<Served>, ApiError> {
        refuse_hub(&source.path)?;
        let path = self.registry.allowed(&source.path)?;
        self.load_from(source, &path).await
    }

    /// Loads a model that the settings name.
    pub async fn preload(&self, source: Source) -> Result<Arc<Served>, ApiError> {
        refuse_hub(&source.path)?;
        let path = source.path.clone();
        self.load_from(source, Path::new(&path)).await
    }

    async fn load_from(&self, source: Source, path: &Path) -> Result<Arc<Served>, ApiError> {
        let reserved = self.registry.reserve(&source, path)?;
        let path = path.to_owned();
        // The reservation goes along: a caller who has gone does not end the reading, and its memory stays counted.
        let read = move || registry::read(&source, &path).map(|served| (served, reserved));
        let stopped = |_| ApiError::Unavailable("loading was stopped".to_owned());
        let (served, reserved) = tokio::task::spawn_blocking(read).await.map_err(stopped)??;
        self.warm_up(&served).await?;
        reserved.fill(Arc::clone(&served));
        Ok(served)
    }

    /// Computes one token, so that the first caller does not wait for memory and kernels, and a model that cannot run is
    /// not served.
    async fn warm_up(&self, served: &Arc<Served>) -> Result<(), ApiError> {
        let tokens = Input::Tokens { ids: vec![0], offsets: vec![0, 1] };
        self.embed(served, tokens, &Options::default(), Context::default()).await.map(drop)
    }

    /// Forgets a model; its name.
    pub fn unload(&self, name: &str) -> Result<String, ApiError> {
        self.registry.remove(name)
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
        let choice = options.choose(model, matches!(input, Input::Texts(_)))?;
        check_spans(options, self.limits.max_texts)?;
        let sequences = match input {
            Input::Texts(texts) => self.cut(model, texts, &choice.cut).boxed().await?,
            Input::Tokens { ids, offsets } => {
                let tokens = self.tokens(model, ids, offsets)?;
                cut_tokens(model, &tokens, &choice.cut)?
            }
        };
        match model.kind() {
            Kind::Table(table) => self.look_up(&table.table, sequences, options, &choice, context).boxed().await,
            Kind::Encoder(encoder) => {
                let (encoder, precision) = (&encoder.encoder, model.precision);
                let plan = Plan { encoder, precision, options, choice: &choice };
                self.encode(&plan, &sequences, context).boxed().await
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
        let done = self.tables.submit(EmbedRequest { table, ids, offsets, dimensions, normalize }, context).await?;
        timing::record(&done);
        let rows = token_counts.len();
        let Pooled { bytes, scales } = written(&done, rows, dimensions, options.output)?;
        Ok(Embedded { rows, dimensions, output: options.output, bytes: bytes.into(), scales, token_counts })
    }

    async fn encode(&self, plan: &Plan<'_>, sequences: &Sequences, context: Context) -> Result<Embedded, ApiError> {
        let requests = plan.requests(sequences)?;
        let token_counts = token_counts(sequences);
        let rows = requests.iter().map(EncodeRequest::row_count).sum();
        check_answer(rows, &token_counts, plan.choice.dimensions, plan.options)?;
        let answers =
            stream::iter(requests).map(|request| self.submit(request, context.clone()).boxed()).buffered(AT_ONCE);
        let answers: Vec<Encoded> = answers.try_collect().await?;
        let scales = answers.iter().flat_map(|answer| answer.scales.iter().copied()).collect();
        let (dimensions, output) = (plan.choice.dimensions, plan.options.output);
        let bytes = joined(answers);
        Ok(Embedded { rows, dimensions, output, bytes, scales, token_counts })
    }

    async fn submit(&self, request: EncodeRequest, context: Context) -> Result<Encoded, ApiError> {
        let done = self.encoders.submit(request, context).await?;
        timing::record(&done);
        Ok(done.response)
    }

    /// Splits texts into token ids, special ones included and cut to no length.
    pub async fn tokenize(&self, model: &Arc<Served>, texts: Vec<String>) -> Result<Tokens, ApiError> {
        let sequences = self
            .spread(model, texts, |model, text, out| {
                model.tokenize(text, &mut out.ids)?;
                out.end_text();
                Ok(())
            })
            .await?;
        Ok(Tokens { ids: sequences.ids, offsets: sequences.offsets })
    }

    /// Cuts texts into sequences.
    async fn cut(&self, model: &Arc<Served>, texts: Vec<String>, how: &Cut) -> Result<Sequences, ApiError> {
        let how = how.clone();
        self.spread(model, texts, move |model, text, out| model.cut(text, &how, out)).await
    }

    /// Does something with each of many texts; large inputs on the CPU pool.
    async fn spread(
        &self,
        model: &Arc<Served>,
        texts: Vec<String>,
        each: impl Fn(&Model, &str, &mut Sequences) -> Result<(), CutError> + Send + Sync + 'static,
    ) -> Result<Sequences, ApiError> {
        let bytes = self.check_texts(&texts)?;
        if bytes <= INLINE_BYTES {
            return all(model, &texts, 0, &each);
        }
        let (model, pool) = (Arc::clone(model), self.pool.clone());
        let work = move || match pool {
            Some(pool) => pool.install(|| all_in_parallel(&model, &texts, &each)),
            None => all(&model, &texts, 0, &each),
        };
        let panicked = |_| ApiError::Unavailable("tokenisation was stopped".to_owned());
        tokio::task::spawn_blocking(work).await.map_err(panicked)?
    }

    /// Checks texts against the limits; their bytes.
    fn check_texts(&self, texts: &[String]) -> Result<usize, ApiError> {
        const FIELD: &str = "texts.values";
        let (most, most_bytes) = (self.limits.max_texts, to_usize(self.limits.max_texts_bytes));
        check_count(FIELD, texts.len(), most)?;
        let (longest, at) = texts.iter().zip(0..).map(|(text, i)| (text.len(), i)).max().unwrap_or((0, 0));
        let limit = to_usize(self.limits.max_text_bytes);
        if longest > limit {
            let field = format!("{FIELD}[{at}]");
            return Err(ApiError::invalid(field, format!("expected at most {limit} bytes, got {longest}")));
        }
        let bytes = texts.iter().map(String::len).sum();
        if bytes > most_bytes {
            let reason = format!("expected at most {most_bytes} bytes together, got {bytes}");
            return Err(ApiError::invalid(FIELD, reason));
        }
        Ok(bytes)
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

fn check_spans(options: &Options, most: usize) -> Result<(), ApiError> {
    let got = options.spans.len();
    if got > most {
        return Err(ApiError::invalid("spans", format!("expected at most {most} spans, got {got}")));
    }
    Ok(())
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

fn refuse_hub(path: &str) -> Result<(), ApiError> {
    if path.starts_with("hf://") {
        let reason = "this build fetches nothing from a hub: download the folder, and give its path";
        return Err(ApiError::invalid("path", reason));
    }
    Ok(())
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

type Each<'a> = &'a (dyn Fn(&Model, &str, &mut Sequences) -> Result<(), CutError> + Sync);

/// Texts of which the first is text `first` of the request.
fn all(model: &Model, texts: &[String], first: usize, each: Each<'_>) -> Result<Sequences, ApiError> {
    let mut sequences = Sequences::default();
    for (at, text) in (first..).zip(texts) {
        each(model, text, &mut sequences).map_err(|error| unfit(at, &error))?;
    }
    Ok(sequences)
}

fn unfit(text: usize, error: &CutError) -> ApiError {
    let field = match error {
        CutError::NoTokenizer => "texts".to_owned(),
        CutError::Limit { .. } => "max_tokens".to_owned(),
        CutError::TooLong { .. } | CutError::Tokenizer(_) => format!("texts.values[{text}]"),
    };
    ApiError::invalid(field, error.to_string())
}

fn all_in_parallel(model: &Model, texts: &[String], each: Each<'_>) -> Result<Sequences, ApiError> {
    let bytes: usize = texts.iter().map(String::len).sum();
    let step = (texts.len() * TASK_BYTES / bytes.max(1)).clamp(1, texts.len());
    let parts = texts.par_chunks(step).enumerate().map(|(part, texts)| all(model, texts, part * step, each));
    let mut joined = Sequences::default();
    for part in parts.collect::<Result<Vec<_>, _>>()? {
        joined.append(part);
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_split_in_parallel_as_one_after_the_other() {
        let model = Model::builtin();
        let each: Each<'_> = &|model, text, out| model.cut(text, &Cut::default(), out);
        let text = |n: usize| format!("def parse_{n}(text): return [{n}] ").repeat(n % 7 * 40);
        for count in [1, 2, 50, 300] {
            let texts: Vec<_> = (0..count).map(text).collect();
            let sequences = all(&model, &texts, 0, each).expect("texts");
            assert_eq!(all_in_parallel(&model, &texts, each).expect("texts"), sequences, "{count} texts");
            assert_eq!(sequences.texts(), count);
            assert_eq!(sequences.offsets.last().copied().map(|end| end as usize), Some(sequences.ids.len()));
        }
    }
}
