//! Products in any type: each task packs the blocks that it multiplies.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::ops::Range;

use super::{Factors, Finish, FinishScratch, Number, TileOf};
use crate::{
    OpError,
    cpu::{
        Worker,
        simd::{Isa, Lanes, WithSimd},
        slices::SLICE,
    },
    op::product,
};

/// Rows, common dimension and columns of the blocks that are multiplied.
const ROWS: usize = 64;
pub(in super::super) const INNER: usize = 256;
const COLUMNS: usize = 256;
/// Rows and columns of the register tile.
pub(in super::super) const TILE_ROWS: usize = 4;
pub(in super::super) const TILE_COLUMNS: usize = 16;

/// A part of the output.
#[derive(Clone)]
struct Part {
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Part {
    /// Numbers in a row of its sums.
    fn pitch(&self) -> usize {
        self.columns.len().next_multiple_of(TILE_COLUMNS)
    }

    fn sums(&self) -> usize {
        self.rows.len().next_multiple_of(TILE_ROWS) * self.pitch()
    }
}

/// A part whose sums have the terms before `next`.
struct Unfinished<T> {
    part: Part,
    sums: Vec<T>,
    next: usize,
}

struct TileBuffers<T> {
    finish: FinishScratch,
    /// `[rows, inner]`.
    left: Vec<T>,
    /// Panels of `[inner, TILE_COLUMNS]`.
    right: Vec<T>,
    part: Vec<T>,
    /// `[rows, panels * TILE_COLUMNS]`.
    sums: Vec<T>,
    native: Vec<u64>,
}

pub(super) fn run<T: Number>(factors: &Factors, finish: &Finish<T>, worker: &Worker) -> Result<(), OpError> {
    let shape = factors.shape;
    let scratch = || TileBuffers {
        finish: finish.scratch(),
        left: vec![T::ZERO; ROWS * INNER],
        right: vec![T::ZERO; INNER * COLUMNS],
        part: vec![T::ZERO; INNER * TILE_COLUMNS],
        sums: vec![],
        native: vec![],
    };
    let blocks = |len: usize, block: usize| (0..len).step_by(block).map(move |index| index..(index + block).min(len));
    let parts = (0..shape.batch).flat_map(|batch| {
        blocks(shape.rows, ROWS)
            .flat_map(move |rows| blocks(shape.columns, COLUMNS).map(move |columns| (batch, rows.clone(), columns)))
    });
    let parts = parts.map(|(batch, rows, columns)| Part { batch, rows, columns });
    // A multiply-add takes longer than one of f32; and elements are packed.
    let cost = |part: &Part, inner: usize| product([part.rows.len() * 2 + 32, part.columns.len(), inner + 16]);
    let largest = Part { batch: 0, rows: 0..shape.rows.min(ROWS), columns: 0..shape.columns.min(COLUMNS) };
    if cost(&largest, shape.inner) <= SLICE {
        let work = |scratch: &mut TileBuffers<T>, part| tile(factors, finish, scratch, part);
        return worker.for_each_joining(parts, |part| cost(part, shape.inner), scratch, work);
    }
    let of_slice = usize::try_from(SLICE / cost(&largest, INNER)).unwrap_or(1).max(1) * INNER;
    let tasks = parts.map(|part| Unfinished { sums: vec![T::ZERO; part.sums()], next: 0, part });
    worker.run_in_slices(tasks, |mut task| {
        let mut scratch = scratch();
        let end = task.next.saturating_add(of_slice).min(shape.inner);
        add(factors, &mut scratch, &task.part, task.next..end, &mut task.sums);
        task.next = end;
        if end < shape.inner {
            return Ok(Some(task));
        }
        write(finish, &mut scratch.finish, task.part, &mut task.sums);
        Ok(None)
    })
}

fn tile<T: Number>(factors: &Factors, finish: &Finish<T>, scratch: &mut TileBuffers<T>, part: Part) {
    let mut sums = std::mem::take(&mut scratch.sums);
    sums.clear();
    sums.resize(part.sums(), T::ZERO);
    add(factors, scratch, &part, 0..factors.shape.inner, &mut sums);
    write(finish, &mut scratch.finish, part, &mut sums);
    scratch.sums = sums;
}

fn write<T: Number>(finish: &Finish<T>, scratch: &mut FinishScratch, part: Part, sums: &mut [T]) {
    let pitch = part.pitch();
    let Part { batch, rows, columns } = part;
    finish.write(&mut TileOf { sums, pitch, batch, rows, columns }, scratch);
}

/// Adds the products of a range of the common dimension, which begins with a block.
fn add<T: Number>(factors: &Factors, scratch: &mut TileBuffers<T>, part: &Part, inner: Range<usize>, sums: &mut [T]) {
    let Part { batch, rows, columns } = part;
    let pitch = part.pitch();
    for start in inner.clone().step_by(INNER) {
        let block = start..(start + INNER).min(inner.end);
        let first = batch * factors.shape.rows;
        // Rows that fill up the last register tile are those of an earlier block, and their sums are not used.
        let left = &mut scratch.left[..rows.len() * block.len()];
        // SAFETY: a step does not write what it reads.
        unsafe { factors.a.read(first + rows.start..first + rows.end, block.clone(), left, &mut scratch.native) };
        for (nth, start) in columns.clone().step_by(TILE_COLUMNS).enumerate() {
            let panel = start..(start + TILE_COLUMNS).min(columns.end);
            let to = &mut scratch.right[nth * INNER * TILE_COLUMNS..][..block.len() * TILE_COLUMNS];
            pack(factors, *batch, &block, &panel, to, &mut scratch.part, &mut scratch.native);
        }
        let left = &scratch.left;
        let right = &scratch.right;
        Isa::best().run(Multiply { left, right, sums: &mut *sums, inner: block.len(), pitch });
    }
}

/// Packs up to `TILE_COLUMNS` columns of the right factor to `[inner, TILE_COLUMNS]`.
fn pack<T: Number>(
    factors: &Factors,
    batch: usize,
    inner: &Range<usize>,
    columns: &Range<usize>,
    to: &mut [T],
    part: &mut [T],
    native: &mut Vec<u64>,
) {
    let shape = factors.shape;
    if factors.b.is_transposed {
        let rows = batch * shape.columns + columns.start..batch * shape.columns + columns.end;
        // SAFETY: a step does not write what it reads.
        unsafe { factors.b.rows.read(rows, inner.clone(), part, native) };
        for (column, from) in part.chunks_exact(inner.len()).take(columns.len()).enumerate() {
            to[column..].iter_mut().step_by(TILE_COLUMNS).zip(from).for_each(|(to, from)| *to = *from);
        }
        return;
    }
    let rows = batch * shape.inner + inner.start..batch * shape.inner + inner.end;
    if columns.len() == TILE_COLUMNS {
        // SAFETY: as above.
        return unsafe { factors.b.rows.read(rows, columns.clone(), to, native) };
    }
    // SAFETY: as above.
    unsafe { factors.b.rows.read(rows, columns.clone(), part, native) };
    for (to, from) in to.chunks_exact_mut(TILE_COLUMNS).zip(part.chunks_exact(columns.len())) {
        to[..from.len()].copy_from_slice(from);
    }
}

/// `sums += left * right`, for whole register tiles: `left` is `[rows, inner]`, `right` is panels of `[INNER, TILE_COLUMNS]`, of which
/// `inner` rows are used, and `sums` is `[rows, pitch]`.
pub(in super::super) struct Multiply<'a, T> {
    pub(in super::super) left: &'a [T],
    pub(in super::super) right: &'a [T],
    pub(in super::super) sums: &'a mut [T],
    pub(in super::super) inner: usize,
    pub(in super::super) pitch: usize,
}

