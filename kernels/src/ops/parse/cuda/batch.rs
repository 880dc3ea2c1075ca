//! A batch of requests on a GPU: sources in slices to the device, columns back, and what the device leaves to the CPU.

use std::{borrow::Cow, cell::RefCell, ops::Range, sync::OnceLock};

use accelerd_parser::{Tree, text};
use bytemuck::Pod;
use bytes::Bytes;
use rayon::prelude::*;

use super::{
    lexer::{Sources, Tokens, lex},
    tree::{Lexed, Summary, Trees, trees},
};
use crate::{
    OpError,
    cuda::{Buffer, Worker},
    ops::parse::{
        BatchColumns, Counts, Item, Located, Outputs, ParseRequest, ParseResponse, SourceResult,
        columns::token_kind,
        cpu::{self, Locate},
    },
};

/// Bytes of source that go to the device at once.
const SLICE_BYTES: usize = 48 << 20;
/// Bytes of source below which more threads cost more than they save.
const SPREAD_BYTES: usize = 256 << 10;
/// How many slices' columns a thread keeps memory for.
const MOST_LANDINGS: usize = 4;

/// One source of the batch.
struct Source<'a> {
    request: &'a ParseRequest,
    bytes: &'a Bytes,
    /// Its text, unless its bytes are none: the CPU then says why.
    text: Option<Cow<'a, str>>,
}

impl Source<'_> {
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// Parses every source of every request.
pub(in crate::ops::parse) fn run(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let sources = decode(batch);
    let wanted = batch.iter().fold(Outputs::default(), |all, request| union(all, request.outputs));
    // What the device leaves to the CPU is parsed beside the device's work.
    let anew: Vec<OnceLock<Anew>> = sources.iter().map(|_| OnceLock::new()).collect();
    let (sources, anew) = (&sources, &anew);
    let slices = rayon::in_place_scope(|scope| {
        let slice = |range: Range<usize>| {
            let mut slice = Slice::parse(&sources[range.clone()], range.start, worker)?;
            for at in range.filter(|at| slice.left[at - slice.first]) {
                scope.spawn(move |_| drop(anew[at].set(parsed_anew(&sources[at]))));
            }
            slice.bring_back(wanted, worker)?;
            Ok(slice)
        };
        cut(sources).into_iter().map(slice).collect::<Result<Vec<_>, OpError>>()
    })?;
    let one = |(at, source): (usize, _)| match anew[at].get() {
        Some(anew) => anew.piece(),
        None => piece(source, at, &slices),
    };
    let pieces: Vec<Piece<'_>> = if wanted.outline {
        sources.par_iter().enumerate().map(one).collect()
    } else {
        sources.iter().enumerate().map(one).collect()
    };
    let mut pieces = pieces.into_iter();
    let answer =
        |request: &&ParseRequest| gather(request.outputs, pieces.by_ref().take(request.sources.len()).collect());
    let answers = batch.iter().map(answer).collect();
    slices.into_iter().for_each(Slice::put_by);
    Ok(answers)
}

fn decode<'a>(batch: &[&'a ParseRequest]) -> Vec<Source<'a>> {
    let one = |request: &'a ParseRequest, bytes: &'a Bytes| {
        let text = text::decode(bytes, &request.options).ok();
        Source { request, bytes, text }
    };
    let all: Vec<_> =
        batch.iter().flat_map(|&request| request.sources.iter().map(move |bytes| (request, bytes))).collect();
    let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
    if bytes < SPREAD_BYTES {
        return all.into_iter().map(|(request, bytes)| one(request, bytes)).collect();
    }
    all.into_par_iter().map(|(request, bytes)| one(request, bytes)).collect()
}

fn union(one: Outputs, other: Outputs) -> Outputs {
    Outputs {
        tree: one.tree || other.tree,
        tokens: one.tokens || other.tokens,
        comments: one.comments || other.comments,
        outline: one.outline || other.outline,
        line_starts: one.line_starts || other.line_starts,
    }
}

