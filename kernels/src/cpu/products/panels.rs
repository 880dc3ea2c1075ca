//! The second form: numbers of rows are broadcast against panels of columns as wide as the registers.
//!
//! Panels lie in the order in which they are met: for each [`STRETCH`] of the dimension all panels, so that the tile stays
//! near while one is, and whatever comes next lies right behind it.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_range_loop, reason = "ranges of constant length become registers")]

use std::ops::Range;

use super::{Far, LINE, Multiply};
use crate::cpu::simd::Lanes;

/// Depth of a panel that stays in the first cache together with the rows it meets.
pub(super) const DEPTH: usize = 128;
/// Depth over which rows meet a panel before they meet the next, if it is the columns that come from afar.
const STRETCH: usize = 3 * DEPTH;
/// Steps along the dimension between which memory is asked for.
const STEPS: usize = 8;

/// Some columns.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) first: usize,
    pub(super) columns: usize,
}

impl Panel {
    /// Where in all packed numbers those of some of a panel's rows are, which are in one stretch.
    fn numbers(self, dim: usize, columns: usize, rows: Range<usize>) -> Range<usize> {
        let start = rows.start / STRETCH * STRETCH;
        let depth = STRETCH.min(dim - start);
        let at = start * columns + self.first * depth;
        at + (rows.start - start) * self.columns..at + (rows.end - start) * self.columns
    }

    /// All its numbers, by rows of one stretch each.
    pub(super) fn stretches(self, dim: usize, columns: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        (0..dim).step_by(STRETCH).map(move |start| {
            let rows = start..(start + STRETCH).min(dim);
            (rows.clone(), self.numbers(dim, columns, rows))
        })
    }
}

/// Spreads vectors of columns of some width evenly over the least number of panels.
pub(super) fn panels(vectors: usize, most: usize, width: usize) -> Vec<Panel> {
    let count = vectors.div_ceil(most);
    let bound = |panel: usize| panel * vectors / count * width;
    (0..count).map(|panel| Panel { first: bound(panel), columns: bound(panel + 1) - bound(panel) }).collect()
}

impl Multiply<'_> {
    #[inline(always)]
    pub(super) fn panels<L: Lanes>(&mut self, lanes: L, panels: &[Panel]) {
        let dim = self.packed.dim;
        let stretch = match self.far {
            Far::Columns => STRETCH,
            Far::Rows | Far::Nothing => DEPTH,
        };
        for start in (0..dim).step_by(stretch) {
            let end = (start + stretch).min(dim);
            for (index, panel) in panels.iter().enumerate() {
                for from in (start..end).step_by(DEPTH) {
                    let share = (L::ROWS * DEPTH / LINE).div_ceil(panels.len());
                    self.panel(lanes, *panel, from..(from + DEPTH).min(end), index * share..(index + 1) * share);
                }
            }
        }
    }

    /// All rows by a part of a panel. `share`: which lines of every [`DEPTH`] of the next rows to ask for, if any.
    #[inline(always)]
    fn panel<L: Lanes>(&mut self, lanes: L, panel: Panel, depth: Range<usize>, share: Range<usize>) {
        let dim = self.packed.dim;
        let columns = self.packed.columns();
        let packed = &self.packed.data[panel.numbers(dim, columns, depth.clone())];
        let rows = self.rows.len() / dim;
        let lines = (packed.len() / LINE).div_ceil(rows.div_ceil(L::ROWS));
        let mut row = 0;
        while row < rows {
            let taken = group(rows - row, L::ROWS);
            let at = Outer {
                packed: packed.as_ptr(),
                rows: self.rows[row * dim..][..taken * dim][depth.start..].as_ptr(),
                dim,
                depth: depth.len(),
                tile: self.tile[row * columns..][..taken * columns][panel.first..].as_mut_ptr(),
                columns,
                add: depth.start > 0,
                ahead: match self.far {
                    Far::Nothing => Ahead::nothing(),
                    Far::Rows => {
                        Ahead::rows(&self.rows[row * dim + depth.start..], self.rows.len(), dim, share.clone())
                    }
                    Far::Columns => Ahead::columns(packed, row / L::ROWS * lines, lines),
                },
            };
            // SAFETY: the slices above are `depth` rows of the panel, `taken` rows from column `depth.start` on, and the
            // tile's rows for them, which are at least `first + columns` of the panel long.
            unsafe { at.run(lanes, panel.columns / L::WIDTH, taken) };
            row += taken;
        }
    }
}

