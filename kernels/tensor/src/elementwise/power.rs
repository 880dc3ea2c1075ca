//! Powers.

use accelerd_ir::{Dtype, scalar::BinaryOp};

use super::{
    expr::Expr,
    operation::{Body, Call, Operation, PAIR},
    typing::{Accepts::Numbers, Typing::Same},
};
use crate::{Attribute, GraphError};

pub(super) const OPERATIONS: &[Operation] =
    &[Operation { name: "pow", slots: PAIR, typing: Same(Numbers), body: Body::Call(pow) }];

fn pow<'a>(call: &Call<'a>) -> Result<Expr<'a>, GraphError> {
    let (base, exponent) = (call.operand(0)?, call.operand(1)?);
    match call.constant(1) {
        Some((name, value)) if !base.is_float() => integer_pow_constant(call, base, name, value),
        None if !base.is_float() => Ok(integer_pow(base, exponent)),
        Some((name, _)) => Ok(float_pow_constant(base, exponent, call.attributes.float(name).ok().flatten())),
        None => Ok(base.with(BinaryOp::Pow, exponent)),
    }
}

/// Exponents that need no general power.
fn float_pow_constant<'a>(base: Expr<'a>, exponent: Expr<'a>, value: Option<f64>) -> Expr<'a> {
    let is = |number: f64| value == Some(number);
    match () {
        () if is(0.5) => base.sqrt(),
        () if is(-0.5) => base.sqrt().reciprocal(),
        () if is(1.0) => base,
        () if is(-1.0) => base.reciprocal(),
        () if is(2.0) => base * base,
        () if is(-2.0) => (base * base).reciprocal(),
        () if is(3.0) => base * base * base,
        () => base.with(BinaryOp::Pow, exponent),
    }
}

fn integer_pow_constant<'a>(
    call: &Call<'a>,
    base: Expr<'a>,
    name: &'static str,
    value: &Attribute,
) -> Result<Expr<'a>, GraphError> {
    let refused = || call.attributes.mismatch(name, "an integer not below 0", value);
    let mut left = match value {
        Attribute::Int(value) => u64::try_from(*value).map_err(|_| refused())?,
        Attribute::Bool(value) => u64::from(*value),
        Attribute::Float(_) | Attribute::Text(_) | Attribute::Ints(_) => return Err(refused()),
    };
    let (mut product, mut square) = (None, base);
    while left > 0 {
        if left & 1 == 1 {
            product = Some(product.map_or(square, |product: Expr<'a>| product * square));
        }
        left >>= 1;
        square = square * square;
    }
    Ok(product.unwrap_or_else(|| base.integer(1)))
}

/// The power of integers, wrapping, by a multiplication for each bit of the exponent. A power of a negative exponent is a fraction,
/// which is 0, unless the base is 1 or -1.
fn integer_pow<'a>(base: Expr<'a>, exponent: Expr<'a>) -> Expr<'a> {
    let (mut product, mut square) = (base.integer(1), base);
    for bit in 0..value_bits(base.dtype()) {
        let is_set = (exponent & exponent.integer(1_i64.rotate_left(bit))).ne(0.0);
        product = is_set.select(product * square, product);
        square = square * square;
    }
    if !base.dtype().is_signed() {
        return product;
    }
    let is_odd = (exponent & exponent.integer(1)).ne(0.0);
    let of_minus_one = base.eq(-1.0).select(is_odd.select(base, base.integer(1)), base.integer(0));
    let fraction = base.eq(1.0).select(base, of_minus_one);
    exponent.lt(0.0).select(fraction, product)
}

/// The bits of an integer type without the sign.
fn value_bits(dtype: Dtype) -> u32 {
    let bits = u32::try_from(8 * dtype.size()).expect("at most 64 bits");
    bits - u32::from(dtype.is_signed())
}
