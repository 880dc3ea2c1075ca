//! Infers the operation of a node and the type of its result.

use crate::{
    GraphError, NodeSpec, TensorType, attention, convolutions, dims, elementwise, generators, indexing,
    op::Op,
    operation::{Checked, Operation},
    pooling, products, reductions, row_ops, scans, view_ops,
};

/// The operations by family, but for the elementwise ones and those that combine values, whose tables say more.
const FAMILIES: [&[Operation]; 10] = [
    view_ops::OPERATIONS,
    reductions::OPERATIONS,
    row_ops::OPERATIONS,
    products::OPERATIONS,
    generators::OPERATIONS,
    indexing::OPERATIONS,
    scans::OPERATIONS,
    convolutions::OPERATIONS,
    pooling::OPERATIONS,
    attention::OPERATIONS,
];

pub(crate) fn operations() -> impl Iterator<Item = &'static Operation> {
    FAMILIES.into_iter().flatten()
}

/// The operation of a node and the type of its result.
pub(crate) fn infer(node: &NodeSpec, operands: &[&TensorType]) -> Checked {
    if let Some(found) = elementwise_op(node, operands).or_else(|| reductions::infer(node, operands)) {
        return found;
    }
    let operation = operations().find(|operation| operation.names.contains(&node.op.as_str()));
    let unknown = || GraphError::new(&node.name, "op", "the name of an operation", &node.op);
    operation.ok_or_else(unknown)?.infer(node, operands)
}

fn elementwise_op(node: &NodeSpec, operands: &[&TensorType]) -> Option<Checked> {
    let dtypes: Vec<_> = operands.iter().map(|operand| operand.dtype).collect();
    let function = elementwise::function(node, &dtypes)?;
    Some(function.and_then(|function| {
        let shape = dims::broadcast_shape(node, operands)?;
        let dtype = function.dtype(function.results()[0]);
        Ok((Op::Map(function), TensorType { dtype, shape }))
    }))
}
