//! Special values: those at which functions tend to be wrong.

use std::{collections::HashSet, ops::Range};

use accelerd_ir::{Kind, scalar::Literal};

use crate::values::{Values, as_f64, infinity, quiet_nan};

/// Special values that are combined over inputs.
pub(crate) const MAX_CORE: usize = 17;

/// A set of at most this many values is special as a whole.
const MAX_SMALL: u128 = 256;

/// Constants of each type that are used.
const MAX_CONSTANTS: usize = 256;

/// Special values of an input, the most important ones first.
#[derive(Clone, Debug)]
pub(crate) struct Specials {
    values: Vec<u64>,
    /// The number of values that are combined over inputs.
    core: usize,
    /// Where the constants are that the functions have.
    constants: Range<usize>,
}

impl Specials {
    pub(crate) fn new(values: &Values, floats: &[f64], integers: &[i64]) -> Self {
        let mut collector = Collector { values, seen: HashSet::new(), found: Vec::new() };
        let floats = &floats[..floats.len().min(MAX_CONSTANTS)];
        let integers = &integers[..integers.len().min(MAX_CONSTANTS)];
        collector.essentials();
        let first_constant = collector.found.len();
        collector.constants(floats, integers);
        let constants = first_constant..collector.found.len();
        if values.dtype().is_float() {
            collector.floats();
        } else {
            collector.integers();
        }
        collector.constant_neighbours(floats, integers);
        if values.count() <= MAX_SMALL {
            collector.ordinals(values.low()..=values.high());
        }
        let core = collector.found.len().min(MAX_CORE);
        Self { values: collector.found, core, constants }
    }

    /// All of them, at least one, in the order of their importance.
    pub(crate) fn all(&self) -> &[u64] {
        &self.values
    }

    /// The first ones.
    pub(crate) fn core(&self) -> &[u64] {
        &self.values[..self.core]
    }

    /// The constants of the functions, or the first special values if there are none.
    pub(crate) fn constants(&self) -> &[u64] {
        &self.values[self.constants_range()]
    }

    /// Where [`Self::constants`] are among all.
    pub(crate) fn constants_range(&self) -> Range<usize> {
        if self.constants.is_empty() { 0..self.core } else { self.constants.clone() }
    }
}

/// Collects distinct values of a set.
struct Collector<'a> {
    values: &'a Values,
    seen: HashSet<u64>,
    found: Vec<u64>,
}

