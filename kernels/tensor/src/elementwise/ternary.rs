//! Operations of three operands, of which one may be an attribute.

use super::{
    expr::Expr,
    operands::Slot,
    operation::{Body, Call, Operation},
    typing::{
        Accepts::{Any, Numbers},
        Typing::{Float, Same},
    },
};
use crate::GraphError;

const TENSORS: &[Slot] = &[Slot::Tensor; 3];

pub(super) const OPERATIONS: &[Operation] = &[
    Operation { name: "addcdiv", slots: TENSORS, typing: Float, body: Body::Call(addcdiv) },
    Operation { name: "addcmul", slots: TENSORS, typing: Same(Numbers), body: Body::Call(addcmul) },
    Operation {
        name: "clamp",
        slots: &[Slot::Tensor, Slot::Optional("min"), Slot::Optional("max")],
        typing: Same(Numbers),
        body: Body::Call(clamp),
    },
    Operation {
        name: "lerp",
        slots: &[Slot::Tensor, Slot::Tensor, Slot::Either("weight")],
        typing: Float,
        body: Body::Call(lerp),
    },
    Operation {
        name: "masked_fill",
        slots: &[Slot::Tensor, Slot::Condition],
        typing: Same(Any),
        body: Body::Call(|call| Ok(call.operand(1)?.select(call.required_scalar("value", &[])?, call.operand(0)?))),
    },
    Operation {
        name: "where",
        slots: &[Slot::Condition, Slot::Either("input"), Slot::Either("other")],
        typing: Same(Any),
        body: Body::Call(|call| Ok(call.operand(0)?.select(call.operand(1)?, call.operand(2)?))),
    },
];

fn addcmul<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let product = call.operand(1)? * call.operand(2)?;
    Ok(call.operand(0)? + scaled(call, product)?)
}

fn addcdiv<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let quotient = call.operand(1)? / call.operand(2)?;
    Ok(call.operand(0)? + scaled(call, quotient)?)
}

/// A number multiplied by the attribute `value`.
fn scaled<'a>(call: &Call<'a>, number: Expr<'a>) -> Result<Expr<'a>, GraphError> {
    Ok(call.optional_scalar("value")?.map_or(number, |value| value * number))
}

/// NaN stays NaN; the upper bound wins over a greater lower bound.
fn clamp<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let (x, low, high) = (call.operand(0)?, call.optional(1)?, call.optional(2)?);
    if low.is_none() && high.is_none() {
        return Err(call.attributes.error("min", "a bound in min or max", "none"));
    }
    let raised = low.map_or(x, |low| x.max(low));
    Ok(high.map_or(raised, |high| raised.min(high)))
}

/// From the nearer end, so that weights 0 and 1 give the ends exactly.
fn lerp<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let (start, end, weight) = (call.operand(0)?, call.operand(1)?, call.operand(2)?);
    let distance = end - start;
    Ok(weight.abs().lt(0.5).select(start + weight * distance, end - distance * weight.complement()))
}
