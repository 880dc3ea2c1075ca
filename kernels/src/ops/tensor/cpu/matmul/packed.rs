//! Products in f32 by the crate's GEMM.

use std::ops::Range;

use super::{Factors, FinishScratch, Shape, TileOf};
use crate::{
    OpError,
    cpu::{
        Worker,
        gemm::{GEMV_COLUMNS, PackedMatrix, Prefetch},
        simd::Isa,
    },
    op::product,
};

/// Rows, common dimension and columns of the blocks that are multiplied: those of the left factor and of the output fit the L2 cache.
const ROWS: usize = 64;
const INNER: usize = 512;
const COLUMNS: usize = 384;
/// The most bytes of packed columns that exist at a time.
const PACKED_BYTES: usize = 64 << 20;
/// Common dimension of the blocks of products with few columns: rows are read once, as they are if they are f32 and adjacent.
const GEMV_INNER: usize = 1 << 16;
/// Products with fewer multiply-adds are one task each.
const WHOLE: u64 = 1 << 21;

/// Blocks of the right factor: `[strips][blocks of the common dimension]`.
type Packed = Vec<Vec<PackedMatrix>>;

struct Scratch {
    finish: FinishScratch,
    left: Vec<f32>,
    product: Vec<f32>,
    sums: Vec<f32>,
    native: Vec<u64>,
}

pub(super) fn run(
    factors: &Factors,
    is_shared: bool,
    finish_scratch: &(impl Fn() -> FinishScratch + Sync + Send),
    write: &(impl Fn(&mut TileOf<'_, f32>, &mut FinishScratch) + Sync + Send),
    worker: &Worker,
) -> Result<(), OpError> {
    let shape = factors.shape;
    let scratch = || Scratch { finish: finish_scratch(), left: vec![], product: vec![], sums: vec![], native: vec![] };
    let cost = |rows: usize, columns: usize| product([rows, columns, shape.inner + 16]);
    let strips =
        |columns: Range<usize>| columns.clone().step_by(COLUMNS).map(move |at| at..(at + COLUMNS).min(columns.end));
    let blocks = |batch: usize| (0..shape.rows).step_by(ROWS).map(move |at| (batch, at..(at + ROWS).min(shape.rows)));
    if cost(shape.rows, shape.columns) <= WHOLE && !is_shared {
        let multiply = |scratch: &mut Scratch, batch: usize| {
            for columns in strips(0..shape.columns) {
                let packed = pack(factors, batch, &columns);
                blocks(batch).for_each(|(batch, rows)| tile(factors, scratch, batch, rows, &columns, &packed, write));
            }
        };
        let batches = (0..shape.batch).collect();
        return worker.for_each(batches, |_| 2 * cost(shape.rows, shape.columns), scratch, multiply);
    }
    let most = (PACKED_BYTES / 4 / shape.inner.max(1) / COLUMNS).max(1) * COLUMNS;
    for batches in (0..shape.batch).step_by(if is_shared { shape.batch } else { 1 }) {
        let end = if is_shared { shape.batch } else { batches + 1 };
        for start in (0..shape.columns).step_by(most) {
            let strips: Vec<_> = strips(start..(start + most).min(shape.columns)).collect();
            let packing = |columns: &Range<usize>| product([columns.len(), shape.inner, 64]);
            let packed: Packed = worker.map(strips.clone(), packing, |columns| pack(factors, batches, &columns))?;
            let items = (batches..end).flat_map(blocks).flat_map(|(batch, rows)| {
                strips.iter().zip(&packed).map(move |(columns, packed)| (batch, rows.clone(), columns, packed))
            });
            worker.for_each(
                items.collect::<Vec<_>>(),
                |(_, rows, columns, _)| cost(rows.len(), columns.len()),
                scratch,
                |scratch, (batch, rows, columns, packed)| tile(factors, scratch, batch, rows, columns, packed, write),
            )?;
        }
    }
    Ok(())
}

/// The blocks of the common dimension.
fn inner_blocks(shape: Shape) -> impl Iterator<Item = Range<usize>> {
    let block = if shape.columns <= GEMV_COLUMNS { GEMV_INNER } else { INNER };
    (0..shape.inner).step_by(block).map(move |at| at..(at + block).min(shape.inner))
}

/// Packs some columns of the right factor.
fn pack(factors: &Factors, batch: usize, columns: &Range<usize>) -> Vec<PackedMatrix> {
    let shape = factors.shape;
    let (mut block, mut native) = (vec![], vec![]);
    let pack = |inner: Range<usize>| {
        block.resize(inner.len() * columns.len(), 0.0_f32);
        let (first, extent) = if factors.b.is_transposed { (columns, shape.columns) } else { (&inner, shape.inner) };
        let rows = batch * extent + first.start..batch * extent + first.end;
        let across = if factors.b.is_transposed { &inner } else { columns };
        // SAFETY: a step does not write what it reads.
        unsafe { factors.b.rows.read(rows, across.clone(), &mut block, &mut native) };
        if factors.b.is_transposed {
            PackedMatrix::new(Isa::best(), inner.len(), columns.len(), &block)
        } else if columns.len() <= GEMV_COLUMNS {
            let vectors: Vec<f32> =
                (0..columns.len()).flat_map(|at| block[at..].iter().step_by(columns.len())).copied().collect();
            PackedMatrix::new(Isa::best(), inner.len(), columns.len(), &vectors)
        } else {
            let row = |at: usize| &block[at * columns.len()..][..columns.len()];
            PackedMatrix::of_columns(Isa::best(), inner.len(), columns.len(), row)
        }
    };
    inner_blocks(shape).map(pack).collect()
}

/// Multiplies some rows by some columns.
fn tile(
    factors: &Factors,
    scratch: &mut Scratch,
    batch: usize,
    rows: Range<usize>,
    columns: &Range<usize>,
    packed: &[PackedMatrix],
    write: &impl Fn(&mut TileOf<'_, f32>, &mut FinishScratch),
) {
    let pitch = packed.first().map_or(columns.len(), PackedMatrix::columns);
    let len = rows.len() * pitch;
    let Scratch { finish, left, product, sums, native } = scratch;
    sums.clear();
    sums.resize(len, 0.0);
    product.resize(product.len().max(len), 0.0);
    let first = batch * factors.shape.rows;
    for (nth, (inner, packed)) in inner_blocks(factors.shape).zip(packed).enumerate() {
        let prefetch = if packed.is_gemv() { Prefetch::Rows } else { Prefetch::None };
        // SAFETY: a step does not write what it reads.
        let left = unsafe { factors.a.borrow_or_read(first + rows.start..first + rows.end, inner, left, native) };
        if nth == 0 {
            packed.multiply(left, sums, prefetch);
        } else {
            packed.multiply(left, product, prefetch);
            sums.iter_mut().zip(&*product).for_each(|(sum, product)| *sum += product);
        }
    }
    write(&mut TileOf { sums, pitch, batch, rows, columns: columns.clone() }, finish);
}
