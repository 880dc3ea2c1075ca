//! Embeds texts and token ids: tokenises them and submits them to the lane of tables or encoders.

use std::{
    fmt, io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use accelerd_engine::{Completion, Context, Lane, SubmitError};
use accelerd_kernels::{
    Matrix, Op, OpError,
    ledger::Ledger,
    ops::{
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, EncodeRequest, Encoded, OutputType, PooledOutput},
    },
};
use accelerd_models::{Kind, Model, Sequences, TokenizeError, TokenizeOptions};
use bytes::{Bytes, BytesMut};
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use tokio::time::sleep;

use super::{
    call_work::CallWork,
    finite::{FiniteCheck, Items, first_non_finite_row},
    options::{Options, ResolvedOptions},
    registry::{LoadedModel, Registry},
    requests::{self, RequestBuilder, RequestSizing},
    tokenizer_pool::{self, TokenizedBatch, TokenizerPool},
};
use crate::{
    auth::caller::Caller,
    config::{self, Config, Limits, to_usize},
    error::ApiError,
    hub::Hub,
    layers::timing,
};

/// Name of the default model.
pub const BUILTIN: &str = accelerd_models::BUILTIN;

/// Shortest delay before a retry while the lane is full.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(1);

/// The loaded models and the lanes they run on.
#[derive(Clone)]
pub struct Embedder {
    pub(super) registry: Arc<Registry>,
    pub(super) hub: Arc<Hub>,
    tables: Lane<Embed>,
    pub(super) encoders: Lane<Encode>,
    pub(super) limits: Limits,
    pub(super) tokenizer_pool: TokenizerPool,
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.models().iter().map(|model| model.name().to_owned()).collect();
        f.debug_struct("Embedder").field("models", &names).finish_non_exhaustive()
    }
}

/// Input of an embedding.
#[derive(Clone, Debug)]
pub enum Input {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids of many texts, flattened.
    Tokens {
        /// Ids of all texts.
        ids: Vec<u32>,
        /// Start of each text in `ids`, then the length of `ids`.
        offsets: Vec<u32>,
    },
}

impl Input {
    /// Size of each text in bytes; empty for tokens.
    fn text_sizes(&self) -> Vec<usize> {
        match self {
            Self::Texts(texts) => texts.iter().map(String::len).collect(),
            Self::Tokens { .. } => vec![],
        }
    }

    /// Number of texts, if well-formed.
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
    /// Start of each text in `ids`, then the length of `ids`.
    pub offsets: Vec<u32>,
}

/// Vectors of texts.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Number of vectors.
    pub rows: usize,
    /// Dimensions of each vector.
    pub dimensions: usize,
    /// Number type of `bytes`.
    pub output: OutputType,
    /// The vectors, row-major.
    pub bytes: Bytes,
    /// Scale of each row of integers; empty for other types.
    pub scales: Vec<f32>,
    /// Number of tokens of each text.
    pub token_counts: Vec<u32>,
}

impl Embedded {
    /// Elements of a vector in `bytes`: eight binary dimensions are one.
    pub fn columns(&self) -> usize {
        match self.output {
            OutputType::F32 | OutputType::F16 | OutputType::Bf16 | OutputType::Int8 => self.dimensions,
            OutputType::Binary => self.dimensions.div_ceil(8),
        }
    }

    /// The vectors as a matrix; an internal error unless they are f32.
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
    /// An embedder of the given models with default limits, which loads no others.
    pub fn new(models: Vec<Arc<Model>>, tables: Lane<Embed>, encoders: Lane<Encode>) -> Self {
        let settings = config::ModelSettings::default();
        let registry = Arc::new(Registry::new(models, &settings, &Ledger::new()));
        let hub = Arc::new(Hub::new(&settings.hub, None));
        Self {
            registry,
            hub,
            tables,
            encoders,
            limits: default_limits().clone(),
            tokenizer_pool: TokenizerPool::default(),
        }
    }

    /// Replaces the models; others may be loaded as the settings permit, and are charged to the ledger.
    #[must_use]
    pub fn with_registry(mut self, models: Vec<Arc<Model>>, settings: &config::ModelSettings, ledger: &Ledger) -> Self {
        self.registry = Arc::new(Registry::new(models, settings, ledger));
        self
    }

    /// Permits downloads from a hub, with an optional access token.
    #[must_use]
    pub fn with_hub(mut self, settings: &config::HubSettings, token: Option<String>) -> Self {
        self.hub = Arc::new(Hub::new(settings, token));
        self
    }

