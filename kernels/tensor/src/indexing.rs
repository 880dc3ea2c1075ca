//! Operations that read by index.

use accelerd_ir::Dtype;

use crate::{
    GraphError, IndexOp, NodeSpec, TensorType,
    attributes::Attributes,
    dims::{broadcast_shape, resolve_or_scalar},
    op::Op,
    operation::{Operation, any, one},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["gather"], Results::one(ShapeRule::Second, DtypeRule::First), gather),
    any(&["index_select"], Results::one(ShapeRule::IndexSelect, DtypeRule::First), index_select),
    any(&["take_along_dim"], Results::one(ShapeRule::TakeAlongDim, DtypeRule::First), take_along_dim),
    any(&["embedding"], Results::one(ShapeRule::Embedding, DtypeRule::First), embedding),
    any(&["one_hot"], Results::one(ShapeRule::OneHot, DtypeRule::Is(Dtype::I64)), one_hot),
];

/// Elements and their indices.
fn two<'a>(node: &NodeSpec, operands: &[&'a TensorType]) -> Result<(&'a TensorType, &'a TensorType)> {
    let &[x, index] = operands else { return Err(GraphError::new(&node.name, "inputs", "2", operands.len())) };
    integers(node, 1, index)?;
    Ok((x, index))
}

fn integers(node: &NodeSpec, nth: usize, index: &TensorType) -> Result<()> {
    let refused = || GraphError::new(&node.name, format!("inputs[{nth}]"), "indices of type i32 or i64", index.dtype);
    matches!(index.dtype, Dtype::I32 | Dtype::I64).then_some(()).ok_or_else(refused)
}

fn dim(attributes: &Attributes<'_>, x: &TensorType) -> Result<usize> {
    let dim = attributes.required("dim", attributes.int("dim")?, &[])?;
    resolve_or_scalar(attributes, "dim", dim, x.shape.len())
}

fn indexed(op: IndexOp, dim: usize, x: &TensorType, shape: Vec<usize>) -> (Op, TensorType) {
    (Op::Index { op, dim }, TensorType { dtype: x.dtype, shape })
}

/// The index has the input's dimensions, and may be smaller in all but `dim`, where it may have any extent.
fn gather(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let (x, index) = two(node, operands)?;
    let dim = dim(attributes, x)?;
    let fits = |(at, (extent, most)): (usize, (&usize, &usize))| at == dim || extent <= most;
    let is_within = index.shape.iter().zip(&x.shape).enumerate().all(fits);
    if index.shape.len() != x.shape.len() || !is_within {
        let expected = format!("a shape within {:?} but for dimension {dim}", x.shape);
        return Err(GraphError::new(&node.name, "inputs[1]", expected, format!("{:?}", index.shape)));
    }
    Ok(indexed(IndexOp::Gather, dim, x, index.shape.clone()))
}

/// The index is a vector or a scalar, and its extent replaces that of `dim`.
fn index_select(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let (x, index) = two(node, operands)?;
    let dim = dim(attributes, x)?;
    if index.shape.len() > 1 || (x.shape.is_empty() && index.elements() != 1) {
        let expected = if x.shape.is_empty() { "one index into a scalar" } else { "a vector or a scalar" };
        return Err(GraphError::new(&node.name, "inputs[1]", expected, format!("{:?}", index.shape)));
    }
    let mut shape = x.shape.clone();
    if let Some(extent) = shape.get_mut(dim) {
        *extent = index.elements();
    }
    Ok(indexed(IndexOp::IndexSelect, dim, x, shape))
}

/// The operands broadcast but for `dim`.
fn take_along_dim(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let (x, index) = two(node, operands)?;
    let dim = dim(attributes, x)?;
    if index.shape.len() != x.shape.len() {
        let expected = format!("{} dimensions", x.shape.len());
        return Err(GraphError::new(&node.name, "inputs[1]", expected, index.shape.len()));
    }
    let without = |of: &TensorType| {
        let mut shape = of.shape.clone();
        shape.iter_mut().skip(dim).take(1).for_each(|extent| *extent = 1);
        TensorType { dtype: of.dtype, shape }
    };
    let mut shape = broadcast_shape(node, &[&without(x), &without(index)])?;
    if let Some(extent) = shape.get_mut(dim) {
        *extent = index.shape[dim];
    }
    Ok(indexed(IndexOp::TakeAlongDim, dim, x, shape))
}

/// Rows of a matrix. `padding_idx` concerns gradients alone; it must be an index of a row, or count from the end.
fn embedding(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let (weight, indices) = two(node, operands)?;
    let &[rows, columns] = &weight.shape[..] else {
        return Err(GraphError::new(&node.name, "inputs[0]", "a matrix", format!("shape {:?}", weight.shape)));
    };
    if let Some(padding) = attributes.int("padding_idx")? {
        let is_row = usize::try_from(padding.unsigned_abs()).is_ok_and(|at| at < rows || (padding < 0 && at == rows));
        if !is_row {
            return Err(attributes.error("padding_idx", format!("-{rows} to {}", rows.cast_signed() - 1), padding));
        }
    }
    let mut shape = indices.shape.clone();
    shape.push(columns);
    Ok(indexed(IndexOp::Embedding, 0, weight, shape))
}

/// A vector of `num_classes` for each class, with 1 at the class.
fn one_hot(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    integers(node, 0, x)?;
    let classes = attributes.required("num_classes", attributes.int("num_classes")?, &[])?;
    let most = i64::from(i32::MAX);
    let count = usize::try_from(classes).ok().filter(|_| (1..=most).contains(&classes));
    let count = count.ok_or_else(|| attributes.error("num_classes", format!("1 to {most}"), classes))?;
    let mut shape = x.shape.clone();
    shape.push(count);
    Ok((Op::OneHot, TensorType { dtype: Dtype::I64, shape }))
}
