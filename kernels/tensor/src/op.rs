//! The operations of a graph, with their attributes resolved.

use accelerd_ir::{Dtype, scalar::Function};

use crate::{
    Accumulate, GraphError, NodeSpec, NormKind, Reduction, TensorType, elementwise, generators, products, reductions,
    row_ops, view_ops,
};

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
    /// Normalisation over the last `rank` dimensions; the operands are values, then weight and bias as far as they are there.
    Norm {
        kind: NormKind,
        rank: usize,
        eps: f64,
        has_weight: bool,
        has_bias: bool,
    },
    MatMul(MatMulOp),
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

impl Op {
    /// The operation of a node and the type of its result.
    pub(crate) fn infer(node: &NodeSpec, operands: &[&TensorType]) -> Result<(Self, TensorType), GraphError> {
        let families =
            [elementwise_op, view_ops::infer, reductions::infer, row_ops::infer, products::infer, generators::infer];
        for family in families {
            if let Some(found) = family(node, operands) {
                return found;
            }
        }
        Err(GraphError::new(&node.name, "op", "the name of an operation", &node.op))
    }
}

/// What a family of operations says about a node: nothing if the name is not one of its operations.
pub(crate) type Inferred = Option<Result<(Op, TensorType), GraphError>>;

fn elementwise_op(node: &NodeSpec, operands: &[&TensorType]) -> Inferred {
    let dtypes: Vec<_> = operands.iter().map(|operand| operand.dtype).collect();
    let function = elementwise::function(node, &dtypes)?;
    Some(function.and_then(|function| {
        let shape = broadcast_shape(node, operands)?;
        let dtype = function.dtype(function.results()[0]);
        Ok((Op::Map(function), TensorType { dtype, shape }))
    }))
}

/// The shape to which all operands broadcast, by NumPy's rules.
pub(crate) fn broadcast_shape(node: &NodeSpec, operands: &[&TensorType]) -> Result<Vec<usize>, GraphError> {
    let mut shape: Vec<usize> = vec![];
    for (nth, operand) in operands.iter().enumerate() {
        let other = &operand.shape;
        let rank = shape.len().max(other.len());
        let mut merged = vec![1; rank];
        for (back, extent) in merged.iter_mut().rev().enumerate() {
            let of = |shape: &[usize]| shape.len().checked_sub(back + 1).map_or(1, |dim| shape[dim]);
            *extent = match (of(&shape), of(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => {
                    let expected = format!("a shape that broadcasts with {shape:?}");
                    return Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, format!("{other:?}")));
                }
            };
        }
        shape = merged;
    }
    Ok(shape)
}