    /// Sets the limits on texts.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts `threads` tokenizer threads; 0 means the number of available CPUs.
    pub fn with_threads(mut self, threads: usize) -> io::Result<Self> {
        self.tokenizer_pool = TokenizerPool::start(threads)?;
        Ok(self)
    }

    /// The model of this name, if the caller may use the model, or an alias by this name. A missing model that the caller might
    /// not use is refused too, so that a refusal does not tell what is loaded.
    pub(crate) fn model_for(&self, caller: &Caller, name: &str) -> Result<Arc<LoadedModel>, ApiError> {
        let model = self.model(name);
        let model_name = model.as_ref().map_or(name, |model| model.name());
        caller.check_model(if name.is_empty() { model_name } else { name }, [name, model_name])?;
        model
    }

    /// The loaded models, sorted by name.
    pub fn models(&self) -> Vec<Arc<LoadedModel>> {
        self.registry.all()
    }

    /// The model of this name or alias; empty means `builtin`.
    pub fn model(&self, name: &str) -> Result<Arc<LoadedModel>, ApiError> {
        let wanted = if name.is_empty() { BUILTIN } else { name };
        self.registry.find(wanted).ok_or_else(|| ApiError::NotFound { kind: "model", name: wanted.to_owned() })
    }

    /// The embedding model of this name or alias; a cross-encoder is an error.
    pub fn embedding_model(&self, name: &str) -> Result<Arc<LoadedModel>, ApiError> {
        let model = self.model(name)?;
        require_embedding_model(&model)?;
        Ok(model)
    }

