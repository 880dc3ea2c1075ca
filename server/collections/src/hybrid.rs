//! Fuses two rankings, by vectors and by text, by relative score or by reciprocal rank. (Bruch, Gai and Ingber, An
//! analysis of fusion functions for hybrid retrieval, 2023; Cormack, Clarke and Büttcher, Reciprocal rank fusion
//! outperforms Condorcet and individual rank learning methods, 2009.)

use std::collections::HashMap;

use accelerd_kernels::ops::similarity::{Hit, MAX_K};

use super::{
    filter::Selected,
    points::Points,
    text_index::{TextIndex, TextIndexError},
};
use crate::error::CollectionError;

/// The constant of reciprocal rank fusion, which brings the weights of the first ranks close together.
const RANK_OFFSET: f64 = 60.0;
/// Hits of each ranking that are fused: a multiple of those requested, and at least this many.
const MIN_DEPTH: usize = 100;
const OVERSAMPLING: usize = 10;

/// Parameters of a hybrid search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid {
    /// The scoring of a hit within one ranking.
    pub fusion: Fusion,
    /// Weight of the text ranking, from 0 to 1; vectors have the rest.
    pub text_weight: f64,
}

/// The score of a hit within one ranking; 0 for a row that is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// Text: the fraction of the best score, since a text without any of the terms scores 0. Vectors: linear from the
    /// last hit, 0, to the best, 1.
    RelativeScore,
    /// `1 / (60 + rank)`.
    ReciprocalRank,
}

/// The best rows of each text by BM25.
pub(super) fn search_texts(
    index: &TextIndex,
    points: &Points,
    selected: Option<&Selected>,
    texts: &[String],
    depth: usize,
) -> Result<Vec<Vec<Hit>>, CollectionError> {
    let counts = |row| selected.is_none_or(|selected| selected.contains(row));
    let best = |text: &String| index.search(text, depth, points.doc_stats(), &|row| points.is_live(row), counts);
    let best_hits: Result<_, TextIndexError> = texts.iter().map(best).collect();
    Ok(best_hits?)
}

impl Hybrid {
    /// Returns true if vectors have no weight.
    pub(super) fn is_text_only(&self) -> bool {
        self.text_weight >= 1.0
    }

    /// Returns the number of hits of each ranking that are fused into `count` hits.
    pub(super) fn depth(&self, count: usize) -> usize {
        if self.is_text_only() { count } else { count.saturating_mul(OVERSAMPLING).clamp(MIN_DEPTH, MAX_K).max(count) }
    }

    /// Fuses two rankings, both best first. Ties go to the better text score, then to the lower row: a vector is near
    /// to any text, while a term is in few.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is intended")]
    pub(super) fn fuse(&self, nearest: &[Hit], best: &[Hit]) -> Vec<Hit> {
        let (by_vectors, by_text) = match self.fusion {
            Fusion::RelativeScore => (relative(nearest, nearest.last()), relative(best, None)),
            Fusion::ReciprocalRank => (reciprocal(nearest), reciprocal(best)),
        };
        let mut scores = HashMap::<u32, (f64, f64)>::new();
        for (hit, share) in nearest.iter().zip(by_vectors) {
            scores.entry(hit.row).or_default().0 = (1.0 - self.text_weight) * share;
        }
        for (hit, share) in best.iter().zip(by_text) {
            let (sum, text) = scores.entry(hit.row).or_default();
            *text = self.text_weight * share;
            *sum += *text;
        }
        let mut hits: Vec<_> = scores.into_iter().collect();
        hits.sort_unstable_by(|(row, (sum, text)), (other, (other_sum, other_text))| {
            other_sum.total_cmp(sum).then(other_text.total_cmp(text)).then(row.cmp(other))
        });
        hits.into_iter().map(|(row, (sum, _))| Hit { row, score: sum as f32 }).collect()
    }
}

/// Scales scores linearly from a floor, or 0, to the best, whether higher or lower is better.
fn relative(hits: &[Hit], floor: Option<&Hit>) -> Vec<f64> {
    let floor = floor.map_or(0.0, |hit| f64::from(hit.score));
    let span = hits.first().map_or(0.0, |hit| f64::from(hit.score) - floor);
    // A span that is zero or not finite scores every hit as the best.
    let share = |hit: &Hit| ((f64::from(hit.score) - floor) / span).clamp(0.0, 1.0);
    hits.iter().map(|hit| if span != 0.0 && span.is_finite() { share(hit) } else { 1.0 }).collect()
}

