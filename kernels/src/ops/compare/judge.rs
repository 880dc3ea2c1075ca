//! Judges pairs of elements one by one, by the definition of the policy.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{
    block::Block,
    comparison::{Class, Comparison, Largest, Mismatch, PairErrors, raise},
    element::{Element, Word},
    policy::{Errors, InfinityPolicy, NanPolicy, Policy, excess},
};

/// A policy with the figures that it takes from the tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    pub(super) policy: Policy,
    /// The bound of the absolute error by [`Rules::max_norm`](super::policy::Rules::max_norm).
    pub(super) norm_bound: f64,
    /// The most mismatches to list.
    pub(super) max_mismatches: usize,
}

/// Marks the rows in which a pair fails.
#[derive(Debug)]
pub(super) struct Rows {
    failed: Vec<AtomicU8>,
    row_elements: u64,
}

impl Rows {
    pub(super) fn new(rows: usize, row_elements: usize) -> Self {
        let failed = (0..rows.div_ceil(8)).map(|_| AtomicU8::new(0)).collect();
        Self { failed, row_elements: row_elements as u64 }
    }

    fn mark(&self, index: u64) {
        let row = index / self.row_elements;
        let byte = usize::try_from(row / 8).expect("a row of a tensor in memory");
        self.failed[byte].fetch_or(1 << (row % 8), Relaxed);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.failed.into_iter().map(AtomicU8::into_inner).collect()
    }
}

/// A pair of finite numbers that differ.
#[derive(Clone, Copy)]
struct Measured {
    errors: PairErrors,
    excess: f64,
    /// `(|actual - expected| - atol) / |expected|`.
    ratio: f64,
}

impl Judge {
    /// Judges the pairs of a block, adding them to the result and marking rows.
    pub(super) fn judge<T: Element>(&self, block: Block<'_, T>, to: &mut Comparison, rows: Option<&Rows>) {
        for (position, (actual, expected)) in block.pairs().enumerate() {
            let index = block.index(position);
            if !T::is_special(expected) {
                to.norm = to.norm.max(T::absolute(expected));
            }
            let (class, measured) = self.classify::<T>(actual, expected);
            to.count(class);
            let ulps = measured.map_or(0, |measured| measured.errors.ulps);
            if measured.is_some() || matches!(class, Class::Equal | Class::ZeroSign) {
                to.histogram[ulps.bit_length() as usize] += 1;
            }
            if let Some(measured) = measured {
                measured.raise(to, index);
            }
            if self.fails(class) {
                to.failed += 1;
                if let Some(rows) = rows {
                    rows.mark(index);
                }
                if to.mismatches.len() < self.max_mismatches {
                    let errors = measured.map(|measured| measured.errors);
                    let actual = actual.into();
                    let expected = expected.into();
                    to.mismatches.push(Mismatch { index, class, actual, expected, errors });
                }
            }
        }
    }

    /// Raises the largest errors by those of some pairs of finite numbers.
    pub(super) fn raise<T: Element>(
        &self,
        block: Block<'_, T>,
        positions: impl Iterator<Item = usize>,
        to: &mut Comparison,
    ) {
        for index in positions {
            let (actual, expected) = block.pair(index);
            if T::distance(actual, expected) > T::Word::default() {
                self.errors::<T>(actual, expected).raise(to, block.index(index));
            }
        }
    }

    /// Lists pairs of finite numbers that fail, and marks their rows.
    pub(super) fn list<T: Element>(
        &self,
        block: Block<'_, T>,
        positions: impl Iterator<Item = usize>,
        to: &mut Comparison,
        rows: Option<&Rows>,
    ) {
        for position in positions {
            let index = block.index(position);
            if let Some(rows) = rows {
                rows.mark(index);
            }
            if to.mismatches.len() < self.max_mismatches {
                let (actual, expected) = block.pair(position);
                let errors = Some(self.errors::<T>(actual, expected).errors);
                let actual = actual.into();
                let expected = expected.into();
                to.mismatches.push(Mismatch { index, class: Class::Mismatch, actual, expected, errors });
            } else if rows.is_none() {
                return;
            }
        }
    }

    fn fails(&self, class: Class) -> bool {
        match class {
            Class::Equal | Class::WithinTolerance | Class::NanEqual => false,
            Class::ZeroSign => self.policy.distinguish_zero_sign,
            Class::Mismatch | Class::NanMismatch | Class::InfinityMismatch => true,
        }
    }

    fn classify<T: Element>(&self, actual: T::Word, expected: T::Word) -> (Class, Option<Measured>) {
        if T::is_special(actual) || T::is_special(expected) {
            return (self.classify_special::<T>(actual, expected), None);
        }
        if actual == expected {
            return (Class::Equal, None);
        }
        if T::distance(actual, expected) == T::Word::default() {
            return (Class::ZeroSign, None);
        }
        let measured = self.errors::<T>(actual, expected);
        let PairErrors { absolute, ulps, .. } = measured.errors;
        let errors = Errors { absolute, excess: measured.excess, ulps };
        let passes = self.policy.rules.accept(errors, self.norm_bound);
        (if passes { Class::WithinTolerance } else { Class::Mismatch }, Some(measured))
    }

    fn classify_special<T: Element>(&self, actual: T::Word, expected: T::Word) -> Class {
        if T::is_nan(actual) || T::is_nan(expected) {
            let passes = match self.policy.nan {
                NanPolicy::Forbidden => false,
                NanPolicy::Equal => T::is_nan(actual) && T::is_nan(expected),
                NanPolicy::SameBits => actual == expected,
            };
            return if passes { Class::NanEqual } else { Class::NanMismatch };
        }
        let passes = actual == expected && self.policy.infinity == InfinityPolicy::Equal;
        if passes { Class::Equal } else { Class::InfinityMismatch }
    }

    fn errors<T: Element>(&self, actual: T::Word, expected: T::Word) -> Measured {
        let (absolute, magnitude) = (T::difference(actual, expected), T::absolute(expected));
        let tolerances = self.policy.rules.tolerances();
        let ulps = T::distance(actual, expected).into();
        Measured {
            errors: PairErrors { absolute, relative: absolute / magnitude, ulps },
            excess: excess(absolute, tolerances.rtol, magnitude),
            ratio: (absolute - tolerances.atol) / magnitude,
        }
    }
}

impl Measured {
    fn raise(&self, to: &mut Comparison, index: u64) {
        let PairErrors { absolute, relative, ulps } = self.errors;
        raise(&mut to.max_absolute, Some(Largest { value: absolute, index }), 0);
        raise(&mut to.max_relative, Some(Largest { value: relative, index }), 0);
        raise(&mut to.max_ulps, Some(Largest { value: ulps, index }), 0);
        to.excess = to.excess.max(self.excess);
        to.ratio = to.ratio.max(self.ratio);
    }
}
