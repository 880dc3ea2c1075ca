//! The error function.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use std::f64::consts::FRAC_2_SQRT_PI;

use super::Arithmetic;

/// erf x = x P(x^2) up to 1; relative error 2^-54.
const SMALL: [f64; 12] = [
    FRAC_2_SQRT_PI,
    -0.376_126_389_031_835_2,
    0.112_837_916_709_441_8,
    -0.026_866_170_643_110_844,
    0.005_223_977_606_114_218,
    -0.000_854_832_592_914_144_7,
    0.000_120_552_935_724_350_48,
    -1.492_471_222_694_923_1e-5,
    1.644_713_075_143_084_2e-6,
    -1.620_630_814_461_857_4e-7,
    1.371_095_849_638_581_2e-8,
    -7.779_431_327_382_019e-10,
];

/// erf x = P((2 x - 5) / 3) from 1 to 4; error 2^-39.
const LARGE: [f64; 21] = [
    0.999_593_047_982_325_3,
    0.003_267_426_367_287_318,
    -0.012_252_848_743_684_198,
    0.028_181_550_591_186_91,
    -0.043_650_775_784_072_59,
    0.046_453_649_409_289_73,
    -0.031_876_523_488_038_17,
    0.009_267_212_412_334_804,
    0.006_680_478_801_443_102,
    -0.009_619_711_860_312_838,
    0.004_545_004_496_397_071,
    0.000_437_160_743_268_098_3,
    -0.001_829_303_217_879_940_7,
    0.000_928_533_530_768_678_3,
    5.711_985_623_971_957e-5,
    -0.000_302_650_590_077_024_04,
    0.000_113_403_160_971_488_59,
    3.735_543_211_758_248_4e-5,
    -3.266_718_156_803_295e-5,
    -9.302_183_018_314_297e-7,
    3.452_884_094_723_302e-6,
];

/// erf x = x P(x^2 / 8 - 1) up to 4; relative error 2^-30. A loop computes the polynomials of all intervals for every element: for the two
/// above they would have 24 coefficients.
const SHORT: [f64; 20] = [
    3.535_309_956_2e-1,
    -1.765_762_332_1e-1,
    1.316_751_217_8e-1,
    -1.077_104_490_4e-1,
    9.020_883_404_9e-2,
    -7.472_772_607_9e-2,
    5.988_893_544_4e-2,
    -4.576_648_189_8e-2,
    3.304_758_580_1e-2,
    -2.246_618_362_3e-2,
    1.439_756_817_9e-2,
    -8.630_037_283_3e-3,
    4.746_829_441_5e-3,
    -2.530_357_216_6e-3,
    1.438_018_198_3e-3,
    -6.730_859_373_4e-4,
    1.583_410_853_7e-4,
    -7.231_714_305_8e-5,
    9.735_199_695_6e-5,
    -3.671_403_887e-5,
];

/// From here on the function is 1 as f32.
const ONE_FROM: f64 = 4.0;

#[inline(always)]
pub(super) fn erf<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    if A::IS_SHORT {
        return short(a, x);
    }
    let magnitude = a.abs(x);
    let square = a.mul(magnitude, magnitude);
    let small = a.polynomial(square, &SMALL);
    let small = a.mul(magnitude, small);
    let place = a.mul_number(magnitude, 2.0 / 3.0);
    let place = a.add_number(place, -5.0 / 3.0);
    let large = a.polynomial(place, &LARGE);
    let (one, end) = (a.number(1.0), a.number(ONE_FROM));
    let (is_small, is_beyond) = (a.lt(magnitude, one), a.lt(end, magnitude));
    let result = a.select(is_beyond, one, large);
    let result = a.select(is_small, small, result);
    a.copysign(result, x)
}

#[inline(always)]
fn short<A: Arithmetic>(a: &mut A, x: A::F) -> A::F {
    let x = a.clamp(x, -ONE_FROM, ONE_FROM);
    let square = a.mul(x, x);
    let place = a.mul_number(square, 0.125);
    let place = a.add_number(place, -1.0);
    let polynomial = a.polynomial(place, &SHORT);
    a.mul(x, polynomial)
}
