//! Two rankings to one: nearest vectors and best words, by relative score, or by reciprocal rank. (Bruch, Gai and Ingber, An
//! analysis of fusion functions for hybrid retrieval, 2023; Cormack, Clarke and Büttcher, Reciprocal rank fusion
//! outperforms Condorcet and individual rank learning methods, 2009.)

use std::collections::HashMap;

use accelerd_kernels::ops::similarity::{Hit, MAX_K};

use super::{
    Query, SearchSpec, Vectors,
    filter::Selected,
    points::Points,
    words::{Words, WordsError},
};
use crate::error::ApiError;

/// Added to every rank, so that the first few weigh much alike.
const OFFSET: f64 = 60.0;
/// Of each ranking at least so many are fused, and as many times what is asked for.
const LEAST: usize = 100;
const TIMES: usize = 10;

/// How words count as well as vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid {
    /// What is summed.
    pub fusion: Fusion,
    /// What words weigh, from 0 to 1; vectors weigh the rest.
    pub word_weight: f64,
}

/// What a row has in a ranking; 0 where it is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// Of the best words' score its share; of the vectors' scores where it lies between the last one, 0, and the best, 1.
    /// Words have a 0 of their own: a text without any of them. Vectors have none.
    RelativeScore,
    /// One over its rank, from `OFFSET` on.
    ReciprocalRank,
}

impl SearchSpec {
    /// The texts whose words are to be looked for, where they are.
    pub(super) fn words(&self, text_field: &str) -> Result<Option<(Hybrid, &[String])>, ApiError> {
        let Some(hybrid) = self.hybrid else { return Ok(None) };
        if text_field.is_empty() {
            let reason = "expected a collection that was made with a text_field: this one knows no words";
            return Err(ApiError::invalid("hybrid", reason));
        }
        if self.threshold.is_some() {
            let reason = "expected none: scores of a hybrid search are made of two others";
            return Err(ApiError::invalid("score_threshold", reason));
        }
        match &self.query {
            Query::Vectors(Vectors::Texts(texts)) => Ok(Some((hybrid, texts))),
            Query::Vectors(Vectors::Rows(_)) | Query::Ids(_) => {
                Err(ApiError::invalid("hybrid", "expected texts, which alone have words"))
            }
        }
    }

    /// How many hits of each ranking are needed.
    pub(super) fn depth(&self) -> usize {
        let asked = self.offset + self.limit;
        if self.hybrid.is_some_and(|hybrid| !hybrid.is_words_alone()) {
            asked.saturating_mul(TIMES).clamp(LEAST, MAX_K).max(asked)
        } else {
            asked
        }
    }
}

/// The best rows of each text by its words.
pub(super) fn best(
    words: &Words,
    points: &Points,
    selected: Option<&Selected>,
    texts: &[String],
    depth: usize,
) -> Result<Vec<Vec<Hit>>, ApiError> {
    let counts = |row| selected.is_none_or(|selected| selected.contains(row));
    let best = |text: &String| words.best(text, depth, points.lengths(), &|row| points.is_live(row), counts);
    let found: Result<_, WordsError> = texts.iter().map(best).collect();
    Ok(found?)
}

impl Hybrid {
    /// Whether vectors weigh nothing.
    pub(super) fn is_words_alone(&self) -> bool {
        self.word_weight >= 1.0
    }

    /// One ranking of two, both best first. Of equal scores the better one by words comes first, then the lower row: a
    /// vector is near to any text, a word is in few.
    #[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
    pub(super) fn fuse(&self, nearest: &[Hit], best: &[Hit]) -> Vec<Hit> {
        let (by_vectors, by_words) = match self.fusion {
            Fusion::RelativeScore => (relative(nearest, nearest.last()), relative(best, None)),
            Fusion::ReciprocalRank => (reciprocal(nearest), reciprocal(best)),
        };
        let mut scores = HashMap::<u32, (f64, f64)>::new();
        for (hit, share) in nearest.iter().zip(by_vectors) {
            scores.entry(hit.row).or_default().0 = (1.0 - self.word_weight) * share;
        }
        for (hit, share) in best.iter().zip(by_words) {
            let (sum, words) = scores.entry(hit.row).or_default();
            *words = self.word_weight * share;
            *sum += *words;
        }
        let mut hits: Vec<_> = scores.into_iter().collect();
        hits.sort_unstable_by(|(row, (sum, words)), (other, (other_sum, other_words))| {
            other_sum.total_cmp(sum).then(other_words.total_cmp(words)).then(row.cmp(other))
        });
        hits.into_iter().map(|(row, (sum, _))| Hit { row, score: sum as f32 }).collect()
    }
}

/// Where scores lie between a floor, or 0, and the best. Higher or lower may be better.
fn relative(hits: &[Hit], floor: Option<&Hit>) -> Vec<f64> {
    let floor = floor.map_or(0.0, |hit| f64::from(hit.score));
    let span = hits.first().map_or(0.0, |hit| f64::from(hit.score) - floor);
    // Where all are equal, or too far apart for numbers, each is as good as the best.
    let share = |hit: &Hit| ((f64::from(hit.score) - floor) / span).clamp(0.0, 1.0);
    hits.iter().map(|hit| if span != 0.0 && span.is_finite() { share(hit) } else { 1.0 }).collect()
}

fn reciprocal(hits: &[Hit]) -> Vec<f64> {
    (1_u32..).take(hits.len()).map(|rank| 1.0 / (OFFSET + f64::from(rank))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: Hybrid = Hybrid { fusion: Fusion::ReciprocalRank, word_weight: 0.5 };
    const SCORES: Hybrid = Hybrid { fusion: Fusion::RelativeScore, word_weight: 0.5 };

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
    fn reciprocal_ranks_put_first_what_both_rankings_have() {
        let fused = RANKS.fuse(&hits([(4, 0.9), (7, 0.8), (9, 0.1)]), &hits([(7, 5.0), (2, 4.0)]));
        assert_eq!(rows(&fused), [7, 4, 2, 9]);
        assert_scores(&fused, &[0.5 / 62.0 + 0.5 / 61.0, 0.5 / 61.0, 0.5 / 62.0, 0.5 / 63.0]);
    }

    #[test]
    fn relative_scores_lie_between_the_last_vector_or_no_word_and_the_best() {
        let (nearest, best) = (hits([(4, 0.9), (7, 0.8), (9, 0.5)]), hits([(7, 5.0), (9, 4.0), (2, 1.0)]));
        let fused = SCORES.fuse(&nearest, &best);
        assert_eq!(rows(&fused), [7, 4, 9, 2]);
        assert_scores(&fused, &[0.375 + 0.5, 0.5, 0.4, 0.1]);
        let distances = hits([(4, 0.1), (7, 0.2), (9, 0.5)]);
        assert_eq!(rows(&SCORES.fuse(&distances, &best)), [7, 4, 9, 2], "where lower is nearer");
    }

    #[test]
    fn the_weight_of_words_goes_from_none_to_all() {
        let (nearest, best) = (hits([(1, 0.9), (2, 0.5), (3, 0.1)]), hits([(3, 5.0), (2, 4.0)]));
        for fusion in [Fusion::RelativeScore, Fusion::ReciprocalRank] {
            let fused = |word_weight| rows(&Hybrid { fusion, word_weight }.fuse(&nearest, &best));
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
    fn of_equal_scores_words_come_first_and_then_the_lower_row() {
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