fn reciprocal(hits: &[Hit]) -> Vec<f64> {
    (1_u32..).take(hits.len()).map(|rank| 1.0 / (RANK_OFFSET + f64::from(rank))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: Hybrid = Hybrid { fusion: Fusion::ReciprocalRank, text_weight: 0.5 };
    const SCORES: Hybrid = Hybrid { fusion: Fusion::RelativeScore, text_weight: 0.5 };

    fn hits<const N: usize>(hits: [(u32, f32); N]) -> Vec<Hit> {
        hits.map(|(row, score)| Hit { row, score }).to_vec()
    }

    fn rows(hits: &[Hit]) -> Vec<u32> {
        hits.iter().map(|hit| hit.row).collect()
    }

    fn assert_scores(found: &[Hit], expected: &[f32]) {
        let close = found.iter().zip(expected).all(|(hit, expected)| (hit.score - expected).abs() < 1e-6);
        assert!(close && found.len() == expected.len(), "{found:?} is not {expected:?}");
    }

    #[test]
    fn reciprocal_rank_fusion_favours_hits_of_both_rankings() {
        let fused = RANKS.fuse(&hits([(4, 0.9), (7, 0.8), (9, 0.1)]), &hits([(7, 5.0), (2, 4.0)]));
        assert_eq!(rows(&fused), [7, 4, 2, 9]);
        assert_scores(&fused, &[0.5 / 62.0 + 0.5 / 61.0, 0.5 / 61.0, 0.5 / 62.0, 0.5 / 63.0]);
    }

    #[test]
    fn relative_scores_span_from_the_last_vector_or_a_text_score_of_0_to_the_best() {
        let nearest = hits([(4, 0.9), (7, 0.8), (9, 0.5)]);
        let best = hits([(7, 5.0), (9, 4.0), (2, 1.0)]);
        let fused = SCORES.fuse(&nearest, &best);
        assert_eq!(rows(&fused), [7, 4, 9, 2]);
        assert_scores(&fused, &[0.375 + 0.5, 0.5, 0.4, 0.1]);
        let distances = hits([(4, 0.1), (7, 0.2), (9, 0.5)]);
        assert_eq!(rows(&SCORES.fuse(&distances, &best)), [7, 4, 9, 2], "where lower is nearer");
    }

    #[test]
    fn the_text_weight_shifts_the_order_from_vectors_to_text() {
        let nearest = hits([(1, 0.9), (2, 0.5), (3, 0.1)]);
        let best = hits([(3, 5.0), (2, 4.0)]);
        for fusion in [Fusion::RelativeScore, Fusion::ReciprocalRank] {
            let fused = |text_weight| rows(&Hybrid { fusion, text_weight }.fuse(&nearest, &best));
            assert_eq!(fused(0.0), [1, 2, 3]);
            assert_eq!(fused(1.0), [3, 2, 1]);
        }
    }

    #[test]
    fn one_ranking_alone_keeps_its_order() {
        for hybrid in [RANKS, SCORES] {
            assert_eq!(rows(&hybrid.fuse(&hits([(3, 0.5), (1, 0.2)]), &[])), [3, 1]);
            assert_eq!(rows(&hybrid.fuse(&[], &hits([(3, 0.5), (1, 0.2)]))), [3, 1]);
            assert_eq!(rows(&hybrid.fuse(&[], &[])), [0_u32; 0]);
        }
    }

    #[test]
    fn ties_go_to_the_text_score_and_then_to_the_lower_row() {
        for hybrid in [RANKS, SCORES] {
            assert_eq!(rows(&hybrid.fuse(&hits([(2, 0.5)]), &hits([(5, 3.0)]))), [5, 2]);
        }
        assert_eq!(rows(&SCORES.fuse(&hits([(8, 0.5), (3, 0.5)]), &[])), [3, 8]);
    }

    #[test]
    fn scores_without_a_finite_span_are_all_as_good_as_the_best() {
        for nearest in [[(1, 0.5), (2, 0.5)], [(1, f32::INFINITY), (2, 0.0)]] {
            assert_scores(&SCORES.fuse(&hits(nearest), &[]), &[0.5, 0.5]);
        }
    }
}
