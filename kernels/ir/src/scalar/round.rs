//! Rounding to f32 with an odd last bit.
//!
//! A number that is rounded to nearest twice may end up on the wrong side of a tie. The first of two roundings is therefore to odd: an
//! inexact result has its last bit set, so it is never a tie, and the second rounding is that of the exact number. This holds if the
//! final type has at least two bits less, as f16 and bf16 have.

use std::cmp::Ordering;

/// An f64, rounded to odd.
#[expect(clippy::cast_possible_truncation, reason = "rounds")]
pub(super) fn f64_to_odd_f32(x: f64) -> f32 {
    let nearest = x as f32;
    to_odd(nearest, f64::from(nearest).abs().partial_cmp(&x.abs()))
}

/// An integer of at most 64 bits, rounded to odd.
#[expect(clippy::cast_possible_truncation, reason = "an integer of 64 bits rounds to at most 2^64")]
pub(super) fn integer_to_odd_f32(x: i128) -> f32 {
    let nearest = x as f32;
    to_odd(nearest, Some((nearest.abs() as i128).cmp(&x.abs())))
}

/// `magnitude` compares the absolute values of `nearest` and the exact number; NaN has none.
fn to_odd(nearest: f32, magnitude: Option<Ordering>) -> f32 {
    let bits = nearest.to_bits();
    match magnitude {
        Some(Ordering::Less) => f32::from_bits(bits | 1),
        Some(Ordering::Greater) => f32::from_bits((bits - 1) | 1),
        Some(Ordering::Equal) | None => nearest,
    }
}
