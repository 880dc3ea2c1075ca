//! Fallback to the CPU: the sources that the device cannot finish exactly, counted by reason, and the threads that parse
//! them while the device works.
//!
//! A prefilter finds sources that are nearly sure to fall back before the device does, so that the CPU starts early. It
//! guesses: a false positive costs CPU time and a false negative time at the end, but results are the same.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    ops::Range,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use memchr::{memchr, memmem};
use rayon::Scope;

use super::fallback_reason::{REASON_LIMIT, name};
use crate::{
    cuda::FallbackCounters,
    ops::parse::{Options, Outputs, ParseRequest, cpu::ParsedSource},
};

/// One source of a batch.
#[derive(Clone, Copy)]
pub(super) struct BatchSource<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) options: Options,
    pub(super) outputs: Outputs,
}

impl<'a> BatchSource<'a> {
    /// All sources of a request.
    pub(super) fn all(request: &'a ParseRequest) -> impl Iterator<Item = Self> {
        let source = |(index, bytes)| Self { bytes, options: request.options_of(index), outputs: request.outputs };
        request.sources.iter().enumerate().map(source)
    }
}

/// All sources of a batch, and which of them fall back.
pub(super) struct Batch<'a> {
    pub(super) sources: Vec<BatchSource<'a>>,
    /// Bytes of the preceding sources, by source.
    offsets: Vec<usize>,
    /// The CPU's results, by source.
    pub(super) results: Vec<OnceLock<ParsedSource>>,
    falls_back: Vec<AtomicBool>,
    stats: &'a FallbackCounters,
    queue: WorkQueue,
}

impl<'a> Batch<'a> {
    /// `threads`: of the CPU pool.
    pub(super) fn new(sources: Vec<BatchSource<'a>>, stats: &'a FallbackCounters, threads: usize) -> Self {
        let results = sources.iter().map(|_| OnceLock::new()).collect();
        let falls_back = sources.iter().map(|_| AtomicBool::new(false)).collect();
        let offset = |sum: &mut usize, source: &BatchSource<'_>| {
            let before = *sum;
            *sum += source.bytes.len();
            Some(before)
        };
        let offsets = sources.iter().scan(0, offset).collect();
        Self { sources, offsets, results, falls_back, stats, queue: WorkQueue::new(threads) }
    }

    /// Returns true if a source falls back.
    pub(super) fn falls_back(&self, source: usize) -> bool {
        self.falls_back[source].load(Relaxed)
    }

    fn size(&self, source: usize) -> usize {
        self.sources[source].bytes.len()
    }
}

/// Parses sources on the CPU, on threads of the scope.
#[derive(Clone, Copy)]
pub(super) struct Fallback<'l, 'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) scope: &'l Scope<'a>,
}

impl Fallback<'_, '_> {
    /// Queues sources with the reasons of their summaries, unless they have fallen back already.
    pub(super) fn submit(self, sources: impl Iterator<Item = (usize, u32)>) {
        let batch = self.batch;
        let new = sources.filter(|(source, _)| !batch.falls_back[*source].swap(true, Relaxed));
        let jobs = new.map(|(source, reasons)| {
            let bytes = batch.size(source);
            batch.stats.count("parse", name(reasons), bytes as u64);
            Job::parse(source, bytes, batch.offsets[source])
        });
        self.spawn(batch.queue.push(jobs.collect()));
    }

    /// Queues the search for sources with long lines. Does nothing for small batches.
    pub(super) fn prefilter(self) {
        let jobs = self.prefilter_ranges().into_iter().map(|range| Job::Prefilter(Reverse(range.start), range.end));
        self.spawn(self.batch.queue.push(jobs.collect()));
    }

    /// Lets all threads parse; until then most of them are left to packing.
    pub(super) fn use_all_threads(self) {
        self.spawn(self.batch.queue.use_all_threads());
    }

    fn spawn(self, workers: usize) {
        let batch = self.batch;
        for _ in 0..workers {
            self.scope.spawn(move |scope| Fallback { batch, scope }.work());
        }
    }

    fn work(self) {
        let batch = self.batch;
        while let Some(job) = batch.queue.pop() {
            match job {
                Job::Parse { source, .. } => {
                    let BatchSource { bytes, options, outputs } = batch.sources[source];
                    drop(batch.results[source].set(ParsedSource::parse(bytes, options, outputs)));
                }
                Job::Prefilter(Reverse(first), end) => self.submit_long_lines(first..end),
            }
        }
    }

