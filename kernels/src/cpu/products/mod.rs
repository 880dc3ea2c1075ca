//! Inner products of many rows with a packed set of vectors (queries, centres, or the columns of a weight): the one dense
//! product in f32 of search, k-means and encoders, in two forms.
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

use super::simd::{Isa, Kernel, Lanes};

mod few;
mod floats;
mod panels;

pub(crate) use floats::Floats;
use panels::{DEPTH, Panel};

/// Up to this many vectors take the first form.
const FEW: usize = 12;
/// Columns of a tile are padded to whole multiples of this, the widest vector.
const PAD: usize = 16;
/// Numbers in a cache line.
const LINE: usize = 16;

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
    /// `data` holds stretches of the dimension one after the other, each of panels one after the other.
    Panels(Vec<Panel>),
}

/// What lies far from the processor, and is asked for while what comes before it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Far {
    /// The rows of the next product, which lie behind those of this one, in the hope that there are some.
    Rows,
    /// The packed columns.
    Columns,
    /// Nothing does.
    Nothing,
}

impl Packed {
    /// Packs `count` vectors of `dim` numbers each.
    pub(crate) fn new(isa: Isa, dim: usize, count: usize, vectors: &[f32]) -> Self {
        assert_eq!(vectors.len(), dim * count, "numbers of {count} vectors of {dim}");
        if count <= FEW {
            return Self { isa, dim, count, data: Floats::copy(vectors, 0), form: Form::Few };
        }
        Self::in_panels(isa, dim, count, |packed, columns, from| {
            let all = vectors.chunks_exact(dim.max(1)).skip(columns.first).take(columns.columns);
            for (column, vector) in all.enumerate() {
                let to = packed[column..].iter_mut().step_by(columns.columns);
                to.zip(&vector[from..]).for_each(|(to, x)| *to = *x);
            }
        })
    }

    /// Packs the columns of a matrix [dim][count]: `row` gives `count` numbers of each row, or none for a row of zeros.
    pub(crate) fn of_columns<'a>(isa: Isa, dim: usize, count: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::in_panels(isa, dim, count, |packed, columns, from| {
            for (d, packed) in packed.chunks_exact_mut(columns.columns).enumerate() {
                let row = row(from + d);
                let there = row.get(columns.first..).unwrap_or_default();
                packed.iter_mut().zip(there).for_each(|(to, x)| *to = *x);
            }
        })
    }

    /// Lets `fill` write each stretch of each panel: its numbers [depth][columns], its columns, and where in the dimension
    /// it begins.
    fn in_panels(isa: Isa, dim: usize, count: usize, fill: impl Fn(&mut [f32], Panel, usize)) -> Self {
        let (width, most) = isa.run(Shape);
        let columns = count.next_multiple_of(PAD);
        let panels = panels::panels(columns / width, most, width);
        let mut data = Floats::zeros(dim * columns);
        for panel in &panels {
            for (rows, numbers) in panel.stretches(dim, columns) {
                fill(&mut data[numbers], *panel, rows.start);
            }
        }
        Self { isa, dim, count, data, form: Form::Panels(panels) }
    }

    /// How many vectors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether they are so few that rows need not lie one after the other: each is multiplied from where it lies.
    pub(crate) fn takes_single_rows(&self) -> bool {
        matches!(self.form, Form::Few)
    }

    /// Numbers in a row of the tile: [`Self::count`] rounded up, so that every row is whole vectors of the machine.
    pub(crate) fn columns(&self) -> usize {
        self.count.next_multiple_of(PAD)
    }

    /// `tile[r][v] = rows[r] . vectors[v]`, for as many rows as there are. Columns of padding are 0 or left alone.
    ///
    /// Where rows come from afar, a block of them of about [`BLOCK_BYTES`] does best.
    pub(crate) fn multiply(&self, rows: &[f32], tile: &mut [f32], far: Far) {
        let count = rows.len() / self.dim.max(1);
        let tile = &mut tile[..count * self.columns()];
        if self.dim == 0 {
            tile.fill(0.0);
            return;
        }
        self.isa.run(Multiply { packed: self, rows: &rows[..count * self.dim], tile, far });
    }
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
    far: Far,
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
                for dim in [1, 3, 15, 16, 17, 127, 128, 129, 300, 385] {
                    let (data, held) = (wave(rows * dim, 0.37), wave(vectors * dim, 1.1));
                    let packed = Packed::new(isa, dim, vectors, &held);
                    let mut tile = vec![f32::NAN; rows * packed.columns()];
                    packed.multiply(&data, &mut tile, Far::Rows);
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
                packed.multiply(&rows, &mut tile, Far::Nothing);
                tile
            });
            assert_eq!(tiles[0], tiles[1]);
        }
    }

    #[test]
    fn a_product_does_not_depend_on_its_neighbours_and_on_what_is_far() {
        for isa in Isa::all() {
            for (vectors, dim) in [(5, 200), (40, 200), (100, 900)] {
                let (data, held) = (wave(37 * dim, 0.37), wave(vectors * dim, 1.1));
                let packed = Packed::new(isa, dim, vectors, &held);
                let mut tile = vec![0.0; 37 * packed.columns()];
                packed.multiply(&data, &mut tile, Far::Rows);
                let mut same = tile.clone();
                packed.multiply(&data, &mut same, Far::Columns);
                assert_eq!(same, tile, "{isa:?} {vectors}x{dim}");
                for (at, row) in data.chunks(dim).enumerate() {
                    let mut alone = vec![0.0; packed.columns()];
                    packed.multiply(row, &mut alone, Far::Nothing);
                    assert_eq!(alone[..vectors], tile[at * packed.columns()..][..vectors]);
                }
            }
        }
    }
}
