//! One pass over all rows, or over those of a list, for all queries: products in blocks that stay in the second cache, and
//! what reaches its query's bar goes to that query's keeper.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{
    bound::{self, Limits, Term},
    exact,
    keep::Keeper,
    table::{Piece, Query, Table},
};
use crate::cpu::{
    Pool,
    products::{BLOCK_BYTES, Far, Floats, Packed},
    simd::{Isa, Kernel, Lanes},
};

/// Bytes of rows that a thread takes at a time.
const SPAN_BYTES: usize = 1 << 20;
/// Most rows in a block, so that its products stay in the cache.
const BLOCK_ROWS: usize = 256;
/// Bytes of queries that are packed together.
const GROUP_BYTES: usize = 512 << 10;
/// Most queries that are packed together, for the same.
const GROUP: usize = 144;
/// Queries in a full panel of the widest vectors.
const PANEL: usize = 48;
/// Up to so many queries beyond full panels are packed by themselves, not padded.
const REST: usize = 8;

/// Scans all rows of the table, or the listed ones, for some of the queries; as many keepers, in the same order.
pub(super) fn scan<K: Keeper>(
    table: &Table<'_>,
    rows: Option<&[u32]>,
    queries: &[&Query<'_>],
    pool: &Pool,
    isa: Isa,
    keeper: impl Fn(usize) -> K + Sync,
) -> Vec<K> {
    let row_bytes = size_of::<f32>() * table.dim.max(1);
    let block = (BLOCK_BYTES / row_bytes).clamp(8, BLOCK_ROWS) / 8 * 8;
    let len = rows.map_or(table.len, <[u32]>::len);
    let threads = pool.threads();
    let share = (len * row_bytes / (4 * threads)).clamp(block * row_bytes, SPAN_BYTES);
    let most = (share / row_bytes).max(block);
    let spans: Vec<Span<'_>> = match rows {
        None => table.pieces(most).into_iter().map(Span::Whole).collect(),
        Some(rows) => rows.chunks(most).map(Span::Listed).collect(),
    };
    let longest = bound::longest(table.metric, queries.iter().map(|query| query.squared_norm));
    let limits = Limits::new(table.metric, table.dim, longest);
    let groups = groups(table, queries, isa);
    let takes_single_rows = groups.iter().all(|group| group.packed.takes_single_rows());
    let scan = Scan { table, isa, block, groups, takes_single_rows, limits };
    let next = AtomicUsize::new(0);
    let part = || {
        let mut part = Part::new(&scan, (0..queries.len()).map(&keeper).collect(), rows.is_some());
        while let Some(span) = spans.get(next.fetch_add(1, Relaxed)) {
            match span {
                Span::Whole(piece) => part.whole(&scan, piece),
                Span::Listed(rows) => part.listed(&scan, rows),
            }
        }
        part.keepers
    };
    let parts = threads.min(spans.len()).max(1);
    pool.side_by_side(parts, part).into_iter().reduce(merge).unwrap_or_default()
}

/// What all threads of a scan share.
struct Scan<'a> {
    table: &'a Table<'a>,
    isa: Isa,
    /// Most rows that are multiplied at a time.
    block: usize,
    groups: Vec<Group>,
    /// Whether no group needs rows that lie one after the other.
    takes_single_rows: bool,
    limits: Limits,
}

/// What one of them has for itself.
struct Part<K> {
    keepers: Vec<K>,
    /// Those of each group.
    bars: Vec<Floats>,
    tile: Floats,
    terms: Vec<Term>,
    /// Room for a block of rows, where they are copied.
    gathered: Floats,
}

impl<K: Keeper> Part<K> {
    fn new(scan: &Scan<'_>, keepers: Vec<K>, gathers: bool) -> Self {
        let columns = scan.groups.iter().map(|group| group.packed.columns()).max().unwrap_or(0);
        Self {
            bars: scan.groups.iter().map(|group| group.bars(&keepers)).collect(),
            keepers,
            tile: Floats::zeros(scan.block * columns),
            terms: vec![],
            gathered: Floats::zeros(if gathers && !scan.takes_single_rows { scan.block * scan.table.dim } else { 0 }),
        }
    }