/// Lines that a tile asks for. Their addresses need not be readable.
#[derive(Clone, Copy)]
struct Ahead {
    from: *const f32,
    /// The next one.
    line: usize,
    left: usize,
    /// How many at a time.
    each: usize,
    /// So many lie side by side, as a power of two, and then others `stride` numbers further on.
    run: u32,
    stride: usize,
}

impl Ahead {
    #[inline(always)]
    fn nothing() -> Self {
        Self { from: std::ptr::null(), line: 0, left: 0, each: 0, run: 0, stride: 0 }
    }

    /// Of the rows that lie `behind` numbers further on than these.
    #[inline(always)]
    fn rows(rows: &[f32], behind: usize, dim: usize, share: Range<usize>) -> Self {
        let run = (DEPTH / LINE).ilog2();
        Self { line: share.start, run, stride: dim, ..Self::new(rows.as_ptr().wrapping_add(behind), share.len()) }
    }

    /// Of what lies behind these packed columns, as much as they are.
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
    fn ask<L: Lanes>(&mut self, lanes: L) {
        for _ in 0..self.each.min(self.left) {
            let place = (self.line >> self.run) * self.stride + (self.line & ((1 << self.run) - 1)) * LINE;
            lanes.prefetch(self.from.wrapping_add(place));
            self.line += 1;
        }
        self.left -= self.each.min(self.left);
    }
}

/// The largest supported number of rows that is neither above `left` nor above `most`.
#[inline(always)]
fn group(left: usize, most: usize) -> usize {
    match left.min(most) {
        8.. => 8,
        6.. => 6,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// A tile.
#[derive(Clone, Copy)]
struct Outer {
    /// [depth][vectors of the panel].
    packed: *const f32,
    /// The first of `depth` numbers of a row; the next row's are `dim` further on.
    rows: *const f32,
    dim: usize,
    depth: usize,
    tile: *mut f32,
    columns: usize,
    /// Adds to the tile instead of overwriting it.
    add: bool,
    ahead: Ahead,
}

impl Outer {
    /// # Safety
    /// The pointers are good for a panel of `vectors` vectors and for `rows` rows.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self, lanes: L, vectors: usize, rows: usize) {
        // SAFETY: the caller's.
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
        // SAFETY: the caller's.
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
            ahead.ask(lanes);
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
                    let sum = if self.add { lanes.add(lanes.load(to), sums[r][v]) } else { sums[r][v] };
                    lanes.store(to, sum);
                }
            }
        }
    }
    /// Adds the products of column `d` of the rows and row `d` of the panel.
    #[inline(always)]
    unsafe fn step<L: Lanes, const V: usize, const R: usize>(self, lanes: L, d: usize, sums: &mut [[L::Vector; V]; R]) {
        let mut panel = [lanes.zero(); V];
        for v in 0..V {
            // SAFETY: row `d` of the panel.
            panel[v] = unsafe { lanes.load(self.packed.add((d * V + v) * L::WIDTH)) };
        }
        for r in 0..R {
            // SAFETY: column `d` of row `r`.
            let x = lanes.splat(unsafe { *self.rows.add(r * self.dim + d) });
            for v in 0..V {
                sums[r][v] = lanes.mul_add(x, panel[v], sums[r][v]);
            }
        }
    }
}
