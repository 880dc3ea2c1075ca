//! The plan of a graph: steps over views of buffers whose places are fixed.

use accelerd_ir::{Dtype, scalar::Function};

use crate::{IndexStep, Layout, Reduction, ScanStep, SortStep, TensorType, View};

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
    /// The steps, in order. Each step reads what earlier ones wrote.
    pub steps: Vec<Step>,
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
    /// Softmax of rows, with the elementwise operations before it.
    Softmax(SoftmaxStep),
    /// Normalisation of rows, with the elementwise operations before it.
    Norm(NormStep),
    /// A product of matrices.
    MatMul(MatMulStep),
    /// Elements by index.
    Index(IndexStep),
    /// Accumulation along a dimension.
    Scan(ScanStep),
    /// Indices in sorted order.
    Sort(SortStep),
    /// A convolution.
    Conv(ConvStep),
    /// Pooling of windows.
    Pool(PoolStep),
    /// Scaled dot-product attention.
    Attention(AttentionStep),
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
    /// The combination of the values.
    pub reduction: Reduction,
    /// Type of the values and of their combination.
    pub accumulate: Dtype,
    /// From the combination to the value that is written.
    pub epilogue: Function,
    /// The result, of layout shape `outer`.
    pub output: View,
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
    /// True if the greatest is sought, else the least.
    pub is_max: bool,
    /// The indices, i64, of layout shape `outer`.
    pub output: View,
}

/// Softmax of each row, computed in [`Dtype::compute`] of the output's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxStep {
    /// The parameters of the prologue: 1 to [`RowAccess::MAX_INPUTS`](crate::RowAccess::MAX_INPUTS), each of layout shape
    /// `[rows, columns]` and with a [`RowAccess`](crate::RowAccess).
    pub inputs: Vec<View>,
    /// From an element of each input to an element of a row, of the output's type. It does not use the index.
    pub prologue: Function,
    /// True if the logarithm of the softmax is sought.
    pub is_log: bool,
    /// The results: contiguous, of layout shape `[rows, columns]`.
    pub output: View,
}

/// The divisor of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// The mean is subtracted, and the rest divided by its standard deviation.
    Layer,
    /// Divided by the root mean square.
    Rms,
}

/// Normalises each row, computed in [`Dtype::compute`] of the output's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NormStep {
    /// The parameters of the prologue, as those of a [`SoftmaxStep`].
    pub inputs: Vec<View>,
    /// From an element of each input to an element of a row, of the output's type. It does not use the index.
    pub prologue: Function,
    /// The computation.
    pub kind: NormKind,
    /// Added to the variance or the mean square: the bits of an f64.
    pub eps_bits: u64,
    /// Multiplies the columns: contiguous, of the output's type and layout shape `[columns]`.
    pub weight: Option<View>,
    /// Added to the columns, likewise.
    pub bias: Option<View>,
    /// The results: contiguous, of layout shape `[rows, columns]`.
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
    /// Added to each row: of layout shape `[n]`, contiguous, of the output's type. It begins at a multiple of
    /// [`MatMulStep::BIAS_ALIGNMENT`] bytes from its location.
    pub bias: Option<View>,
    /// Precision.
    pub accumulate: Accumulate,
    /// From the sum, rounded to the output's type, to the value that is written, of the same type.
    pub epilogue: Option<Function>,
    /// The results, of layout shape `[batch, m, n]`, contiguous.
    pub output: View,
}

/// Windows that slide over images, by `[height, width]`. The first begins `padding` positions before the image, and the padding
/// after it is as large as the windows need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Positions of a window, at least 1.
    pub kernel: [usize; 2],
    /// Distance between windows, at least 1.
    pub stride: [usize; 2],
    /// Positions before the image.
    pub padding: [usize; 2],
    /// Distance between positions of a window, at least 1.
    pub dilation: [usize; 2],
}