/// Parts the sources: what goes to the device at once.
fn cut(sources: &[Source<'_>]) -> Vec<Range<usize>> {
    let (mut ranges, mut first, mut bytes) = (vec![], 0, 0);
    for (at, source) in sources.iter().enumerate() {
        let own = source.text().len();
        if bytes + own > SLICE_BYTES && at > first {
            ranges.push(first..at);
            (first, bytes) = (at, 0);
        }
        bytes += own;
    }
    if first < sources.len() {
        ranges.push(first..sources.len());
    }
    ranges
}

thread_local! {
    /// Host memory that columns of slices landed in before: the system need not make it anew.
    static LANDINGS: RefCell<Vec<BatchColumns>> = const { RefCell::new(vec![]) };
}

/// What the device made of some sources.
struct Slice {
    first: usize,
    tokens: Tokens,
    trees: Trees,
    summary: Vec<Summary>,
    columns: BatchColumns,
    /// By source and behind the last: what is before it in the columns.
    before: Vec<Counts>,
    /// Which sources are the CPU's.
    left: Vec<bool>,
}

impl Slice {
    /// Waits for the device.
    fn parse(sources: &[Source<'_>], first: usize, worker: &Worker) -> Result<Self, OpError> {
        let texts: Vec<&str> = sources.iter().map(Source::text).collect();
        let versions: Vec<u8> = sources.iter().map(|source| source.request.options.feature_version).collect();
        let on_device = Sources::upload(&texts, worker)?;
        let tokens = lex(&on_device, worker)?;
        let lexed = Lexed {
            text: on_device.text.ptr(),
            source_starts: on_device.starts.ptr(),
            source_lens: on_device.lens.ptr(),
            flags: tokens.flags.ptr(),
            token_bases: tokens.token_bases.ptr(),
            logical_bases: tokens.logical_bases.ptr(),
            name_bases: tokens.name_bases.ptr(),
            kinds: tokens.kinds.ptr(),
            starts: tokens.starts.ptr(),
            ends: tokens.ends.ptr(),
            payloads: tokens.payloads.ptr(),
            logical_firsts: tokens.logical_firsts.ptr(),
            logical_ends: tokens.logical_ends.ptr(),
            logical_columns: tokens.logical_columns.ptr(),
            logical_alternates: tokens.logical_alternates.ptr(),
            name_starts: tokens.name_starts.ptr(),
            name_ends: tokens.name_ends.ptr(),
            sources: sources.len(),
            text_cap: on_device.bytes(),
            token_cap: tokens.token_count,
            logical_cap: tokens.logical_count,
        };
        let trees = trees(&lexed, &versions, worker)?;
        let summary: Vec<Summary> = worker.download(&trees.summary, ..)?;
        let left =
            sources.iter().zip(&summary).map(|(source, one)| one.reasons != 0 || source.text.is_none()).collect();
        let columns = LANDINGS.with_borrow_mut(Vec::pop).unwrap_or_default();
        Ok(Self { first, tokens, trees, summary, columns, before: vec![], left })
    }

    fn bring_back(&mut self, wanted: Outputs, worker: &Worker) -> Result<(), OpError> {
        self.before = before(&self.summary, &self.tokens, wanted, worker)?;
        let all = self.before.last().copied().unwrap_or_default();
        download(&self.trees, &self.tokens, all, &mut self.columns, worker)
    }

    /// Keeps the host's memory for the next batch.
    fn put_by(self) {
        LANDINGS.with_borrow_mut(|landings| {
            if landings.len() < MOST_LANDINGS {
                landings.push(self.columns);
            }
        });
    }
}

fn before(summary: &[Summary], tokens: &Tokens, wanted: Outputs, worker: &Worker) -> Result<Vec<Counts>, OpError> {
    let tree = wanted.tree || wanted.outline;
    let bases = |wanted: bool, bases| {
        if wanted { worker.download(bases, ..) } else { Ok(vec![0; summary.len()]) }
    };
    let lines = bases(tree || wanted.line_starts, &tokens.line_bases)?;
    let names = bases(tree, &tokens.name_bases)?;
    let numbers = bases(wanted.tokens, &tokens.token_bases)?;
    let comments = bases(wanted.comments, &tokens.comment_bases)?;
    let one = |at: usize| {
        let Summary { rows, values, extra, .. } = if tree { summary[at] } else { Summary::default() };
        Counts {
            nodes: rows,
            names: names[at],
            values,
            extra,
            lines: lines[at],
            tokens: numbers[at],
            comments: comments[at],
        }
    };
    Ok((0..summary.len()).map(one).collect())
}

/// Brings so much of each column back.
fn download(
    trees: &Trees,
    tokens: &Tokens,
    all: Counts,
    columns: &mut BatchColumns,
    worker: &Worker,
) -> Result<(), OpError> {
    let Counts { nodes, names, values, .. } = all;
    land(&trees.kinds, nodes, &mut columns.kinds, worker)?;
    land(&trees.fields, nodes, &mut columns.fields, worker)?;
    land(&trees.parents, nodes, &mut columns.parents, worker)?;
    land(&trees.starts, nodes, &mut columns.starts, worker)?;
    land(&trees.ends, nodes, &mut columns.ends, worker)?;
    land(&trees.aux, nodes, &mut columns.aux, worker)?;
    land(&tokens.name_starts, names, &mut columns.name_starts, worker)?;
    land(&tokens.name_ends, names, &mut columns.name_ends, worker)?;
    land(&trees.value_tags, values, &mut columns.value_tags, worker)?;
    land(&trees.value_starts, values, &mut columns.value_starts, worker)?;
    land(&trees.value_ends, values, &mut columns.value_ends, worker)?;
    land(&trees.extra, all.extra, &mut columns.extra, worker)?;
    land(&tokens.line_starts, all.lines, &mut columns.line_starts, worker)?;
    land(&tokens.kinds, all.tokens, &mut columns.token_kinds, worker)?;
    land(&tokens.starts, all.tokens, &mut columns.token_starts, worker)?;
    land(&tokens.ends, all.tokens, &mut columns.token_ends, worker)?;
    land(&tokens.comment_starts, all.comments, &mut columns.comment_starts, worker)?;
    land(&tokens.comment_ends, all.comments, &mut columns.comment_ends, worker)?;
    columns.token_kinds.iter_mut().for_each(|kind| *kind = token_kind(*kind));
    Ok(())
}

fn land<T: Pod>(from: &Buffer<T>, count: u32, to: &mut Vec<T>, worker: &Worker) -> Result<(), OpError> {
    to.resize(count as usize, T::zeroed());
    worker.download_into(from, 0, to)
}

/// What became of a source: its part of some columns.
struct Piece<'a> {
    columns: &'a BatchColumns,
    from: Counts,
    to: Counts,
    result: SourceResult,
}

fn piece<'a>(source: &Source<'_>, at: usize, slices: &'a [Slice]) -> Piece<'a> {
    let number = slices.partition_point(|slice| slice.first <= at) - 1;
    let slice = &slices[number];
    let local = at - slice.first;
    let (from, to) = (slice.before[local], slice.before[local + 1]);
    let wanted = source.request.outputs;
    let text = match &source.text {
        Some(Cow::Owned(text)) => Some(Bytes::copy_from_slice(text.as_bytes())),
        _ => None,
    };
    let outline = if wanted.outline { outline(source.text().as_bytes(), &slice.columns, from, to) } else { vec![] };
    let result = SourceResult { counts: counts(wanted, from, to), text, outline, ..SourceResult::default() };
    Piece { columns: &slice.columns, from, to, result }
}

/// What the CPU made of a source that the device left to it.
struct Anew {
    columns: BatchColumns,
    result: SourceResult,
}

fn parsed_anew(source: &Source<'_>) -> Anew {
    let done = cpu::parse(source.bytes, source.request);
    let mut columns = BatchColumns::default();
    let counts = columns.push(&done.parsed, &done.line_starts, source.request.outputs);
    Anew { columns, result: SourceResult { counts, ..done.result } }
}

impl Anew {
    fn piece(&self) -> Piece<'_> {
        let to = self.result.counts;
        Piece { columns: &self.columns, from: Counts::default(), to, result: self.result.clone() }
    }
}

