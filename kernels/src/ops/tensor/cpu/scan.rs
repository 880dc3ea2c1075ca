//! Cumulative sums, products and extremes.
//!
//! A scan is cut into chunks by its shape alone, so results do not depend on the number of threads. Floating-point numbers are
//! accumulated in f64.

use std::ops::Range;

use accelerd_tensor::{Dtype, ScanKind, ScanStep};

use super::{
    memory::{Memory, Operands},
    number::{Number, NumberVisitor, visit_number},
    rows::Rows,
};
use crate::{
    OpError,
    cpu::{Worker, slices::READ_COST},
    op::product,
};

/// Scans that are side by side in memory and done by one task.
const WIDTH: usize = 256;
/// Elements that are read at a time.
const TILE: usize = 4096;
/// Elements of a chunk, where there are fewer scans than `MANY`.
const CHUNK: usize = 1 << 16;
const MANY: usize = 64;

pub(super) fn run(step: &ScanStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.input.layout.shape.as_slice();
    let operands = memory.operands(&[(&step.input, shape)], &[(&step.output, shape)], false)?;
    let &[outer, extent, inner] = shape else {
        return Err(OpError::Invalid(format!("a scan: expected three dimensions, got {shape:?}")));
    };
    if step.accumulate == Dtype::Bool {
        return Err(OpError::Invalid("a scan: expected numbers, got bool".to_owned()));
    }
    if shape.contains(&0) {
        return Ok(());
    }
    let compute = if step.accumulate.is_float() { Dtype::F64 } else { step.accumulate };
    let width = inner.min(WIDTH);
    let lanes = outer * inner.div_ceil(width);
    let chunk = if lanes < MANY { (CHUNK / width).min(extent) } else { extent };
    let scan = Scan { operands: &operands, kind: step.kind, compute, extent, inner, width, outer, chunk, worker };
    visit_number(compute, scan).unwrap_or_else(|| Err(OpError::Invalid(format!("a scan of {compute}"))))
}

struct Scan<'a> {
    operands: &'a Operands,
    kind: ScanKind,
    compute: Dtype,
    outer: usize,
    extent: usize,
    inner: usize,
    /// Columns of a task.
    width: usize,
    /// Rows of a task.
    chunk: usize,
    worker: &'a Worker,
}

/// A part of some neighbouring scans: rows of `inner` columns, counted over all of `outer`.
struct Part<T> {
    rows: Range<usize>,
    columns: Range<usize>,
    /// The state of each column, from the rows before.
    state: Vec<T>,
}

impl NumberVisitor for Scan<'_> {
    type Out = Result<(), OpError>;

    fn visit<T: Number>(self) -> Self::Out {
        match self.kind {
            // -0 for floating-point numbers, as 0 + -0 is 0.
            ScanKind::Sum => self.run(T::ZERO.neg(), T::add),
            ScanKind::Prod => self.run(T::ONE, T::mul),
            ScanKind::Min => self.run(T::GREATEST, T::minimum),
            ScanKind::Max => self.run(T::LEAST, T::maximum),
        }
    }
}

impl Scan<'_> {
    fn run<T: Number>(&self, identity: T, combine: impl Fn(T, T) -> T + Copy + Sync + Send) -> Result<(), OpError> {
        let cost = |part: &Part<T>| product([part.rows.len(), part.columns.len()]).saturating_mul(READ_COST);
        if self.chunk < self.extent {
            let mut parts: Vec<_> = self.parts(identity).collect();
            let totals = |part: &Part<T>| self.part_totals(part, combine);
            let totals = self.worker.map_joining(parts.iter().collect(), |part| cost(part), totals)?;
            let chunks = self.extent.div_ceil(self.chunk);
            for (parts, totals) in parts.chunks_mut(chunks).zip(totals.chunks(chunks)) {
                for nth in 1..chunks {
                    let before = parts[nth - 1].state.iter().zip(&totals[nth - 1]);
                    parts[nth].state = before.map(|(before, total)| combine(*before, *total)).collect();
                }
            }
            return self.worker.for_each_joining(parts, cost, || (), |(), part| self.scan_part(part, combine));
        }
        self.worker.for_each_joining(self.parts(identity), cost, || (), |(), part| self.scan_part(part, combine))
    }

    /// The parts; the chunks of the same columns follow each other.
    fn parts<T: Number>(&self, identity: T) -> impl Iterator<Item = Part<T>> {
        let steps = |end: usize, by: usize| (0..end).step_by(by).map(move |index| index..(index + by).min(end));
        let extent = self.extent;
        let inner = self.inner;
        let width = self.width;
        let chunk = self.chunk;
        let part = move |outer: usize, columns: &Range<usize>, rows: &Range<usize>| Part {
            rows: outer * extent + rows.start..outer * extent + rows.end,
            columns: columns.clone(),
            state: vec![identity; columns.len()],
        };
        (0..self.outer).flat_map(move |outer| {
            steps(inner, width)
                .flat_map(move |columns| steps(extent, chunk).map(move |rows| part(outer, &columns, &rows)))
        })
    }

    fn part_totals<T: Number>(&self, part: &Part<T>, combine: impl Fn(T, T) -> T) -> Vec<T> {
        let mut totals = part.state.clone();
        self.tiles(part, |_, values| {
            for row in values.chunks_exact(totals.len()) {
                totals.iter_mut().zip(row).for_each(|(total, value)| *total = combine(*total, *value));
            }
        });
        totals
    }

    fn scan_part<T: Number>(&self, mut part: Part<T>, combine: impl Fn(T, T) -> T) {
        let writer = Rows::new(&self.operands.outputs[0], self.compute);
        let mut state = std::mem::take(&mut part.state);
        let mut native = vec![];
        let width = state.len();
        self.tiles(&part, |rows, values| {
            if let [state] = &mut state[..] {
                // Kept in a register.
                let mut last = *state;
                for value in &mut *values {
                    last = combine(last, *value);
                    *value = last;
                }
                *state = last;
            } else {
                for row in values.chunks_exact_mut(width) {
                    for (state, value) in state.iter_mut().zip(row) {
                        *state = combine(*state, *value);
                        *value = *state;
                    }
                }
            }
            // SAFETY: outputs overlap no input, and each part is of one task.
            unsafe { writer.write(rows, part.columns.clone(), values, &mut native) };
        });
    }

    /// Calls `visit` with the rows and the numbers of each tile of a part.
    fn tiles<T: Number>(&self, part: &Part<T>, mut visit: impl FnMut(Range<usize>, &mut [T])) {
        let reader = Rows::new(&self.operands.inputs[0], self.compute);
        let width = part.columns.len();
        let height = (TILE / width).max(1);
        let mut tile = vec![T::ZERO; height.min(part.rows.len()) * width];
        let mut native = vec![];
        for start in part.rows.clone().step_by(height) {
            let rows = start..(start + height).min(part.rows.end);
            let values = &mut tile[..rows.len() * width];
            // SAFETY: a scan does not write what it reads.
            unsafe { reader.read(rows.clone(), part.columns.clone(), values, &mut native) };
            visit(rows, values);
        }
    }
}
