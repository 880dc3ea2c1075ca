//! The third stage: tokens to trees, in launches that do not wait for the device.
//!
//! Long brackets are split into chunks; lines and chunks are sorted by length and parsed by the LR tables, one thread each, and
//! split lines are merged again. Then each line finds its place among the statements, nodes are checked and written to the
//! columns, and literals get their values. A source with an error, or with anything else that the device cannot finish exactly,
//! is marked with a reason and falls back. `cu/parse/` describes the kernels.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use accelerd_parser::tables as grammar;
use bytemuck::{Pod, Zeroable};

use super::{
    kernels::{
        BLOCK_LINES, COUNTERS, LINE_THREADS, LONG_KEYS, LR_STACK_BYTES, LR_THREADS, Literals, LrParams, MAX_RANGES,
        NODES_LINES, NodeColumns, SCAN_THREADS, SHORT_KEYS, SHORT_TOKENS, SLICE_BITS, SLOTS_PER_TOKEN, SPLIT_THREADS,
        Segment, TREE_BLOCKS, TREE_EXTRA, TREE_EXTRA_REDUCE, TREE_EXTRA_SCAN, TREE_LINES, TREE_LITERALS,
        TREE_LONG_STRINGS, TREE_LR, TREE_LR_SHARED, TREE_MERGE, TREE_NODES, TREE_NODES_SPLIT, TREE_ROWS_REDUCE,
        TREE_ROWS_SCAN, TREE_SEGMENTS, TREE_SORT_COUNT, TREE_SORT_SCAN, TREE_SORT_SCATTER, TREE_SOURCES, TREE_SPLIT,
        TREE_SUMMARY, TREE_THREADS, TableOffsets, TreeBatch,
    },
    pack::to_u32,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, DevicePtr, DownloadPlan, Grid, Kernel, Layout, PendingDownload, Region, StreamKind, Worker},
};

/// The lexer's output on the device, the sources concatenated; the head of `TreeBatch`.
///
/// Tokens and names are numbered per source, as are tokens in the payloads of replacement fields. Entry i of `*_bases` counts
/// what precedes source i, and there is one entry past the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexed {
    /// The sources as UTF-8.
    pub(super) text: DevicePtr<u8>,
    pub(super) source_starts: DevicePtr<u32>,
    pub(super) source_lens: DevicePtr<u32>,
    /// By source: not 0 if it falls back; its lines are then undefined.
    pub(super) flags: DevicePtr<u32>,
    pub(super) token_bases: DevicePtr<u32>,
    pub(super) logical_bases: DevicePtr<u32>,
    pub(super) name_bases: DevicePtr<u32>,
    pub(super) kinds: DevicePtr<u8>,
    pub(super) starts: DevicePtr<u32>,
    pub(super) ends: DevicePtr<u32>,
    pub(super) payloads: DevicePtr<u32>,
    pub(super) logical_firsts: DevicePtr<u32>,
    pub(super) logical_ends: DevicePtr<u32>,
    pub(super) logical_columns: DevicePtr<u32>,
    pub(super) logical_alternates: DevicePtr<u32>,
    pub(super) name_starts: DevicePtr<u32>,
    pub(super) name_ends: DevicePtr<u32>,
    /// The number of sources.
    pub(super) sources: usize,
    /// Upper bounds; the device knows the counts.
    pub(super) text_cap: usize,
    pub(super) token_cap: usize,
    pub(super) logical_cap: usize,
}

/// By source: what precedes it in the columns, and its fallback reasons, or 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct Summary {
    pub(super) nodes: u32,
    pub(super) values: u32,
    pub(super) extra: u32,
    pub(super) reasons: u32,
}

/// The trees of a batch on the device.
#[derive(Debug)]
pub(super) struct Trees {
    /// By source, and one past the last.
    pub(super) summary: Buffer<Summary>,
    pub(super) kinds: Buffer<u8>,
    pub(super) fields: Buffer<u8>,
    pub(super) parents: Buffer<u32>,
    pub(super) starts: Buffer<u32>,
    pub(super) ends: Buffer<u32>,
    pub(super) aux: Buffer<u32>,
    pub(super) value_tags: Buffer<u8>,
    pub(super) value_starts: Buffer<u32>,
    pub(super) value_ends: Buffer<u32>,
    pub(super) extra: Buffer<u8>,
    early_reasons: Option<EarlyReasons>,
}

