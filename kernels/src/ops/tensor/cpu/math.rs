//! Elementary functions of f32, computed in f64 by code without branches that the compiler vectorises.
//!
//! The f64 results have relative errors below 1e-9, a sixtieth of the rounding to f32 that follows, so the f32 results are within
//! 0.52 units of the last place. Multiplications and additions are fused if `FMA`, on instruction sets that have such an instruction: there
//! all have equal bits. Polynomials interpolate in Chebyshev points, and their errors are relative.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_bitwise_bool, reason = "loops with branches are not vectorised")]

use std::f64::consts::{FRAC_1_PI, LN_2, LOG2_E, LOG10_E, SQRT_2};

/// Adding it to a number below 2^51 in magnitude rounds to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `a * b + c`.
#[inline(always)]
fn mul_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `2^n` for the integer n to which [`ROUND`] was added.
#[inline(always)]
fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// `e^x - 1` and `e^x`, for x of an f32.
#[inline(always)]
fn exponentials<const FMA: bool>(x: f64) -> (f64, f64) {
    // Beyond, f32 has 0 and infinity. NaN stays.
    let x = if x > 150.0 { 150.0 } else { x };
    let x = if x < -150.0 { -150.0 } else { x };
    let shifted = mul_add::<FMA>(x, LOG2_E, ROUND);
    let r = mul_add::<FMA>(shifted - ROUND, -LN_2, x);
    // (e^r - 1) / r within 2.7e-10, for |r| <= ln 2 / 2.
    let terms = [
        1.989_927_395_876_552_7e-4,
        1.394_110_843_407_728_7e-3,
        8.333_298_483_754_746e-3,
        4.166_635_289_677_39e-2,
        1.666_666_671_899_750_8e-1,
        5.000_000_047_117_757e-1,
        1.0,
    ];
    let power = power_of_two(shifted);
    let scaled = power * (r * polynomial::<FMA, 7>(r, &terms));
    (scaled + (power - 1.0), scaled + power)
}

#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f64) -> f64 {
    exponentials::<FMA>(x).1
}

#[inline(always)]
pub(super) fn exp2<const FMA: bool>(x: f64) -> f64 {
    exponentials::<FMA>(x * LN_2).1
}

#[inline(always)]
pub(super) fn expm1<const FMA: bool>(x: f64) -> f64 {
    if x == 0.0 { x } else { exponentials::<FMA>(x).0 }
}

#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f64) -> f64 {
    // Beyond, f32 has 1.
    let twice = x + x;
    let twice = if twice > 40.0 { 40.0 } else { twice };
    let twice = if twice < -40.0 { -40.0 } else { twice };
    let less_1 = exponentials::<FMA>(twice).0;
    (less_1 / (less_1 + 2.0)).copysign(x)
}

#[inline(always)]
pub(super) fn sinh<const FMA: bool>(x: f64) -> f64 {
    let (less_1, exp) = exponentials::<FMA>(x.abs());
    (0.5 * (less_1 + less_1 / exp)).copysign(x)
}

#[inline(always)]
pub(super) fn cosh<const FMA: bool>(x: f64) -> f64 {
    let exp = exponentials::<FMA>(x.abs()).1;
    0.5 * (exp + 1.0 / exp)
}

/// A positive normal number x as e and s, where `x = 2^e m` with `sqrt(1/2) <= m < sqrt(2)`, and `s = (m - 1) / (m + 1)`, so that
/// `log m = 2 artanh(s)`.
#[inline(always)]
fn reduced_logarithm(x: f64) -> (f64, f64) {
    let shifted = x.to_bits().wrapping_sub(FRAC_BITS_OF_SQRT_HALF);
    let exponent = (shifted >> 52).wrapping_sub(1022);
    let m = f64::from_bits(x.to_bits().wrapping_sub(exponent << 52));
    let e = f64::from_bits(ROUND.to_bits().wrapping_add(exponent)) - ROUND;
    (e, (m - 1.0) / (m + 1.0))
}

/// The bits of sqrt(1/2) without those of its exponent, that of 1/2.
const FRAC_BITS_OF_SQRT_HALF: u64 = (SQRT_2 / 2.0).to_bits() & ((1 << 52) - 1);

