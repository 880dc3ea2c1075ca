//! Outputs of which most expected numbers are smaller than an absolute tolerance: it accepts zeros in their place.
//!
//! With the default tolerance, errors are then also judged relative to the largest expected number, as those of an output with numbers up
//! to 1 are.

use accelerd_kernels::ops::compare::Close;
use accelerd_tensor::{Dtype, scalar::Literal};

/// The magnitudes of expected numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Magnitudes {
    /// The largest of finite numbers.
    pub(crate) max_norm: f64,
    /// Finite numbers other than 0, and how many of them are at most the absolute tolerance.
    count: u64,
    small: u64,
}

/// An output of small numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SmallOutput {
    pub(crate) output: String,
    pub(crate) atol: f64,
    pub(crate) max_norm: f64,
    /// Errors must be at most this multiple of `max_norm`; `None` if the absolute tolerance alone decides.
    pub(crate) max_norm_rtol: Option<f64>,
}

impl Magnitudes {
    pub(crate) fn of(numbers: impl Iterator<Item = f64>, atol: f64) -> Self {
        let finite = numbers.map(f64::abs).filter(|magnitude| magnitude.is_finite() && *magnitude > 0.0);
        finite.fold(Self::default(), |all, magnitude| Self {
            max_norm: all.max_norm.max(magnitude),
            count: all.count + 1,
            small: all.small + u64::from(magnitude <= atol),
        })
    }

    /// The magnitudes of the elements of an array.
    pub(crate) fn of_elements(dtype: Dtype, elements: &[u8], atol: f64) -> Self {
        let numbers = elements.chunks_exact(dtype.size()).map(|element| Literal::from_bytes(dtype, element).as_f64());
        if atol > 0.0 { Self::of(numbers, atol) } else { Self::default() }
    }

    /// Returns true if the absolute tolerance accepts zeros in place of most numbers.
    pub(crate) fn are_small(&self) -> bool {
        2 * self.small > self.count
    }

    /// The output of these numbers, if they are small. `is_default` says whether the absolute tolerance is that of the element type.
    pub(crate) fn small_output(
        &self,
        output: &str,
        dtype: Dtype,
        close: Close,
        is_default: bool,
    ) -> Option<SmallOutput> {
        let max_norm_rtol = is_default.then(|| max_norm_rtol(dtype, close, self.max_norm));
        let small = SmallOutput { output: output.to_owned(), atol: close.atol, max_norm: self.max_norm, max_norm_rtol };
        self.are_small().then_some(small)
    }
}

/// The largest error relative to the largest expected number: that of tolerances for numbers up to 1, but no less than two of the
/// smallest numbers of the type.
pub(crate) fn max_norm_rtol(dtype: Dtype, Close { atol, rtol }: Close, max_norm: f64) -> f64 {
    let smallest = Literal::from_bits(dtype, 1).as_f64();
    (atol + rtol).max(2.0 * smallest / max_norm)
}

impl SmallOutput {
    /// Returns true if an error is too large relative to the largest expected number.
    pub(crate) fn rejects(&self, error: f64) -> bool {
        self.max_norm_rtol.is_some_and(|rtol| error > rtol * self.max_norm)
    }

    /// The sentence about it for messages.
    pub(crate) fn explanation(&self) -> String {
        let Self { output, atol, max_norm, max_norm_rtol } = self;
        let judged = max_norm_rtol.map_or_else(
            || "it accepts zeros in their place".to_owned(),
            |rtol| format!("errors must be at most {rtol:e} of the largest, {max_norm:e}; a set atol decides alone"),
        );
        format!("most expected numbers of {output:?} are smaller than atol {atol:e}: {judged}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn small(numbers: &[f32], is_default: bool) -> Option<SmallOutput> {
        let close = Close::of(Dtype::F32);
        let magnitudes = Magnitudes::of_elements(Dtype::F32, &bytes(numbers), close.atol);
        magnitudes.small_output("y", Dtype::F32, close, is_default)
    }

    #[test]
    fn an_output_is_small_if_most_of_its_numbers_are() {
        assert_eq!(small(&[1.0, 2.0, 1e-6], true), None);
        assert_eq!(small(&[1.0, 1e-6], true), None, "half are not most");
        assert_eq!(small(&[0.0, 0.0, 1.0], true), None, "zeros are right as they are");
        assert_eq!(small(&[0.0, f32::NAN, f32::INFINITY], true), None);
        let found = small(&[1e-6, -2e-6, 0.5], true).expect("most are small");
        assert_eq!((found.max_norm, found.atol), (0.5, 1e-5));
        assert_eq!(small(&[1e-6], false).expect("all are small").max_norm_rtol, None);
    }

    #[test]
    fn zeros_are_rejected_and_rounding_errors_are_not() {
        let found = small(&[1e-7, 2e-7], true).expect("all are small");
        assert!(found.rejects(1e-7) && found.rejects(1e-11));
        assert!(!found.rejects(2e-7 * f64::from(f32::EPSILON)));
        assert!(found.explanation().contains("atol 1e-5"), "{}", found.explanation());
        assert!(
            !small(&[1e-7], false).expect("all are small").rejects(1e-7),
            "a tolerance of the caller decides alone"
        );
    }

    #[test]
    fn the_smallest_numbers_of_a_type_may_be_next_to_each_other() {
        let close = Close::of(Dtype::F16);
        let numbers = [1e-6, 2e-6].into_iter();
        let found =
            Magnitudes::of(numbers, close.atol).small_output("y", Dtype::F16, close, true).expect("all are small");
        assert!(!found.rejects(2f64.powi(-24)) && found.rejects(1e-6));
    }
}
