//! Sine, cosine and tangent.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::{Arithmetic, ROUND, SIGNIFICAND_BITS, WideArithmetic};

/// Up to here, quarter turns have less than 2^17 and their product with [`QUARTER_HIGH`] is exact.
pub(crate) const SMALL_ANGLE: f64 = 131_072.0;

/// The 36 leading bits of pi / 2, and the others.
const QUARTER_HIGH: f64 = 1.570_796_326_792_333_3;
const QUARTER_LOW: f64 = 2.563_344_151_594_519e-12;

/// 2^-16 (2 / pi), the first bit after the point being the highest of the first word.
const TWO_OVER_PI: [u64; 4] =
    [0x0000_a2f9_836e_4e44, 0x1529_fc27_57d1_f534, 0xddc0_db62_9599_3c43, 0x9041_fe51_63ab_debb];

/// sin x = x (1 + z P(z)) for z = x^2; relative error 2^-47.
const SIN: [f64; 5] = [
    -0.166_666_666_666_303_5,
    0.008_333_333_325_077_597,
    -0.000_198_412_637_285_300_43,
    2.755_533_963_296_883_5e-6,
    -2.476_045_277_666_959_3e-8,
];

/// cos x = 1 - z / 2 + z^2 P(z) for z = x^2; relative error 2^-53.
const COS: [f64; 5] = [
    0.041_666_666_666_596_54,
    -0.001_388_888_887_761_157_1,
    2.480_158_070_722_930_7e-5,
    -2.755_552_309_381_793e-7,
    2.064_511_785_214_43e-9,
];

pub(super) fn sin<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (rest, quarters) = a.reduce(x);
    let (sin, cos) = (sin_of_rest(a, rest), cos_of_rest(a, rest));
    turned(a, quarters, sin, cos)
}

/// The sine of a quarter turn more.
pub(super) fn cos<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (rest, quarters) = a.reduce(x);
    let (sin, cos) = (sin_of_rest(a, rest), cos_of_rest(a, rest));
    let one = a.integer(1);
    let quarters = a.add_integers(quarters, one);
    turned(a, quarters, sin, cos)
}

pub(super) fn tan<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (rest, quarters) = a.reduce(x);
    let (sin, cos) = (sin_of_rest(a, rest), cos_of_rest(a, rest));
    let is_odd = a.has_bit(quarters, 0);
    let opposite = a.mul_number(cos, -1.0);
    let (above, below) = (a.select(is_odd, opposite, sin), a.select(is_odd, sin, cos));
    a.div(above, below)
}

/// The sine of a number of quarter turns and a rest, of which the sine and the cosine are known.
fn turned<A: Arithmetic>(a: &mut A, quarters: A::I, sin: A::F, cos: A::F) -> A::F {
    let (is_odd, is_half) = (a.has_bit(quarters, 0), a.has_bit(quarters, 1));
    let sine = a.select(is_odd, cos, sin);
    let opposite = a.mul_number(sine, -1.0);
    a.select(is_half, opposite, sine)
}

fn sin_of_rest<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let square = a.mul(x, x);
    let polynomial = a.polynomial(square, &SIN);
    let factor = a.mul(square, polynomial);
    let factor = a.add_number(factor, 1.0);
    a.mul(x, factor)
}

fn cos_of_rest<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let square = a.mul(x, x);
    let polynomial = a.polynomial(square, &COS);
    let factor = a.mul(square, polynomial);
    let factor = a.add_number(factor, -0.5);
    let correction = a.mul(square, factor);
    a.add_number(correction, 1.0)
}

/// For angles up to [`SMALL_ANGLE`].
pub(crate) fn reduce_small<A: Arithmetic>(a: &mut A, x: A::F) -> (A::F, A::I) {
    let quarters = a.mul_number(x, FRAC_2_PI);
    let rounded = a.add_number(quarters, ROUND);
    let quarters = a.add_number(rounded, -ROUND);
    let high = a.mul_number(quarters, -QUARTER_HIGH);
    let rest = a.add(x, high);
    let low = a.mul_number(quarters, -QUARTER_LOW);
    (a.add(rest, low), a.bits(rounded))
}

/// For greater ones, and for infinity and NaN, whose rest is NaN.
///
/// An angle is m 2^e for an m of 24 bits. Of m 2^e (2 / pi), multiples of 4 are left out: two words of 2 / pi remain, of which the first
/// one's highest two bits are the quarter turns.
pub(crate) fn reduce_large<A: WideArithmetic>(a: &mut A, x: A::F) -> (A::F, A::I) {
    let magnitude = a.abs(x);
    let bits = a.bits(magnitude);
    let exponent = a.shift_right(bits, SIGNIFICAND_BITS);
    let fraction = a.shift_left(bits, 64 - SIGNIFICAND_BITS);
    let one = a.integer(1 << 23);
    let fraction = {
        let by = a.integer(64 - 23);
        a.shift_right_by(fraction, by)
    };
    let significand = a.or_integers(fraction, one);
    // The place of the first bit of 2 / pi whose product with 2^e is below 4.
    let bias = a.integer(1023 + 23 + 2 - 16);
    let place = a.sub_integers(exponent, bias);
    let word = a.integer(64);
    let is_first = a.is_less_integer(place, word);
    let after = a.sub_integers(place, word);
    let shift = a.select_integer(is_first, place, after);
    let [w0, w1, w2, w3] = TWO_OVER_PI.map(|word| a.integer(word.cast_signed()));
    let first = a.select_integer(is_first, w0, w1);
    let second = a.select_integer(is_first, w1, w2);
    let third = a.select_integer(is_first, w2, w3);
    let high = window(a, first, second, shift);
    let low = window(a, second, third, shift);
    // Their product with m, of which 62 bits are after the point.
    let by = a.integer(32);
    let low = a.shift_right_by(low, by);
    let low = a.mul_integers(significand, low);
    let low = a.shift_right_by(low, by);
    let high = a.mul_integers(significand, high);
    let product = a.add_integers(high, low);
    let half = a.integer(1 << 61);
    let rounded = a.add_integers(product, half);
    let quarters = a.shift_right(rounded, 62);
    let whole = a.shift_left(quarters, 62);
    let rest = a.sub_integers(product, whole);
    let rest = a.to_number(rest);
    let rest = a.mul_number(rest, FRAC_PI_2 / (1_u64 << 62) as f64);
    // The sign of the angle is that of both parts.
    let zero = a.number(0.0);
    let is_negative = a.is_less(x, zero);
    let opposite = a.mul_number(rest, -1.0);
    let rest = a.select(is_negative, opposite, rest);
    let none = a.integer(0);
    let opposite = a.sub_integers(none, quarters);
    let quarters = a.select_integer(is_negative, opposite, quarters);
    // Infinity less itself.
    let nan = a.sub(x, x);
    (a.add(rest, nan), quarters)
}

/// 64 bits of two words from a place in the first one.
fn window<A: WideArithmetic>(a: &mut A, first: A::I, second: A::I, place: A::I) -> A::I {
    let word = a.integer(64);
    let left = a.sub_integers(word, place);
    let (high, low) = (a.shift_left_by(first, place), a.shift_right_by(second, left));
    a.or_integers(high, low)
}
