//! The upper bounds that the scan computes, and why they hold.
//!
//! The scan ranks by a number g, higher is better: the cosine, the inner product, or for the squared distance
//! `q.x - |x|^2 / 2`, which orders rows as the distance does. For a row x and a query q it computes, in f32,
//! `dot * factor + (scale * slope + offset)`, where `dot` is the inner product in f32, `scale` belongs to the query and
//! the other three to the row, such that the result is never less than g. It allows for
//! - the error of `dot`: at most E |q| |x| with E from [`gemm::error_bound`], plus underflow, by which each of its D
//!   roundings may lose 2^-150;
//! - the rounding of `factor`, of a normalised query, of the two multiply-adds, and of g in f64: a few units of 2^-24.
//!
//! If a product or sum could overflow, `slope` is infinite. The result is then infinite or NaN, and both count as
//! reaching every threshold: overflow costs time but never loses a row.

use super::table::Query;
use crate::{cpu::gemm, ops::similarity::metric::Metric};

/// The unit roundoff of f32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;
/// The largest magnitude for which sums of products are certain to stay finite.
const SAFE: f64 = 1e37;
/// The most that one rounding can lose to underflow: 2^-150.
const TINY: f64 = 1.0 / (1_u64 << 50) as f64 / (1_u128 << 100) as f64;

/// A row's part of its bounds.
#[derive(Clone, Copy)]
pub(super) struct RowBound {
    pub(super) factor: f32,
    pub(super) slope: f32,
    pub(super) offset: f32,
}

impl RowBound {
    /// Gives an infinite bound.
    const UNBOUNDED: Self = Self { factor: 0.0, slope: f32::INFINITY, offset: 0.0 };
}

/// The error of a scan's inner products.
pub(super) struct ScanError {
    metric: Metric,
    /// Relative to |q| |x|.
    relative: f64,
    /// The largest absolute error of an inner product by underflow.
    absolute: f64,
    /// The largest norm of a query.
    max_query_norm: f64,
}

impl ScanError {
    pub(super) fn new(metric: Metric, dim: usize, max_query_norm: f64) -> Self {
        // 16 units cover all roundings but those of the inner product, with more than half to spare.
        let relative = 1.001 * gemm::error_bound(dim) + 16.0 * UNIT;
        Self { metric, relative, absolute: 4.0 * (dim as f64 + 4.0) * TINY, max_query_norm }
    }

    pub(super) fn row_bound(&self, squared_norm: f64) -> RowBound {
        let norm = squared_norm.sqrt();
        if norm * self.max_query_norm > SAFE {
            return RowBound::UNBOUNDED;
        }
        let (factor, slope, offset) = match self.metric {
            Metric::Cosine if norm == 0.0 => (0.0, self.relative, 0.0),
            Metric::Cosine => match round_down(1.0 / norm) {
                f32::MAX => return RowBound::UNBOUNDED,
                inverse => (inverse, self.relative + self.absolute / norm, 0.0),
            },
            Metric::Dot => (1.0, self.relative * norm, self.absolute),
            Metric::SquaredL2 if squared_norm > SAFE => return RowBound::UNBOUNDED,
            Metric::SquaredL2 => {
                let half = squared_norm / 2.0;
                (1.0, self.relative * norm, self.absolute - half + 4.0 * UNIT * half)
            }
        };
        RowBound { factor, slope: round_up(slope), offset: round_up(offset) }
    }
}

/// Appends the query as the scan reads it, normalised for the cosine, and returns its scale.
#[expect(clippy::cast_possible_truncation, reason = "the rounding is part of the bound")]
pub(super) fn prepare_query(metric: Metric, query: &Query<'_>, to: &mut Vec<f32>) -> f32 {
    let norm = query.squared_norm.sqrt();
    match metric {
        Metric::Cosine => {
            let inverse = if norm == 0.0 { 0.0 } else { 1.0 / norm };
            to.extend(query.vector.iter().map(|x| (f64::from(*x) * inverse) as f32));
            1.0
        }
        Metric::Dot | Metric::SquaredL2 => {
            to.extend_from_slice(query.vector);
            round_up(norm)
        }
    }
}

/// The largest norm of a prepared query.
pub(super) fn max_query_norm(metric: Metric, squared_norms: impl Iterator<Item = f64>) -> f64 {
    match metric {
        Metric::Cosine => 1.0,
        Metric::Dot | Metric::SquaredL2 => squared_norms.fold(0.0, f64::max).sqrt(),
    }
}

/// The largest bound that proves a row's score to be worse than `score`: a row with this bound or less ranks after
/// every row of that score, whatever their indices.
pub(super) fn pruning_threshold(metric: Metric, query: &Query<'_>, score: f32) -> f32 {
    match metric {
        // The score is rounded from a number that is at most the bound, and rounding is monotonic.
        Metric::Cosine | Metric::Dot => score.next_down(),
        Metric::SquaredL2 => {
            // The distance is |q|^2 - 2 g, up to the rounding of f64; it must reach the next float.
            let slack = (query.vector.len() as f64 + 16.0) * f64::EPSILON;
            let next = f64::from(score.next_up());
            round_down((query.squared_norm * (1.0 - slack) - next * (1.0 + slack)) / 2.0)
        }
    }
}

/// The least f32 that is not less than `x`.
#[expect(clippy::cast_possible_truncation, reason = "corrected if rounded in the wrong direction")]
fn round_up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

/// The largest f32 that is not greater than `x`.
#[expect(clippy::cast_possible_truncation, reason = "corrected if rounded in the wrong direction")]
fn round_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}
