//! Parses on the CPU pool, each source on one thread.

use std::borrow::Cow;

use accelerd_parser::{Columns, Parsed, Terminal, Tokens, Tree, outline};
use bytes::Bytes;
use rayon::prelude::*;

use crate::cpu::Pool;

use super::{
    Counts, Item, Located, Options, Outputs, ParseRequest, ParseResponse, SourceResult,
    gather::{ColumnSlice, ColumnSlices, gather},
};

/// Bytes of source below which waking more threads costs more than it saves (about 0.1 ms of one core).
const MIN_PARALLEL_BYTES: usize = 16 << 10;

/// Sources whose memory one thread frees.
const FREED_PER_THREAD: usize = 64;

/// A longer request occupies a thread for half a millisecond, and a batch of short ones should not queue after it. The
/// columns of a short one are so small that one thread copies them.
const LONG_BYTES: usize = 64 << 10;

/// Parses every source of every request: on the pool, or on this thread if there is little to parse, or if a long batch has
/// reserved the pool and this one is short.
pub(super) fn run(batch: &[&ParseRequest], pool: &Pool) -> Vec<ParseResponse> {
    let sizes = || batch.iter().map(|request| request.sources.iter().map(Bytes::len).sum::<usize>());
    let is_long = sizes().any(|bytes| bytes > LONG_BYTES);
    if sizes().sum::<usize>() < MIN_PARALLEL_BYTES || (!is_long && pool.is_reserved()) {
        return pool.time_inline("parse", || sequential(batch));
    }
    let _reservation = is_long.then(|| pool.reserve());
    pool.time("parse", || parallel(batch))
}

/// Parses on this thread.
fn sequential(batch: &[&ParseRequest]) -> Vec<ParseResponse> {
    let one = |request: &&ParseRequest| {
        let sources = request.sources.iter().enumerate();
        let parsed: Vec<_> =
            sources.map(|(at, source)| ParsedSource::parse(source, request.options_of(at), request.outputs)).collect();
        let columns = gather(parsed.iter().map(ParsedSource::columns), request.outputs, None);
        ParseResponse { results: parsed.into_iter().map(|parsed| parsed.result).collect(), columns }
    };
    batch.iter().map(one).collect()
}

/// Parses on the current pool.
fn parallel(batch: &[&ParseRequest]) -> Vec<ParseResponse> {
    let response = |request: &&ParseRequest| {
        let sources = request.sources.par_iter().enumerate();
        let parsed =
            sources.map(|(at, source)| ParsedSource::parse(source, request.options_of(at), request.outputs)).collect();
        respond(request, parsed)
    };
    batch.par_iter().map(response).collect()
}

/// Builds the response of a request from its sources.
fn respond(request: &ParseRequest, sources: Vec<ParsedSource>) -> ParseResponse {
    let columns = gather(sources.iter().map(ParsedSource::columns), request.outputs, None);
    // Freeing the parser's columns takes a while, too.
    let results = sources.into_par_iter().with_min_len(FREED_PER_THREAD).map(|parsed| parsed.result).collect();
    ParseResponse { results, columns }
}

/// A parsed source: its columns and its result.
pub(super) struct ParsedSource {
    tree: Columns,
    line_starts: Vec<u32>,
    tokens: Tokens,
    /// Public numbers of terminals, if tokens are wanted.
    token_kinds: Vec<u8>,
    comments: [Vec<u32>; 2],
    pub(super) result: SourceResult,
}

impl ParsedSource {
    pub(super) fn parse(source: &[u8], options: Options, wanted: Outputs) -> Self {
        let Parsed { text, tokens, comments, outcome } = accelerd_parser::parse(source, &options);
        let line_starts = accelerd_parser::lexer::line_starts(&text);
        let locate = Locate { text: text.as_bytes(), line_starts: &line_starts };
        let (tree, diagnostic, outline) = match outcome {
            Ok(tree) if wanted.outline => {
                let outline = locate.outline(&Tree::new(locate.text, &tree));
                (tree, None, outline)
            }
            Ok(tree) => (tree, None, vec![]),
            Err(error) => (Columns::default(), Some(error), vec![]),
        };
        let kinds = tokens.kinds.iter().filter(|_| wanted.tokens);
        let mut parsed = Self {
            token_kinds: kinds.map(|&kind| token_kind(kind as u8)).collect(),
            comments: [
                comments.iter().map(|&(start, _)| start).collect(),
                comments.iter().map(|&(_, end)| end).collect(),
            ],
            result: SourceResult { diagnostic, text: reencoded_text(&text), outline, ..SourceResult::default() },
            tree,
            line_starts,
            tokens,
        };
        parsed.result.counts = Counts::between(Counts::default(), parsed.counts(), wanted);
        parsed
    }

