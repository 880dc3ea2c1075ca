//! The last stage: downloads the columns of slices into pinned arenas. Slices of one request lie one after the other in an
//! arena, with the CPU's results among them, so that the request's columns need no copy to be contiguous.

use std::{
    cell::RefCell,
    ops::Range,
    sync::{Arc, OnceLock},
};

use accelerd_parser::Tree;
use bytemuck::Pod;
use rayon::prelude::*;

use super::{lex::Tokens, pack::SliceSources, parse::Trees};
use crate::{
    OpError,
    cuda::{Buffer, DownloadPlan, Event, HostBuffer, Layout, PendingDownload, Region, StreamKind, Worker},
    ops::parse::{
        Columns, Counts, Item, Located, Outputs, SourceResult,
        columns::Table,
        cpu::{Locate, ParsedSource, reencoded_text, token_kind},
        gather::{ColumnSlice, ColumnSlices},
    },
};

/// A parsed slice, except for the sources that fall back.
pub(super) struct ParsedSlice<'a> {
    pub(super) slice: SliceSources<'a>,
    /// Bytes of source.
    pub(super) bytes: usize,
    /// By source, and one past the last: the rows before it in the columns on the device.
    pub(super) offsets: Vec<Counts>,
    /// By source: whether it falls back.
    pub(super) falls_back: Vec<bool>,
    pub(super) tokens: Tokens,
    pub(super) trees: Trees,
}

/// A slice whose columns are being downloaded.
pub(super) struct DownloadingSlice<'a> {
    slice: DownloadedSlice<'a>,
    done: Event,
    /// The columns on the device, until they are copied.
    _columns: (Tokens, Trees),
}

/// A slice whose columns are on the host.
pub(super) struct DownloadedSlice<'a> {
    slice: SliceSources<'a>,
    /// By source, and one past the last: the rows before it in the arena.
    offsets: Vec<Counts>,
    arena: usize,
    /// The columns of the arena.
    columns: ColumnRegions,
}

impl<'a> ParsedSlice<'a> {
    /// The CPU's results of the slice, by source.
    fn results(&self) -> &'a [OnceLock<ParsedSource>] {
        &self.slice.batch.results[self.slice.range.clone()]
    }

    /// Returns true if the CPU has finished the sources that fall back.
    pub(super) fn is_complete(&self) -> bool {
        self.results().iter().zip(&self.falls_back).all(|(result, falls_back)| !falls_back || result.get().is_some())
    }

    /// Starts to download the columns, concurrently with later kernels. Waits for the CPU's results.
    pub(super) fn download(self, arenas: &mut Arenas<'a>, worker: &Worker) -> Result<DownloadingSlice<'a>, OpError> {
        let runs = self.runs();
        let Self { slice, bytes, offsets, falls_back, tokens, trees } = self;
        let (arena, base, columns) = arenas.download(&device_columns(&trees, &tokens), &runs, bytes, worker)?;
        let done = worker.record_event(StreamKind::Download)?;
        let mut offset = base;
        let results = &slice.batch.results[slice.range.clone()];
        let sizes = offsets.windows(2).zip(&falls_back).zip(results).map(|((pair, falls_back), result)| {
            if *falls_back { result.wait().result.counts } else { pair[1].minus(pair[0]) }
        });
        let ends = sizes.map(|size| {
            offset = offset.plus(size);
            offset
        });
        let offsets = std::iter::once(base).chain(ends).collect();
        Ok(DownloadingSlice {
            slice: DownloadedSlice { slice, offsets, arena, columns },
            done,
            _columns: (tokens, trees),
        })
    }

    /// The slice's rows in as few runs as possible.
    fn runs(&self) -> Vec<RowRun<'a>> {
        let mut runs: Vec<RowRun<'a>> = vec![];
        for (index, (falls_back, result)) in self.falls_back.iter().zip(self.results()).enumerate() {
            match runs.last_mut() {
                _ if *falls_back => runs.push(RowRun::Host(result.wait())),
                Some(RowRun::Device(_, end)) => *end = self.offsets[index + 1],
                _ => runs.push(RowRun::Device(self.offsets[index], self.offsets[index + 1])),
            }
        }
        runs
    }
}

fn device_columns<'a>(trees: &'a Trees, tokens: &'a Tokens) -> Columns<&'a Buffer<u8>, &'a Buffer<u32>> {
    Columns {
        kinds: &trees.kinds,
        fields: &trees.fields,
        parents: &trees.parents,
        starts: &trees.starts,
        ends: &trees.ends,
        aux: &trees.aux,
        name_starts: &tokens.name_starts,
        name_ends: &tokens.name_ends,
        value_tags: &trees.value_tags,
        value_starts: &trees.value_starts,
        value_ends: &trees.value_ends,
        extra: &trees.extra,
        line_starts: &tokens.line_starts,
        token_kinds: &tokens.kinds,
        token_starts: &tokens.starts,
        token_ends: &tokens.ends,
        comment_starts: &tokens.comment_starts,
        comment_ends: &tokens.comment_ends,
    }
}

