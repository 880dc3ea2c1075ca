//! Device memory of a batch: how much is expected to be needed, and where it lies.

use super::{
    Tokens,
    kernels::{Batch, Counts},
    sources::{SPAN, Sources, TILE, word},
};
use crate::{
    OpError,
    cuda::{Buffer, DevicePtr, Landing, Layout, On, Order, Place, Worker},
};

use super::A_BLOCK;

/// Special lines of a tile whose maps are kept; as in the kernels.
const MOST_SPECIAL: usize = 512;

/// How much of everything there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    tokens: usize,
    lines: usize,
    comments: usize,
    /// Tokens over several lines, and those that may be keywords.
    list: usize,
}

impl Caps {
    /// Enough for most sources.
    pub(super) fn expected(sources: &Sources) -> Self {
        let end = sources.end;
        Self { tokens: end / 3 + 1024, lines: end / 12 + 1024, comments: end / 32 + 1024, list: end / 32 + 1024 }
    }

    /// What was needed, where there was too little room.
    pub(super) fn grown(self, counts: &Counts) -> Option<Self> {
        let at_least = |cap: usize, count: u32| cap.max(count as usize + 1);
        let grown = Self {
            tokens: at_least(self.tokens, counts.tokens),
            lines: at_least(self.lines, counts.lines),
            comments: at_least(self.comments, counts.comments),
            list: at_least(self.list, counts.closers.max(counts.soft)),
        };
        let enough = (grown.tokens, grown.lines, grown.comments, grown.list)
            == (self.tokens, self.lines, self.comments, self.list);
        (!enough).then_some(grown)
    }
}

/// What kernels expect to be zero, in one buffer.
pub(super) struct Zeros {
    all: Buffer<u64>,
    places: [usize; 7],
    names: usize,
}

impl Zeros {
    pub(super) fn new(sources: &Sources, caps: Caps, worker: &Worker) -> Result<Self, OpError> {
        let names = sources.end / 8 + 32 * sources.count;
        let words = sources.count.div_ceil(2);
        let sizes = [
            8,
            words,
            2 * (caps.lines / A_BLOCK + 1),
            caps.tokens / 32 / A_BLOCK + 1,
            caps.tokens / 64 + 2,
            names,
            names.div_ceil(2),
        ];
        let mut places = [0; 7];
        let mut end = 0;
        for (place, size) in places.iter_mut().zip(sizes) {
            *place = end;
            end += size;
        }
        Ok(Self { all: worker.alloc_zeroed(end)?, places, names })
    }

    fn at<T>(&self, number: usize) -> DevicePtr<T> {
        self.all.ptr_at(self.places[number]).cast()
    }

    /// Has the counts copied back once the kernels are through.
    pub(super) fn counts(&self, worker: &Worker) -> Result<Counting, OpError> {
        let mut layout = Layout::default();
        let place = layout.add(size_of::<Counts>() / size_of::<u64>());
        let mut landing = worker.landing(&layout)?;
        let mut order = Order::default();
        order.add(&self.all, 0, place);
        worker.bring(&order, &mut landing, On::Kernels)?;
        Ok(Counting { landing, place })
    }
}

/// Counts on their way.
pub(super) struct Counting {
    landing: Landing,
    place: Place<u64>,
}

impl Counting {
    pub(super) fn wait(self) -> Result<Counts, OpError> {
        let landed = self.landing.wait()?;
        Ok(bytemuck::pod_read_unaligned(bytemuck::cast_slice(landed.get(self.place))))
    }
}

/// Everything else.
pub(super) struct Room {
    caps: Caps,
    tokens: Tokens,
    line_tokens: Buffer<u32>,
    line_columns: Buffer<u32>,
    line_brackets: Buffer<u64>,
    first_ranks: Buffer<u32>,
    closers: Buffer<u32>,
    soft: Buffer<u32>,
    minima: Buffer<u32>,
    leasts: Buffer<u32>,
    least_minima: Buffer<u32>,
    tile_maps: Buffer<u64>,
    tile_counts: Buffer<u64>,
    text_bits: Buffer<u32>,
    line_bits: Buffer<u32>,
    special_maps: Buffer<u32>,
    token_bits: Buffer<u32>,
    marks: Buffer<u8>,
}

impl Room {
    pub(super) fn new(sources: &Sources, caps: Caps, worker: &Worker) -> Result<Self, OpError> {
        let words = |len: usize| worker.alloc::<u32>(len);
        let bases = || words(sources.count + 1);
        let (tiles, minima) = (sources.tiles, caps.lines / 32 + caps.lines / 1024 + 64);
        let tokens = Tokens {
            flags: worker.alloc_zeroed(sources.count)?,
            token_bases: bases()?,
            line_bases: bases()?,
            logical_bases: bases()?,
            comment_bases: bases()?,
            name_bases: bases()?,
            kinds: worker.alloc(caps.tokens)?,
            starts: words(caps.tokens)?,
            ends: words(caps.tokens)?,
            payloads: words(caps.tokens)?,
            line_starts: words(caps.lines)?,
            logical_firsts: words(caps.lines)?,
            logical_ends: words(caps.lines)?,
            logical_columns: words(caps.lines)?,
            logical_alternates: words(caps.lines)?,
            comment_starts: words(caps.comments)?,
            comment_ends: words(caps.comments)?,
            name_starts: words(caps.tokens)?,
            name_ends: words(caps.tokens)?,
            token_count: 0,
            line_count: 0,
            logical_count: 0,
            comment_count: 0,
            name_count: 0,
        };
        Ok(Self {
            caps,
            tokens,
            line_tokens: words(caps.lines)?,
            line_columns: words(caps.lines)?,
            line_brackets: worker.alloc(caps.lines)?,
            first_ranks: words(caps.tokens / 32 + 2)?,
            closers: words(4 * caps.list)?,
            soft: words(caps.list)?,
            minima: words(minima)?,
            leasts: words(caps.lines)?,
            least_minima: words(minima)?,
            tile_maps: worker.alloc(tiles)?,
            tile_counts: worker.alloc(tiles)?,
            text_bits: words(3 * tiles * TILE / 32)?,
            line_bits: words(2 * tiles * TILE / 32)?,
            special_maps: words(tiles * MOST_SPECIAL)?,
            token_bits: words(3 * tiles * SPAN / 32)?,
            marks: worker.alloc(tiles * SPAN)?,
        })
    }

    pub(super) fn batch(&self, sources: &Sources, zeros: &Zeros, seed: u64) -> Batch {
        let tokens = &self.tokens;
        let at = |buffer: &Buffer<u32>| buffer.ptr().address();
        Batch {
            text: sources.text.ptr().address(),
            source_starts: at(&sources.starts),
            source_lens: at(&sources.lens),
            tile_sources: at(&sources.by_tile),
            flags: at(&tokens.flags),
            returns: zeros.at::<u32>(1).address(),
            counts: zeros.at::<u32>(0).address(),
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
            closers: at(&self.closers),
            soft: at(&self.soft),
            line_sums: zeros.at::<u64>(2).address(),
            rank_sums: zeros.at::<u64>(3).address(),
            line_minima: at(&self.minima),
            line_leasts: at(&self.leasts),
            least_minima: at(&self.least_minima),
            seed,
            sources: word(sources.count),
            tiles: word(sources.tiles),
            token_cap: word(self.caps.tokens),
            line_cap: word(self.caps.lines),
            comment_cap: word(self.caps.comments),
            list_cap: word(self.caps.list),
            name_cap: word(zeros.names),
            logical_cap: word(self.caps.lines),
        }
    }

    pub(super) fn tokens(self, counts: &Counts) -> Tokens {
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