/// Convolves images: `output = epilogue(sum of input * weight + bias)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvStep {
    /// The images: contiguous, of layout shape `[batch, channels, height, width]`. Positions in the padding are 0.
    pub input: View,
    /// The filters: contiguous, of layout shape `[out_channels, channels / groups, kernel_height, kernel_width]`, of the input's type.
    pub weight: View,
    /// Added to each output channel: of layout shape `[out_channels]`, contiguous, of the input's type.
    pub bias: Option<View>,
    /// Where the filters are applied.
    pub windows: Windows,
    /// The channels and output channels are as many groups of equal size, and a group of output channels reads its group of channels.
    pub groups: usize,
    /// Precision.
    pub accumulate: Accumulate,
    /// From the sum, rounded to the output's type, to the value that is written, of the same type.
    pub epilogue: Option<Function>,
    /// The results: contiguous, of layout shape `[batch, out_channels, height, width]`, of the input's type.
    pub output: View,
}

/// Which windows are pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolWindows {
    /// Windows of one size. Positions in the padding do not count; the last windows may reach beyond it.
    Sliding(Windows),
    /// As many as the output has: along each axis, window `i` of `n` begins at `floor(i * extent / n)` and ends before
    /// `ceil((i + 1) * extent / n)`.
    Adaptive,
}

/// The result of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The greatest, NaN if any is; of no elements the least value of the type.
    Max,
    /// The sum, divided; of no elements 0. Computed in [`Dtype::compute`] of the type.
    Average(Divisor),
}

/// The divisor of the sum of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Divisor {
    /// The number of its elements.
    Elements,
    /// The number of its positions in the image and in as much padding after it as before it.
    Padded,
    /// A number other than 0.
    Number(i64),
}

/// Pools windows of images.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolStep {
    /// The images: contiguous, of layout shape `[planes, height, width]`.
    pub input: View,
    /// The windows.
    pub windows: PoolWindows,
    /// The result of a window.
    pub kind: PoolKind,
    /// The results: contiguous, of layout shape `[planes, height, width]`, of the input's type.
    pub output: View,
}

impl Windows {
    /// Positions from the first to the last of a window along an axis, 0 for the height and 1 for the width.
    pub fn reach(&self, axis: usize) -> usize {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }
}

impl ConvStep {
    /// Groups of fewer output channels do not fill a tile of a product of matrices.
    const MIN_OUTPUTS: usize = 4;
    /// Channels that packed operands are padded to a multiple of, at most.
    const PADDING: usize = 8;

    /// Returns true if groups have so few channels or output channels that a product of matrices would be mostly padding.
    pub fn is_narrow(&self) -> bool {
        let &[out_channels, channels, ..] = &self.weight.layout.shape[..] else { return true };
        channels == 0 || (channels == 1 && self.groups > 1) || out_channels / self.groups.max(1) < Self::MIN_OUTPUTS
    }

    /// The most bytes of packed operands that a backend holds during the step.
    pub fn workspace_bytes(&self) -> usize {
        if self.is_narrow() {
            return 0;
        }
        let dtype = self.output.dtype;
        let padded = |shape: &[usize], groups: usize| {
            let channels = (shape[1] / groups).next_multiple_of(Self::PADDING).saturating_mul(groups);
            product(&[&shape[..1], &[channels], &shape[2..]])
        };
        let bytes = |elements: u64, size: usize| usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size);
        let filters = bytes(padded(&self.weight.layout.shape, 1), dtype.compute().size());
        let is_packed = dtype.size() == 2 || self.accumulate == Accumulate::Tf32;
        let images = if is_packed { bytes(padded(&self.input.layout.shape, self.groups), dtype.size()) } else { 0 };
        filters.next_multiple_of(Plan::ALIGNMENT).saturating_add(images)
    }
}

