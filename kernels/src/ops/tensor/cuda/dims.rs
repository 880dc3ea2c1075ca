//! Dimensions of an iteration space, as few as its operands allow.

/// A dimension, and how far each operand steps along it, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) extent: usize,
    pub(super) strides: Vec<isize>,
}

impl Dim {
    /// Returns true if one stride of each operand spans this dimension and the next.
    fn continues(&self, next: &Self) -> bool {
        let length = next.extent.cast_signed();
        self.strides.iter().zip(&next.strides).all(|(&outer, inner)| inner.checked_mul(length) == Some(outer))
    }
}

/// Merges neighbours that every operand steps through with one stride, and drops dimensions of extent 1. Row-major order is kept.
pub(super) fn merged(dims: impl IntoIterator<Item = Dim>) -> Vec<Dim> {
    let mut merged: Vec<Dim> = vec![];
    for dim in dims.into_iter().filter(|dim| dim.extent != 1) {
        match merged.last_mut() {
            Some(last) if last.continues(&dim) => *last = Dim { extent: last.extent * dim.extent, ..dim },
            _ => merged.push(dim),
        }
    }
    merged
}
