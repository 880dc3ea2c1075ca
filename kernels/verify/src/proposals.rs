//! Simpler values that may take the place of a value.

use std::collections::HashSet;

use accelerd_ir::Dtype;

use crate::{
    simplicity::{Class, Complexity, MAX_DECIMALS, POWERS_OF_TEN, mantissa_bits, significant_bits},
    values::{Values, as_f64, finite_range, integer_of, ordinal, quiet_nan},
};

/// Numbers from here on are no integers, but extreme: 2^64.
const MAX_INTEGER: f64 = 18_446_744_073_709_551_616.0;

/// Values of the set that are simpler than `value`, distinct; those that are worth a try first are first. There are some hundreds at most.
pub(crate) fn simpler(values: &Values, value: u64) -> Vec<u64> {
    let complexity = Complexity::new(values.dtype(), value);
    let mut proposals = Proposals { values, complexity, seen: HashSet::new(), found: Vec::new() };
    proposals.simple();
    proposals.near(value);
    proposals.found
}

/// Divisors and periods of integers: those of calendars and clocks, of powers of two and ten, and small ones.
const PERIODS: [i128; 52] = [
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 23, 24, 25, 28, 30, 31, 32, 36, 40, 48, 50, 60, 64,
    90, 97, 100, 120, 128, 144, 180, 200, 256, 360, 365, 400, 500, 512, 1000, 1024, 1440, 3600, 4096, 10_000, 86_400,
];

/// Simpler integers that are alike where a function tests factors and remainders, as of a year: quotients of an integer, and the integers near
/// the simplest ones that have its remainder. There are some hundreds at most.
pub(crate) fn related(values: &Values, value: u64) -> Vec<u64> {
    let complexity = Complexity::new(values.dtype(), value);
    let mut proposals = Proposals { values, complexity, seen: HashSet::new(), found: Vec::new() };
    if let Some(integer) = as_integer(values.dtype(), value) {
        proposals.related(integer);
    }
    proposals.found
}

/// The simplest value of a set, or one that is nearly as simple.
pub(crate) fn simplest(values: &Values) -> u64 {
    let complexity = |value: u64| Complexity::new(values.dtype(), value);
    let least = values.clamped(0);
    let mut proposals = Proposals { values, complexity: complexity(least), seen: HashSet::new(), found: Vec::new() };
    proposals.simple();
    proposals.near(least);
    proposals.found.into_iter().min_by_key(|&value| complexity(value)).unwrap_or(least)
}

/// The integer or integral number below 2^64 that a value is.
pub(crate) fn as_integer(dtype: Dtype, value: u64) -> Option<i128> {
    if !dtype.is_float() {
        return Some(integer_of(dtype, value));
    }
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^64")]
    let integer = as_f64(dtype, value) as i128;
    (Complexity::new(dtype, value).class == Class::Integer).then_some(integer)
}

/// Integers from `from` to `to`, without `from`: near both ends every integer, then 4 for each power of two.
///
/// If a threshold lies between them, the nearest point beyond it is at most a quarter of the way too far from either end. So some rounds
/// find it exactly.
pub(crate) fn points(from: i128, to: i128) -> impl Iterator<Item = i128> {
    let distance = (to - from).unsigned_abs();
    let sign = (to - from).signum();
    let offsets = move || grid().take_while(move |&offset| offset < distance);
    let near_end = offsets().map(move |offset| to - sign * offset.cast_signed());
    let near_start = offsets().map(move |offset| from + sign * offset.cast_signed());
    (distance > 0).then_some(to).into_iter().chain(near_end).chain(near_start)
}

/// 1, 2, 3 and the integers with three leading bits and zeros after them.
fn grid() -> impl Iterator<Item = u128> {
    (1..4).chain((0..100).flat_map(|exponent| (4..8).map(move |leading| leading << exponent)))
}

struct Proposals<'a> {
    values: &'a Values,
    complexity: Complexity,
    seen: HashSet<u64>,
    found: Vec<u64>,
}

