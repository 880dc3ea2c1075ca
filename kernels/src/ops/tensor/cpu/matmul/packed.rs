//! Products in f32 by the crate's GEMM.

use std::ops::Range;

use super::{Factors, FinishScratch, Operand, Shape, TileOf};
use crate::{
    OpError,
    cpu::{
        Worker,
        gemm::{GEMV_COLUMNS, PackedMatrix, Prefetch, StridedRows},
        simd::Isa,
        slices::SLICE,
    },
    op::product,
};

/// Rows and common dimension of the blocks that are multiplied: those of the left factor and of the output fit the L2 cache.
const ROWS: usize = 128;
const INNER: usize = 512;
/// Columns that are packed together, a multiple of the panels of all instruction sets.
const COLUMNS: usize = 384;
/// Columns of the strips of small products are a multiple of this.
const MIN_COLUMNS: usize = 32;
/// Numbers between rows of a copied block, so that they are in different sets of the L1 cache.
const SPACING: usize = 16;
/// The most sums of a task.
const SUMS: usize = 1 << 18;
/// The most bytes of packed columns that exist at a time.
const PACKED_BYTES: usize = 64 << 20;
/// Common dimension of the blocks of products with few columns: rows are read once, as they are if they are f32 and adjacent.
const GEMV_INNER: usize = 1 << 16;
const GEMV_ROWS: usize = 64;
/// Products with fewer multiply-adds are one task each.
const WHOLE: u64 = 1 << 21;

/// Some columns of the right factor, in blocks of the common dimension.
struct Strip {
    columns: Range<usize>,
    blocks: Vec<PackedMatrix>,
}

impl Strip {
    /// Numbers in a row of its sums.
    fn pitch(&self) -> usize {
        self.blocks.first().map_or(self.columns.len(), PackedMatrix::columns)
    }
}

struct PackedBuffers {
    finish: FinishScratch,
    left: Vec<f32>,
    /// The sums of the strips of a task, one after the other.
    sums: Vec<f32>,
    native: Vec<u64>,
}

/// Returns true if a strip of packed columns is large, and larger than the right factor, whose elements then repeat.
pub(super) fn exceeds_factor(right: &Operand) -> bool {
    let dims = right.shape.iter().zip(&right.strides).skip(1);
    let stored =
        dims.filter(|(_, stride)| **stride != 0).map(|(extent, _)| *extent as u64).fold(1, u64::saturating_mul);
    let strip = product([right.shape[1], right.shape[2].min(COLUMNS)]);
    strip > stored && strip > (PACKED_BYTES / size_of::<f32>()) as u64
}

