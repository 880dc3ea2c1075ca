//! Results of a comparison.

use std::cmp::Ordering;

/// Buckets of [`Comparison::histogram`].
pub const BUCKETS: usize = 65;

/// A quotient of two f64, each with two rounding errors, is enlarged by this factor so that its product with the divisor is not
/// below the dividend.
pub(super) const ROUND_UP: f64 = 1.0 + 4.0 * f64::EPSILON;

/// Numbers of pairs by class. A pair is of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Equal bits, and not NaN.
    pub equal: u64,
    /// -0 and +0.
    pub zero_sign: u64,
    /// Finite numbers that differ, and pass.
    pub within_tolerance: u64,
    /// Finite numbers that differ, and fail.
    pub mismatch: u64,
    /// Both are NaN, and pass.
    pub nan_equal: u64,
    /// At least one is NaN, and they fail.
    pub nan_mismatch: u64,
    /// At least one is infinite and none is NaN, and they fail.
    pub infinity_mismatch: u64,
}

/// Class of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Equal bits, and not NaN.
    Equal,
    /// -0 and +0.
    ZeroSign,
    /// Finite numbers that differ, and pass.
    WithinTolerance,
    /// Finite numbers that differ, and fail.
    Mismatch,
    /// Both are NaN, and pass.
    NanEqual,
    /// At least one is NaN, and they fail.
    NanMismatch,
    /// At least one is infinite and none is NaN, and they fail.
    InfinityMismatch,
}

/// The largest of some numbers, and the first place of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Largest<T> {
    /// The number.
    pub value: T,
    /// Index of the pair, in row-major order.
    pub index: u64,
}

/// A pair that fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    /// Index of the pair, in row-major order.
    pub index: u64,
    /// Its class.
    pub class: Class,
    /// Bits of the actual element.
    pub actual: u64,
    /// Bits of the expected element.
    pub expected: u64,
    /// Its errors, if both are finite.
    pub errors: Option<PairErrors>,
}

/// The errors of a pair of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairErrors {
    /// `|actual - expected|`.
    pub absolute: f64,
    /// `|actual - expected| / |expected|`; infinite if only the expected number is zero.
    pub relative: f64,
    /// Units in the last place between them.
    pub ulps: u64,
}

/// The differences between two tensors.
///
/// Errors are those of the pairs of finite numbers that differ. They are computed in f64, where each operation rounds once; the
/// difference of two integers is exact before it is rounded. Backends have equal bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Numbers of pairs by class.
    pub counts: Counts,
    /// Pairs that fail.
    pub failed: u64,
    /// Largest absolute error.
    pub max_absolute: Option<Largest<f64>>,
    /// Largest relative error.
    pub max_relative: Option<Largest<f64>>,
    /// Largest distance in units in the last place.
    pub max_ulps: Option<Largest<u64>>,
    /// Numbers of pairs by distance in units in the last place: bucket 0 has the equal ones, and bucket `n` those of 2^(n-1) up to
    /// 2^n - 1. Pairs with a NaN and unequal infinities are in none.
    pub histogram: [u64; BUCKETS],
    /// The largest `|actual - expected| - rtol * |expected|`, with the policy's `rtol`, and at least 0: the smallest `atol` that
    /// accepts all finite numbers.
    pub excess: f64,
    /// The largest `(|actual - expected| - atol) / |expected|`, with the policy's `atol`, and at least 0.
    pub ratio: f64,
    /// The largest absolute value of the finite expected numbers.
    pub norm: f64,
    /// The first pairs that fail, in order, up to the number asked for.
    pub mismatches: Vec<Mismatch>,
    /// The rows in which a pair fails, if they were asked for: bit `n % 8` of byte `n / 8` is row `n`. [`Self::append`] leaves them out.
    pub failed_rows: Vec<u8>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            failed: 0,
            max_absolute: None,
            max_relative: None,
            max_ulps: None,
            histogram: [0; BUCKETS],
            excess: 0.0,
            ratio: 0.0,
            norm: 0.0,
            mismatches: vec![],
            failed_rows: vec![],
        }
    }
}

