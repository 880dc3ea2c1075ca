//! The upper bounds that the scan computes, and why they hold.
//!
//! The scan ranks by a number g, higher is better: the cosine, the inner product, or for the squared distance
//! `q.x - |x|^2 / 2`, which orders rows as the distance does. For a row x and a query q it computes, in f32,
//! `dot * factor + (scale * slope + offset)`, where `dot` is the inner product in f32, `scale` belongs to the query and
//! the other three to the row, such that the result is never below g. It allows for
//! - the error of `dot`, at most E |q| |x| with E from [`products::error_bound`], and for what underflows in it: each of its
//!   D roundings may lose 2^-150;
//! - the rounding of `factor`, of a normalised query, of the two multiply-adds, and of g in f64, a few units of 2^-24.
//!
//! Where a product or sum could overflow, `slope` is infinite, so that the result is infinite or NaN, both of which count
//! as "reaches everything". So overflow costs time, never a row.

use std::cmp::Ordering;

use super::{Metric, Query};
use crate::cpu::products;

/// A unit in the last place of 1, halved: the largest relative rounding error of f32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;
/// The largest magnitude that surely stays finite in sums of products.
const SAFE: f64 = 1e37;
/// What one rounding can lose to underflow.
const TINY: f64 = 1.0 / (1_u64 << 50) as f64 / (1_u128 << 100) as f64;

/// The row's part of the bounds.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) factor: f32,
    pub(super) slope: f32,
    pub(super) offset: f32,
}

impl Term {
    /// For a bound that every bar is below.
    const BOUNDLESS: Self = Self { factor: 0.0, slope: f32::INFINITY, offset: 0.0 };
}

/// What the terms depend on beside the row.
pub(super) struct Limits {
    metric: Metric,
    /// Share of |q| |x|.
    relative: f64,
    /// What underflow may take from a dot.
    absolute: f64,
    /// The largest query's norm.
    longest: f64,
}

impl Limits {
    /// For queries whose longest has norm `longest`.
    pub(super) fn new(metric: Metric, dim: usize, longest: f64) -> Self {
        // 16 units pay for all that is not the dot itself, with more than half to spare.
        let relative = 1.001 * products::error_bound(dim) + 16.0 * UNIT;
        Self { metric, relative, absolute: 4.0 * (dim as f64 + 4.0) * TINY, longest }
    }

    /// The term of a row.
    pub(super) fn term(&self, squared_norm: f64) -> Term {
        let norm = squared_norm.sqrt();
        if norm * self.longest > SAFE {
            return Term::BOUNDLESS;
        }
        let (factor, slope, offset) = match self.metric {
            Metric::Cosine if norm == 0.0 => (0.0, self.relative, 0.0),
            Metric::Cosine => match down(1.0 / norm) {
                f32::MAX => return Term::BOUNDLESS,
                inverse => (inverse, self.relative + self.absolute / norm, 0.0),
            },
            Metric::Dot => (1.0, self.relative * norm, self.absolute),
            Metric::SquaredL2 if squared_norm > SAFE => return Term::BOUNDLESS,
            Metric::SquaredL2 => {
                let half = squared_norm / 2.0;
                (1.0, self.relative * norm, self.absolute - half + 4.0 * UNIT * half)
            }
        };
        Term { factor, slope: up(slope), offset: up(offset) }
    }
}

/// The query as the scan takes it, and its scale: normalised for the cosine.
#[expect(clippy::cast_possible_truncation, reason = "the rounding is part of the bound")]
pub(super) fn prepare(metric: Metric, query: &Query<'_>, to: &mut Vec<f32>) -> f32 {
    let norm = query.squared_norm.sqrt();
    match metric {
        Metric::Cosine => {
            let inverse = if norm == 0.0 { 0.0 } else { 1.0 / norm };
            to.extend(query.vector.iter().map(|x| (f64::from(*x) * inverse) as f32));
            1.0
        }
        Metric::Dot | Metric::SquaredL2 => {
            to.extend_from_slice(query.vector);
            up(norm)
        }
    }
}

/// The largest norm that a prepared query can have.
pub(super) fn longest(metric: Metric, queries: impl Iterator<Item = f64>) -> f64 {
    match metric {
        Metric::Cosine => 1.0,
        Metric::Dot | Metric::SquaredL2 => queries.fold(0.0, f64::max).sqrt(),
    }
}

/// The largest bound that proves a row's score to be worse than `score`: a row that the scan bounds by this or less ranks
/// behind every row of that score, however their row numbers compare.
pub(super) fn floor(metric: Metric, query: &Query<'_>, score: f32) -> f32 {
    match metric {
        // The score is rounded from a number that is at most the bound, and rounding keeps the order.
        Metric::Cosine | Metric::Dot => score.next_down(),
        Metric::SquaredL2 => {
            // The distance is |q|^2 - 2 g, up to the rounding of f64; it must reach the next float.
            let slack = (query.vector.len() as f64 + 16.0) * f64::EPSILON;
            let next = f64::from(score.next_up());
            down((query.squared_norm * (1.0 - slack) - next * (1.0 + slack)) / 2.0)
        }
    }
}

/// `Less` where `a` is the better score.
pub(super) fn compare(metric: Metric, a: f32, b: f32) -> Ordering {
    match metric {
        Metric::Cosine | Metric::Dot => b.total_cmp(&a),
        Metric::SquaredL2 => a.total_cmp(&b),
    }
}

/// The least f32 that is not below.
#[expect(clippy::cast_possible_truncation, reason = "corrected where it went the wrong way")]
fn up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

/// The largest f32 that is not above.
#[expect(clippy::cast_possible_truncation, reason = "corrected where it went the wrong way")]
fn down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}
