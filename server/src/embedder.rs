//! Texts to vectors: finds the model, tokenises off the reactor, submits to the embed lane.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use accelerd_engine::{Context, Done, Lane, SubmitError};
use accelerd_kernels::{
    Matrix, OpError, cpu,
    ops::embed::{Embed, EmbedRequest},
};
use accelerd_models::Model;
use rayon::prelude::*;

use crate::{
    config::{Config, Limits, to_usize},
    error::ApiError,
    layers::timing,
};

/// The model that an empty name means.
pub const BUILTIN: &str = "builtin";

/// Texts of more bytes than this are tokenised on the CPU pool: less takes no longer than to hand it over and back.
const INLINE_BYTES: usize = 8 << 10;

/// Bytes of text that are worth a task of their own.
const TASK_BYTES: usize = 16 << 10;

/// The loaded models and the lane they run on.
#[derive(Clone)]
pub struct Embedder {
    models: Arc<Vec<Arc<Model>>>,
    lane: Lane<Embed>,
    limits: Limits,
    pool: Option<Arc<cpu::Pool>>,
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.models.iter().map(|model| model.name()).collect();
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

/// Vectors, one a text.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// [n, dimensions].
    pub vectors: Matrix,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
}

impl Embedder {
    /// An embedder over some models, with the default limits.
    pub fn new(models: Vec<Arc<Model>>, lane: Lane<Embed>) -> Self {
        Self { models: Arc::new(models), lane, limits: default_limits().clone(), pool: None }
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
    pub fn models(&self) -> Vec<Arc<Model>> {
        let mut models = self.models.to_vec();
        models.sort_by(|a, b| a.name().cmp(b.name()));
        models
    }

    /// The model of this name; empty means `builtin`.
    pub fn model(&self, name: &str) -> Result<Arc<Model>, ApiError> {
        let wanted = if name.is_empty() { BUILTIN } else { name };
        let found = self.models.iter().find(|model| model.name() == wanted);
        found.map(Arc::clone).ok_or_else(|| ApiError::NotFound { kind: "model", name: wanted.to_owned() })
    }

    /// Embeds texts or tokens. `dimensions` 0 keeps all.
    pub async fn embed(
        &self,
        model: &Arc<Model>,
        input: Input,
        dimensions: u32,
        normalize: bool,
        context: Context,
    ) -> Result<Embedded, ApiError> {
        let dimensions = offered(model, dimensions)?;
        let Tokens { ids, offsets } = match input {
            Input::Texts(texts) => self.tokenize(model, texts).await?,
            Input::Tokens { ids, offsets } => self.tokens(model, ids, offsets)?,
        };
        let token_counts: Vec<_> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let table = Arc::clone(model.table());
        let done = self.lane.submit(EmbedRequest { table, ids, offsets, dimensions, normalize }, context).await?;
        timing::record(&done);
        Ok(Embedded { vectors: vectors(done, token_counts.len(), dimensions)?, token_counts })
    }

    /// Splits texts into token ids; large inputs on the CPU pool.
    pub async fn tokenize(&self, model: &Arc<Model>, texts: Vec<String>) -> Result<Tokens, ApiError> {
        let bytes = self.check_texts(&texts)?;
        if bytes <= INLINE_BYTES {
            return Ok(split(model, &texts));
        }
        let (model, pool) = (Arc::clone(model), self.pool.clone());
        let work = move || match pool {
            Some(pool) => pool.install(|| split_in_parallel(&model, &texts)),
            None => split(&model, &texts),
        };
        let panicked = |_| ApiError::Unavailable("tokenisation was stopped".to_owned());
        tokio::task::spawn_blocking(work).await.map_err(panicked)
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

/// The dimensions to keep, if the model offers them.
fn offered(model: &Model, asked: u32) -> Result<usize, ApiError> {
    if asked == 0 {
        return Ok(model.table().dim);
    }
    let offered = model.offered_dimensions();
    if offered.contains(&asked) {
        return Ok(asked as usize);
    }
    Err(ApiError::invalid("dimensions", format!("expected 0 or one of {offered:?}, got {asked}")))
}

/// The response as a matrix. A response of another shape is the operation's fault, not the caller's.
fn vectors(done: Done<Vec<f32>>, rows: usize, cols: usize) -> Result<Matrix, ApiError> {
    let device = done.device;
    Matrix::from_vec(rows, cols, done.response)
        .map_err(|error| SubmitError::Op(OpError::Failed { device, kernel: "embed", reason: error.to_string() }).into())
}

/// Token ids are fewer than bytes of text, and those are limited below 4 GiB.
fn end(ids: usize) -> u32 {
    u32::try_from(ids).expect("fewer token ids than bytes of text")
}

fn split(model: &Model, texts: &[String]) -> Tokens {
    let mut tokens = Tokens { ids: vec![], offsets: Vec::with_capacity(texts.len() + 1) };
    tokens.offsets.push(0);
    for text in texts {
        model.tokenize(text, &mut tokens.ids);
        tokens.offsets.push(end(tokens.ids.len()));
    }
    tokens
}

fn split_in_parallel(model: &Model, texts: &[String]) -> Tokens {
    let bytes: usize = texts.iter().map(String::len).sum();
    let each = (texts.len() * TASK_BYTES / bytes.max(1)).clamp(1, texts.len());
    let parts: Vec<_> = texts.par_chunks(each).map(|texts| split(model, texts)).collect();
    let mut tokens = Tokens {
        ids: Vec::with_capacity(parts.iter().map(|part| part.ids.len()).sum()),
        offsets: Vec::with_capacity(texts.len() + 1),
    };
    tokens.offsets.push(0);
    for part in parts {
        let start = end(tokens.ids.len());
        tokens.offsets.extend(part.offsets[1..].iter().map(|offset| start + offset));
        tokens.ids.extend(part.ids);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_split_in_parallel_as_one_after_the_other() {
        let model = Model::builtin();
        let text = |n: usize| format!("def parse_{n}(text): return [{n}] ").repeat(n % 7 * 40);
        for count in [1, 2, 50, 300] {
            let texts: Vec<_> = (0..count).map(text).collect();
            let tokens = split(&model, &texts);
            assert_eq!(split_in_parallel(&model, &texts), tokens, "{count} texts");
            assert_eq!(tokens.offsets.len(), count + 1);
            assert_eq!(tokens.offsets.last().copied().map(|end| end as usize), Some(tokens.ids.len()));
        }
    }
}
