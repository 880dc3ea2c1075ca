//! Convolutions as products of the filters, `[out_channels, channels * kernel]`, and windows, `[channels * kernel, positions]`.
//!
//! The matrix of windows never exists as a whole: a task gathers the blocks of it that it multiplies. Groups with few output channels
//! skip it, and add scaled rows of the image.

use std::ops::Range;

use accelerd_tensor::{Accumulate, ConvStep, Dtype, Windows};

use super::{
    matmul::{Finish, Shape, check_epilogue},
    memory::{Memory, Operand},
    number::{Number, NumberVisitor, visit_number},
    program::Program,
    region::Region,
    rows::{Rows, vector},
};
use crate::{OpError, cpu::Worker, op::product};

mod direct;
mod gemm;

pub(super) fn run(step: &ConvStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let extents = Extents::of(step)?;
    let Extents { batch, channels, input: [height, width], out_channels, output: [rows, columns], .. } = extents;
    let [kernel_height, kernel_width] = step.windows.kernel;
    let input_shape = [batch, channels, height, width];
    let weight_shape = [out_channels, channels / step.groups, kernel_height, kernel_width];
    let output_shape = [batch, out_channels, rows, columns];
    let bias_shape = [out_channels];
    let mut inputs: Vec<(_, &[usize])> = vec![(&step.input, &input_shape), (&step.weight, &weight_shape)];
    inputs.extend(step.bias.as_ref().map(|bias| (bias, &bias_shape[..])));
    let operands = memory.operands(&inputs, &[(&step.output, &output_shape)], false)?;
    let output = &operands.outputs[0];
    let epilogue = step.epilogue.as_ref().map(Program::new);
    check_epilogue(epilogue.as_ref(), output.dtype)?;
    let compute = if step.accumulate == Accumulate::F64 { Dtype::F64 } else { Dtype::F32 };
    if !operands.inputs.iter().all(|operand| operand.dtype == output.dtype) || !output.dtype.is_float() {
        return Err(OpError::Invalid(format!("a convolution of {} in {compute}", step.input.dtype)));
    }
    if step.output.layout.elements() == 0 {
        return Ok(());
    }
    let is_narrow = step.is_narrow();
    let convolution = Convolution { extents, is_narrow, operands: &operands.inputs, output, epilogue, compute, worker };
    visit_number(compute, convolution).ok_or_else(|| OpError::Invalid(format!("a convolution in {compute}")))?
}

/// Bytes of the copies of the filters, and of the rows of images that are read at a time.
pub(super) fn scratch_bytes(step: &ConvStep, threads: usize) -> u64 {
    // Filters of narrow groups are converted. Others are also packed, by up to twice as many output channels as there are.
    let copies = if step.is_narrow() { 1 } else { 3 };
    let number_bytes = if step.accumulate == Accumulate::F64 { size_of::<f64>() } else { size_of::<f32>() };
    let width = step.input.layout.shape.last().copied().unwrap_or(0);
    let filters = product([step.weight.layout.elements(), copies, number_bytes]);
    filters.saturating_add(product([threads, width, number_bytes]))
}

/// The extents of a convolution. Those of images are `[height, width]`.
#[derive(Clone, Copy)]
struct Extents {
    batch: usize,
    channels: usize,
    out_channels: usize,
    groups: usize,
    input: [usize; 2],
    output: [usize; 2],
    windows: Windows,
}

impl Extents {
    fn of(step: &ConvStep) -> Result<Self, OpError> {
        let (&[_, channels, height, width], &[batch, out_channels, rows, columns]) =
            (&step.input.layout.shape[..], &step.output.layout.shape[..])
        else {
            return Err(OpError::Invalid("a convolution: expected images of four dimensions".to_owned()));
        };
        let groups = step.groups;
        let windows = step.windows;
        let is_divided = groups > 0 && channels % groups == 0 && out_channels % groups == 0;
        if !is_divided || windows.kernel.contains(&0) || windows.stride.contains(&0) {
            return Err(OpError::Invalid(format!(
                "a convolution of {channels} channels in {groups} groups by {windows:?}"
            )));
        }
        let input = [height, width];
        let output = [rows, columns];
        Ok(Self { batch, channels, out_channels, groups, input, output, windows })
    }

    fn group_channels(&self) -> usize {
        self.channels / self.groups
    }

    fn group_outputs(&self) -> usize {
        self.out_channels / self.groups
    }

