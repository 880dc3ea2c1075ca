//! Operations without operands.

use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Function, Literal, TypeError, ValueId},
};

use crate::{
    Attribute, GraphError, TensorType,
    attributes::Attributes,
    op::Op,
    operation::{Operation, generator},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    generator(&["full"], Results::one(ShapeRule::Given, DtypeRule::OfValue), full),
    generator(&["arange"], Results::one(ShapeRule::Range, DtypeRule::OfRange), arange),
    generator(&["linspace"], Results::one(ShapeRule::Steps, DtypeRule::GivenOr(Dtype::F32)), linspace),
];

/// A generator whose elements `build` computes from their index.
fn elements(
    shape: Vec<usize>,
    build: impl FnOnce(&mut Builder) -> std::result::Result<ValueId, TypeError>,
) -> std::result::Result<(Op, TensorType), TypeError> {
    let mut builder = Builder::new(&[]);
    let result = build(&mut builder)?;
    let dtype = builder.dtype(result);
    let function: Function = builder.finish(&[result]);
    Ok((Op::Map(function), TensorType { dtype, shape }))
}

/// The attribute `shape`. `later` are those that the operation asks for after it.
pub(crate) fn shape(attributes: &Attributes<'_>, later: &'static [&'static str]) -> Result<Vec<usize>> {
    let wanted = attributes.required("shape", attributes.ints("shape")?, later)?;
    let extent =
        |extent: &i64| usize::try_from(*extent).map_err(|_| attributes.error("shape", "extents of at least 0", extent));
    wanted.iter().map(extent).collect()
}

/// Every element is `value`; its own kind decides the type unless `dtype` does.
fn full(attributes: &Attributes<'_>) -> Result<(Op, TensorType)> {
    let shape = shape(attributes, &["value", "dtype"])?;
    let value = attributes.required("value", attributes.get("value"), &["dtype"])?;
    let dtype = attributes.dtype("dtype")?;
    let literal = match *value {
        Attribute::Bool(value) => Literal::from_i64(dtype.unwrap_or(Dtype::Bool), i64::from(value)),
        Attribute::Int(value) => Literal::from_i64(dtype.unwrap_or(Dtype::I64), value),
        Attribute::Float(value) => Literal::from_f64(dtype.unwrap_or(Dtype::F32), value),
        Attribute::Text(_) | Attribute::Ints(_) => return Err(attributes.error("value", "a number", "something else")),
    };
    let built = elements(shape, |builder| Ok(builder.literal(literal)));
    built.map_err(|error| attributes.error("dtype", "a type of numbers", error))
}

/// `start`, `start + step`, and so on, before `end`.
fn arange(attributes: &Attributes<'_>) -> Result<(Op, TensorType)> {
    let end = attributes.required("end", attributes.get("end"), &["start", "step", "dtype"])?;
    let start = attributes.get("start").unwrap_or(&Attribute::Int(0));
    let step = attributes.get("step").unwrap_or(&Attribute::Int(1));
    let all_integers = [start, end, step].iter().all(|one| matches!(one, Attribute::Int(_)));
    let dtype = attributes.dtype("dtype")?.unwrap_or(if all_integers { Dtype::I64 } else { Dtype::F32 });
    let number = |name| attributes.float(name);
    let (first, last) = (number("start")?.unwrap_or(0.0), number("end")?.unwrap_or(0.0));
    let by = number("step")?.unwrap_or(1.0);
    for (name, number) in [("start", first), ("end", last), ("step", by)] {
        if !number.is_finite() {
            return Err(attributes.error(name, "a finite number", number));
        }
    }
    if by == 0.0 {
        return Err(attributes.error("step", "a number other than 0", by));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; the size of a value is checked"
    )]
    let count = ((last - first) / by).ceil().max(0.0) as usize;
    let built = if let (Attribute::Int(start), Attribute::Int(step), true) = (start, step, !dtype.is_float()) {
        elements(vec![count], |builder| {
            let (index, step) = (builder.index(), builder.literal(Literal::from_i64(Dtype::I64, *step)));
            let start = builder.literal(Literal::from_i64(Dtype::I64, *start));
            let scaled = builder.binary(BinaryOp::Mul, index, step)?;
            let value = builder.binary(BinaryOp::Add, start, scaled)?;
            Ok(builder.cast(value, dtype))
        })
    } else {
        elements(vec![count], |builder| {
            let index = builder.index();
            let value = affine(builder, index, first, by)?;
            Ok(builder.cast(value, dtype))
        })
    };
    built.map_err(|error| attributes.error("dtype", "a type of numbers", error))
}

/// `steps` numbers from `start` to `end`, both included. The second half is counted from the end, so that it is exact.
fn linspace(attributes: &Attributes<'_>) -> Result<(Op, TensorType)> {
    let start = attributes.required("start", attributes.float("start")?, &["end", "steps", "dtype"])?;
    let end = attributes.required("end", attributes.float("end")?, &["steps", "dtype"])?;
    let steps = attributes.required("steps", attributes.int("steps")?, &["dtype"])?;
    let count = usize::try_from(steps).map_err(|_| attributes.error("steps", "at least 0", steps))?;
    let dtype = attributes.dtype("dtype")?.unwrap_or(Dtype::F32);
    let last = steps.saturating_sub(1);
    let by = if count > 1 { (end - start) / last as f64 } else { 0.0 };
    let built = elements(vec![count], |builder| {
        let index = builder.index();
        let forward = affine(builder, index, start, by)?;
        let last = builder.literal(Literal::from_i64(Dtype::I64, last));
        let from_end = builder.binary(BinaryOp::Sub, last, index)?;
        let backward = affine(builder, from_end, end, -by)?;
        let half = builder.literal(Literal::from_i64(Dtype::I64, steps / 2));
        let is_first_half = builder.binary(BinaryOp::Lt, index, half)?;
        let chosen = if count > 1 { builder.select(is_first_half, forward, backward)? } else { forward };
        Ok(builder.cast(chosen, dtype))
    });
    built.map_err(|error| attributes.error("dtype", "a type of numbers", error))
}

/// `start + index * step` in f64.
fn affine(builder: &mut Builder, index: ValueId, start: f64, step: f64) -> std::result::Result<ValueId, TypeError> {
    let index = builder.cast(index, Dtype::F64);
    let (step, start) = (builder.number(Dtype::F64, step), builder.number(Dtype::F64, start));
    let scaled = builder.binary(BinaryOp::Mul, index, step)?;
    builder.binary(BinaryOp::Add, start, scaled)
}