    /// Embeds texts or tokens. The future and its parts are boxed: otherwise checking that they are `Send` takes the compiler
    /// minutes.
    pub fn embed<'a>(
        &'a self,
        model: &'a Arc<LoadedModel>,
        input: Input,
        options: &'a Options,
        context: Context,
    ) -> BoxFuture<'a, Result<Embedded, ApiError>> {
        self.embed_input(model, input, options, context).boxed()
    }

    async fn embed_input(
        &self,
        model: &Arc<LoadedModel>,
        input: Input,
        options: &Options,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        require_embedding_model(model)?;
        let resolved = options.resolve(model, matches!(input, Input::Texts(_)))?;
        requests::check_spans(&options.spans, input.texts(), self.limits.max_texts)?;
        let check = FiniteCheck::new(model, items_of(&input, options));
        let work = CallWork::new(input.text_sizes());
        let batches = self.tokenized(model, input, &resolved.tokenize)?;
        match model.kind() {
            Kind::Table(table) => {
                let sequences = tokenizer_pool::concat(batches).boxed().await?;
                self.look_up(&table.table, sequences, options, &resolved, &check, context).boxed().await
            }
            Kind::Encoder(encoder) => {
                let encoder = &encoder.encoder;
                let precision = model.precision;
                let builder = RequestBuilder { encoder, precision, options, resolved: &resolved };
                self.encode(&builder, batches, &work, &check, context).boxed().await
            }
        }
    }

    /// The tokenized batches of an input, as a stream that runs ahead of the computation.
    pub(super) fn tokenized(
        &self,
        model: &Arc<LoadedModel>,
        input: Input,
        options: &TokenizeOptions,
    ) -> Result<BoxStream<'static, Result<TokenizedBatch, ApiError>>, ApiError> {
        match input {
            Input::Texts(texts) => {
                self.check_texts("texts", &texts)?;
                self.check_prompt(&texts, &options.prompt)?;
                Ok(self.tokenizer_pool.batches(model, texts, tokenizer_pool::with_options(options)).boxed())
            }
            Input::Tokens { ids, offsets } => {
                let tokens = self.check_tokens(model, ids, offsets)?;
                let sequences = split_tokens(model, &tokens, options)?;
                Ok(stream::once(ready(Ok(TokenizedBatch { first: 0, sequences }))).boxed())
            }
        }
    }

    async fn look_up(
        &self,
        table: &Arc<Table>,
        sequences: Sequences,
        options: &Options,
        resolved: &ResolvedOptions,
        check: &FiniteCheck<'_>,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        let token_counts = token_counts(&sequences);
        check_response(token_counts.len(), &token_counts, resolved.dimensions, options)?;
        let table = Arc::clone(table);
        let dimensions = resolved.dimensions;
        let normalize = resolved.normalize;
        let Sequences { ids, offsets, .. } = sequences;
        let request = EmbedRequest { table, ids, offsets, dimensions, normalize };
        let done = submit(&self.tables, request, options.waits, context).await?;
        let rows = token_counts.len();
        check.rows(0, done.response.iter().position(|x| !x.is_finite()).map(|at| at / dimensions))?;
        let PooledOutput { bytes, scales } = encode_rows(&done, rows, dimensions, options.output)?;
        check.output(0, first_non_finite_row(&bytes, options.output, dimensions))?;
        Ok(Embedded { rows, dimensions, output: options.output, bytes: bytes.into(), scales, token_counts })
    }

    /// Encodes batches as they are tokenized.
    async fn encode(
        &self,
        builder: &RequestBuilder<'_>,
        batches: BoxStream<'static, Result<TokenizedBatch, ApiError>>,
        work: &CallWork,
        check: &FiniteCheck<'_>,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        let dimensions = builder.resolved.dimensions;
        let output = builder.options.output;
        let then = |first, encoded| ready(check.converted(first, encoded, dimensions, output));
        let (outputs, token_counts) = self.encode_each(builder, batches, work, context, then).await?;
        let rows = outputs.iter().map(|output| output.rows).sum();
        let scales = outputs.iter().flat_map(|output| output.scales.iter().copied()).collect();
        Ok(Embedded { rows, dimensions, output, bytes: concat(outputs), scales, token_counts })
    }

    /// Encodes batches as they are tokenized and applies `then` to each result, with the index of its first row. Also returns
    /// the token count of each text. Fails early once `work` clearly takes longer than the deadline.
    pub(super) async fn encode_each<T, F>(
        &self,
        builder: &RequestBuilder<'_>,
        batches: BoxStream<'static, Result<TokenizedBatch, ApiError>>,
        work: &CallWork,
        context: Context,
        then: impl Fn(usize, Encoded) -> F + Send + Sync,
    ) -> Result<(Vec<T>, Vec<u32>), ApiError>
    where
        T: Send,
        F: Future<Output = Result<T, ApiError>> + Send,
    {
        let mut rows = 0;
        let mut token_counts = vec![];
        let dimensions = builder.resolved.dimensions;
        let RequestSizing { max_tokens, in_flight } =
            RequestSizing::new(builder.encoder.config(), self.encoders.has_gpu());
        let then = &then;
        let requests = batches.map(|batch| {
            let batch = batch?;
            let requests = builder.requests(&batch, max_tokens)?;
            let texts = batch.first..batch.first + batch.sequences.texts();
            work.add_tokenized(texts, requests.iter().map(Encode::cost).sum());
            rows += requests.iter().map(EncodeRequest::row_count).sum::<usize>();
            token_counts.extend(self::token_counts(&batch.sequences));
            check_response(rows, &token_counts, dimensions, builder.options)?;
            Ok::<_, ApiError>(stream::iter(requests.into_iter().map(Ok)))
        });
        // A full lane refuses the call's first request. Later requests wait, since refusing them would waste completed work.
        let mut may_wait = builder.options.waits;
        let mut next_row = 0;
        let outputs = requests.try_flatten().map_ok(|request| {
            let first = next_row;
            next_row += request.row_count();
            let context = Context { is_continuation: work.has_begun(), ..context.clone() };
            let cost = Encode::cost(&request);
            let left = work.begin(cost);
            let may_wait = std::mem::replace(&mut may_wait, true);
            async move {
                self.encoders.check_time(left, cost, &context)?;
                let done = submit(&self.encoders, request, may_wait, context).await?;
                then(first, done.response).await
            }
            .boxed()
        });
        let outputs = outputs.try_buffered(in_flight).try_collect().await?;
        Ok((outputs, token_counts))
    }

    /// Checks the texts of a field against the limits.
    pub(super) fn check_texts(&self, field: &str, texts: &[String]) -> Result<(), ApiError> {
        let field = format!("{field}.values");
        let max = self.limits.max_texts;
        let max_bytes = to_usize(self.limits.max_texts_bytes);
        check_count(&field, texts.len(), max)?;
        let (longest, at) = texts.iter().zip(0..).map(|(text, i)| (text.len(), i)).max().unwrap_or((0, 0));
        let limit = to_usize(self.limits.max_text_bytes);
        if longest > limit {
            let field = format!("{field}[{at}]");
            return Err(ApiError::invalid(field, format!("expected at most {limit} bytes, got {longest}")));
        }
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > max_bytes {
            let reason = format!("expected at most {max_bytes} bytes in total, got {bytes}");
            return Err(ApiError::invalid(field, reason));
        }
        Ok(())
    }

    /// Checks a prompt, which counts once per text.
    fn check_prompt(&self, texts: &[String], prompt: &str) -> Result<(), ApiError> {
        let max = to_usize(self.limits.max_text_bytes);
        let all = to_usize(self.limits.max_texts_bytes);
        let together = prompt.len().saturating_mul(texts.len());
        if prompt.len() > max || together > all {
            let got = prompt.len();
            let texts = texts.len();
            let reason = format!("expected at most {max} bytes, and {all} over {texts} texts, got {got}");
            return Err(ApiError::invalid("prompt", reason));
        }
        Ok(())
    }

    /// Checks token ids of a request.
    fn check_tokens(&self, model: &Model, ids: Vec<u32>, offsets: Vec<u32>) -> Result<Tokens, ApiError> {
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
            let reason = format!("expected the last offset to be the number of ids, {}, got {last}", ids.len());
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

/// Submits a request. With `may_wait`, retries while the lane is full.
async fn submit<O: Op>(
    lane: &Lane<O>,
    request: O::Request,
    may_wait: bool,
    context: Context,
) -> Result<Completion<O::Response>, ApiError>
where
    O::Request: Clone,
{
    if !may_wait {
        return Ok(lane.submit(request, context).await.inspect(timing::record)?);
    }
    loop {
        match lane.submit(request.clone(), context.clone()).await {
            Err(SubmitError::Full { retry_after, .. }) => sleep(retry_after.max(MIN_RETRY_DELAY)).await,
            done => return Ok(done.inspect(timing::record)?),
        }
    }
}

fn default_limits() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| Config::default().limits)
}

