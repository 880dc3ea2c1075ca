//! The bytes that steps move and the operations that they compute at least, from which achieved rates and their bounds follow.

use std::ops::Add;

use accelerd_ir::scalar::{Function, Inst};

use crate::{
    Accumulate, ArgReduction, AttentionStep, ConvStep, Dtype, IndexStep, MapStep, MatMulStep, NormKind, NormStep, Plan,
    PoolStep, PoolWindows, ReduceStep, ScanStep, SoftmaxStep, SortStep, Step, TensorType, View,
};

/// Bytes and operations of a step or a plan.
///
/// An element is read and written once by a step, however often it is needed: a broadcast one counts once. What kernels store in between
/// does not count. Arithmetic, comparisons, choices, conversions and elementary functions are one operation each; a multiplication and an
/// addition of a product are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Operations.
    pub operations: u64,
    /// Those of the multiplications and additions of matrix products, convolutions and attention.
    pub product_operations: u64,
}

impl Workload {
    /// Bytes read and written.
    pub fn moved(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    fn of<'a>(reads: impl IntoIterator<Item = &'a View>, writes: &[View], operations: u64) -> Self {
        Self { read: bytes(reads), written: bytes(writes), operations, product_operations: 0 }
    }
}

impl Add for Workload {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
            operations: self.operations.saturating_add(other.operations),
            product_operations: self.product_operations.saturating_add(other.product_operations),
        }
    }
}

impl Plan {
    /// The sum over the steps: a value that one step writes and another one reads counts twice.
    pub fn workload(&self) -> Workload {
        self.steps.iter().map(Step::workload).fold(Workload::default(), Workload::add)
    }

    /// Bytes that any execution moves: those of the inputs and outputs, or of the steps if they are fewer, because they read a part of an
    /// input.
    pub fn least_moved(&self) -> u64 {
        let ends = self.inputs.iter().chain(&self.outputs).map(|of| of.bytes() as u64);
        ends.fold(0, u64::saturating_add).min(self.workload().moved())
    }

    /// Element type and precision of the matrix products, convolutions or attention with the most operations.
    pub fn product_kind(&self) -> Option<(Dtype, Accumulate)> {
        let products =
            self.steps.iter().filter_map(|step| Some((step.workload().product_operations, step.product_kind()?)));
        products.max_by_key(|(operations, _)| *operations).map(|(_, kind)| kind)
    }
}

impl Step {
    /// The bytes that the step moves and the operations that it computes at least.
    pub fn workload(&self) -> Workload {
        match self {
            Self::Map(step) => map(step),
            Self::Reduce(step) => reduce(step),
            Self::ArgReduce(ArgReduction { input, output, .. }) | Self::Scan(ScanStep { input, output, .. }) => {
                Workload::of([input], std::slice::from_ref(output), elements(input))
            }
            Self::Softmax(step) => softmax(step),
            Self::Norm(step) => norm(step),
            Self::MatMul(step) => matmul(step),
            Self::Index(step) => index(step),
            Self::Sort(step) => sort(step),
            Self::Conv(step) => conv(step),
            Self::Pool(step) => pool(step),
            Self::Attention(step) => attention(step),
        }
    }

    /// Element type and precision, if it multiplies matrices.
    fn product_kind(&self) -> Option<(Dtype, Accumulate)> {
        match self {
            Self::MatMul(step) => Some((step.a.dtype, step.accumulate)),
            Self::Conv(step) => Some((step.input.dtype, step.accumulate)),
            Self::Attention(step) => Some((step.query.dtype, step.accumulate)),
            Self::Map(_)
            | Self::Reduce(_)
            | Self::ArgReduce(_)
            | Self::Softmax(_)
            | Self::Norm(_)
            | Self::Index(_)
            | Self::Scan(_)
            | Self::Sort(_)
            | Self::Pool(_) => None,
        }
    }
}

fn map(step: &MapStep) -> Workload {
    let operations = product(&step.shape).saturating_mul(operations(&step.function));
    Workload::of(&step.inputs, &step.outputs, operations)
}

fn reduce(step: &ReduceStep) -> Workload {
    let of_each = step.reduction.combination().operations;
    let (outer, inner) = (product(&step.outer), product(&step.inner));
    let inside = outer.saturating_mul(inner).saturating_mul(operations(&step.prologue).saturating_add(of_each));
    let operations = inside.saturating_add(outer.saturating_mul(operations(&step.epilogue)));
    Workload::of(&step.inputs, std::slice::from_ref(&step.output), operations)
}

fn softmax(step: &SoftmaxStep) -> Workload {
    // Maximum, difference, exponential, sum, and quotient or difference.
    let of_each = operations(&step.prologue).saturating_add(5);
    Workload::of(&step.inputs, std::slice::from_ref(&step.output), elements(&step.output).saturating_mul(of_each))
}

fn norm(step: &NormStep) -> Workload {
    let of_each = match step.kind {
        // Sum; difference, square and sum; difference and quotient.
        NormKind::Layer => 6,
        // Square and sum; quotient.
        NormKind::Rms => 3,
    };
    let affine = [&step.weight, &step.bias].into_iter().flatten();
    let of_each = operations(&step.prologue).saturating_add(of_each + affine.clone().count() as u64);
    let operations = elements(&step.output).saturating_mul(of_each);
    Workload::of(step.inputs.iter().chain(affine), std::slice::from_ref(&step.output), operations)
}