/// Fallback reasons, as far as they are known when lines are split: a download in progress.
#[derive(Debug)]
struct EarlyReasons {
    download: PendingDownload,
    reasons: Region<u32>,
}

impl Trees {
    /// Fallback reasons by source, as far as they are known before the trees are finished; empty for small slices. Waits for
    /// the kernels that find them.
    pub(super) fn early_reasons(&mut self) -> Result<Vec<u32>, OpError> {
        let Some(EarlyReasons { download, reasons }) = self.early_reasons.take() else { return Ok(vec![]) };
        Ok(download.wait()?.get(reasons).to_vec())
    }

    fn new(lexed: &Lexed, worker: &Worker) -> Result<Self, OpError> {
        let nodes = lexed.token_cap * SLOTS_PER_TOKEN;
        let values = lexed.token_cap;
        Ok(Self {
            summary: worker.alloc(lexed.sources + 1)?,
            kinds: worker.alloc(nodes)?,
            fields: worker.alloc(nodes)?,
            parents: worker.alloc(nodes)?,
            starts: worker.alloc(nodes)?,
            ends: worker.alloc(nodes)?,
            aux: worker.alloc(nodes)?,
            value_tags: worker.alloc(values)?,
            value_starts: worker.alloc(values)?,
            value_ends: worker.alloc(values)?,
            extra: worker.alloc(lexed.text_cap + BLOCK_LINES)?,
            early_reasons: None,
        })
    }
}

/// Parses lexed sources: launches all kernels, without waiting. `versions`: the minor version of each source's grammar.
pub(super) fn trees(lexed: &Lexed, versions: &[u8], worker: &Worker) -> Result<Trees, OpError> {
    let workspace = ParseWorkspace::new(lexed, versions, worker)?;
    let trees = Trees::new(lexed, worker)?;
    let mut launch = Launch { worker, lexed, workspace, trees };
    launch.order()?;
    launch.trees.early_reasons = if lexed.text_cap < EARLY_BYTES { None } else { Some(launch.early_reasons()?) };
    launch.nodes()?;
    launch.node_columns()?;
    launch.literal_columns()?;
    Ok(launch.trees)
}

/// Tokens per segment that is allocated. A line that gets none is parsed whole, or falls back.
const TOKENS_PER_SEGMENT: usize = 16;
/// Bytes of source from which on fallback reasons are downloaded before the trees are finished.
const EARLY_BYTES: usize = 256 << 10;

/// The launches of one slice.
struct Launch<'a> {
    worker: &'a Worker,
    lexed: &'a Lexed,
    workspace: ParseWorkspace,
    trees: Trees,
}

