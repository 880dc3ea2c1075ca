//! Elements by index.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use accelerd_tensor::{Dtype, IndexStep};

use super::{
    super::out_of_range,
    map::chunks,
    memory::{Memory, Operand},
};
use crate::{
    OpError,
    cpu::{Worker, slices::READ_COST},
    op::product,
};

pub(super) fn run(step: &IndexStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.output.layout.shape.as_slice();
    let Some((&extent, outer)) = step.input.layout.shape.split_last().filter(|(_, outer)| *outer == shape) else {
        return Err(OpError::Invalid(format!("expected rows for {shape:?}, got {:?}", step.input)));
    };
    let views = [(&step.input, step.input.layout.shape.as_slice()), (&step.index, outer)];
    let operands = memory.operands(&views, &[(&step.output, shape)], false)?;
    if step.input.dtype != step.output.dtype || !matches!(step.index.dtype, Dtype::I32 | Dtype::I64) {
        return Err(OpError::Invalid(format!("{}: expected elements of one type and indices", step.op.name())));
    }
    if shape.is_empty() || shape.contains(&0) {
        return Ok(());
    }
    let input = &operands.inputs[0];
    let index = &operands.inputs[1];
    let gather = Gather { input, index, output: &operands.outputs[0], extent, wraps: step.op.wraps() };
    let first_invalid = AtomicUsize::new(usize::MAX);
    let copy = |range: Range<usize>| match step.output.dtype.size() {
        1 => gather.copy::<u8>(range, &first_invalid),
        2 => gather.copy::<u16>(range, &first_invalid),
        4 => gather.copy::<u32>(range, &first_invalid),
        _ => gather.copy::<u64>(range, &first_invalid),
    };
    let cost = |range: &Range<usize>| product([range.len()]).saturating_mul(READ_COST);
    worker.for_each_joining(chunks(shape.iter().product(), 1, READ_COST), cost, || (), |(), range| copy(range))?;
    match first_invalid.into_inner() {
        usize::MAX => Ok(()),
        position => Err(out_of_range(step, gather.index_at(gather.offset(index, position)), extent)),
    }
}

/// Validated operands: the input has one dimension more than the others, of `extent` elements.
struct Gather<'a> {
    input: &'a Operand,
    index: &'a Operand,
    output: &'a Operand,
    extent: usize,
    wraps: bool,
}

impl Gather<'_> {
    /// Writes the results at a range of row-major positions, and lowers `first_invalid` to the first with an index out of range.
    fn copy<T: Copy>(&self, range: Range<usize>, first_invalid: &AtomicUsize) {
        let columns = *self.output.shape.last().expect("an output has a dimension");
        let mut index = range.start;
        while index < range.end {
            let count = (columns - index % columns).min(range.end - index);
            if let Err(invalid) = self.copy_run::<T>(index, count) {
                first_invalid.fetch_min(invalid, Relaxed);
            }
            index += count;
        }
    }

    /// Copies the results of `count` neighbours along the last dimension.
    fn copy_run<T: Copy>(&self, position: usize, count: usize) -> Result<(), usize> {
        let last = self.output.shape.len() - 1;
        let stride = |operand: &Operand| operand.strides[last];
        let from = self.input.base.cast::<T>().wrapping_offset(self.offset(self.input, position));
        let to = self.output.base.cast::<T>().wrapping_offset(self.offset(self.output, position));
        let index = self.offset(self.index, position);
        if stride(self.index) == 0 && stride(self.input) == 1 && stride(self.output) == 1 {
            let row = from.wrapping_offset(self.row(index).ok_or(position)?);
            // SAFETY: positions of the output's shape and an index below the extent are within the views, which are within their
            // buffers; no one writes the input, and each position of the output is of one task.
            unsafe { to.copy_from_nonoverlapping(row, count) };
            return Ok(());
        }
        let mut invalid = Ok(());
        for (nth, column) in (0..count).map(|nth| (nth, nth.cast_signed())) {
            let Some(row) = self.row(index + column * stride(self.index)) else {
                invalid = invalid.and(Err(position + nth));
                continue;
            };
            let from = from.wrapping_offset(column * stride(self.input) + row);
            // SAFETY: as above.
            unsafe { *to.wrapping_offset(column * stride(self.output)) = *from };
        }
        invalid
    }

    /// The offset of the row that the index at an offset chooses, in elements; `None` if it is out of range.
    fn row(&self, position: isize) -> Option<isize> {
        let index = self.index_at(position);
        let index = if index < 0 && self.wraps { index.checked_add_unsigned(self.extent as u64)? } else { index };
        let index = usize::try_from(index).ok().filter(|index| *index < self.extent)?;
        Some(index.cast_signed() * self.input.strides[self.input.strides.len() - 1])
    }

    #[expect(clippy::cast_ptr_alignment, reason = "elements of a view are aligned to their size")]
    fn index_at(&self, index: isize) -> i64 {
        if self.index.dtype == Dtype::I32 {
            // SAFETY: the offset of a position of the view, whose elements are of this type.
            i64::from(unsafe { *self.index.base.cast::<i32>().wrapping_offset(index) })
        } else {
            // SAFETY: as above.
            unsafe { *self.index.base.cast::<i64>().wrapping_offset(index) }
        }
    }

    /// The offset of a row-major position of the output's shape, in elements.
    fn offset(&self, operand: &Operand, mut index: usize) -> isize {
        let mut offset = 0;
        for (&extent, stride) in self.output.shape.iter().zip(&operand.strides).rev() {
            offset += (index % extent).cast_signed() * stride;
            index /= extent;
        }
        offset
    }
}