    fn submit_long_lines(self, sources: Range<usize>) {
        let batch = self.batch;
        let is_long = |source: &usize| {
            batch.size(*source) >= PREFILTER_MIN_SOURCE_BYTES && has_long_line(batch.sources[*source].bytes)
        };
        self.submit(sources.filter(is_long).map(|source| (source, REASON_LIMIT)));
    }

    /// Ranges of sources with about `PREFILTER_BYTES` each; none for a batch with less.
    fn prefilter_ranges(self) -> Vec<Range<usize>> {
        let mut ranges = vec![];
        let mut first = 0;
        let mut bytes = 0;
        for source in 0..self.batch.sources.len() {
            bytes += self.batch.size(source);
            if bytes >= PREFILTER_BYTES {
                ranges.push(first..source + 1);
                (first, bytes) = (source + 1, 0);
            }
        }
        if !ranges.is_empty() {
            ranges.push(first..self.batch.sources.len());
        }
        ranges
    }
}

/// While sources are packed, one of this many threads parses.
const THREADS_PER_WORKER: usize = 4;
/// The device is about as fast as this many threads. Columns are downloaded in source order, so a late source delays all
/// that follow.
const DEVICE_IN_THREADS: i64 = 64;

/// A job of the work queue; the most urgent one is the greatest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// Parses a source. The slack is how long that can wait, in bytes of source that the device parses meanwhile.
    Parse { slack: Reverse<i64>, source: usize },
    /// Searches a range of sources for long lines; the earlier this is done, the earlier the CPU starts with them.
    Prefilter(Reverse<usize>, usize),
}

impl Job {
    /// `offset`: bytes of the preceding sources. The result is due when the device has parsed those.
    fn parse(source: usize, bytes: usize, offset: usize) -> Self {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let slack = number(offset).saturating_sub(number(bytes).saturating_mul(DEVICE_IN_THREADS));
        Self::Parse { slack: Reverse(slack), source }
    }
}

/// A priority queue of jobs that limits the number of workers.
#[derive(Debug)]
struct WorkQueue {
    threads: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug)]
struct QueueState {
    jobs: BinaryHeap<Job>,
    workers: usize,
    max_workers: usize,
}

impl WorkQueue {
    fn new(threads: usize) -> Self {
        let max_workers = (threads / THREADS_PER_WORKER).max(1);
        Self { threads, state: Mutex::new(QueueState { jobs: BinaryHeap::new(), workers: 0, max_workers }) }
    }

    /// Adds jobs; returns how many workers to start.
    fn push(&self, jobs: Vec<Job>) -> usize {
        self.with(|state| {
            state.jobs.extend(jobs);
            state.add_workers()
        })
    }

    /// Raises the limit to all threads; returns how many workers to start.
    fn use_all_threads(&self) -> usize {
        self.with(|state| {
            state.max_workers = self.threads.max(1);
            state.add_workers()
        })
    }