impl Launch<'_> {
    fn launch(&self, kernel: &Kernel, grid: Grid, threads: u32, mut args: Args) -> Result<(), OpError> {
        self.worker.launch(kernel, grid, threads, 0, &mut args)
    }

    fn args(&self) -> Args {
        Args::new().value(self.batch())
    }

    fn batch(&self) -> TreeBatch {
        let lexed = self.lexed;
        let workspace = &self.workspace;
        TreeBatch {
            text: lexed.text.address(),
            source_starts: lexed.source_starts.address(),
            source_lens: lexed.source_lens.address(),
            flags: lexed.flags.address(),
            token_bases: lexed.token_bases.address(),
            logical_bases: lexed.logical_bases.address(),
            name_bases: lexed.name_bases.address(),
            kinds: lexed.kinds.address(),
            starts: lexed.starts.address(),
            ends: lexed.ends.address(),
            payloads: lexed.payloads.address(),
            logical_firsts: lexed.logical_firsts.address(),
            logical_ends: lexed.logical_ends.address(),
            logical_columns: lexed.logical_columns.address(),
            logical_alternates: lexed.logical_alternates.address(),
            name_starts: lexed.name_starts.address(),
            name_ends: lexed.name_ends.address(),
            versions: workspace.versions.ptr().address(),
            reasons: workspace.reasons.ptr().address(),
            lines: workspace.lines.ptr().address(),
            line_sources: workspace.line_sources.ptr().address(),
            columns: workspace.columns.ptr().address(),
            min_columns_32: workspace.min_columns_32.ptr().address(),
            min_columns_1024: workspace.min_columns_1024.ptr().address(),
            first_terminals: workspace.first_terminals.ptr().address(),
            records: workspace.records.ptr().address(),
            merged: workspace.merged.ptr().address(),
            spill: workspace.spill.ptr().address(),
            outcomes: workspace.outcomes.ptr().address(),
            bases: workspace.bases.ptr().address(),
            nestings: workspace.nestings.ptr().address(),
            segments: workspace.segments.ptr().address(),
            long_lines: workspace.long_lines.ptr().address(),
            counters: workspace.counters.ptr().address(),
            source_count: to_u32(lexed.sources),
            line_cap: to_u32(lexed.logical_cap),
            token_cap: to_u32(lexed.token_cap),
            segment_cap: to_u32(segment_cap(lexed)),
            segment_base: to_u32(segment_base(lexed)),
            unused: 0,
        }
    }

    /// One block per `each` lines.
    fn by_lines(&self, each: usize) -> Grid {
        Grid::x(to_u32(self.lexed.logical_cap.div_ceil(each)))
    }

    /// The grid of scans and grid-stride kernels.
    fn full_grid(&self) -> Grid {
        Grid::x((self.worker.sm_count() * 8).min(MAX_RANGES))
    }

    /// Facts of lines, split lines, and the order in which units are parsed.
    fn order(&self) -> Result<(), OpError> {
        let workspace = &self.workspace;
        self.launch(
            &TREE_SOURCES,
            Grid::x(to_u32(self.lexed.sources.div_ceil(TREE_THREADS as usize))),
            TREE_THREADS,
            self.args(),
        )?;
        self.launch(&TREE_LINES, self.by_lines(BLOCK_LINES), LINE_THREADS, self.args())?;
        self.launch(&TREE_SPLIT, self.full_grid(), SPLIT_THREADS, self.args())?;
        let items = Grid::x(to_u32(items(self.lexed).div_ceil(BLOCK_LINES)));
        self.launch(&TREE_SORT_COUNT, items, LINE_THREADS, self.args().ptr(workspace.keys.ptr()))?;
        let starts = Args::new().ptr(workspace.keys.ptr()).u32(to_u32(keys(self.lexed)));
        self.launch(&TREE_SORT_SCAN, Grid::x(1), LINE_THREADS, starts)?;
        let order = self.args().ptr(workspace.keys.ptr()).ptr(workspace.order.ptr());
        self.launch(&TREE_SORT_SCATTER, items, LINE_THREADS, order)
    }

    /// Starts to download the reasons known so far: those of sources with the longest lines, which take the CPU longest, are
    /// among them.
    fn early_reasons(&self) -> Result<EarlyReasons, OpError> {
        let mut layout = Layout::default();
        let mut plan = DownloadPlan::default();
        let reasons = layout.add(self.lexed.sources);
        plan.add(&self.workspace.reasons, 0, reasons);
        let mut download = self.worker.pending_download(&layout)?;
        self.worker.download_async(&plan, &mut download, StreamKind::Compute)?;
        Ok(EarlyReasons { download, reasons })
    }

    /// The nodes of each line, and their offsets in the columns.
    fn nodes(&self) -> Result<(), OpError> {
        let tables =
            self.worker.device().device_cache().get_or_create(0, &TABLES, || DeviceTables::new(self.worker))?;
        let workspace = &self.workspace;
        let lr = LrParams {
            batch: self.batch(),
            bytes: tables.bytes.ptr().address(),
            order: workspace.order.ptr().address(),
            count: workspace.keys.ptr_at(keys(self.lexed)).address(),
            ends: workspace.keys.ptr().address(),
            tables: tables.offsets,
        };
        let mut args = Args::new().value(lr);
        let shared = tables.offsets.bytes + LR_STACK_BYTES;
        if shared <= self.worker.shared_bytes() {
            self.worker.launch(&TREE_LR_SHARED, Grid::x(self.worker.sm_count()), LR_THREADS, shared, &mut args)?;
        } else {
            self.worker.launch(&TREE_LR, Grid::x(self.worker.sm_count()), LR_THREADS, LR_STACK_BYTES, &mut args)?;
        }
        self.launch(&TREE_SEGMENTS, self.full_grid(), TREE_THREADS, self.args())?;
        self.launch(&TREE_ROWS_REDUCE, self.full_grid(), SCAN_THREADS, self.args().ptr(workspace.sums.ptr()))?;
        self.launch(&TREE_ROWS_SCAN, self.full_grid(), SCAN_THREADS, self.args().ptr(workspace.sums.ptr()))?;
        let [nodes, tokens, sources, ..] = &workspace.values;
        self.launch(
            &TREE_MERGE,
            self.full_grid(),
            TREE_THREADS,
            self.args().ptr(nodes.ptr()).ptr(tokens.ptr()).ptr(sources.ptr()),
        )
    }

    /// Nesting of lines, then the node columns.
    fn node_columns(&self) -> Result<(), OpError> {
        let trees = &self.trees;
        let [nodes, tokens, sources, ..] = &self.workspace.values;
        let columns = NodeColumns {
            kinds: trees.kinds.ptr().address(),
            fields: trees.fields.ptr().address(),
            parents: trees.parents.ptr().address(),
            starts: trees.starts.ptr().address(),
            ends: trees.ends.ptr().address(),
            aux: trees.aux.ptr().address(),
            value_rows: nodes.ptr().address(),
            value_tokens: tokens.ptr().address(),
            value_sources: sources.ptr().address(),
        };
        self.launch(&TREE_BLOCKS, self.by_lines(TREE_THREADS as usize), TREE_THREADS, self.args())?;
        self.launch(&TREE_NODES, self.by_lines(NODES_LINES), TREE_THREADS, self.args().value(columns))?;
        self.launch(&TREE_NODES_SPLIT, self.full_grid(), TREE_THREADS, self.args().value(columns))
    }

    /// The value columns and the summary.
    fn literal_columns(&self) -> Result<(), OpError> {
        let workspace = &self.workspace;
        let trees = &self.trees;
        let [nodes, tokens, sources, sizes, bases, appending, long_texts] = &workspace.values;
        let literals = Literals {
            kinds: trees.kinds.ptr().address(),
            fields: trees.fields.ptr().address(),
            parents: trees.parents.ptr().address(),
            row_starts: trees.starts.ptr().address(),
            row_ends: trees.ends.ptr().address(),
            rows: nodes.ptr().address(),
            tokens: tokens.ptr().address(),
            sources: sources.ptr().address(),
            tags: trees.value_tags.ptr().address(),
            starts: trees.value_starts.ptr().address(),
            ends: trees.value_ends.ptr().address(),
            sizes: sizes.ptr().address(),
            bases: bases.ptr().address(),
            appending: appending.ptr().address(),
            long_texts: long_texts.ptr().address(),
            extra: trees.extra.ptr().address(),
            cap: to_u32(self.lexed.token_cap),
            extra_cap: to_u32(trees.extra.len()),
        };
        let args = || self.args().value(literals);
        self.launch(&TREE_LITERALS, self.full_grid(), TREE_THREADS, args())?;
        self.launch(&TREE_LONG_STRINGS, self.full_grid(), TREE_THREADS, args())?;
        self.launch(&TREE_EXTRA_REDUCE, self.full_grid(), SCAN_THREADS, args().ptr(workspace.sums.ptr()))?;
        self.launch(&TREE_EXTRA_SCAN, self.full_grid(), SCAN_THREADS, args().ptr(workspace.sums.ptr()))?;
        self.launch(&TREE_EXTRA, self.full_grid(), TREE_THREADS, args())?;
        let sources = Grid::x(to_u32((self.lexed.sources + 1).div_ceil(TREE_THREADS as usize)));
        self.launch(&TREE_SUMMARY, sources, TREE_THREADS, args().ptr(trees.summary.ptr()))
    }
}

