//! Indices of rows in sorted order.
//!
//! Elements are mapped to unsigned integers of the same order, and sorted together with their indices, which makes all entries
//! different and the order stable.

use std::ops::Range;

use accelerd_tensor::{Dtype, SortStep};

use super::{
    memory::{Memory, Operands},
    number::{Number, NumberVisitor, visit_number},
    rows::Rows,
};
use crate::{
    OpError,
    cpu::{Worker, slices::READ_COST},
    op::product,
};

/// Elements of a long row that are sorted by themselves, before the sorted chunks are merged.
const CHUNK: usize = 1 << 16;

pub(super) fn run(step: &SortStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let input = &step.input.layout.shape;
    let output = &step.output.layout.shape;
    let operands = memory.operands(&[(&step.input, input)], &[(&step.output, output)], false)?;
    let (&[rows, columns], &[result_rows, count]) = (&input[..], &output[..]) else {
        return Err(OpError::Invalid(format!("a sort: expected rows, got {input:?} and {output:?}")));
    };
    if rows != result_rows || count > columns || columns > SortStep::MAX_COLUMNS || step.output.dtype != Dtype::I64 {
        return Err(OpError::Invalid(format!("a sort: expected indices of {input:?}, got {:?}", step.output)));
    }
    if rows == 0 || count == 0 {
        return Ok(());
    }
    let compute = step.input.dtype.compute();
    let sort = Sort { operands: &operands, compute, rows, columns, count, is_descending: step.is_descending, worker };
    visit_number(compute, sort).unwrap_or_else(|| Err(OpError::Invalid(format!("a sort of {compute}"))))
}

/// Bytes of the numbers and entries that are sorted at a time.
pub(super) fn scratch_bytes(step: &SortStep, threads: usize) -> u64 {
    let (&[rows, columns], &[_, count]) = (&step.input.layout.shape[..], &step.output.layout.shape[..]) else {
        return 0;
    };
    let number_bytes = step.input.dtype.compute().size();
    let entry_bytes = if number_bytes <= 4 { size_of::<u64>() } else { size_of::<u128>() };
    let part_bytes = number_bytes + entry_bytes;
    if columns <= CHUNK || rows >= 2 * threads {
        return product([threads.min(rows), columns, part_bytes]);
    }
    // The sorted chunks, and the lists that pairs of them are merged into.
    let sorted = product([2, columns.div_ceil(CHUNK), count.min(CHUNK), entry_bytes]);
    sorted.saturating_add(product([threads, CHUNK, part_bytes]))
}

/// A key and the index of its element, ordered by both.
trait Entry: Ord + Copy + Send + Sync {
    fn new(key: u64, index: usize) -> Self;
    fn index(self) -> i64;
}

/// Entries with keys of up to 32 bits.
impl Entry for u64 {
    fn new(key: u64, index: usize) -> Self {
        key << 32 | index as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the index is in the lower bits")]
    fn index(self) -> i64 {
        i64::from(self as u32)
    }
}

impl Entry for u128 {
    fn new(key: u64, index: usize) -> Self {
        Self::from(key) << 32 | index as Self
    }

    #[expect(clippy::cast_possible_truncation, reason = "the index is in the lower bits")]
    fn index(self) -> i64 {
        i64::from(self as u32)
    }
}

struct Sort<'a> {
    operands: &'a Operands,
    compute: Dtype,
    rows: usize,
    columns: usize,
    count: usize,
    is_descending: bool,
    worker: &'a Worker,
}

impl NumberVisitor for Sort<'_> {
    type Out = Result<(), OpError>;

    fn visit<T: Number>(self) -> Self::Out {
        if size_of::<T>() <= 4 { self.run::<T, u64>() } else { self.run::<T, u128>() }
    }
}

