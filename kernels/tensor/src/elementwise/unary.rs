//! Operations of one number: rounding, powers, logarithms, trigonometry.

use accelerd_ir::{Dtype, scalar::UnaryOp};

use super::{
    expr::Expr,
    operation::{Call, Operation, unary, unary_with},
    typing::{
        Accepts::{Any, Bits, Numbers},
        Typing::{Cast, Comparison, Float, Logic, Same},
    },
};
use crate::GraphError;

#[expect(clippy::redundant_closure_for_method_calls, reason = "a method of Expr<'a> is not general in 'a")]
pub(super) const OPERATIONS: &[Operation] = &[
    unary("abs", Same(Numbers), |x| x.abs()),
    unary("acos", Float, |x| x.apply(UnaryOp::Acos)),
    unary("acosh", Float, |x| x.apply(UnaryOp::Acosh)),
    unary("asin", Float, |x| x.apply(UnaryOp::Asin)),
    unary("asinh", Float, |x| x.apply(UnaryOp::Asinh)),
    unary("atan", Float, |x| x.apply(UnaryOp::Atan)),
    unary("atanh", Float, |x| x.apply(UnaryOp::Atanh)),
    unary("bitwise_not", Same(Bits), |x| !x),
    unary("ceil", Same(Numbers), |x| if x.is_float() { x.apply(UnaryOp::Ceil) } else { x }),
    unary("cos", Float, |x| x.apply(UnaryOp::Cos)),
    unary("cosh", Float, |x| x.apply(UnaryOp::Cosh)),
    unary("erf", Float, |x| x.apply(UnaryOp::Erf)),
    unary("exp", Float, |x| x.exp()),
    unary("exp2", Float, |x| x.apply(UnaryOp::Exp2)),
    unary("expm1", Float, |x| x.apply(UnaryOp::Expm1)),
    unary("floor", Same(Numbers), |x| if x.is_float() { x.floor() } else { x }),
    unary("isfinite", Comparison, |x| if x.is_float() { x.abs().lt(f64::INFINITY) } else { x.eq(x) }),
    unary("isinf", Comparison, |x| if x.is_float() { x.apply(UnaryOp::IsInf) } else { x.ne(x) }),
    unary("isnan", Comparison, |x| x.is_nan()),
    unary("log", Float, |x| x.log()),
    unary("log10", Float, |x| x.apply(UnaryOp::Log10)),
    unary("log1p", Float, |x| x.log1p()),
    unary("log2", Float, |x| x.apply(UnaryOp::Log2)),
    unary("logical_not", Logic, |x| !x),
    unary_with("nan_to_num", Same(Any), nan_to_num),
    unary("neg", Same(Numbers), |x| -x),
    unary("positive", Same(Numbers), |x| x),
    unary("reciprocal", Float, |x| x.reciprocal()),
    unary_with("round", Same(Numbers), round),
    unary("rsqrt", Float, |x| x.sqrt().reciprocal()),
    unary("sign", Same(Any), sign),
    unary("signbit", Comparison, signbit),
    unary("sin", Float, |x| x.apply(UnaryOp::Sin)),
    unary("sinh", Float, |x| x.apply(UnaryOp::Sinh)),
    unary("sqrt", Float, |x| x.sqrt()),
    unary("square", Same(Numbers), |x| x * x),
    unary("tan", Float, |x| x.apply(UnaryOp::Tan)),
    unary("tanh", Float, |x| x.apply(UnaryOp::Tanh)),
    unary("to", Cast, |x| x),
    unary("trunc", Same(Numbers), |x| if x.is_float() { x.trunc() } else { x }),
];

fn sign(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_signed() { x.apply(UnaryOp::Sign) } else { x.ne(0.0).cast(x.dtype()) }
}

/// The sign bit of floating-point numbers, also of -0; whether integers are negative.
fn signbit(x: Expr<'_>) -> Expr<'_> {
    if x.is_float() { x.apply(UnaryOp::SignBit) } else { x.lt(0.0) }
}

fn round<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    match call.attributes.int("decimals")? {
        None | Some(0) => Ok(if x.is_float() { x.apply(UnaryOp::Round) } else { x }),
        Some(decimals) => Err(call.attributes.error("decimals", "0", decimals)),
    }
}

/// By default, infinities become the extreme finite numbers of the result's type.
fn nan_to_num<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    let extreme = greatest_finite(call.result());
    let nan = call.scalar("nan", 0.0)?;
    let above = call.scalar("posinf", extreme)?;
    let below = call.scalar("neginf", -extreme)?;
    if !x.is_float() {
        return Ok(x);
    }
    let finite = x.eq(f64::INFINITY).select(above, x.eq(f64::NEG_INFINITY).select(below, x));
    Ok(x.is_nan().select(nan, finite))
}

/// The greatest finite number of a floating-point type; 0 for other types.
fn greatest_finite(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 65504.0,
        Dtype::Bf16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        Dtype::F32 => f64::from(f32::MAX),
        Dtype::F64 => f64::MAX,
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => 0.0,
    }
}