fn counts(wanted: Outputs, from: Counts, to: Counts) -> Counts {
    let part = |wanted: bool, from: u32, to: u32| if wanted { to - from } else { 0 };
    Counts {
        nodes: part(wanted.tree, from.nodes, to.nodes),
        names: part(wanted.tree, from.names, to.names),
        values: part(wanted.tree, from.values, to.values),
        extra: part(wanted.tree, from.extra, to.extra),
        lines: part(wanted.tree || wanted.line_starts, from.lines, to.lines),
        tokens: part(wanted.tokens, from.tokens, to.tokens),
        comments: part(wanted.comments, from.comments, to.comments),
    }
}

fn outline(text: &[u8], columns: &BatchColumns, from: Counts, to: Counts) -> Vec<Located<Item>> {
    let (nodes, names) = (part(from.nodes, to.nodes), part(from.names, to.names));
    let tree = Tree {
        text,
        extra: &columns.extra[part(from.extra, to.extra)],
        kinds: &columns.kinds[nodes.clone()],
        fields: &columns.fields[nodes.clone()],
        parents: &columns.parents[nodes.clone()],
        starts: &columns.starts[nodes.clone()],
        ends: &columns.ends[nodes.clone()],
        aux: &columns.aux[nodes],
        name_starts: &columns.name_starts[names.clone()],
        name_ends: &columns.name_ends[names],
        value_tags: &columns.value_tags[part(from.values, to.values)],
    };
    Locate { text, line_starts: &columns.line_starts[part(from.lines, to.lines)] }.outline(&tree)
}

