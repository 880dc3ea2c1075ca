//! Fewer dimensions for the same iteration: neighbours that every view steps through with one stride become one dimension.

use super::super::dims::{Dim, merged};

/// An iteration space, and how views step through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Collapsed {
    /// Extents, outermost first: at least one dimension. None has extent 1, unless it is the only one.
    pub(in super::super) extents: Vec<usize>,
    /// Strides of each view, in elements.
    pub(in super::super) strides: Vec<Vec<isize>>,
}

impl Collapsed {
    /// Merges the dimensions of `shape`, through which the views step by `strides`. Row-major order is kept.
    pub(in super::super) fn new(shape: &[usize], strides: &[&[isize]]) -> Self {
        let dim = |(nth, &extent): (usize, &usize)| Dim {
            extent,
            strides: strides.iter().map(|operand| operand[nth]).collect(),
        };
        let mut dims = merged(shape.iter().enumerate().map(dim));
        if dims.is_empty() {
            dims.push(Dim { extent: 1, strides: vec![1; strides.len()] });
        }
        let strides_of = |view: usize| dims.iter().map(|dim| dim.strides[view]).collect();
        Self {
            extents: dims.iter().map(|dim| dim.extent).collect(),
            strides: (0..strides.len()).map(strides_of).collect(),
        }
    }

    pub(in super::super) fn rank(&self) -> usize {
        self.extents.len()
    }

    /// Number of elements.
    pub(in super::super) fn elements(&self) -> usize {
        self.extents.iter().product()
    }

    /// The stride of a view along the inner dimension.
    pub(super) fn inner_stride(&self, view: usize) -> isize {
        self.strides[view][self.rank() - 1]
    }

    /// Moves a dimension before the inner one; row-major order changes.
    #[must_use]
    pub(super) fn with_rows(mut self, dim: usize) -> Self {
        let last = self.rank() - 1;
        self.extents[dim..last].rotate_left(1);
        self.strides.iter_mut().for_each(|strides| strides[dim..last].rotate_left(1));
        self
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Layout;

    use super::*;

    fn collapse(layouts: &[&Layout]) -> Collapsed {
        let strides: Vec<_> = layouts.iter().map(|layout| &layout.strides[..]).collect();
        Collapsed::new(&layouts[0].shape, &strides)
    }

    #[test]
    fn contiguous_views_are_flat_and_so_are_scalars() {
        let tensor = Layout::contiguous(&[2, 1, 3, 4]);
        let scalar = Layout::contiguous(&[1]).broadcast(&[2, 1, 3, 4]).expect("broadcasts");
        let collapsed = collapse(&[&tensor, &scalar]);
        assert_eq!((collapsed.extents.as_slice(), collapsed.elements()), (&[24][..], 24));
        assert_eq!(collapsed.strides, [[1], [0]]);
    }

    #[test]
    fn dimensions_merge_only_where_all_views_merge() {
        let tensor = Layout::contiguous(&[2, 3, 4]);
        let row = Layout::contiguous(&[4]).broadcast(&[2, 3, 4]).expect("broadcasts");
        let collapsed = collapse(&[&tensor, &row]);
        assert_eq!(collapsed.extents, [6, 4]);
        assert_eq!(collapsed.strides, [[4, 1], [0, 1]]);
        let column = Layout::contiguous(&[3, 1]).broadcast(&[2, 3, 4]).expect("broadcasts");
        assert_eq!(collapse(&[&tensor, &row, &column]).extents, [2, 3, 4]);
        let reversed = tensor.sliced(1, 2, 3, -1);
        assert_eq!(collapse(&[&reversed]).strides, [[12, -4, 1]]);
        let transposed = Layout::contiguous(&[4, 2, 3]).permuted(&[1, 2, 0]);
        assert_eq!(collapse(&[&tensor, &transposed]).strides, [[4, 1], [1, 6]]);
    }

    #[test]
    fn a_single_element_is_one_dimension() {
        assert_eq!(Collapsed::new(&[1, 1], &[&[7, 7]]), Collapsed { extents: vec![1], strides: vec![vec![1]] });
        assert_eq!(Collapsed::new(&[], &[&[]]).extents, [1]);
    }

    #[test]
    fn a_dimension_becomes_the_rows() {
        let space = Collapsed { extents: vec![2, 3, 4, 5], strides: vec![vec![1, 2, 3, 4]] };
        let moved = space.with_rows(0);
        assert_eq!((moved.extents, moved.strides), (vec![3, 4, 2, 5], vec![vec![2, 3, 1, 4]]));
    }
}
