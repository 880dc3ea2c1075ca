//! Which bytes of a buffer a view covers, and whether two views share any.

use accelerd_tensor::{Layout, View};

/// The range of positions that a layout covers, in elements; `None` if a position is negative or exceeds `isize`.
pub(super) fn positions(layout: &Layout) -> Option<std::ops::Range<usize>> {
    let shape = &layout.shape;
    let strides = &layout.strides;
    if shape.len() != strides.len() {
        return None;
    }
    if shape.contains(&0) {
        return Some(0..0);
    }
    shape.iter().try_fold(1_usize, |elements, extent| elements.checked_mul(*extent))?;
    let mut low = isize::try_from(layout.offset).ok()?;
    let mut high = isize::try_from(layout.offset).ok()?;
    for (&extent, &stride) in shape.iter().zip(strides) {
        let span = stride.checked_mul(isize::try_from(extent - 1).ok()?)?;
        let end = if span < 0 { &mut low } else { &mut high };
        *end = end.checked_add(span)?;
    }
    Some(usize::try_from(low).ok()?..usize::try_from(high).ok()?.checked_add(1)?)
}

/// Returns true if elements are adjacent in row-major order.
pub(super) fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut dense = 1_isize;
    shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
        let is_next = extent == 1 || stride == dense;
        dense = dense.wrapping_mul(extent.cast_signed());
        is_next
    })
}

/// Returns true if each element is certain to have a position of its own: each stride exceeds the span of the smaller ones.
pub(super) fn is_injective(layout: &Layout) -> bool {
    if layout.shape.contains(&0) || is_dense(&layout.shape, &layout.strides) {
        return true;
    }
    let mut reach = 0_usize;
    let dims = descending(layout, layout);
    dims.iter().rev().all(|dim| {
        let fits = dim.stride > reach;
        reach += dim.stride * dim.most;
        fits
    })
}

/// Returns true if two views of one buffer may share a byte. Exact for views of equal strides and element sizes, such as the parts of a
/// concatenation.
pub(super) fn may_overlap(
    a: &View,
    b: &View,
    a_bytes: &std::ops::Range<usize>,
    b_bytes: &std::ops::Range<usize>,
) -> bool {
    let apart =
        a_bytes.is_empty() || b_bytes.is_empty() || a_bytes.end <= b_bytes.start || b_bytes.end <= a_bytes.start;
    if apart {
        return false;
    }
    let comparable = a.dtype.size() == b.dtype.size()
        && a.layout.rank() == b.layout.rank()
        && a.layout.strides.iter().zip(&b.layout.strides).all(|(a, b)| a == b && *a >= 0);
    if !comparable || !a_bytes.start.abs_diff(b_bytes.start).is_multiple_of(a.dtype.size()) {
        return true;
    }
    let offset = (b_bytes.start.cast_signed() - a_bytes.start.cast_signed()) / a.dtype.size().cast_signed();
    let dims = descending(&a.layout, &b.layout);
    meets(&dims, offset)
}

/// A dimension of two layouts: its stride, and how far the index of the first can exceed that of the second, and the reverse.
struct Dim {
    stride: usize,
    most: usize,
    least: usize,
}

/// The dimensions with more than one position, the largest stride first.
fn descending(a: &Layout, b: &Layout) -> Vec<Dim> {
    let extents = a.shape.iter().zip(&b.shape).zip(&a.strides);
    let mut dims: Vec<Dim> = extents
        .map(|((&a, &b), stride)| Dim { stride: stride.unsigned_abs(), most: a - 1, least: b - 1 })
        .filter(|dim| dim.most > 0 || dim.least > 0)
        .collect();
    dims.sort_by_key(|dim| std::cmp::Reverse(dim.stride));
    dims
}

/// Returns true if differences of indices within the dimensions add up to `offset`.
fn meets(dims: &[Dim], offset: isize) -> bool {
    let Some((dim, rest)) = dims.split_first() else { return offset == 0 };
    if dim.stride == 0 {
        return offset == 0;
    }
    let span = |bound: fn(&Dim) -> usize| rest.iter().map(|dim| dim.stride * bound(dim)).sum::<usize>().cast_signed();
    let low = -span(|dim| dim.least);
    let high = span(|dim| dim.most);
    let stride = dim.stride.cast_signed();
    // offset - q * stride lies within low..=high.
    let first = (offset - high).div_euclid(stride).max(-dim.least.cast_signed());
    let last = (offset - low).div_euclid(stride).min(dim.most.cast_signed());
    // Nested strides leave few candidates; of others, overlap is assumed.
    last - first > 8 || (first..=last).any(|q| meets(rest, offset - q * stride))
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Dtype, Location};

    use super::*;

    fn view(layout: Layout) -> (View, std::ops::Range<usize>) {
        let range = positions(&layout).expect("small");
        let view = View { location: Location::Arena(0), dtype: Dtype::F32, layout };
        (view, range.start * 4..range.end * 4)
    }

    fn overlap(a: &Layout, b: &Layout) -> bool {
        let (a, a_bytes) = view(a.clone());
        let (b, b_bytes) = view(b.clone());
        may_overlap(&a, &b, &a_bytes, &b_bytes)
    }

    #[test]
    fn parts_of_a_concatenation_do_not_overlap() {
        let whole = Layout::contiguous(&[3, 8, 5]);
        for dim in 0..3 {
            let first = whole.sliced(dim, 0, 1, 1);
            let second = whole.sliced(dim, 1, 2, 1);
            assert!(!overlap(&first, &second) && !overlap(&second, &first), "dimension {dim}");
            let third = whole.sliced(dim, 0, 2, 1);
            assert!(overlap(&second, &third) && overlap(&third, &first), "dimension {dim}");
        }
    }

    #[test]
    fn positions_cover_negative_strides_and_nothing() {
        let reversed = Layout::contiguous(&[4, 6]).sliced(0, 3, 4, -1).sliced(1, 4, 3, -2);
        assert_eq!(positions(&reversed), Some(0..23));
        assert_eq!(positions(&Layout::contiguous(&[3, 0])), Some(0..0));
        let outside = Layout { shape: vec![3], strides: vec![-1], offset: 1 };
        assert_eq!(positions(&outside), None);
        let huge = Layout { shape: vec![usize::MAX, 3], strides: vec![0, 0], offset: 0 };
        assert_eq!(positions(&huge), None);
    }

    #[test]
    fn a_broadcast_or_folded_layout_is_not_injective() {
        assert!(is_injective(&Layout::contiguous(&[3, 1, 4]).permuted(&[2, 0, 1])));
        assert!(is_injective(&Layout::contiguous(&[])));
        assert!(!is_injective(&Layout { shape: vec![3], strides: vec![0], offset: 0 }));
        assert!(!is_injective(&Layout { shape: vec![3, 3], strides: vec![2, 1], offset: 0 }));
    }
}