/// `output = softmax(scale * query * key^T + mask) * value` for each head, of one floating-point type. The dimensions of a batch, of
/// heads and of rows may have any stride.
///
/// A key takes part in a row unless the mask excludes it, its index is not below the length of its batch, or it comes after the query in
/// causal attention. The result of a row in which no key takes part is 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionStep {
    /// Of layout shape `[batch, heads, queries, dim]`; the stride of `dim` is 1. Rows of 16-bit elements are aligned to
    /// [`Self::ROW_ALIGNMENT`].
    pub query: View,
    /// Of layout shape `[batch, kv_heads, keys, dim]`, likewise. Each head serves `heads / kv_heads` consecutive ones of the query.
    pub key: View,
    /// Of layout shape `[batch, kv_heads, keys, value_dim]`, likewise.
    pub value: View,
    /// Of layout shape `[batch, heads, queries, keys]` and any strides: bool, true where a key takes part, or numbers of type f32 or the
    /// query's, which are added.
    pub mask: Option<View>,
    /// The number of keys of each batch that take part, at least 0 and at most all: i32 of layout shape `[batch]`, contiguous.
    pub lengths: Option<View>,
    /// True if query `i` attends to keys `0..=i` only.
    pub is_causal: bool,
    /// The factor of scores: the bits of an f64.
    pub scale_bits: u64,
    /// Precision of the products.
    pub accumulate: Accumulate,
    /// The results, of layout shape `[batch, heads, queries, value_dim]`, contiguous.
    pub output: View,
}

impl AttentionStep {
    /// Alignment of rows of 16-bit elements, in bytes, relative to a buffer.
    pub const ROW_ALIGNMENT: usize = 16;
    /// The most queries and keys of a head.
    pub const MAX_ROWS: usize = 1 << 30;
    /// The most numbers of a query, a key or a value.
    pub const MAX_COLUMNS: usize = 1 << 16;

    /// The views that it reads, in the order of the fields.
    pub fn inputs(&self) -> impl Iterator<Item = &View> {
        [&self.query, &self.key, &self.value].into_iter().chain(&self.mask).chain(&self.lengths)
    }
}

impl Plan {
    /// Alignment of the values in the arena, in bytes; that of allocations on a GPU.
    pub const ALIGNMENT: usize = 256;

    /// Bytes that an execution allocates: arena, outputs, and packed operands of the step with the most.
    pub fn allocated_bytes(&self) -> usize {
        let packed = self.steps.iter().map(|step| if let Step::Conv(step) = step { step.workspace_bytes() } else { 0 });
        let bytes = self.outputs.iter().map(TensorType::bytes).fold(self.arena_bytes, usize::saturating_add);
        bytes.saturating_add(packed.max().unwrap_or(0))
    }

    /// Estimated work, in operations on elements; at least 1.
    pub fn cost(&self) -> u64 {
        self.steps.iter().map(Step::cost).fold(1, u64::saturating_add)
    }
}

impl MatMulStep {
    /// Alignment of a bias in bytes, which kernels of libraries assume.
    pub const BIAS_ALIGNMENT: usize = 16;

    /// Returns true if a view begins at such a multiple.
    pub fn is_bias_aligned(bias: &View) -> bool {
        (bias.layout.offset * bias.dtype.size()).is_multiple_of(Self::BIAS_ALIGNMENT)
    }
}

impl Step {
    /// The views that it writes.
    pub(crate) fn outputs_mut(&mut self) -> Vec<&mut View> {
        match self {
            Self::Map(step) => step.outputs.iter_mut().collect(),
            Self::Reduce(step) => vec![&mut step.output],
            Self::ArgReduce(step) => vec![&mut step.output],
            Self::Softmax(step) => vec![&mut step.output],
            Self::Norm(step) => vec![&mut step.output],
            Self::MatMul(step) => vec![&mut step.output],
            Self::Index(step) => vec![&mut step.output],
            Self::Scan(step) => vec![&mut step.output],
            Self::Sort(step) => vec![&mut step.output],
            Self::Conv(step) => vec![&mut step.output],
            Self::Pool(step) => vec![&mut step.output],
            Self::Attention(step) => vec![&mut step.output],
        }
    }