/// Buffers that only the kernels use.
struct ParseWorkspace {
    versions: Buffer<u8>,
    reasons: Buffer<u32>,
    lines: Buffer<[u32; 4]>,
    line_sources: Buffer<u32>,
    columns: Buffer<u16>,
    min_columns_32: Buffer<u16>,
    min_columns_1024: Buffer<u16>,
    first_terminals: Buffer<u8>,
    records: Buffer<[u32; 4]>,
    merged: Buffer<[u32; 4]>,
    spill: Buffer<u32>,
    outcomes: Buffer<[u32; 2]>,
    bases: Buffer<[u32; 2]>,
    nestings: Buffer<[u32; 4]>,
    keys: Buffer<u32>,
    order: Buffer<u32>,
    segments: Buffer<Segment>,
    long_lines: Buffer<u32>,
    counters: Buffer<u32>,
    sums: Buffer<u64>,
    /// By value: node, token, source, size and base in `extra`; then values that append, and long strings.
    values: [Buffer<u32>; 7],
}

impl ParseWorkspace {
    fn new(lexed: &Lexed, versions: &[u8], worker: &Worker) -> Result<Self, OpError> {
        let lines = lexed.logical_cap;
        let tokens = lexed.token_cap;
        let values = || worker.alloc::<u32>(tokens + 1);
        Ok(Self {
            versions: worker.upload_new(versions)?,
            reasons: worker.alloc(lexed.sources)?,
            lines: worker.alloc(lines)?,
            line_sources: worker.alloc(lines)?,
            columns: worker.alloc(lines)?,
            min_columns_32: worker.alloc(lines.div_ceil(BLOCK_LINES) * 32)?,
            min_columns_1024: worker.alloc(lines.div_ceil(BLOCK_LINES))?,
            first_terminals: worker.alloc(lines)?,
            records: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            merged: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            spill: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            outcomes: worker.alloc(lines)?,
            bases: worker.alloc(lines + 1)?,
            nestings: worker.alloc(lines)?,
            keys: worker.alloc_zeroed(keys(lexed) + 1)?,
            order: worker.alloc(lines + segment_cap(lexed))?,
            segments: worker.alloc(segment_cap(lexed))?,
            long_lines: worker.alloc(tokens / SHORT_TOKENS + 1)?,
            counters: worker.alloc_zeroed(COUNTERS)?,
            sums: worker.alloc(MAX_RANGES as usize)?,
            values: [values()?, values()?, values()?, values()?, values()?, values()?, values()?],
        })
    }
}

