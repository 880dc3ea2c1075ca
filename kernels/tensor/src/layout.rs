//! Where the elements of a tensor lie in a buffer: shape, strides and offset.

/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Maps indices to positions in a buffer, both in elements. Strides may be 0 (a broadcast dimension) or negative (a reversed one).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Distance between neighbours along each dimension.
    pub strides: Vec<isize>,
    /// Position of the first element.
    pub offset: usize,
}

impl Layout {
    /// Row-major without gaps, from the start of the buffer.
    ///
    /// # Panics
    /// If the number of elements exceeds `isize::MAX`.
    pub fn contiguous(shape: &[usize]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut stride = 1_isize;
        for (of, extent) in strides.iter_mut().zip(shape).rev() {
            *of = stride;
            stride = stride.checked_mul(extent.cast_signed().max(1)).expect("the elements fit an address space");
        }
        Self { shape: shape.to_vec(), strides, offset: 0 }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if the elements lie in row-major order without gaps, wherever the first one is.
    pub fn is_contiguous(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let dense = Self::contiguous(&self.shape).strides;
        self.strides.iter().zip(dense).zip(&self.shape).all(|((&is, dense), &extent)| extent == 1 || is == dense)
    }

    /// The dimensions in another order: dimension `i` of the result is dimension `dims[i]` of this layout.
    #[must_use]
    pub fn permuted(&self, dims: &[usize]) -> Self {
        Self {
            shape: dims.iter().map(|&dim| self.shape[dim]).collect(),
            strides: dims.iter().map(|&dim| self.strides[dim]).collect(),
            offset: self.offset,
        }
    }

    /// Broadcast to `shape` by NumPy's rules: missing leading dimensions and dimensions of extent 1 repeat. `None` if it cannot be.
    pub fn broadcast(&self, shape: &[usize]) -> Option<Self> {
        let missing = shape.len().checked_sub(self.rank())?;
        let mut strides = vec![0; missing];
        for ((&extent, &stride), &wanted) in self.shape.iter().zip(&self.strides).zip(&shape[missing..]) {
            strides.push(match extent {
                _ if extent == wanted => stride,
                1 => 0,
                _ => return None,
            });
        }
        Some(Self { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// Every `step`-th of `len` indices from `start` along a dimension; `step` may be negative.
    ///
    /// # Panics
    /// If an index is outside of the dimension.
    #[must_use]
    pub fn sliced(&self, dim: usize, start: usize, len: usize, step: isize) -> Self {
        let last = start.cast_signed() + step * (len.max(1).cast_signed() - 1);
        let within = len == 0 || (start < self.shape[dim] && (0..self.shape[dim].cast_signed()).contains(&last));
        assert!(within, "{len} indices from {start} by {step} of {}", self.shape[dim]);
        let mut sliced = self.clone();
        if len > 0 {
            let moved = self.offset.cast_signed() + self.strides[dim] * start.cast_signed();
            sliced.offset = usize::try_from(moved).expect("indices within the shape have positions within the buffer");
        }
        sliced.shape[dim] = len;
        sliced.strides[dim] *= step;
        sliced
    }

    /// The same elements in row-major order with another shape of as many elements, if strides can express it.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        if self.elements() == 0 {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        let groups = self.merged();
        let mut strides = vec![0; shape.len()];
        let mut dim = shape.len();
        for &(extent, stride) in groups.iter().rev() {
            let (mut left, mut step) = (extent, stride);
            while left > 1 {
                dim = dim.checked_sub(1)?;
                if !left.is_multiple_of(shape[dim]) {
                    return None;
                }
                strides[dim] = step;
                left /= shape[dim];
                step *= shape[dim].cast_signed();
            }
        }
        shape[..dim].iter().all(|&extent| extent == 1).then(|| Self {
            shape: shape.to_vec(),
            strides,
            offset: self.offset,
        })
    }

    /// Extents and strides of the dimensions, with neighbours merged that one stride spans, and without those of extent 1.
    fn merged(&self) -> Vec<(usize, isize)> {
        let mut groups: Vec<(usize, isize)> = vec![];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).filter(|(extent, _)| **extent != 1) {
            match groups.last_mut() {
                Some((outer, step)) if *step == stride * extent.cast_signed() => {
                    (*outer, *step) = (*outer * extent, stride);
                }
                Some(_) | None => groups.push((extent, stride)),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions of all elements in row-major order.
    fn positions(layout: &Layout) -> Vec<usize> {
        let dense = Layout::contiguous(&layout.shape);
        (0..layout.elements())
            .map(|nth| {
                let index = dense.strides.iter().zip(&layout.shape).map(|(stride, extent)| {
                    (nth / usize::try_from(*stride).expect("dense strides are positive") % extent).cast_signed()
                });
                let moved: isize = index.zip(&layout.strides).map(|(index, stride)| index * stride).sum();
                usize::try_from(layout.offset.cast_signed() + moved).expect("within the buffer")
            })
            .collect()
    }

    #[test]
    fn views_address_the_elements_of_the_tensor() {
        let tensor = Layout::contiguous(&[2, 3, 4]);
        assert_eq!(positions(&tensor), (0..24).collect::<Vec<_>>());
        assert_eq!(positions(&tensor.permuted(&[2, 0, 1]))[..7], [0, 4, 8, 12, 16, 20, 1]);
        assert_eq!(positions(&tensor.sliced(1, 2, 2, -2).sliced(2, 1, 1, 1)), [9, 1, 21, 13]);
        let row = Layout::contiguous(&[3]).broadcast(&[2, 3]).expect("a leading dimension repeats");
        assert_eq!(positions(&row), [0, 1, 2, 0, 1, 2]);
        assert_eq!(Layout::contiguous(&[2]).broadcast(&[3]), None);
    }

    #[test]
    fn a_reshape_keeps_the_order_or_is_refused() {
        let tensor = Layout::contiguous(&[2, 3, 4]);
        for shape in [&[24][..], &[6, 4], &[1, 2, 12, 1], &[2, 3, 2, 2]] {
            let reshaped = tensor.reshaped(shape).expect("contiguous tensors take any shape");
            assert_eq!(positions(&reshaped), positions(&tensor), "{shape:?}");
        }
        let columns = tensor.sliced(2, 1, 2, 1);
        let split = columns.reshaped(&[6, 2]).expect("the outer dimensions merge");
        assert_eq!(positions(&split), positions(&columns));
        assert_eq!(columns.reshaped(&[12]), None);
        assert_eq!(tensor.permuted(&[1, 0, 2]).reshaped(&[6, 4]), None);
        let empty = Layout::contiguous(&[0, 5]);
        assert_eq!(empty.reshaped(&[5, 0, 7]).expect("no elements").elements(), 0);
    }

    #[test]
    fn contiguity_ignores_dimensions_of_extent_1() {
        let tensor = Layout::contiguous(&[2, 3, 4]);
        assert!(tensor.is_contiguous() && tensor.sliced(0, 1, 1, 1).is_contiguous());
        assert!(tensor.sliced(1, 0, 1, 1).permuted(&[1, 0, 2]).strides != Layout::contiguous(&[1, 2, 4]).strides);
        assert!(!tensor.sliced(1, 0, 2, 1).is_contiguous());
        assert!(!tensor.permuted(&[2, 1, 0]).is_contiguous());
    }
}
