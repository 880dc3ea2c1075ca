//! Layer normalisation and RMS normalisation of rows.

use accelerd_tensor::{Dtype, NormKind, NormStep, View};

use super::{lanes, map::of_shape, memory::Memory, number::Real, row_source::RowSource, rows::vector};
use crate::{OpError, cpu::Worker};

/// Multiply-adds that take as long as the operations of an element.
const COST: u64 = 16;

pub(super) fn run(step: &NormStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let dtype = step.output.dtype;
    if !dtype.is_float() {
        return Err(OpError::Invalid(format!("expected floating-point numbers, got {dtype}")));
    }
    if dtype == Dtype::F64 { run_in::<f64>(step, memory, worker) } else { run_in::<f32>(step, memory, worker) }
}

fn run_in<T: Real>(step: &NormStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.output.layout.shape.as_slice();
    let columns = &shape[shape.len().saturating_sub(1)..];
    let factors = [&step.weight, &step.bias];
    let mut inputs = of_shape(&step.inputs, shape);
    inputs.extend(factors.iter().filter_map(|view| view.as_ref()).map(|view: &View| (view, columns)));
    let operands = memory.operands(&inputs, &[(&step.output, shape)], false)?;
    let (inputs, factor_operands) = operands.inputs.split_at(step.inputs.len());
    let output = &operands.outputs[0];
    if factor_operands.iter().any(|operand| operand.dtype != output.dtype) {
        return Err(OpError::Invalid("a norm has weight and bias of the type of its output".to_owned()));
    }
    let source = RowSource::new(inputs, &step.prologue, output)?;
    let mut rest = factor_operands.iter();
    let [weight, bias] = factors
        .map(|view| view.as_ref().and_then(|_| rest.next()).map(|operand| vector(operand, output.dtype.compute())));
    let eps = f64::from_bits(step.eps_bits);
    let kind = step.kind;
    let norm = |row: &mut [T]| normalize(row, kind, eps, weight.as_deref(), bias.as_deref());
    source.map_rows(output, COST, worker, norm)
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
