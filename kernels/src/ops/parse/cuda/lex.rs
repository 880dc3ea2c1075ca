//! The second stage: sources to tokens, comments, physical and logical lines and numbered names, all in device memory.
//!
//! The result equals that of `accelerd_parser` with soft keywords resolved. A source with an error, or with a construct that
//! is rare and costly on a GPU, is flagged with [`LexerReason`](super::LexerReason)s and falls back. `cu/parse/` describes the kernels.

use std::{
    hash::{BuildHasher, RandomState},
    sync::OnceLock,
};

use super::{
    kernels::{
        LEX_FIRST_NAMES, LEX_INDENTATION, LEX_LINE_STATES, LEX_LINES, LEX_LOGICAL_LINES, LEX_MATCH_BRACKETS,
        LEX_MIN_COLUMNS, LEX_MULTILINE_ENDS, LEX_NAME_RANKS, LEX_NUMBER_NAMES, LEX_SCAN_COUNTS, LEX_SCAN_STATES,
        LEX_SOFT_KEYWORDS, LEX_THREADS, LEX_TOKENS, LEX_WIDE_THREADS, LexBatch, LexCounts, MAX_SPECIAL, ROWS_PER_BLOCK,
        SPAN, TILE,
    },
    pack::{Sources, to_u32},
};
use crate::{
    OpError,
    cuda::{Args, Buffer, DevicePtr, DownloadPlan, Grid, Kernel, Layout, PendingDownload, Region, StreamKind, Worker},
};

/// The tokens of a slice in device memory, in source order. Columns of a table have equal lengths, possibly with unused
/// capacity at the end; the rows of a source start at its base and end at the next source's.
///
/// All columns are written when [`lex`] returns. Rows of a source whose flag is not 0 are undefined but within its part;
/// `ends`, `payloads` and logical lines may be uninitialised.
#[derive(Debug)]
pub struct Tokens {
    /// By source: bits of [`LexerReason`](super::LexerReason), or 0.
    pub flags: Buffer<u32>,
    /// The first token of each source, and their number past the last.
    pub token_bases: Buffer<u32>,
    /// The first physical line of each source.
    pub line_bases: Buffer<u32>,
    /// The first logical line of each source.
    pub logical_bases: Buffer<u32>,
    /// The first comment of each source.
    pub comment_bases: Buffer<u32>,
    /// The first name of each source.
    pub name_bases: Buffer<u32>,
    /// Terminals: numbers of `Terminal`.
    pub kinds: Buffer<u8>,
    /// Start offset of each token in its source.
    pub starts: Buffer<u32>,
    /// End offset of each token.
    pub ends: Buffer<u32>,
    /// As in `accelerd_parser::Tokens`; names are numbered from 0 in each source.
    pub payloads: Buffer<u32>,
    /// Start offset of each physical line.
    pub line_starts: Buffer<u32>,
    /// First token of each logical line, counted from the source's first.
    pub logical_firsts: Buffer<u32>,
    /// The token after its last.
    pub logical_ends: Buffer<u32>,
    /// Its indentation, with tabs to multiples of 8.
    pub logical_columns: Buffer<u32>,
    /// Its indentation, with a tab counted as 1.
    pub logical_alternates: Buffer<u32>,
    /// Start offset of each comment.
    pub comment_starts: Buffer<u32>,
    /// End offset of each comment.
    pub comment_ends: Buffer<u32>,
    /// Start offset of each name's first occurrence.
    pub name_starts: Buffer<u32>,
    /// Its end offset.
    pub name_ends: Buffer<u32>,
    /// Tokens of all sources.
    pub token_count: usize,
    /// Physical lines of all sources.
    pub line_count: usize,
    /// Logical lines of all sources.
    pub logical_count: usize,
    /// Comments of all sources.
    pub comment_count: usize,
    /// Names of all sources.
    pub name_count: usize,
}

/// Lexes sources and waits for all kernels.
pub fn lex(sources: &Sources, worker: &Worker) -> Result<Tokens, OpError> {
    Lexing::start(sources, worker)?.finish(sources, worker)
}

/// Sources that are being lexed.
pub(super) struct Lexing {
    capacities: Capacities,
    workspace: Workspace,
    counts: PendingCounts,
}

impl Lexing {
    /// Launches all kernels, with capacities that suffice for most sources.
    pub(super) fn start(sources: &Sources, worker: &Worker) -> Result<Self, OpError> {
        Self::with_capacities(Capacities::expected(sources), sources, worker)
    }

