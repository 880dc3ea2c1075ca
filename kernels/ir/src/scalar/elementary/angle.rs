//! Sine, cosine and tangent.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use std::f64::consts::{FRAC_1_PI, FRAC_PI_2};

use super::{Arithmetic, ROUND, SIGNIFICAND_BITS, WideArithmetic};

/// Up to here, half and quarter turns have less than 2^17 and their product with [`PI_HIGH`] is exact.
pub(crate) const SMALL_ANGLE: f32 = 131_072.0;

/// The 36 leading bits of pi, and the others.
const PI_HIGH: f64 = 3.141_592_653_584_666_6;
const PI_LOW: f64 = 5.126_688_303_189_038e-12;

/// 2^-16 (2 / pi), the first bit after the point being the highest of the first word.
const TWO_OVER_PI: [u64; 4] =
    [0x0000_a2f9_836e_4e44, 0x1529_fc27_57d1_f534, 0xddc0_db62_9599_3c43, 0x9041_fe51_63ab_debb];

/// sin x = x (1 + z P(z)) for z = x^2, to half a turn; relative error 2^-43.
const SIN: [f64; 6] = [
    -0.166_666_666_665_046,
    0.008_333_333_321_086_994,
    -0.000_198_412_667_296_578_2,
    2.755_695_310_588_506e-6,
    -2.503_019_664_585_509_8e-8,
    1.540_952_421_522_754_2e-10,
];

/// With which the function is within 2^-35.
const SIN_SHORT: [f64; 5] = [
    -0.166_666_666_266_168_96,
    0.008_333_331_109_305_552,
    -0.000_198_408_682_909_368_96,
    2.752_538_790_633_693_7e-6,
    -2.388_895_924_850_247_3e-8,
];

/// cos x = 1 - z / 2 + z^2 P(z) for z = x^2, to a quarter turn; relative error 2^-53.
const COS: [f64; 5] = [
    0.041_666_666_666_596_54,
    -0.001_388_888_887_761_157_1,
    2.480_158_070_722_930_7e-5,
    -2.755_552_309_381_793e-7,
    2.064_511_785_214_43e-9,
];

/// The rest of an angle, besides a number of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// An angle from -pi/2 to pi/2 that has the sine, but for the sign if the number of half turns is odd.
    Sine,
    /// One whose sine is the cosine, but for the sign if the number of half turns is odd.
    Cosine,
    /// An angle from -pi/4 to pi/4 besides quarter turns.
    Tangent,
}

#[inline(always)]
pub(super) fn sin<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    sine(a, x, Reduction::Sine)
}

#[inline(always)]
pub(super) fn cos<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    sine(a, x, Reduction::Cosine)
}

#[inline(always)]
fn sine<A: Arithmetic>(a: &mut A, x: A::F, reduction: Reduction) -> A::F {
    let (rest, half_turns) = a.reduce(x, reduction);
    let sine = sin_reduced(a, rest);
    let (sign, bits) = (a.shift_left(half_turns, 63), a.bits(sine));
    let bits = a.xor_integers(bits, sign);
    a.reinterpret(bits)
}

#[inline(always)]
pub(super) fn tan<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let (rest, quarters) = a.reduce(x, Reduction::Tangent);
    let (sin, cos) = (sin_reduced(a, rest), cos_reduced(a, rest));
    let is_odd = a.has_bit(quarters, 0);
    let opposite = a.mul_number(cos, -1.0);
    let (above, below) = (a.select(is_odd, opposite, sin), a.select(is_odd, sin, cos));
    a.div(above, below)
}

#[inline(always)]
fn sin_reduced<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let square = a.mul(x, x);
    let polynomial = a.polynomial(square, if A::IS_SHORT { &SIN_SHORT } else { &SIN });
    let factor = a.mul(square, polynomial);
    let factor = a.add_number(factor, 1.0);
    a.mul(x, factor)
}

#[inline(always)]
fn cos_reduced<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let square = a.mul(x, x);
    let polynomial = a.polynomial(square, &COS);
    let factor = a.mul(square, polynomial);
    let factor = a.add_number(factor, -0.5);
    let correction = a.mul(square, factor);
    a.add_number(correction, 1.0)
}

