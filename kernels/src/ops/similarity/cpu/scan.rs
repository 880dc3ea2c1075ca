//! One pass over all rows, or over listed ones, for all queries: inner products in blocks that stay in the L2 cache,
//! fused with the upper bounds. A row whose bound reaches a query's pruning threshold goes to that query's collector.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::{
    bounds::{self, RowBound, ScanError},
    collectors::Collector,
    table::{Query, RowRange, Table},
};
use crate::{
    OpError,
    cpu::{
        Worker, f64_sums,
        gemm::{AlignedF32, PackedMatrix, Prefetch, ROW_BLOCK_BYTES},
        simd::{Isa, Lanes, WithSimd},
        slices::{READ_COST, grouped, total},
    },
    op::product,
};

/// Bytes of rows that a thread takes at a time.
const SPAN_BYTES: usize = 1 << 20;
/// The most rows per block, so that its inner products stay in the cache.
const BLOCK_ROWS: usize = 256;
/// Bytes of queries that are packed together.
const GROUP_BYTES: usize = 512 << 10;
/// The most queries that are packed together, likewise for the inner products.
const GROUP_QUERIES: usize = 144;
/// The most queries of a scan: [`SPAN_BYTES`] of rows meet them in the time of a slice. Whole groups of any size.
pub(super) const PASS_QUERIES: usize = 7 * GROUP_QUERIES;
/// Queries in a full panel of the widest vectors.
const PANEL: usize = 48;
/// Up to this many queries beyond full panels form a group of their own instead of being padded.
const REST: usize = 8;

/// Scans the listed rows, or all if `rows` is `None`; returns one collector per query, in the same order.
pub(super) fn scan<C: Collector>(
    table: &Table<'_>,
    rows: Option<&[u32]>,
    queries: &[&Query<'_>],
    worker: &Worker,
    isa: Isa,
    collector: impl Fn(usize) -> C + Sync,
) -> Result<Vec<C>, OpError> {
    let row_bytes = size_of::<f32>() * table.dim.max(1);
    let block = (ROW_BLOCK_BYTES / row_bytes).clamp(8, BLOCK_ROWS) / 8 * 8;
    let len = rows.map_or(table.len, <[u32]>::len);
    let threads = worker.pool().threads();
    let share = (len * row_bytes / (4 * threads)).clamp(block * row_bytes, SPAN_BYTES);
    let maximum = (share / row_bytes).max(block);
    let spans: Vec<Span<'_>> = match rows {
        None => table.ranges(maximum).into_iter().map(Span::Contiguous).collect(),
        Some(rows) => rows.chunks(maximum).map(Span::Listed).collect(),
    };
    let max_norm = bounds::max_query_norm(table.metric, queries.iter().map(|query| query.squared_norm));
    let error = ScanError::new(table.metric, table.dim, max_norm);
    let groups = groups(table, queries, isa);
    let gathers = rows.is_some() && !groups.iter().all(|group| group.packed.is_gemv());
    let scan = Scan { table, isa, block, groups, gathers, error };
    let part = || ScanThread::new(&scan, (0..queries.len()).map(&collector).collect());
    let row_cost = product([table.dim]).saturating_mul(READ_COST.saturating_add(queries.len() as u64));
    let cost = row_cost.saturating_mul(len as u64);
    let parts = if !worker.fits_slice(cost) {
        scan_in_slices(&scan, &spans, row_cost, part, worker)?
    } else if worker.runs_inline(cost) {
        vec![scan_at_once(&scan, &spans, &AtomicUsize::new(0), part)]
    } else {
        let next = AtomicUsize::new(0);
        worker.pool().run_parallel(threads.min(spans.len()).max(1), || scan_at_once(&scan, &spans, &next, part))
    };
    worker.preemption_point()?;
    Ok(parts.into_iter().map(|part| part.collectors).reduce(merge).unwrap_or_default())
}