    /// A worker's next job; a worker that gets none ends.
    fn pop(&self) -> Option<Job> {
        self.with(|state| {
            let job = state.jobs.pop();
            state.workers -= usize::from(job.is_none());
            job
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut QueueState) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl QueueState {
    fn add_workers(&mut self) -> usize {
        let added = self.jobs.len().min(self.max_workers - self.workers);
        self.workers += added;
        added
    }
}

/// Bytes of sources per prefilter job, and of the smallest source that is searched.
const PREFILTER_BYTES: usize = 1 << 20;
const PREFILTER_MIN_SOURCE_BYTES: usize = 12 << 10;
/// Tokens of the longest line that the device splits; mirrors `MAX_SPLIT` in `cu/parse/tree_split.cu`.
const MAX_TOKENS: usize = 5000;
/// Bytes between probes for lines that continue.
const STRIDE: usize = 4096;
/// This many positive probes in a row lead to an exact count.
const PROBES: usize = 3;

/// Returns true if a string may have a `\N{...}` escape: the device has no table of character names. False positives are rare
/// comments, raw strings and bytes.
pub(super) fn has_named_character(text: &[u8]) -> bool {
    memmem::find_iter(text, b"\\N{").any(|offset| {
        let backslashes = text[..offset].iter().rev().take_while(|byte| **byte == b'\\').count();
        backslashes.is_multiple_of(2)
    })
}

/// Returns true if a logical line may have more tokens than the device takes: a table of data whose physical lines, except for the
/// last, show by their ends that the logical line continues. Reads few bytes of other text.
fn has_long_line(text: &[u8]) -> bool {
    let mut offset = 0;
    let mut first = 0;
    let mut probes = 0;
    while offset < text.len() {
        offset += line(text, offset).len() + 1;
        if !continues(line(text, offset)) {
            probes = 0;
        } else if probes + 1 < PROBES {
            first = if probes == 0 { offset } else { first };
            probes += 1;
        } else {
            match end_of_long_line(text, first) {
                None => return true,
                Some(end) => (offset, probes) = (end, 0),
            }
        }
        offset += STRIDE;
    }
    false
}

/// The rest of the physical line at a position; empty past the end.
fn line(text: &[u8], offset: usize) -> &[u8] {
    let rest = text.get(offset..).unwrap_or_default();
    &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// Returns true if the logical line continues after this physical one, or may, because this is empty or a comment.
fn continues(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.starts_with(b"#") || matches!(line.last(), None | Some(b',' | b'(' | b'[' | b'{' | b'\'' | b'"' | b'\\'))
}

/// The end of the lines from `offset` on that continue; none if they have too many tokens.
fn end_of_long_line(text: &[u8], mut offset: usize) -> Option<usize> {
    let mut tokens = 0;
    while offset < text.len() {
        let line = line(text, offset);
        if !continues(line) {
            return Some(offset);
        }
        tokens += count_tokens(line);
        if tokens > MAX_TOKENS {
            return None;
        }
        offset += line.len() + 1;
    }
    Some(offset)
}

/// The approximate number of tokens of a line that starts and ends outside of strings.
fn count_tokens(line: &[u8]) -> usize {
    let mut count = 0;
    let mut offset = 0;
    while let Some(&byte) = line.get(offset) {
        offset += 1;
        match byte {
            b'#' => return count,
            b' ' | b'\t' | b'\r' | b'\\' => continue,
            b'\'' | b'"' => offset += string_length(&line[offset..], byte),
            _ if is_word(byte) => offset += line[offset..].iter().take_while(|byte| is_word(**byte)).count(),
            _ => {}
        }
        count += 1;
    }
    count
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..)
}

/// Bytes of the rest of a string, its closing quote included.
fn string_length(rest: &[u8], quote: u8) -> usize {
    let mut escaped = false;
    let ends = |&byte: &u8| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    rest.iter().position(ends).map_or(rest.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cpu::Pool, ops::parse::cuda::fallback_reason::REASON_LITERAL};

    #[test]
    fn each_source_falls_back_once_and_the_prefilter_finds_long_lines() {
        let table = format!("x = [{}]\n", "1, 2,\n".repeat(300_000));
        let other = "def f():\n    return 1\n".repeat(50_000);
        let sources = [&table, "a = 1\n", "a = 12\n", &other, &table];
        let sources = sources.map(|source| Bytes::copy_from_slice(source.as_bytes())).into();
        let outputs = Outputs { tree: true, ..Outputs::default() };
        let request = ParseRequest::new(sources, Options::default(), outputs);
        let stats = FallbackCounters::default();
        let batch = Batch::new(BatchSource::all(&request).collect(), &stats, 1);
        let pool = Pool::start(1).expect("one thread");
        pool.scope(|scope| Fallback { batch: &batch, scope }.prefilter());
        let fallen_back = || (0..5).map(|source| batch.falls_back(source)).collect::<Vec<_>>();
        assert_eq!(fallen_back(), [true, false, false, false, true]);
        let reasons = [(0, 2), (1, 8), (2, REASON_LITERAL)];
        pool.scope(|scope| Fallback { batch: &batch, scope }.submit(reasons.into_iter()));
        assert_eq!(fallen_back(), [true, true, true, false, true]);
        let nodes = |source: usize| batch.results[source].get().map(|parsed: &ParsedSource| parsed.result.counts.nodes);
        assert_eq!((nodes(1), nodes(3), nodes(0)), (Some(3), None, nodes(4)));
        let counted: Vec<_> =
            stats.stats().into_iter().map(|counter| (counter.reason, counter.items, counter.bytes)).collect();
        assert_eq!(counted, [("block", 1, 6), ("limit", 2, 2 * table.len() as u64), ("literal", 1, 7)]);
    }

    #[test]
    fn a_small_batch_is_not_prefiltered() {
        let sources = vec!["a,\n".repeat(9_000).into()];
        let request = ParseRequest::new(sources, Options::default(), Outputs::default());
        let stats = FallbackCounters::default();
        let batch = Batch::new(BatchSource::all(&request).collect(), &stats, 1);
        Pool::start(1).expect("one thread").scope(|scope| Fallback { batch: &batch, scope }.prefilter());
        assert!(!batch.falls_back(0));
    }

    #[test]
    fn the_longest_line_is_that_of_the_kernels() {
        let split = crate::cuda::cu!("parse/tree_split.cu").text;
        assert!(split.contains(&format!("#define MAX_SPLIT {MAX_TOKENS}u\n")));
    }

    #[test]
    fn few_workers_run_until_all_threads_may() {
        let queue = WorkQueue::new(8);
        assert_eq!(queue.push((0..3).map(|source| Job::parse(source, 1, source)).collect()), 2);
        assert_eq!(queue.push(vec![Job::Prefilter(Reverse(0), 4)]), 0);
        assert!(queue.pop().is_some() && queue.pop().is_some());
        assert_eq!(queue.use_all_threads(), 2);
        assert!(queue.pop().is_some() && queue.pop().is_some());
        assert!((0..4).all(|_| queue.pop().is_none()));
        assert_eq!(queue.push(vec![Job::parse(3, 1, 0)]), 1);
    }

    #[test]
    fn the_most_urgent_job_goes_first() {
        let queue = WorkQueue::new(1);
        let large = Job::parse(7, 1 << 20, 1 << 24);
        let early = Job::parse(0, 10, 0);
        let late = Job::parse(9, 1 << 10, 1 << 24);
        let jobs = vec![late, Job::Prefilter(Reverse(5), 9), early, large, Job::Prefilter(Reverse(0), 5)];
        assert_eq!(queue.push(jobs), 1);
        let order = std::iter::from_fn(|| queue.pop()).map(|job| match job {
            Job::Parse { source, .. } => source,
            Job::Prefilter(_, end) => 100 + end,
        });
        assert_eq!(order.collect::<Vec<_>>(), [105, 109, 7, 0, 9]);
    }

    #[test]
    fn a_single_thread_is_a_worker() {
        let queue = WorkQueue::new(1);
        assert_eq!(queue.push((0..3).map(|source| Job::parse(source, 1, 0)).collect()), 1);
        assert_eq!(queue.use_all_threads(), 0);
    }

    #[test]
    fn a_named_character_is_found_and_an_escaped_backslash_is_none() {
        for text in [r"'\N{DIGIT ONE}'", r"'\\\N{DIGIT ONE}'", r"x = '\\N{' + '\N{COLON}'", r"\N{"] {
            assert!(has_named_character(text.as_bytes()), "{text}");
        }
        for text in ["", r"'\\N{DIGIT ONE}'", r"'\n{'", "N{}", r"'\N'", r"\N"] {
            assert!(!has_named_character(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn tokens_are_counted() {
        for (line, tokens) in
            [("", 0), ("  'a\\'b, c': \"d\", # e, f", 4), ("x1 = [1.5, _é, (", 8), ("'open, to the end", 1)]
        {
            assert_eq!(count_tokens(line.as_bytes()), tokens, "{line}");
        }
    }

    #[test]
    fn tables_are_long_lines_and_code_and_short_tables_are_none() {
        let code =
            "def f(a, b):\n    \"\"\"Text, with\n    commas,\n    and more.\"\"\"\n    return g(a,\n        b)\n"
                .repeat(500);
        let entries = |count: usize| "    'name': (1, 'two'),\n    # three\n\n".repeat(count);
        assert!(!has_long_line(code.as_bytes()));
        for (count, expected) in [(100, false), (500, false), (900, true), (5000, true)] {
            let table = format!("{code}table = {{\n{}}}\n{code}", entries(count));
            assert_eq!(has_long_line(table.as_bytes()), expected, "{count}");
        }
        let texts = "    'a long text without an end, one of many of its kind\\n'\r\n".repeat(6000);
        assert!(has_long_line(format!("text = (\r\n{texts})\r\n").as_bytes()));
        let tables = "table = [\n    'one', 'two',\n    'three',\n    'four']\n".repeat(3000);
        assert!(!has_long_line(tables.as_bytes()));
        assert!(!has_long_line(b""));
    }
}
