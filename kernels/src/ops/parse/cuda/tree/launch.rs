//! Tokens to trees: the launches, in order, without waiting for the device in between.

use std::sync::{Arc, LazyLock};

use bytemuck::{Pod, Zeroable};

use super::kernels::{
    BLOCKS, COUNT, CUT, EXTRA, EXTRA_SPREAD, EXTRA_SUM, LINES, LR, LR_SHARED, MERGE, ORDER, PIECES, ROWS, ROWS_CUT,
    ROWS_SPREAD, ROWS_SUM, SOURCES, STARTS, SUMMARY, TEXTS, VALUES,
};
use super::lexed::Lexed;
use super::tables::{Places, Tables};
use crate::{
    OpError,
    cuda::{Args, Buffer, Grid, Kernel, Landing, Layout, On, Order, Place, Worker},
};

/// Slots of nodes that each token gives its line; mirrors `SLOTS_PER_TOKEN`.
const SLOTS_PER_TOKEN: usize = 2;
/// Lines of a block of most kernels that go by lines.
const BLOCK_LINES: usize = 1024;
/// Words of a piece of a cut line; mirrors `Stretch` in `cu/parse_tree.cuh`.
const PIECE_WORDS: usize = 20;
/// Tokens that there is room for a piece for. A line that finds none is parsed whole, or left to the CPU.
const PIECE_TOKENS: usize = 16;
/// Mirrors `Counter`.
const COUNTERS: usize = 8;
/// Mirrors `SHORT_TOKENS`, and `LONG_KEYS`, `SHORT_KEYS` and `SLICE_BITS` in `cu/parse_tree_order.cu`.
const LONG_KEYS: usize = 32;
const SHORT_TOKENS: usize = 64;
const SHORT_KEYS: usize = SHORT_TOKENS * 4;
const SLICE_BITS: u32 = 16;
/// Mirrors `LINES` in `cu/parse_tree_rows.cu`.
const ROWS_LINES: usize = 256;
/// Mirrors `CUT_THREADS` in `cu/parse_tree_cut.cu`.
const CUT_THREADS: u32 = 256;
/// Mirrors `LR_THREADS`, `NEAR_SYMBOLS` and `NEAR_ROOTS` in `cu/parse_tree_lr.cu`.
const LR_THREADS: u32 = 384;
const LR_STACK_BYTES: u32 = LR_THREADS * (22 + 14) * 4;
const SCAN_THREADS: u32 = 256;
/// Bytes of source from which on it is worth while to know some of what the CPU gets before the trees are there.
const EARLY_BYTES: usize = 256 << 10;
const MOST_RANGES: u32 = 1024;

/// Mirrors `TreeBatch` in `cu/parse_tree.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct TreeBatch {
    lexed: [u64; 17],
    versions: u64,
    reasons: u64,
    lines: u64,
    line_sources: u64,
    columns: u64,
    least: u64,
    least_of_least: u64,
    firsts: u64,
    records: u64,
    merged: u64,
    far: u64,
    outcomes: u64,
    bases: u64,
    places: u64,
    pieces: u64,
    long_lines: u64,
    counters: u64,
    source_count: u32,
    line_cap: u32,
    token_cap: u32,
    piece_cap: u32,
    piece_base: u32,
    unused: u32,
}

/// Mirrors `Lr` in `cu/parse_tree_lr.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Lr {
    batch: TreeBatch,
    bytes: u64,
    order: u64,
    count: u64,
    ends: u64,
    tables: Places,
}

/// Mirrors `Rows` in `cu/parse_tree_rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Rows {
    columns: [u64; 6],
    of_values: [u64; 3],
}

/// Mirrors `Values` in `cu/parse_tree_values.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Values {
    columns: [u64; 5],
    rows: u64,
    tokens: u64,
    sources: u64,
    tags: u64,
    starts: u64,
    ends: u64,
    sizes: u64,
    bases: u64,
    appending: u64,
    long_texts: u64,
    extra: u64,
    cap: u32,
    extra_cap: u32,
}

/// What is before a source in the columns, and why the CPU parses it anew: bits of `Reason`, or 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Summary {
    pub(crate) rows: u32,
    pub(crate) values: u32,
    pub(crate) extra: u32,
    pub(crate) reasons: u32,
}

/// The trees of a batch on the device.
#[derive(Debug)]
pub(crate) struct Trees {
    /// By source, and behind the last.
    pub(crate) summary: Buffer<Summary>,
    pub(crate) kinds: Buffer<u8>,
    pub(crate) fields: Buffer<u8>,
    pub(crate) parents: Buffer<u32>,
    pub(crate) starts: Buffer<u32>,
    pub(crate) ends: Buffer<u32>,
    pub(crate) aux: Buffer<u32>,
    pub(crate) value_tags: Buffer<u8>,
    pub(crate) value_starts: Buffer<u32>,
    pub(crate) value_ends: Buffer<u32>,
    pub(crate) extra: Buffer<u8>,
    early: Option<Early>,
}