/// Scans spans from `next` on, as long as other threads leave any.
fn scan_at_once<C: Collector>(
    scan: &Scan<'_>,
    spans: &[Span<'_>],
    next: &AtomicUsize,
    part: impl Fn() -> ScanThread<C>,
) -> ScanThread<C> {
    let mut part = part();
    while let Some(span) = spans.get(next.fetch_add(1, Relaxed)) {
        part.scan_span(scan, span);
    }
    part
}

/// Scans all spans in slices. A slice goes on with what some earlier one has collected.
fn scan_in_slices<C: Collector>(
    scan: &Scan<'_>,
    spans: &[Span<'_>],
    row_cost: u64,
    part: impl Fn() -> ScanThread<C> + Sync,
    worker: &Worker,
) -> Result<Vec<ScanThread<C>>, OpError> {
    let cost = |span: &Span<'_>| row_cost.saturating_mul(span.rows(scan.table.dim) as u64);
    let costs: Vec<_> = spans.iter().map(cost).collect();
    let parts = Mutex::new(vec![]);
    let lock = || parts.lock().unwrap_or_else(PoisonError::into_inner);
    worker.run_tasks(grouped(&costs, worker.task_cost(total(&costs))), |group| {
        let free = lock().pop();
        let mut own = free.unwrap_or_else(&part);
        for span in &spans[group] {
            own.scan_span(scan, span);
        }
        lock().push(own);
    })?;
    Ok(parts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// State that all threads of a scan share.
struct Scan<'a> {
    table: &'a Table<'a>,
    isa: Isa,
    /// The most rows per block.
    block: usize,
    groups: Vec<QueryGroup>,
    /// True if listed rows are copied together, because some group takes the GEMM path.
    gathers: bool,
    error: ScanError,
}

/// The state of one thread of a scan.
struct ScanThread<C> {
    collectors: Vec<C>,
    /// The pruning thresholds of each group.
    thresholds: Vec<AlignedF32>,
    tile: AlignedF32,
    bounds: Vec<RowBound>,
    /// A block of rows, if they are gathered.
    gathered: AlignedF32,
}

impl<C: Collector> ScanThread<C> {
    fn new(scan: &Scan<'_>, collectors: Vec<C>) -> Self {
        let columns = scan.groups.iter().map(|group| group.packed.columns()).max().unwrap_or(0);
        Self {
            thresholds: scan.groups.iter().map(|group| group.thresholds(&collectors)).collect(),
            collectors,
            tile: AlignedF32::zeros(scan.block * columns),
            bounds: vec![],
            gathered: AlignedF32::zeros(if scan.gathers { scan.block * scan.table.dim } else { 0 }),
        }
    }

    fn scan_span(&mut self, scan: &Scan<'_>, span: &Span<'_>) {
        match span {
            Span::Contiguous(range) => self.scan_range(scan, range),
            Span::Listed(rows) => self.scan_listed(scan, rows),
        }
    }

    fn scan_range(&mut self, scan: &Scan<'_>, span: &RowRange<'_>) {
        let dim = scan.table.dim;
        row_bounds(&scan.error, dim, span, &mut self.bounds);
        for (group, thresholds) in scan.groups.iter().zip(&mut self.thresholds) {
            for range in span.split(dim, scan.block) {
                let collectors = &mut self.collectors[group.first..][..group.packed.count()];
                group.packed.multiply(range.rows, &mut self.tile, Prefetch::Rows);
                let bounds = &self.bounds[range.first - span.first..][..range.rows.len() / dim.max(1)];
                let ids = RowIds::From(range.first);
                scan.isa.run(PruneTile { group, tile: &self.tile, bounds, ids, thresholds, collectors });
            }
        }
    }

    /// Scans listed rows in blocks, in place if all groups take the GEMV path, else gathered.
    fn scan_listed(&mut self, scan: &Scan<'_>, rows: &[u32]) {
        for list in rows.chunks(scan.block) {
            self.bounds.clear();
            self.bounds.extend(list.iter().map(|&row| scan.error.row_bound(scan.table.squared_norm(row as usize))));
            let gathered = if scan.gathers { gather(scan.table, list, &mut self.gathered) } else { &[] };
            for (group, thresholds) in scan.groups.iter().zip(&mut self.thresholds) {
                let collectors = &mut self.collectors[group.first..][..group.packed.count()];
                if scan.gathers {
                    group.packed.multiply(gathered, &mut self.tile, Prefetch::None);
                } else {
                    let tile = self.tile.chunks_exact_mut(group.packed.columns());
                    for (row, tile) in prefetched(scan.table, list).zip(tile) {
                        group.packed.multiply(row, tile, Prefetch::None);
                    }
                }
                let bounds = &self.bounds;
                let ids = RowIds::List(list);
                scan.isa.run(PruneTile { group, tile: &self.tile, bounds, ids, thresholds, collectors });
            }
        }
    }
}

/// A thread's unit of work.
enum Span<'a> {
    Contiguous(RowRange<'a>),
    Listed(&'a [u32]),
}

impl Span<'_> {
    fn rows(&self, dim: usize) -> usize {
        match self {
            Self::Contiguous(range) => range.rows.len() / dim.max(1),
            Self::Listed(rows) => rows.len(),
        }
    }
}

/// The indices of a block's rows.
#[derive(Clone, Copy)]
enum RowIds<'a> {
    /// Consecutive from this one on.
    From(usize),
    List(&'a [u32]),
}

impl RowIds<'_> {
    fn at(self, index: usize) -> u32 {
        match self {
            Self::From(first) => u32::try_from(first + index).expect("rows are counted in u32"),
            Self::List(rows) => rows[index],
        }
    }
}

/// Prefetch distance in listed rows.
const PREFETCH_ROWS: usize = 8;

/// Listed rows, prefetched.
fn prefetched<'a>(table: &Table<'a>, list: &[u32]) -> impl Iterator<Item = &'a [f32]> {
    list.iter().take(PREFETCH_ROWS).for_each(|&row| table.prefetch(row));
    list.iter().enumerate().map(|(index, &row)| {
        list.get(index + PREFETCH_ROWS).inspect(|&&row| table.prefetch(row));
        table.row(row as usize)
    })
}

