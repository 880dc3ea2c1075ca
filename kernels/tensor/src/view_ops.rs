//! Operations that move no element: other shapes and orders of the same tensor, and concatenation.

use accelerd_ir::Dtype;

use crate::{
    GraphError, NodeSpec, TensorType,
    attributes::Attributes,
    dims,
    op::{Op, ViewOp},
    operation::{Checked, Operation, any, unary},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    view(&["reshape", "view"], ShapeRule::Reshape, reshape),
    view(&["flatten"], ShapeRule::Flatten, flatten),
    view(&["squeeze"], ShapeRule::Squeeze, squeeze),
    view(&["unsqueeze"], ShapeRule::Unsqueeze, unsqueeze),
    view(&["permute"], ShapeRule::Permute, permute),
    view(&["transpose"], ShapeRule::Transpose, transpose),
    view(&["expand", "broadcast_to"], ShapeRule::Expand, expand),
    view(&["slice"], ShapeRule::Slice, slice),
    view(&["select"], ShapeRule::Select, select),
    view(&["flip"], ShapeRule::First, flip),
    any(&["concat", "cat"], Results::one(ShapeRule::Concat, DtypeRule::Promoted), concat),
];

/// A view of the elements of one operand.
const fn view(
    names: &'static [&'static str],
    shape: ShapeRule,
    check: fn(&Attributes<'_>, &TensorType) -> Checked,
) -> Operation {
    unary(names, Results::one(shape, DtypeRule::First), check)
}

fn with_shape(op: ViewOp, x: &TensorType, shape: Vec<usize>) -> (Op, TensorType) {
    (Op::View(op), TensorType { dtype: x.dtype, shape })
}

/// `shape`, where one extent may be -1: what is left.
fn reshape(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let wanted = attributes.required("shape", attributes.ints("shape")?, &[])?;
    let elements = x.elements();
    let refused = || {
        let expected = format!("extents of {elements} elements, at most one of them -1");
        attributes.error("shape", expected, format!("{wanted:?}"))
    };
    let mut known = 1_usize;
    let mut free = None;
    let mut shape = vec![];
    for (dim, &extent) in wanted.iter().enumerate() {
        match usize::try_from(extent) {
            Ok(extent) => known = known.checked_mul(extent).ok_or_else(refused)?,
            Err(_) if extent == -1 && free.is_none() => free = Some(dim),
            Err(_) => return Err(refused()),
        }
        shape.push(usize::try_from(extent).unwrap_or(1));
    }
    if let Some(dim) = free {
        shape[dim] = elements.checked_div(known).ok_or_else(refused)?;
        known *= shape[dim];
    }
    if known != elements {
        return Err(refused());
    }
    Ok(with_shape(ViewOp::Reshape, x, shape))
}

/// Merges dimensions `start_dim` to `end_dim`; a scalar becomes a vector.
fn flatten(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let rank = x.shape.len().max(1);
    let start = dims::resolve(attributes, "start_dim", attributes.int("start_dim")?.unwrap_or(0), rank)?;
    let end = dims::resolve(attributes, "end_dim", attributes.int("end_dim")?.unwrap_or(-1), rank)?;
    if start > end {
        return Err(attributes.error("end_dim", format!("at least {start}"), end));
    }
    if x.shape.is_empty() {
        return Ok(with_shape(ViewOp::Reshape, x, vec![1]));
    }
    let merged = x.shape[start..=end].iter().product();
    let shape = [&x.shape[..start], &[merged], &x.shape[end + 1..]].concat();
    Ok(with_shape(ViewOp::Reshape, x, shape))
}

/// Drops the dimensions `dim` that have extent 1; without `dim` all of them.
fn squeeze(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let chosen = match attributes.ints("dim")? {
        Some(dims) => dims::resolve_all(attributes, "dim", &dims, x.shape.len())?,
        None => (0..x.shape.len()).collect(),
    };
    let kept = x.shape.iter().enumerate().filter(|(dim, extent)| **extent != 1 || !chosen.contains(dim));
    let shape = kept.map(|(_, extent)| *extent).collect();
    Ok(with_shape(ViewOp::Reshape, x, shape))
}

fn unsqueeze(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let dim = attributes.required("dim", attributes.int("dim")?, &[])?;
    let dim = dims::resolve(attributes, "dim", dim, x.shape.len() + 1)?;
    let mut shape = x.shape.clone();
    shape.insert(dim, 1);
    Ok(with_shape(ViewOp::Reshape, x, shape))
}

fn permute(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let dims = attributes.required("dims", attributes.ints("dims")?, &[])?;
    let order = dims::resolve_all(attributes, "dims", &dims, x.shape.len())?;
    if order.len() != x.shape.len() {
        return Err(attributes.error("dims", format!("{} dimensions", x.shape.len()), order.len()));
    }
    let shape = order.iter().map(|&dim| x.shape[dim]).collect();
    Ok(with_shape(ViewOp::Permute(order), x, shape))
}

