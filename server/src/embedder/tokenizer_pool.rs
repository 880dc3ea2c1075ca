//! Tokenizes texts on a separate thread pool, ahead of the computation.

use std::{io, num::NonZero, sync::Arc, thread};

use accelerd_models::{Model, Sequences, TokenizeError, TokenizeOptions};
use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use rayon::prelude::*;
use tokio::sync::oneshot;

use super::registry::LoadedModel;
use crate::error::ApiError;

/// Texts up to this total size are tokenized inline, which takes no longer than a thread switch.
const INLINE_BYTES: usize = 8 << 10;

/// The same for tokenizers that take ten times as long per byte.
const SLOW_INLINE_BYTES: usize = 512;

/// Bytes of text per task of the pool.
const TASK_BYTES: usize = 16 << 10;

/// Bytes of text per batch.
const BATCH_BYTES: usize = 256 << 10;

/// Batches that are tokenized ahead.
const PREFETCHED_BATCHES: usize = 2;

/// Tokenizes one text.
pub(super) type TokenizeFn = Arc<dyn Fn(&Model, &str, &mut Sequences) -> Result<(), TokenizeError> + Send + Sync>;

/// Tokenizer threads; without any, tokio's blocking threads.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenizerPool(Option<Arc<rayon::ThreadPool>>);

/// The sequences of consecutive texts of a call, starting with text `first`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TokenizedBatch {
    pub(super) first: usize,
    pub(super) sequences: Sequences,
}

impl TokenizerPool {
    /// Starts `threads` threads; 0 means the number of available CPUs.
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let threads = if threads == 0 { thread::available_parallelism().map_or(1, NonZero::get) } else { threads };
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("tokens-{i}"));
        // A panic drops the result's sender and fails only its call. Without a handler rayon would abort the process.
        builder.panic_handler(|_| {}).build().map(|pool| Self(Some(Arc::new(pool)))).map_err(io::Error::other)
    }

    /// Tokenizes texts in batches, in order, some ahead of the consumer.
    pub(super) fn batches(
        &self,
        model: &Arc<LoadedModel>,
        texts: Vec<String>,
        tokenize: TokenizeFn,
    ) -> impl Stream<Item = Result<TokenizedBatch, ApiError>> + Send + 'static {
        let pool = self.clone();
        let model = Arc::clone(model);
        let run =
            move |(first, texts)| pool.clone().run(Arc::clone(&model), first, texts, Arc::clone(&tokenize)).boxed();
        stream::iter(split_batches(texts)).map(run).buffered(PREFETCHED_BATCHES)
    }

    /// Tokenizes texts.
    pub(super) async fn tokenize(
        &self,
        model: &Arc<LoadedModel>,
        texts: Vec<String>,
        tokenize: TokenizeFn,
    ) -> Result<Sequences, ApiError> {
        concat(self.batches(model, texts, tokenize).boxed()).await
    }

    async fn run(
        self,
        model: Arc<LoadedModel>,
        first: usize,
        texts: Vec<String>,
        tokenize: TokenizeFn,
    ) -> Result<TokenizedBatch, ApiError> {
        let inline = if model.tokenizes_fast() { INLINE_BYTES } else { SLOW_INLINE_BYTES };
        if bytes_of(&texts) <= inline {
            return Ok(TokenizedBatch { first, sequences: tokenize_sequential(&model, &texts, first, &tokenize)? });
        }
        let (sender, result) = oneshot::channel();
        let work = move || {
            // Skip cancelled calls.
            if !sender.is_closed() {
                let _cancelled = sender.send(tokenize_parallel(&model, &texts, first, &tokenize));
            }
        };
        match &self.0 {
            Some(pool) => pool.spawn(work),
            None => drop(tokio::task::spawn_blocking(work)),
        }
        Ok(TokenizedBatch { first, sequences: result.await.map_err(|_| ApiError::TokenizerPanic)?? })
    }
}

/// Concatenates all batches.
pub(super) async fn concat(
    mut batches: BoxStream<'static, Result<TokenizedBatch, ApiError>>,
) -> Result<Sequences, ApiError> {
    let mut joined = Sequences::default();
    while let Some(batch) = batches.next().await {
        joined.append(batch?.sequences);
    }
    Ok(joined)
}