fn segment_cap(lexed: &Lexed) -> usize {
    lexed.token_cap / TOKENS_PER_SEGMENT + BLOCK_LINES
}

/// The first number of units of split lines.
fn segment_base(lexed: &Lexed) -> usize {
    lexed.logical_cap.next_multiple_of(1 << SLICE_BITS)
}

/// Lines, and segments of split ones.
fn items(lexed: &Lexed) -> usize {
    segment_base(lexed) + segment_cap(lexed)
}

fn keys(lexed: &Lexed) -> usize {
    LONG_KEYS + ((items(lexed) >> SLICE_BITS) + 1) * SHORT_KEYS
}

static TABLES: LazyLock<Arc<Tables>> = LazyLock::new(|| Arc::new(Tables::pack()));

/// The tables on a device.
#[derive(Debug)]
struct DeviceTables {
    bytes: Buffer<u8>,
    offsets: TableOffsets,
}

impl DeviceTables {
    fn new(worker: &Worker) -> Result<Self, OpError> {
        let tables = Self { bytes: worker.upload_new(&TABLES.bytes)?, offsets: TABLES.offsets };
        worker.synchronize()?;
        Ok(tables)
    }
}

/// The grammar's tables, packed to fit shared memory.
#[derive(Debug)]
struct Tables {
    offsets: TableOffsets,
    bytes: Vec<u8>,
}