fn transpose(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let rank = x.shape.len();
    let mut order: Vec<_> = (0..rank).collect();
    let first = attributes.required("dim0", attributes.int("dim0")?, &["dim1"])?;
    let second = attributes.required("dim1", attributes.int("dim1")?, &[])?;
    order.swap(dims::resolve(attributes, "dim0", first, rank)?, dims::resolve(attributes, "dim1", second, rank)?);
    let shape = order.iter().map(|&dim| x.shape[dim]).collect();
    Ok(with_shape(ViewOp::Permute(order), x, shape))
}

/// Broadcasts to `shape`, where -1 keeps the extent.
fn expand(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let wanted = attributes.required("shape", attributes.ints("shape")?, &[])?;
    let refused =
        || attributes.error("shape", format!("a shape to which {:?} broadcasts", x.shape), format!("{wanted:?}"));
    let missing = wanted.len().checked_sub(x.shape.len()).ok_or_else(refused)?;
    let mut shape = vec![];
    for (dim, &extent) in wanted.iter().enumerate() {
        let own = dim.checked_sub(missing).map(|dim| x.shape[dim]);
        let extent = if extent == -1 { own } else { usize::try_from(extent).ok() };
        let fits = |extent: &usize| own.is_none_or(|own| own == *extent || own == 1);
        shape.push(extent.filter(fits).ok_or_else(refused)?);
    }
    Ok(with_shape(ViewOp::Expand, x, shape))
}

/// Indices `start` to `end` (excluded) by `step` along `dim`, bounds clamped as in Python.
fn slice(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let dim = dims::resolve(attributes, "dim", attributes.int("dim")?.unwrap_or(0), x.shape.len())?;
    let step = attributes.int("step")?.unwrap_or(1);
    if step == 0 {
        return Err(attributes.error("step", "a number other than 0", 0));
    }
    let extent = i64::try_from(x.shape[dim]).unwrap_or(i64::MAX);
    // The bounds of Python's slice.indices().
    let (lowest, highest) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
    let clamp = |bound: i64| if bound < 0 { bound.saturating_add(extent).max(lowest) } else { bound.min(highest) };
    let (first, last) = if step > 0 { (0, extent) } else { (extent - 1, -1) };
    let start = attributes.int("start")?.map_or(first, clamp);
    let end = attributes.int("end")?.map_or(last, clamp);
    let span = if step > 0 { end.saturating_sub(start) } else { start.saturating_sub(end) };
    let len = if span > 0 { (span - 1) / step.saturating_abs() + 1 } else { 0 };
    let mut shape = x.shape.clone();
    shape[dim] = usize::try_from(len).unwrap_or(0);
    let start = usize::try_from(start).unwrap_or(0);
    let step = isize::try_from(if len > 1 { step } else { 1 }).unwrap_or(1);
    Ok(with_shape(ViewOp::Slice(vec![(dim, start, step)]), x, shape))
}

fn select(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let dim = attributes.required("dim", attributes.int("dim")?, &["index"])?;
    let dim = dims::resolve(attributes, "dim", dim, x.shape.len())?;
    let index = attributes.required("index", attributes.int("index")?, &[])?;
    let index = dims::resolve(attributes, "index", index, x.shape[dim])?;
    let mut shape = x.shape.clone();
    shape.remove(dim);
    Ok(with_shape(ViewOp::Select { dim, index }, x, shape))
}

fn flip(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Op, TensorType)> {
    let dims = attributes.required("dims", attributes.ints("dims")?, &[])?;
    let dims = dims::resolve_all(attributes, "dims", &dims, x.shape.len())?;
    let slices = dims.into_iter().map(|dim| (dim, x.shape[dim].saturating_sub(1), -1)).collect();
    Ok(with_shape(ViewOp::Slice(slices), x, x.shape.clone()))
}

/// Operands of equal shape but for `dim`, promoted to a common type.
fn concat(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let Some((first, rest)) = operands.split_first() else {
        return Err(GraphError::new(&node.name, "inputs", "at least 1", 0));
    };
    let dim = dims::resolve(attributes, "dim", attributes.int("dim")?.unwrap_or(0), first.shape.len())?;
    let mut joined = TensorType::clone(first);
    for (nth, operand) in rest.iter().enumerate() {
        let fits = operand.shape.len() == joined.shape.len()
            && (0..joined.shape.len()).all(|at| at == dim || operand.shape[at] == joined.shape[at]);
        if !fits {
            let expected = format!("the shape {:?} but for dimension {dim}", first.shape);
            let got = format!("{:?}", operand.shape);
            return Err(GraphError::new(&node.name, format!("inputs[{}]", nth + 1), expected, got));
        }
        joined.shape[dim] = joined.shape[dim].saturating_add(operand.shape[dim]);
        joined.dtype = promote(node, nth + 1, joined.dtype, operand.dtype)?;
    }
    Ok((Op::Concat { dim }, joined))
}

/// The common type of an operand and those before it.
pub(crate) fn promote(node: &NodeSpec, nth: usize, a: Dtype, b: Dtype) -> Result<Dtype> {
    let unrelated =
        |_| GraphError::new(&node.name, format!("inputs[{nth}]"), format!("a type that promotes with {a}"), b);
    a.promote(b).map_err(unrelated)
}
