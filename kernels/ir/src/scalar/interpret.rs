//! Evaluates a scalar function for one element. It defines what the operations compute, and is what backends are compared with.
//!
//! Operations of f32 compute in f64 and round the result once more. Sum, difference, product, quotient and square root are still
//! rounded correctly, for f64 has more than twice the bits of f32; [`math`] tells how elementary functions are computed.

use super::{
    BinaryOp, Function, Inst, Literal, UnaryOp, ValueId,
    elementary::{evaluate_binary, evaluate_unary},
    elementary_binary, elementary_unary, math,
};
use crate::{Dtype, Kind};

/// The results for these arguments of the element at `index`.
///
/// # Panics
/// If number or types of the arguments differ from those of the parameters.
pub fn interpret(function: &Function, arguments: &[Literal], index: i64) -> Vec<Literal> {
    let types = arguments.iter().map(|argument| argument.dtype());
    assert!(types.eq(function.params().iter().copied()), "arguments have the types of the parameters");
    let mut values: Vec<Literal> = Vec::with_capacity(function.values().len());
    for value in function.values() {
        let at = |id: ValueId| values[id.index()];
        let result = match value.inst {
            Inst::Param(nth) => arguments[nth as usize],
            Inst::Index => Literal::from_i64(Dtype::I64, index),
            Inst::Literal(literal) => literal,
            Inst::Unary(op, a) => unary(op, at(a)),
            Inst::Binary(op, a, b) => binary(op, at(a), at(b)),
            Inst::Select(condition, a, b) => at(if at(condition).is_truthy() { a } else { b }),
            Inst::Cast(a) => at(a).cast(value.dtype),
        };
        values.push(result);
    }
    function.results().iter().map(|result| values[result.index()]).collect()
}

pub(crate) fn unary(op: UnaryOp, a: Literal) -> Literal {
    match a.dtype().kind() {
        Kind::Bool | Kind::Integer => unary_of_integer(op, a),
        Kind::Float => unary_of_float(op, a),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the builder admits no other operation of integers")]
fn unary_of_integer(op: UnaryOp, a: Literal) -> Literal {
    let x = a.as_integer();
    let result = match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign => x.signum(),
        UnaryOp::Not if a.dtype() == Dtype::Bool => i128::from(x == 0),
        UnaryOp::Not => !x,
        _ => unreachable!("{op:?} does not take integers"),
    };
    Literal::from_integer(a.dtype(), result)
}

fn unary_of_float(op: UnaryOp, a: Literal) -> Literal {
    let (dtype, x) = (a.dtype(), a.as_f64());
    let result = match op {
        // By bits, for the sign of a NaN is defined here.
        UnaryOp::Neg => return Literal::from_bits(dtype, a.bits() ^ sign_mask(dtype)),
        UnaryOp::Abs => return Literal::from_bits(dtype, a.bits() & !sign_mask(dtype)),
        UnaryOp::SignBit => return truth(a.bits() & sign_mask(dtype) != 0),
        UnaryOp::IsNan => return truth(x.is_nan()),
        UnaryOp::IsInf => return truth(x.is_infinite()),
        UnaryOp::Sign => sign(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Sqrt => x.sqrt(),
        elementary_unary!() => {
            if dtype == Dtype::F32 {
                evaluate_unary(op, x)
            } else {
                math::unary(op, x)
            }
        }
        UnaryOp::Not => unreachable!("{op:?} does not take floating-point numbers"),
    };
    Literal::from_f64(dtype, result)
}

pub(crate) fn binary(op: BinaryOp, a: Literal, b: Literal) -> Literal {
    match a.dtype().kind() {
        Kind::Bool | Kind::Integer => binary_of_integers(op, a, b),
        Kind::Float => binary_of_floats(op, a, b),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the builder admits no other operation of integers")]
fn binary_of_integers(op: BinaryOp, a: Literal, b: Literal) -> Literal {
    let dtype = a.dtype();
    let (x, y) = (a.as_integer(), b.as_integer());
    let shift = u32::try_from(y).ok().filter(|bits| (*bits as usize) < 8 * dtype.size());
    let result = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y).unwrap_or(0),
        BinaryOp::Rem => x.checked_rem(y).unwrap_or(0),
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl => shift.map_or(0, |bits| x << bits),
        BinaryOp::Shr => x >> shift.unwrap_or(64),
        BinaryOp::MulHigh => mul_high(dtype, x, y),
        BinaryOp::Eq => return truth(x == y),
        BinaryOp::Ne => return truth(x != y),
        BinaryOp::Lt => return truth(x < y),
        BinaryOp::Le => return truth(x <= y),
        _ => unreachable!("{op:?} does not take integers"),
    };
    Literal::from_integer(dtype, result)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the builder admits no other operation of floating-point numbers")]
#[expect(clippy::float_cmp, reason = "equality of the exact values is the operation")]
fn binary_of_floats(op: BinaryOp, a: Literal, b: Literal) -> Literal {
    let dtype = a.dtype();
    let (x, y) = (a.as_f64(), b.as_f64());
    let result = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        elementary_binary!() => {
            if dtype == Dtype::F32 {
                evaluate_binary(op, x, y)
            } else {
                math::binary(op, x, y)
            }
        }
        BinaryOp::Min => minimum(x, y),
        BinaryOp::Max => -minimum(-x, -y),
        BinaryOp::CopySign => {
            let mask = sign_mask(dtype);
            return Literal::from_bits(dtype, a.bits() & !mask | b.bits() & mask);
        }
        BinaryOp::Eq => return truth(x == y),
        BinaryOp::Ne => return truth(x != y),
        BinaryOp::Lt => return truth(x < y),
        BinaryOp::Le => return truth(x <= y),
        _ => unreachable!("{op:?} does not take floating-point numbers"),
    };
    Literal::from_f64(dtype, result)
}

#[expect(clippy::cast_sign_loss, reason = "values of unsigned types")]
fn mul_high(dtype: Dtype, x: i128, y: i128) -> i128 {
    let bits = 8 * dtype.size();
    if dtype.is_signed() { (x * y) >> bits } else { ((x as u128 * y as u128) >> bits).cast_signed() }
}

fn truth(value: bool) -> Literal {
    Literal::from_bits(Dtype::Bool, value.into())
}

fn sign_mask(dtype: Dtype) -> u64 {
    1 << (8 * dtype.size() - 1)
}

/// `f64::signum` is 1 for 0.
fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// `f64::min` prefers numbers to NaN and does not order zeros.
#[expect(clippy::float_cmp, reason = "only zeros are equal and have different signs")]
fn minimum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x < y || (x == y && x.is_sign_negative()) {
        x
    } else {
        y
    }
}