    /// Scans rows that lie one after the other.
    fn whole(&mut self, scan: &Scan<'_>, span: &Piece<'_>) {
        let dim = scan.table.dim;
        span_terms(&scan.limits, dim, span, &mut self.terms);
        for (group, bars) in scan.groups.iter().zip(&mut self.bars) {
            for piece in span.split(dim, scan.block) {
                let keepers = &mut self.keepers[group.first..][..group.packed.count()];
                group.packed.multiply(piece.rows, &mut self.tile, Far::Rows);
                let terms = &self.terms[piece.first - span.first..][..piece.rows.len() / dim.max(1)];
                let numbers = Numbers::From(piece.first);
                scan.isa.run(Select { group, tile: &self.tile, terms, numbers, bars, keepers });
            }
        }
    }

    /// Scans rows that lie anywhere, in blocks. Few queries read them where they lie; for many, they are copied side by side.
    fn listed(&mut self, scan: &Scan<'_>, rows: &[u32]) {
        for list in rows.chunks(scan.block) {
            self.terms.clear();
            self.terms.extend(list.iter().map(|&row| scan.limits.term(scan.table.squared_norm(row as usize))));
            let gathered = if scan.takes_single_rows { &[] } else { gather(scan.table, list, &mut self.gathered) };
            for (group, bars) in scan.groups.iter().zip(&mut self.bars) {
                let keepers = &mut self.keepers[group.first..][..group.packed.count()];
                if scan.takes_single_rows {
                    let tile = self.tile.chunks_exact_mut(group.packed.columns());
                    for (row, tile) in ahead(scan.table, list).zip(tile) {
                        group.packed.multiply(row, tile, Far::Nothing);
                    }
                } else {
                    group.packed.multiply(gathered, &mut self.tile, Far::Nothing);
                }
                let (terms, numbers) = (&self.terms, Numbers::List(list));
                scan.isa.run(Select { group, tile: &self.tile, terms, numbers, bars, keepers });
            }
        }
    }
}

/// What a thread takes at a time.
enum Span<'a> {
    Whole(Piece<'a>),
    /// These rows, wherever they lie.
    Listed(&'a [u32]),
}

/// Which rows are multiplied.
#[derive(Clone, Copy)]
enum Numbers<'a> {
    /// From this one on.
    From(usize),
    List(&'a [u32]),
}

impl Numbers<'_> {
    fn at(self, at: usize) -> u32 {
        match self {
            Self::From(first) => u32::try_from(first + at).expect("rows are counted in u32"),
            Self::List(rows) => rows[at],
        }
    }
}

/// Rows that are asked for ahead of the one that is read.
const AHEAD: usize = 8;

/// Rows of a list, some of which are asked for ahead.
fn ahead<'a>(table: &Table<'a>, list: &[u32]) -> impl Iterator<Item = &'a [f32]> {
    list.iter().take(AHEAD).for_each(|&row| table.prefetch(row));
    list.iter().enumerate().map(|(at, &row)| {
        list.get(at + AHEAD).inspect(|&&row| table.prefetch(row));
        table.row(row as usize)
    })
}

/// Copies rows side by side.
fn gather<'a>(table: &Table<'_>, list: &[u32], to: &'a mut Floats) -> &'a [f32] {
    for (row, to) in ahead(table, list).zip(to.chunks_exact_mut(table.dim.max(1))) {
        to.copy_from_slice(row);
    }
    &to[..list.len() * table.dim]
}

fn merge<K: Keeper>(mut into: Vec<K>, from: Vec<K>) -> Vec<K> {
    into.iter_mut().zip(from).for_each(|(into, from)| into.merge(from));
    into
}

/// Queries that are packed together.
struct Group {
    /// Of those that are scanned for.
    first: usize,
    packed: Packed,
    /// One a query, and zeros to the end of the last vector.
    scales: Floats,
}

