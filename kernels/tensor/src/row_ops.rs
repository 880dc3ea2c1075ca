//! Softmax and normalisation: operations on rows, each of which is read as a whole.

use accelerd_ir::Dtype;

use crate::{
    GraphError, NodeSpec, NormKind, TensorType,
    attributes::Attributes,
    dims,
    op::{NormOp, Op},
    operation::{Operation, any, one},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["softmax"], OF_FIRST, |node, attributes, operands| softmax(node, attributes, operands, false)),
    any(&["log_softmax"], OF_FIRST, |node, attributes, operands| softmax(node, attributes, operands, true)),
    any(&["layer_norm"], OF_FIRST, |node, attributes, operands| norm(node, attributes, operands, NormKind::Layer)),
    any(&["rms_norm"], OF_FIRST, |node, attributes, operands| norm(node, attributes, operands, NormKind::Rms)),
];

const OF_FIRST: Results = Results::one(ShapeRule::First, DtypeRule::First);

fn floats(node: &NodeSpec, nth: usize, x: &TensorType) -> Result<()> {
    let refused = || GraphError::new(&node.name, format!("inputs[{nth}]"), "floating-point elements", x.dtype);
    x.dtype.is_float().then_some(()).ok_or_else(refused)
}

fn softmax(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    is_log: bool,
) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    floats(node, 0, x)?;
    let dim = attributes.required("dim", attributes.int("dim")?, &[])?;
    let dim = dims::resolve(attributes, "dim", dim, x.shape.len())?;
    Ok((Op::Softmax { dim, is_log }, x.clone()))
}

/// The operands are values, weight and bias, the last two optional; `normalized_shape` names the trailing dimensions, the last one by
/// default.
fn norm(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    kind: NormKind,
) -> Result<(Op, TensorType)> {
    let most = if kind == NormKind::Layer { 3 } else { 2 };
    let Some(x) = operands.first().filter(|_| operands.len() <= most) else {
        return Err(GraphError::new(&node.name, "inputs", format!("1 to {most}"), operands.len()));
    };
    floats(node, 0, x)?;
    let last =
        x.shape.last().copied().ok_or_else(|| GraphError::new(&node.name, "inputs[0]", "a dimension", "a scalar"))?;
    let wanted = attributes.ints("normalized_shape")?.unwrap_or_else(|| vec![i64::try_from(last).unwrap_or(i64::MAX)]);
    let shape: Vec<_> = wanted.iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
    if shape.is_empty() || !x.shape.ends_with(&shape) {
        let expected = format!("trailing extents of {:?}", x.shape);
        return Err(attributes.error("normalized_shape", expected, format!("{wanted:?}")));
    }
    for (nth, operand) in operands.iter().enumerate().skip(1) {
        let expected = TensorType { dtype: x.dtype, shape: shape.clone() };
        if **operand != expected {
            let (expected, got) = (expected.describe(), operand.describe());
            return Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, got));
        }
    }
    let eps = attributes.float("eps")?.unwrap_or(match kind {
        NormKind::Layer => 1e-5,
        NormKind::Rms => epsilon(x.dtype),
    });
    let (has_weight, has_bias) = (operands.len() > 1, operands.len() > 2);
    Ok((Op::Norm(NormOp { kind, rank: shape.len(), eps, has_weight, has_bias }), TensorType::clone(x)))
}

/// The difference between 1 and the next number of the type, PyTorch's default for `rms_norm`.
fn epsilon(dtype: Dtype) -> f64 {
    f64::powi(2.0, -fraction_bits(dtype))
}

/// Bits of the fraction of a floating-point type.
pub(crate) fn fraction_bits(dtype: Dtype) -> i32 {
    if dtype == Dtype::F16 {
        10
    } else if dtype == Dtype::Bf16 {
        7
    } else if dtype == Dtype::F64 {
        52
    } else {
        23
    }
}
