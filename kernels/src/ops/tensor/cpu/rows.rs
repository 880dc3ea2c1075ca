//! Reads and writes rows of matrices as numbers of the type that computes them.

use std::ops::Range;

use accelerd_tensor::Dtype;

use super::{
    cast::cast,
    memory::Operand,
    number::Number,
    program::Source,
    region::{Region, Tile},
};

/// A matrix whose elements are converted as they are read and written.
pub(super) struct Rows {
    region: Region,
    dtype: Dtype,
    /// The type of the numbers.
    compute: Dtype,
}

impl Rows {
    /// The operand with its last dimension as columns, and the others as rows.
    pub(super) fn new(operand: &Operand, compute: Dtype) -> Self {
        let rows = operand.shape.len() - 1;
        Self { region: Region::new(&[operand], &operand.shape, rows, false), dtype: operand.dtype, compute }
    }

    /// Reads a tile, row by row.
    ///
    /// # Safety
    /// No one writes these elements meanwhile.
    pub(super) unsafe fn read<T: Number>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        to: &mut [T],
        native: &mut Vec<u64>,
    ) {
        let tile = Tile { slow: rows, fast: columns };
        let to: &mut [u8] = bytemuck::cast_slice_mut(&mut to[..tile.len()]);
        // SAFETY: the caller promises it.
        let source = unsafe { self.region.source(&tile, &[]) };
        match source.borrow(0) {
            Some(bytes) => cast(self.dtype, self.compute, bytes, to),
            None if self.dtype == self.compute => source.load(0, to),
            None => {
                let native = native_bytes(native, tile.len() * self.dtype.size());
                source.load(0, native);
                cast(self.dtype, self.compute, native, to);
            }
        }
    }

    /// The elements of a tile where they are, if they need no conversion and are adjacent.
    ///
    /// # Safety
    /// No one writes these elements meanwhile.
    pub(super) unsafe fn borrow<T: Number>(&self, rows: Range<usize>, columns: Range<usize>) -> Option<&[T]> {
        if self.dtype != self.compute {
            return None;
        }
        // SAFETY: the caller promises it.
        let bytes = unsafe { self.region.borrow(0, &Tile { slow: rows, fast: columns }) };
        bytes.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
    }

    /// Writes a tile, row by row.
    ///
    /// # Safety
    /// The operand is an output, and no one else reads or writes these elements meanwhile.
    pub(super) unsafe fn write<T: Number>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        from: &[T],
        native: &mut Vec<u64>,
    ) {
        let tile = Tile { slow: rows, fast: columns };
        let from: &[u8] = bytemuck::cast_slice(&from[..tile.len()]);
        if self.dtype == self.compute {
            // SAFETY: the caller promises it.
            return unsafe { self.region.store(0, &tile, from) };
        }
        let native = native_bytes(native, tile.len() * self.dtype.size());
        cast(self.compute, self.dtype, from, native);
        // SAFETY: the caller promises it.
        unsafe { self.region.store(0, &tile, native) };
    }
}

fn native_bytes(native: &mut Vec<u64>, len: usize) -> &mut [u8] {
    native.resize(native.len().max(len.div_ceil(8)), 0);
    &mut bytemuck::cast_slice_mut(native)[..len]
}

/// The elements of an operand of one dimension.
pub(super) fn vector<T: Number>(operand: &Operand, compute: Dtype) -> Vec<T> {
    let len = operand.shape[0];
    let mut vector = vec![T::ZERO; len];
    if len > 0 {
        // SAFETY: a step does not write what it reads.
        unsafe { Rows::new(operand, compute).read(0..1, 0..len, &mut vector, &mut vec![]) };
    }
    vector
}