fn bytes_of(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// Splits texts into batches, each with the index of its first text.
fn split_batches(texts: Vec<String>) -> Vec<(usize, Vec<String>)> {
    let mut batches = vec![];
    let mut batch = vec![];
    let mut bytes = 0;
    let mut first = 0;
    for text in texts {
        bytes += text.len();
        batch.push(text);
        if bytes >= BATCH_BYTES {
            let full = std::mem::take(&mut batch);
            first += full.len();
            batches.push((first - full.len(), full));
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        batches.push((first, batch));
    }
    batches
}

/// Tokenizes texts, the first of which is text `first` of the request.
fn tokenize_sequential(
    model: &Model,
    texts: &[String],
    first: usize,
    tokenize: &TokenizeFn,
) -> Result<Sequences, ApiError> {
    let mut sequences = Sequences::default();
    for (at, text) in (first..).zip(texts) {
        tokenize(model, text, &mut sequences).map_err(|error| text_error(at, &error))?;
    }
    Ok(sequences)
}

/// As [`tokenize_sequential`], on all threads of the current pool.
fn tokenize_parallel(
    model: &Model,
    texts: &[String],
    first: usize,
    tokenize: &TokenizeFn,
) -> Result<Sequences, ApiError> {
    let step = (texts.len() * TASK_BYTES / bytes_of(texts).max(1)).clamp(1, texts.len().max(1));
    let parts = texts.par_chunks(step).enumerate();
    let parts = parts.map(|(part, texts)| tokenize_sequential(model, texts, first + part * step, tokenize));
    let mut joined = Sequences::default();
    for part in parts.collect::<Result<Vec<_>, _>>()? {
        joined.append(part);
    }
    Ok(joined)
}

fn text_error(text: usize, error: &TokenizeError) -> ApiError {
    let field = match error {
        TokenizeError::NoTokenizer => "texts".to_owned(),
        TokenizeError::LongQuery { .. } => "query".to_owned(),
        TokenizeError::Limit { .. } => "max_tokens".to_owned(),
        TokenizeError::TooLong { .. } | TokenizeError::Tokenizer(_) => format!("texts.values[{text}]"),
    };
    ApiError::invalid(field, error.to_string())
}

/// Tokenizes with the options of a request.
pub(super) fn with_options(options: &TokenizeOptions) -> TokenizeFn {
    let options = options.clone();
    Arc::new(move |model, text, out| model.tokenize(text, &options, out))
}

/// Splits texts into their token ids, cut to no length.
pub(super) fn untruncated() -> TokenizeFn {
    Arc::new(|model, text, out| {
        model.token_ids(text, &mut out.ids)?;
        out.end_text();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("def parse_{n}(text): return [{n}] ").repeat(n % 7 * 40)).collect()
    }

    #[tokio::test]
    async fn parallel_and_batched_tokenization_equals_sequential() {
        let model = Arc::new(LoadedModel::new(Model::builtin()));
        for pool in [TokenizerPool::default(), TokenizerPool::start(3).expect("threads")] {
            for count in [0, 1, 2, 50, 1000] {
                let expected = tokenize_sequential(&model, &texts(count), 0, &untruncated()).expect("texts");
                let got = pool.tokenize(&model, texts(count), untruncated()).await.expect("texts");
                assert_eq!(got, expected, "{count} texts");
                assert_eq!(got.texts(), count);
            }
        }
    }

    #[tokio::test]
    async fn batches_are_in_order_and_errors_name_the_text() {
        let model = Arc::new(LoadedModel::new(Model::builtin()));
        let pool = TokenizerPool::start(2).expect("threads");
        let batches: Vec<_> =
            pool.batches(&model, texts(1000), untruncated()).map(|batch| batch.expect("texts")).collect().await;
        assert!(batches.len() > 2, "several batches of 256 KiB");
        let ends = batches.iter().scan(0, |end, batch| {
            assert_eq!(batch.first, *end);
            *end += batch.sequences.texts();
            Some(*end)
        });
        assert_eq!(ends.last(), Some(1000));
        let failing: TokenizeFn = Arc::new(|_, text, out| {
            out.end_text();
            if text == "bad" { Err(TokenizeError::TooLong { limit: 1, tokens: 2 }) } else { Ok(()) }
        });
        let mut some = texts(1000);
        some[900] = "bad".to_owned();
        let error = pool.tokenize(&model, some, failing).await.expect_err("one of them is bad");
        assert_eq!(error.to_string(), "texts.values[900]: expected at most 1 tokens, got 2");
    }

    #[tokio::test]
    async fn a_panic_of_a_tokenizer_fails_only_its_call() {
        let model = Arc::new(LoadedModel::new(Model::builtin()));
        let pool = TokenizerPool::start(1).expect("threads");
        let panicking: TokenizeFn = Arc::new(|_, _, _| panic!("tokenizer panic"));
        let error = pool.tokenize(&model, vec!["x".repeat(1 << 20)], panicking).await.expect_err("it panics");
        assert!(matches!(error, ApiError::TokenizerPanic), "{error}");
        assert_eq!(pool.tokenize(&model, texts(9), untruncated()).await.expect("the threads live on").texts(), 9);
    }
}
