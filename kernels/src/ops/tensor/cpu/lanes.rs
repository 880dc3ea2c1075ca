//! Reductions of a block: partial results in lanes, which the compiler vectorises, then a fixed tree of the lanes. The order depends
//! on the number of elements alone, and instruction sets have equal bits.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::number::{Number, Real};
use crate::cpu::simd::{Isa, Lanes, WithSimd};

const LANES: usize = 32;
/// Values that are searched at a time.
const SEARCHED: usize = 128;

/// `combine` of all values; `identity` if there are none.
pub(super) fn fold<T: Number>(values: &[T], identity: T, combine: impl Fn(T, T) -> T) -> T {
    Isa::best().run(Fold { values, identity, term: |x| x, combine })
}

/// The greatest value, or the least; `identity` if there are none. As folds of [`Number::maximum`] and [`Number::minimum`].
pub(super) fn extreme<T: Number>(values: &[T], is_max: bool, identity: T) -> T {
    // The first value that no other exceeds, or a NaN: which zero it is depends on the order.
    let maxima = if is_max {
        fold(values, identity, |a, b| if a.is_nan() || a > b { a } else { b })
    } else {
        fold(values, identity, |a, b| if a.is_nan() || a < b { a } else { b })
    };
    match (T::HAS_SIGNED_ZEROS && maxima == T::ZERO, is_max) {
        (false, _) => maxima,
        (true, true) => fold(values, identity, T::maximum),
        (true, false) => fold(values, identity, T::minimum),
    }
}

/// The position of the first value that equals `value`, which may be NaN.
pub(super) fn position<T: Number>(values: &[T], value: T) -> Option<usize> {
    Isa::best().run(Position { values, of: value })
}

struct Position<'a, T> {
    values: &'a [T],
    of: T,
}

impl<T: Number> WithSimd for Position<'_, T> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Option<usize> {
        if self.of.is_nan() { first(self.values, |x| x.is_nan()) } else { first(self.values, |x| *x == self.of) }
    }
}

/// The position of the first value that a condition holds for.
#[inline(always)]
fn first<T>(values: &[T], holds: impl Fn(&T) -> bool) -> Option<usize> {
    // Without a branch for each value the loop is vectorised.
    let has_any = |chunk: &[T]| chunk.iter().fold(0, |any, x| any | u32::from(holds(x))) != 0;
    let (chunks, _) = values.as_chunks::<SEARCHED>();
    let start = SEARCHED * chunks.iter().position(|chunk| has_any(chunk)).unwrap_or(chunks.len());
    values[start..].iter().position(holds).map(|index| start + index)
}

/// The sum of a function of the values, in f64.
pub(super) fn sum_of<T: Real>(values: &[T], term: impl Fn(f64) -> f64) -> f64 {
    Isa::best().run(Fold { values, identity: 0.0, term: |x: T| term(x.to_f64()), combine: |a: f64, b: f64| a + b })
}

struct Fold<'a, T, S, F, C> {
    values: &'a [T],
    identity: S,
    term: F,
    combine: C,
}

impl<T: Copy, S: Copy, F: Fn(T) -> S, C: Fn(S, S) -> S> WithSimd for Fold<'_, T, S, F, C> {
    type Out = S;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> S {
        let mut lanes = [self.identity; LANES];
        let (chunks, rest) = self.values.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = (self.combine)(*lane, (self.term)(*x));
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane = (self.combine)(*lane, (self.term)(*x));
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                lanes[lane] = (self.combine)(lanes[lane], lanes[lane + width]);
            }
        }
        lanes[0]
    }
}

/// `to = combine(to, from)` for each element.
pub(super) fn accumulate<T: Number>(to: &mut [T], from: &[T], combine: impl Fn(T, T) -> T) {
    Isa::best().run(Accumulate { to, from, combine });
}

struct Accumulate<'a, T, C> {
    to: &'a mut [T],
    from: &'a [T],
    combine: C,
}

impl<T: Copy, C: Fn(T, T) -> T> WithSimd for Accumulate<'_, T, C> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = (self.combine)(*to, *from);
        }
    }
}

/// `x = f(x)` for each element, by way of f64.
pub(super) fn update<T: Real>(values: &mut [T], f: impl Fn(usize, f64) -> f64) {
    Isa::best().run(Update { values, f });
}

struct Update<'a, T, F> {
    values: &'a mut [T],
    f: F,
}

impl<T: Real, F: Fn(usize, f64) -> f64> WithSimd for Update<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (nth, x) in self.values.iter_mut().enumerate() {
            *x = T::from_f64((self.f)(nth, x.to_f64()));
        }
    }
}