/// Why the CPU parses sources anew, as far as that is known when lines are cut.
#[derive(Debug)]
struct Early {
    landing: Landing,
    reasons: Place<u32>,
}

impl Trees {
    /// Why the CPU parses each source anew, or 0, as far as it is known before there are trees; nothing where that would be no
    /// earlier. Waits for the kernels that find out.
    pub(crate) fn early_reasons(&mut self) -> Result<Vec<u32>, OpError> {
        let Some(Early { landing, reasons }) = self.early.take() else { return Ok(vec![]) };
        Ok(landing.wait()?.get(reasons).to_vec())
    }

    fn new(lexed: &Lexed, worker: &Worker) -> Result<Self, OpError> {
        let (rows, values) = (lexed.token_cap * SLOTS_PER_TOKEN, lexed.token_cap);
        Ok(Self {
            summary: worker.alloc(lexed.sources + 1)?,
            kinds: worker.alloc(rows)?,
            fields: worker.alloc(rows)?,
            parents: worker.alloc(rows)?,
            starts: worker.alloc(rows)?,
            ends: worker.alloc(rows)?,
            aux: worker.alloc(rows)?,
            value_tags: worker.alloc(values)?,
            value_starts: worker.alloc(values)?,
            value_ends: worker.alloc(values)?,
            extra: worker.alloc(lexed.text_cap + BLOCK_LINES)?,
            early: None,
        })
    }
}

/// What is only there until the trees are.
struct Scratch {
    versions: Buffer<u8>,
    reasons: Buffer<u32>,
    lines: Buffer<[u32; 4]>,
    line_sources: Buffer<u32>,
    columns: Buffer<u16>,
    least: Buffer<u16>,
    least_of_least: Buffer<u16>,
    firsts: Buffer<u8>,
    records: Buffer<[u32; 4]>,
    merged: Buffer<[u32; 4]>,
    far: Buffer<u32>,
    outcomes: Buffer<[u32; 2]>,
    bases: Buffer<[u32; 2]>,
    places: Buffer<[u32; 4]>,
    keys: Buffer<u32>,
    order: Buffer<u32>,
    pieces: Buffer<[u32; PIECE_WORDS]>,
    long_lines: Buffer<u32>,
    counters: Buffer<u32>,
    sums: Buffer<u64>,
    /// Rows, tokens, sources, sizes, bases of values, those that append, and those with long texts.
    values: [Buffer<u32>; 7],
}

impl Scratch {
    fn new(lexed: &Lexed, versions: &[u8], worker: &Worker) -> Result<Self, OpError> {
        let (lines, tokens) = (lexed.logical_cap, lexed.token_cap);
        let values = || worker.alloc::<u32>(tokens + 1);
        Ok(Self {
            versions: worker.upload_new(versions)?,
            reasons: worker.alloc(lexed.sources)?,
            lines: worker.alloc(lines)?,
            line_sources: worker.alloc(lines)?,
            columns: worker.alloc(lines)?,
            least: worker.alloc(lines.div_ceil(BLOCK_LINES) * 32)?,
            least_of_least: worker.alloc(lines.div_ceil(BLOCK_LINES))?,
            firsts: worker.alloc(lines)?,
            records: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            merged: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            far: worker.alloc(tokens * SLOTS_PER_TOKEN)?,
            outcomes: worker.alloc(lines)?,
            bases: worker.alloc(lines + 1)?,
            places: worker.alloc(lines)?,
            keys: worker.alloc_zeroed(keys(lexed) + 1)?,
            order: worker.alloc(lines + piece_cap(lexed))?,
            pieces: worker.alloc(piece_cap(lexed))?,
            long_lines: worker.alloc(tokens / SHORT_TOKENS + 1)?,
            counters: worker.alloc_zeroed(COUNTERS)?,
            sums: worker.alloc(MOST_RANGES as usize)?,
            values: [values()?, values()?, values()?, values()?, values()?, values()?, values()?],
        })
    }
}

fn piece_cap(lexed: &Lexed) -> usize {
    lexed.token_cap / PIECE_TOKENS + BLOCK_LINES
}

/// Units of cut lines are numbered from here on.
fn piece_base(lexed: &Lexed) -> usize {
    lexed.logical_cap.next_multiple_of(1 << SLICE_BITS)
}

/// Lines, and pieces of cut ones.
fn items(lexed: &Lexed) -> usize {
    piece_base(lexed) + piece_cap(lexed)
}

