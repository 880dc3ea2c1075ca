//! Scans along a dimension, and the order of its elements.

use accelerd_ir::Dtype;

use crate::{
    GraphError, NodeSpec, ScanKind, SortStep, TensorType,
    attributes::Attributes,
    dims::resolve_or_scalar,
    op::Op,
    operation::{Operation, any, one},
    reductions::sum_type,
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["cumsum"], SCANNED, |node, attributes, operands| scan(node, attributes, operands, ScanKind::Sum)),
    any(&["cumprod"], SCANNED, |node, attributes, operands| scan(node, attributes, operands, ScanKind::Prod)),
    any(&["argsort"], Results::one(ShapeRule::First, DtypeRule::Is(Dtype::I64)), argsort),
];

const SCANNED: Results = Results::one(ShapeRule::First, DtypeRule::Sum);

/// Integers and bool become i64, as in sums.
fn scan(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    kind: ScanKind,
) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    let dim = attributes.required("dim", attributes.int("dim")?, &["dtype"])?;
    let dim = resolve_or_scalar(attributes, "dim", dim, x.shape.len())?;
    let dtype = sum_type(attributes, x.dtype)?;
    if dtype == Dtype::Bool {
        return Err(attributes.error("dtype", "a type of numbers", dtype));
    }
    let op = Op::Scan { dim, kind, accumulate: dtype.compute() };
    Ok((op, TensorType { dtype, shape: x.shape.clone() }))
}

/// The dimension to sort, the last one by default, and its extent; a scalar is a row of one element.
pub(crate) fn sorted_dim(attributes: &Attributes<'_>, x: &TensorType) -> Result<(usize, usize)> {
    let dim = attributes.int("dim")?.unwrap_or(-1);
    let dim = resolve_or_scalar(attributes, "dim", dim, x.shape.len())?;
    let extent = x.shape.get(dim).copied().unwrap_or(1);
    if extent > SortStep::MAX_COLUMNS {
        let expected = format!("at most {} elements along the sorted dimension", SortStep::MAX_COLUMNS);
        return Err(GraphError::new(&attributes.node().name, "inputs[0]", expected, extent));
    }
    Ok((dim, extent))
}

/// `stable` is accepted and always true.
fn argsort(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    let (dim, _) = sorted_dim(attributes, x)?;
    let is_descending = attributes.bool("descending")?.unwrap_or(false);
    attributes.bool("stable")?;
    Ok((Op::ArgSort { dim, is_descending }, TensorType { dtype: Dtype::I64, shape: x.shape.clone() }))
}
