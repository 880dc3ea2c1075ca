//! Elementary functions of f32, computed in f64 by code without branches that the compiler vectorises.
//!
//! The f64 results have relative errors below 1e-9, a sixtieth of the rounding to f32 that follows, so the f32 results are within
//! 0.52 units of the last place. No multiplication is fused with an addition, so all instruction sets have equal bits.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_bitwise_bool, reason = "loops with branches are not vectorised")]

use std::f64::consts::{FRAC_PI_2, LN_2, LOG2_E, LOG10_E, SQRT_2};

/// Adding it to a number below 2^51 in magnitude rounds to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `e^x - 1` and `e^x`, for x of an f32.
#[inline(always)]
fn exponentials(x: f64) -> (f64, f64) {
    // Beyond, f32 has 0 and infinity. NaN stays.
    let x = if x > 150.0 { 150.0 } else { x };
    let x = if x < -150.0 { -150.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2;
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    // Taylor's series; |r| <= ln 2 / 2.
    let terms = [
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ];
    let scaled = power * (r * polynomial(r, &terms));
    (scaled + (power - 1.0), scaled + power)
}

#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    exponentials(x).1
}

#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    exponentials(x * LN_2).1
}

#[inline(always)]
pub(super) fn expm1(x: f64) -> f64 {
    if x == 0.0 { x } else { exponentials(x).0 }
}

#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    // Beyond, f32 has 1.
    let twice = x + x;
    let twice = if twice > 40.0 { 40.0 } else { twice };
    let twice = if twice < -40.0 { -40.0 } else { twice };
    let less_1 = exponentials(twice).0;
    (less_1 / (less_1 + 2.0)).copysign(x)
}

#[inline(always)]
pub(super) fn sinh(x: f64) -> f64 {
    let (less_1, exp) = exponentials(x.abs());
    (0.5 * (less_1 + less_1 / exp)).copysign(x)
}

#[inline(always)]
pub(super) fn cosh(x: f64) -> f64 {
    let exp = exponentials(x.abs()).1;
    0.5 * (exp + 1.0 / exp)
}

/// The natural logarithm of a positive normal number.
#[inline(always)]
fn log_of_normal(x: f64) -> f64 {
    // x = 2^e m with sqrt(1/2) <= m < sqrt(2).
    let shifted = x.to_bits().wrapping_sub(FRAC_BITS_OF_SQRT_HALF);
    let exponent = (shifted >> 52).wrapping_sub(1022);
    let m = f64::from_bits(x.to_bits().wrapping_sub(exponent << 52));
    let e = f64::from_bits(ROUND.to_bits().wrapping_add(exponent)) - ROUND;
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // 2 artanh(s); s^2 <= 0.0295.
    let terms = [2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0];
    s * polynomial(square, &terms) + e * LN_2
}

/// The bits of sqrt(1/2) without those of its exponent, that of 1/2.
const FRAC_BITS_OF_SQRT_HALF: u64 = (SQRT_2 / 2.0).to_bits() & ((1 << 52) - 1);

#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let log = log_of_normal(x);
    let log = if x == f64::INFINITY { x } else { log };
    let log = if x > 0.0 { log } else { f64::NAN };
    if x == 0.0 { f64::NEG_INFINITY } else { log }
}

#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    log(x) * LOG2_E
}

#[inline(always)]
pub(super) fn log10(x: f64) -> f64 {
    log(x) * LOG10_E
}

#[inline(always)]
pub(super) fn log1p(x: f64) -> f64 {
    let y = 1.0 + x;
    // What the addition rounded away, relative to y.
    let log = log(y) + (x - (y - 1.0)) / y;
    if (y > 0.0) & (y < f64::INFINITY) { log } else { self::log(y) }
}

/// The magnitude below which [`sin`] and [`cos`] are accurate.
pub(super) const MAX_ANGLE: f32 = 1e5;

/// Sine and cosine of the remainder modulo pi / 2, and the quadrant in the low bits.
#[inline(always)]
fn sin_cos(x: f64) -> (f64, f64, u64) {
    // pi / 2 in two parts, the first of 33 bits: its product with a quadrant number of up to 20 bits is exact.
    const HIGH: f64 = f64::from_bits(FRAC_PI_2.to_bits() & !((1 << 20) - 1));
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * HIGH) - n * LOW;
    let square = r * r;
    let sine =
        [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];
    let cosine = [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0];
    (r * polynomial(square, &sine), polynomial(square, &cosine), shifted.to_bits())
}

#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    let (sine, cosine, quadrant) = sin_cos(x);
    let sin = if quadrant & 1 == 0 { sine } else { cosine };
    let sin = if quadrant & 2 == 0 { sin } else { -sin };
    if x == 0.0 { x } else { sin }
}