    /// The views that it reads and writes.
    pub(crate) fn views_mut(&mut self) -> Vec<&mut View> {
        match self {
            Self::Map(step) => step.inputs.iter_mut().chain(&mut step.outputs).collect(),
            Self::Reduce(step) => step.inputs.iter_mut().chain([&mut step.output]).collect(),
            Self::ArgReduce(step) => vec![&mut step.input, &mut step.output],
            Self::Softmax(step) => step.inputs.iter_mut().chain([&mut step.output]).collect(),
            Self::Norm(step) => {
                let affine = step.weight.iter_mut().chain(&mut step.bias);
                step.inputs.iter_mut().chain(affine).chain([&mut step.output]).collect()
            }
            Self::MatMul(step) => {
                [&mut step.a, &mut step.b, &mut step.output].into_iter().chain(step.bias.as_mut()).collect()
            }
            Self::Index(step) => vec![&mut step.input, &mut step.index, &mut step.output],
            Self::Scan(step) => vec![&mut step.input, &mut step.output],
            Self::Sort(step) => vec![&mut step.input, &mut step.output],
            Self::Conv(step) => {
                let operands = [&mut step.input, &mut step.weight, &mut step.output];
                operands.into_iter().chain(step.bias.as_mut()).collect()
            }
            Self::Pool(step) => vec![&mut step.input, &mut step.output],
            Self::Attention(step) => {
                let inputs = [&mut step.query, &mut step.key, &mut step.value];
                inputs.into_iter().chain(&mut step.mask).chain(&mut step.lengths).chain([&mut step.output]).collect()
            }
        }
    }

    /// Estimated work, in operations on elements.
    pub fn cost(&self) -> u64 {
        let elements = |layout: &Layout| layout.elements() as u64;
        let rows = |output: &View, prologue: &Function| {
            elements(&output.layout).saturating_mul(prologue.values().len() as u64 + 7)
        };
        match self {
            Self::Map(step) => product(&[&step.shape]).saturating_mul(step.function.values().len() as u64),
            Self::Reduce(step) => {
                product(&[&step.outer, &step.inner]).saturating_mul(step.prologue.values().len() as u64 + 1)
            }
            Self::ArgReduce(step) => elements(&step.input.layout),
            Self::Softmax(step) => rows(&step.output, &step.prologue),
            Self::Norm(step) => rows(&step.output, &step.prologue),
            Self::MatMul(step) => elements(&step.output.layout).saturating_mul(step.a.layout.shape[2].max(1) as u64),
            Self::Index(step) => elements(&step.output.layout).saturating_mul(4),
            Self::Scan(step) => elements(&step.output.layout).saturating_mul(4),
            Self::Sort(step) => elements(&step.input.layout).saturating_mul(64),
            Self::Conv(step) => {
                elements(&step.output.layout).saturating_mul(product(&[&step.weight.layout.shape[1..]]).max(1))
            }
            Self::Pool(step) => match step.windows {
                PoolWindows::Sliding(windows) => {
                    elements(&step.output.layout).saturating_mul(product(&[&windows.kernel]))
                }
                PoolWindows::Adaptive => {
                    elements(&step.input.layout).saturating_add(elements(&step.output.layout).saturating_mul(4))
                }
            },
            Self::Attention(step) => {
                let of_each_key = elements(&step.query.layout).saturating_add(elements(&step.output.layout));
                of_each_key.saturating_mul(step.key.layout.shape[2].max(1) as u64)
            }
        }
    }
}

fn product(shapes: &[&[usize]]) -> u64 {
    shapes.iter().flat_map(|shape| shape.iter()).fold(1, |product: u64, extent| product.saturating_mul(*extent as u64))
}
