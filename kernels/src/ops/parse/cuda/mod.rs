//! Parsing on a GPU: a pipeline over slices of a batch. A slice is packed into pinned memory (`pack`), lexed (`lex`),
//! parsed (`parse`) and downloaded (`download`); what the device cannot finish exactly falls back to the CPU
//! (`fallback`).
//!
//! While the device works on slices, the host packs the following ones, and the columns of the preceding ones come back. Two
//! slices are in the kernels at once, on a stream each: while the last long lines of one occupy few SMs, the other uses the rest.

mod download;
mod fallback;
mod fallback_reason;
pub mod host;
mod kernels;
mod lex;
mod pack;
mod parse;

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, mpsc::Receiver},
};

use rayon::prelude::*;

use download::{Arenas, DownloadedSlice, DownloadingSlice, ParsedSlice};
use fallback::{Batch, BatchSource, Fallback};
pub use fallback_reason::LexerReason;
pub(crate) use kernels::MODULES;
pub use lex::{Tokens, lex};
pub use pack::Sources;
use pack::{PackedSlice, SlicePlan, SliceSources, pack, pack_ahead, plan_slices};
use parse::{Lexed, Summary, Trees, trees};

use super::{Counts, Outputs, ParseRequest, ParseResponse, SourceResult, columns::Table, gather::gather};
use crate::{
    OpError,
    cpu::slices::Schedule,
    cuda::{DownloadPlan, HostBuffer, Layout, PendingDownload, PinnedPool, Region, StreamKind, Worker},
};

/// Slices that are lexed or parsed at once: two streams work, and one more slice waits.
const MAX_IN_KERNELS: usize = 3;
/// Slices that wait for the CPU's results; each keeps its device memory.
const MAX_PARSED: usize = 3;
/// Slices whose columns are downloaded at once.
const MAX_DOWNLOADING: usize = 3;
/// Bytes of source below which one thread builds the responses: waking others takes longer.
const MIN_PARALLEL_BYTES: usize = 256 << 10;

/// Parses every source of every request.
pub(super) fn run(requests: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let device = &**worker.device();
    let cpu = worker.device().cpu();
    let sources = requests.iter().flat_map(|&request| BatchSource::all(request));
    let batch = Batch::new(sources.collect(), device.fallbacks(), cpu.threads());
    let wanted = requests.iter().fold(Outputs::default(), |all, request| union(all, request.outputs));
    let (slices, arenas) = cpu.scope(|scope| {
        let fallback = Fallback { batch: &batch, scope };
        fallback.prefilter();
        let plan = plan_slices(requests);
        let pipeline = Pipeline::new(&plan, wanted, worker);
        let pack = |range: Range<usize>| {
            let is_last = range.end == batch.sources.len();
            let packed = pack(range, device, fallback);
            // Until now packing had priority, because the device waits for it.
            if is_last {
                fallback.use_all_threads();
            }
            packed
        };
        pack_ahead(&plan, pack, |packed| pipeline.run(&packed, fallback))
    })?;
    let bytes: usize = batch.sources.iter().map(|source| source.bytes.len()).sum();
    let finished = FinishedBatch { batch: &batch, slices, arenas, pool: device.pinned() };
    let respond = || finished.responses(requests);
    let responses = if bytes < MIN_PARALLEL_BYTES { respond() } else { cpu.install(respond) }?;
    // Freeing the CPU's results takes a while, for which no caller should wait.
    let Batch { results, .. } = batch;
    cpu.spawn(move || drop(results));
    Ok(responses)
}

fn union(one: Outputs, other: Outputs) -> Outputs {
    Outputs {
        // An outline is made from the tree.
        tree: one.tree || other.tree || other.outline,
        tokens: one.tokens || other.tokens,
        comments: one.comments || other.comments,
        outline: one.outline || other.outline,
        line_starts: one.line_starts || other.line_starts,
    }
}

/// Slices in progress, by stage.
struct Pipeline<'a> {
    wanted: Outputs,
    worker: &'a Worker,
    /// By slice that is not yet downloading: `SlicePlan::group_bytes`.
    groups: VecDeque<Option<usize>>,
    started: usize,
    lexing: VecDeque<LexingSlice<'a>>,
    parsing: VecDeque<ParsingSlice<'a>>,
    parsed: VecDeque<ParsedSlice<'a>>,
    downloading: VecDeque<DownloadingSlice<'a>>,
    downloaded: Vec<DownloadedSlice<'a>>,
    arenas: Arenas<'a>,
}

impl<'a> Pipeline<'a> {
    fn new(plan: &[SlicePlan], wanted: Outputs, worker: &'a Worker) -> Self {
        Self {
            wanted,
            worker,
            groups: plan.iter().map(|slice| slice.group_bytes).collect(),
            started: 0,
            lexing: VecDeque::new(),
            parsing: VecDeque::new(),
            parsed: VecDeque::new(),
            downloading: VecDeque::new(),
            downloaded: vec![],
            arenas: Arenas::default(),
        }
    }

