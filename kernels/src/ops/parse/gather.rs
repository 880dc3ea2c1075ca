//! Concatenates the columns of sources, on the host or in pinned memory; several threads copy large ones.

use std::{cell::RefCell, mem::MaybeUninit, sync::Arc};

use bytemuck::Pod;

use super::{BatchColumns, Column, Columns, Outputs};
use crate::{
    OpError,
    cpu::slices::Schedule,
    cuda::{HostBuffer, PinnedPool, Region},
};

/// Bytes of a column below which one thread copies it: waking others takes longer.
const MIN_PARALLEL_BYTES: usize = 512 << 10;

/// Multiply-adds of f32 that take as long as copying a byte of a column.
const COPY_COST: u64 = 8;

/// The cost of copying a part of a column.
pub(super) fn copy_cost(bytes: usize) -> u64 {
    COPY_COST.saturating_mul(bytes as u64)
}

/// A part of a column.
#[derive(Clone, Copy)]
pub(super) enum ColumnSlice<'a, T> {
    /// Downloaded to pinned memory.
    Pinned(&'a Arc<HostBuffer>, Region<T>),
    Host(&'a [T]),
}

/// The columns of consecutive sources.
pub(super) type ColumnSlices<'a> = Columns<ColumnSlice<'a, u8>, ColumnSlice<'a, u32>>;

/// Concatenates the wanted columns. A column that is contiguous already is not copied; another large one is copied to a block
/// of `pool`, if there is one, by the threads of `schedule`.
pub(super) fn gather<'a>(
    parts: impl IntoIterator<Item = ColumnSlices<'a>>,
    wanted: Outputs,
    pool: Option<&Arc<PinnedPool>>,
    schedule: Schedule<'_>,
) -> Result<BatchColumns, OpError> {
    let mut lists = Columns::<Vec<ColumnSlice<'_, u8>>, Vec<ColumnSlice<'_, u32>>>::default();
    for part in parts {
        lists = lists.zip(part).map(|_, (list, slice)| push(list, slice), |_, (list, slice)| push(list, slice));
    }
    let copier = Copier { pool, schedule, outcome: RefCell::new(Ok(())) };
    let columns = lists.map(
        |table, bytes| if table.wanted(wanted) { copier.concat(&bytes) } else { Column::default() },
        |table, words| if table.wanted(wanted) { copier.concat(&words) } else { Column::default() },
    );
    copier.outcome.into_inner().map(|()| columns)
}

/// Appends a slice, or extends the last one if the two are contiguous.
fn push<'a, T: Pod>(mut list: Vec<ColumnSlice<'a, T>>, slice: ColumnSlice<'a, T>) -> Vec<ColumnSlice<'a, T>> {
    if let Some(ColumnSlice::Pinned(all, last)) = list.last_mut()
        && let ColumnSlice::Pinned(same, next) = slice
        && Arc::ptr_eq(all, same)
        && let Some(both) = last.with_next(next)
    {
        *last = both;
    } else if !slice.is_empty() {
        list.push(slice);
    }
    list
}

impl<'a, T: Pod> ColumnSlice<'a, T> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Pinned(_, region) => region.is_empty(),
            Self::Host(slice) => slice.is_empty(),
        }
    }

    pub(super) fn get(self) -> &'a [T] {
        match self {
            Self::Pinned(all, region) => all.get(region),
            Self::Host(slice) => slice,
        }
    }
}

/// Copies columns one after the other; after a failure it leaves out the rest.
struct Copier<'a> {
    pool: Option<&'a Arc<PinnedPool>>,
    schedule: Schedule<'a>,
    outcome: RefCell<Result<(), OpError>>,
}

impl Copier<'_> {
    fn concat<T: Pod + Send + Sync>(&self, slices: &[ColumnSlice<'_, T>]) -> Column<T> {
        if let [ColumnSlice::Pinned(all, region)] = slices {
            return Column::pinned(all, *region);
        }
        let slices: Vec<&[T]> = slices.iter().map(|slice| slice.get()).collect();
        let total = slices.iter().map(|slice| slice.len()).sum();
        if let Some(pool) = self.pool.filter(|_| total * size_of::<T>() >= MIN_PARALLEL_BYTES) {
            // Memory of the pool is initialised, whatever is copied to it.
            let copy = |out: &mut [MaybeUninit<T>]| _ = self.copy(&slices, out);
            let (host, region) = HostBuffer::written(pool, total, copy);
            return Column::pinned(&Arc::new(host), region);
        }
        let mut out = Vec::with_capacity(total);
        if self.copy(&slices, &mut out.spare_capacity_mut()[..total]) {
            // SAFETY: `copy` initialised all elements.
            unsafe { out.set_len(total) };
        }
        out.into()
    }

    /// Copies unless an earlier copy failed; whether it succeeded.
    fn copy<T: Copy + Send + Sync>(&self, slices: &[&[T]], out: &mut [MaybeUninit<T>]) -> bool {
        let mut outcome = self.outcome.borrow_mut();
        if outcome.is_ok() {
            *outcome = copy(slices, out, self.schedule);
        }
        outcome.is_ok()
    }
}

/// Concatenates slices whose total length is that of `out`.
fn copy<T: Copy + Send + Sync>(
    slices: &[&[T]],
    out: &mut [MaybeUninit<T>],
    schedule: Schedule<'_>,
) -> Result<(), OpError> {
    let schedule = if size_of_val(out) >= MIN_PARALLEL_BYTES { schedule } else { Schedule::Inline };
    let mut pairs = Vec::with_capacity(slices.len());
    let mut rest = out;
    for from in slices.iter().flat_map(|slice| slice.chunks(MIN_PARALLEL_BYTES / size_of::<T>())) {
        let (to, after) = rest.split_at_mut(from.len());
        pairs.push((from, to));
        rest = after;
    }
    assert!(rest.is_empty(), "the slices are as long as the column");
    let copy = |(): &mut (), (from, to): (&[T], &mut [MaybeUninit<T>])| {
        // SAFETY: both have the same length, and `to` is borrowed mutably, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) }
    };
    schedule.for_each(pairs, |(from, _)| copy_cost(size_of_val(*from)), || (), copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_any_size_are_concatenated() {
        let long: Vec<u32> = (0..600_000).collect();
        let none =
            Columns::<(), ()>::default().map(|_, ()| ColumnSlice::Host(&[1][..]), |_, ()| ColumnSlice::Host(&[][..]));
        let lines = [&long[..3], &[], &long[3..], &long[..1]];
        let parts = lines.map(|lines| ColumnSlices { line_starts: ColumnSlice::Host(lines), ..none });
        let wanted = Outputs { line_starts: true, ..Outputs::default() };
        let columns = gather(parts, wanted, None, Schedule::Slice).expect("nothing cancels");
        assert_eq!(columns.line_starts[..600_000], long);
        assert_eq!(columns.line_starts[600_000..], [0]);
        assert!(columns.kinds.is_empty(), "it is not wanted");
    }
}
