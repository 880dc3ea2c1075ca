//! Activation functions.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use accelerd_ir::scalar::UnaryOp;

use super::{
    expr::Expr,
    operation::{Call, Operation, unary, unary_with},
    typing::{
        Accepts::Numbers,
        Typing::{Float, Same},
    },
};
use crate::GraphError;

pub(super) const OPERATIONS: &[Operation] = &[
    unary_with("elu", Float, elu),
    unary_with("gelu", Float, gelu),
    unary_with("hardtanh", Same(Numbers), hardtanh),
    unary_with("leaky_relu", Float, leaky_relu),
    unary_with("logit", Float, logit),
    unary("relu", Same(Numbers), |x| x.max(0.0)),
    unary("relu6", Same(Numbers), |x| x.max(0.0).min(6.0)),
    unary("sigmoid", Float, sigmoid),
    unary("silu", Float, |x| x * sigmoid(x)),
    unary_with("softplus", Float, softplus),
    unary("softsign", Float, |x| x / (x.abs() + 1.0)),
    unary_with("threshold", Same(Numbers), threshold),
];

/// 1 / (1 + exp(-x)) with the exponential of no positive number, which does not overflow.
fn sigmoid(x: Expr<'_>) -> Expr<'_> {
    let small = (-x.abs()).exp();
    x.lt(0.0).select(small, 1.0) / (small + 1.0)
}

/// log(1 + exp(x)), likewise.
fn log_1p_exp(x: Expr<'_>) -> Expr<'_> {
    x.max(0.0) + (-x.abs()).exp().log1p()
}

fn elu<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    let alpha = call.scalar("alpha", 1.0)?;
    Ok(x.gt(0.0).select(x, alpha * x.apply(UnaryOp::Expm1)))
}

fn leaky_relu<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    Ok(x.gt(0.0).select(x, x * call.scalar("negative_slope", 0.01)?))
}

fn gelu<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    let doubled = match call.attributes.text("approximate")?.unwrap_or("none") {
        "none" => (x * FRAC_1_SQRT_2).apply(UnaryOp::Erf) + 1.0,
        "tanh" => ((x + x * x * x * 0.044_715) * FRAC_2_PI.sqrt()).apply(UnaryOp::Tanh) + 1.0,
        other => return Err(call.attributes.error("approximate", "none or tanh", other)),
    };
    Ok(x * 0.5 * doubled)
}

/// log(1 + exp(beta * x)) / beta; `x` itself where `beta * x` is above the threshold.
fn softplus<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    let beta = call.scalar("beta", 1.0)?;
    let scaled = x * beta;
    Ok(scaled.gt(call.scalar("threshold", 20.0)?).select(x, log_1p_exp(scaled) / beta))
}

fn hardtanh<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let [low, high] = [call.scalar("min_val", -1.0)?, call.scalar("max_val", 1.0)?];
    Ok(call.operand(0)?.max(low).min(high))
}

fn threshold<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    Ok(x.le(call.required_scalar("threshold", &["value"])?).select(call.required_scalar("value", &[])?, x))
}

/// log(x / (1 - x)), of `x` clamped to `[eps, 1 - eps]` if `eps` is set.
fn logit<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let x = call.operand(0)?;
    let x = call.optional_scalar("eps")?.map_or(x, |eps| x.max(eps).min(eps.complement()));
    Ok((x / x.complement()).log())
}
