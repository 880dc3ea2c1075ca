//! Vectorised passes over blocks of pairs.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::{
    comparison::Comparison,
    element::{Element, Word},
    policy::{Close, excess},
};
use crate::cpu::simd::{Kernel, Lanes};

/// Partial results of a pass.
pub(super) const LANES: usize = 16;

/// With longer distances, counting them one by one is faster than a pass for each bucket.
const MAX_PASSES: u32 = 6;

/// Finds what differs in a block, and writes the distance of each pair.
pub(super) struct Scan<'a, T: Element> {
    pub(super) actual: &'a [T::Raw],
    pub(super) expected: &'a [T::Raw],
    pub(super) distances: &'a mut [T::Word],
}

pub(super) struct Scanned<W> {
    /// Whether a NaN or an infinity is among the elements.
    pub(super) has_special: bool,
    /// Whether a pair is -0 and +0.
    pub(super) has_zero_sign: bool,
    /// Whether bits differ.
    pub(super) differs: bool,
    pub(super) max_distance: W,
    /// The largest magnitude of the expected elements.
    pub(super) largest_expected: W,
}

impl<T: Element> Kernel for Scan<'_, T> {
    type Out = Scanned<T::Word>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Scanned<T::Word> {
        let zeros = [T::Word::default(); LANES];
        let (mut differing, mut unlike_zeros, mut distance) = (zeros, zeros, zeros);
        let (mut largest_actual, mut largest_expected) = (zeros, zeros);
        let chunks = self.actual.chunks(LANES).zip(self.expected.chunks(LANES)).zip(self.distances.chunks_mut(LANES));
        for ((actual, expected), distances) in chunks {
            for (lane, ((&a, &e), to)) in actual.iter().zip(expected).zip(distances).enumerate() {
                let (a, e) = (T::bits(a), T::bits(e));
                let (unlike, apart) = (a ^ e, T::distance(a, e));
                *to = apart;
                differing[lane] = differing[lane] | unlike;
                unlike_zeros[lane] =
                    unlike_zeros[lane] | if apart == T::Word::default() { unlike } else { T::Word::default() };
                distance[lane] = distance[lane].max(apart);
                largest_actual[lane] = largest_actual[lane].max(T::magnitude(a));
                largest_expected[lane] = largest_expected[lane].max(T::magnitude(e));
            }
        }
        let any = |lanes: [T::Word; LANES]| lanes.into_iter().any(|lane| lane != T::Word::default());
        let largest = |lanes: [T::Word; LANES]| lanes.into_iter().max().unwrap_or_default();
        let largest_expected = largest(largest_expected);
        Scanned {
            has_special: largest_expected.max(largest(largest_actual)) > T::MAX_FINITE,
            has_zero_sign: any(unlike_zeros),
            differs: any(differing),
            max_distance: largest(distance),
            largest_expected,
        }
    }
}

/// The largest magnitude of the finite elements.
pub(super) struct Largest<'a, T: Element>(pub(super) &'a [T::Raw]);

impl<T: Element> Kernel for Largest<'_, T> {
    type Out = T::Word;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> T::Word {
        let mut largest = [T::Word::default(); LANES];
        for chunk in self.0.chunks(LANES) {
            for (largest, &element) in largest.iter_mut().zip(chunk) {
                let magnitude = T::magnitude(T::bits(element));
                let finite = if magnitude > T::MAX_FINITE { T::Word::default() } else { magnitude };
                *largest = finite.max(*largest);
            }
        }
        largest.into_iter().max().unwrap_or_default()
    }
}

/// Finds the largest errors of pairs of finite numbers.
pub(super) struct Measure<'a, T: Element> {
    pub(super) tolerances: Close,
    pub(super) actual: &'a [T::Raw],
    pub(super) expected: &'a [T::Raw],
    /// The largest quotients so far.
    pub(super) bars: Bars,
}

/// Quotients that are certainly below those that were reached. Comparing products with them takes the place of most divisions.
#[derive(Clone, Copy)]
pub(super) struct Bars {
    relative: f64,
    ratio: f64,
}

impl Bars {
    pub(super) fn of(reached: &Comparison) -> Self {
        const CERTAINLY_BELOW: f64 = 1.0 - 4.0 * f64::EPSILON;
        let relative = reached.max_relative.map_or(0.0, |largest| largest.value);
        Self { relative: relative * CERTAINLY_BELOW, ratio: reached.ratio * CERTAINLY_BELOW }
    }
}

pub(super) struct Measured {
    pub(super) absolute: f64,
    pub(super) excess: f64,
    /// Whether a quotient may exceed the largest so far.
    pub(super) reaches_bar: bool,
}

impl<T: Element> Kernel for Measure<'_, T> {
    type Out = Measured;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Measured {
        let Self { tolerances: Close { atol, rtol }, bars, .. } = self;
        let (mut absolutes, mut excesses) = ([0.0_f64; LANES], [0.0_f64; LANES]);
        let mut reaches = [false; LANES];
        for (actual, expected) in self.actual.chunks(LANES).zip(self.expected.chunks(LANES)) {
            for (lane, (&a, &e)) in actual.iter().zip(expected).enumerate() {
                let (a, e) = (T::bits(a), T::bits(e));
                let (absolute, magnitude) = (T::difference(a, e), T::absolute(e));
                let (excess, above) = (excess(absolute, rtol, magnitude), absolute - atol);
                absolutes[lane] = if absolute > absolutes[lane] { absolute } else { absolutes[lane] };
                excesses[lane] = if excess > excesses[lane] { excess } else { excesses[lane] };
                // At least, not above: products of subnormal numbers are rounded to the same numbers as differences.
                let is_relative = absolute > 0.0 && absolute >= bars.relative * magnitude;
                let is_ratio = above > 0.0 && above >= bars.ratio * magnitude;
                reaches[lane] |= is_relative | is_ratio;
            }
        }
        Measured {
            absolute: absolutes.into_iter().fold(0.0, f64::max),
            excess: excesses.into_iter().fold(0.0, f64::max),
            reaches_bar: reaches.into_iter().any(|reaches| reaches),
        }
    }
}

/// Adds the distances that are not zero to the buckets of a histogram, and returns their number.
pub(super) fn add_to_histogram<W: Word>(distances: &[W], max: W, histogram: &mut [u64]) -> u64 {
    let buckets = max.bit_length();
    if buckets > MAX_PASSES {
        return count_each(distances, histogram);
    }
    let mut differing = 0;
    let mut above = 0;
    for bucket in (1..=buckets).rev() {
        let least = W::power_of_two(bucket - 1);
        differing = distances.iter().filter(|distance| **distance >= least).count() as u64;
        histogram[bucket as usize] += differing - above;
        above = differing;
    }
    differing
}

fn count_each<W: Word>(distances: &[W], histogram: &mut [u64]) -> u64 {
    // Consecutive pairs are often of one bucket: two tables, so that additions need not wait for each other.
    let mut tables = [[0_u32; 65]; 2];
    for pair in distances.chunks(2) {
        for (table, distance) in tables.iter_mut().zip(pair) {
            table[distance.bit_length() as usize] += 1;
        }
    }
    let mut differing = 0;
    for bucket in 1..65 {
        let count = u64::from(tables[0][bucket]) + u64::from(tables[1][bucket]);
        histogram[bucket] += count;
        differing += count;
    }
    differing
}
