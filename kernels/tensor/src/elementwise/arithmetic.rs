//! Arithmetic of two operands.

use std::f64::consts::LN_2;

use accelerd_ir::scalar::BinaryOp;

use super::{
    expr::Expr,
    operands::Slot,
    operation::{Body, Call, Operation, PAIR, binary},
    typing::{
        Accepts::{Any, Bits, Integers, Numbers},
        Typing::{Float, Same},
    },
};
use crate::GraphError;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation { name: "add", slots: PAIR, typing: Same(Any), body: Body::Call(add) },
    binary("atan2", Float, |a, b| a.with(BinaryOp::Atan2, b)),
    binary("bitwise_and", Same(Bits), |a, b| a & b),
    binary("bitwise_left_shift", Same(Integers), |a, b| a.with(BinaryOp::Shl, b)),
    binary("bitwise_or", Same(Bits), |a, b| a | b),
    binary("bitwise_right_shift", Same(Integers), |a, b| a.with(BinaryOp::Shr, b)),
    binary("bitwise_xor", Same(Bits), |a, b| a ^ b),
    binary("copysign", Float, |a, b| a.with(BinaryOp::CopySign, b)),
    binary("fmax", Same(Any), |a, b| unless_nan(a, b, a.max(b))),
    binary("fmin", Same(Any), |a, b| unless_nan(a, b, a.min(b))),
    Operation {
        name: "heaviside",
        slots: &[Slot::Tensor, Slot::Either("values")],
        typing: Same(Any),
        body: Body::Two(|x, values| x.eq(0.0).select(values, x.gt(0.0).cast(x.dtype()))),
    },
    binary("hypot", Float, |a, b| a.with(BinaryOp::Hypot, b)),
    binary("logaddexp", Float, logaddexp),
    binary("maximum", Same(Any), |a, b| a.max(b)),
    binary("minimum", Same(Any), |a, b| a.min(b)),
    binary("mul", Same(Any), |a, b| if a.is_bool() { a & b } else { a * b }),
    Operation { name: "sub", slots: PAIR, typing: Same(Numbers), body: Body::Call(sub) },
    binary("xlogy", Float, |x, y| (x.eq(0.0) & !y.is_nan()).select(x.number(0.0), x * y.log())),
];

fn add<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let (a, b) = (call.operand(0)?, scaled(call)?);
    Ok(if a.is_bool() { a | b } else { a + b })
}

fn sub<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    Ok(call.operand(0)? - scaled(call)?)
}

/// The second operand, multiplied by the attribute `alpha`.
fn scaled<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let b = call.operand(1)?;
    let alpha = call.optional_scalar("alpha")?;
    Ok(alpha.map_or(b, |alpha| if b.is_bool() { alpha & b } else { alpha * b }))
}

/// The operand that is not NaN, or `both` if neither is.
fn unless_nan<'a>(a: Expr<'a>, b: Expr<'a>, both: Expr<'a>) -> Expr<'a> {
    if a.is_float() { a.is_nan().select(b, b.is_nan().select(a, both)) } else { both }
}

/// log(exp(a) + exp(b)), also of equal infinities, without overflow.
fn logaddexp<'a>(a: Expr<'a>, b: Expr<'a>) -> Expr<'a> {
    let distinct = a.max(b) + (-(a - b).abs()).exp().log1p();
    a.eq(b).select(a + LN_2, distinct)
}
