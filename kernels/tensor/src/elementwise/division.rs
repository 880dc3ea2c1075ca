//! Quotients and remainders.

use accelerd_ir::scalar::BinaryOp;

use super::{
    expr::Expr,
    operation::{Body, Call, Operation, PAIR, binary},
    typing::{
        Accepts::Numbers,
        Typing::{Float, Quotient, Same},
    },
};
use crate::{GraphError, attributes::Attributes};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "div",
        slots: PAIR,
        typing: Quotient(|attributes| Ok(Rounding::of(attributes)?.is_some())),
        body: Body::Call(div),
    },
    binary("floor_divide", Same(Numbers), floor_divide),
    binary("fmod", Same(Numbers), |a, b| a % b),
    binary("remainder", Same(Numbers), remainder),
    binary("true_divide", Float, |a, b| a / b),
];

/// The attribute `rounding_mode`.
enum Rounding {
    Trunc,
    Floor,
}

impl Rounding {
    /// `None` if the quotient is not rounded to an integer.
    fn of(attributes: &Attributes<'_>) -> Result<Option<Self>, GraphError> {
        match attributes.text("rounding_mode")?.unwrap_or("none") {
            "none" => Ok(None),
            "trunc" => Ok(Some(Self::Trunc)),
            "floor" => Ok(Some(Self::Floor)),
            other => Err(attributes.error("rounding_mode", "none, trunc or floor", other)),
        }
    }
}

fn div<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let (a, b) = (call.operand(0)?, call.operand(1)?);
    Ok(match Rounding::of(call.attributes)? {
        Some(Rounding::Trunc) if a.is_float() => (a / b).trunc(),
        None | Some(Rounding::Trunc) => a / b,
        Some(Rounding::Floor) => floor_divide(a, b),
    })
}

/// The largest integer not above the quotient.
fn floor_divide<'a>(a: Expr<'a>, b: Expr<'a>) -> Expr<'a> {
    if a.is_float() {
        return floor_divide_floats(a, b);
    }
    let below = differs_in_sign(a % b, b).cast(a.dtype());
    a / b - below
}

/// The quotient of a dividend less its remainder is an integer but for the rounding of the division, which is undone. The floor of
/// the rounded quotient would be 10 for 1 / 0.1.
fn floor_divide_floats<'a>(a: Expr<'a>, b: Expr<'a>) -> Expr<'a> {
    let remainder = a % b;
    let truncated = (a - remainder) / b;
    let exact = differs_in_sign(remainder, b).select(truncated - 1.0, truncated);
    let floor = exact.floor();
    let nearest = (exact - floor).gt(0.5).select(floor + 1.0, floor);
    let zero = a.number(0.0).with(BinaryOp::CopySign, a / b);
    b.eq(0.0).select(a / b, exact.eq(0.0).select(zero, nearest))
}

/// The remainder of the quotient rounded down: of the divisor's sign, as in Python.
fn remainder<'a>(a: Expr<'a>, b: Expr<'a>) -> Expr<'a> {
    let truncated = a % b;
    differs_in_sign(truncated, b).select(truncated + b, truncated)
}

/// Returns true if a remainder is not 0 and of the other sign than the divisor.
fn differs_in_sign<'a>(remainder: Expr<'a>, divisor: Expr<'a>) -> Expr<'a> {
    remainder.ne(0.0) & (remainder.lt(0.0) ^ divisor.lt(0.0))
}
