//! Agreement of the results of a run with the interpreter's.

use accelerd_ir::{
    Dtype,
    kernel::{Component, Element},
    scalar::Literal,
};
use accelerd_kernels::ops::compare::Close;

use crate::small_outputs::{Magnitudes, SmallOutput};

/// The end of a kernel's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunVerdict {
    /// With the interpreter's bits.
    Equal,
    /// Within the tolerance.
    Close,
    Different,
    /// A thread had a fault.
    Fault,
    /// It was not run, or not to its end.
    Failed,
}

/// The results of comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreement {
    pub(crate) elements: u64,
    pub(crate) different: u64,
    /// Of those that differ, how many are not within the tolerance.
    distant: u64,
    pub(crate) max_ulps: u64,
}

impl Agreement {
    /// Compares arrays of an element.
    pub(super) fn add(&mut self, element: &Element, actual: &[u8], expected: &[u8]) {
        let size = element.size as usize;
        let small: Vec<_> =
            element.components.iter().map(|component| small_output(element, component.dtype, expected)).collect();
        for (actual, expected) in actual.chunks_exact(size).zip(expected.chunks_exact(size)) {
            for (Component { dtype, offset, .. }, small) in element.components.iter().zip(&small) {
                let number = |bytes: &[u8]| Literal::from_bytes(*dtype, &bytes[*offset as usize..]);
                let (actual, expected) = (number(actual), number(expected));
                self.add_numbers(*dtype, actual, expected, small.as_ref());
            }
        }
    }

    fn add_numbers(&mut self, dtype: Dtype, actual: Literal, expected: Literal, small: Option<&SmallOutput>) {
        self.elements += 1;
        let a = actual.as_f64();
        let e = expected.as_f64();
        if actual.bits() == expected.bits() || dtype.is_float() && a.is_nan() && e.is_nan() {
            return;
        }
        self.different += 1;
        let Close { atol, rtol } = Close::of(dtype);
        let error = (a - e).abs();
        let is_too_large = small.is_some_and(|small| small.rejects(error));
        let is_close = dtype.is_float() && e.is_finite() && error <= atol + rtol * e.abs() && !is_too_large;
        self.distant += u64::from(!is_close);
        if dtype.is_float() && a.is_finite() && e.is_finite() {
            self.max_ulps = self.max_ulps.max(rank(dtype, actual).abs_diff(rank(dtype, expected)));
        }
    }

    pub(super) fn verdict(&self) -> RunVerdict {
        match self {
            Self { different: 0, .. } => RunVerdict::Equal,
            Self { distant: 0, .. } => RunVerdict::Close,
            _ => RunVerdict::Different,
        }
    }
}

/// The expected numbers of a type, if they are mostly smaller than its absolute tolerance.
fn small_output(element: &Element, dtype: Dtype, expected: &[u8]) -> Option<SmallOutput> {
    let components = || element.components.iter().filter(|component| component.dtype == dtype);
    let numbers = expected.chunks_exact(element.size as usize).flat_map(|bytes| {
        components().map(move |component| Literal::from_bytes(dtype, &bytes[component.offset as usize..]).as_f64())
    });
    let close = Close::of(dtype);
    Magnitudes::of(numbers, close.atol).small_output("", dtype, close, dtype.is_float())
}

/// The place of a number among all of its type; both zeros have one.
fn rank(dtype: Dtype, number: Literal) -> i64 {
    let sign = 1_u64 << (8 * dtype.size() - 1);
    let magnitude = i64::try_from(number.bits() & (sign - 1)).expect("fewer than 64 bits");
    if number.bits() & sign == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(pairs: &[(f32, f32)]) -> Agreement {
        let component = Component { name: String::new(), dtype: Dtype::F32, offset: 0 };
        let element = Element { components: vec![component], size: 4 };
        let bytes = |numbers: Vec<f32>| numbers.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>();
        let mut agreement = Agreement::default();
        let (actual, expected) = pairs.iter().copied().unzip();
        agreement.add(&element, &bytes(actual), &bytes(expected));
        agreement
    }

    #[test]
    fn equal_bits_and_nans_agree() {
        let found = agreement(&[(1.0, 1.0), (f32::NAN, -f32::NAN), (f32::INFINITY, f32::INFINITY)]);
        assert_eq!(found.verdict(), RunVerdict::Equal);
        assert_eq!((found.elements, found.different, found.max_ulps), (3, 0, 0));
    }

    #[test]
    fn numbers_within_the_tolerance_are_close_and_their_distance_is_counted() {
        let found = agreement(&[(1.0, 1.0 + 3.0 * f32::EPSILON), (0.0, -0.0), (-f32::from_bits(1), f32::from_bits(1))]);
        assert_eq!(found.verdict(), RunVerdict::Close);
        assert_eq!((found.different, found.max_ulps), (3, 3));
    }

    #[test]
    fn zeros_in_place_of_small_numbers_differ() {
        assert_eq!(agreement(&[(0.0, 1e-7), (0.0, 2e-7)]).verdict(), RunVerdict::Different);
        let near = [1e-7_f32, 2e-7].map(|x| (x * (1.0 + f32::EPSILON), x));
        assert_eq!(agreement(&near).verdict(), RunVerdict::Close);
        assert_eq!(
            agreement(&[(0.0, 1e-7), (2.0, 2.0), (3.0, 3.0)]).verdict(),
            RunVerdict::Close,
            "most are not small"
        );
    }

    #[test]
    fn others_differ() {
        for pair in [(1.0, 1.1), (f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, 1.0), (1.0, f32::INFINITY)] {
            assert_eq!(agreement(&[pair]).verdict(), RunVerdict::Different, "{pair:?}");
        }
    }
}