#[inline(always)]
pub(super) fn log<const FMA: bool>(x: f64) -> f64 {
    let (e, s) = reduced_logarithm(x);
    // 2 artanh(s) / s within 4.3e-12, for s^2 <= 0.0295.
    let terms = [
        2.361_636_055_134_576_4e-1,
        2.853_505_096_307_347e-1,
        4.000_038_467_355_246_4e-1,
        6.666_666_524_748_176e-1,
        2.000_000_000_008_359_5,
    ];
    let log = mul_add::<FMA>(e, LN_2, s * polynomial::<FMA, 5>(s * s, &terms));
    let log = if x == f64::INFINITY { x } else { log };
    let log = if x > 0.0 { log } else { f64::NAN };
    if x == 0.0 { f64::NEG_INFINITY } else { log }
}

#[inline(always)]
pub(super) fn log2<const FMA: bool>(x: f64) -> f64 {
    log::<FMA>(x) * LOG2_E
}

#[inline(always)]
pub(super) fn log10<const FMA: bool>(x: f64) -> f64 {
    log::<FMA>(x) * LOG10_E
}

#[inline(always)]
pub(super) fn log1p<const FMA: bool>(x: f64) -> f64 {
    let y = 1.0 + x;
    let log_of_y = log::<FMA>(y);
    // What the addition rounded away, relative to y.
    let log = log_of_y + (x - (y - 1.0)) / y;
    if (y > 0.0) & (y < f64::INFINITY) { log } else { log_of_y }
}

/// The magnitude below which [`sin`] and [`cos`] are accurate.
pub(super) const MAX_ANGLE: f32 = 1e5;

/// Sine of a number less `half_turns` times pi, which is at most about pi / 2 in magnitude.
#[inline(always)]
fn sin_less<const FMA: bool>(x: f64, half_turns: f64) -> f64 {
    // pi in two parts, the first of 33 bits: its product with a number of up to 20 bits is exact.
    const HIGH: f64 = 3.141_592_653_468_251_2;
    const LOW: f64 = 1.215_420_101_301_238_4e-10;
    let r = mul_add::<FMA>(half_turns, -LOW, mul_add::<FMA>(half_turns, -HIGH, x));
    // sin(r) / r within 2.7e-11.
    let terms = [
        -2.388_921_549_863_12e-8,
        2.752_526_968_596_708_6e-6,
        -1.984_086_117_689_413_5e-4,
        8.333_330_974_188_872e-3,
        -1.666_666_661_681_507e-1,
        9.999_999_999_829_189e-1,
    ];
    r * polynomial::<FMA, 6>(r * r, &terms)
}

/// The number with its sign inverted if the integer to which [`ROUND`] was added is odd.
#[inline(always)]
fn negate_if_odd(x: f64, shifted: f64) -> f64 {
    f64::from_bits(x.to_bits() ^ shifted.to_bits() << 63)
}

#[inline(always)]
pub(super) fn sin<const FMA: bool>(x: f64) -> f64 {
    let shifted = mul_add::<FMA>(x, FRAC_1_PI, ROUND);
    negate_if_odd(sin_less::<FMA>(x, shifted - ROUND), shifted)
}

/// `cos(x) = -(-1)^n sin(x - (n + 1/2) pi)`.
#[inline(always)]
pub(super) fn cos<const FMA: bool>(x: f64) -> f64 {
    let shifted = mul_add::<FMA>(x, FRAC_1_PI, -0.5) + ROUND;
    -negate_if_odd(sin_less::<FMA>(x, (shifted - ROUND) + 0.5), shifted)
}

#[inline(always)]
pub(super) fn tan<const FMA: bool>(x: f64) -> f64 {
    sin::<FMA>(x) / cos::<FMA>(x)
}

/// Whether [`pow`] takes a base and an exponent.
#[inline(always)]
pub(super) fn pow_is_plain(base: f32, exponent: f32) -> bool {
    (base > 0.0) & (base < f32::INFINITY) & (exponent.abs() < f32::INFINITY)
}

