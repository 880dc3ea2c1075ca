//! Texts to sequences of tokens, on threads of their own: those that compute are busy with the texts before.

use std::{io, num::NonZero, sync::Arc, thread};

use accelerd_models::{Cut, CutError, Model, Sequences};
use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use rayon::prelude::*;
use tokio::sync::oneshot;

use super::registry::Served;
use crate::error::ApiError;

/// Texts of more bytes than this are handed over: less takes no longer than that.
const INLINE_BYTES: usize = 8 << 10;

/// The same where a tokeniser takes ten times as long over a byte.
const SLOW_INLINE_BYTES: usize = 512;

/// Bytes of text that are worth a task of their own.
const TASK_BYTES: usize = 16 << 10;

/// Bytes of text that are cut before the first of them are computed.
const PART_BYTES: usize = 256 << 10;

/// Parts that are cut ahead.
const AHEAD: usize = 2;

/// What is done with each text.
pub(super) type Each = Arc<dyn Fn(&Model, &str, &mut Sequences) -> Result<(), CutError> + Send + Sync>;

/// Threads that cut texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutter(Option<Arc<rayon::ThreadPool>>);

/// The sequences of some texts of a call, of which the first is text `first`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) first: usize,
    pub(super) sequences: Sequences,
}

impl Cutter {
    /// Starts so many threads; 0: as many as the container may use.
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let threads = if threads == 0 { thread::available_parallelism().map_or(1, NonZero::get) } else { threads };
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("tokens-{i}"));
        // A tokeniser that panics fails its call, which finds no answer. Without a handler it would end the daemon.
        builder.panic_handler(|_| {}).build().map(|pool| Self(Some(Arc::new(pool)))).map_err(io::Error::other)
    }

    /// Cuts texts, part after part in their order, some ahead of what is taken.
    pub(super) fn parts(
        &self,
        model: &Arc<Served>,
        texts: Vec<String>,
        each: Each,
    ) -> impl Stream<Item = Result<Part, ApiError>> + Send + 'static {
        let (cutter, model) = (self.clone(), Arc::clone(model));
        let cut = move |(first, texts)| cutter.clone().cut(Arc::clone(&model), first, texts, Arc::clone(&each)).boxed();
        stream::iter(divided(texts)).map(cut).buffered(AHEAD)
    }

    /// Cuts texts at once.
    pub(super) async fn all(&self, model: &Arc<Served>, texts: Vec<String>, each: Each) -> Result<Sequences, ApiError> {
        joined(self.parts(model, texts, each).boxed()).await
    }

    async fn cut(self, model: Arc<Served>, first: usize, texts: Vec<String>, each: Each) -> Result<Part, ApiError> {
        let inline = if model.tokenizes_fast() { INLINE_BYTES } else { SLOW_INLINE_BYTES };
        if bytes_of(&texts) <= inline {
            return Ok(Part { first, sequences: one_by_one(&model, &texts, first, &each)? });
        }
        let (done, answer) = oneshot::channel();
        let work = move || {
            // Nobody may be waiting any more.
            if !done.is_closed() {
                let _gone = done.send(side_by_side(&model, &texts, first, &each));
            }
        };
        match &self.0 {
            Some(pool) => pool.spawn(work),
            None => drop(tokio::task::spawn_blocking(work)),
        }
        let stopped = |_| ApiError::Unavailable("tokenisation was stopped".to_owned());
        Ok(Part { first, sequences: answer.await.map_err(stopped)?? })
    }
}

/// All parts as one.
pub(super) async fn joined(mut parts: BoxStream<'static, Result<Part, ApiError>>) -> Result<Sequences, ApiError> {
    let mut joined = Sequences::default();
    while let Some(part) = parts.next().await {
        joined.append(part?.sequences);
    }
    Ok(joined)
}

