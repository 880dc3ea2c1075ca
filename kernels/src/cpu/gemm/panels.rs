//! The GEMM path: numbers of rows are broadcast against column panels as wide as the register tile.
//!
//! Panels are stored in the order of their use, all panels of one [`PACK_DEPTH`] block of the dimension before the next
//! block: the output tile stays in cache, and the next panel follows in memory.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_range_loop, reason = "ranges of constant length become registers")]

use std::ops::Range;

use super::{LINE, Multiply, Prefetch, StridedRows};
use crate::cpu::simd::Lanes;

/// Depth of a panel that fits the L1 cache together with its rows.
pub(super) const DEPTH: usize = 128;
/// Depth of a packed block of the dimension. If the columns come from memory, rows are multiplied with this depth of a
/// panel before the next panel.
const PACK_DEPTH: usize = 3 * DEPTH;
/// Steps along the dimension between two prefetches.
const STEPS: usize = 8;

/// A range of columns.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) first: usize,
    pub(super) columns: usize,
}

impl Panel {
    /// The position in the packed data of some rows of this panel, all in one packed block.
    fn numbers(self, dim: usize, columns: usize, rows: Range<usize>) -> Range<usize> {
        let start = rows.start / PACK_DEPTH * PACK_DEPTH;
        let depth = PACK_DEPTH.min(dim - start);
        let offset = start * columns + self.first * depth;
        offset + (rows.start - start) * self.columns..offset + (rows.end - start) * self.columns
    }

    /// The packed blocks of this panel: the rows of each, and its position in the packed data.
    pub(super) fn blocks(self, dim: usize, columns: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        (0..dim).step_by(PACK_DEPTH).map(move |start| {
            let rows = start..(start + PACK_DEPTH).min(dim);
            (rows.clone(), self.numbers(dim, columns, rows))
        })
    }
}

/// Distributes `vectors` SIMD vectors of columns evenly over the least number of panels.
pub(super) fn panels(vectors: usize, limit: usize, width: usize) -> Vec<Panel> {
    let count = vectors.div_ceil(limit);
    let bound = |panel: usize| panel * vectors / count * width;
    (0..count).map(|panel| Panel { first: bound(panel), columns: bound(panel + 1) - bound(panel) }).collect()
}

impl Multiply<'_> {
    #[inline(always)]
    pub(super) fn gemm<L: Lanes>(&mut self, lanes: L, panels: &[Panel]) {
        let dim = self.packed.dim;
        let block = match self.prefetch {
            Prefetch::Columns => PACK_DEPTH,
            Prefetch::Rows | Prefetch::None => DEPTH,
        };
        for start in (0..dim).step_by(block) {
            let end = (start + block).min(dim);
            for (index, panel) in panels.iter().enumerate() {
                for from in (start..end).step_by(DEPTH) {
                    let share = (L::ROWS * DEPTH / LINE).div_ceil(panels.len());
                    self.panel(lanes, *panel, from..(from + DEPTH).min(end), index * share..(index + 1) * share);
                }
            }
        }
    }

    /// All rows by `depth` of a panel. `share`: the cache lines of every [`DEPTH`] of the next rows to prefetch, if
    /// any.
    #[inline(always)]
    fn panel<L: Lanes>(&mut self, lanes: L, panel: Panel, depth: Range<usize>, share: Range<usize>) {
        let dim = self.packed.dim;
        let columns = self.packed.columns();
        let packed = &self.packed.data[panel.numbers(dim, columns, depth.clone())];
        let StridedRows { numbers, pitch, count: rows } = self.rows;
        let lines = (packed.len() / LINE).div_ceil(rows.div_ceil(L::ROWS));
        let mut row = 0;
        while row < rows {
            let taken = group(rows - row, L::ROWS);
            let tile = RegisterTile {
                packed: packed.as_ptr(),
                rows: self.rows.taken(row, taken, dim)[depth.start..].as_ptr(),
                pitch,
                depth: depth.len(),
                tile: self.tile[row * columns..][..taken * columns][panel.first..].as_mut_ptr(),
                columns,
                adds: self.adds || depth.start > 0,
                ahead: match self.prefetch {
                    Prefetch::None => Ahead::nothing(),
                    Prefetch::Rows => {
                        Ahead::rows(&numbers[row * pitch + depth.start..], numbers.len(), pitch, share.clone())
                    }
                    Prefetch::Columns => Ahead::columns(packed, row / L::ROWS * lines, lines),
                },
            };
            // SAFETY: the slices above are `depth` rows of the panel, `taken` rows from column `depth.start` on, and
            // the tile's rows for them, which are at least `first + columns` of the panel long.
            unsafe { tile.run(lanes, panel.columns / L::WIDTH, taken) };
            row += taken;
        }
    }
}

/// The cache lines that a register tile prefetches. Their addresses need not be valid.
#[derive(Clone, Copy)]
struct Ahead {
    from: *const f32,
    /// The next line.
    line: usize,
    left: usize,
    /// Lines per prefetch.
    each: usize,
    /// Logarithm of the number of contiguous lines; runs are `stride` numbers apart.
    run: u32,
    stride: usize,
}