impl Comparison {
    /// Returns true if all pairs pass.
    pub fn is_equal(&self) -> bool {
        self.failed == 0
    }

    /// The smallest `rtol` that accepts all finite numbers with the policy's `atol`, up to a rounding error; infinite if there is none.
    pub fn min_rtol(&self) -> f64 {
        self.ratio * ROUND_UP
    }

    /// The smallest multiple of the largest expected number that bounds all absolute errors, up to a rounding error.
    pub fn min_max_norm(&self) -> f64 {
        match self.max_absolute {
            None => 0.0,
            Some(_) if self.norm == 0.0 => f64::INFINITY,
            // A subnormal quotient may have lost more than ROUND_UP adds.
            Some(largest) => (largest.value / self.norm * ROUND_UP).next_up(),
        }
    }

    /// Adds the pairs that follow, the first of which has index `start`. Keeps at most `limit` mismatches.
    pub fn append(&mut self, next: Self, start: u64, limit: usize) {
        let counts = &mut self.counts;
        let more = next.counts;
        counts.equal += more.equal;
        counts.zero_sign += more.zero_sign;
        counts.within_tolerance += more.within_tolerance;
        counts.mismatch += more.mismatch;
        counts.nan_equal += more.nan_equal;
        counts.nan_mismatch += more.nan_mismatch;
        counts.infinity_mismatch += more.infinity_mismatch;
        self.failed += next.failed;
        raise(&mut self.max_absolute, next.max_absolute, start);
        raise(&mut self.max_relative, next.max_relative, start);
        raise(&mut self.max_ulps, next.max_ulps, start);
        for (bucket, more) in self.histogram.iter_mut().zip(next.histogram) {
            *bucket += more;
        }
        self.excess = self.excess.max(next.excess);
        self.ratio = self.ratio.max(next.ratio);
        self.norm = self.norm.max(next.norm);
        let room = limit.saturating_sub(self.mismatches.len());
        let moved = next.mismatches.into_iter().take(room);
        self.mismatches.extend(moved.map(|mismatch| Mismatch { index: mismatch.index + start, ..mismatch }));
    }

    /// Adds pairs that pass, wherever they are: `nans` of two NaN, and `equal` of equal bits. `norm` is the largest absolute value of
    /// finite ones.
    pub fn add_equal(&mut self, equal: u64, nans: u64, norm: f64) {
        self.counts.equal += equal;
        self.counts.nan_equal += nans;
        self.histogram[0] += equal;
        self.norm = self.norm.max(norm);
    }

    /// Replaces the indices of pairs.
    #[must_use]
    pub fn with_indices(mut self, index_of: impl Fn(u64) -> u64) -> Self {
        for index in self.mismatches.iter_mut().map(|mismatch| &mut mismatch.index) {
            *index = index_of(*index);
        }
        let errors =
            [&mut self.max_absolute, &mut self.max_relative].into_iter().flatten().map(|largest| &mut largest.index);
        for index in errors.chain(self.max_ulps.iter_mut().map(|largest| &mut largest.index)) {
            *index = index_of(*index);
        }
        self
    }

    /// Counts a pair.
    pub(super) fn count(&mut self, class: Class) {
        let counts = &mut self.counts;
        *match class {
            Class::Equal => &mut counts.equal,
            Class::ZeroSign => &mut counts.zero_sign,
            Class::WithinTolerance => &mut counts.within_tolerance,
            Class::Mismatch => &mut counts.mismatch,
            Class::NanEqual => &mut counts.nan_equal,
            Class::NanMismatch => &mut counts.nan_mismatch,
            Class::InfinityMismatch => &mut counts.infinity_mismatch,
        } += 1;
    }
}

/// Replaces a maximum by a larger one of later pairs, whose indices are moved by `start`.
pub(super) fn raise<T: PartialOrd + Copy>(largest: &mut Option<Largest<T>>, with: Option<Largest<T>>, start: u64) {
    let Some(Largest { value, index }) = with else { return };
    let is_larger = largest.is_none_or(|before| value.partial_cmp(&before.value) == Some(Ordering::Greater));
    if is_larger {
        *largest = Some(Largest { value, index: index + start });
    }
}