/// Copies listed rows into contiguous memory.
fn gather<'a>(table: &Table<'_>, list: &[u32], to: &'a mut AlignedF32) -> &'a [f32] {
    for (row, to) in prefetched(table, list).zip(to.chunks_exact_mut(table.dim.max(1))) {
        to.copy_from_slice(row);
    }
    &to[..list.len() * table.dim]
}

fn merge<C: Collector>(mut into: Vec<C>, from: Vec<C>) -> Vec<C> {
    into.iter_mut().zip(from).for_each(|(into, from)| into.merge(from));
    into
}

/// Queries that are packed together.
struct QueryGroup {
    /// The index of the first query among those of the scan.
    first: usize,
    packed: PackedMatrix,
    /// One per query, padded with zeros.
    scales: AlignedF32,
}

fn groups(table: &Table<'_>, queries: &[&Query<'_>], isa: Isa) -> Vec<QueryGroup> {
    let maximum = (GROUP_BYTES / size_of::<f32>() / table.dim.max(1) / PANEL * PANEL).clamp(PANEL, GROUP_QUERIES);
    let mut groups = vec![];
    let mut first = 0;
    while first < queries.len() {
        let taken = group_len(queries.len() - first, maximum);
        let mut vectors = Vec::with_capacity(taken * table.dim);
        let group = &queries[first..first + taken];
        let scales: Vec<_> =
            group.iter().map(|query| bounds::prepare_query(table.metric, query, &mut vectors)).collect();
        let packed = PackedMatrix::new(isa, table.dim, taken, &vectors);
        groups.push(QueryGroup { first, scales: AlignedF32::copy(&scales, packed.columns()), packed });
        first += taken;
    }
    groups
}

