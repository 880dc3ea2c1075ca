//! Reductions with the elementwise operations before and after them: one generated kernel for a prologue, an epilogue, the ranks of the
//! iteration space and the way that it is read. Extents, strides and addresses are its arguments.

mod source;
mod space;
mod state;
#[cfg(test)]
mod tests;
mod variant;

use accelerd_ir::{Dtype, scalar::Function};
use accelerd_tensor::{ReduceStep, View};

use super::{
    buffers::{Address, BufferSizes},
    dims::Dim,
    launches::{Argument, Launch, Launches, blocks_x},
};
use crate::{OpError, cuda::Grid};
use source::Functions;
use space::{Order, Space, elements};
pub(super) use state::State;
use variant::{Input, THREADS, Variant};

/// The most words of arguments: 4 KB less a little.
const MAX_WORDS: usize = 500;

/// The launches of a step.
pub(super) fn prepare(step: &ReduceStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let reduction = StridedReduction {
        outer: &step.outer,
        inner: &step.inner,
        inputs: &step.inputs,
        prologue: &step.prologue,
        state: State::of(step.reduction, step.accumulate),
        value: step.accumulate,
        epilogue: &step.epilogue,
        output: &step.output,
    };
    reduction.prepare(sizes)
}

/// A reduction of strided inputs to a strided output.
pub(super) struct StridedReduction<'a> {
    pub(super) outer: &'a [usize],
    pub(super) inner: &'a [usize],
    /// The inputs, of layout shape `[outer, inner]`.
    pub(super) inputs: &'a [View],
    /// From elements of the inputs to a value.
    pub(super) prologue: &'a Function,
    pub(super) state: State,
    pub(super) value: Dtype,
    /// The function from the final value of the state to an element of the output.
    pub(super) epilogue: &'a Function,
    /// The output, of layout shape `outer`.
    pub(super) output: &'a View,
}

