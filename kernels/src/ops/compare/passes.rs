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

/// Partial results of a scan.
struct ScanLanes<W> {
    differing: [W; LANES],
    unlike_zeros: [W; LANES],
    distance: [W; LANES],
    actual: [W; LANES],
    expected: [W; LANES],
}

impl<W: Word> ScanLanes<W> {
    #[inline(always)]
    fn add<T: Element<Word = W>>(&mut self, lane: usize, actual: T::Raw, expected: T::Raw) -> W {
        let (a, e) = (T::bits(actual), T::bits(expected));
        let (unlike, apart) = (a ^ e, T::distance(a, e));
        let unlike_zeros = if apart == W::default() { unlike } else { W::default() };
        self.differing[lane] = self.differing[lane] | unlike;
        self.unlike_zeros[lane] = self.unlike_zeros[lane] | unlike_zeros;
        self.distance[lane] = self.distance[lane].max(apart);
        self.actual[lane] = self.actual[lane].max(T::magnitude(a));
        self.expected[lane] = self.expected[lane].max(T::magnitude(e));
        apart
    }
}

impl<T: Element> Kernel for Scan<'_, T> {
    type Out = Scanned<T::Word>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Scanned<T::Word> {
        let zeros = [T::Word::default(); LANES];
        let mut lanes =
            ScanLanes { differing: zeros, unlike_zeros: zeros, distance: zeros, actual: zeros, expected: zeros };
        let (actual, actual_rest) = self.actual.as_chunks::<LANES>();
        let (expected, expected_rest) = self.expected.as_chunks::<LANES>();
        let (distances, distances_rest) = self.distances.as_chunks_mut::<LANES>();
        for ((actual, expected), distances) in actual.iter().zip(expected).zip(distances) {
            for lane in 0..LANES {
                distances[lane] = lanes.add::<T>(lane, actual[lane], expected[lane]);
            }
        }
        for (distance, (actual, expected)) in distances_rest.iter_mut().zip(actual_rest.iter().zip(expected_rest)) {
            *distance = lanes.add::<T>(0, *actual, *expected);
        }
        let any = |lanes: [T::Word; LANES]| lanes.into_iter().any(|lane| lane != T::Word::default());
        let largest = |lanes: [T::Word; LANES]| lanes.into_iter().max().unwrap_or_default();
        let largest_expected = largest(lanes.expected);
        Scanned {
            has_special: largest_expected.max(largest(lanes.actual)) > T::MAX_FINITE,
            has_zero_sign: any(lanes.unlike_zeros),
            differs: any(lanes.differing),
            max_distance: largest(lanes.distance),
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
        let finite = |element: T::Raw| {
            let magnitude = T::magnitude(T::bits(element));
            if magnitude > T::MAX_FINITE { T::Word::default() } else { magnitude }
        };
        let mut largest = [T::Word::default(); LANES];
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                largest[lane] = largest[lane].max(finite(chunk[lane]));
            }
        }
        rest.iter().map(|element| finite(*element)).chain(largest).max().unwrap_or_default()
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

/// Partial results of a measurement.
struct MeasureLanes {
    absolute: [f64; LANES],
    excess: [f64; LANES],
    reaches_bar: [u64; LANES],
}

impl<T: Element> Measure<'_, T> {
    #[inline(always)]
    fn add(&self, to: &mut MeasureLanes, lane: usize, actual: T::Raw, expected: T::Raw) {
        let Self { tolerances: Close { atol, rtol }, bars, .. } = self;
        let (a, e) = (T::bits(actual), T::bits(expected));
        let (absolute, magnitude) = (T::difference(a, e), T::absolute(e));
        let (excess, above) = (excess(absolute, *rtol, magnitude), absolute - atol);
        to.absolute[lane] = if absolute > to.absolute[lane] { absolute } else { to.absolute[lane] };
        to.excess[lane] = if excess > to.excess[lane] { excess } else { to.excess[lane] };
        // At least, not above: products of subnormal numbers are rounded to the same numbers as differences.
        let reaches = |number: f64, bar: f64| u64::from(number > 0.0) & u64::from(number >= bar * magnitude);
        to.reaches_bar[lane] |= reaches(absolute, bars.relative) | reaches(above, bars.ratio);
    }
}

impl<T: Element> Kernel for Measure<'_, T> {
    type Out = Measured;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Measured {
        let mut lanes = MeasureLanes { absolute: [0.0; LANES], excess: [0.0; LANES], reaches_bar: [0; LANES] };
        let (actual, actual_rest) = self.actual.as_chunks::<LANES>();
        let (expected, expected_rest) = self.expected.as_chunks::<LANES>();
        for (actual, expected) in actual.iter().zip(expected) {
            for lane in 0..LANES {
                self.add(&mut lanes, lane, actual[lane], expected[lane]);
            }
        }
        for (actual, expected) in actual_rest.iter().zip(expected_rest) {
            self.add(&mut lanes, 0, *actual, *expected);
        }
        Measured {
            absolute: lanes.absolute.into_iter().fold(0.0, f64::max),
            excess: lanes.excess.into_iter().fold(0.0, f64::max),
            reaches_bar: lanes.reaches_bar.into_iter().any(|reaches| reaches > 0),
        }
    }
}

/// Adds the distances that are not zero to the buckets of a histogram, and returns their number.
pub(super) struct Histogram<'a, W> {
    pub(super) distances: &'a [W],
    /// The largest of them.
    pub(super) max: W,
    pub(super) buckets: &'a mut [u64],
}

impl<W: Word> Kernel for Histogram<'_, W> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> u64 {
        let highest = self.max.bit_length();
        if highest > MAX_PASSES {
            return count_each(self.distances, self.buckets);
        }
        let mut above = 0;
        for bucket in (1..=highest).rev() {
            let least = W::power_of_two(bucket - 1);
            let reached: u32 = self.distances.iter().map(|distance| u32::from(*distance >= least)).sum();
            self.buckets[bucket as usize] += u64::from(reached - above);
            above = reached;
        }
        u64::from(above)
    }
}

#[inline(always)]
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
