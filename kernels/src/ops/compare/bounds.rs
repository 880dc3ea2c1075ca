//! Bounds of errors, which are cheaper to compare with than errors are to compute.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::{
    block::Block,
    comparison::Comparison,
    element::Element,
    policy::Close,
    scaled::{SCALE, Scaled},
};
use crate::cpu::simd::{Lanes, WithSimd};

/// Bounds of the difference of a pair: a number, and linear functions of the expected number. All are finite.
#[derive(Clone, Copy)]
pub(super) struct Bounds<F> {
    absolute: F,
    relative: F,
    excess: Line<F>,
    ratio: Line<F>,
}

#[derive(Clone, Copy)]
struct Line<F> {
    slope: F,
    at_zero: F,
}

impl<F: Scaled> Bounds<F> {
    /// A pair within these bounds has no error above those that were reached.
    pub(super) fn of(reached: &Comparison, tolerances: Close) -> Self {
        let [absolute, relative] =
            [reached.max_absolute, reached.max_relative].map(|largest| largest.map_or(0.0, |largest| largest.value));
        let scaled = |number: f64| number * f64::from(SCALE);
        let Close { atol, rtol } = tolerances;
        Self {
            // Equal differences are common, and are no larger ones.
            absolute: F::at_most(scaled(absolute)),
            relative: F::below(relative.min(F::EXACT)),
            excess: Line { slope: F::below(rtol), at_zero: F::below(scaled(reached.excess)) },
            ratio: Line { slope: F::below(reached.ratio), at_zero: F::below(scaled(atol)) },
        }
    }
}

impl<F: Scaled> Line<F> {
    #[inline(always)]
    fn at(self, x: F) -> F {
        self.slope * x + self.at_zero
    }
}

/// Marks the pairs of finite numbers that exceed bounds. Pairs that differ little from the bounds may be marked, too.
pub(super) struct Exceed<'a, T: Element> {
    pub(super) block: Block<'a, T>,
    pub(super) bounds: Bounds<T::Scaled>,
    pub(super) marks: &'a mut [bool],
}

impl<T: Element> WithSimd for Exceed<'_, T> {
    /// The number of marks.
    type Out = u32;

    #[inline(always)]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "the difference of two numbers that overflow may be NaN")]
    fn run<L: Lanes>(self, _lanes: L) -> u32 {
        let Self { block, bounds: Bounds { absolute, relative, excess, ratio }, marks } = self;
        let smaller = |a: T::Scaled, b: T::Scaled| if a < b { a } else { b };
        let mut count = 0;
        for (mark, (a, e)) in marks.iter_mut().zip(block.pairs()) {
            let magnitude = T::scaled(e);
            let bound =
                smaller(smaller(absolute, relative * magnitude), smaller(excess.at(magnitude), ratio.at(magnitude)));
            *mark = !(T::scaled_difference(a, e) <= bound);
            count += u32::from(*mark);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{
        cpu::simd::Isa,
        ops::compare::{
            element::{Bf16, F16, F32, F64},
            judge::Judge,
            policy::{Policy, Rules},
        },
    };

    const CASES: usize = 50_000;

    /// The bits of a finite number at most three numbers away, or of its double.
    fn near(bits: u64, one: u64, exponent: u64, random: &mut StdRng) -> u64 {
        let infinity = exponent * (2 * (one / exponent) + 1);
        let moved = bits.saturating_add_signed(random.random_range(-3..=3));
        let doubled = if random.random_ratio(1, 4) { moved + exponent } else { moved };
        doubled.min(infinity - 1)
    }

    /// Compares a pair with the bounds that a pair near it has set. `one` is the bits of 1, and `exponent` those of an exponent's unit.
    fn check<T: Element>(one: u64, exponent: u64) {
        let mut random = StdRng::seed_from_u64(one);
        let mut within = 0;
        for _ in 0..CASES {
            let expected =
                if random.random_ratio(1, 4) { random.random_range(0..20) } else { random.random_range(0..2 * one) };
            // Differences of numbers that are far apart are rounded.
            let far = if random.random_ratio(1, 4) { random.random_range(0..30 * exponent) } else { 0 };
            let actual = near((expected + far).min(2 * one), one, exponent, &mut random);
            let next = (near(actual, one, exponent, &mut random), near(expected, one, exponent, &mut random));
            let bytes = [actual, expected, next.0, next.1].map(u64::to_le_bytes);
            let [actual, expected, next_actual, next_expected] =
                [0, 1, 2, 3].map(|index| &bytes[index][..size_of::<T::Raw>()]);
            let block = |actual, expected| Block::<T> { actual: T::raw(actual), expected: T::raw(expected), start: 0 };
            let (block, next) = (block(actual, expected), block(next_actual, next_expected));
            let (a, e) = block.pair(0);
            let difference = T::difference(a, e);
            let magnitude = T::absolute(e);
            let atol = difference * [0.0, 0.5, random.random_range(0.9..1.1)][random.random_range(0..3)];
            let rtol = if magnitude > 0.0 { difference / magnitude * random.random_range(0.0..1.1) } else { 0.0 };
            let tolerances = Close { atol, rtol: rtol.min(1.0) };
            let rules = Rules { close: Some(tolerances), ..Rules::default() };
            let judge = Judge { policy: Policy { rules, ..Policy::exact() }, norm_bound: 0.0, max_mismatches: 0 };
            let mut reached = Comparison::default();
            judge.judge(block, &mut reached, None);
            let bounds = Bounds::of(&reached, tolerances);
            let marks: Vec<_> = Isa::all()
                .into_iter()
                .map(|isa| isa.run(Exceed { block: next, bounds, marks: &mut [false] }))
                .collect();
            assert!(marks.iter().all(|count| *count == marks[0]), "instruction sets agree");
            if marks[0] == 0 {
                within += 1;
                let largest = |of: &Comparison| {
                    let [absolute, relative] =
                        [of.max_absolute, of.max_relative].map(|largest| largest.map_or(0.0, |largest| largest.value));
                    [absolute, relative, of.excess, of.ratio].map(f64::to_bits)
                };
                let before = largest(&reached);
                judge.judge(next, &mut reached, None);
                assert_eq!(largest(&reached), before, "{bytes:?} {tolerances:?}");
            }
        }
        assert!(within > CASES / 10, "{within} pairs are within bounds");
    }

    #[test]
    fn a_pair_within_the_bounds_has_no_larger_error() {
        check::<F16>(0x3c00, 1 << 10);
        check::<Bf16>(0x3f80, 1 << 7);
        check::<F32>(0x3f80_0000, 1 << 23);
        check::<F64>(0x3ff0 << 48, 1 << 52);
    }
}
