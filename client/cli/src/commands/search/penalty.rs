//! Ranks tests and generated files lower than the code that they test or are generated for.

use accelerd_client::{Hit, Value};

use crate::commands::index::read::{IS_GENERATED, IS_TEST};

/// Factor of a test's score.
const TEST: f32 = 0.75;
/// Factor of a generated file's score.
const GENERATED: f32 = 0.6;

/// Words by which a query asks for tests.
const TEST_WORDS: [&str; 10] =
    ["test", "tests", "tested", "testing", "spec", "specs", "unittest", "mock", "mocks", "fixture"];

/// Reorders the hits of a query by their penalised scores. Nothing changes without flagged hits, as in collections that
/// `accelctl index` did not create.
pub fn apply(query: &str, hits: &mut [Hit]) {
    let mut words = query.split(|c: char| !c.is_alphanumeric());
    let asks_for_tests = words.any(|word| TEST_WORDS.contains(&word.to_lowercase().as_str()));
    let is = |hit: &Hit, field: &str| hit.payload.get(field) == Some(&Value::Bool(true));
    let mut changed = false;
    for hit in hits.iter_mut() {
        for (field, share) in [(IS_TEST, if asks_for_tests { 1.0 } else { TEST }), (IS_GENERATED, GENERATED)] {
            if is(hit, field) && share < 1.0 {
                hit.score = if hit.score > 0.0 { hit.score * share } else { hit.score / share };
                changed = true;
            }
        }
    }
    if changed {
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
}

#[cfg(test)]
mod tests {
    use accelerd_client::{Id, Payload};

    use super::*;

    fn hit(id: u64, score: f32, flags: &[&str]) -> Hit {
        let payload: Payload = flags.iter().map(|flag| ((*flag).to_owned(), true.into())).collect();
        Hit { id: Id::Number(id), score, payload }
    }

    fn order(query: &str, mut hits: Vec<Hit>) -> Vec<Id> {
        apply(query, &mut hits);
        hits.into_iter().map(|hit| hit.id).collect()
    }

    #[test]
    fn tests_and_generated_files_rank_lower_unless_tests_are_asked_for() {
        let hits = || vec![hit(1, 0.9, &[IS_TEST]), hit(2, 0.8, &[IS_GENERATED]), hit(3, 0.7, &[]), hit(4, 0.1, &[])];
        let ids = |ids: [u64; 4]| ids.map(Id::Number).to_vec();
        assert_eq!(order("open a socket", hits()), ids([3, 1, 2, 4]));
        assert_eq!(order("Tests of sockets", hits()), ids([1, 3, 2, 4]));
    }

    #[test]
    fn scores_below_zero_get_worse_and_other_hits_stay_where_they_are() {
        let hits = vec![hit(1, -0.10, &[IS_TEST]), hit(2, -0.11, &[])];
        assert_eq!(order("x", hits), [Id::Number(2), Id::Number(1)]);
        // Distances: lower is better.
        let distances = vec![hit(1, 0.1, &[]), hit(2, 0.2, &[])];
        assert_eq!(order("x", distances), [Id::Number(1), Id::Number(2)]);
    }
}
