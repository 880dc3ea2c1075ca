//! The iteration space of a reduction, with as few dimensions as its operands allow.

use super::super::dims::{Dim, merged};

/// The kept dimensions, whose operands are the inputs and the output, and the reduced ones, whose operands are the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) outer: Vec<Dim>,
    pub(super) inner: Vec<Dim>,
}

/// Which dimensions may change places: what is computed from the position of an element may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// None.
    Fixed,
    /// The kept ones.
    InnerFixed,
    /// The kept ones among themselves, and the reduced ones.
    Free,
}

impl Space {
    /// `inputs` are the strides of the inputs along outer and inner dimensions, `output` those of the output along the outer ones.
    pub(super) fn new(outer: &[usize], inner: &[usize], inputs: &[&[isize]], output: &[isize], order: Order) -> Self {
        let dim = |nth: usize, extent| Dim { extent, strides: inputs.iter().map(|strides| strides[nth]).collect() };
        let mut kept: Vec<_> = outer.iter().enumerate().map(|(nth, &extent)| dim(nth, extent)).collect();
        for (dim, &stride) in kept.iter_mut().zip(output) {
            dim.strides.push(stride);
        }
        let mut reduced: Vec<_> = inner.iter().enumerate().map(|(nth, &axis)| dim(outer.len() + nth, axis)).collect();
        for (dims, is_free) in [(&mut kept, order != Order::Fixed), (&mut reduced, order == Order::Free)] {
            if is_free {
                dims.sort_by_key(|dim| std::cmp::Reverse(reach(dim, inputs.len())));
            }
        }
        Self { outer: merged(kept), inner: merged(reduced) }
    }

    /// Returns true if the inputs move less along the last inner dimension than along the last outer one.
    pub(super) fn is_inner_contiguous(&self, inputs: usize) -> bool {
        let last_reach = |dims: &[Dim]| dims.last().map_or(usize::MAX, |dim| reach(dim, inputs));
        !self.inner.is_empty() && last_reach(&self.inner) <= last_reach(&self.outer)
    }
}

/// The largest stride along a dimension of the first `inputs` operands.
fn reach(dim: &Dim, inputs: usize) -> usize {
    dim.strides[..inputs].iter().map(|stride| stride.unsigned_abs()).max().unwrap_or(0)
}

/// Number of elements.
pub(super) fn elements(dims: &[Dim]) -> usize {
    dims.iter().map(|dim| dim.extent).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(dims: &[Dim]) -> Vec<(usize, &[isize])> {
        dims.iter().map(|dim| (dim.extent, &dim.strides[..])).collect()
    }

    #[test]
    fn contiguous_dimensions_merge_within_outer_and_inner() {
        let space = Space::new(&[2, 3], &[4, 1, 5], &[&[60, 20, 5, 5, 1]], &[3, 1], Order::Fixed);
        assert_eq!(dims(&space.outer), [(6, &[20, 1][..])]);
        assert_eq!(dims(&space.inner), [(20, &[1][..])]);
        assert!(space.is_inner_contiguous(1));
    }

    #[test]
    fn dimensions_merge_only_where_every_operand_merges() {
        let broadcast: &[isize] = &[0, 0, 1];
        let space = Space::new(&[6], &[4, 5], &[&[20, 5, 1], broadcast], &[1], Order::Free);
        assert_eq!(dims(&space.inner), [(4, &[5, 0][..]), (5, &[1, 1])]);
        let space = Space::new(&[2, 3], &[], &[&[3, 1]], &[1, 2], Order::Fixed);
        assert_eq!(space.outer.len(), 2);
    }

    #[test]
    fn dimensions_in_any_order_merge_if_their_order_is_free() {
        let strides: &[isize] = &[1, 4, 12];
        let space = |order| Space::new(&[], &[4, 3, 2], &[strides], &[], order);
        assert_eq!(dims(&space(Order::Free).inner), [(24, &[1][..])]);
        assert_eq!(space(Order::InnerFixed).inner.len(), 3);
        let space = |order| Space::new(&[4, 3], &[], &[&[1, 4]], &[1, 4], order);
        assert_eq!(dims(&space(Order::InnerFixed).outer), [(12, &[1, 1][..])]);
        assert_eq!(space(Order::Fixed).outer.len(), 2);
    }

    #[test]
    fn columns_are_contiguous_along_outer_dimensions() {
        let space = Space::new(&[64], &[1000], &[&[1, 64]], &[1], Order::Free);
        assert!(!space.is_inner_contiguous(1));
        assert!(!Space::new(&[64], &[1], &[&[1, 64]], &[1], Order::Free).is_inner_contiguous(1));
        assert!(Space::new(&[1], &[8], &[&[1, 64]], &[1], Order::Free).is_inner_contiguous(1));
    }
}