    fn with_capacities(capacities: Capacities, sources: &Sources, worker: &Worker) -> Result<Self, OpError> {
        let workspace = Workspace::new(sources, capacities, worker)?;
        let zeros = Zeros::new(sources, capacities, worker)?;
        launch(&workspace.batch(sources, &zeros, seed()), worker)?;
        Ok(Self { capacities, workspace, counts: zeros.counts(worker)? })
    }

    /// Waits for the kernels; launches them again with larger capacities if a table overflowed.
    pub(super) fn finish(mut self, sources: &Sources, worker: &Worker) -> Result<Tokens, OpError> {
        loop {
            let counts = self.counts.wait()?;
            match self.capacities.grown(&counts) {
                None => return Ok(self.workspace.tokens(&counts)),
                Some(grown) => self = Self::with_capacities(grown, sources, worker)?,
            }
        }
    }
}

/// The seed of the name hash: random per process, so that clients cannot write names that collide.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0x9e37_79b9_u32))
}

fn launch(batch: &LexBatch, worker: &Worker) -> Result<(), OpError> {
    let run = |kernel: &Kernel, blocks: usize, threads: u32| {
        worker.launch(kernel, Grid::x(to_u32(blocks)), threads, 0, &mut Args::new().value(*batch))
    };
    let sms = worker.sm_count() as usize;
    let tiles = batch.tiles as usize;
    run(&LEX_LINE_STATES, tiles, LEX_THREADS)?;
    run(&LEX_SCAN_STATES, 1, LEX_WIDE_THREADS)?;
    run(&LEX_LINES, tiles, LEX_THREADS)?;
    run(&LEX_SCAN_COUNTS, 1, LEX_WIDE_THREADS)?;
    run(&LEX_TOKENS, tiles, LEX_THREADS)?;
    run(&LEX_MULTILINE_ENDS, sms * 8, LEX_THREADS)?;
    run(&LEX_LOGICAL_LINES, (batch.line_cap as usize).div_ceil(ROWS_PER_BLOCK), LEX_THREADS)?;
    run(&LEX_MATCH_BRACKETS, sms * 8, LEX_THREADS)?;
    run(&LEX_MIN_COLUMNS, (batch.logical_cap as usize).div_ceil(ROWS_PER_BLOCK), LEX_WIDE_THREADS)?;
    run(&LEX_INDENTATION, sms * 8, LEX_THREADS)?;
    run(&LEX_SOFT_KEYWORDS, sms * 4, LEX_THREADS)?;
    run(&LEX_FIRST_NAMES, sms * 8, LEX_THREADS)?;
    run(&LEX_NAME_RANKS, (batch.token_cap as usize / 32 + 1).div_ceil(ROWS_PER_BLOCK), LEX_THREADS)?;
    run(&LEX_NUMBER_NAMES, sms * 8, LEX_THREADS)
}

/// Rows that the tables have room for.
#[derive(Clone, Copy, Debug)]
struct Capacities {
    tokens: usize,
    lines: usize,
    comments: usize,
    /// Tokens that span lines, and possible soft keywords.
    list: usize,
}

impl Capacities {
    /// Enough for most sources.
    fn expected(sources: &Sources) -> Self {
        let end = sources.end;
        Self { tokens: end / 3 + 1024, lines: end / 12 + 1024, comments: end / 32 + 1024, list: end / 32 + 1024 }
    }

    /// The capacities needed, if these are too small.
    fn grown(self, counts: &LexCounts) -> Option<Self> {
        let at_least = |capacity: usize, count: u32| capacity.max(count as usize + 1);
        let grown = Self {
            tokens: at_least(self.tokens, counts.tokens),
            lines: at_least(self.lines, counts.lines),
            comments: at_least(self.comments, counts.comments),
            list: at_least(self.list, counts.multiline.max(counts.soft_keywords)),
        };
        let enough = (grown.tokens, grown.lines, grown.comments, grown.list)
            == (self.tokens, self.lines, self.comments, self.list);
        (!enough).then_some(grown)
    }
}

/// The arrays that kernels expect to be zeroed, in one buffer.
struct Zeros {
    all: Buffer<u64>,
    offsets: [usize; 7],
    names: usize,
}