pub(super) fn run(
    factors: &Factors,
    is_shared: bool,
    finish_scratch: &(impl Fn() -> FinishScratch + Sync + Send),
    write: &(impl Fn(&mut TileOf<'_, f32>, &mut FinishScratch) + Sync + Send),
    worker: &Worker,
) -> Result<(), OpError> {
    let shape = factors.shape;
    let product = Product { factors, finish_scratch, write, worker };
    let of_matrix = product.cost(shape.rows, shape.columns);
    let threads = worker.pool().threads();
    let has_many = shape.batch >= 4 * threads && of_matrix <= SLICE / 16;
    if !is_shared && (of_matrix <= WHOLE || has_many) {
        return product.multiply_matrices();
    }
    let group = if is_shared { shape.batch } else { 1 };
    let width = shape.columns.div_ceil(2 * threads).next_multiple_of(MIN_COLUMNS).min(COLUMNS);
    let of_group = product.cost(shape.rows.saturating_mul(group), shape.columns);
    let is_small = of_group <= SLICE && shape.columns.div_ceil(width) >= threads;
    (0..shape.batch).step_by(group).try_for_each(|first| {
        let batches = first..first + group;
        if is_small { product.multiply_strips(&batches, width) } else { product.multiply_blocks(&batches) }
    })
}

struct Product<'a, F, W> {
    factors: &'a Factors,
    finish_scratch: &'a F,
    write: &'a W,
    worker: &'a Worker,
}

impl<F, W> Product<'_, F, W>
where
    F: Fn() -> FinishScratch + Sync + Send,
    W: Fn(&mut TileOf<'_, f32>, &mut FinishScratch) + Sync + Send,
{
    fn scratch(&self) -> PackedBuffers {
        PackedBuffers { finish: (self.finish_scratch)(), left: vec![], sums: vec![], native: vec![] }
    }

    fn cost(&self, rows: usize, columns: usize) -> u64 {
        product([rows, columns, self.factors.shape.inner + 16])
    }

    /// A matrix of the batch in each task.
    fn multiply_matrices(&self) -> Result<(), OpError> {
        let shape = self.factors.shape;
        let multiply = |scratch: &mut PackedBuffers, batch: usize| {
            for columns in parts(0..shape.columns, COLUMNS) {
                let strip = [pack(self.factors, batch, columns)];
                blocks(shape).for_each(|rows| self.multiply(scratch, batch, rows, &strip));
            }
        };
        let cost = 2 * self.cost(shape.rows, shape.columns);
        self.worker.for_each_joining(0..shape.batch, |_| cost, || self.scratch(), multiply)
    }

    /// Some columns in each task, which packs them: for small products this takes less time than waiting until all are packed. The
    /// batches share the right factor.
    fn multiply_strips(&self, batches: &Range<usize>, width: usize) -> Result<(), OpError> {
        let shape = self.factors.shape;
        let multiply = |scratch: &mut PackedBuffers, columns: Range<usize>| {
            let strip = [pack(self.factors, batches.start, columns)];
            for batch in batches.clone() {
                blocks(shape).for_each(|rows| self.multiply(scratch, batch, rows, &strip));
            }
        };
        let cost = |columns: &Range<usize>| self.cost(shape.rows * batches.len(), columns.len());
        let strips = parts(0..shape.columns, width);
        self.worker.for_each_joining(strips, cost, || self.scratch(), multiply)
    }

    /// Packs the right factor, which the batches share, and multiplies a block of rows by some strips in each task.
    fn multiply_blocks(&self, batches: &Range<usize>) -> Result<(), OpError> {
        let shape = self.factors.shape;
        let worker = self.worker;
        let maximum = (PACKED_BYTES / 4 / shape.inner.max(1) / COLUMNS).max(1) * COLUMNS;
        for columns in parts(0..shape.columns, maximum) {
            let packing = |columns: &Range<usize>| product([columns.len(), shape.inner, 64]);
            let strips = worker.map_joining(parts(columns, COLUMNS).collect(), packing, |columns| {
                pack(self.factors, batches.start, columns)
            })?;
            // A task copies its rows once for all of its strips.
            let tasks = (8 * worker.pool().threads()).div_ceil(batches.len() * blocks(shape).count());
            let together = strips.len().div_ceil(tasks).clamp(1, SUMS / ROWS / COLUMNS);
            let items: Vec<_> = batches
                .clone()
                .flat_map(|batch| blocks(shape).map(move |rows| (batch, rows)))
                .flat_map(|(batch, rows)| strips.chunks(together).map(move |strips| (batch, rows.clone(), strips)))
                .collect();
            worker.for_each_joining(
                items,
                |(_, rows, strips)| self.cost(rows.len(), strips.iter().map(|strip| strip.columns.len()).sum()),
                || self.scratch(),
                |scratch, (batch, rows, strips)| self.multiply(scratch, batch, rows, strips),
            )?;
        }
        Ok(())
    }

    /// Multiplies some rows by some strips.
    fn multiply(&self, scratch: &mut PackedBuffers, batch: usize, rows: Range<usize>, strips: &[Strip]) {
        let PackedBuffers { finish, left, sums, native } = scratch;
        let len = rows.len() * strips.iter().map(Strip::pitch).sum::<usize>();
        sums.resize(sums.len().max(len), 0.0);
        let first = batch * self.factors.shape.rows;
        for (nth, inner) in inner_blocks(self.factors.shape).enumerate() {
            // SAFETY: a step does not write what it reads.
            let left = unsafe { left_rows(self.factors, first + rows.start..first + rows.end, inner, left, native) };
            let mut sums = &mut sums[..];
            for strip in strips {
                let packed = &strip.blocks[nth];
                let prefetch = if packed.is_gemv() { Prefetch::Rows } else { Prefetch::None };
                packed.multiply_strided(left, sums, nth > 0, prefetch);
                sums = &mut sums[rows.len() * strip.pitch()..];
            }
        }
        let mut sums = &mut sums[..len];
        for strip in strips {
            let pitch = strip.pitch();
            let columns = strip.columns.clone();
            let (sums_of_strip, rest) = sums.split_at_mut(rows.len() * pitch);
            sums = rest;
            if strip.blocks.is_empty() {
                sums_of_strip.fill(0.0);
            }
            (self.write)(&mut TileOf { sums: sums_of_strip, pitch, batch, rows: rows.clone(), columns }, finish);
        }
    }
}

/// Ranges of `width`; the last may be shorter.
fn parts(range: Range<usize>, width: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(width).map(move |index| index..(index + width).min(range.end))
}

/// Blocks of rows.
fn blocks(shape: Shape) -> impl Iterator<Item = Range<usize>> {
    parts(0..shape.rows, if shape.columns <= GEMV_COLUMNS { GEMV_ROWS } else { ROWS })
}

/// Blocks of the common dimension.
fn inner_blocks(shape: Shape) -> impl Iterator<Item = Range<usize>> {
    parts(0..shape.inner, if shape.columns <= GEMV_COLUMNS { GEMV_INNER } else { INNER })
}

/// Packs some columns of the right factor. Strips of a product with many columns take the GEMM path, however narrow they are: its sums
/// do not depend on how columns are cut.
fn pack(factors: &Factors, batch: usize, columns: Range<usize>) -> Strip {
    let shape = factors.shape;
    let is_gemv = shape.columns <= GEMV_COLUMNS;
    let count = columns.len();
    let mut block = vec![];
    let mut native = vec![];
    let blocks = inner_blocks(shape).map(|inner| {
        let isa = Isa::best();
        let dim = inner.len();
        let rows = batch * shape.inner + inner.start..batch * shape.inner + inner.end;
        // SAFETY: a step does not write what it reads.
        let whole = || unsafe { factors.b.rows.borrow::<f32>(rows.clone(), 0..shape.columns) };
        if !factors.b.is_transposed
            && !is_gemv
            && let Some(whole) = whole()
        {
            return PackedMatrix::of_columns(isa, dim, count, |index| &whole[index * shape.columns..][columns.clone()]);
        }
        block.resize(dim * count, 0.0_f32);
        if factors.b.is_transposed {
            let vectors = batch * shape.columns + columns.start..batch * shape.columns + columns.end;
            // SAFETY: as above.
            unsafe { factors.b.rows.read(vectors, inner, &mut block, &mut native) };
        } else {
            // SAFETY: as above.
            unsafe { factors.b.rows.read(rows, columns.clone(), &mut block, &mut native) };
        }
        match (factors.b.is_transposed, is_gemv) {
            (true, true) => PackedMatrix::new(isa, dim, count, &block),
            (true, false) => PackedMatrix::of_vectors(isa, dim, count, &block),
            (false, true) => {
                let vectors: Vec<f32> =
                    (0..count).flat_map(|index| block[index..].iter().step_by(count)).copied().collect();
                PackedMatrix::new(isa, dim, count, &vectors)
            }
            (false, false) => PackedMatrix::of_columns(isa, dim, count, |index| &block[index * count..][..count]),
        }
    });
    let blocks = blocks.collect();
    Strip { columns, blocks }
}

/// A block of rows of the left factor: where it is if it is all of them, else a copy, which is closer together.
///
/// # Safety
/// No one writes these elements meanwhile.
unsafe fn left_rows<'a>(
    factors: &'a Factors,
    rows: Range<usize>,
    inner: Range<usize>,
    to: &'a mut Vec<f32>,
    native: &mut Vec<u64>,
) -> StridedRows<'a> {
    let count = rows.len();
    let whole = factors.shape.inner;
    // SAFETY: the caller promises it.
    let borrowed = unsafe { factors.a.borrow::<f32>(rows.clone(), 0..whole) };
    if let Some(numbers) = borrowed.filter(|_| inner.len() == whole) {
        return StridedRows { numbers, pitch: whole, count };
    }
    let pitch = inner.len() + SPACING;
    to.resize(to.len().max(count * pitch), 0.0);
    for (nth, to) in to.chunks_exact_mut(pitch).take(count).enumerate() {
        let row = rows.start + nth;
        let to = &mut to[..inner.len()];
        match borrowed {
            Some(numbers) => to.copy_from_slice(&numbers[nth * whole..][inner.clone()]),
            // SAFETY: as above.
            None => unsafe { factors.a.read(row..row + 1, inner.clone(), to, native) },
        }
    }
    StridedRows { numbers: to, pitch, count }
}
