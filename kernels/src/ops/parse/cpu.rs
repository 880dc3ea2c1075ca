//! Parses on the CPU pool, each source on one thread.

use std::borrow::Cow;

use accelerd_parser::{Columns, Parsed, Terminal, Tokens, Tree, outline};
use bytes::Bytes;

use crate::{
    OpError,
    cpu::{
        Worker,
        slices::{SLICE, Schedule},
    },
};

use super::{
    Counts, Item, Located, Options, Outputs, ParseRequest, ParseResponse, SourceResult,
    gather::{ColumnSlice, ColumnSlices, copy_cost, gather},
};

/// Bytes of source below which waking more threads costs more than it saves (about 0.1 ms of one core).
const MIN_PARALLEL_BYTES: usize = 16 << 10;

/// Sources whose memory one thread frees.
const FREED_PER_THREAD: usize = 64;

/// A longer request occupies a thread for half a millisecond, and a batch of short ones should not queue after it. The
/// columns of a short one are so small that one thread copies them.
const LONG_BYTES: usize = 64 << 10;

/// Multiply-adds of f32 that take as long as parsing a byte of source.
const PARSE_COST: u64 = 700;

/// Requests of at most this many bytes of source are gathered on one thread each, in the time of a slice.
const GATHER_BYTES: usize = 1 << 20;

/// Parses every source of every request: in slices of sources on the pool, or on this thread if there is little to parse, or
/// if a long batch has reserved the pool and this one would wait longer than it takes. A source is never cut, so a huge one is a
/// slice as long as it takes.
pub(super) fn run(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let pool = worker.pool();
    let sizes = || batch.iter().map(|request| source_bytes(request));
    let is_long = sizes().any(|bytes| bytes > LONG_BYTES);
    let bytes = sizes().sum();
    let avoids_pool = worker.avoids_pool(parse_cost(bytes)) || (!is_long && pool.is_reserved());
    if bytes < MIN_PARALLEL_BYTES || avoids_pool {
        return pool.time_inline("parse", || sequential(batch, worker));
    }
    let _reservation = is_long.then(|| pool.reserve());
    pool.time_inline("parse", || parallel(batch, worker))
}

fn source_bytes(request: &ParseRequest) -> usize {
    request.sources.iter().map(Bytes::len).sum()
}

/// The cost of work that takes as long as parsing `bytes` bytes.
fn parse_cost(bytes: usize) -> u64 {
    PARSE_COST.saturating_mul(bytes as u64)
}

/// Parses on this thread.
fn sequential(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let mut responses = Vec::with_capacity(batch.len());
    let mut cost = 0;
    for request in batch {
        let sources = request.sources.iter().enumerate();
        let parsed = sources
            .map(|(index, source)| ParsedSource::parse(source, request.options_of(index), request.outputs))
            .collect();
        responses.push(respond(request, parsed, Schedule::Inline)?);
        cost += parse_cost(source_bytes(request));
        if cost >= SLICE {
            worker.preemption_point()?;
            cost = 0;
        }
    }
    Ok(responses)
}

/// Parses on the pool.
fn parallel(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let sources =
        batch.iter().flat_map(|request| (0..request.sources.len()).map(move |index| (*request, index))).collect();
    let cost = |(request, index): &(&ParseRequest, usize)| parse_cost(request.sources[*index].len());
    let parse = |(request, index): (&ParseRequest, usize)| {
        ParsedSource::parse(&request.sources[index], request.options_of(index), request.outputs)
    };
    let mut parsed = worker.map(sources, cost, parse)?.into_iter();
    let requests = batch.iter().map(|request| (*request, parsed.by_ref().take(request.sources.len()).collect()));
    respond_to_all(requests.collect(), worker)
}