    /// Positions of a filter.
    fn kernel(&self) -> usize {
        self.windows.kernel.iter().product()
    }

    /// The terms of a sum.
    fn terms(&self) -> usize {
        self.group_channels() * self.kernel()
    }

    /// Positions of an image of the output.
    fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// The row or column of the input that window `index` has at position `tap` of its kernel; `None` in the padding.
    fn source(&self, axis: usize, index: usize, tap: usize) -> Option<usize> {
        let Windows { stride, padding, dilation, .. } = self.windows;
        let position = (index * stride[axis] + tap * dilation[axis]).checked_sub(padding[axis])?;
        (position < self.input[axis]).then_some(position)
    }

    /// The columns of the output, within a range, whose windows have position `tap` in the input.
    fn inside(&self, columns: &Range<usize>, tap: usize) -> Range<usize> {
        let stride = self.windows.stride[1];
        let offset = tap * self.windows.dilation[1];
        let first = self.windows.padding[1].saturating_sub(offset).div_ceil(stride);
        let end = (self.input[1] + self.windows.padding[1]).saturating_sub(offset).div_ceil(stride);
        let start = first.clamp(columns.start, columns.end);
        start..end.clamp(start, columns.end)
    }

    /// The columns of the input that the windows of a range of output columns have at any position; maybe empty.
    fn span(&self, columns: &Range<usize>) -> Range<usize> {
        let Windows { stride, padding, .. } = self.windows;
        let start = (columns.start * stride[1]).saturating_sub(padding[1]).min(self.input[1]);
        let last = (columns.end.max(1) - 1) * stride[1] + self.windows.reach(1);
        start..last.saturating_sub(padding[1]).clamp(start, self.input[1])
    }
}

struct Convolution<'a> {
    extents: Extents,
    /// True if gathering windows does not pay.
    is_narrow: bool,
    /// Images, filters and the bias.
    operands: &'a [Operand],
    output: &'a Operand,
    epilogue: Option<Program>,
    compute: Dtype,
    worker: &'a Worker,
}

impl NumberVisitor for Convolution<'_> {
    type Out = Result<(), OpError>;

    fn visit<T: Number>(self) -> Result<(), OpError> {
        let Self { extents, is_narrow, operands, output, epilogue, compute, worker } = self;
        let rows = extents.out_channels;
        let columns = extents.positions();
        let finish = Finish {
            shape: Shape { batch: extents.batch, rows, inner: extents.terms(), columns },
            bias: None,
            epilogue,
            compute,
            dtype: output.dtype,
            output: Region::new(&[output], &output.shape, 2, false),
        };
        let bias = operands.get(2).map(|bias| vector::<T>(bias, compute));
        let conv = Conv {
            extents,
            images: Rows::new(&operands[0], compute),
            filters: Rows::new(&flat_filters(&operands[1]), compute),
            bias,
            finish,
        };
        if is_narrow { direct::run(&conv, worker) } else { gemm::run(&conv, worker) }
    }
}

/// Filters, which are contiguous, as `[out_channels, terms]`.
fn flat_filters(filters: &Operand) -> Operand {
    let terms: usize = filters.shape[1..].iter().product();
    Operand { shape: vec![filters.shape[0], terms], strides: vec![terms.cast_signed(), 1], ..filters.clone() }
}

/// A convolution in numbers of type `T`.
struct Conv<T> {
    extents: Extents,
    /// A row for each image, channel and row.
    images: Rows,
    filters: Rows,
    bias: Option<Vec<T>>,
    finish: Finish<T>,
}

impl<T: Number> Conv<T> {
    /// The filters of some output channels, `[channels, terms]`.
    fn filters(&self, channels: Range<usize>) -> Vec<T> {
        let terms = self.extents.terms();
        let mut filters = vec![T::ZERO; channels.len() * terms];
        if !filters.is_empty() {
            // SAFETY: a step does not write what it reads.
            unsafe { self.filters.read(channels, 0..terms, &mut filters, &mut vec![]) };
        }
        filters
    }

    /// Reads columns of a row of an image.
    fn read_row(&self, image_channel: usize, row: usize, columns: Range<usize>, to: &mut [T], native: &mut Vec<u64>) {
        let row = image_channel * self.extents.input[0] + row;
        // SAFETY: a step does not write what it reads.
        unsafe { self.images.read(row..row + 1, columns, to, native) };
    }
}
