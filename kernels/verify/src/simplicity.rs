//! The order by which values and cases are simple.

use accelerd_ir::{Dtype, scalar::Literal};

use crate::values::{as_f64, infinity, integer_of, quiet_nan};

/// Decimals of numbers that are simpler than other fractions.
pub(crate) const MAX_DECIMALS: u32 = 4;

/// The powers of ten up to [`MAX_DECIMALS`].
pub(crate) const POWERS_OF_TEN: [f64; 5] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0];

/// Kinds of values, the simplest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// An integer of a magnitude below 2^64.
    Integer,
    /// A number that is written with few decimals.
    Decimal,
    /// Any other number of a magnitude below 2^64.
    Fraction,
    /// A larger number, or a subnormal one.
    Extreme,
    Infinity,
    Nan,
}

/// The complexity of a value; the simplest value is the least. Different values of a type differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complexity {
    pub(crate) class: Class,
    /// Decimals; of other fractions and extreme numbers, bits of the significand after the first.
    pub(crate) digits: u32,
    /// Distance of the exponent from 0, of fractions and extreme numbers.
    exponent: u32,
    /// The magnitude of an integer, else the bits without sign.
    magnitude: u64,
    is_negative: bool,
}

impl Complexity {
    pub(crate) const ZERO: Self =
        Self { class: Class::Integer, digits: 0, exponent: 0, magnitude: 0, is_negative: false };

    pub(crate) fn new(dtype: Dtype, value: u64) -> Self {
        if dtype.is_float() { Self::of_float(dtype, value) } else { Self::of_integer(integer_of(dtype, value)) }
    }

    fn of_integer(integer: i128) -> Self {
        let magnitude = u64::try_from(integer.unsigned_abs()).unwrap_or(u64::MAX);
        Self { magnitude, is_negative: integer < 0, ..Self::ZERO }
    }

    fn of_float(dtype: Dtype, value: u64) -> Self {
        let number = as_f64(dtype, value);
        let magnitude = value & !(1 << (8 * dtype.size() - 1));
        let is_negative = number.is_sign_negative();
        let plain = Self { magnitude, is_negative, ..Self::ZERO };
        if number.is_nan() {
            let payload = if magnitude == quiet_nan(dtype) { 0 } else { magnitude };
            Self { class: Class::Nan, magnitude: payload, ..plain }
        } else if number.is_infinite() {
            Self { class: Class::Infinity, ..plain }
        } else if number.abs() < 2f64.powi(64) && number.fract() == 0.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer below 2^64")]
            let magnitude = number.abs() as u64;
            Self { magnitude, ..plain }
        } else if let Some(digits) = decimals(dtype, number) {
            Self { class: Class::Decimal, digits, ..plain }
        } else {
            let (digits, exponent) = significant_bits(dtype, magnitude);
            let is_extreme = number.abs() > 1.0 && exponent >= 64 || magnitude < smallest_normal(dtype);
            let class = if is_extreme { Class::Extreme } else { Class::Fraction };
            Self { class, digits, exponent: exponent.unsigned_abs(), ..plain }
        }
    }
}

/// The decimals that a number is written with, if they are few: it is the value of its type that is nearest to such a number.
fn decimals(dtype: Dtype, number: f64) -> Option<u32> {
    let exact = |decimals: &u32| {
        let power = POWERS_OF_TEN[*decimals as usize];
        let rounded = (number * power).round() / power;
        Literal::from_f64(dtype, rounded) == Literal::from_f64(dtype, number)
    };
    (1..=MAX_DECIMALS).find(exact).filter(|_| number.abs() < 1e9)
}

/// The bits of the significand after its first up to its last 1, and the exponent. The number is finite and not 0.
pub(crate) fn significant_bits(dtype: Dtype, magnitude: u64) -> (u32, i32) {
    let mantissa_bits = mantissa_bits(dtype);
    let biased = magnitude >> mantissa_bits;
    let fraction = magnitude & ((1 << mantissa_bits) - 1);
    let significand = if biased == 0 { fraction } else { fraction | 1 << mantissa_bits };
    let first = significand.checked_ilog2().unwrap_or(0);
    let bias = i32::try_from(infinity(dtype) >> (mantissa_bits + 1)).unwrap_or(0);
    let exponent = i32::try_from(biased.max(1)).unwrap_or(0) - bias + first.cast_signed() - mantissa_bits.cast_signed();
    (first - significand.trailing_zeros().min(first), exponent)
}

pub(crate) fn mantissa_bits(dtype: Dtype) -> u32 {
    infinity(dtype).trailing_zeros()
}

fn smallest_normal(dtype: Dtype) -> u64 {
    1 << mantissa_bits(dtype)
}

/// The complexity of several values: first the number of those that are not 0, then the values from the simplest on, then each by its
/// place.
pub(crate) fn complexity_of(values: impl Iterator<Item = (Dtype, u64)>) -> (usize, Vec<Complexity>, Vec<Complexity>) {
    let placed: Vec<Complexity> = values.map(|(dtype, value)| Complexity::new(dtype, value)).collect();
    let mut sorted = placed.clone();
    sorted.sort_unstable();
    (placed.iter().filter(|&&one| one != Complexity::ZERO).count(), sorted, placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_ascending(dtype: Dtype, numbers: &[f64]) {
        let of = |number: &f64| Complexity::new(dtype, Literal::from_f64(dtype, *number).bits());
        for pair in numbers.windows(2) {
            assert!(of(&pair[0]) < of(&pair[1]), "{:?} is simpler than {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn simple_numbers_come_first() {
        let third = 1.0 / 3.0;
        let huge = 2f64.powi(64);
        let decimals = [0.1, -0.1, 0.5, 2.5, 0.25, 0.125];
        let others = [2f64.powi(-10), 2f64.powi(-20), 1.5 * 2f64.powi(-10), third];
        let extremes =
            [huge, 2f64.powi(65), 1.5 * huge, f64::MIN_POSITIVE / 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let integers = [0.0, -0.0, 1.0, -1.0, 2.0, 1000.0, 2f64.powi(63)];
        assert_ascending(Dtype::F64, &integers);
        assert_ascending(Dtype::F64, &[integers.last(), decimals.first()].map(|number| *number.expect("one")));
        assert_ascending(Dtype::F64, &decimals);
        assert_ascending(Dtype::F64, &[0.125, others[0]]);
        assert_ascending(Dtype::F64, &others);
        assert_ascending(Dtype::F64, &[third, huge]);
        assert_ascending(Dtype::F64, &extremes[..2]);
        assert_ascending(Dtype::F64, &extremes[1..3]);
        assert_ascending(Dtype::F64, &extremes[3..]);
        assert_ascending(Dtype::F32, &[0.1, -0.1, 0.25, third]);
        assert_ascending(Dtype::I8, &[0.0, 1.0, -1.0, 2.0, 127.0, -128.0]);
        assert_ascending(Dtype::Bool, &[0.0, 1.0]);
    }

    #[test]
    fn significant_bits_are_those_after_the_first() {
        for (number, expected) in
            [(1.0, (0, 0)), (1.5, (1, 0)), (0.375, (1, -2)), (5e-324, (0, -1074)), (3e-323, (1, -1072))]
        {
            assert_eq!(significant_bits(Dtype::F64, f64::to_bits(number)), expected, "{number:?}");
        }
        assert_eq!(significant_bits(Dtype::F16, 0x0001), (0, -24));
        assert_eq!(significant_bits(Dtype::Bf16, 0x3fc0), (1, 0));
    }
}
