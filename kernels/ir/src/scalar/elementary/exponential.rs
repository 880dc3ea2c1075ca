//! Exponential and hyperbolic functions, and powers.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use std::f64::consts::{LN_2, LOG2_E};

use super::{Arithmetic, ONE, ROUND, SIGNIFICAND_BITS, logarithm};

/// The result for an exponent beyond it is 0 or infinite as f32, and that for itself is finite as f64.
const LIMIT: f64 = 300.0;

/// e^x - 1 = x + x^2 P(x) for x from -ln 2 / 2 to ln 2 / 2; relative error 2^-43.
const EXPM1: [f64; 8] = [
    0.499_999_999_998_008,
    0.166_666_666_665_992_8,
    0.041_666_666_889_580_595,
    0.008_333_333_377_397_724,
    0.001_388_882_186_956_011_6,
    0.000_198_411_755_939_257_63,
    2.487_608_247_319_304_3e-5,
    2.763_924_479_390_962_8e-6,
];

/// With which the function is within 2^-32.
const EXPM1_SHORT: [f64; 6] = [
    0.500_000_004_613_133_4,
    0.166_666_668_176_814_78,
    0.041_666_355_391_762_85,
    0.008_333_273_074_883_678,
    0.001_394_096_455_183_399_5,
    0.000_199_141_066_596_966_95,
];

/// 2^n (1 + rest).
struct Power<A: Arithmetic> {
    scale: A::F,
    rest: A::F,
}

#[inline(always)]
pub(super) fn exp<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let power = power(a, x, LOG2_E, LN_2);
    finish(a, &power)
}

#[inline(always)]
pub(super) fn exp2<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let power = power(a, x, 1.0, 1.0);
    finish(a, &power)
}

#[inline(always)]
pub(super) fn expm1<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let Power { scale, rest } = power(a, x, LOG2_E, LN_2);
    let scaled = a.mul(scale, rest);
    let whole = a.add_number(scale, -1.0);
    let result = a.add(scaled, whole);
    a.copysign(result, x)
}

/// (m + m / (m + 1)) / 2 for m = e^|x| - 1.
#[inline(always)]
pub(super) fn sinh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let m = expm1(a, magnitude);
    let below = a.add_number(m, 1.0);
    let quotient = a.div(m, below);
    let sum = a.add(m, quotient);
    let half = a.mul_number(sum, 0.5);
    a.copysign(half, x)
}

/// (p + 1 / p) / 2 for p = e^|x|.
#[inline(always)]
pub(super) fn cosh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let p = exp(a, magnitude);
    let one = a.number(1.0);
    let inverse = a.div(one, p);
    let sum = a.add(p, inverse);
    a.mul_number(sum, 0.5)
}

/// m / (m + 2) for m = e^(2|x|) - 1.
#[inline(always)]
pub(super) fn tanh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let double = a.add(magnitude, magnitude);
    let m = expm1(a, double);
    let below = a.add_number(m, 2.0);
    let quotient = a.div(m, below);
    a.copysign(quotient, x)
}

/// 2^(y log2 |x|), with the cases of `pow` of C; in loops e^(y log |x|), which has fewer operations.
#[inline(always)]
pub(super) fn pow<A: Arithmetic>(a: &mut A, x: A::F, y: A::F) -> A::F {
    if A::IS_PLAIN {
        let log = logarithm::log_of_positive(a, x);
        let exponent = a.mul(y, log);
        return exp(a, exponent);
    }
    let (zero, one) = (a.number(0.0), a.number(1.0));
    let magnitude = a.abs(x);
    let log = if A::IS_SHORT { logarithm::log(a, magnitude) } else { logarithm::log2(a, magnitude) };
    let exponent = a.mul(y, log);
    // The power is 1 also where y is infinite.
    let is_one = a.eq(magnitude, one);
    let exponent = a.select(is_one, zero, exponent);
    let power = if A::IS_SHORT { exp(a, exponent) } else { exp2(a, exponent) };
    // The sign of the base is that of odd powers.
    let half = a.mul_number(y, 0.5);
    let (whole, whole_half) = (a.trunc(y), a.trunc(half));
    let (is_whole, is_even) = (a.eq(whole, y), a.eq(whole_half, half));
    let signed = a.copysign(power, x);
    let of_whole = a.select(is_even, power, signed);
    // There is no other real power of a negative number, but for infinity.
    let lowest = a.number(-f64::MAX);
    let (is_negative, is_finite) = (a.lt(x, zero), a.lt(lowest, x));
    let has_none = a.and(is_negative, is_finite);
    let nan = a.number(f64::NAN);
    let of_other = a.select(has_none, nan, power);
    let result = a.select(is_whole, of_whole, of_other);
    let (is_base_one, is_exponent_zero) = (a.eq(x, one), a.eq(y, zero));
    let result = a.select(is_base_one, one, result);
    a.select(is_exponent_zero, one, result)
}

/// b^x, where `log` is the binary logarithm of b and `unit` that many powers of e are a factor of 2.
#[inline(always)]
fn power<A: Arithmetic>(a: &mut A, x: A::F, log: f64, unit: f64) -> Power<A> {
    let x = a.clamp(x, -LIMIT, LIMIT);
    let exponent = a.mul_number(x, log);
    let rounded = a.add_number(exponent, ROUND);
    let whole = a.add_number(rounded, -ROUND);
    let whole = a.mul_number(whole, -unit);
    let rest = a.add(x, whole);
    // In powers of e.
    let rest = a.mul_number(rest, LN_2 / unit);
    let polynomial = a.polynomial(rest, if A::IS_SHORT { &EXPM1_SHORT } else { &EXPM1 });
    let square = a.mul(rest, rest);
    let correction = a.mul(square, polynomial);
    let rest = a.add(rest, correction);
    let bits = a.bits(rounded);
    let bits = a.shift_left(bits, SIGNIFICAND_BITS);
    let one = a.integer(ONE);
    let bits = a.add_integers(bits, one);
    Power { scale: a.reinterpret(bits), rest }
}

#[inline(always)]
fn finish<A: Arithmetic>(a: &mut A, Power { scale, rest }: &Power<A>) -> A::F {
    let scaled = a.mul(*scale, *rest);
    a.add(scaled, *scale)
}