fn keys(lexed: &Lexed) -> usize {
    LONG_KEYS + ((items(lexed) >> SLICE_BITS) + 1) * SHORT_KEYS
}

static TABLES: LazyLock<Arc<Tables>> = LazyLock::new(|| Arc::new(Tables::pack()));

/// The tables on a device.
#[derive(Debug)]
struct Resident {
    bytes: Buffer<u8>,
    places: Places,
}

impl Resident {
    fn new(worker: &Worker) -> Result<Self, OpError> {
        let resident = Self { bytes: worker.upload_new(&TABLES.bytes)?, places: TABLES.places };
        worker.synchronize()?;
        Ok(resident)
    }
}

/// One batch on its way.
struct Run<'a> {
    worker: &'a Worker,
    lexed: &'a Lexed,
    scratch: Scratch,
    trees: Trees,
}

/// Makes the trees of sources that have been taken apart. `versions`: the minor version of each source's grammar.
pub(crate) fn trees(lexed: &Lexed, versions: &[u8], worker: &Worker) -> Result<Trees, OpError> {
    let (scratch, trees) = (Scratch::new(lexed, versions, worker)?, Trees::new(lexed, worker)?);
    let mut run = Run { worker, lexed, scratch, trees };
    run.lines()?;
    run.trees.early = if lexed.text_cap < EARLY_BYTES { None } else { Some(run.early()?) };
    run.nodes()?;
    run.rows()?;
    run.values()?;
    Ok(run.trees)
}

