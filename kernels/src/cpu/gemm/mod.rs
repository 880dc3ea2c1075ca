//! GEMM in f32: inner products of many rows with a packed set of vectors (queries, centres, or the columns of a
//! weight). Search, k-means and encoders share it.
//!
//! Up to [`GEMV_COLUMNS`] vectors take the GEMV path: the vectors are kept as they are, and a tile of rows by vectors
//! accumulates along the dimension, lane by lane. It reads each row once, in whole cache lines, and is bound by memory.
//! More vectors take the GEMM path: they are packed into column panels as wide as the register tile, and rows are
//! broadcast against them, over blocks of the dimension that keep a panel in the L1 cache (Goto and van de Geijn,
//! "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008). Neither path copies the rows.
//!
//! A product does not depend on the other rows and vectors of the call, except that the two paths sum in different
//! orders. The error of both is at most [`error_bound`] times the product of the norms.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::simd::{Isa, Lanes, WithSimd};

mod aligned;
mod gemv;
mod panels;

pub(crate) use aligned::AlignedF32;
use panels::{DEPTH, Panel};

/// The most vectors that take the GEMV path.
pub(crate) const GEMV_COLUMNS: usize = 12;
/// Columns of the output are padded to a multiple of this, the widest vector.
const PAD: usize = 16;
/// Numbers in a cache line.
const LINE: usize = 16;

/// Bound of |computed - exact| relative to |row| |vector|, barring underflow and overflow: m u / (1 - m u), where u =
/// 2^-24 and m counts the roundings on the longest path from a product to its sum (Higham, "Accuracy and Stability of
/// Numerical Algorithms", 2nd ed., section 3.1).
pub(crate) fn error_bound(dim: usize) -> f64 {
    let gemv = dim.div_ceil(8) + 3;
    let gemm = dim.min(DEPTH) + dim.div_ceil(DEPTH);
    // One more for a product that is rounded before it is added.
    let path = (gemv.max(gemm) + 1) as f64 * f64::from(f32::EPSILON) / 2.0;
    path / (1.0 - path)
}

/// The best number of bytes of rows per call: they and the prefetched rows stay in the L2 cache and in the L1 TLB.
pub(crate) const ROW_BLOCK_BYTES: usize = 64 << 10;

/// The right-hand side of a product: vectors, packed.
pub(crate) struct PackedMatrix {
    isa: Isa,
    dim: usize,
    count: usize,
    data: AlignedF32,
    layout: Layout,
}

enum Layout {
    /// `data` is `[count][dim]`.
    Vectors,
    /// `data` is a sequence of blocks of the dimension, each a sequence of panels.
    Panels(Vec<Panel>),
}

/// The operand that comes from memory rather than from a cache, and is prefetched during the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefetch {
    /// The rows of the next call, assumed to follow those of this one in memory.
    Rows,
    /// The packed columns.
    Columns,
    /// Neither.
    None,
}

impl PackedMatrix {
    /// Packs `count` vectors of `dim` numbers each.
    pub(crate) fn new(isa: Isa, dim: usize, count: usize, vectors: &[f32]) -> Self {
        assert_eq!(vectors.len(), dim * count, "numbers of {count} vectors of {dim}");
        if count <= GEMV_COLUMNS {
            return Self { isa, dim, count, data: AlignedF32::copy(vectors, 0), layout: Layout::Vectors };
        }
        Self::of_vectors(isa, dim, count, vectors)
    }

    /// As [`Self::new`], for the GEMM path.
    pub(crate) fn of_vectors(isa: Isa, dim: usize, count: usize, vectors: &[f32]) -> Self {
        Self::in_panels(isa, dim, count, |packed, columns, from| {
            let all = vectors.chunks_exact(dim.max(1)).skip(columns.first).take(columns.columns);
            for (column, vector) in all.enumerate() {
                let to = packed[column..].iter_mut().step_by(columns.columns);
                to.zip(&vector[from..]).for_each(|(to, x)| *to = *x);
            }
        })
    }