#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    let (sine, cosine, quadrant) = sin_cos(x);
    let cos = if quadrant & 1 == 0 { cosine } else { sine };
    if quadrant.wrapping_add(1) & 2 == 0 { cos } else { -cos }
}

#[inline(always)]
pub(super) fn tan(x: f64) -> f64 {
    sin(x) / cos(x)
}

/// Whether [`pow`] takes a base and an exponent.
#[inline(always)]
pub(super) fn pow_is_plain(base: f32, exponent: f32) -> bool {
    (base > 0.0) & (base < f32::INFINITY) & exponent.is_finite()
}

/// A power of a positive finite base; other operands are the caller's.
#[inline(always)]
pub(super) fn pow(base: f64, exponent: f64) -> f64 {
    exp(exponent * log_of_normal(base))
}

/// x times a polynomial in `t = x^2 / 8 - 1`: the interpolation of `erf(x) / x` in the Chebyshev points of 0 <= x^2 <= 16.
/// Beyond, f32 has 1.
#[inline(always)]
pub(super) fn erf(x: f64) -> f64 {
    const TERMS: [f64; 20] = [
        -3.671_403_887e-5,
        9.735_199_695_6e-5,
        -7.231_714_305_8e-5,
        1.583_410_853_7e-4,
        -6.730_859_373_4e-4,
        1.438_018_198_3e-3,
        -2.530_357_216_6e-3,
        4.746_829_441_5e-3,
        -8.630_037_283_3e-3,
        1.439_756_817_9e-2,
        -2.246_618_362_3e-2,
        3.304_758_580_1e-2,
        -4.576_648_189_8e-2,
        5.988_893_544_4e-2,
        -7.472_772_607_9e-2,
        9.020_883_404_9e-2,
        -1.077_104_490_4e-1,
        1.316_751_217_8e-1,
        -1.765_762_332_1e-1,
        3.535_309_956_2e-1,
    ];
    let x = if x > 4.0 { 4.0 } else { x };
    let x = if x < -4.0 { -4.0 } else { x };
    x * polynomial(x * x * 0.125 - 1.0, &TERMS)
}

/// Horner's scheme; the coefficient of the highest power comes first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, terms: &[f64; N]) -> f64 {
    let mut sum = terms[0];
    for term in &terms[1..] {
        sum = sum * x + term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the last place of the exact value.
    fn ulps(got: f64, exact: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "rounded as results are")]
        let got = got as f32;
        #[expect(clippy::cast_possible_truncation, reason = "compared as f32")]
        let rounded = exact as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
        (f64::from(got) - exact).abs() / unit
    }

    #[test]
    fn functions_are_within_their_error_bound() {
        type Function = fn(f64) -> f64;
        let cases: [(&str, Function, Function); 14] = [
            ("exp", exp, f64::exp),
            ("exp2", exp2, f64::exp2),
            ("expm1", expm1, f64::exp_m1),
            ("tanh", tanh, f64::tanh),
            ("sinh", sinh, f64::sinh),
            ("cosh", cosh, f64::cosh),
            ("log", log, f64::ln),
            ("log2", log2, f64::log2),
            ("log10", log10, f64::log10),
            ("log1p", log1p, f64::ln_1p),
            ("sin", sin, f64::sin),
            ("cos", cos, f64::cos),
            ("tan", tan, f64::tan),
            ("erf", erf, libm::erf),
        ];
        // All exponents with some fractions, both signs.
        let magnitudes = (0..0x7f80_0000_u32).step_by(77_777).map(f32::from_bits);
        let plain = (0..40_000_u16).map(|i| f32::from(i) * 0.0031);
        let special = [0.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 88.72, 89.4, 103.9, 150.0, 1.0];
        let numbers: Vec<f32> = magnitudes.chain(plain).chain(special).flat_map(|x| [x, -x]).collect();
        for (name, function, exact) in cases {
            for x in &numbers {
                let is_angle = matches!(name, "sin" | "cos" | "tan");
                if is_angle && x.abs() > MAX_ANGLE {
                    continue;
                }
                let (got, exact) = (function(f64::from(*x)), exact(f64::from(*x)));
                assert!(ulps(got, exact) <= 0.52, "{name}({x}) is {exact}, got {got}");
            }
        }
    }

    #[test]
    fn powers_are_within_their_error_bound() {
        for base in (1..0x7f80_0000_u32).step_by(7_777_777).map(f32::from_bits) {
            for exponent in [-37.5, -2.0, -0.5, 0.0, 1e-20, 0.3, 1.0, 2.0, 3.0, 11.7, 1e20, -1e20] {
                assert!(pow_is_plain(base, exponent));
                let (base, exponent) = (f64::from(base), f64::from(exponent));
                let got = pow(base, exponent);
                assert!(ulps(got, base.powf(exponent)) <= 0.52, "{base}^{exponent}: {got}");
            }
        }
    }
}
