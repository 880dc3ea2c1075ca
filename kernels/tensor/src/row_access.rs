//! Access of operations on rows to an input.

use crate::Layout;

/// Where the elements of rows lie in an input of layout shape `[rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowAccess {
    /// In contiguous rows.
    Rows,
    /// In one row of adjacent elements, which all rows share.
    SharedRow,
    /// In one element, which all rows and columns share.
    Value,
}

impl RowAccess {
    /// The most inputs of a step whose elements it reads in these ways.
    pub const MAX_INPUTS: usize = 4;

    /// That of a layout; `None` if it is no matrix, or if its elements lie elsewhere.
    pub fn of(layout: &Layout) -> Option<Self> {
        let ([rows, columns], [row, column]) = (&layout.shape[..], &layout.strides[..]) else { return None };
        rows.checked_mul(*columns).and_then(|elements| isize::try_from(elements).ok())?;
        match (row, column) {
            _ if layout.is_contiguous() => Some(Self::Rows),
            (0, 1) => Some(Self::SharedRow),
            (0, 0) => Some(Self::Value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_tell_rows_from_what_they_share() {
        let of = |shape: &[usize], strides: &[isize]| {
            RowAccess::of(&Layout { shape: shape.to_vec(), strides: strides.to_vec(), offset: 3 })
        };
        assert_eq!(of(&[4, 6], &[6, 1]), Some(RowAccess::Rows));
        assert_eq!(of(&[1, 6], &[0, 1]), Some(RowAccess::Rows), "one row is shared by no other");
        assert_eq!(of(&[4, 6], &[0, 1]), Some(RowAccess::SharedRow));
        assert_eq!(of(&[4, 6], &[0, 0]), Some(RowAccess::Value));
        for strides in [[1, 4], [1, 0], [8, 1], [0, 2], [-6, 1], [0, -1]] {
            assert_eq!(of(&[4, 6], &strides), None, "{strides:?}");
        }
        assert_eq!(of(&[4], &[1]), None);
        assert_eq!(of(&[usize::MAX, 2], &[2, 1]), None);
    }
}
