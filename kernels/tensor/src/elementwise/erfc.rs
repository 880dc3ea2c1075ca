//! The complementary error function.

use super::{
    expr::Expr,
    operation::{Operation, unary},
    typing::Typing::Float,
};

pub(super) const OPERATIONS: &[Operation] = &[unary("erfc", Float, erfc)];

/// Chebyshev coefficients of `(1 + 2 x) exp(x^2) erfc(x)` for `x >= 0`, in `(x - CENTRE) / (x + CENTRE)`. All together are exact to
/// 1e-17, the first [`TERMS_OF_F32`] to 4e-9.
const COEFFICIENTS: [f64; 25] = [
    1.177_483_200_537_448_7,
    -0.007_260_796_620_301_901,
    -0.081_265_123_236_185,
    0.060_092_128_041_222_25,
    -0.028_753_935_580_276_66,
    0.010_595_663_363_472_86,
    -0.003_136_927_294_554_264,
    0.000_745_649_437_253_618_4,
    -0.000_136_969_650_301_005_42,
    1.718_386_160_030_093_3e-05,
    -7.158_364_623_450_374e-07,
    -2.426_139_944_244_972e-07,
    5.576_570_939_570_282_4e-08,
    -2.105_786_951_380_472e-09,
    -1.171_788_935_186_875e-09,
    1.909_835_517_270_994_2e-10,
    1.408_871_764_517_610_7e-11,
    -6.901_108_317_268_688e-12,
    9.167_958_653_181_485e-14,
    2.145_450_850_370_785_3e-13,
    -1.471_657_386_948_501_8e-14,
    -6.668_675_126_832_294e-15,
    7.504_586_890_873_683e-16,
    2.220_071_571_096_047_2e-16,
    -3.170_771_685_872_117e-17,
];
const CENTRE: f64 = 4.0;
const TERMS_OF_F32: usize = 14;

/// Beyond this the function is less than the least f64.
const UNDERFLOW: f64 = 30.0;

/// Computed as itself, not as 1 - erf(x), which has no correct digit for large operands.
fn erfc(x: Expr<'_>) -> Expr<'_> {
    let magnitude = x.abs().min(UNDERFLOW);
    let variable = (magnitude - CENTRE) / (magnitude + CENTRE);
    let terms = if x.dtype().size() == 8 { COEFFICIENTS.len() } else { TERMS_OF_F32 };
    let scaled = chebyshev(&COEFFICIENTS[..terms], variable);
    let tail = exp_of_negative_square(magnitude) * scaled / (magnitude * 2.0 + 1.0);
    x.lt(0.0).select(tail.number(2.0) - tail, tail)
}

/// A Chebyshev series by Clenshaw's recurrence.
fn chebyshev<'a>(coefficients: &[f64], x: Expr<'a>) -> Expr<'a> {
    let doubled = x * 2.0;
    let (mut next, mut after) = (x.number(0.0), x.number(0.0));
    for &coefficient in coefficients[1..].iter().rev() {
        (next, after) = (doubled * next - after + coefficient, next);
    }
    x * next - after + coefficients[0]
}

/// exp(-x^2) for `x` in `[0, UNDERFLOW]`. The square of a multiple of 1/16 is exact; the rest of the square is small, and so is its
/// rounding error.
fn exp_of_negative_square(x: Expr<'_>) -> Expr<'_> {
    let coarse = (x * 16.0).floor() * (1.0 / 16.0);
    (-(coarse * coarse)).exp() * ((coarse - x) * (coarse + x)).exp()
}