/// Builds the responses of requests from their sources, in order.
fn respond_to_all(
    mut requests: Vec<(&ParseRequest, Vec<ParsedSource>)>,
    worker: &Worker,
) -> Result<Vec<ParseResponse>, OpError> {
    let mut responses = Vec::with_capacity(requests.len());
    while let Some((first, _)) = requests.first() {
        if source_bytes(first) > GATHER_BYTES {
            let (request, sources) = requests.remove(0);
            responses.push(respond(request, sources, Schedule::Slices(worker))?);
            continue;
        }
        let long = requests.iter().position(|(request, _)| source_bytes(request) > GATHER_BYTES);
        let after = requests.split_off(long.unwrap_or(requests.len()));
        let cost = |(request, _): &(&ParseRequest, Vec<ParsedSource>)| gather_cost(source_bytes(request));
        let done = worker.map(requests, cost, |(request, sources)| respond(request, sources, Schedule::Slice))?;
        responses.extend(done.into_iter().collect::<Result<Vec<_>, _>>()?);
        requests = after;
    }
    Ok(responses)
}

/// The cost of gathering the columns of sources of `bytes` bytes in all.
fn gather_cost(bytes: usize) -> u64 {
    copy_cost(bytes).saturating_mul(super::BYTES_PER_BYTE)
}

/// Builds the response of a request from its sources.
fn respond(
    request: &ParseRequest,
    sources: Vec<ParsedSource>,
    schedule: Schedule<'_>,
) -> Result<ParseResponse, OpError> {
    let columns = gather(sources.iter().map(ParsedSource::columns), request.outputs, None, schedule)?;
    // Freeing the parser's columns takes a while, too.
    let mut results: Vec<SourceResult> = sources.iter().map(|_| SourceResult::default()).collect();
    let mut sources = sources.into_iter();
    let parts: Vec<_> = results
        .chunks_mut(FREED_PER_THREAD)
        .map(|results| (sources.by_ref().take(results.len()).collect(), results))
        .collect();
    let free = |(): &mut (), (sources, results): (Vec<ParsedSource>, &mut [SourceResult])| {
        sources.into_iter().zip(results).for_each(|(parsed, result)| *result = parsed.result);
    };
    let each = gather_cost(source_bytes(request)) / parts.len().max(1) as u64;
    schedule.for_each(parts, |_| each, || (), free)?;
    Ok(ParseResponse { results, columns })
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

    fn line(self, offset: u32) -> u32 {
        u32::try_from(self.line_starts.partition_point(|&start| start <= offset).max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::cpu::Pool;

    fn request(sources: Vec<Bytes>) -> ParseRequest {
        let outputs = Outputs { tree: true, ..Outputs::default() };
        ParseRequest::new(sources, Options::version(14), outputs)
    }

    #[test]
    fn a_short_batch_does_not_queue_after_a_long_one() {
        let pool = Pool::start(1).expect("one thread");
        let worker = Worker::new(Arc::clone(&pool));
        let _reservation = pool.reserve();
        // The longer one reserves the pool itself where others have not.
        for (lines, nodes) in [(10_000, 30_000), (20_000, 60_000)] {
            let short = request(vec![Bytes::from("x = 1\n".repeat(lines))]);
            assert!(short.sources[0].len() > MIN_PARALLEL_BYTES);
            assert_eq!(short.sources[0].len() > LONG_BYTES, lines == 20_000);
            let (release, released) = mpsc::channel::<()>();
            pool.scope(|scope| {
                scope.spawn(move |_| released.recv().expect("the short batch ends first"));
                let responses = run(&[&short], &worker).expect("parsed");
                release.send(()).expect("the pool's only thread is taken until now");
                assert_eq!(responses[0].results[0].counts.nodes, nodes);
            });
        }
    }

    #[test]
    fn a_long_batch_reserves_the_pool_while_it_runs() {
        let pool = Pool::start(2).expect("two threads");
        let worker = Worker::new(Arc::clone(&pool));
        let long = request(vec![Bytes::from("x = 1\n".repeat(50_000))]);
        assert!(!pool.is_reserved());
        let responses = run(&[&long], &worker).expect("parsed");
        assert_eq!(responses[0].results[0].counts.nodes, 150_000);
        assert!(!pool.is_reserved(), "it releases the pool");
        let reservation = pool.reserve();
        assert!(pool.is_reserved());
        drop(reservation);
        assert_eq!(run(&[&long], &worker), Ok(responses));
    }
}