/// For angles up to [`SMALL_ANGLE`]; the low bits of the second result are the number of turns.
#[inline(always)]
pub(crate) fn reduce_small<A: Arithmetic>(a: &mut A, x: A::F, reduction: Reduction) -> (A::F, A::I) {
    let unit = if reduction == Reduction::Tangent { 0.5 } else { 1.0 };
    let turns = a.mul_number(x, FRAC_1_PI / unit);
    if reduction == Reduction::Cosine {
        // x is n + 1/2 half turns less a rest, which has the sine.
        let turns = a.add_number(turns, -0.5);
        let rounded = a.add_number(turns, ROUND);
        let whole = a.add_number(rounded, -ROUND);
        let turns = a.add_number(whole, 0.5);
        let (high, low) = (a.mul_number(turns, PI_HIGH), a.mul_number(turns, PI_LOW));
        let rest = a.sub(high, x);
        return (a.add(rest, low), a.bits(rounded));
    }
    let rounded = a.add_number(turns, ROUND);
    let turns = a.add_number(rounded, -ROUND);
    let (high, low) = (a.mul_number(turns, PI_HIGH * unit), a.mul_number(turns, PI_LOW * unit));
    let rest = a.sub(x, high);
    (a.sub(rest, low), a.bits(rounded))
}

/// For greater ones, and for infinity and NaN, whose rest is NaN.
#[inline(always)]
pub(crate) fn reduce_large<A: WideArithmetic>(a: &mut A, x: A::F, reduction: Reduction) -> (A::F, A::I) {
    let mut angle = a.large_angle(x);
    if reduction == Reduction::Cosine {
        let quarter = a.integer(1 << 62);
        angle = a.add_integers(angle, quarter);
    }
    // The place of the lowest bit of turns.
    let place = if reduction == Reduction::Tangent { 62 } else { 63 };
    let half = a.integer(1 << (place - 1));
    let rounded = a.add_integers(angle, half);
    let turns = a.shift_right(rounded, place);
    let whole = a.shift_left(turns, place);
    let rest = a.sub_integers(angle, whole);
    let rest = a.to_number(rest);
    let rest = a.mul_number(rest, FRAC_PI_2 / (1_u64 << 62) as f64);
    // 0, or NaN.
    let zero = a.sub(x, x);
    (a.add(rest, zero), turns)
}

/// A large angle without whole turns, as a multiple of 2^-62 quarter turns.
///
/// An angle is m 2^e for an m of 24 bits. Of m 2^e (2 / pi), multiples of 4 are left out: two words of 2 / pi remain, of which the first
/// one's highest two bits are quarter turns.
#[inline(always)]
pub(crate) fn large_angle<A: WideArithmetic>(a: &mut A, x: A::F) -> A::I {
    let magnitude = a.abs(x);
    let bits = a.bits(magnitude);
    let exponent = a.shift_right(bits, SIGNIFICAND_BITS);
    let fraction = a.shift_left(bits, 64 - SIGNIFICAND_BITS);
    let fraction = a.shift_right(fraction, 64 - 23);
    let one = a.integer(1 << 23);
    let significand = a.add_integers(fraction, one);
    // The place of the first bit of 2 / pi whose product with 2^e is below 4.
    let bias = a.integer(1023 + 23 + 2 - 16);
    let place = a.sub_integers(exponent, bias);
    let word = a.integer(64);
    let is_first = a.lt_integers(place, word);
    let after = a.sub_integers(place, word);
    let shift = a.select_integer(is_first, place, after);
    let [w0, w1, w2, w3] = TWO_OVER_PI.map(|word| a.integer(word.cast_signed()));
    let first = a.select_integer(is_first, w0, w1);
    let second = a.select_integer(is_first, w1, w2);
    let third = a.select_integer(is_first, w2, w3);
    let high = window(a, first, second, shift);
    let low = window(a, second, third, shift);
    // Their product with m; of the second one, what it carries.
    let low = a.shift_right(low, 32);
    let low = a.mul_integers(significand, low);
    let low = a.shift_right(low, 32);
    let high = a.mul_integers(significand, high);
    let product = a.add_integers(high, low);
    let (none, zero) = (a.integer(0), a.number(0.0));
    let opposite = a.sub_integers(none, product);
    let is_negative = a.lt(x, zero);
    a.select_integer(is_negative, opposite, product)
}

/// 64 bits of two words from a place in the first one.
#[inline(always)]
fn window<A: WideArithmetic>(a: &mut A, first: A::I, second: A::I, place: A::I) -> A::I {
    let word = a.integer(64);
    let left = a.sub_integers(word, place);
    let (high, low) = (a.shift_left_by(first, place), a.shift_right_by(second, left));
    a.or_integers(high, low)
}
