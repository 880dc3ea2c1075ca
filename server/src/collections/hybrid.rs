//! Two rankings to one: nearest vectors and best words, by reciprocal rank. (Cormack, Clarke and Büttcher, Reciprocal rank
//! fusion outperforms Condorcet and individual rank learning methods, 2009.)

use std::collections::HashMap;

use accelerd_kernels::ops::similarity::{Hit, MAX_K};

use super::{Query, SearchSpec, Vectors, filter::Selected, points::Points};
use crate::error::ApiError;

/// Added to every rank, so that the first few weigh much alike.
const OFFSET: f64 = 60.0;
/// Of each ranking at least so many are fused, and as many times what is asked for.
const LEAST: usize = 100;
const TIMES: usize = 10;

impl SearchSpec {
    /// The texts whose words are to be looked for, where they are.
    pub(super) fn words(&self, text_field: &str) -> Result<Option<&[String]>, ApiError> {
        if !self.hybrid {
            return Ok(None);
        }
        if text_field.is_empty() {
            let reason = "expected a collection that was made with a text_field: this one knows no words";
            return Err(ApiError::invalid("hybrid", reason));
        }
        if self.threshold.is_some() {
            let reason = "expected none: scores of a hybrid search are made of ranks";
            return Err(ApiError::invalid("score_threshold", reason));
        }
        match &self.query {
            Query::Vectors(Vectors::Texts(texts)) => Ok(Some(texts)),
            Query::Vectors(Vectors::Rows(_)) | Query::Ids(_) => {
                Err(ApiError::invalid("hybrid", "expected texts, which alone have words"))
            }
        }
    }

    /// How many hits of each ranking are needed.
    pub(super) fn depth(&self) -> usize {
        let asked = self.offset + self.limit;
        if self.hybrid { asked.saturating_mul(TIMES).clamp(LEAST, MAX_K).max(asked) } else { asked }
    }
}

/// The fused ranking of each query.
pub(super) fn fused(
    points: &Points,
    selected: Option<&Selected>,
    vectors: &[Vec<Hit>],
    texts: &[String],
    depth: usize,
) -> Vec<Vec<Hit>> {
    let Some(words) = points.words() else { return vectors.to_vec() };
    let counts = |row| selected.is_none_or(|selected| selected.contains(row));
    let list = |(nearest, text): (&Vec<Hit>, &String)| {
        let best = words.best(text, depth, |row| points.is_live(row), counts);
        let best: Vec<_> = best.into_iter().map(|(row, _)| row).collect();
        fuse(&nearest.iter().map(|hit| hit.row).collect::<Vec<_>>(), &best)
    };
    vectors.iter().zip(texts).map(list).collect()
}

/// Rows by the sum of one over their ranks; of equal ones the lower row first.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
fn fuse(one: &[u32], other: &[u32]) -> Vec<Hit> {
    let mut scores = HashMap::<u32, f64>::new();
    for ranking in [one, other] {
        for (row, rank) in ranking.iter().zip(1_u32..) {
            *scores.entry(*row).or_default() += 1.0 / (OFFSET + f64::from(rank));
        }
    }
    let mut hits: Vec<_> = scores.into_iter().collect();
    hits.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    hits.into_iter().map(|(row, score)| Hit { row, score: score as f32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_rankings_have_comes_first() {
        let hits = fuse(&[4, 7, 9], &[7, 2]);
        assert_eq!(hits.iter().map(|hit| hit.row).collect::<Vec<_>>(), [7, 4, 2, 9]);
        let close = |hit: &Hit, expected: f32| (hit.score - expected).abs() < 1e-6;
        assert!(close(&hits[0], 1.0 / 62.0 + 1.0 / 61.0) && close(&hits[1], 1.0 / 61.0), "{hits:?}");
        assert!(close(&hits[2], 1.0 / 62.0) && close(&hits[3], 1.0 / 63.0), "{hits:?}");
    }

    #[test]
    fn one_ranking_alone_keeps_its_order_and_equal_scores_go_by_row() {
        assert_eq!(fuse(&[3, 1], &[]).iter().map(|hit| hit.row).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(fuse(&[5], &[2]).iter().map(|hit| hit.row).collect::<Vec<_>>(), [2, 5]);
    }
}
