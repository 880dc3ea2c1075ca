//! Puts the columns of sources together, wherever each lies: several threads copy, straight to where they belong.

use std::{mem::MaybeUninit, sync::Arc};

use bytemuck::Pod;
use rayon::prelude::*;

use super::{BatchColumns, Column, Columns, Outputs};
use crate::cuda::{Landed, PinnedPool, Place};

/// Bytes of a column below which one thread copies it: waking others takes longer.
const SPREAD_BYTES: usize = 512 << 10;

/// Some numbers of a column.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a, T> {
    /// Where a GPU left them.
    Landed(&'a Arc<Landed>, Place<T>),
    /// Elsewhere.
    Own(&'a [T]),
}

/// The columns of one source, or of several that follow each other.
pub(super) type Part<'a> = Columns<Piece<'a, u8>, Piece<'a, u32>>;

/// The wanted columns of all parts, one behind the other, on the threads of the pool that runs this. A column that lies
/// in one place already stays there; a large one that does not is put into a block of the pool, if there is one.
pub(super) fn gather<'a>(
    parts: impl IntoIterator<Item = Part<'a>>,
    wanted: Outputs,
    pool: Option<&Arc<PinnedPool>>,
) -> BatchColumns {
    let mut lists = Columns::<Vec<Piece<'_, u8>>, Vec<Piece<'_, u32>>>::default();
    for part in parts {
        lists = lists.zip(part).map(|_, (list, piece)| with(list, piece), |_, (list, piece)| with(list, piece));
    }
    lists.map(
        |table, bytes| if table.wanted(wanted) { joined(&bytes, pool) } else { Column::default() },
        |table, words| if table.wanted(wanted) { joined(&words, pool) } else { Column::default() },
    )
}

/// Adds a piece to those before it, and to the last one if it lies right behind.
fn with<'a, T: Pod>(mut list: Vec<Piece<'a, T>>, piece: Piece<'a, T>) -> Vec<Piece<'a, T>> {
    if let Some(Piece::Landed(all, last)) = list.last_mut()
        && let Piece::Landed(same, next) = piece
        && Arc::ptr_eq(all, same)
        && let Some(both) = last.with_next(next)
    {
        *last = both;
    } else if !piece.is_empty() {
        list.push(piece);
    }
    list
}

impl<'a, T: Pod> Piece<'a, T> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Landed(_, place) => place.is_empty(),
            Self::Own(own) => own.is_empty(),
        }
    }

    /// Its numbers.
    pub(super) fn numbers(self) -> &'a [T] {
        match self {
            Self::Landed(all, place) => all.get(place),
            Self::Own(own) => own,
        }
    }
}

fn joined<T: Pod + Send + Sync>(pieces: &[Piece<'_, T>], pool: Option<&Arc<PinnedPool>>) -> Column<T> {
    if let [Piece::Landed(all, place)] = pieces {
        return Column::landed(all, *place);
    }
    let pieces: Vec<&[T]> = pieces.iter().map(|piece| piece.numbers()).collect();
    let total = pieces.iter().map(|piece| piece.len()).sum();
    if let Some(pool) = pool.filter(|_| total * size_of::<T>() >= SPREAD_BYTES) {
        let (landed, place) = Landed::written(pool, total, |out| copy(&pieces, out));
        return Column::landed(&Arc::new(landed), place);
    }
    let mut out = Vec::with_capacity(total);
    copy(&pieces, &mut out.spare_capacity_mut()[..total]);
    // SAFETY: `copy` wrote all of them.
    unsafe { out.set_len(total) };
    out.into()
}

/// Writes the parts one behind the other; together they are as long as `out`.
fn copy<T: Copy + Send + Sync>(parts: &[&[T]], out: &mut [MaybeUninit<T>]) {
    let spread = size_of_val(out) >= SPREAD_BYTES;
    let (mut pairs, mut rest) = (Vec::with_capacity(parts.len()), out);
    for part in parts.iter().flat_map(|part| part.chunks(SPREAD_BYTES / size_of::<T>())) {
        let (to, behind) = rest.split_at_mut(part.len());
        pairs.push((part, to));
        rest = behind;
    }
    assert!(rest.is_empty(), "the parts are as long as the column");
    let one = |(from, to): (&[T], &mut [MaybeUninit<T>])| {
        // SAFETY: as many on both sides, of which one is borrowed for writing and so apart from the other.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) }
    };
    if spread {
        pairs.into_par_iter().for_each(one);
    } else {
        pairs.into_iter().for_each(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_size_lie_one_behind_the_other() {
        let long: Vec<u32> = (0..600_000).collect();
        let none = Columns::<(), ()>::default().map(|_, ()| Piece::Own(&[1][..]), |_, ()| Piece::Own(&[][..]));
        let lines = [&long[..3], &[], &long[3..], &long[..1]];
        let parts = lines.map(|lines| Part { line_starts: Piece::Own(lines), ..none });
        let columns = gather(parts, Outputs { line_starts: true, ..Outputs::default() }, None);
        assert_eq!(columns.line_starts[..600_000], long);
        assert_eq!(columns.line_starts[600_000..], [0]);
        assert!(columns.kinds.is_empty(), "nobody asked for it");
    }
}