    /// Takes all slices through all stages. Returns them with the arenas of their columns.
    fn run(
        mut self,
        packed: &Receiver<Result<PackedSlice<'a>, OpError>>,
        fallback: Fallback<'_, 'a>,
    ) -> Result<(Vec<DownloadedSlice<'a>>, Vec<Arc<HostBuffer>>), OpError> {
        while self.start(packed)? {
            self.step(fallback)?;
        }
        self.start_downloads(0)?;
        self.arenas.write_results(self.worker);
        self.finish_downloads(0)?;
        Ok((self.downloaded, self.arenas.wait(self.worker)?))
    }

    /// Launches the lexer for packed slices and starts downloads; waits for a packed slice only if a stream would be idle.
    /// Returns whether any slice is in the kernels.
    fn start(&mut self, packed: &Receiver<Result<PackedSlice<'a>, OpError>>) -> Result<bool, OpError> {
        while self.in_kernels() < MAX_IN_KERNELS {
            let Ok(next) = packed.try_recv() else { break };
            self.lex(next?)?;
        }
        self.start_downloads(MAX_PARSED)?;
        self.finish_downloads(MAX_DOWNLOADING)?;
        while self.in_kernels() < 2 {
            let Ok(next) = packed.recv() else { break };
            self.lex(next?)?;
        }
        Ok(self.in_kernels() > 0)
    }

    fn lex(&mut self, packed: PackedSlice<'a>) -> Result<(), OpError> {
        let worker = if self.started.is_multiple_of(2) { self.worker } else { self.worker.second_stream()? };
        self.lexing.push_back(LexingSlice::start(packed, worker)?);
        self.started += 1;
        Ok(())
    }

    fn in_kernels(&self) -> usize {
        self.lexing.len() + self.parsing.len()
    }

    /// Launches the parser for the first slice in the lexer, and waits for the first one in the parser unless it is the only
    /// one there while others are lexed.
    fn step(&mut self, fallback: Fallback<'_, 'a>) -> Result<(), OpError> {
        if let Some(first) = self.lexing.pop_front() {
            let mut parsing = first.parse(self.wanted)?;
            parsing.submit_early(fallback)?;
            self.parsing.push_back(parsing);
        }
        if self.parsing.len() < 2 && !self.lexing.is_empty() {
            return Ok(());
        }
        if let Some(first) = self.parsing.pop_front() {
            self.parsed.push_back(first.wait(self.wanted, fallback)?);
            self.worker.preemption_point()?;
        }
        Ok(())
    }

    /// Starts to download slices, in order: those that the CPU has finished, and others while more than `max` are parsed.
    fn start_downloads(&mut self, max: usize) -> Result<(), OpError> {
        while self.parsed.len() > max || self.parsed.front().is_some_and(ParsedSlice::is_complete) {
            let Some(first) = self.parsed.pop_front() else { break };
            if let Some(bytes) = self.groups.pop_front().flatten() {
                self.arenas.start_group(bytes);
            }
            self.downloading.push_back(first.download(&mut self.arenas, self.worker)?);
        }
        Ok(())
    }

    /// Waits for downloads until at most `max` are in progress.
    fn finish_downloads(&mut self, max: usize) -> Result<(), OpError> {
        while self.downloading.len() > max {
            let first = self.downloading.pop_front().map(DownloadingSlice::wait).transpose()?;
            self.downloaded.extend(first);
        }
        Ok(())
    }
}

/// A slice in the lexer.
struct LexingSlice<'a> {
    slice: SliceSources<'a>,
    worker: &'a Worker,
    sources: Sources,
    lexing: lex::Lexing,
}

impl<'a> LexingSlice<'a> {
    fn start(PackedSlice { slice, packed }: PackedSlice<'a>, worker: &'a Worker) -> Result<Self, OpError> {
        let sources = packed.upload(worker)?;
        Ok(Self { lexing: lex::Lexing::start(&sources, worker)?, slice, worker, sources })
    }

    /// Waits for the tokens, and launches the parser and the download of its summary.
    fn parse(self, wanted: Outputs) -> Result<ParsingSlice<'a>, OpError> {
        let Self { slice, worker, sources, lexing } = self;
        let tokens = lexing.finish(&sources, worker)?;
        let versions: Vec<u8> = slice.sources().iter().map(|source| source.options.feature_version).collect();
        let trees = trees(&lexed(&sources, &tokens), &versions, worker)?;
        let mut layout = Layout::default();
        let summary = layout.add(trees.summary.len());
        let mut base = |table: Table| table.wanted(wanted).then(|| layout.add(slice.texts.len() + 1));
        let bases = LexerBases {
            lines: base(Table::Lines),
            names: base(Table::Names),
            tokens: base(Table::Tokens),
            comments: base(Table::Comments),
        };
        let mut plan = DownloadPlan::default();
        plan.add(&trees.summary, 0, summary);
        let pairs = [
            (&tokens.line_bases, bases.lines),
            (&tokens.name_bases, bases.names),
            (&tokens.token_bases, bases.tokens),
            (&tokens.comment_bases, bases.comments),
        ];
        pairs.into_iter().filter_map(|(from, to)| Some((from, to?))).for_each(|(from, to)| plan.add(from, 0, to));
        let mut download = worker.pending_download(&layout)?;
        worker.download_async(&plan, &mut download, StreamKind::Compute)?;
        Ok(ParsingSlice { slice, sources, tokens, trees, download, summary, bases })
    }
}