impl Tables {
    fn pack() -> Self {
        let mut bytes = Vec::new();
        let (action_starts, actions) = deduplicate_rows(&grammar::ACTIONS, grammar::TERMINALS);
        let (goto_starts, gotos) = overlap_rows();
        let lookahead_columns: Vec<u8> =
            grammar::LOOKAHEAD_COLUMNS.iter().map(|&column| column.try_into().expect("few")).collect();
        let labels: Vec<[u8; 4]> =
            grammar::LABELS.iter().map(|&[kind, matching, other]| [kind, matching, other, 0]).collect();
        let mut offsets = TableOffsets {
            productions: append(&mut bytes, &grammar::PRODUCTIONS),
            actions: append(&mut bytes, &actions),
            lookahead_gotos: append(&mut bytes, &grammar::LOOKAHEAD_GOTOS),
            gotos: append(&mut bytes, &gotos),
            action_rows: append(&mut bytes, &action_starts),
            goto_rows: append(&mut bytes, &goto_starts),
            lookahead_columns: append(&mut bytes, &lookahead_columns),
            labels: append(&mut bytes, &labels),
            bytes: 0,
            end: to_u32(grammar::TERMINALS - 1),
            lookahead_width: to_u32(grammar::LOOKAHEAD_WIDTH),
            unused: 0,
        };
        offsets.bytes = to_u32(bytes.len());
        Self { offsets, bytes }
    }
}

fn to_u16(number: usize) -> u16 {
    u16::try_from(number).expect("a table has fewer cells")
}

/// Stores equal rows once; returns the start of each row, and the cells.
fn deduplicate_rows(table: &[u16], width: usize) -> (Vec<u16>, Vec<u16>) {
    let mut known: HashMap<&[u16], u16> = HashMap::new();
    let mut cells = Vec::new();
    let mut start_of = |row| {
        *known.entry(row).or_insert_with(|| {
            let index = to_u16(cells.len());
            cells.extend_from_slice(row);
            index
        })
    };
    (table.chunks(width).map(&mut start_of).collect(), cells)
}

/// `GOTOS` with overlapping rows (comb compression), without the cells that no parse reads. Returns the start of each state's
/// row, and the cells.
fn overlap_rows() -> (Vec<u16>, Vec<u16>) {
    let width = grammar::GOTO_WIDTH;
    // Something can follow an expected rule, so error cells are never read.
    let read = |row: &[u16]| row.iter().copied().enumerate().filter(|&(_, cell)| cell != grammar::ERROR).collect();
    let rows: Vec<Vec<(usize, u16)>> = grammar::GOTOS.chunks(width).map(read).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| Reverse(rows[row].len()));
    let mut cells: Vec<Option<u16>> = Vec::new();
    let mut starts = vec![0; rows.len()];
    for row in order {
        let fits =
            |index: usize| rows[row].iter().all(|&(column, _)| cells.get(index + column).copied().flatten().is_none());
        let index = (0..=cells.len()).find(|&index| fits(index)).expect("a row fits after the last cell");
        cells.resize(cells.len().max(index + width), None);
        for &(column, cell) in &rows[row] {
            cells[index + column] = Some(cell);
        }
        starts[row] = to_u16(index);
    }
    let starts = grammar::GOTO_ROWS.iter().map(|&index| starts[usize::from(index) / width]).collect();
    (starts, cells.into_iter().map(Option::unwrap_or_default).collect())
}

/// Appends a table at a multiple of 16; returns its offset.
fn append<T: bytemuck::NoUninit>(bytes: &mut Vec<u8>, table: &[T]) -> u32 {
    let offset = to_u32(bytes.len());
    bytes.extend_from_slice(bytemuck::cast_slice(table));
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_fit_the_shared_memory_of_a_hopper() {
        let tables = Tables::pack();
        assert!(tables.bytes.len() < 200 << 10, "{} bytes", tables.bytes.len());
        const { assert!(grammar::STATES <= 0x200, "states have nine bits in the kernel's symbols") };
    }
}
