//! Inverse trigonometric functions, and the hypotenuse.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::Arithmetic;

/// The tangents of pi / 8 and 3 pi / 8.
const TAN_PI_8: f64 = 0.414_213_562_373_095_03;
const TAN_3_PI_8: f64 = 2.414_213_562_373_095;

/// atan t = t + t z P(z) for z = t^2, up to tan(pi / 8); relative error 2^-49.
const ATAN: [f64; 9] = [
    -0.333_333_333_332_600_85,
    0.199_999_999_826_831_37,
    -0.142_857_128_728_648_72,
    0.111_110_544_083_259_42,
    -0.090_896_150_429_637_28,
    0.076_743_185_191_141_26,
    -0.065_102_475_563_247,
    0.050_374_212_030_098_814,
    -0.025_474_294_778_906_746,
];

#[inline(always)]
pub(super) fn atan<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let magnitude = a.abs(x);
    let angle = atan_of_magnitude(a, magnitude);
    a.copysign(angle, x)
}

/// The angle whose sine is x, and whose cosine is sqrt((1 - x) (1 + x)).
#[inline(always)]
pub(super) fn asin<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let cosine = sqrt_one_minus_square(a, x);
    let tangent = a.div(x, cosine);
    atan(a, tangent)
}

#[inline(always)]
pub(super) fn acos<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let sine = sqrt_one_minus_square(a, x);
    atan2(a, sine, x)
}

/// The angle of the point (x, y) by that of its magnitudes.
#[inline(always)]
pub(super) fn atan2<A: Arithmetic>(a: &mut A, y: A::F, x: A::F) -> A::F {
    let (width, height) = (a.abs(x), a.abs(y));
    let ratio = a.div(height, width);
    // Of two zeros and of two infinities.
    let (zero, one, infinity) = (a.number(0.0), a.number(1.0), a.number(f64::INFINITY));
    let is_flat = a.eq(height, zero);
    let is_point = a.eq(width, zero);
    let is_origin = a.and(is_flat, is_point);
    let ratio = a.select(is_origin, zero, ratio);
    let (is_wide, is_high) = (a.eq(width, infinity), a.eq(height, infinity));
    let is_corner = a.and(is_wide, is_high);
    let ratio = a.select(is_corner, one, ratio);
    let angle = atan_of_magnitude(a, ratio);
    let half_turn = a.number(PI);
    let mirrored = a.sub(half_turn, angle);
    let side = a.copysign(one, x);
    let is_left = a.lt(side, zero);
    let angle = a.select(is_left, mirrored, angle);
    a.copysign(angle, y)
}

/// The squares of f32 neither overflow nor vanish as f64.
#[inline(always)]
pub(super) fn hypot<A: Arithmetic>(a: &mut A, x: A::F, y: A::F) -> A::F {
    let (square, other) = (a.mul(x, x), a.mul(y, y));
    let sum = a.add(square, other);
    let length = a.sqrt(sum);
    // Also if the other is NaN.
    let infinity = a.number(f64::INFINITY);
    let (is_infinite, is_other_infinite) = (a.eq(square, infinity), a.eq(other, infinity));
    let length = a.select(is_infinite, infinity, length);
    a.select(is_other_infinite, infinity, length)
}

/// sqrt((1 - x) (1 + x)).
#[inline(always)]
fn sqrt_one_minus_square<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let one = a.number(1.0);
    let (below, above) = (a.sub(one, x), a.add(one, x));
    let square = a.mul(below, above);
    a.sqrt(square)
}

/// The angle of a tangent x, less 0, pi / 4 or pi / 2, is that of x, (x - 1) / (x + 1) or -1 / x.
#[inline(always)]
fn atan_of_magnitude<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (low, high) = (a.number(TAN_PI_8), a.number(TAN_3_PI_8));
    let (is_low, is_high) = (a.lt(x, low), a.lt(high, x));
    let (one, minus_one) = (a.number(1.0), a.number(-1.0));
    let (before, after) = (a.add(x, minus_one), a.add(x, one));
    let above = a.select(is_high, minus_one, before);
    let above = a.select(is_low, x, above);
    let below = a.select(is_high, x, after);
    let below = a.select(is_low, one, below);
    let (zero, eighth, quarter) = (a.number(0.0), a.number(FRAC_PI_4), a.number(FRAC_PI_2));
    let angle = a.select(is_high, quarter, eighth);
    let angle = a.select(is_low, zero, angle);
    let t = a.div(above, below);
    let z = a.mul(t, t);
    let polynomial = a.polynomial(z, &ATAN);
    let factor = a.mul(z, polynomial);
    let correction = a.mul(t, factor);
    let rest = a.add(t, correction);
    a.add(angle, rest)
}