fn matmul(step: &MatMulStep) -> Workload {
    let products = elements(&step.output).saturating_mul(extent(&step.a, 2).saturating_mul(2));
    let reads = [&step.a, &step.b].into_iter().chain(&step.bias);
    with_products(products, reads, step.bias.is_some(), step.epilogue.as_ref(), &step.output)
}

fn conv(step: &ConvStep) -> Workload {
    let products = elements(&step.output)
        .saturating_mul(product(step.weight.layout.shape.get(1..).unwrap_or_default()).saturating_mul(2));
    let reads = [&step.input, &step.weight].into_iter().chain(&step.bias);
    with_products(products, reads, step.bias.is_some(), step.epilogue.as_ref(), &step.output)
}

/// The workload of products, and of what follows them for each element.
fn with_products<'a>(
    products: u64,
    reads: impl Iterator<Item = &'a View>,
    is_biased: bool,
    epilogue: Option<&Function>,
    output: &View,
) -> Workload {
    let after = u64::from(is_biased) + epilogue.map_or(0, operations);
    let all = products.saturating_add(elements(output).saturating_mul(after));
    Workload { product_operations: products, ..Workload::of(reads, std::slice::from_ref(output), all) }
}

/// Of the table, the elements that are chosen.
fn index(step: &IndexStep) -> Workload {
    let written = bytes([&step.output]);
    let read = written.saturating_add(bytes([&step.index]));
    Workload { read, written, ..Workload::default() }
}

/// As many comparisons as a merge of the rows needs.
fn sort(step: &SortStep) -> Workload {
    let columns = step.input.layout.shape.last().copied().unwrap_or(1).max(1);
    let depth = u64::from(columns.next_power_of_two().ilog2());
    let operations = elements(&step.input).saturating_mul(depth);
    Workload::of([&step.input], std::slice::from_ref(&step.output), operations)
}

fn pool(step: &PoolStep) -> Workload {
    let operations = match step.windows {
        PoolWindows::Sliding(windows) => elements(&step.output).saturating_mul(product(&windows.kernel)),
        // The windows cover the image about once.
        PoolWindows::Adaptive => elements(&step.input),
    };
    Workload::of([&step.input], std::slice::from_ref(&step.output), operations)
}

/// All keys count that a mask or lengths may exclude, because which ones they exclude is not known.
fn attention(step: &AttentionStep) -> Workload {
    let [batch, heads, queries, dim] = [0, 1, 2, 3].map(|at| extent(&step.query, at));
    let (keys, value_dim) = (extent(&step.key, 2), extent(&step.value, 3));
    let pairs = if step.is_causal {
        // Query i attends to keys 0 to i.
        let (full, rest) = (queries.min(keys), queries.saturating_sub(keys));
        (full.saturating_mul(full + 1) / 2).saturating_add(rest.saturating_mul(keys))
    } else {
        queries.saturating_mul(keys)
    };
    let pairs = batch.saturating_mul(heads).saturating_mul(pairs);
    let products = pairs.saturating_mul(dim.saturating_add(value_dim).saturating_mul(2));
    // Scale, maximum, difference, exponential and sum; the quotient is of the results. A mask adds one.
    let softmax = pairs.saturating_mul(5 + u64::from(step.mask.is_some())).saturating_add(elements(&step.output));
    let workload = Workload::of(step.inputs(), std::slice::from_ref(&step.output), products.saturating_add(softmax));
    Workload { product_operations: products, ..workload }
}

/// Operations of a function.
fn operations(function: &Function) -> u64 {
    let is_operation = |inst: Inst| match inst {
        Inst::Param(_) | Inst::Index | Inst::Literal(_) => false,
        Inst::Unary(..) | Inst::Binary(..) | Inst::Select(..) | Inst::Cast(_) => true,
    };
    function.values().iter().filter(|value| is_operation(value.inst)).count() as u64
}

/// Bytes of the elements of views, without repetitions of broadcast ones.
fn bytes<'a>(views: impl IntoIterator<Item = &'a View>) -> u64 {
    let of_view = |view: &View| {
        let extents = view.layout.shape.iter().zip(&view.layout.strides);
        let shape = extents.map(|(extent, stride)| if *stride == 0 { (*extent).min(1) } else { *extent }).collect();
        TensorType { dtype: view.dtype, shape }.bytes() as u64
    };
    views.into_iter().map(of_view).fold(0, u64::saturating_add)
}

/// An extent of a view; 0 if it has fewer dimensions, as in a step that its executor will refuse.
fn extent(view: &View, dim: usize) -> u64 {
    view.layout.shape.get(dim).map_or(0, |extent| *extent as u64)
}

fn elements(view: &View) -> u64 {
    product(&view.layout.shape)
}

fn product(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |product: u64, extent| product.saturating_mul(*extent as u64))
}

#[cfg(test)]
mod tests;
