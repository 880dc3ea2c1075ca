//! Inner products of many rows with a packed set of vectors (queries, or centres): the one dense product of search and
//! k-means, in two forms.
//!
//! Few vectors are held as they are, and a tile of rows by vectors sums along the dimension, lane by lane: it reads each
//! row once, in whole cache lines, and is bound by memory. Many are packed column-wise into panels as wide as the
//! registers, and rows are broadcast against them, over blocks of the dimension that keep a panel in the first cache
//! (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008). Neither copies
//! the rows.
//!
//! A product does not depend on which rows or vectors stand beside it, except that the two forms sum in another order.
//! Both err by at most [`error_bound`] of the product of the norms.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_range_loop, reason = "ranges of constant length become registers")]

use std::ops::{Deref, DerefMut};

use super::simd::{Isa, Kernel, Lanes};

/// Up to this many vectors take the first form.
const FEW: usize = 12;
/// Columns of a tile are padded to whole multiples of this, the widest vector.
const PAD: usize = 16;
/// Depth of a panel that stays in the first cache together with the rows it meets.
const DEPTH: usize = 128;
/// Numbers in a cache line.
const LINE: usize = 16;
/// Numbers between what is read and what is asked for ahead of it, in the first form.
const AHEAD: usize = 2048;

/// What |computed - exact| may be at most, as a share of |row| |vector|, as long as nothing underflows or overflows: m u /
/// (1 - m u), where u = 2^-24 and m counts the roundings on the longest path from a product to its sum (Higham, "Accuracy
/// and Stability of Numerical Algorithms", 2nd ed., section 3.1).
pub(crate) fn error_bound(dim: usize) -> f64 {
    let few = dim.div_ceil(8) + 3;
    let panels = dim.min(DEPTH) + dim.div_ceil(DEPTH);
    // One more for a product that is rounded before it is added.
    let path = (few.max(panels) + 1) as f64 * f64::from(f32::EPSILON) / 2.0;
    path / (1.0 - path)
}

/// Bytes of rows that are best multiplied at a time: few enough that they and those asked for ahead stay in the second
/// cache and in the first translation buffer.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// Vectors to multiply rows with.
pub(crate) struct Packed {
    isa: Isa,
    dim: usize,
    count: usize,
    data: Floats,
    form: Form,
}

enum Form {
    /// `data` holds the vectors one after the other.
    Few,
    /// `data` holds panels one after the other, each [dim][columns].
    Panels(Vec<Panel>),
}

#[derive(Clone, Copy)]
struct Panel {
    first: usize,
    vectors: usize,
}

impl Packed {
    /// Packs `count` vectors of `dim` numbers each.
    pub(crate) fn new(isa: Isa, dim: usize, count: usize, vectors: &[f32]) -> Self {
        assert_eq!(vectors.len(), dim * count, "numbers of {count} vectors of {dim}");
        if count <= FEW {
            return Self { isa, dim, count, data: Floats::copy(vectors, 0), form: Form::Few };
        }
        Self::in_panels(isa, dim, count, |packed, first, columns| {
            for (column, vector) in vectors.chunks_exact(dim.max(1)).skip(first).take(columns).enumerate() {
                packed[column..].iter_mut().step_by(columns).zip(vector).for_each(|(to, x)| *to = *x);
            }
        })
    }