    /// Packs the columns of a matrix [dim][count]: `row` returns the `count` numbers of a row, or an empty slice for
    /// zeros.
    pub(crate) fn of_columns<'a>(isa: Isa, dim: usize, count: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::in_panels(isa, dim, count, |packed, columns, from| {
            isa.run(CopyColumns { packed, columns, row: |d| row(from + d) });
        })
    }

    /// Packs panels. `fill` writes one block of the dimension of one panel: its numbers [depth][columns], the panel,
    /// and the first index of the dimension.
    fn in_panels(isa: Isa, dim: usize, count: usize, fill: impl Fn(&mut [f32], Panel, usize)) -> Self {
        let (width, limit) = isa.run(PanelShape);
        let columns = count.next_multiple_of(PAD);
        let panels = panels::panels(columns / width, limit, width);
        let mut data = AlignedF32::zeros(dim * columns);
        for panel in &panels {
            for (rows, numbers) in panel.blocks(dim, columns) {
                fill(&mut data[numbers], *panel, rows.start);
            }
        }
        Self { isa, dim, count, data, layout: Layout::Panels(panels) }
    }

    /// The number of vectors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if products take the GEMV path. Scattered rows then need not be gathered: a call per row costs no more.
    pub(crate) fn is_gemv(&self) -> bool {
        matches!(self.layout, Layout::Vectors)
    }

    /// Numbers in a row of the output: [`Self::count`] rounded up to whole SIMD vectors.
    pub(crate) fn columns(&self) -> usize {
        self.count.next_multiple_of(PAD)
    }

    /// `tile[r][v] = rows[r] . vectors[v]` for all of `rows`. Padding columns become 0 or keep their values.
    ///
    /// If rows come from memory, pass about [`ROW_BLOCK_BYTES`] of them per call.
    pub(crate) fn multiply(&self, rows: &[f32], tile: &mut [f32], prefetch: Prefetch) {
        let count = rows.len() / self.dim.max(1);
        let rows = StridedRows { numbers: &rows[..count * self.dim], pitch: self.dim, count };
        self.multiply_strided(rows, tile, false, prefetch);
    }

    /// As [`Self::multiply`], with rows at any distance; adds to the tile if `adds`.
    pub(crate) fn multiply_strided(&self, rows: StridedRows<'_>, tile: &mut [f32], adds: bool, prefetch: Prefetch) {
        let tile = &mut tile[..rows.count * self.columns()];
        if self.dim > 0 && rows.count > 0 {
            assert!(rows.pitch >= self.dim, "rows of {} numbers, {} apart", self.dim, rows.pitch);
            self.isa.run(Multiply { packed: self, rows, tile, adds, prefetch });
        } else if !adds {
            tile.fill(0.0);
        }
    }
}

/// The first numbers of rows that lie `pitch` numbers apart.
#[derive(Clone, Copy)]
pub(crate) struct StridedRows<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) pitch: usize,
    pub(crate) count: usize,
}

impl StridedRows<'_> {
    /// The numbers from the first of a row to the last of the first `dim` of another, `count` rows in all.
    #[inline(always)]
    fn taken(&self, row: usize, count: usize, dim: usize) -> &[f32] {
        &self.numbers[row * self.pitch..][..(count - 1) * self.pitch + dim]
    }
}

/// Queries the width of a vector and the most vectors per panel.
struct PanelShape;

impl WithSimd for PanelShape {
    type Out = (usize, usize);

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> (usize, usize) {
        (L::WIDTH, L::PANEL)
    }
}

/// Copies some columns of the rows of a matrix.
struct CopyColumns<'a, F> {
    /// [depth][columns].
    packed: &'a mut [f32],
    columns: Panel,
    row: F,
}

impl<'r, F: Fn(usize) -> &'r [f32]> WithSimd for CopyColumns<'_, F> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (d, packed) in self.packed.chunks_exact_mut(self.columns.columns).enumerate() {
            let there = (self.row)(d).get(self.columns.first..).unwrap_or_default();
            let there = &there[..there.len().min(packed.len())];
            let whole = there.len() / LINE * LINE;
            let to = packed.as_chunks_mut::<LINE>().0;
            let from = there.as_chunks::<LINE>().0;
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            packed[whole..].iter_mut().zip(&there[whole..]).for_each(|(to, from)| *to = *from);
        }
    }
}

struct Multiply<'a> {
    packed: &'a PackedMatrix,
    /// At least one row of `dim` > 0 numbers.
    rows: StridedRows<'a>,
    /// [rows][columns].
    tile: &'a mut [f32],
    /// True if products are added to the tile.
    adds: bool,
    prefetch: Prefetch,
}

