//! Logarithms and inverse hyperbolic functions.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E, LOG10_2, LOG10_E};

use super::{Arithmetic, ONE, ROUND, SIGNIFICAND_BITS};

/// log(1 + f) = 2 s + s z P(z) for s = f / (2 + f) and z = s^2, with 1 + f between the square roots of 1/2 and 2; relative error 2^-52.
const LOG: [f64; 6] = [
    0.666_666_666_665_871_9,
    0.400_000_000_522_795_2,
    0.285_714_171_289_670_4,
    0.222_233_717_363_666_82,
    0.181_236_409_785_595_02,
    0.168_198_398_447_596_46,
];

/// With which the function is within 2^-37.
const LOG_SHORT: [f64; 4] =
    [0.666_666_656_459_802_4, 0.400_003_351_126_593_3, 0.285_373_109_533_050_95, 0.235_821_410_897_220_14];

/// The bias of exponents.
const BIAS: f64 = 1023.0;

/// A number as 2^n (1 + f).
struct Parts<A: Arithmetic> {
    n: A::F,
    f: A::F,
}

#[inline(always)]
pub(super) fn log<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    logarithm(a, x, [LN_2, 1.0])
}

/// Of a positive finite number.
#[inline(always)]
pub(super) fn log_of_positive<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let parts = parts(a, x);
    series(a, &parts, [LN_2, 1.0])
}

#[inline(always)]
pub(super) fn log2<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    logarithm(a, x, [1.0, LOG2_E])
}

#[inline(always)]
pub(super) fn log10<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    logarithm(a, x, [LOG10_2, LOG10_E])
}

/// The sum of 1 and a small x loses bits of x, but where n is 0, x is f.
#[inline(always)]
pub(super) fn log1p<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let sum = a.add_number(x, 1.0);
    let Parts { n, f } = parts(a, sum);
    let zero = a.number(0.0);
    let is_exact = a.eq(n, zero);
    let f = a.select(is_exact, x, f);
    let result = finish(a, sum, &Parts { n, f }, [LN_2, 1.0]);
    a.copysign(result, x)
}

/// log1p(x + x^2 / (1 + sqrt(x^2 + 1))) of the magnitude.
#[inline(always)]
pub(super) fn asinh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let square = a.mul(magnitude, magnitude);
    let root = a.add_number(square, 1.0);
    let root = a.sqrt(root);
    let below = a.add_number(root, 1.0);
    let quotient = a.div(square, below);
    let sum = a.add(magnitude, quotient);
    let result = log1p(a, sum);
    let infinity = a.number(f64::INFINITY);
    let is_infinite = a.eq(magnitude, infinity);
    let result = a.select(is_infinite, infinity, result);
    a.copysign(result, x)
}

/// log1p(d + sqrt(d (x + 1))) for d = x - 1.
#[inline(always)]
pub(super) fn acosh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (d, above) = (a.add_number(x, -1.0), a.add_number(x, 1.0));
    let square = a.mul(d, above);
    let root = a.sqrt(square);
    let sum = a.add(d, root);
    let result = log1p(a, sum);
    // Below 1 the sum may be a number.
    let one = a.number(1.0);
    let nan = a.number(f64::NAN);
    let is_outside = a.lt(x, one);
    a.select(is_outside, nan, result)
}

/// log1p(2 x / (1 - x)) / 2 of the magnitude.
#[inline(always)]
pub(super) fn atanh<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let one = a.number(1.0);
    let (double, below) = (a.add(magnitude, magnitude), a.sub(one, magnitude));
    let quotient = a.div(double, below);
    let log = log1p(a, quotient);
    let half = a.mul_number(log, 0.5);
    a.copysign(half, x)
}

#[inline(always)]
fn logarithm<A: Arithmetic>(a: &mut A, x: A::F, scale: [f64; 2]) -> A::F {
    let parts = parts(a, x);
    finish(a, x, &parts, scale)
}

/// Of positive numbers. No f32 and no sum of one and 1 is subnormal as f64.
#[inline(always)]
fn parts<A: Arithmetic>(a: &mut A, x: A::F) -> Parts<A> {
    // The exponent has the bias of f64, and that of the least significand.
    let bits = a.bits(x);
    let offset = a.integer(ONE - FRAC_1_SQRT_2.to_bits().cast_signed());
    let biased = a.add_integers(bits, offset);
    let exponent = a.shift_right(biased, SIGNIFICAND_BITS);
    let (of_exponent, one) = (a.shift_left(exponent, SIGNIFICAND_BITS), a.integer(ONE));
    let of_exponent = a.sub_integers(of_exponent, one);
    let bits = a.sub_integers(bits, of_exponent);
    let significand = a.reinterpret(bits);
    let f = a.add_number(significand, -1.0);
    let round = a.integer(ROUND.to_bits().cast_signed());
    let bits = a.add_integers(exponent, round);
    let n = a.reinterpret(bits);
    Parts { n: a.add_number(n, -ROUND - BIAS), f }
}

/// n times the first factor plus log(1 + f) times the second one.
#[inline(always)]
fn series<A: Arithmetic>(a: &mut A, Parts { n, f }: &Parts<A>, [of_n, of_log]: [f64; 2]) -> A::F {
    let below = a.add_number(*f, 2.0);
    let s = a.div(*f, below);
    let z = a.mul(s, s);
    let polynomial = a.polynomial(z, if A::IS_SHORT { &LOG_SHORT } else { &LOG });
    let factor = a.mul(z, polynomial);
    let factor = a.add_number(factor, 2.0);
    let log = a.mul(s, factor);
    let log = a.mul_number(log, of_log);
    let of_exponent = a.mul_number(*n, of_n);
    a.add(of_exponent, log)
}

/// [`series`], with the cases of all `x`.
#[inline(always)]
fn finish<A: Arithmetic>(a: &mut A, x: A::F, parts: &Parts<A>, factors: [f64; 2]) -> A::F {
    let result = series(a, parts, factors);
    let (zero, infinity) = (a.number(0.0), a.number(f64::INFINITY));
    let (lowest, nan) = (a.number(f64::NEG_INFINITY), a.number(f64::NAN));
    let is_finite = a.lt(x, infinity);
    // Infinity and NaN are their own logarithms.
    let result = a.select(is_finite, result, x);
    let (is_zero, is_negative) = (a.eq(x, zero), a.lt(x, zero));
    let result = a.select(is_zero, lowest, result);
    a.select(is_negative, nan, result)
}