impl Sort<'_> {
    fn run<T: Number, E: Entry>(&self) -> Result<(), OpError> {
        let cost = |len: usize| product([len, len.max(2).ilog2() as usize]).saturating_mul(READ_COST);
        if self.columns <= CHUNK || self.rows >= 2 * self.worker.pool().threads() {
            let sort = |row: usize| self.write(row, &self.sorted::<T, E>(row, 0..self.columns));
            return self.worker.for_each_joining(0..self.rows, |_| cost(self.columns), || (), |(), row| sort(row));
        }
        for row in 0..self.rows {
            let chunks = (0..self.columns).step_by(CHUNK).map(|start| start..(start + CHUNK).min(self.columns));
            let sort = |chunk| self.sorted::<T, E>(row, chunk);
            let mut sorted =
                self.worker.map_joining(chunks.collect(), |chunk: &Range<usize>| cost(chunk.len()), sort)?;
            while sorted.len() > 1 {
                let mut pairs = vec![];
                let mut lists = sorted.into_iter();
                while let Some(first) = lists.next() {
                    pairs.push((first, lists.next().unwrap_or_default()));
                }
                let cost = |(a, b): &(Vec<E>, Vec<E>)| product([a.len() + b.len()]).saturating_mul(READ_COST);
                sorted = self.worker.map_joining(pairs, cost, |(a, b)| merged(a, &b, self.count))?;
            }
            self.write(row, &sorted[0]);
        }
        Ok(())
    }

    /// The first `count` entries of some columns of a row in order.
    fn sorted<T: Number, E: Entry>(&self, row: usize, columns: Range<usize>) -> Vec<E> {
        let mut values = vec![T::ZERO; columns.len()];
        let reader = Rows::new(&self.operands.inputs[0], self.compute);
        // SAFETY: a sort does not write what it reads.
        unsafe { reader.read(row..row + 1, columns.clone(), &mut values, &mut vec![]) };
        let mask = u64::MAX >> (64 - 8 * size_of::<T>());
        let flip = if self.is_descending { mask } else { 0 };
        let entry = |(value, index)| E::new(key(value, self.compute) ^ flip, index);
        let mut entries: Vec<E> = values.into_iter().zip(columns).map(entry).collect();
        if self.count < entries.len() {
            entries.select_nth_unstable(self.count);
            entries.truncate(self.count);
        }
        entries.sort_unstable();
        entries
    }

    fn write<E: Entry>(&self, row: usize, entries: &[E]) {
        let indices: Vec<i64> = entries.iter().map(|entry| entry.index()).collect();
        let writer = Rows::new(&self.operands.outputs[0], Dtype::I64);
        // SAFETY: outputs overlap no input, and each row is of one task.
        unsafe { writer.write(row..row + 1, 0..self.count, &indices, &mut vec![]) };
    }
}

/// The first `count` entries of two lists in order.
fn merged<E: Entry>(a: Vec<E>, b: &[E], count: usize) -> Vec<E> {
    if b.is_empty() {
        return a;
    }
    let mut a = a.into_iter().peekable();
    let mut b = b.iter().copied().peekable();
    let next = || match (a.peek(), b.peek()) {
        (Some(first), Some(second)) if first < second => a.next(),
        (_, Some(_)) => b.next(),
        (_, None) => a.next(),
    };
    std::iter::from_fn(next).take(count).collect()
}

/// An unsigned integer of the type's size with the order of sorts: NaN is the greatest, and -0 equals 0.
fn key<T: Number>(value: T, dtype: Dtype) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
    let bits = u64::from_le_bytes(bytes);
    let sign = 1 << (8 * size_of::<T>() - 1);
    let mask = u64::MAX >> (64 - 8 * size_of::<T>());
    match () {
        () if value.is_nan() => mask,
        () if !dtype.is_signed() => bits,
        () if !dtype.is_float() => bits ^ sign,
        () if value == T::ZERO => sign,
        () if bits & sign != 0 => !bits & mask,
        () => bits | sign,
    }
}