    pub(super) fn columns(&self) -> ColumnSlices<'_> {
        let Self { tree, tokens, comments: [comment_starts, comment_ends], .. } = self;
        ColumnSlices {
            kinds: ColumnSlice::Host(bytemuck::cast_slice(&tree.kinds)),
            fields: ColumnSlice::Host(bytemuck::cast_slice(&tree.fields)),
            parents: ColumnSlice::Host(&tree.parents),
            starts: ColumnSlice::Host(&tree.starts),
            ends: ColumnSlice::Host(&tree.ends),
            aux: ColumnSlice::Host(&tree.aux),
            name_starts: ColumnSlice::Host(&tree.name_starts),
            name_ends: ColumnSlice::Host(&tree.name_ends),
            value_tags: ColumnSlice::Host(bytemuck::cast_slice(&tree.value_tags)),
            value_starts: ColumnSlice::Host(&tree.value_starts),
            value_ends: ColumnSlice::Host(&tree.value_ends),
            extra: ColumnSlice::Host(&tree.extra),
            line_starts: ColumnSlice::Host(&self.line_starts),
            token_kinds: ColumnSlice::Host(&self.token_kinds),
            token_starts: ColumnSlice::Host(&tokens.starts),
            token_ends: ColumnSlice::Host(&tokens.ends),
            comment_starts: ColumnSlice::Host(comment_starts),
            comment_ends: ColumnSlice::Host(comment_ends),
        }
    }

    fn counts(&self) -> Counts {
        let count =
            |length: usize| u32::try_from(length).expect("a source is smaller than 1 GiB, and so are its columns");
        Counts {
            nodes: count(self.tree.kinds.len()),
            names: count(self.tree.name_starts.len()),
            values: count(self.tree.value_tags.len()),
            extra: count(self.tree.extra.len()),
            lines: count(self.line_starts.len()),
            tokens: count(self.token_kinds.len()),
            comments: count(self.comments[0].len()),
        }
    }
}

/// The text of a source as UTF-8, if its bytes differ.
#[expect(clippy::ptr_arg, reason = "whether the text is borrowed matters")]
pub(super) fn reencoded_text(text: &Cow<'_, str>) -> Option<Bytes> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// The public number of a terminal: only the parser distinguishes replacement fields with `=`.
pub(super) fn token_kind(terminal: u8) -> u8 {
    let kind = if terminal == Terminal::DebugOpen as u8 { Terminal::FieldOpen as u8 } else { terminal };
    // Rows of a source that fell back may have any byte.
    kind.wrapping_add(1)
}

/// Converts byte offsets of a text to lines.
#[derive(Clone, Copy)]
pub(super) struct Locate<'a> {
    pub(super) text: &'a [u8],
    pub(super) line_starts: &'a [u32],
}

impl Locate<'_> {
    pub(super) fn outline(self, tree: &Tree<'_>) -> Vec<Located<Item>> {
        let items = outline::outline(tree).into_iter();
        items
            .map(|item| {
                let range = (item.start, item.end);
                self.located(item, range)
            })
            .collect()
    }

    fn located<T>(self, item: T, (start, end): (u32, u32)) -> Located<T> {
        Located { item, line: self.line(start), end_line: self.line(end) }
    }

    fn line(self, at: u32) -> u32 {
        u32::try_from(self.line_starts.partition_point(|&start| start <= at).max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn request(sources: Vec<Bytes>) -> ParseRequest {
        let outputs = Outputs { tree: true, ..Outputs::default() };
        ParseRequest::new(sources, Options::version(14), outputs)
    }

    #[test]
    fn a_short_batch_does_not_queue_after_a_long_one() {
        let pool = Pool::start(1).expect("one thread");
        let short = request(vec![Bytes::from("x = 1\n".repeat(10_000))]);
        assert!((MIN_PARALLEL_BYTES..LONG_BYTES).contains(&short.sources[0].len()));
        let (release, released) = mpsc::channel::<()>();
        let _reservation = pool.reserve();
        pool.scope(|scope| {
            scope.spawn(move |_| released.recv().expect("the short batch ends first"));
            let responses = run(&[&short], &pool);
            release.send(()).expect("the pool's only thread is taken until now");
            assert_eq!(responses[0].results[0].counts.nodes, 30_000);
        });
    }

    #[test]
    fn a_long_batch_reserves_the_pool_while_it_runs() {
        let pool = Pool::start(2).expect("two threads");
        let long = request(vec![Bytes::from("x = 1\n".repeat(50_000))]);
        assert!(!pool.is_reserved());
        let responses = run(&[&long], &pool);
        assert_eq!(responses[0].results[0].counts.nodes, 150_000);
        assert!(!pool.is_reserved(), "it releases the pool");
        let reservation = pool.reserve();
        assert!(pool.is_reserved());
        drop(reservation);
        assert_eq!(run(&[&long], &pool), responses);
    }
}