fn part(from: u32, to: u32) -> Range<usize> {
    from as usize..to as usize
}

/// Puts the sources of a request together, each column on a thread of its own.
fn gather(wanted: Outputs, pieces: Vec<Piece<'_>>) -> ParseResponse {
    let joined = join_neighbours(&pieces);
    let mut out = BatchColumns::default();
    let lines = wanted.tree || wanted.line_starts;
    let copy = Copy { pieces: &joined };
    let BatchColumns {
        kinds,
        fields,
        parents,
        starts,
        ends,
        aux,
        name_starts,
        name_ends,
        value_tags,
        value_starts,
        value_ends,
        extra,
        line_starts,
        token_kinds,
        token_starts,
        token_ends,
        comment_starts,
        comment_ends,
    } = &mut out;
    rayon::scope(|scope| {
        let (nodes, values): (Table, Table) = (|counts| counts.nodes, |counts| counts.values);
        let (names, tokens): (Table, Table) = (|counts| counts.names, |counts| counts.tokens);
        let comments: Table = |counts| counts.comments;
        if wanted.tree {
            scope.spawn(move |_| copy.column(parents, nodes, |columns| &columns.parents));
            scope.spawn(move |_| copy.column(starts, nodes, |columns| &columns.starts));
            scope.spawn(move |_| copy.column(ends, nodes, |columns| &columns.ends));
            scope.spawn(move |_| copy.column(aux, nodes, |columns| &columns.aux));
            scope.spawn(move |_| {
                copy.column(kinds, nodes, |columns| &columns.kinds);
                copy.column(fields, nodes, |columns| &columns.fields);
                copy.column(extra, |counts| counts.extra, |columns| &columns.extra);
            });
            scope.spawn(move |_| {
                copy.column(name_starts, names, |columns| &columns.name_starts);
                copy.column(name_ends, names, |columns| &columns.name_ends);
                copy.column(value_tags, values, |columns| &columns.value_tags);
                copy.column(value_starts, values, |columns| &columns.value_starts);
                copy.column(value_ends, values, |columns| &columns.value_ends);
            });
        }
        if lines {
            copy.column(line_starts, |counts| counts.lines, |columns| &columns.line_starts);
        }
        if wanted.tokens {
            copy.column(token_kinds, tokens, |columns| &columns.token_kinds);
            copy.column(token_starts, tokens, |columns| &columns.token_starts);
            copy.column(token_ends, tokens, |columns| &columns.token_ends);
        }
        if wanted.comments {
            copy.column(comment_starts, comments, |columns| &columns.comment_starts);
            copy.column(comment_ends, comments, |columns| &columns.comment_ends);
        }
    });
    ParseResponse { results: pieces.into_iter().map(|piece| piece.result).collect(), columns: out }
}

/// Which count of a table.
type Table = fn(&Counts) -> u32;

/// Parts of columns that follow each other.
#[derive(Clone, Copy)]
struct Copy<'a> {
    pieces: &'a [(&'a BatchColumns, Counts, Counts)],
}

impl Copy<'_> {
    fn column<T: Clone>(self, out: &mut Vec<T>, table: Table, column: fn(&BatchColumns) -> &Vec<T>) {
        let total: usize = self.pieces.iter().map(|(_, from, to)| (table(to) - table(from)) as usize).sum();
        out.reserve_exact(total);
        for (columns, from, to) in self.pieces {
            out.extend_from_slice(&column(columns)[part(table(from), table(to))]);
        }
    }
}

/// Pieces that lie one behind the other in the same columns, as one.
fn join_neighbours<'a>(pieces: &[Piece<'a>]) -> Vec<(&'a BatchColumns, Counts, Counts)> {
    let mut joined: Vec<(&BatchColumns, Counts, Counts)> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some((columns, _, to)) if std::ptr::eq(*columns, piece.columns) && *to == piece.from => {
                *to = piece.to;
            }
            _ => joined.push((piece.columns, piece.from, piece.to)),
        }
    }
    joined
}
