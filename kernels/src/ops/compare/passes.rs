//! Vectorised passes over blocks of pairs.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::{
    block::Block,
    element::{Element, Word},
    policy::{Close, Combination, Rules, excess},
};
use crate::cpu::simd::{Lanes, WithSimd};

/// With longer distances, counting them one by one is faster than a pass for each bucket.
const MAX_PASSES: u32 = 6;

/// Finds what differs in a block, and writes the distance of each pair.
pub(super) struct Scan<'a, T: Element> {
    pub(super) block: Block<'a, T>,
    pub(super) distances: &'a mut [T::Word],
}

pub(super) struct Scanned<W> {
    /// True if a NaN or an infinity is among the elements.
    pub(super) has_special: bool,
    /// True if a pair is -0 and +0.
    pub(super) has_zero_sign: bool,
    /// True if bits differ.
    pub(super) differs: bool,
    pub(super) max_distance: W,
    /// The largest magnitude of the expected elements.
    pub(super) largest_expected: W,
}

impl<T: Element> WithSimd for Scan<'_, T> {
    type Out = Scanned<T::Word>;

    // The compiler keeps partial results of integers in vector registers. It writes those in arrays to memory in each round.
    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Scanned<T::Word> {
        let zero = T::Word::default();
        let mut differing = zero;
        let mut unlike_zeros = zero;
        let mut max_distance = zero;
        let mut largest_actual = zero;
        let mut largest_expected = zero;
        for (distance, (a, e)) in self.distances.iter_mut().zip(self.block.pairs()) {
            let unlike = a ^ e;
            let apart = T::distance(a, e);
            *distance = apart;
            differing = differing | unlike;
            unlike_zeros = unlike_zeros | if apart == zero { unlike } else { zero };
            max_distance = max_distance.max(apart);
            largest_actual = largest_actual.max(T::magnitude(a));
            largest_expected = largest_expected.max(T::magnitude(e));
        }
        Scanned {
            has_special: largest_expected.max(largest_actual) > T::MAX_FINITE,
            has_zero_sign: unlike_zeros != zero,
            differs: differing != zero,
            max_distance,
            largest_expected,
        }
    }
}

/// The largest magnitude of the finite elements.
pub(super) struct Largest<'a, T: Element>(pub(super) &'a [T::Raw]);

impl<T: Element> WithSimd for Largest<'_, T> {
    type Out = T::Word;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> T::Word {
        let finite = |element: &T::Raw| {
            let magnitude = T::magnitude(T::bits(*element));
            if magnitude > T::MAX_FINITE { T::Word::default() } else { magnitude }
        };
        self.0.iter().map(finite).fold(T::Word::default(), T::Word::max)
    }
}

/// Finds the largest errors of pairs of finite numbers.
pub(super) struct Measure<'a, T: Element> {
    pub(super) block: Block<'a, T>,
    pub(super) tolerances: Close,
}

/// The largest errors, as in [`Comparison`](super::comparison::Comparison).
pub(super) struct Measured {
    pub(super) absolute: f64,
    pub(super) relative: f64,
    pub(super) excess: f64,
    pub(super) ratio: f64,
}

impl<T: Element> WithSimd for Measure<'_, T> {
    type Out = Measured;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Measured {
        let Close { atol, rtol } = self.tolerances;
        // Positive numbers are ordered as their bits are. 0 / 0, of equal pairs, is no error.
        let bits = |error: f64| if error > 0.0 { error.to_bits() } else { 0 };
        let mut absolute = 0;
        let mut relative = 0;
        let mut largest_excess = 0;
        let mut ratio = 0;
        for (a, e) in self.block.pairs() {
            let difference = T::difference(a, e);
            let magnitude = T::absolute(e);
            absolute = bits(difference).max(absolute);
            relative = bits(difference / magnitude).max(relative);
            largest_excess = bits(excess(difference, rtol, magnitude)).max(largest_excess);
            ratio = bits((difference - atol) / magnitude).max(ratio);
        }
        let [absolute, relative, excess, ratio] = [absolute, relative, largest_excess, ratio].map(f64::from_bits);
        Measured { absolute, relative, excess, ratio }
    }
}

/// Marks the pairs of finite numbers that fail.
pub(super) struct Fail<'a, T: Element> {
    pub(super) block: Block<'a, T>,
    pub(super) distances: &'a [T::Word],
    pub(super) rules: Rules,
    pub(super) norm_bound: f64,
    pub(super) marks: &'a mut [bool],
}

impl<T: Element> WithSimd for Fail<'_, T> {
    /// The number of marks.
    type Out = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> u32 {
        let Self { block, distances, rules, norm_bound, marks } = self;
        let rtol = rules.tolerances().rtol;
        let has_rules = rules.close.is_some() || rules.max_ulps.is_some() || rules.max_norm.is_some();
        let all = rules.combination == Combination::All && has_rules;
        // A rule that is not set passes every pair if all rules must hold, and else none that differs.
        let (unset, unset_ulps) = if all { (f64::INFINITY, u64::MAX) } else { (f64::NEG_INFINITY, 0) };
        let max_excess = rules.close.map_or(unset, |close| close.atol);
        let max_absolute = rules.max_norm.map_or(unset, |_| norm_bound);
        let max_ulps = rules.max_ulps.unwrap_or(unset_ulps);
        let mut count = 0;
        for ((mark, distance), (a, e)) in marks.iter_mut().zip(distances).zip(block.pairs()) {
            let (absolute, ulps): (f64, u64) = (T::difference(a, e), (*distance).into());
            let is_close = excess(absolute, rtol, T::absolute(e)) <= max_excess;
            let is_near = ulps <= max_ulps;
            let is_within = absolute <= max_absolute;
            let passes = if all { is_close & is_near & is_within } else { is_close | is_near | is_within };
            *mark = ulps != 0 && !passes;
            count += u32::from(*mark);
        }
        count
    }
}

/// Adds the distances that are not zero to the buckets of a histogram, and returns their number.
pub(super) struct Histogram<'a, W> {
    pub(super) distances: &'a [W],
    /// The largest of them.
    pub(super) max: W,
    pub(super) buckets: &'a mut [u64],
}

impl<W: Word> WithSimd for Histogram<'_, W> {
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
