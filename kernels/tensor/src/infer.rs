//! Infers the operation of a node and the type of its result.

use crate::{
    GraphError, NodeSpec, TensorType, attention, convolutions, dims, elementwise, generators, indexing,
    op::{Inferred, Op},
    pooling, products, reductions, row_ops, scans, view_ops,
};

/// The operation of a node and the type of its result.
pub(crate) fn infer(node: &NodeSpec, operands: &[&TensorType]) -> Result<(Op, TensorType), GraphError> {
    let families = [
        elementwise_op,
        view_ops::infer,
        reductions::infer,
        row_ops::infer,
        products::infer,
        generators::infer,
        indexing::infer,
        scans::infer,
        convolutions::infer,
        pooling::infer,
        attention::infer,
    ];
    let found = families.into_iter().find_map(|family| family(node, operands));
    found.unwrap_or_else(|| Err(GraphError::new(&node.name, "op", "the name of an operation", &node.op)))
}

fn elementwise_op(node: &NodeSpec, operands: &[&TensorType]) -> Inferred {
    let dtypes: Vec<_> = operands.iter().map(|operand| operand.dtype).collect();
    let function = elementwise::function(node, &dtypes)?;
    Some(function.and_then(|function| {
        let shape = dims::broadcast_shape(node, operands)?;
        let dtype = function.dtype(function.results()[0]);
        Ok((Op::Map(function), TensorType { dtype, shape }))
    }))
}
