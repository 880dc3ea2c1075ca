//! Layer normalisation and RMS normalisation of rows.

use accelerd_tensor::{Dtype, NormKind, NormStep, View};

use super::{
    lanes,
    memory::Memory,
    number::Real,
    rows::{map_rows, vector},
};
use crate::{OpError, cpu::Worker};

/// Multiply-adds that take as long as the operations of an element.
const COST: u64 = 16;

pub(super) fn run(step: &NormStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let dtype = step.input.dtype;
    if !dtype.is_float() {
        return Err(OpError::Invalid(format!("expected floating-point numbers, got {dtype}")));
    }
    if dtype == Dtype::F64 {
        run_in::<f64>(dtype, step, memory, worker)
    } else {
        run_in::<f32>(Dtype::F32, step, memory, worker)
    }
}

fn run_in<T: Real>(dtype: Dtype, step: &NormStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.input.layout.shape.as_slice();
    let columns = &shape[shape.len().saturating_sub(1)..];
    let factors = [&step.weight, &step.bias];
    let mut inputs = vec![(&step.input, shape)];
    inputs.extend(factors.iter().filter_map(|view| view.as_ref()).map(|view: &View| (view, columns)));
    let operands = memory.operands(&inputs, &[(&step.output, shape)], false)?;
    if operands.inputs.iter().any(|operand| operand.dtype != step.output.dtype) {
        return Err(OpError::Invalid("a norm has operands of one type".to_owned()));
    }
    let mut rest = operands.inputs[1..].iter();
    let [weight, bias] =
        factors.map(|view| view.as_ref().and_then(|_| rest.next()).map(|operand| vector(operand, dtype)));
    let eps = f64::from_bits(step.eps_bits);
    let kind = step.kind;
    let norm = |row: &mut [T]| normalize(row, kind, eps, weight.as_deref(), bias.as_deref());
    map_rows([&operands.inputs[0], &operands.outputs[0]], dtype, COST, worker, norm)
}

fn normalize<T: Real>(row: &mut [T], kind: NormKind, eps: f64, weight: Option<&[T]>, bias: Option<&[T]>) {
    let count = row.len() as f64;
    let mean = match kind {
        NormKind::Layer => lanes::sum_of(row, |x| x) / count,
        NormKind::Rms => 0.0,
    };
    let variance = lanes::sum_of(row, |x| (x - mean) * (x - mean)) / count;
    let scale = (variance + eps).sqrt().recip();
    match (weight, bias) {
        (None, None) => lanes::update(row, |_, x| (x - mean) * scale),
        (Some(weight), None) => lanes::update(row, |nth, x| (x - mean) * scale * weight[nth].to_f64()),
        (None, Some(bias)) => lanes::update(row, |nth, x| (x - mean) * scale + bias[nth].to_f64()),
        (Some(weight), Some(bias)) => {
            lanes::update(row, |nth, x| (x - mean) * scale * weight[nth].to_f64() + bias[nth].to_f64());
        }
    }
}