fn bytes_of(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// Texts in parts, each with the number of its first.
fn divided(texts: Vec<String>) -> Vec<(usize, Vec<String>)> {
    let (mut parts, mut part, mut bytes, mut first) = (vec![], vec![], 0, 0);
    for text in texts {
        bytes += text.len();
        part.push(text);
        if bytes >= PART_BYTES {
            let full = std::mem::take(&mut part);
            first += full.len();
            parts.push((first - full.len(), full));
            bytes = 0;
        }
    }
    if !part.is_empty() {
        parts.push((first, part));
    }
    parts
}

/// Texts of which the first is text `first` of the request.
fn one_by_one(model: &Model, texts: &[String], first: usize, each: &Each) -> Result<Sequences, ApiError> {
    let mut sequences = Sequences::default();
    for (at, text) in (first..).zip(texts) {
        each(model, text, &mut sequences).map_err(|error| unfit(at, &error))?;
    }
    Ok(sequences)
}

fn side_by_side(model: &Model, texts: &[String], first: usize, each: &Each) -> Result<Sequences, ApiError> {
    let step = (texts.len() * TASK_BYTES / bytes_of(texts).max(1)).clamp(1, texts.len().max(1));
    let parts = texts.par_chunks(step).enumerate();
    let parts = parts.map(|(part, texts)| one_by_one(model, texts, first + part * step, each));
    let mut joined = Sequences::default();
    for part in parts.collect::<Result<Vec<_>, _>>()? {
        joined.append(part);
    }
    Ok(joined)
}

fn unfit(text: usize, error: &CutError) -> ApiError {
    let field = match error {
        CutError::NoTokenizer => "texts".to_owned(),
        CutError::LongQuery { .. } => "query".to_owned(),
        CutError::Limit { .. } => "max_tokens".to_owned(),
        CutError::TooLong { .. } | CutError::Tokenizer(_) => format!("texts.values[{text}]"),
    };
    ApiError::invalid(field, error.to_string())
}

/// Cuts texts as a request says.
pub(super) fn by(how: &Cut) -> Each {
    let how = how.clone();
    Arc::new(move |model, text, out| model.cut(text, &how, out))
}

/// Splits texts into their token ids, cut to no length.
pub(super) fn whole() -> Each {
    Arc::new(|model, text, out| {
        model.tokenize(text, &mut out.ids)?;
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
    async fn texts_cut_side_by_side_and_in_parts_are_as_those_cut_one_by_one() {
        let model = Arc::new(Served::plain(Model::builtin()));
        for cutter in [Cutter::default(), Cutter::start(3).expect("threads")] {
            for count in [0, 1, 2, 50, 1000] {
                let expected = one_by_one(&model, &texts(count), 0, &whole()).expect("texts");
                let got = cutter.all(&model, texts(count), whole()).await.expect("texts");
                assert_eq!(got, expected, "{count} texts");
                assert_eq!(got.texts(), count);
            }
        }
    }

    #[tokio::test]
    async fn parts_say_which_texts_they_have_and_errors_which_text_it_was() {
        let model = Arc::new(Served::plain(Model::builtin()));
        let cutter = Cutter::start(2).expect("threads");
        let parts: Vec<_> = cutter.parts(&model, texts(1000), whole()).map(|part| part.expect("texts")).collect().await;
        assert!(parts.len() > 2, "several parts of a quarter of a megabyte");
        let ends = parts.iter().scan(0, |end, part| {
            assert_eq!(part.first, *end);
            *end += part.sequences.texts();
            Some(*end)
        });
        assert_eq!(ends.last(), Some(1000));
        let failing: Each = Arc::new(|_, text, out| {
            out.end_text();
            if text == "bad" { Err(CutError::TooLong { limit: 1, tokens: 2 }) } else { Ok(()) }
        });
        let mut some = texts(1000);
        some[900] = "bad".to_owned();
        let error = cutter.all(&model, some, failing).await.expect_err("one of them is bad");
        assert_eq!(error.to_string(), "texts.values[900]: expected at most 1 tokens, got 2");
    }

    #[tokio::test]
    async fn a_panic_in_a_tokeniser_is_an_error_of_its_call_alone() {
        let model = Arc::new(Served::plain(Model::builtin()));
        let cutter = Cutter::start(1).expect("threads");
        let panicking: Each = Arc::new(|_, _, _| panic!("a tokeniser fell over"));
        let error = cutter.all(&model, vec!["x".repeat(1 << 20)], panicking).await.expect_err("it panics");
        assert!(matches!(error, ApiError::Unavailable(_)), "{error}");
        assert_eq!(cutter.all(&model, texts(9), whole()).await.expect("the threads live on").texts(), 9);
    }
}