impl<'a> DownloadingSlice<'a> {
    /// Waits for the columns.
    pub(super) fn wait(self) -> Result<DownloadedSlice<'a>, OpError> {
        self.done.wait()?;
        Ok(self.slice)
    }
}

impl DownloadedSlice<'_> {
    /// The sources of the batch that are in the slice.
    pub(super) fn range(&self) -> Range<usize> {
        self.slice.range.clone()
    }

    /// The rows before the first of some sources, and after the last.
    fn rows(&self, sources: Range<usize>) -> (Counts, Counts) {
        let offset = |source: usize| self.offsets[source - self.slice.range.start];
        (offset(sources.start), offset(sources.end))
    }

    /// The columns of consecutive sources.
    pub(super) fn columns<'l>(&self, sources: Range<usize>, arenas: &'l [Arc<HostBuffer>]) -> ColumnSlices<'l> {
        let (from, to) = self.rows(sources);
        let arena = &arenas[self.arena];
        self.columns.map(
            |table, region| ColumnSlice::Pinned(arena, region.part(table.rows(from, to))),
            |table, region| ColumnSlice::Pinned(arena, region.part(table.rows(from, to))),
        )
    }

    /// The result of a source that the device finished.
    pub(super) fn result(&self, source: usize, wanted: Outputs, arenas: &[Arc<HostBuffer>]) -> SourceResult {
        let (from, to) = self.rows(source..source + 1);
        let text = self.slice.texts[source - self.slice.range.start].as_ref();
        SourceResult {
            diagnostic: None,
            counts: Counts::between(from, to, wanted),
            text: text.and_then(reencoded_text),
            outline: if wanted.outline { self.outline(source, text.map_or("", |text| text), arenas) } else { vec![] },
        }
    }

    fn outline(&self, source: usize, text: &str, arenas: &[Arc<HostBuffer>]) -> Vec<Located<Item>> {
        let columns = self.columns(source..source + 1, arenas).map(|_, bytes| bytes.get(), |_, words| words.get());
        let text = text.as_bytes();
        let tree = Tree {
            text,
            extra: columns.extra,
            kinds: columns.kinds,
            fields: columns.fields,
            parents: columns.parents,
            starts: columns.starts,
            ends: columns.ends,
            aux: columns.aux,
            name_starts: columns.name_starts,
            name_ends: columns.name_ends,
            value_tags: columns.value_tags,
        };
        Locate { text, line_starts: columns.line_starts }.outline(&tree)
    }
}

/// Rows allocated beyond the expected number, in sixteenths of it.
const SLACK: u64 = 8;
/// Rows allocated per 64 bytes of source: hardly any code has more.
const TYPICAL_ROWS: Counts = Counts { nodes: 8, names: 4, values: 2, extra: 4, lines: 3, tokens: 11, comments: 1 };
/// Token kinds that one thread renumbers.
const KINDS_PER_THREAD: usize = 1 << 20;

/// The columns of an arena.
type ColumnRegions = Columns<Region<u8>, Region<u32>>;

/// Consecutive rows of each column.
enum RowRun<'a> {
    /// Between two offsets on the device.
    Device(Counts, Counts),
    /// The CPU's result of a source.
    Host(&'a ParsedSource),
}

impl RowRun<'_> {
    fn rows(&self) -> Counts {
        match self {
            Self::Device(from, to) => to.minus(*from),
            Self::Host(parsed) => parsed.result.counts,
        }
    }
}

/// The arenas of a batch.
#[derive(Default)]
pub(super) struct Arenas<'a> {
    all: Vec<Arena<'a>>,
    /// Bytes of source of the group that are not yet in an arena.
    expected_bytes: usize,
}

impl<'a> Arenas<'a> {
    /// Starts a group of slices whose columns are to be contiguous. `bytes`: of source, of the group.
    pub(super) fn start_group(&mut self, bytes: usize) {
        self.expected_bytes = bytes;
        if let Some(last) = self.all.last_mut() {
            last.capacity = last.used;
        }
    }