impl Zeros {
    fn new(sources: &Sources, capacities: Capacities, worker: &Worker) -> Result<Self, OpError> {
        let names = sources.end / 8 + 32 * sources.count;
        let sizes = [
            8,
            sources.count.div_ceil(2),
            2 * (capacities.lines / ROWS_PER_BLOCK + 1),
            capacities.tokens / 32 / ROWS_PER_BLOCK + 1,
            capacities.tokens / 64 + 2,
            names,
            names.div_ceil(2),
        ];
        let mut offsets = [0; 7];
        let mut end = 0;
        for (offset, size) in offsets.iter_mut().zip(sizes) {
            *offset = end;
            end += size;
        }
        Ok(Self { all: worker.alloc_zeroed(end)?, offsets, names })
    }

    fn at<T>(&self, number: usize) -> DevicePtr<T> {
        self.all.ptr_at(self.offsets[number]).cast()
    }

    /// Copies the counts back after the kernels.
    fn counts(&self, worker: &Worker) -> Result<PendingCounts, OpError> {
        let mut layout = Layout::default();
        let region = layout.add(size_of::<LexCounts>() / size_of::<u64>());
        let mut download = worker.pending_download(&layout)?;
        let mut plan = DownloadPlan::default();
        plan.add(&self.all, 0, region);
        worker.download_async(&plan, &mut download, StreamKind::Compute)?;
        Ok(PendingCounts { download, region })
    }
}

struct PendingCounts {
    download: PendingDownload,
    region: Region<u64>,
}

impl PendingCounts {
    fn wait(self) -> Result<LexCounts, OpError> {
        let host = self.download.wait()?;
        Ok(bytemuck::pod_read_unaligned(bytemuck::cast_slice(host.get(self.region))))
    }
}

/// The tokens and the scratch buffers of a slice.
struct Workspace {
    capacities: Capacities,
    tokens: Tokens,
    line_tokens: Buffer<u32>,
    line_columns: Buffer<u32>,
    line_brackets: Buffer<u64>,
    first_ranks: Buffer<u32>,
    multiline_ends: Buffer<u32>,
    soft_keywords: Buffer<u32>,
    min_columns: Buffer<u32>,
    min_depths: Buffer<u32>,
    min_depth_blocks: Buffer<u32>,
    tile_maps: Buffer<u64>,
    tile_counts: Buffer<u64>,
    text_bits: Buffer<u32>,
    line_bits: Buffer<u32>,
    special_maps: Buffer<u32>,
    token_bits: Buffer<u32>,
    marks: Buffer<u8>,
}

impl Workspace {
    fn new(sources: &Sources, capacities: Capacities, worker: &Worker) -> Result<Self, OpError> {
        let words = |len: usize| worker.alloc::<u32>(len);
        let bases = || words(sources.count + 1);
        let tiles = sources.tiles;
        let blocks = capacities.lines / 32 + capacities.lines / 1024 + 64;
        let tokens = Tokens {
            flags: worker.alloc_zeroed(sources.count)?,
            token_bases: bases()?,
            line_bases: bases()?,
            logical_bases: bases()?,
            comment_bases: bases()?,
            name_bases: bases()?,
            kinds: worker.alloc(capacities.tokens)?,
            starts: words(capacities.tokens)?,
            ends: words(capacities.tokens)?,
            payloads: words(capacities.tokens)?,
            line_starts: words(capacities.lines)?,
            logical_firsts: words(capacities.lines)?,
            logical_ends: words(capacities.lines)?,
            logical_columns: words(capacities.lines)?,
            logical_alternates: words(capacities.lines)?,
            comment_starts: words(capacities.comments)?,
            comment_ends: words(capacities.comments)?,
            name_starts: words(capacities.tokens)?,
            name_ends: words(capacities.tokens)?,
            token_count: 0,
            line_count: 0,
            logical_count: 0,
            comment_count: 0,
            name_count: 0,
        };
        Ok(Self {
            capacities,
            tokens,
            line_tokens: words(capacities.lines)?,
            line_columns: words(capacities.lines)?,
            line_brackets: worker.alloc(capacities.lines)?,
            first_ranks: words(capacities.tokens / 32 + 2)?,
            multiline_ends: words(4 * capacities.list)?,
            soft_keywords: words(capacities.list)?,
            min_columns: words(blocks)?,
            min_depths: words(capacities.lines)?,
            min_depth_blocks: words(blocks)?,
            tile_maps: worker.alloc(tiles)?,
            tile_counts: worker.alloc(tiles)?,
            text_bits: words(3 * tiles * TILE / 32)?,
            line_bits: words(2 * tiles * TILE / 32)?,
            special_maps: words(tiles * MAX_SPECIAL)?,
            token_bits: words(3 * tiles * SPAN / 32)?,
            marks: worker.alloc(tiles * SPAN)?,
        })
    }