fn groups(table: &Table<'_>, queries: &[&Query<'_>], isa: Isa) -> Vec<Group> {
    let most = (GROUP_BYTES / size_of::<f32>() / table.dim.max(1) / PANEL * PANEL).clamp(PANEL, GROUP);
    let mut groups = vec![];
    let mut first = 0;
    while first < queries.len() {
        let taken = group(queries.len() - first, most);
        let mut vectors = Vec::with_capacity(taken * table.dim);
        let together = &queries[first..first + taken];
        let scales: Vec<_> = together.iter().map(|query| bound::prepare(table.metric, query, &mut vectors)).collect();
        let packed = Packed::new(isa, table.dim, taken, &vectors);
        groups.push(Group { first, scales: Floats::copy(&scales, packed.columns()), packed });
        first += taken;
    }
    groups
}

/// How many of the queries that are left go together.
fn group(left: usize, most: usize) -> usize {
    match left % PANEL {
        _ if left >= most => most,
        1..=REST if left > PANEL => left - left % PANEL,
        _ => left,
    }
}

impl Group {
    /// The bars of its queries, and bars that nothing exceeds to the end of the last vector.
    fn bars<K: Keeper>(&self, keepers: &[K]) -> Floats {
        let mut bars = Floats::zeros(self.packed.columns());
        bars.fill(f32::INFINITY);
        let own = &keepers[self.first..][..self.packed.count()];
        bars.iter_mut().zip(own).for_each(|(bar, keeper)| *bar = keeper.bar());
        bars
    }
}

/// The terms of the span's rows, instead of what was there.
fn span_terms(limits: &Limits, dim: usize, span: &Piece<'_>, terms: &mut Vec<Term>) {
    terms.clear();
    match span.squared_norms {
        Some(known) => terms.extend(known.iter().map(|&squared_norm| limits.term(squared_norm))),
        None => terms.extend(span.rows.chunks_exact(dim.max(1)).map(|row| limits.term(exact::squared_norm(row)))),
    }
}

/// Offers what exceeds its bar.
struct Select<'a, K> {
    group: &'a Group,
    /// Products, [rows][columns].
    tile: &'a [f32],
    /// Of the rows there are products of.
    terms: &'a [Term],
    numbers: Numbers<'a>,
    bars: &'a mut [f32],
    keepers: &'a mut [K],
}

impl<K: Keeper> Kernel for Select<'_, K> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let columns = self.group.packed.columns();
        assert!(columns.is_multiple_of(L::WIDTH) && self.bars.len() >= columns && self.group.scales.len() >= columns);
        for (at, (products, term)) in self.tile.chunks_exact(columns).zip(self.terms).enumerate() {
            let (factor, slope, offset) = (lanes.splat(term.factor), lanes.splat(term.slope), lanes.splat(term.offset));
            for from in (0..self.keepers.len()).step_by(L::WIDTH) {
                // SAFETY: all three have `columns` numbers, a multiple of WIDTH above `from`.
                let (dot, scale, bar) = unsafe {
                    (
                        lanes.load(products.as_ptr().add(from)),
                        lanes.load(self.group.scales.as_ptr().add(from)),
                        lanes.load(self.bars.as_ptr().add(from)),
                    )
                };
                let bound = lanes.mul_add(dot, factor, lanes.mul_add(scale, slope, offset));
                let over = lanes.not_at_most(bound, bar);
                if over != 0 {
                    let mut bounds = [0.0; 16];
                    // SAFETY: no vector is wider than 16.
                    unsafe { lanes.store(bounds.as_mut_ptr(), bound) };
                    self.offer(at, from, over, &bounds);
                }
            }
        }
    }
}

impl<K: Keeper> Select<'_, K> {
    #[cold]
    #[inline(never)]
    fn offer(&mut self, at: usize, from: usize, mut over: u32, bounds: &[f32; 16]) {
        let row = self.numbers.at(at);
        while over != 0 {
            let lane = over.trailing_zeros() as usize;
            over &= over - 1;
            // Columns of padding reach their bar where a bound is NaN.
            if let Some(keeper) = self.keepers.get_mut(from + lane) {
                keeper.offer(row, bounds[lane]);
                self.bars[from + lane] = keeper.bar();
            }
        }
    }
}
