//! Softmax of rows.

use accelerd_tensor::{Dtype, SoftmaxStep};

use super::{
    lanes,
    memory::{Memory, Operands},
    number::Real,
    rows::map_rows,
};
use crate::{OpError, cpu::Worker};

/// Multiply-adds that take as long as the exponential and the other operations of an element.
const COST: u64 = 48;

pub(super) fn run(step: &SoftmaxStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.input.layout.shape.as_slice();
    let operands = memory.operands(&[(&step.input, shape)], &[(&step.output, shape)], false)?;
    let dtype = step.input.dtype;
    if !dtype.is_float() || step.output.dtype != dtype {
        let got = format!("{dtype} and {}", step.output.dtype);
        return Err(OpError::Invalid(format!("expected one type of floating-point numbers, got {got}")));
    }
    if dtype == Dtype::F64 {
        rows::<f64>(dtype, step.is_log, &operands, worker)
    } else {
        rows::<f32>(Dtype::F32, step.is_log, &operands, worker)
    }
}

fn rows<T: Real>(dtype: Dtype, is_log: bool, operands: &Operands, worker: &Worker) -> Result<(), OpError> {
    let softmax = |row: &mut [T]| {
        let greatest = lanes::fold(row, T::LEAST, T::maximum).to_f64();
        if is_log {
            let shift = greatest + lanes::sum_of(row, |x| T::exp(x - greatest)).ln();
            // Infinity less infinity is NaN, also where the greatest is -inf.
            lanes::update(row, |_, x| x - shift);
        } else {
            lanes::update(row, |_, x| T::exp(x - greatest));
            let reciprocal = lanes::sum_of(row, |x| x).recip();
            lanes::update(row, |_, x| x * reciprocal);
        }
    };
    map_rows([&operands.inputs[0], &operands.outputs[0]], dtype, COST, worker, softmax)
}
