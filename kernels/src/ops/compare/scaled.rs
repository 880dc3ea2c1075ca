//! Types in which differences are compared with bounds.

use std::ops::{Add, Mul};

/// 2^64. Multiplied by it, subnormal numbers are normal, so that products with them are rounded relative to their size.
pub(super) const SCALE: f32 = 18_446_744_073_709_551_616.0;

/// A type in which differences are compared with bounds, after a multiplication by [`SCALE`].
pub(super) trait Scaled: Copy + PartialOrd + Add<Output = Self> + Mul<Output = Self> {
    /// Up to this multiple of the expected number, differences are those by definition.
    const EXACT: f64;

    /// The largest number that is not above another one.
    fn at_most(number: f64) -> Self;

    /// A number that is still below another one after a few operations have rounded it up.
    fn below(number: f64) -> Self;
}

impl Scaled for f32 {
    // Two numbers within a factor of two of each other have an exact difference (Sterbenz's lemma).
    const EXACT: f64 = 0.5;

    #[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
    fn at_most(number: f64) -> Self {
        let nearest = number.min(Self::MAX.into()) as Self;
        if f64::from(nearest) > number { nearest.next_down() } else { nearest }
    }

    fn below(number: f64) -> Self {
        Self::at_most(number * (1.0 - 8.0 * f64::from(Self::EPSILON)))
    }
}

impl Scaled for f64 {
    // The definition of a difference rounds it to f64.
    const EXACT: f64 = Self::MAX;

    fn at_most(number: f64) -> Self {
        number.min(Self::MAX)
    }

    fn below(number: f64) -> Self {
        Self::at_most(number * (1.0 - 8.0 * Self::EPSILON))
    }
}
