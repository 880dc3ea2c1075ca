//! How a graph runs: steps over views of buffers whose places are fixed.

use accelerd_ir::{Dtype, scalar::Function};

use crate::{Layout, TensorType};

/// An executable graph.
///
/// Inputs and outputs are buffers of their own: contiguous, row-major, an output exactly as long as its elements. Everything
/// else lies in one arena.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Types of the inputs, in the order of the graph.
    pub inputs: Vec<TensorType>,
    /// Types of the outputs, in the order of the graph.
    pub outputs: Vec<TensorType>,
    /// Bytes of the arena that holds the intermediate values.
    pub arena_bytes: usize,
    /// What is done, in order. Each step reads what earlier ones wrote.
    pub steps: Vec<Step>,
}

/// A buffer of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// An input, by its position. Never written.
    Input(usize),
    /// An output, by its position.
    Output(usize),
    /// The arena, from this byte, a multiple of [`Plan::ALIGNMENT`].
    Arena(usize),
}

/// A tensor in a buffer. Its layout counts elements from the location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer.
    pub location: Location,
    /// Element type.
    pub dtype: Dtype,
    /// Where in the buffer.
    pub layout: Layout,
}

/// One launch, or a few.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Elementwise operations.
    Map(MapStep),
    /// A reduction, with the elementwise operations before and after it.
    Reduce(ReduceStep),
    /// The index of an extreme value.
    ArgReduce(ArgReduction),
    /// Softmax of rows.
    Softmax(SoftmaxStep),
    /// Normalisation of rows.
    Norm(NormStep),
    /// A product of matrices.
    MatMul(MatMulStep),
}

/// Computes `function` for each element of `shape`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapStep {
    /// The iteration space.
    pub shape: Vec<usize>,
    /// The parameters of the function, each of layout shape `shape`.
    pub inputs: Vec<View>,
    /// From an element of each input to one of each output.
    pub function: Function,
    /// The results, each of layout shape `shape`. An output may share its location with inputs of the same layout and element
    /// size: an element is read before it is written.
    pub outputs: Vec<View>,
}

/// Reduces the inner dimensions of an iteration space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReduceStep {
    /// The dimensions that are kept; the iteration space is `[outer, inner]`.
    pub outer: Vec<usize>,
    /// The dimensions that are reduced.
    pub inner: Vec<usize>,
    /// The parameters of the prologue, each of layout shape `[outer, inner]`.
    pub inputs: Vec<View>,
    /// From an element of each input to the one value that is reduced, of type `accumulate`.
    pub prologue: Function,
    /// What combines the values.
    pub reduction: Reduction,
    /// Type of the values and of their combination.
    pub accumulate: Dtype,
    /// From the combination to the value that is written.
    pub epilogue: Function,
    /// The result, of layout shape `outer`.
    pub output: View,
}

/// An associative combination of values. Sums of floating-point numbers are taken in an order that depends on the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum; 0 if there are none. Integers wrap.
    Sum,
    /// Product; 1 if there are none. Integers wrap.
    Prod,
    /// The least, NaN if any is. All of bool, true if there are none; of numbers there is at least one.
    Min,
    /// The greatest, NaN if any is. Any of bool, false if there are none; of numbers there is at least one.
    Max,
    /// Logarithm of the sum of exponentials, without overflow; -inf if there are none.
    LogSumExp,
    /// Sum of squared differences from the mean, without cancellation; 0 if there are none.
    SquaredDeviations,
}

/// Writes the index of the first extreme value among the inner dimensions, row-major, as i64. NaN is the extreme value if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArgReduction {
    /// The dimensions that are kept.
    pub outer: Vec<usize>,
    /// The dimensions that are reduced; not empty of elements.
    pub inner: Vec<usize>,
    /// The values, of layout shape `[outer, inner]`.
    pub input: View,
    /// Whether the greatest is sought, else the least.
    pub is_max: bool,
    /// The indices, i64, of layout shape `outer`.
    pub output: View,
}

/// Softmax of each row, computed in [`Dtype::compute`] of the type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxStep {
    /// The rows: contiguous, of layout shape `[rows, columns]`.
    pub input: View,
    /// Whether the logarithm of the softmax is sought.
    pub is_log: bool,
    /// The results, of the input's type and layout shape, contiguous.
    pub output: View,
}

/// What a row is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// The mean is subtracted, and the rest divided by its standard deviation.
    Layer,
    /// Divided by the root mean square.
    Rms,
}