impl WithSimd for Multiply<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        match &self.packed.layout {
            Layout::Vectors => self.gemv(lanes),
            Layout::Panels(panels) => self.gemm(lanes, panels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::f64_sums;

    fn wave(len: usize, pace: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * pace).sin()).collect()
    }

    #[test]
    fn products_are_within_the_error_bound_for_every_shape_and_instruction_set() {
        for isa in Isa::all() {
            for (rows, vectors) in [(1, 1), (3, 2), (4, 5), (9, 7), (31, 12), (17, 13), (33, 16), (7, 31), (25, 100)] {
                for dim in [1, 3, 15, 16, 17, 127, 128, 129, 300, 385] {
                    let data = wave(rows * dim, 0.37);
                    let held = wave(vectors * dim, 1.1);
                    let packed = PackedMatrix::new(isa, dim, vectors, &held);
                    let mut tile = vec![f32::NAN; rows * packed.columns()];
                    packed.multiply(&data, &mut tile, Prefetch::Rows);
                    for (index, row) in data.chunks(dim).enumerate() {
                        for (v, vector) in held.chunks(dim).enumerate() {
                            let norms = (f64_sums::squared_norm(row) * f64_sums::squared_norm(vector)).sqrt();
                            let error =
                                (f64::from(tile[index * packed.columns() + v]) - f64_sums::dot(row, vector)).abs();
                            assert!(error <= error_bound(dim) * norms, "{isa:?} {rows}x{vectors}x{dim}: {error}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_may_be_apart_and_products_added() {
        for isa in Isa::all() {
            for (count, vectors, dim) in [(1, 1, 5), (7, 3, 130), (9, 40, 33), (17, 100, 260)] {
                let pitch = dim + 3;
                let held = wave(vectors * dim, 1.1);
                let numbers = wave((count - 1) * pitch + dim, 0.37);
                let packed = PackedMatrix::new(isa, dim, vectors, &held);
                let rows: Vec<f32> = numbers.chunks(pitch).flat_map(|row| &row[..dim]).copied().collect();
                let mut dense = vec![0.0; count * packed.columns()];
                packed.multiply(&rows, &mut dense, Prefetch::None);
                let mut tile = dense.clone();
                let rows = StridedRows { numbers: &numbers, pitch, count };
                packed.multiply_strided(rows, &mut tile, false, Prefetch::None);
                assert_eq!(tile, dense, "{isa:?} {count}x{vectors}x{dim}");
                packed.multiply_strided(rows, &mut tile, true, Prefetch::Rows);
                for (row, once) in tile.chunks(packed.columns()).zip(dense.chunks(packed.columns())) {
                    for (twice, once) in row.iter().zip(&once[..vectors]) {
                        let error = (twice - 2.0 * once).abs();
                        assert!(error <= 1e-5 * dim as f32, "{isa:?} {count}x{vectors}x{dim}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn columns_of_a_matrix_are_multiplied_as_vectors() {
        let dim = 20;
        let count = 37;
        let rows = wave(3 * 20, 0.37);
        let vectors = wave(dim * count, 1.1);
        let matrix: Vec<Vec<f32>> = (0..dim).map(|d| vectors.iter().skip(d).step_by(dim).copied().collect()).collect();
        for isa in Isa::all() {
            let packed = [
                PackedMatrix::new(isa, dim, count, &vectors),
                PackedMatrix::of_columns(isa, dim, count, |d| &matrix[d]),
            ];
            let tiles = packed.map(|packed| {
                let mut tile = vec![0.0; 3 * packed.columns()];
                packed.multiply(&rows, &mut tile, Prefetch::None);
                tile
            });
            assert_eq!(tiles[0], tiles[1]);
        }
    }

    #[test]
    fn a_product_depends_neither_on_other_rows_nor_on_prefetching() {
        for isa in Isa::all() {
            for (vectors, dim) in [(5, 200), (40, 200), (100, 900)] {
                let data = wave(37 * dim, 0.37);
                let held = wave(vectors * dim, 1.1);
                let packed = PackedMatrix::new(isa, dim, vectors, &held);
                let mut tile = vec![0.0; 37 * packed.columns()];
                packed.multiply(&data, &mut tile, Prefetch::Rows);
                let mut same = tile.clone();
                packed.multiply(&data, &mut same, Prefetch::Columns);
                assert_eq!(same, tile, "{isa:?} {vectors}x{dim}");
                for (index, row) in data.chunks(dim).enumerate() {
                    let mut alone = vec![0.0; packed.columns()];
                    packed.multiply(row, &mut alone, Prefetch::None);
                    assert_eq!(alone[..vectors], tile[index * packed.columns()..][..vectors]);
                }
            }
        }
    }
}