impl Proposals<'_> {
    fn add(&mut self, value: Option<u64>) {
        let dtype = self.values.dtype();
        let is_new = |value: &u64| self.values.contains(*value) && Complexity::new(dtype, *value) < self.complexity;
        if let Some(value) = value.filter(is_new).filter(|&value| self.seen.insert(value)) {
            self.found.push(value);
        }
    }

    fn integer(&mut self, integer: i128) {
        self.add(self.values.integer(integer));
    }

    fn number(&mut self, number: f64) {
        if self.values.dtype().is_float() {
            self.add(self.values.number(number));
        }
    }

    /// Proposes values that are simple for any element, and the ends of the set.
    fn simple(&mut self) {
        for integer in [0, 1, -1, 2, -2] {
            self.integer(integer);
        }
        self.integer(self.anchor());
        for number in [-0.0, 0.5, 1.5, -0.5, 0.1] {
            self.number(number);
        }
        for place in [0, self.values.low(), self.values.high()] {
            self.add(Some(self.values.clamped(place)));
        }
    }

    /// The integer of the set that is nearest to 0, if it has one of at most 2^64; else an integer on its side.
    fn anchor(&self) -> i128 {
        if !self.values.dtype().is_float() {
            return 0i128.clamp(self.values.low(), self.values.high());
        }
        let (low, high) = self.values.finite_bounds();
        let nearest = if low > 0.0 { low.ceil() } else { high.floor().min(0.0) };
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^64")]
        let anchor = nearest.clamp(-MAX_INTEGER, MAX_INTEGER) as i128;
        anchor
    }

    fn near(&mut self, value: u64) {
        let dtype = self.values.dtype();
        if let Some(integer) = as_integer(dtype, value) {
            self.integer(-integer);
            points(integer, self.anchor()).for_each(|point| self.integer(point));
            return;
        }
        let number = as_f64(dtype, value);
        self.number(-number);
        match self.complexity.class {
            Class::Integer | Class::Decimal | Class::Fraction => self.near_fraction(value, number),
            Class::Extreme => self.near_extreme(value, number),
            Class::Infinity => self.near_infinity(),
            Class::Nan => self.near_nan(),
        }
    }

    fn related(&mut self, integer: i128) {
        let anchor = self.anchor();
        for digit in 1..10 {
            let magnitudes = (0..19).map(|exponent| digit * 10i128.pow(exponent));
            magnitudes.take_while(|magnitude| *magnitude < integer.abs()).for_each(|magnitude| {
                self.integer(magnitude * integer.signum());
            });
        }
        for period in PERIODS {
            if integer % period == 0 {
                self.integer(integer / period);
            }
            let rest = (integer - anchor).rem_euclid(period);
            for near in [anchor + rest, anchor + rest - period, anchor + rest + period] {
                self.integer(near);
            }
        }
        // Of a longer period: the largest part of the integer that is a multiple of it stays.
        for kept in [10, 100, 1000, 10_000] {
            self.integer(integer % kept);
            self.integer(integer / kept * kept);
        }
    }

    fn near_fraction(&mut self, value: u64, number: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "a number below 2^64")]
        let whole = number.trunc() as i128;
        let anchor = self.anchor();
        for integer in [whole, whole + 1, whole - 1] {
            self.integer(integer);
        }
        points(whole, anchor).for_each(|point| self.integer(point));
        for decimals in 1..=MAX_DECIMALS {
            self.near_decimal(number, decimals);
        }
        self.fewer_bits(value);
        self.nearer_exponents(number, value);
    }

    /// Numbers with some decimals; if the number has as many, those from it to 0.
    fn near_decimal(&mut self, number: f64, decimals: u32) {
        let power = POWERS_OF_TEN[decimals as usize];
        #[expect(clippy::cast_possible_truncation, reason = "a number below 2^64 times 10,000")]
        let digits = (number * power).round() as i128;
        for near in [digits, digits - 1, digits + 1] {
            self.number(near as f64 / power);
        }
        if self.complexity.class == Class::Decimal && self.complexity.digits == decimals {
            points(digits, 0).for_each(|point| self.number(point as f64 / power));
        }
    }

    /// The number rounded down and up to fewer bits.
    fn fewer_bits(&mut self, value: u64) {
        let dtype = self.values.dtype();
        let sign = 1 << (8 * dtype.size() - 1);
        for dropped in (0..=mantissa_bits(dtype)).rev() {
            let unit = 1 << dropped;
            let down = (value & (sign - 1)) & !(unit - 1);
            for magnitude in [down, down + unit] {
                let rounded = value & sign | magnitude;
                self.add(ordinal(dtype, rounded).and_then(|place| self.values.at(place)));
            }
        }
    }

    /// The number with an exponent nearer to 0, and powers of two with such exponents.
    fn nearer_exponents(&mut self, number: f64, value: u64) {
        let magnitude = value & ((1 << (8 * self.values.dtype().size() - 1)) - 1);
        let (_, exponent) = significant_bits(self.values.dtype(), magnitude);
        for point in points(exponent.into(), 0) {
            let point = i32::try_from(point).unwrap_or(0);
            self.number(scaled(1.0, point).copysign(number));
            self.number(scaled(number, point - exponent));
        }
    }

    fn near_extreme(&mut self, value: u64, number: f64) {
        self.number(2f64.powi(63).copysign(number));
        self.number(2f64.powi(53).copysign(number));
        self.fewer_bits(value);
        self.nearer_exponents(number, value);
    }

    fn near_infinity(&mut self) {
        let (min, max) = finite_range(self.values.dtype());
        for place in [max + 1, max, min] {
            self.add(self.values.at(place));
        }
        for exponent in [53, 63, 64, 512, 1023] {
            self.number(2f64.powi(exponent));
            self.number(-(2f64.powi(exponent)));
        }
    }

    fn near_nan(&mut self) {
        self.near_infinity();
        self.number(f64::NEG_INFINITY);
        self.add(Some(quiet_nan(self.values.dtype())));
    }
}

/// A number times a power of two, which need not be representable itself.
fn scaled(number: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    number * 2f64.powi(half) * 2f64.powi(exponent - half)
}