    /// Starts to download a slice's columns; returns the arena, the rows before the slice, and the arena's columns. `bytes`:
    /// of source, of the slice.
    fn download(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        runs: &[RowRun<'a>],
        bytes: usize,
        worker: &Worker,
    ) -> Result<(usize, Counts, ColumnRegions), OpError> {
        let rows = runs.iter().fold(Counts::default(), |sum, run| sum.plus(run.rows()));
        if !self.all.last().is_some_and(|arena| arena.fits(rows)) {
            let capacity = capacity_for(rows, bytes, self.expected_bytes);
            self.all.push(Arena::new(capacity, worker)?);
        }
        self.expected_bytes = self.expected_bytes.saturating_sub(bytes);
        let number = self.all.len() - 1;
        let arena = &mut self.all[number];
        let base = arena.used;
        arena.download(columns, runs, worker)?;
        Ok((number, base, arena.columns))
    }

    /// Copies the CPU's results to their regions.
    pub(super) fn write_results(&mut self, worker: &Worker) {
        for arena in &mut self.all {
            arena.download.write(std::mem::take(&mut arena.results), worker.device().memcpy_pool());
        }
    }

    /// Waits for all downloads.
    pub(super) fn wait(self, worker: &Worker) -> Result<Vec<Arc<HostBuffer>>, OpError> {
        self.all.into_iter().map(|arena| arena.wait(worker).map(Arc::new)).collect()
    }
}

/// The capacity for the rest of a group: as many rows per byte as its first slice has, plus slack.
fn capacity_for(rows: Counts, bytes: usize, expected_bytes: usize) -> Counts {
    if expected_bytes <= bytes {
        return rows;
    }
    let expected_bytes = expected_bytes as u64;
    let scale = |rows: u32, typical: u32| {
        let likely = u64::from(rows) * expected_bytes / bytes.max(1) as u64;
        let capacity = (likely + likely * SLACK / 16 + 1024).max(expected_bytes * u64::from(typical) / 64);
        // A table that is not wanted stays empty.
        if rows == 0 { 0 } else { u32::try_from(capacity).unwrap_or(u32::MAX) }
    };
    Counts {
        nodes: scale(rows.nodes, TYPICAL_ROWS.nodes),
        names: scale(rows.names, TYPICAL_ROWS.names),
        values: scale(rows.values, TYPICAL_ROWS.values),
        extra: scale(rows.extra, TYPICAL_ROWS.extra),
        lines: scale(rows.lines, TYPICAL_ROWS.lines),
        tokens: scale(rows.tokens, TYPICAL_ROWS.tokens),
        comments: scale(rows.comments, TYPICAL_ROWS.comments),
    }
}

/// Pinned memory for rows of each column.
struct Arena<'a> {
    download: PendingDownload,
    columns: ColumnRegions,
    capacity: Counts,
    used: Counts,
    /// Columns of the CPU's results, with their offsets in bytes.
    results: Vec<(usize, &'a [u8])>,
    /// Tokens whose kinds have the parser's numbers.
    renumber: Vec<Range<usize>>,
}

impl<'a> Arena<'a> {
    fn new(capacity: Counts, worker: &Worker) -> Result<Self, OpError> {
        let layout = RefCell::new(Layout::default());
        let columns = Columns::<(), ()>::default().map(
            |table, ()| layout.borrow_mut().add(table.of(capacity) as usize),
            |table, ()| layout.borrow_mut().add(table.of(capacity) as usize),
        );
        Ok(Self {
            download: worker.pending_download(&layout.into_inner())?,
            columns,
            capacity,
            used: Counts::default(),
            results: vec![],
            renumber: vec![],
        })
    }

    fn fits(&self, rows: Counts) -> bool {
        Table::ALL.iter().all(|table| table.of(rows) <= table.of(self.capacity) - table.of(self.used))
    }

    fn download(
        &mut self,
        columns: &Columns<&Buffer<u8>, &Buffer<u32>>,
        runs: &[RowRun<'a>],
        worker: &Worker,
    ) -> Result<(), OpError> {
        let plan = RefCell::new(DownloadPlan::default());
        let results = RefCell::new(std::mem::take(&mut self.results));
        for run in runs {
            let before = self.used;
            let after = self.used.plus(run.rows());
            let regions = self.columns.map(
                |table, region| region.part(table.rows(before, after)),
                |table, region| region.part(table.rows(before, after)),
            );
            self.used = after;
            match run {
                RowRun::Device(from, _) => {
                    self.renumber.push(Table::Tokens.rows(before, after));
                    let start = |table: Table| table.of(*from) as usize;
                    columns.zip(regions).map(
                        |table, (from, to)| plan.borrow_mut().add(from, start(table), to),
                        |table, (from, to)| plan.borrow_mut().add(from, start(table), to),
                    );
                }
                RowRun::Host(parsed) => {
                    parsed.columns().zip(regions).map(
                        |_, (from, to)| results.borrow_mut().push(column_bytes(from.get(), to)),
                        |_, (from, to)| results.borrow_mut().push(column_bytes(from.get(), to)),
                    );
                }
            }
        }
        self.results = results.into_inner();
        worker.download_async(&plan.into_inner(), &mut self.download, StreamKind::Download)
    }

    /// Waits for the columns, and converts the kinds of tokens to public numbers.
    fn wait(self, worker: &Worker) -> Result<HostBuffer, OpError> {
        let mut host = self.download.wait()?;
        for tokens in self.renumber {
            let kinds = host.get_mut(self.columns.token_kinds.part(tokens));
            let renumber = |kinds: &mut [u8]| kinds.iter_mut().for_each(|kind| *kind = token_kind(*kind));
            if kinds.len() <= KINDS_PER_THREAD {
                renumber(kinds);
            } else {
                worker.device().cpu().install(|| kinds.par_chunks_mut(KINDS_PER_THREAD).for_each(renumber));
            }
        }
        Ok(host)
    }
}

/// The wanted bytes of a column of the CPU's, and their offset.
fn column_bytes<T: Pod>(column: &[T], to: Region<T>) -> (usize, &[u8]) {
    (to.bytes().start, bytemuck::cast_slice(&column[..to.len()]))
}