fn check_count(field: &str, got: usize, max: usize) -> Result<(), ApiError> {
    if (1..=max).contains(&got) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("expected 1 to {max} texts, got {got}")))
}

/// Upper bound of a response's size besides vectors, scales and token counts.
const RESPONSE_OVERHEAD: usize = 1 << 10;

/// Checks the maximum message size before computing. A token count takes at most five bytes, a scale four.
fn check_response(rows: usize, counts: &[u32], dimensions: usize, options: &Options) -> Result<(), ApiError> {
    let row = options.output.row_bytes(dimensions).saturating_add(4);
    let bytes = rows.saturating_mul(row).saturating_add(5 * counts.len() + RESPONSE_OVERHEAD);
    match options.max_response_bytes {
        Some(max) if bytes > max => Err(ApiError::ResponseTooLarge { bytes, limit: max }),
        _ => Ok(()),
    }
}

/// Converts the rows of a table lookup to the requested type. A wrong shape is an internal error.
fn encode_rows(
    done: &Completion<Vec<f32>>,
    rows: usize,
    dimensions: usize,
    output: OutputType,
) -> Result<PooledOutput, ApiError> {
    let device = done.device;
    if done.response.len() != rows * dimensions {
        let reason = format!("expected [{rows}, {dimensions}] numbers, got {}", done.response.len());
        return Err(SubmitError::Op(OpError::Failed { device, kernel: "embed", reason }).into());
    }
    Ok(PooledOutput::of(&done.response, dimensions, output))
}

fn concat(outputs: Vec<Encoded>) -> Bytes {
    let bytes = outputs.iter().map(|output| output.bytes.len()).sum();
    let mut outputs = outputs.into_iter().map(|output| output.bytes);
    match (outputs.next(), outputs.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut joined = BytesMut::with_capacity(bytes);
            [first, second].into_iter().chain(outputs).for_each(|part| joined.extend_from_slice(&part));
            joined.freeze()
        }
    }
}

/// Returns the items that the rows of a response are of.
fn items_of(input: &Input, options: &Options) -> Items {
    match input {
        Input::Texts(_) | Input::Tokens { .. } if !options.spans.is_empty() => Items::Spans,
        Input::Texts(_) => Items::Texts,
        Input::Tokens { .. } => Items::Tokens,
    }
}

/// Refuses cross-encoders.
fn require_embedding_model(model: &Model) -> Result<(), ApiError> {
    if model.reranker().is_none() {
        return Ok(());
    }
    let reason = format!("expected an embedding model, {:?} is a cross-encoder: use Rerank", model.name());
    Err(ApiError::invalid("model", reason))
}

fn token_counts(sequences: &Sequences) -> Vec<u32> {
    let counts = (0..sequences.texts()).map(|text| sequences.tokens(text).len());
    counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect()
}

/// Splits checked token ids into sequences.
fn split_tokens(model: &Model, tokens: &Tokens, options: &TokenizeOptions) -> Result<Sequences, ApiError> {
    let mut sequences = Sequences::default();
    for (at, ends) in tokens.offsets.windows(2).enumerate() {
        let ids = &tokens.ids[ends[0] as usize..ends[1] as usize];
        let wrong = |error: TokenizeError| ApiError::invalid(format!("tokens.offsets[{}]", at + 1), error.to_string());
        model.split_ids(ids, options, &mut sequences).map_err(wrong)?;
    }
    Ok(sequences)
}
