//! Reductions over dimensions.

use accelerd_ir::{
    Dtype, Kind,
    scalar::{BinaryOp, Builder, Function, UnaryOp, ValueId},
};

use crate::{
    GraphError, NodeSpec, Reduction, TensorType,
    attributes::Attributes,
    dims,
    op::{Inferred, Op, ReduceOp},
    view_ops::one,
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) fn infer(node: &NodeSpec, operands: &[&TensorType]) -> Inferred {
    let attributes = &Attributes::new(node);
    let plain = |name| Some(reduce(node, attributes, operands, name));
    let found = match node.op.as_str() {
        "sum" => plain(Name::Sum),
        "mean" => plain(Name::Mean),
        "prod" => plain(Name::Prod),
        "amin" | "min" => plain(Name::Min),
        "amax" | "max" => plain(Name::Max),
        "all" => plain(Name::All),
        "any" => plain(Name::Any),
        "norm" => plain(Name::Norm),
        "logsumexp" => plain(Name::LogSumExp),
        "var" => plain(Name::Var),
        "std" => plain(Name::Std),
        "argmin" => Some(arg_reduce(node, attributes, operands, false)),
        "argmax" => Some(arg_reduce(node, attributes, operands, true)),
        _ => None,
    };
    found.map(|found| found.and_then(|found| attributes.finish().map(|()| found)))
}

#[derive(Clone, Copy, PartialEq)]
enum Name {
    Sum,
    Mean,
    Prod,
    Min,
    Max,
    All,
    Any,
    Norm,
    LogSumExp,
    Var,
    Std,
}

fn reduce(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    name: Name,
) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    let (dims, shape) = dimensions(attributes, x)?;
    let count: usize = dims.iter().map(|&dim| x.shape[dim]).product();
    let dtype = result_type(node, attributes, name, x.dtype)?;
    let unsupported =
        || GraphError::new(&node.name, "inputs[0]", "elements that are reduced by this operation", x.dtype);
    if matches!(name, Name::Min | Name::Max) && count == 0 && shape.iter().product::<usize>() > 0 {
        return Err(GraphError::new(&node.name, "inputs[0]", "at least one element to reduce", "none"));
    }
    // A 16-bit type given as `dtype` is where the result is rounded; the sum is taken in f32.
    let accumulate = match name {
        Name::All | Name::Any => Dtype::Bool,
        Name::Sum
        | Name::Mean
        | Name::Prod
        | Name::Min
        | Name::Max
        | Name::Norm
        | Name::LogSumExp
        | Name::Var
        | Name::Std => dtype.compute(),
    };
    let reduction = match name {
        Name::Sum | Name::Mean | Name::Norm => Reduction::Sum,
        Name::Prod => Reduction::Prod,
        Name::Min | Name::All => Reduction::Min,
        Name::Max | Name::Any => Reduction::Max,
        Name::LogSumExp => Reduction::LogSumExp,
        Name::Var | Name::Std => Reduction::SquaredDeviations,
    };
    let prologue = function(x.dtype, |builder, element| {
        let element = builder.cast(element, accumulate);
        if name == Name::Norm { builder.binary(BinaryOp::Mul, element, element).ok() } else { Some(element) }
    });
    let divisor = match name {
        Name::Mean => Some(count as f64),
        Name::Var | Name::Std => Some((count as f64 - correction(attributes)?).max(0.0)),
        Name::Sum | Name::Prod | Name::Min | Name::Max | Name::All | Name::Any | Name::Norm | Name::LogSumExp => None,
    };
    let epilogue = function(accumulate, |builder, mut value| {
        if let Some(divisor) = divisor {
            let divisor = builder.number(accumulate, divisor);
            value = builder.binary(BinaryOp::Div, value, divisor).ok()?;
        }
        if matches!(name, Name::Norm | Name::Std) {
            value = builder.unary(UnaryOp::Sqrt, value).ok()?;
        }
        Some(builder.cast(value, dtype))
    });
    let prologue = prologue.ok_or_else(unsupported)?;
    let epilogue = epilogue.ok_or_else(unsupported)?;
    Ok((Op::Reduce(ReduceOp { dims, prologue, reduction, accumulate, epilogue }), TensorType { dtype, shape }))
}

/// A function of one parameter; `None` if a type does not support what `build` needs.
fn function(param: Dtype, build: impl FnOnce(&mut Builder, ValueId) -> Option<ValueId>) -> Option<Function> {
    let mut builder = Builder::new(&[param]);
    let param = builder.param(0);
    let result = build(&mut builder, param)?;
    Some(builder.finish(&[result]))
}

/// The type of the result: that of `dtype` if it is set, else PyTorch's for elements of type `x`.
fn result_type(node: &NodeSpec, attributes: &Attributes<'_>, name: Name, x: Dtype) -> Result<Dtype> {
    let floats_only = |dtype: Dtype| {
        let refused = || GraphError::new(&node.name, "inputs[0]", "floating-point elements", dtype);
        dtype.is_float().then_some(dtype).ok_or_else(refused)
    };
    match name {
        Name::Sum | Name::Prod => {
            let wide = if x.is_float() { x } else { Dtype::I64 };
            Ok(attributes.dtype("dtype")?.unwrap_or(if x == Dtype::U64 { Dtype::U64 } else { wide }))
        }
        Name::Mean => floats_only(attributes.dtype("dtype")?.unwrap_or(x)),
        Name::Min | Name::Max => Ok(x),
        Name::All | Name::Any => Ok(Dtype::Bool),
        Name::LogSumExp if x.kind() != Kind::Float => floats_only(attributes.dtype("dtype")?.unwrap_or(Dtype::F32)),
        Name::Norm | Name::Var | Name::Std | Name::LogSumExp => {
            floats_only(x)?;
            floats_only(attributes.dtype("dtype")?.unwrap_or(x))
        }
    }
}

/// What is subtracted from the number of values before squares are averaged.
fn correction(attributes: &Attributes<'_>) -> Result<f64> {
    Ok(attributes.float("correction")?.unwrap_or(1.0))
}

/// The dimensions to reduce in ascending order, all by default, and the shape that is left.
fn dimensions(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Vec<usize>, Vec<usize>)> {
    let rank = x.shape.len();
    let mut dims = match attributes.ints("dim")? {
        Some(dims) if !dims.is_empty() => dims::resolve_all(attributes, "dim", &dims, rank)?,
        Some(_) | None => (0..rank).collect(),
    };
    dims.sort_unstable();
    let keepdim = attributes.bool("keepdim")?.unwrap_or(false);
    let extents = x
        .shape
        .iter()
        .enumerate()
        .filter_map(|(dim, &extent)| if dims.contains(&dim) { keepdim.then_some(1) } else { Some(extent) });
    let shape = extents.collect();
    Ok((dims, shape))
}

fn arg_reduce(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    is_max: bool,
) -> Result<(Op, TensorType)> {
    let x = one(node, operands)?;
    if let Some(dims) = attributes.ints("dim")?.filter(|dims| dims.len() > 1) {
        return Err(attributes.error("dim", "one dimension, or none for all", format!("{} dimensions", dims.len())));
    }
    let (dims, shape) = dimensions(attributes, x)?;
    if dims.iter().any(|&dim| x.shape[dim] == 0) {
        return Err(GraphError::new(&node.name, "inputs[0]", "at least one element to reduce", "none"));
    }
    Ok((Op::ArgReduce { dims, is_max }, TensorType { dtype: Dtype::I64, shape }))
}