/// Normalises each row, computed in [`Dtype::compute`] of the type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NormStep {
    /// The rows: contiguous, of layout shape `[rows, columns]`.
    pub input: View,
    /// What is computed.
    pub kind: NormKind,
    /// Added to the variance or the mean square: the bits of an f64.
    pub eps_bits: u64,
    /// Multiplies the columns: contiguous, of the input's type and layout shape `[columns]`.
    pub weight: Option<View>,
    /// Added to the columns, likewise.
    pub bias: Option<View>,
    /// The results, of the input's type and layout shape, contiguous.
    pub output: View,
}

/// In what precision the elements of a product are multiplied and added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulate {
    /// f32; f32 elements are not rounded before they are multiplied.
    F32,
    /// f32; a backend may round f32 elements to TF32 (10 bits of fraction) before it multiplies them.
    Tf32,
    /// f64.
    F64,
    /// The integer type of the elements, wrapping.
    Wrapping,
}

/// `output = epilogue(a * b + bias)` for each matrix of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatMulStep {
    /// Left factors, of layout shape `[batch, m, k]`; the stride of `m` or of `k` is 1, the other at least its extent.
    pub a: View,
    /// Right factors, of layout shape `[batch, k, n]`; the stride of `k` or of `n` is 1, the other at least its extent.
    pub b: View,
    /// Added to each row: of layout shape `[n]`, contiguous, of the output's type.
    pub bias: Option<View>,
    /// Precision.
    pub accumulate: Accumulate,
    /// From the sum, rounded to the output's type, to the value that is written, of the same type.
    pub epilogue: Option<Function>,
    /// The results, of layout shape `[batch, m, n]`, contiguous.
    pub output: View,
}

impl Plan {
    /// Alignment of the values in the arena, in bytes; that of allocations on a GPU.
    pub const ALIGNMENT: usize = 256;

    /// Bytes that an execution allocates: arena and outputs.
    pub fn allocated_bytes(&self) -> usize {
        self.outputs.iter().map(TensorType::bytes).fold(self.arena_bytes, usize::saturating_add)
    }

    /// Estimated work, in operations on elements; at least 1.
    pub fn cost(&self) -> u64 {
        self.steps.iter().map(Step::cost).fold(1, u64::saturating_add)
    }
}

impl Step {
    /// What it writes.
    pub(crate) fn outputs_mut(&mut self) -> Vec<&mut View> {
        match self {
            Self::Map(step) => step.outputs.iter_mut().collect(),
            Self::Reduce(step) => vec![&mut step.output],
            Self::ArgReduce(step) => vec![&mut step.output],
            Self::Softmax(step) => vec![&mut step.output],
            Self::Norm(step) => vec![&mut step.output],
            Self::MatMul(step) => vec![&mut step.output],
        }
    }

    /// What it reads and writes.
    pub(crate) fn views_mut(&mut self) -> Vec<&mut View> {
        match self {
            Self::Map(step) => step.inputs.iter_mut().chain(&mut step.outputs).collect(),
            Self::Reduce(step) => step.inputs.iter_mut().chain([&mut step.output]).collect(),
            Self::ArgReduce(step) => vec![&mut step.input, &mut step.output],
            Self::Softmax(step) => vec![&mut step.input, &mut step.output],
            Self::Norm(step) => {
                let optional = [step.weight.as_mut(), step.bias.as_mut()].into_iter().flatten();
                [&mut step.input, &mut step.output].into_iter().chain(optional).collect()
            }
            Self::MatMul(step) => {
                [&mut step.a, &mut step.b, &mut step.output].into_iter().chain(step.bias.as_mut()).collect()
            }
        }
    }

    /// Estimated work, in operations on elements.
    pub fn cost(&self) -> u64 {
        let elements = |layout: &Layout| layout.elements() as u64;
        match self {
            Self::Map(step) => product(&[&step.shape]).saturating_mul(step.function.values().len() as u64),
            Self::Reduce(step) => {
                product(&[&step.outer, &step.inner]).saturating_mul(step.prologue.values().len() as u64 + 1)
            }
            Self::ArgReduce(step) => elements(&step.input.layout),
            Self::Softmax(step) => elements(&step.input.layout).saturating_mul(8),
            Self::Norm(step) => elements(&step.input.layout).saturating_mul(8),
            Self::MatMul(step) => elements(&step.output.layout).saturating_mul(step.a.layout.shape[2].max(1) as u64),
        }
    }
}

fn product(shapes: &[&[usize]]) -> u64 {
    shapes.iter().flat_map(|shape| shape.iter()).fold(1, |product: u64, extent| product.saturating_mul(*extent as u64))
}