impl Collector<'_> {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value.filter(|&value| self.values.contains(value) && self.seen.insert(value)) {
            self.found.push(value);
        }
    }

    fn number(&mut self, number: f64) {
        self.add(self.values.number(number));
    }

    fn both_signs(&mut self, number: f64) {
        self.number(number);
        self.number(-number);
    }

    fn integer(&mut self, integer: i128) {
        self.add(self.values.integer(integer));
    }

    fn ordinals(&mut self, ordinals: impl IntoIterator<Item = i128>) {
        for ordinal in ordinals {
            self.add(self.values.at(ordinal));
        }
    }

    /// Zeros, ones, the ends of the set, NaN.
    fn essentials(&mut self) {
        for integer in [0, 1, -1] {
            self.integer(integer);
        }
        if self.values.dtype().is_float() {
            self.number(-0.0);
            self.add(Some(quiet_nan(self.values.dtype())));
        }
        let low = self.values.low();
        let high = self.values.high();
        self.ordinals([low, high, low + 1, high - 1]);
    }

    fn constants(&mut self, floats: &[f64], integers: &[i64]) {
        for &constant in floats {
            self.number(constant);
        }
        for &constant in integers {
            self.integer(constant.into());
            self.wrapped(constant);
        }
    }

    /// Adds a negative constant as an integer without sign: code that does not tell signs apart has its bits only.
    fn wrapped(&mut self, constant: i64) {
        let dtype = self.values.dtype();
        if constant < 0 && dtype.kind() == Kind::Integer && !dtype.is_signed() {
            self.add(self.values.checked(Literal::from_bits(dtype, constant.cast_unsigned()).bits()));
        }
    }

    /// Adds the neighbours of constants at 1 ULP, 0.5 and 1, and those of their negatives.
    fn constant_neighbours(&mut self, floats: &[f64], integers: &[i64]) {
        for &constant in floats {
            self.around(constant);
            self.around(-constant);
        }
        for &constant in integers {
            let constant = i128::from(constant);
            for near in [constant, constant + 1, constant - 1, -constant, 1 - constant, -constant - 1] {
                self.integer(near);
            }
            if self.values.dtype().is_float() {
                self.around(constant as f64);
                self.around(-constant as f64);
            }
        }
    }

    fn around(&mut self, number: f64) {
        if let Some(value) = self.values.number(number) {
            self.add(Some(value));
            self.add(self.values.neighbour(value, 1));
            self.add(self.values.neighbour(value, -1));
        }
        for distance in [1.0, -1.0, 0.5, -0.5] {
            self.number(number + distance);
        }
    }

    fn floats(&mut self) {
        for number in [0.5, 2.0, 1.5, 2.5, 3.0, 10.0, 100.0, 1000.0, 0.1] {
            self.both_signs(number);
        }
        self.encodings();
        for exponent in [24, 53, 31, 63, 11, 8, 32, 64, 7, 15, 16, 23, 52, 62] {
            self.around(2f64.powi(exponent));
            self.around(-(2f64.powi(exponent)));
        }
        for number in FURTHER {
            self.both_signs(number);
        }
        for exponent in [-300, -100, -15, -9, -6, -3, -2, 3, 4, 5, 6, 9, 15, 16, 18, 100, 300] {
            self.both_signs(10f64.powi(exponent));
        }
    }

    /// Values where the encoding changes: subnormal and normal numbers, the precision of 1, the largest number; and NaN.
    fn encodings(&mut self) {
        let dtype = self.values.dtype();
        let infinity = i128::from(infinity(dtype));
        let smallest_normal = infinity & infinity.wrapping_neg();
        for magnitude in [1, 2, smallest_normal, smallest_normal - 1, smallest_normal + 1, infinity - 2] {
            self.ordinals([magnitude, -1 - magnitude]);
        }
        let one = Literal::from_f64(dtype, 1.0).bits();
        let epsilon = as_f64(dtype, one + 1) - 1.0;
        for number in [1.0 + epsilon, 1.0 - epsilon / 2.0, epsilon, epsilon / 2.0, 2.0 / epsilon, 4.0 / epsilon] {
            self.around_by_ulp(number);
            self.around_by_ulp(-number);
        }
        self.around_by_ulp(self.values.finite_bounds().1.abs().sqrt());
        let nan = quiet_nan(dtype);
        self.add(Some(nan | 1 << (8 * dtype.size() - 1)));
        self.add(Some(nan | 1));
    }

    fn around_by_ulp(&mut self, number: f64) {
        if let Some(value) = self.values.number(number) {
            for distance in [0, 1, -1] {
                self.add(self.values.neighbour(value, distance));
            }
        }
    }

    fn integers(&mut self) {
        for integer in [2, -2, 3, -3, 10, -10, 100, 1000, -100, -1000] {
            self.integer(integer);
        }
        let low = self.values.low();
        let high = self.values.high();
        self.ordinals([high - 2, low + 2]);
        for exponent in [31, 32, 63, 7, 8, 15, 16, 53, 24].into_iter().chain(0..=64) {
            let power = 1i128 << exponent;
            for near in [power, power - 1, power + 1, -power, 1 - power, -1 - power] {
                self.integer(near);
            }
        }
        for root in [11, 15, 181, 255, 46_340, 65_535, 3_037_000_499, 4_294_967_295] {
            for near in [root, root + 1, -root, -1 - root] {
                self.integer(near);
            }
        }
        for power in (2..=19).map(|exponent| 10i128.pow(exponent)) {
            for near in [power, power - 1, power + 1, -power, 1 - power, -1 - power] {
                self.integer(near);
            }
        }
        for integer in 3..=20 {
            self.integer(integer);
            self.integer(-integer);
        }
    }
}

/// Ties and decimals that round, mathematical constants, and where exponentials overflow in f32 and f64.
const FURTHER: [f64; 28] = [
    3.5,
    4.5,
    0.25,
    0.75,
    0.2,
    0.3,
    0.7,
    1.1,
    2.675,
    0.005,
    1.0 / 3.0,
    2.0 / 3.0,
    5.0,
    7.0,
    180.0,
    360.0,
    std::f64::consts::PI,
    std::f64::consts::FRAC_PI_2,
    std::f64::consts::TAU,
    std::f64::consts::E,
    std::f64::consts::LN_2,
    std::f64::consts::SQRT_2,
    88.0,
    89.0,
    104.0,
    709.0,
    710.0,
    746.0,
];