/// The number of queries in the next group, of those that are left.
fn group_len(left: usize, limit: usize) -> usize {
    match left % PANEL {
        _ if left >= limit => limit,
        1..=REST if left > PANEL => left - left % PANEL,
        _ => left,
    }
}

impl QueryGroup {
    /// The pruning thresholds of its queries, padded with infinity, which no bound exceeds.
    fn thresholds<C: Collector>(&self, collectors: &[C]) -> AlignedF32 {
        let mut thresholds = AlignedF32::zeros(self.packed.columns());
        thresholds.fill(f32::INFINITY);
        let own = &collectors[self.first..][..self.packed.count()];
        thresholds.iter_mut().zip(own).for_each(|(threshold, collector)| *threshold = collector.pruning_threshold());
        thresholds
    }
}

/// Replaces `bounds` by those of the rows.
fn row_bounds(error: &ScanError, dim: usize, range: &RowRange<'_>, bounds: &mut Vec<RowBound>) {
    bounds.clear();
    if let Some(known) = range.squared_norms {
        bounds.extend(known.iter().map(|&squared_norm| error.row_bound(squared_norm)));
    } else {
        let rows = range.rows.chunks_exact(dim.max(1));
        bounds.extend(rows.map(|row| error.row_bound(f64_sums::squared_norm(row))));
    }
}

/// Offers the rows whose bound exceeds a query's pruning threshold.
struct PruneTile<'a, C> {
    group: &'a QueryGroup,
    /// Inner products, [rows][columns].
    tile: &'a [f32],
    /// One per row.
    bounds: &'a [RowBound],
    ids: RowIds<'a>,
    thresholds: &'a mut [f32],
    collectors: &'a mut [C],
}

impl<C: Collector> WithSimd for PruneTile<'_, C> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let columns = self.group.packed.columns();
        let long_enough = self.thresholds.len() >= columns && self.group.scales.len() >= columns;
        assert!(columns.is_multiple_of(L::WIDTH) && long_enough);
        for (index, (products, row)) in self.tile.chunks_exact(columns).zip(self.bounds).enumerate() {
            let factor = lanes.splat(row.factor);
            let slope = lanes.splat(row.slope);
            let offset = lanes.splat(row.offset);
            for from in (0..self.collectors.len()).step_by(L::WIDTH) {
                // SAFETY: all three have `columns` numbers, a multiple of WIDTH above `from`.
                let (dot, scale, threshold) = unsafe {
                    (
                        lanes.load(products.as_ptr().add(from)),
                        lanes.load(self.group.scales.as_ptr().add(from)),
                        lanes.load(self.thresholds.as_ptr().add(from)),
                    )
                };
                let bound = lanes.mul_add(dot, factor, lanes.mul_add(scale, slope, offset));
                let over = lanes.not_at_most(bound, threshold);
                if over != 0 {
                    let mut bounds = [0.0; 16];
                    // SAFETY: no vector is wider than 16.
                    unsafe { lanes.store(bounds.as_mut_ptr(), bound) };
                    self.offer(index, from, over, &bounds);
                }
            }
        }
    }
}

impl<C: Collector> PruneTile<'_, C> {
    #[cold]
    #[inline(never)]
    fn offer(&mut self, index: usize, from: usize, mut over: u32, bounds: &[f32; 16]) {
        let row = self.ids.at(index);
        while over != 0 {
            let lane = over.trailing_zeros() as usize;
            over &= over - 1;
            // Padding columns reach their threshold if a bound is NaN.
            if let Some(collector) = self.collectors.get_mut(from + lane) {
                collector.offer(row, bounds[lane]);
                self.thresholds[from + lane] = collector.pruning_threshold();
            }
        }
    }
}