impl StridedReduction<'_> {
    /// Its launches; none if there is no result.
    pub(super) fn prepare(&self, sizes: &BufferSizes) -> Result<Launches, OpError> {
        self.check()?;
        let address = |view: &View| sizes.address(view).map(|address| Input { address, size: view.dtype.size() });
        let inputs = self.inputs.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        let output = sizes.address_mut(self.output)?;
        if self.outer.contains(&0) {
            return Ok(Launches::default());
        }
        let strides: Vec<_> = self.inputs.iter().map(|view| &view.layout.strides[..]).collect();
        let space = Space::new(self.outer, self.inner, &strides, &self.output.layout.strides, self.order());
        let variant = Variant::choose(&space, &inputs, self.prologue.values().len(), self.state);
        self.launches(&space, &variant, &inputs, output)
    }

    fn launches(
        &self,
        space: &Space,
        variant: &Variant,
        inputs: &[Input],
        output: Address,
    ) -> Result<Launches, OpError> {
        let functions = self.functions();
        let is_partial = variant.parts > 1;
        let target = if is_partial { Argument::Workspace(0) } else { Argument::Address(output) };
        let outer = elements(&space.outer);
        let inner = elements(&space.inner);
        let mut arguments: Vec<_> = [outer, inner, variant.part].map(word).into();
        arguments.push(target);
        arguments.extend(inputs.iter().map(|input| Argument::Address(input.address)));
        arguments.extend(dims(&space.outer, 0..inputs.len() + 1));
        arguments.extend(dims(&space.inner, 0..inputs.len()));
        if arguments.len() > MAX_WORDS {
            return Err(OpError::Invalid(format!(
                "a reduction of {} inputs has more than {MAX_WORDS} arguments",
                inputs.len()
            )));
        }
        let parts = u32::try_from(variant.parts).map_err(|e| OpError::Invalid(e.to_string()))?;
        let reduce = Launch::new(
            functions.reduce(space, variant, arguments.len()),
            Grid::xy(blocks_x(variant.blocks)?, parts),
            block_threads(),
            arguments,
        );
        if !is_partial {
            return Ok(Launches::one(reduce));
        }
        let states = outer * variant.parts;
        let merge = self.merge_states(space, variant, output)?;
        let workspace_bytes = states * self.state.bytes(self.value);
        Ok(Launches { launches: vec![reduce, merge], workspace_bytes, ..Launches::default() })
    }

    /// Merges the states of the parts: a thread or a few for each result if there are many, else a warp or a block.
    fn merge_states(&self, space: &Space, variant: &Variant, output: Address) -> Result<Launch, OpError> {
        let outer = elements(&space.outer);
        let lanes = match variant.parts {
            ..=32 if outer >= variant::TARGET_BLOCKS => 1,
            _ if outer >= variant::TARGET_BLOCKS => 8,
            ..=64 => 32,
            _ => THREADS,
        };
        let mut arguments = vec![word(outer), word(variant.parts), Argument::Workspace(0), Argument::Address(output)];
        let last = self.inputs.len();
        arguments.extend(dims(&space.outer, last..last + 1));
        Ok(Launch::new(
            self.functions().reduce_states(space, lanes, variant.is_wide, arguments.len()),
            Grid::x(blocks_x(outer.div_ceil(THREADS / lanes))?),
            block_threads(),
            arguments,
        ))
    }

    fn functions(&self) -> Functions<'_> {
        let Self { prologue, state, value, epilogue, .. } = *self;
        Functions { prologue, state, value, epilogue, output: self.output.dtype }
    }

    fn order(&self) -> Order {
        match () {
            () if self.prologue.uses_index() || self.epilogue.uses_index() => Order::Fixed,
            () if self.state.finds_index() => Order::InnerFixed,
            () => Order::Free,
        }
    }

    /// Checks that views, functions and shape fit each other.
    fn check(&self) -> Result<(), OpError> {
        let invalid = |expected: &str| Err(OpError::Invalid(format!("a reduction: expected {expected}")));
        let results = |function: &Function| -> Vec<Dtype> {
            function.results().iter().map(|result| function.dtype(*result)).collect()
        };
        let inputs: Vec<_> = self.inputs.iter().map(|view| view.dtype).collect();
        if !self.state.takes(self.value) {
            return invalid(&format!("values that are reduced by {:?}, not {}", self.state, self.value));
        }
        if inputs != self.prologue.params() || results(self.prologue) != [self.value] {
            return invalid(&format!("a prologue from the inputs' types to {}", self.value));
        }
        let finished = self.state.finished(self.value);
        if self.epilogue.params() != [finished] || results(self.epilogue) != [self.output.dtype] {
            return invalid(&format!("an epilogue from {finished} to {}", self.output.dtype));
        }
        let shape = [self.outer, self.inner].concat();
        let has_shape = |view: &View, shape: &[usize]| {
            view.layout.shape == shape && view.layout.strides.len() == view.layout.shape.len()
        };
        if !self.inputs.iter().all(|view| has_shape(view, &shape)) || !has_shape(self.output, self.outer) {
            return invalid(&format!("inputs of shape {shape:?} and an output of shape {:?}", self.outer));
        }
        let extents = shape.iter().filter(|extent| **extent > 0);
        let elements = extents.copied().try_fold(1_usize, usize::checked_mul);
        match elements.and_then(|elements| isize::try_from(elements).ok()) {
            Some(_) => Ok(()),
            None => invalid("fewer elements than an address space"),
        }
    }
}

fn block_threads() -> u32 {
    u32::try_from(THREADS).expect("a small constant")
}

fn word(value: usize) -> Argument {
    Argument::Word(value as u64)
}

/// The extents of dimensions, then the strides of some operands.
fn dims(dims: &[Dim], operands: std::ops::Range<usize>) -> Vec<Argument> {
    let extents = dims.iter().map(|dim| word(dim.extent));
    let stride = |dim: &Dim, operand: usize| Argument::Word((dim.strides[operand] as i64).cast_unsigned());
    let strides = operands.flat_map(|operand| dims.iter().map(move |dim| stride(dim, operand)));
    extents.chain(strides).collect()
}
