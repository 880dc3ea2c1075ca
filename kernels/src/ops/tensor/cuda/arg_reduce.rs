//! The index of an extreme value: a reduction whose state is the value with its index.

use accelerd_ir::{Dtype, scalar::Function};
use accelerd_tensor::ArgReduction;

use super::{
    buffers::BufferSizes,
    launches::Launches,
    reduce::{State, StridedReduction},
};
use crate::OpError;

/// The launches of a step.
pub(super) fn prepare(step: &ArgReduction, sizes: &BufferSizes) -> Result<Launches, OpError> {
    if step.inner.contains(&0) {
        return Err(OpError::Invalid("an extreme value: expected at least one element, got none".to_owned()));
    }
    let value = step.input.dtype.compute();
    let reduction = StridedReduction {
        outer: &step.outer,
        inner: &step.inner,
        inputs: std::slice::from_ref(&step.input),
        prologue: &Function::conversion(step.input.dtype, value),
        state: if step.is_max { State::ArgMax } else { State::ArgMin },
        value,
        epilogue: &Function::conversion(Dtype::I64, Dtype::I64),
        output: &step.output,
    };
    reduction.prepare(sizes)
}