    /// Packs the columns of a matrix [dim][count]: `row` gives `count` numbers of each row, or none for a row of zeros.
    pub(crate) fn of_columns<'a>(isa: Isa, dim: usize, count: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::in_panels(isa, dim, count, |packed, first, columns| {
            for (d, packed) in packed.chunks_exact_mut(columns).enumerate() {
                let row = row(d);
                let there = row.get(first..).unwrap_or_default();
                packed.iter_mut().zip(there).for_each(|(to, x)| *to = *x);
            }
        })
    }

    /// Lets `fill` write each panel: its numbers [dim][columns], its first vector, and its columns.
    fn in_panels(isa: Isa, dim: usize, count: usize, fill: impl Fn(&mut [f32], usize, usize)) -> Self {
        let (width, most) = isa.run(Shape);
        let panels = panels(count.next_multiple_of(PAD) / width, most);
        let mut data = Floats::zeros(dim * count.next_multiple_of(PAD));
        for panel in &panels {
            let columns = panel.vectors * width;
            let first = panel.first * width;
            fill(&mut data[first * dim..][..columns * dim], first, columns);
        }
        Self { isa, dim, count, data, form: Form::Panels(panels) }
    }

    /// How many vectors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Numbers in a row of the tile: [`Self::count`] rounded up, so that every row is whole vectors of the machine.
    pub(crate) fn columns(&self) -> usize {
        self.count.next_multiple_of(PAD)
    }

    /// `tile[r][v] = rows[r] . vectors[v]`, for as many rows as there are. Columns of padding are 0 or left alone.
    ///
    /// A block of rows of about [`BLOCK_BYTES`] does best. Meanwhile the memory behind the rows is asked for, in the hope
    /// that the next block lies there.
    pub(crate) fn multiply(&self, rows: &[f32], tile: &mut [f32]) {
        let count = rows.len() / self.dim.max(1);
        let tile = &mut tile[..count * self.columns()];
        if self.dim == 0 {
            tile.fill(0.0);
            return;
        }
        self.isa.run(Multiply { packed: self, rows: &rows[..count * self.dim], tile });
    }
}

/// Spreads so many vectors of columns evenly over the least number of panels.
fn panels(vectors: usize, most: usize) -> Vec<Panel> {
    let count = vectors.div_ceil(most);
    let bound = |panel: usize| panel * vectors / count;
    (0..count).map(|panel| Panel { first: bound(panel), vectors: bound(panel + 1) - bound(panel) }).collect()
}

/// Width of a vector, and most vectors a panel.
struct Shape;

impl Kernel for Shape {
    type Out = (usize, usize);

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> (usize, usize) {
        (L::WIDTH, L::PANEL)
    }
}

struct Multiply<'a> {
    packed: &'a Packed,
    /// [rows][dim], `dim` > 0.
    rows: &'a [f32],
    /// [rows][columns].
    tile: &'a mut [f32],
}

impl Kernel for Multiply<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        match &self.packed.form {
            Form::Few => self.few(lanes),
            Form::Panels(panels) => self.panels(lanes, panels),
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    fn few<L: Lanes>(&mut self, lanes: L) {
        let (dim, count) = (self.packed.dim, self.packed.count);
        let rows = self.rows.len() / dim;
        let groups = count.div_ceil(if L::WIDTH == 16 { 4 } else { 3 });
        let mut row = 0;
        while row < rows {
            let taken: usize = match (rows - row, L::WIDTH) {
                (4.., 16) => 4,
                (2.., _) => 2,
                _ => 1,
            };
            let share = taken.div_ceil(groups);
            for group in 0..groups {
                let (first, end) = (group * count / groups, (group + 1) * count / groups);
                let at = Dots {
                    rows: self.rows[row * dim..][..taken * dim].as_ptr(),
                    vectors: self.packed.data[first * dim..end * dim].as_ptr(),
                    dim,
                    ahead: AHEAD + group * share * dim,
                    share,
                    tile: self.tile[row * PAD..][..taken * PAD][first..].as_mut_ptr(),
                };
                // SAFETY: the slices above are `taken` rows, `end - first` vectors and the tile's rows for them: few
                // vectors have tile rows of PAD numbers, since FEW <= PAD.
                unsafe { at.run(lanes, taken, end - first) };
            }
            row += taken;
        }
    }