/// The lexer's output as the parser takes it.
fn lexed(sources: &Sources, tokens: &Tokens) -> Lexed {
    Lexed {
        text: sources.text.ptr(),
        source_starts: sources.starts.ptr(),
        source_lens: sources.lens.ptr(),
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
        sources: sources.count(),
        text_cap: sources.bytes(),
        token_cap: tokens.token_count,
        logical_cap: tokens.logical_count,
    }
}

/// A slice in the parser.
struct ParsingSlice<'a> {
    slice: SliceSources<'a>,
    sources: Sources,
    tokens: Tokens,
    trees: Trees,
    download: PendingDownload,
    summary: Region<Summary>,
    bases: LexerBases,
}

/// The downloaded bases of the lexer's tables; none for tables that are not wanted.
struct LexerBases {
    lines: Option<Region<u32>>,
    names: Option<Region<u32>>,
    tokens: Option<Region<u32>>,
    comments: Option<Region<u32>>,
}

impl<'a> ParsingSlice<'a> {
    /// Submits the sources that are known to fall back before the trees are finished.
    fn submit_early(&mut self, fallback: Fallback<'_, 'a>) -> Result<(), OpError> {
        let reasons = self.trees.early_reasons()?;
        self.slice.submit(reasons.into_iter(), fallback);
        Ok(())
    }

    /// Waits for the trees, and submits the other sources that fall back.
    fn wait(self, wanted: Outputs, fallback: Fallback<'_, 'a>) -> Result<ParsedSlice<'a>, OpError> {
        let Self { slice, sources, tokens, trees, download, summary, bases } = self;
        let host = download.wait()?;
        let summary = host.get(summary);
        slice.submit(summary.iter().map(|one| one.reasons), fallback);
        let falls_back = slice.range.clone().map(|source| slice.batch.falls_back(source)).collect();
        let offsets = bases.offsets(&host, if wanted.tree { Some(summary) } else { None }, slice.texts.len());
        Ok(ParsedSlice { slice, bytes: sources.bytes(), offsets, falls_back, tokens, trees })
    }
}

impl LexerBases {
    /// By source, and one past the last: the rows before it.
    fn offsets(&self, host: &HostBuffer, summary: Option<&[Summary]>, sources: usize) -> Vec<Counts> {
        let base = |column: Option<Region<u32>>, index: usize| column.map_or(0, |region| host.get(region)[index]);
        let counts = |index: usize| {
            let Summary { nodes, values, extra, .. } = summary.map_or_else(Summary::default, |summary| summary[index]);
            Counts {
                nodes,
                names: base(self.names, index),
                values,
                extra,
                lines: base(self.lines, index),
                tokens: base(self.tokens, index),
                comments: base(self.comments, index),
            }
        };
        (0..=sources).map(counts).collect()
    }
}

/// A batch with all slices downloaded.
struct FinishedBatch<'a> {
    batch: &'a Batch<'a>,
    slices: Vec<DownloadedSlice<'a>>,
    arenas: Vec<Arc<HostBuffer>>,
    pool: &'a Arc<PinnedPool>,
}

impl FinishedBatch<'_> {
    fn responses(&self, requests: &[&ParseRequest]) -> Result<Vec<ParseResponse>, OpError> {
        let mut first = 0;
        let response = |request: &&ParseRequest| {
            let range = first..first + request.sources.len();
            first = range.end;
            self.response(range, request.outputs)
        };
        requests.iter().map(response).collect()
    }

    /// The response to the request with a range of the batch's sources.
    fn response(&self, range: Range<usize>, wanted: Outputs) -> Result<ParseResponse, OpError> {
        let result = |source: usize| self.result(source, wanted);
        let bytes: usize = self.batch.sources[range.clone()].iter().map(|source| source.bytes.len()).sum();
        let results = if wanted.outline && bytes >= MIN_PARALLEL_BYTES {
            range.clone().into_par_iter().map(result).collect()
        } else {
            range.clone().map(result).collect()
        };
        let columns = self.slices.iter().filter_map(|slice| {
            let own = slice.range();
            let sources = own.start.max(range.start)..own.end.min(range.end);
            (!sources.is_empty()).then(|| slice.columns(sources, &self.arenas))
        });
        let columns = gather(columns, wanted, Some(self.pool), Schedule::Slice)?;
        Ok(ParseResponse { results, columns })
    }

    fn result(&self, source: usize, wanted: Outputs) -> SourceResult {
        if let Some(parsed) = self.batch.results[source].get() {
            return parsed.result.clone();
        }
        let slice = &self.slices[self.slices.partition_point(|slice| slice.range().end <= source)];
        slice.result(source, wanted, &self.arenas)
    }
}
