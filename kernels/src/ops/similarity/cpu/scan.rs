//! One pass over all rows for all queries: products in blocks that stay in the second cache, and what reaches its query's
//! bar goes to that query's keeper.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;

use super::{
    bound::{self, Limits, Term},
    exact,
    keep::Keeper,
    table::{Piece, Query, Table},
};
use crate::cpu::{
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

/// Scans the table for some of the queries; as many keepers, in the same order.
pub(super) fn scan<K: Keeper>(
    table: &Table<'_>,
    queries: &[&Query<'_>],
    threads: usize,
    isa: Isa,
    keeper: impl Fn(usize) -> K + Sync,
) -> Vec<K> {
    let row_bytes = size_of::<f32>() * table.dim.max(1);
    let block = (BLOCK_BYTES / row_bytes).clamp(8, BLOCK_ROWS) / 8 * 8;
    let share = (table.len * row_bytes / (4 * threads)).clamp(block * row_bytes, SPAN_BYTES);
    let spans = table.pieces((share / row_bytes).max(block));
    let groups = groups(table, queries, isa);
    let longest = bound::longest(table.metric, queries.iter().map(|query| query.squared_norm));
    let limits = Limits::new(table.metric, table.dim, longest);
    let next = AtomicUsize::new(0);
    let part = |_| {
        let mut keepers: Vec<K> = (0..queries.len()).map(&keeper).collect();
        let mut bars: Vec<Floats> = groups.iter().map(|group| group.bars(&keepers)).collect();
        let mut tile = Floats::zeros(block * groups.iter().map(|group| group.packed.columns()).max().unwrap_or(0));
        let mut terms = vec![];
        while let Some(span) = spans.get(next.fetch_add(1, Relaxed)) {
            span_terms(&limits, table.dim, span, &mut terms);
            for (group, bars) in groups.iter().zip(&mut bars) {
                for piece in span.split(table.dim, block) {
                    let (tile, keepers) = (&mut tile, &mut keepers[group.first..][..group.packed.count()]);
                    group.packed.multiply(piece.rows, tile, Far::Rows);
                    let terms = &terms[piece.first - span.first..][..piece.rows.len() / table.dim.max(1)];
                    isa.run(Select { group, tile, terms, first_row: piece.first, bars, keepers });
                }
            }
        }
        keepers
    };
    let parts = threads.min(spans.len()).max(1);
    (0..parts).into_par_iter().with_max_len(1).map(part).reduce_with(merge).unwrap_or_default()
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
    first_row: usize,
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
        let row = u32::try_from(self.first_row + at).expect("rows are counted in u32");
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