impl<T: Number> WithSimd for Multiply<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let Self { left, right, sums, inner, pitch } = self;
        for (rows, sums) in left.chunks_exact(TILE_ROWS * inner).zip(sums.chunks_exact_mut(TILE_ROWS * pitch)) {
            let rows: [&[T]; TILE_ROWS] = std::array::from_fn(|row| &rows[row * inner..][..inner]);
            for (index, panel) in (0..pitch).step_by(TILE_COLUMNS).zip(right.chunks_exact(INNER * TILE_COLUMNS)) {
                let mut tile = [[T::ZERO; TILE_COLUMNS]; TILE_ROWS];
                for (nth, right) in panel.as_chunks::<TILE_COLUMNS>().0[..inner].iter().enumerate() {
                    for (tile, row) in tile.iter_mut().zip(rows) {
                        let left = row[nth];
                        for (sum, right) in tile.iter_mut().zip(right) {
                            *sum = if L::HAS_FMA {
                                left.mul_add::<true>(*right, *sum)
                            } else {
                                left.mul_add::<false>(*right, *sum)
                            };
                        }
                    }
                }
                for (row, tile) in tile.iter().enumerate() {
                    let sums = &mut sums[row * pitch + index..][..TILE_COLUMNS];
                    sums.iter_mut().zip(tile).for_each(|(sum, part)| *sum = sum.add(*part));
                }
            }
        }
    }
}