impl Ahead {
    #[inline(always)]
    fn nothing() -> Self {
        Self { from: std::ptr::null(), line: 0, left: 0, each: 0, run: 0, stride: 0 }
    }

    /// Rows that follow `rows` in memory at a distance of `offset` numbers.
    #[inline(always)]
    fn rows(rows: &[f32], offset: usize, pitch: usize, share: Range<usize>) -> Self {
        let run = (DEPTH / LINE).ilog2();
        Self { line: share.start, run, stride: pitch, ..Self::new(rows.as_ptr().wrapping_add(offset), share.len()) }
    }

    /// The packed columns after `packed`, as many bytes as these.
    #[inline(always)]
    fn columns(packed: &[f32], line: usize, lines: usize) -> Self {
        let left = lines.min((packed.len() / LINE).saturating_sub(line));
        Self { line, run: usize::BITS - 1, ..Self::new(packed.as_ptr_range().end, left) }
    }

    #[inline(always)]
    fn new(from: *const f32, left: usize) -> Self {
        Self { from, left, each: left.div_ceil(DEPTH / STEPS), ..Self::nothing() }
    }

    #[inline(always)]
    fn prefetch<L: Lanes>(&mut self, lanes: L) {
        for _ in 0..self.each.min(self.left) {
            let offset = (self.line >> self.run) * self.stride + (self.line & ((1 << self.run) - 1)) * LINE;
            lanes.prefetch(self.from.wrapping_add(offset));
            self.line += 1;
        }
        self.left -= self.each.min(self.left);
    }
}

/// The largest supported number of rows that is at most `left` and `limit`.
#[inline(always)]
fn group(left: usize, limit: usize) -> usize {
    match left.min(limit) {
        8.. => 8,
        6.. => 6,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// One register tile of the product, computed as a sum of outer products.
#[derive(Clone, Copy)]
struct RegisterTile {
    /// [depth][vectors of the panel].
    packed: *const f32,
    /// [rows][depth], rows `pitch` numbers apart.
    rows: *const f32,
    pitch: usize,
    depth: usize,
    tile: *mut f32,
    columns: usize,
    /// Accumulate into the tile instead of overwriting it.
    adds: bool,
    ahead: Ahead,
}

impl RegisterTile {
    /// # Safety
    /// The pointers are valid for a panel of `vectors` vectors and for `rows` rows.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self, lanes: L, vectors: usize, rows: usize) {
        // SAFETY: the caller promises it.
        unsafe {
            match vectors {
                3 => self.panel::<L, 3>(lanes, rows),
                2 => self.panel::<L, 2>(lanes, rows),
                _ => self.panel::<L, 1>(lanes, rows),
            }
        }
    }

    #[inline(always)]
    unsafe fn panel<L: Lanes, const V: usize>(self, lanes: L, rows: usize) {
        // SAFETY: the caller promises it.
        unsafe {
            match rows {
                8 => self.tile::<L, V, 8>(lanes),
                6 => self.tile::<L, V, 6>(lanes),
                4 => self.tile::<L, V, 4>(lanes),
                2 => self.tile::<L, V, 2>(lanes),
                _ => self.tile::<L, V, 1>(lanes),
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, const V: usize, const R: usize>(self, lanes: L) {
        let mut sums = [[lanes.zero(); V]; R];
        let mut ahead = self.ahead;
        let mut d = 0;
        while d + STEPS <= self.depth {
            for step in d..d + STEPS {
                // SAFETY: `step` is less than `depth`.
                unsafe { self.step(lanes, step, &mut sums) };
            }
            ahead.prefetch(lanes);
            d += STEPS;
        }
        for step in d..self.depth {
            // SAFETY: `step` is less than `depth`.
            unsafe { self.step(lanes, step, &mut sums) };
        }
        for r in 0..R {
            for v in 0..V {
                // SAFETY: row `r` of the tile, which has the panel's columns.
                unsafe {
                    let to = self.tile.add(r * self.columns + v * L::WIDTH);
                    let sum = if self.adds { lanes.add(lanes.load(to), sums[r][v]) } else { sums[r][v] };
                    lanes.store(to, sum);
                }
            }
        }
    }

    /// Adds the outer product of column `d` of the rows and row `d` of the panel.
    #[inline(always)]
    unsafe fn step<L: Lanes, const V: usize, const R: usize>(self, lanes: L, d: usize, sums: &mut [[L::Vector; V]; R]) {
        let mut panel = [lanes.zero(); V];
        for v in 0..V {
            // SAFETY: row `d` of the panel.
            panel[v] = unsafe { lanes.load(self.packed.add((d * V + v) * L::WIDTH)) };
        }
        for r in 0..R {
            // SAFETY: column `d` of row `r`.
            let x = lanes.splat(unsafe { *self.rows.add(r * self.pitch + d) });
            for v in 0..V {
                sums[r][v] = lanes.mul_add(x, panel[v], sums[r][v]);
            }
        }
    }
}