/// A power of a positive finite base; other operands are the caller's.
#[inline(always)]
pub(super) fn pow<const FMA: bool>(base: f64, exponent: f64) -> f64 {
    let (e, s) = reduced_logarithm(base);
    // 2 artanh(s) / (s ln 2) within 4.3e-12, for s^2 <= 0.0295.
    let logarithm = [
        3.407_120_625_127_228e-1,
        4.116_737_651_593_994e-1,
        5.770_835_660_218_503e-1,
        9.617_966_734_514_652e-1,
        2.885_390_081_789_987,
    ];
    let log2 = mul_add::<FMA>(s, polynomial::<FMA, 5>(s * s, &logarithm), e);
    let x = exponent * log2;
    // Beyond, f32 has infinity and 0.
    let x = if x > 200.0 { 200.0 } else { x };
    let x = if x < -200.0 { -200.0 } else { x };
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    // (2^r - 1) / r within 2.7e-10, for |r| <= 1/2.
    let terms = [
        1.529_732_376_079_037_6e-5,
        1.546_144_469_868_515e-4,
        1.333_350_238_616_254_6e-3,
        9.618_056_678_524_348e-3,
        5.550_410_883_909_618_5e-2,
        2.402_265_092_228_876e-1,
        LN_2,
    ];
    let power = power_of_two(shifted);
    mul_add::<FMA>(power * r, polynomial::<FMA, 7>(r, &terms), power)
}

/// x times a polynomial in `t = x^2 / 8 - 1`: the interpolation of `erf(x) / x` in the Chebyshev points of 0 <= x^2 <= 16.
/// Beyond, f32 has 1.
#[inline(always)]
pub(super) fn erf<const FMA: bool>(x: f64) -> f64 {
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
    x * polynomial::<FMA, 20>(x * x * 0.125 - 1.0, &TERMS)
}

/// Horner's scheme; the coefficient of the highest power comes first.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f64, terms: &[f64; N]) -> f64 {
    let mut sum = terms[0];
    for term in &terms[1..] {
        sum = mul_add::<FMA>(sum, x, *term);
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
        let cases: [(&str, [Function; 2], Function); 14] = [
            ("exp", [exp::<true>, exp::<false>], f64::exp),
            ("exp2", [exp2::<true>, exp2::<false>], f64::exp2),
            ("expm1", [expm1::<true>, expm1::<false>], f64::exp_m1),
            ("tanh", [tanh::<true>, tanh::<false>], f64::tanh),
            ("sinh", [sinh::<true>, sinh::<false>], f64::sinh),
            ("cosh", [cosh::<true>, cosh::<false>], f64::cosh),
            ("log", [log::<true>, log::<false>], f64::ln),
            ("log2", [log2::<true>, log2::<false>], f64::log2),
            ("log10", [log10::<true>, log10::<false>], f64::log10),
            ("log1p", [log1p::<true>, log1p::<false>], f64::ln_1p),
            ("sin", [sin::<true>, sin::<false>], f64::sin),
            ("cos", [cos::<true>, cos::<false>], f64::cos),
            ("tan", [tan::<true>, tan::<false>], f64::tan),
            ("erf", [erf::<true>, erf::<false>], libm::erf),
        ];
        // All exponents with some fractions, both signs.
        let magnitudes = (0..0x7f80_0000_u32).step_by(77_777).map(f32::from_bits);
        let plain = (0..40_000_u16).map(|i| f32::from(i) * 0.0031);
        let special = [0.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 88.72, 89.4, 103.9, 150.0, 1.0];
        let numbers: Vec<f32> = magnitudes.chain(plain).chain(special).flat_map(|x| [x, -x]).collect();
        for (name, functions, exact) in cases {
            for x in &numbers {
                let is_angle = matches!(name, "sin" | "cos" | "tan");
                if is_angle && x.abs() > MAX_ANGLE {
                    continue;
                }
                let exact = exact(f64::from(*x));
                for got in functions.map(|function| function(f64::from(*x))) {
                    assert!(ulps(got, exact) <= 0.52, "{name}({x}) is {exact}, got {got}");
                }
            }
        }
    }

    #[test]
    fn powers_are_within_their_error_bound() {
        for base in (1..0x7f80_0000_u32).step_by(7_777_777).map(f32::from_bits) {
            for exponent in [-37.5, -2.0, -0.5, 0.0, 1e-20, 0.3, 1.0, 2.0, 3.0, 11.7, 1e20, -1e20] {
                assert!(pow_is_plain(base, exponent));
                let (base, exponent) = (f64::from(base), f64::from(exponent));
                for got in [pow::<true>(base, exponent), pow::<false>(base, exponent)] {
                    assert!(ulps(got, base.powf(exponent)) <= 0.52, "{base}^{exponent}: {got}");
                }
            }
        }
    }
}