    #[inline(always)]
    fn panels<L: Lanes>(&mut self, lanes: L, panels: &[Panel]) {
        let dim = self.packed.dim;
        let columns = self.packed.columns();
        let rows = self.rows.len() / dim;
        let behind = self.rows.as_ptr().wrapping_add(self.rows.len());
        let share = (L::ROWS * DEPTH / LINE).div_ceil(panels.len());
        for from in (0..dim).step_by(DEPTH) {
            let depth = DEPTH.min(dim - from);
            for (index, panel) in panels.iter().enumerate() {
                let (first, width) = (panel.first * L::WIDTH, panel.vectors * L::WIDTH);
                let packed = self.packed.data[first * dim..][from * width..][..depth * width].as_ptr();
                let mut row = 0;
                while row < rows {
                    let taken = group(rows - row, L::ROWS);
                    let at = Outer {
                        packed,
                        rows: self.rows[row * dim..][..taken * dim][from..].as_ptr(),
                        dim,
                        depth,
                        tile: self.tile[row * columns..][..taken * columns][first..].as_mut_ptr(),
                        columns,
                        add: from > 0,
                        ahead: behind.wrapping_add(row * dim + from),
                        line: index * share,
                        between: (1 << (DEPTH / share).ilog2()) - 1,
                    };
                    // SAFETY: the slices above are `depth` rows of the panel, `taken` rows from column `from` on, and
                    // the tile's rows for them, which are at least `first + width` long.
                    unsafe { at.run(lanes, panel.vectors, taken) };
                    row += taken;
                }
            }
        }
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

/// A tile of the first form.
#[derive(Clone, Copy)]
struct Dots {
    rows: *const f32,
    vectors: *const f32,
    dim: usize,
    tile: *mut f32,
    /// Where to ask for memory, counted from the first row, and how many lines a step.
    ahead: usize,
    share: usize,
}

impl Dots {
    /// # Safety
    /// `rows` rows and `vectors` vectors of `dim` numbers can be read, and `rows` rows of the tile written.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self, lanes: L, rows: usize, vectors: usize) {
        // SAFETY: the caller's.
        unsafe {
            match rows {
                4 => self.rows::<L, 4>(lanes, vectors),
                2 => self.rows::<L, 2>(lanes, vectors),
                _ => self.rows::<L, 1>(lanes, vectors),
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<L: Lanes, const R: usize>(self, lanes: L, vectors: usize) {
        // SAFETY: the caller's.
        unsafe {
            match vectors {
                4 => self.tile::<L, R, 4>(lanes),
                3 => self.tile::<L, R, 3>(lanes),
                2 => self.tile::<L, R, 2>(lanes),
                _ => self.tile::<L, R, 1>(lanes),
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, const R: usize, const V: usize>(self, lanes: L) {
        let mut sums = [[lanes.zero(); V]; R];
        let whole = self.dim - self.dim % L::WIDTH;
        let mut ahead = self.rows.wrapping_add(self.ahead);
        let mut at = 0;
        while at < whole {
            for _ in 0..self.share {
                lanes.prefetch(ahead);
                ahead = ahead.wrapping_add(LINE);
            }
            // SAFETY: `at + WIDTH` is at most `dim`.
            unsafe { self.step(lanes, &mut sums, |from| lanes.load(from.add(at))) };
            at += L::WIDTH;
        }
        if at < self.dim {
            // SAFETY: `dim - at` numbers are left, fewer than WIDTH.
            unsafe { self.step(lanes, &mut sums, |from| lanes.load_first(from.add(at), self.dim - at)) };
        }
        for r in 0..R {
            for v in 0..V {
                // SAFETY: R rows of V numbers, in tile rows of PAD.
                unsafe { *self.tile.add(r * PAD + v) = lanes.sum(sums[r][v]) };
            }
        }
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const R: usize, const V: usize>(
        self,
        lanes: L,
        sums: &mut [[L::Vector; V]; R],
        load: impl Fn(*const f32) -> L::Vector,
    ) {
        let mut rows = [lanes.zero(); R];
        for r in 0..R {
            // SAFETY: the pointers stay inside the R rows.
            rows[r] = load(unsafe { self.rows.add(r * self.dim) });
        }
        for v in 0..V {
            // SAFETY: the pointers stay inside the V vectors.
            let vector = load(unsafe { self.vectors.add(v * self.dim) });
            for r in 0..R {
                sums[r][v] = lanes.mul_add(rows[r], vector, sums[r][v]);
            }
        }
    }
}

/// A tile of the second form.
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
    /// The same numbers of the next block, which of their lines to ask for first, and how many steps go by before another:
    /// one less than a power of two.
    ahead: *const f32,
    line: usize,
    between: usize,
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
        let mut line = self.line;
        for d in 0..self.depth {
            if d & self.between == 0 {
                let place = line / (DEPTH / LINE) * self.dim + line % (DEPTH / LINE) * LINE;
                lanes.prefetch(self.ahead.wrapping_add(place));
                line += 1;
            }
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
}

/// A cache line.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Numbers that begin on a cache line, and fill whole ones.
pub(crate) struct Floats(Vec<Line>);

impl Floats {
    /// At least `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self(vec![Line([0.0; 16]); len.div_ceil(16)])
    }

    /// A copy, with zeros behind it up to a length.
    pub(crate) fn copy(from: &[f32], len: usize) -> Self {
        let mut floats = Self::zeros(len.max(from.len()));
        floats[..from.len()].copy_from_slice(from);
        floats
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::exact;

    fn wave(len: usize, pace: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * pace).sin()).collect()
    }

    #[test]
    fn products_are_within_their_bound_for_every_shape_and_instruction_set() {
        for isa in Isa::all() {
            for (rows, vectors) in [(1, 1), (3, 2), (4, 5), (9, 7), (31, 12), (17, 13), (33, 16), (7, 31), (25, 100)] {
                for dim in [1, 3, 15, 16, 17, 127, 128, 129, 300] {
                    let (data, held) = (wave(rows * dim, 0.37), wave(vectors * dim, 1.1));
                    let packed = Packed::new(isa, dim, vectors, &held);
                    let mut tile = vec![f32::NAN; rows * packed.columns()];
                    packed.multiply(&data, &mut tile);
                    for (at, row) in data.chunks(dim).enumerate() {
                        for (v, vector) in held.chunks(dim).enumerate() {
                            let norms = (exact::squared_norm(row) * exact::squared_norm(vector)).sqrt();
                            let error = (f64::from(tile[at * packed.columns() + v]) - exact::dot(row, vector)).abs();
                            assert!(error <= error_bound(dim) * norms, "{isa:?} {rows}x{vectors}x{dim}: {error}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn columns_of_a_matrix_are_multiplied_as_vectors() {
        let (dim, count, rows) = (20, 37, wave(3 * 20, 0.37));
        let vectors = wave(dim * count, 1.1);
        let matrix: Vec<Vec<f32>> = (0..dim).map(|d| vectors.iter().skip(d).step_by(dim).copied().collect()).collect();
        for isa in Isa::all() {
            let packed = [Packed::new(isa, dim, count, &vectors), Packed::of_columns(isa, dim, count, |d| &matrix[d])];
            let tiles = packed.map(|packed| {
                let mut tile = vec![0.0; 3 * packed.columns()];
                packed.multiply(&rows, &mut tile);
                tile
            });
            assert_eq!(tiles[0], tiles[1]);
        }
    }

    #[test]
    fn a_product_does_not_depend_on_its_neighbours() {
        for isa in Isa::all() {
            for vectors in [5, 40] {
                let (dim, rows) = (200, 37);
                let (data, held) = (wave(rows * dim, 0.37), wave(vectors * dim, 1.1));
                let packed = Packed::new(isa, dim, vectors, &held);
                let mut tile = vec![0.0; rows * packed.columns()];
                packed.multiply(&data, &mut tile);
                for (at, row) in data.chunks(dim).enumerate() {
                    let mut alone = vec![0.0; packed.columns()];
                    packed.multiply(row, &mut alone);
                    assert_eq!(alone[..vectors], tile[at * packed.columns()..][..vectors]);
                }
            }
        }
    }
}
