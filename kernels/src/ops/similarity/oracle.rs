//! Search in plain f64 loops: the reference that every backend must equal.

use std::cmp::Ordering;

use super::{metric::Metric, request::Hit};
use crate::Matrix;

/// Partial sums of a score.
const LANES: usize = 8;

/// The best k `allowed` rows of each query: scores in f64 rounded to f32, ties to the lowest row.
pub fn search(
    queries: &Matrix,
    corpus: &Matrix,
    metric: Metric,
    k: usize,
    threshold: Option<f32>,
    allowed: impl Fn(u32) -> bool,
) -> Vec<Vec<Hit>> {
    let queries_f32 = queries.as_f32();
    let rows = corpus.as_f32();
    let dim = corpus.cols();
    let row = |index: usize| &rows[index * dim..][..dim];
    let best = |query: &[f32]| {
        let mut hits: Vec<_> = (0_u32..)
            .take(corpus.rows())
            .filter(|&index| allowed(index))
            .map(|index| Hit { row: index, score: score(metric, query, row(index as usize)) })
            .filter(|hit| threshold.is_none_or(|threshold| rank(metric, hit.score, threshold + 0.0).is_le()))
            .collect();
        let order = |a: &Hit, b: &Hit| rank(metric, a.score, b.score).then(a.row.cmp(&b.row));
        if k < hits.len() {
            hits.select_nth_unstable_by(k, order);
            hits.truncate(k);
        }
        hits.sort_by(order);
        hits
    };
    (0..queries.rows()).map(|index| best(&queries_f32[index * dim..][..dim])).collect()
}

/// The score of one row, computed in f64 and rounded to f32; zero has no sign.
#[expect(clippy::cast_possible_truncation, reason = "scores are rounded to f32")]
pub fn score(metric: Metric, query: &[f32], row: &[f32]) -> f32 {
    let exact = match metric {
        Metric::Dot => dot(query, row),
        Metric::SquaredL2 => sum(query, row, |q, x| (q - x).powi(2)),
        Metric::Cosine => match dot(query, query) * dot(row, row) {
            0.0 => 0.0,
            norms => dot(query, row) / norms.sqrt(),
        },
    };
    exact as f32 + 0.0
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| a * b)
}

/// The sum of the terms of pairs, in lanes: tests score millions of rows.
fn sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let term = |a: f32, b: f32| term(f64::from(a), f64::from(b));
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum();
    sums.iter().sum::<f64>() + rest
}

/// `Less` if `a` is the better score. Not [`Metric::compare`], so that the oracle shares no code with the backends.
fn rank(metric: Metric, a: f32, b: f32) -> Ordering {
    match metric {
        Metric::Cosine | Metric::Dot => b.total_cmp(&a),
        Metric::SquaredL2 => a.total_cmp(&b),
    }
}