    fn batch(&self, sources: &Sources, zeros: &Zeros, seed: u64) -> LexBatch {
        let tokens = &self.tokens;
        let at = |buffer: &Buffer<u32>| buffer.ptr().address();
        LexBatch {
            text: sources.text.ptr().address(),
            source_starts: at(&sources.starts),
            source_lens: at(&sources.lens),
            tile_sources: at(&sources.by_tile),
            flags: at(&tokens.flags),
            carriage_returns: zeros.at::<u32>(1).address(),
            counts: zeros.at::<LexCounts>(0).address(),
            tile_maps: self.tile_maps.ptr().address(),
            tile_counts: self.tile_counts.ptr().address(),
            text_bits: at(&self.text_bits),
            line_bits: at(&self.line_bits),
            special_maps: at(&self.special_maps),
            token_bits: at(&self.token_bits),
            marks: self.marks.ptr().address(),
            line_bases: at(&tokens.line_bases),
            token_bases: at(&tokens.token_bases),
            comment_bases: at(&tokens.comment_bases),
            logical_bases: at(&tokens.logical_bases),
            name_bases: at(&tokens.name_bases),
            line_starts: at(&tokens.line_starts),
            line_tokens: at(&self.line_tokens),
            line_columns: at(&self.line_columns),
            line_brackets: self.line_brackets.ptr().address(),
            kinds: tokens.kinds.ptr().address(),
            starts: at(&tokens.starts),
            ends: at(&tokens.ends),
            payloads: at(&tokens.payloads),
            comment_starts: at(&tokens.comment_starts),
            comment_ends: at(&tokens.comment_ends),
            logical_firsts: at(&tokens.logical_firsts),
            logical_ends: at(&tokens.logical_ends),
            logical_columns: at(&tokens.logical_columns),
            logical_alternates: at(&tokens.logical_alternates),
            name_keys: zeros.at::<u64>(5).address(),
            name_firsts: zeros.at::<u32>(6).address(),
            first_bits: zeros.at::<u32>(4).address(),
            first_ranks: at(&self.first_ranks),
            name_starts: at(&tokens.name_starts),
            name_ends: at(&tokens.name_ends),
            multiline_ends: at(&self.multiline_ends),
            soft_keywords: at(&self.soft_keywords),
            line_sums: zeros.at::<u64>(2).address(),
            rank_sums: zeros.at::<u64>(3).address(),
            min_columns: at(&self.min_columns),
            min_depths: at(&self.min_depths),
            min_depth_blocks: at(&self.min_depth_blocks),
            seed,
            sources: to_u32(sources.count),
            tiles: to_u32(sources.tiles),
            token_cap: to_u32(self.capacities.tokens),
            line_cap: to_u32(self.capacities.lines),
            comment_cap: to_u32(self.capacities.comments),
            list_cap: to_u32(self.capacities.list),
            name_cap: to_u32(zeros.names),
            logical_cap: to_u32(self.capacities.lines),
        }
    }

    fn tokens(self, counts: &LexCounts) -> Tokens {
        Tokens {
            token_count: counts.tokens as usize,
            line_count: counts.lines as usize,
            logical_count: counts.logical as usize,
            comment_count: counts.comments as usize,
            name_count: counts.names as usize,
            ..self.tokens
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_parser::{Operator, Terminal};

    use crate::cuda::cu;

    const HEADER: &str = cu!("parse/lex.cuh").text;

    /// `T_FIELD_OPEN` of `FieldOpen`.
    fn name_in_kernels(terminal: Terminal) -> String {
        let mut name = String::from("T");
        for letter in format!("{terminal:?}").chars() {
            if letter.is_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }

    #[test]
    fn kernels_number_terminals_as_the_grammar_does() {
        for terminal in Terminal::ALL.into_iter().filter(|terminal| *terminal <= Terminal::Tilde) {
            let line = format!("{} = {},", name_in_kernels(terminal), terminal as u8);
            assert!(HEADER.contains(&line), "{line}");
        }
    }

    #[test]
    fn kernels_number_operators_as_the_columns_do() {
        use Operator::{Add, BitAnd, BitXor, Eq, FloorDiv, GtE, LShift, Lt, Mod, NotEq, Pow, RShift};
        let numbers = [Add, Mod, Pow, LShift, RShift, BitXor, BitAnd, FloorDiv, Eq, NotEq, Lt, GtE].map(|o| o as u8);
        assert_eq!(numbers, [3, 8, 9, 10, 11, 13, 14, 15, 20, 21, 22, 25]);
    }
}
