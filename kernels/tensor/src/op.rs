//! The operations of a graph, with their attributes resolved.

use accelerd_ir::{Dtype, scalar::Function};

use crate::{Accumulate, IndexOp, NormKind, PoolKind, PoolWindows, Reduction, ScanKind, Windows, spatial::Spatial};

/// An operation whose attributes and operands are checked.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Elementwise over the operands, broadcast to the shape of the result. A generator has no operand.
    Map(Function),
    /// The same elements in another shape or order.
    View(ViewOp),
    /// The operands one after the other along a dimension.
    Concat {
        dim: usize,
    },
    Reduce(ReduceOp),
    /// Index of the first extreme value over these dimensions.
    ArgReduce {
        dims: Vec<usize>,
        is_max: bool,
    },
    Softmax {
        dim: usize,
        is_log: bool,
    },
    Norm(NormOp),
    MatMul(MatMulOp),
    /// Elements of the first operand by their indices along `dim`, the values of the second.
    Index {
        op: IndexOp,
        dim: usize,
    },
    /// Rows of the identity matrix, of as many classes as the result's last extent.
    OneHot,
    Scan {
        dim: usize,
        kind: ScanKind,
        accumulate: Dtype,
    },
    /// Indices in sorted order along `dim`, as many as the result's extent.
    ArgSort {
        dim: usize,
        is_descending: bool,
    },
    Conv(ConvOp),
    Pool(PoolOp),
    Attention(AttentionOp),
}

/// Normalisation over the last `rank` dimensions; the operands are values, then weight and bias as far as they are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormOp {
    pub(crate) kind: NormKind,
    pub(crate) rank: usize,
    pub(crate) eps: f64,
    pub(crate) has_weight: bool,
    pub(crate) has_bias: bool,
}

/// A view of one operand.
#[derive(Clone, Debug)]
pub(crate) enum ViewOp {
    /// Row-major order is kept.
    Reshape,
    Permute(Vec<usize>),
    /// Broadcasts to the shape of the result.
    Expand,
    /// Each entry: dimension, first index, step. Extents are those of the result.
    Slice(Vec<(usize, usize, isize)>),
    /// Takes one index of a dimension, which disappears.
    Select {
        dim: usize,
        index: usize,
    },
}

/// A reduction over `dims`, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct ReduceOp {
    pub(crate) dims: Vec<usize>,
    /// From an element to a value of type `accumulate`.
    pub(crate) prologue: Function,
    pub(crate) reduction: Reduction,
    pub(crate) accumulate: Dtype,
    /// From the combined value to the result.
    pub(crate) epilogue: Function,
}

/// A product of matrices: operands `a[..., m, k]` and `b[..., k, n]` after these transpositions, then a bias if there is one.
#[derive(Clone, Debug)]
pub(crate) struct MatMulOp {
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    pub(crate) accumulate: Accumulate,
    pub(crate) epilogue: Option<Function>,
}

/// A convolution: operands images, filters, then a bias if there is one.
#[derive(Clone, Debug)]
pub(crate) struct ConvOp {
    pub(crate) spatial: Spatial,
    pub(crate) windows: Windows,
    pub(crate) groups: usize,
    pub(crate) accumulate: Accumulate,
    pub(crate) epilogue: Option<Function>,
}

/// Pooling of one operand.
#[derive(Clone, Debug)]
pub(crate) struct PoolOp {
    pub(crate) spatial: Spatial,
    pub(crate) windows: PoolWindows,
    pub(crate) kind: PoolKind,
}

/// Scaled dot-product attention: operands query, key and value, then mask and lengths as far as they are there.
#[derive(Clone, Debug)]
pub(crate) struct AttentionOp {
    /// The heads of key and value, if several of the query share one.
    pub(crate) kv_heads: Option<usize>,
    pub(crate) has_mask: bool,
    pub(crate) has_lengths: bool,
    pub(crate) is_causal: bool,
    pub(crate) scale: f64,
    pub(crate) accumulate: Accumulate,
}
