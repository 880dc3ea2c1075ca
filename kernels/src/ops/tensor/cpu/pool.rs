//! Pooling: the rows of a window are combined column by column, then the columns of each window.

use std::ops::Range;

use accelerd_tensor::{Divisor, Dtype, PoolKind, PoolStep, PoolWindows};

use super::{
    map::chunks,
    memory::{Memory, Operand},
    number::{Number, NumberVisitor, Real, visit_number},
    rows::Rows,
};
use crate::{
    OpError,
    cpu::{Worker, slices::READ_COST},
    op::product,
};

/// Columns of the output that are computed at a time.
const COLUMNS: usize = 1024;

pub(super) fn run(step: &PoolStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let (&[_, height, width], &[planes, rows, columns]) = (&step.input.layout.shape[..], &step.output.layout.shape[..])
    else {
        return Err(OpError::Invalid("pooling: expected images of three dimensions".to_owned()));
    };
    let input_shape = [planes, height, width];
    let output_shape = [planes, rows, columns];
    let operands = memory.operands(&[(&step.input, &input_shape)], &[(&step.output, &output_shape)], false)?;
    let input = &operands.inputs[0];
    let output = &operands.outputs[0];
    let dtype = step.input.dtype;
    let is_fit = output.dtype == dtype && dtype != Dtype::Bool && (dtype.is_float() || step.kind == PoolKind::Max);
    if !is_fit {
        return Err(OpError::Invalid(format!("pooling of {dtype} to {}", output.dtype)));
    }
    if output_shape.contains(&0) {
        return Ok(());
    }
    let axis = |number, input, output| Axis { number, windows: step.windows, input, output };
    let pool =
        Pool { planes, vertical: axis(0, height, rows), horizontal: axis(1, width, columns), input, output, worker };
    match step.kind {
        PoolKind::Max => {
            visit_number(dtype.compute(), pool).ok_or_else(|| OpError::Invalid(format!("pooling in {dtype}")))?
        }
        PoolKind::Average(divisor) if dtype == Dtype::F64 => pool.average::<f64>(divisor),
        PoolKind::Average(divisor) => pool.average::<f32>(divisor),
    }
}

/// Bytes of the columns that are combined at a time, and of their windows.
pub(super) fn scratch_bytes(step: &PoolStep, threads: usize) -> u64 {
    let width = step.input.layout.shape.last().copied().unwrap_or(0);
    let columns = product([2, threads, width, step.input.dtype.compute().size()]);
    columns.saturating_add(product([threads, width.min(COLUMNS), size_of::<Window>()]))
}

/// The windows along an axis.
#[derive(Clone, Copy)]
struct Axis {
    /// 0 for the height, 1 for the width.
    number: usize,
    windows: PoolWindows,
    input: usize,
    output: usize,
}

/// Positions of a window along an axis: every `step`-th of a range.
#[derive(Clone)]
struct Window {
    inside: Range<usize>,
    step: usize,
    /// Positions, counting those in the padding.
    padded: usize,
}

impl Window {
    fn len(&self) -> usize {
        self.inside.len().div_ceil(self.step)
    }

    /// Combines the elements of the window with `first`. The elements begin at position `offset`.
    fn combined<T: Copy>(&self, elements: &[T], offset: usize, first: T, combine: impl Fn(T, T) -> T) -> T {
        let mut total = first;
        let mut position = self.inside.start;
        // An iterator with a step divides by it at its start, which takes longer than a small window.
        while position < self.inside.end {
            total = combine(total, elements[position - offset]);
            position = position.saturating_add(self.step);
        }
        total
    }
}

impl Axis {
    fn window(&self, index: usize) -> Window {
        let windows = match self.windows {
            PoolWindows::Sliding(windows) => windows,
            PoolWindows::Adaptive => {
                // The product of a position and the extent may exceed 64 bits.
                let whole = self.input / self.output;
                let rest = self.input % self.output;
                let start = index * whole + index * rest / self.output;
                let end = (index + 1) * whole + ((index + 1) * rest).div_ceil(self.output);
                return Window { inside: start..end, step: 1, padded: end - start };
            }
        };
        let padding = windows.padding[self.number];
        let step = windows.dilation[self.number];
        // Positions in the padded image.
        let first = index * windows.stride[self.number];
        let last = first + windows.reach(self.number);
        let hidden = padding.saturating_sub(first).div_ceil(step);
        let start = (first + hidden * step).saturating_sub(padding);
        let end = last.saturating_sub(padding).min(self.input);
        let padded = last.min(self.input + 2 * padding).saturating_sub(first);
        Window { inside: start.min(end)..end, step, padded }
    }
}

