//! Products of matrices: by cuBLASLt, or on the general-purpose cores where the library does not multiply.

mod blas;
mod simt;
#[cfg(test)]
mod tests;

use accelerd_ir::scalar::{BinaryOp, Builder, Function, TypeError};
use accelerd_tensor::{Dtype, Layout, MapStep, MatMulStep, View};

use super::{buffers::Buffers, map};
use crate::{OpError, cuda::Worker};

/// Enqueues a step.
pub(super) fn launch(step: &MatMulStep, buffers: &Buffers<'_>, worker: &Worker) -> Result<(), OpError> {
    let checked = Checked::new(step, buffers)?;
    if checked.is_empty() {
        return Ok(());
    }
    if checked.k == 0 {
        return map::launch(&without_terms(step)?, buffers, worker);
    }
    match multiply(step, buffers, worker) {
        // The library is missing, or does not multiply this; nothing is enqueued.
        None | Some(Err(OpError::Failed { .. })) => simt::launch(step, &checked, worker),
        Some(Err(error)) => Err(error),
        Some(Ok(())) => match rest(step)? {
            Some(rest) => map::launch(&rest, buffers, worker),
            None => Ok(()),
        },
    }
}

/// By the library; `None` if it does not multiply such types or strides.
fn multiply(step: &MatMulStep, buffers: &Buffers<'_>, worker: &Worker) -> Option<Result<(), OpError>> {
    let product = blas::product(step)?;
    let enqueue = || {
        let [a, b, output] = [&step.a, &step.b, &step.output].map(|view| buffers.pointer(view));
        let (a, b, output) = (a?, b?, output?);
        let Some(bias) = step.bias.as_ref().filter(|_| blas::adds_bias(step)) else {
            return worker.multiply(&product, a, b, output, a);
        };
        let pointer = buffers.pointer(bias)?;
        if pointer.address().is_multiple_of(blas::BIAS_ALIGNMENT) {
            return worker.multiply(&product, a, b, output, pointer);
        }
        let aligned = worker.alloc::<u8>(bias.layout.elements() * bias.dtype.size())?;
        let (buffers, location) = buffers.with_scratch(&aligned);
        let to = View { location, layout: Layout::contiguous(&bias.layout.shape), ..*bias };
        map::launch(&copy(bias.clone(), to), &buffers, worker)?;
        worker.multiply(&product, a, b, output, aligned.ptr())
    };
    Some(enqueue())
}

fn copy(from: View, to: View) -> MapStep {
    let function = Function::conversion(from.dtype, to.dtype);
    MapStep { shape: from.layout.shape.clone(), inputs: vec![from], function, outputs: vec![to] }
}

/// What the library leaves to do, in place.
fn rest(step: &MatMulStep) -> Result<Option<MapStep>, OpError> {
    let bias = step.bias.as_ref().filter(|_| !blas::adds_bias(step));
    if bias.is_none() && step.epilogue.is_none() {
        return Ok(None);
    }
    elementwise(step, true, bias).map(Some)
}

/// The step for sums without terms.
fn without_terms(step: &MatMulStep) -> Result<MapStep, OpError> {
    elementwise(step, false, step.bias.as_ref())
}

/// `output = epilogue(output + bias)`, or from 0 instead of the output.
fn elementwise(step: &MatMulStep, reads_output: bool, bias: Option<&View>) -> Result<MapStep, OpError> {
    let shape = step.output.layout.shape.clone();
    let mut inputs: Vec<View> = if reads_output { vec![step.output.clone()] } else { vec![] };
    if let Some(bias) = bias {
        let layout = bias.layout.broadcast(&shape).ok_or_else(|| invalid("a bias for each column"))?;
        inputs.push(View { layout, ..bias.clone() });
    }
    let function = sum(step.output.dtype, inputs.len(), step.epilogue.as_ref()).map_err(|e| invalid(&e.to_string()))?;
    Ok(MapStep { shape, inputs, function, outputs: vec![step.output.clone()] })
}

/// The epilogue of the sum of `params` parameters.
fn sum(dtype: Dtype, params: usize, epilogue: Option<&Function>) -> Result<Function, TypeError> {
    let mut builder = Builder::new(&vec![dtype; params]);
    let mut sum = None;
    for nth in 0..params {
        let value = builder.param(nth);
        let value = builder.cast(value, dtype.compute());
        sum = Some(match sum {
            Some(sum) => builder.binary(BinaryOp::Add, sum, value)?,
            None => value,
        });
    }
    let sum = sum.unwrap_or_else(|| builder.number(dtype.compute(), 0.0));
    let rounded = builder.cast(sum, dtype);
    let results = epilogue.map_or(vec![rounded], |epilogue| builder.call(epilogue, &[rounded]));
    Ok(builder.finish(&results))
}

/// Extents and addresses of a step whose views fit each other.
#[derive(Clone, Copy, Debug)]
struct Checked {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: u64,
    b: u64,
    /// 0 without a bias.
    bias: u64,
    output: u64,
}

impl Checked {
    fn new(step: &MatMulStep, buffers: &Buffers<'_>) -> Result<Self, OpError> {
        let (&[batch, m, n], &[_, _, k]) = (&step.output.layout.shape[..], &step.a.layout.shape[..]) else {
            return Err(invalid("matrices of three dimensions"));
        };
        if step.a.layout.shape != [batch, m, k] || step.b.layout.shape != [batch, k, n] {
            return Err(invalid("factors of equal inner extents"));
        }
        let dtype = step.output.dtype;
        if step.a.dtype != dtype || step.b.dtype != dtype || !step.output.layout.is_contiguous() {
            return Err(invalid("factors of the type of a contiguous result"));
        }
        let is_fitting = |bias: &View| bias.dtype == dtype && bias.layout.shape == [n] && bias.layout.is_contiguous();
        if !step.bias.as_ref().is_none_or(is_fitting) {
            return Err(invalid("a contiguous bias with an element of the result's type for each column"));
        }
        let is_unary = |f: &Function| f.params() == [dtype] && matches!(f.results(), [only] if f.dtype(*only) == dtype);
        if !step.epilogue.as_ref().is_none_or(is_unary) {
            return Err(invalid("an epilogue of one parameter and one result of the result's type"));
        }
        let bias = step.bias.as_ref().map_or(Ok(0), |bias| buffers.address(bias))?;
        let (a, b) = (buffers.address(&step.a)?, buffers.address(&step.b)?);
        Ok(Self { batch, m, n, k, a, b, bias, output: buffers.address_mut(&step.output)? })
    }

    fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("a product of matrices: expected {expected}"))
}