impl Run<'_> {
    fn launch(&self, kernel: &Kernel, grid: Grid, threads: u32, mut args: Args) -> Result<(), OpError> {
        self.worker.launch(kernel, grid, threads, 0, &mut args)
    }

    fn args(&self) -> Args {
        Args::new().value(self.batch())
    }

    fn batch(&self) -> TreeBatch {
        let (lexed, scratch) = (self.lexed, &self.scratch);
        TreeBatch {
            lexed: [
                lexed.text.address(),
                lexed.source_starts.address(),
                lexed.source_lens.address(),
                lexed.flags.address(),
                lexed.token_bases.address(),
                lexed.logical_bases.address(),
                lexed.name_bases.address(),
                lexed.kinds.address(),
                lexed.starts.address(),
                lexed.ends.address(),
                lexed.payloads.address(),
                lexed.logical_firsts.address(),
                lexed.logical_ends.address(),
                lexed.logical_columns.address(),
                lexed.logical_alternates.address(),
                lexed.name_starts.address(),
                lexed.name_ends.address(),
            ],
            versions: scratch.versions.ptr().address(),
            reasons: scratch.reasons.ptr().address(),
            lines: scratch.lines.ptr().address(),
            line_sources: scratch.line_sources.ptr().address(),
            columns: scratch.columns.ptr().address(),
            least: scratch.least.ptr().address(),
            least_of_least: scratch.least_of_least.ptr().address(),
            firsts: scratch.firsts.ptr().address(),
            records: scratch.records.ptr().address(),
            merged: scratch.merged.ptr().address(),
            far: scratch.far.ptr().address(),
            outcomes: scratch.outcomes.ptr().address(),
            bases: scratch.bases.ptr().address(),
            places: scratch.places.ptr().address(),
            pieces: scratch.pieces.ptr().address(),
            long_lines: scratch.long_lines.ptr().address(),
            counters: scratch.counters.ptr().address(),
            source_count: word(lexed.sources),
            line_cap: word(lexed.logical_cap),
            token_cap: word(lexed.token_cap),
            piece_cap: word(piece_cap(lexed)),
            piece_base: word(piece_base(lexed)),
            unused: 0,
        }
    }

    /// Blocks of so many lines each.
    fn by_lines(&self, each: usize) -> Grid {
        Grid::x(word(self.lexed.logical_cap.div_ceil(each)))
    }

    /// Blocks that share a sum, or take what there is in turns.
    fn ranges(&self) -> Grid {
        Grid::x((self.worker.units() * 8).min(MOST_RANGES))
    }

    /// What each line is, and in which order they are parsed.
    fn lines(&self) -> Result<(), OpError> {
        let scratch = &self.scratch;
        self.launch(&SOURCES, Grid::x(word(self.lexed.sources.div_ceil(256))), 256, self.args())?;
        self.launch(&LINES, self.by_lines(BLOCK_LINES), 1024, self.args())?;
        self.launch(&CUT, self.ranges(), CUT_THREADS, self.args())?;
        let items = Grid::x(word(items(self.lexed).div_ceil(BLOCK_LINES)));
        self.launch(&COUNT, items, 1024, self.args().ptr(scratch.keys.ptr()))?;
        let starts = Args::new().ptr(scratch.keys.ptr()).u32(word(keys(self.lexed)));
        self.launch(&STARTS, Grid::x(1), 1024, starts)?;
        let order = self.args().ptr(scratch.keys.ptr()).ptr(scratch.order.ptr());
        self.launch(&ORDER, items, 1024, order)
    }

    /// Has brought back what is known of the sources that the CPU gets: those with the longest lines among them, which take it
    /// longest.
    fn early(&self) -> Result<Early, OpError> {
        let (mut layout, mut order) = (Layout::default(), Order::default());
        let reasons = layout.add(self.lexed.sources);
        order.add(&self.scratch.reasons, 0, reasons);
        let mut landing = self.worker.landing(&layout)?;
        self.worker.bring(&order, &mut landing, On::Kernels)?;
        Ok(Early { landing, reasons })
    }

    /// The nodes of each line, and how many come before them.
    fn nodes(&self) -> Result<(), OpError> {
        let tables = self.worker.device().residents().get_or_make(0, &TABLES, || Resident::new(self.worker))?;
        let scratch = &self.scratch;
        let lr = Lr {
            batch: self.batch(),
            bytes: tables.bytes.ptr().address(),
            order: scratch.order.ptr().address(),
            count: scratch.keys.ptr_at(keys(self.lexed)).address(),
            ends: scratch.keys.ptr().address(),
            tables: tables.places,
        };
        let mut args = Args::new().value(lr);
        let shared = tables.places.bytes + LR_STACK_BYTES;
        if shared <= self.worker.shared_bytes() {
            self.worker.launch(&LR_SHARED, Grid::x(self.worker.units()), LR_THREADS, shared, &mut args)?;
        } else {
            self.worker.launch(&LR, Grid::x(self.worker.units()), LR_THREADS, LR_STACK_BYTES, &mut args)?;
        }
        self.launch(&PIECES, self.ranges(), 256, self.args())?;
        self.launch(&ROWS_SUM, self.ranges(), SCAN_THREADS, self.args().ptr(scratch.sums.ptr()))?;
        self.launch(&ROWS_SPREAD, self.ranges(), SCAN_THREADS, self.args().ptr(scratch.sums.ptr()))?;
        let [rows, tokens, sources, ..] = &scratch.values;
        self.launch(&MERGE, self.ranges(), 256, self.args().ptr(rows.ptr()).ptr(tokens.ptr()).ptr(sources.ptr()))
    }

    /// Lines to blocks, nodes to rows.
    fn rows(&self) -> Result<(), OpError> {
        let trees = &self.trees;
        let [rows, tokens, sources, ..] = &self.scratch.values;
        let columns = Rows {
            columns: [
                trees.kinds.ptr().address(),
                trees.fields.ptr().address(),
                trees.parents.ptr().address(),
                trees.starts.ptr().address(),
                trees.ends.ptr().address(),
                trees.aux.ptr().address(),
            ],
            of_values: [rows, tokens, sources].map(|column| column.ptr().address()),
        };
        self.launch(&BLOCKS, self.by_lines(256), 256, self.args())?;
        self.launch(&ROWS, self.by_lines(ROWS_LINES), 256, self.args().value(columns))?;
        self.launch(&ROWS_CUT, self.ranges(), 256, self.args().value(columns))
    }

    /// Values, and how much of everything each source has.
    fn values(&self) -> Result<(), OpError> {
        let (scratch, trees) = (&self.scratch, &self.trees);
        let [rows, tokens, sources, sizes, bases, appending, long_texts] = &scratch.values;
        let values = Values {
            columns: [
                trees.kinds.ptr().address(),
                trees.fields.ptr().address(),
                trees.parents.ptr().address(),
                trees.starts.ptr().address(),
                trees.ends.ptr().address(),
            ],
            rows: rows.ptr().address(),
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
            cap: word(self.lexed.token_cap),
            extra_cap: word(trees.extra.len()),
        };
        let args = || self.args().value(values);
        self.launch(&VALUES, self.ranges(), 256, args())?;
        self.launch(&TEXTS, self.ranges(), 256, args())?;
        self.launch(&EXTRA_SUM, self.ranges(), SCAN_THREADS, args().ptr(scratch.sums.ptr()))?;
        self.launch(&EXTRA_SPREAD, self.ranges(), SCAN_THREADS, args().ptr(scratch.sums.ptr()))?;
        self.launch(&EXTRA, self.ranges(), 256, args())?;
        let sources = Grid::x(word((self.lexed.sources + 1).div_ceil(256)));
        self.launch(&SUMMARY, sources, 256, args().ptr(trees.summary.ptr()))
    }
}

/// A count that fits the kernels' words.
fn word(count: usize) -> u32 {
    u32::try_from(count).expect("a batch is cut before its counts outgrow 32 bits")
}