impl Axis {
    /// The positions of the input that a range of windows covers.
    fn span(&self, windows: &Range<usize>) -> Range<usize> {
        let end = self.window(windows.end - 1).inside.end;
        // With dilation, a later window may begin before the first position of an earlier one that begins in the padding.
        let start = match self.windows {
            PoolWindows::Sliding(of) => {
                (windows.start * of.stride[self.number]).saturating_sub(of.padding[self.number])
            }
            PoolWindows::Adaptive => self.window(windows.start).inside.start,
        };
        start.min(end)..end
    }
}

struct Pool<'a> {
    planes: usize,
    vertical: Axis,
    horizontal: Axis,
    input: &'a Operand,
    output: &'a Operand,
    worker: &'a Worker,
}

impl NumberVisitor for Pool<'_> {
    type Out = Result<(), OpError>;

    fn visit<T: Number>(self) -> Result<(), OpError> {
        self.run(T::LEAST, T::maximum, |greatest, _, _| greatest)
    }
}

struct WindowBuffers<T> {
    native: Vec<u64>,
    row: Vec<T>,
    columns: Vec<T>,
    results: Vec<T>,
    /// The windows of the part of a row that begins at `windows_start`: they are those of the next row, too.
    windows: Vec<Window>,
    windows_start: usize,
}

impl<T> WindowBuffers<T> {
    fn new() -> Self {
        Self {
            native: vec![],
            row: vec![],
            columns: vec![],
            results: vec![],
            windows: vec![],
            windows_start: usize::MAX,
        }
    }
}

impl Pool<'_> {
    fn average<T: Real>(self, divisor: Divisor) -> Result<(), OpError> {
        self.run(T::ZERO, T::add, move |sum, vertical, horizontal| {
            let count = match divisor {
                Divisor::Elements => (vertical.len() * horizontal.len()) as f64,
                Divisor::Padded => (vertical.padded * horizontal.padded) as f64,
                Divisor::Number(number) => number as f64,
            };
            let is_empty = vertical.inside.is_empty() || horizontal.inside.is_empty();
            if is_empty { T::ZERO } else { sum.div(T::from_f64(count)) }
        })
    }

    /// Combines the elements of each window with `first`.
    fn run<T: Number>(
        self,
        first: T,
        combine: impl Fn(T, T) -> T + Copy + Send + Sync,
        finish: impl Fn(T, &Window, &Window) -> T + Send + Sync,
    ) -> Result<(), OpError> {
        let Self { planes, vertical, horizontal, input, output, worker } = self;
        let compute = input.dtype.compute();
        let reader = Rows::new(input, compute);
        let writer = Rows::new(output, compute);
        // The rows of all planes, cut into parts. A row of windows in the middle reads about as much as the others.
        let parts = horizontal.output.div_ceil(COLUMNS);
        let rows_read = vertical.window(vertical.output / 2).len() + 1;
        let line_cost = product([rows_read, horizontal.input + horizontal.output]).saturating_mul(READ_COST / 4);
        let part_cost = line_cost / parts as u64 + 1;
        let work = |scratch: &mut WindowBuffers<T>, range: Range<usize>| {
            let WindowBuffers { native, row, columns, results, windows, windows_start } = scratch;
            for nth in range {
                let line = nth / parts;
                let start = nth % parts * COLUMNS;
                let plane = line / vertical.output;
                let window = vertical.window(line % vertical.output);
                let part = start..(start + COLUMNS).min(horizontal.output);
                let span = horizontal.span(&part);
                if *windows_start != start {
                    windows.clear();
                    windows.extend(part.clone().map(|column| horizontal.window(column)));
                    *windows_start = start;
                }
                row.resize(row.len().max(span.len()), first);
                columns.clear();
                columns.resize(span.len(), first);
                for index in window.inside.clone().step_by(window.step).filter(|_| !span.is_empty()) {
                    let index = plane * vertical.input + index;
                    // SAFETY: a step does not write what it reads.
                    unsafe { reader.read(index..index + 1, span.clone(), row, native) };
                    columns.iter_mut().zip(&*row).for_each(|(sum, x)| *sum = combine(*sum, *x));
                }
                results.clear();
                results.extend(windows.iter().map(|across| {
                    let combined = across.combined(columns, span.start, first, combine);
                    finish(combined, &window, across)
                }));
                // SAFETY: outputs overlap no input, and each part of a row is of one task.
                unsafe { writer.write(line..line + 1, part, results, native) };
            }
        };
        let ranges = chunks(planes * vertical.output * parts, 1, part_cost);
        worker.for_each_joining(
            ranges,
            |range: &Range<usize>| product([range.len()]).saturating_mul(part_cost),
            WindowBuffers::new,
            work,
        )
    }
}
