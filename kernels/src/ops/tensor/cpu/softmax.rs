//! Softmax of rows.

use accelerd_tensor::{Dtype, SoftmaxStep};

use super::{lanes, map::of_shape, memory::Memory, number::Real, row_source::RowSource};
use crate::{OpError, cpu::Worker};

/// Multiply-adds that take as long as the exponential and the other operations of an element.
const COST: u64 = 48;

pub(super) fn run(step: &SoftmaxStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let dtype = step.output.dtype;
    if !dtype.is_float() {
        return Err(OpError::Invalid(format!("expected floating-point numbers, got {dtype}")));
    }
    if dtype == Dtype::F64 { run_in::<f64>(step, memory, worker) } else { run_in::<f32>(step, memory, worker) }
}

fn run_in<T: Real>(step: &SoftmaxStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.output.layout.shape.as_slice();
    let operands = memory.operands(&of_shape(&step.inputs, shape), &[(&step.output, shape)], false)?;
    let output = &operands.outputs[0];
    let source = RowSource::new(&operands.inputs, &step.prologue, output)?;
    let is_log = step.is_log;
    let softmax = |row: &mut [T]| {
        let greatest = lanes::fold(row, T::LEAST, T::maximum).to_f64();
        if is_log {
            let log_sum = lanes::sum_of(row, |x| T::exp(x - greatest)).ln();
            // The sum of both would round the logarithm away where the greatest value is large. Infinity less infinity is NaN, also where
            // the greatest is -inf.
            lanes::update(row, |_, x| (x - greatest) - log_sum);
        } else {
            lanes::update(row, |_, x| T::exp(x - greatest));
            let reciprocal = lanes::sum_of(row, |x| x).recip();
            lanes::update(row, |_, x| x * reciprocal);
        }
    };
    source.map_rows(output, COST, worker, softmax)
}
