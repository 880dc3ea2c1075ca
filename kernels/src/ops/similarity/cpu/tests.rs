//! Every result on the CPU equals the oracle's, and every bound of the scan holds.

use std::sync::Arc;

use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{
    collectors::{self, Collector},
    table::{Filter, Query, Table},
    *,
};
use crate::{
    Backend, DeviceId, Matrix, Op,
    cpu::{Pool, f64_sums},
    ops::similarity::{Corpus, FindSimilar, Metric, Search, Storage, oracle},
};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::SquaredL2];

/// The distribution of a test's numbers.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Uniform between -1 and 1.
    Even,
    /// Among a few small integers, so that scores tie.
    Few,
    /// Around one row, closer than f32 sums resolve.
    Near,
    /// Over all magnitudes, row by row.
    Wild,
}

fn numbers(spread: Spread, rows: usize, dim: usize, seed: u64) -> Matrix {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut one = |row: usize, column: usize| match spread {
        Spread::Even => random.random_range(-1.0_f32..1.0),
        Spread::Few => f32::from(random.random_range(-1_i8..=1)),
        Spread::Near => (column as f32 * 0.7).sin() * (1.0 + random.random_range(-1e-6_f32..1e-6)),
        Spread::Wild => random.random_range(-1.0_f32..1.0) * [1.0, 1e-44, 1e-39, 1e-20, 3e18, 1e30, 3e38][row % 7],
    };
    let data = (0..rows * dim).map(|index| one(index / dim, index % dim)).collect();
    Matrix::from_vec(rows, dim, data).expect("the data was made for this shape")
}

/// A corpus on the CPU with the state that the oracle needs.
struct Fixture {
    worker: Backend,
    pool: Arc<Pool>,
    corpus: Arc<Corpus>,
    rows: Matrix,
    deleted: Vec<u32>,
}

impl Fixture {
    fn new(metric: Metric, rows: Matrix, threads: usize) -> Self {
        let pool = Pool::start(threads).expect("a few threads");
        let corpus = Corpus::new(rows.cols(), metric, Storage::F32, DeviceId::Cpu);
        corpus.append(&rows);
        Self { worker: Backend::Cpu(Worker::new(Arc::clone(&pool))), pool, corpus, rows, deleted: vec![] }
    }

    fn delete(&mut self, every: usize) {
        self.deleted = (0..).take(self.rows.rows()).step_by(every).collect();
        self.corpus.delete(&self.deleted);
    }

    fn request(&self, queries: Matrix, k: usize) -> SearchRequest {
        SearchRequest { corpus: Arc::clone(&self.corpus), queries, k, threshold: None, selection: Selection::All }
    }

    fn run(&mut self, requests: &[SearchRequest]) -> Vec<Hits> {
        Search::run(&requests.iter().collect::<Vec<_>>(), &mut self.worker).expect("searched")
    }

    fn expected(&self, request: &SearchRequest) -> Vec<Vec<Hit>> {
        let SearchRequest { queries, k, threshold, selection, .. } = request;
        let allowed = |row: u32| {
            let selected = match selection {
                Selection::All => true,
                Selection::Mask(words) => words.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1),
                Selection::Rows(rows) => rows.contains(&row),
            };
            selected && !self.deleted.contains(&row)
        };
        oracle::search(queries, &self.rows, self.corpus.metric(), *k, *threshold, allowed)
    }

    fn check(&mut self, requests: &[SearchRequest]) {
        let answers = self.run(requests);
        for (request, answer) in requests.iter().zip(answers) {
            same(&self.expected(request), &answer.lists);
        }
    }

    fn calls(&self, kernel: &str) -> u64 {
        self.pool.kernel_stats().iter().find(|stats| stats.name == kernel).map_or(0, |stats| stats.calls)
    }
}

fn same(expected: &[Vec<Hit>], got: &[Vec<Hit>]) {
    assert_eq!(expected.len(), got.len());
    for (query, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert_eq!(expected.len(), got.len(), "hits of query {query}");
        let differs = expected.iter().zip(got).position(|(a, b)| a != b);
        assert_eq!(differs.map(|index| (index, expected[index], got[index])), None, "query {query}");
    }
}

fn mask(rows: usize, keep: impl Fn(usize) -> bool) -> Selection {
    let mut words = vec![0_u32; rows.div_ceil(32)];
    (0..rows).filter(|row| keep(*row)).for_each(|row| words[row / 32] |= 1 << (row % 32));
    Selection::Mask(Arc::new(words))
}

#[test]
fn every_shape_is_ranked_like_the_oracle() {
    for metric in METRICS {
        for (rows, dim, queries, k) in [
            (1, 1, 1, 1),
            (31, 3, 2, 5),
            (32, 127, 33, 32),
            (33, 768, 12, 1),
            (1025, 768, 13, 10),
            (1025, 3, 101, 1),
            (1025, 1, 49, 31),
            (3000, 127, 200, 100),
            (9001, 33, 5, 1025),
        ] {
            let mut fixture = Fixture::new(metric, numbers(Spread::Even, rows, dim, 1), 2);
            let request = fixture.request(numbers(Spread::Even, queries, dim, 2), k);
            fixture.check(&[request]);
        }
    }
}

#[test]
fn inline_corpora_need_no_alignment() {
    let mut worker = Backend::Cpu(Worker::new(Pool::start(2).expect("two threads")));
    for metric in METRICS {
        let corpus = numbers(Spread::Even, 1025, 31, 1);
        let queries = numbers(Spread::Even, 7, 31, 2);
        let expected = oracle::search(&queries, &corpus, metric, 9, None, |_| true);
        let shifted = bytes::Bytes::from([&[0_u8][..], corpus.bytes()].concat()).slice(1..);
        let shifted = Matrix::from_bytes(1025, 31, shifted).expect("as many bytes");
        for corpus in [corpus, shifted] {
            let request = FindSimilarRequest { queries: queries.clone(), corpus, metric, k: 9, threshold: None };
            let answers = FindSimilar::run(&[&request, &request], &mut worker).expect("searched");
            for answer in answers {
                same(&expected, &answer.lists);
            }
        }
    }
}

#[test]
fn empty_corpora_and_empty_requests_give_empty_lists() {
    let mut fixture = Fixture::new(Metric::Dot, numbers(Spread::Even, 0, 5, 1), 1);
    let requests =
        [fixture.request(numbers(Spread::Even, 2, 5, 1), 3), fixture.request(numbers(Spread::Even, 0, 5, 1), 3)];
    let lists: Vec<_> = fixture.run(&requests).into_iter().map(|hits| hits.lists).collect();
    assert_eq!(lists, [vec![vec![], vec![]], vec![]]);
    fixture.check(&[]);
}

#[test]
fn near_ties_fail_the_certificate_and_are_ranked_by_a_second_scan() {
    for metric in METRICS {
        for queries in [3, 20] {
            let mut fixture = Fixture::new(metric, numbers(Spread::Near, 5000, 96, 1), 2);
            let request = fixture.request(numbers(Spread::Even, queries, 96, 2), 10);
            fixture.check(&[request]);
            assert_eq!(fixture.calls("search_rescan"), 1, "{metric:?}: the first scan cannot tell these rows apart");
        }
    }
}

#[test]
fn separated_scores_are_certified_by_one_scan() {
    for metric in METRICS {
        let mut fixture = Fixture::new(metric, numbers(Spread::Even, 20_000, 64, 1), 2);
        let request = fixture.request(numbers(Spread::Even, 30, 64, 2), 10);
        fixture.check(&[request]);
        assert_eq!((fixture.calls("search_scan"), fixture.calls("search_rescan")), (1, 0), "{metric:?}");
    }
}

#[test]
fn a_small_search_does_not_wait_for_the_slices_of_long_work() {
    for metric in METRICS {
        let mut fixture = Fixture::new(metric, numbers(Spread::Even, 9000, 64, 1), 1);
        let (release, held) = std::sync::mpsc::channel::<()>();
        fixture.pool.spawn(move || _ = held.recv());
        let pool = Arc::clone(&fixture.pool);
        let reservation = pool.reserve();
        let all = fixture.request(numbers(Spread::Even, 20, 64, 2), 20);
        let some = SearchRequest { selection: mask(9000, |row| row % 3 == 0), ..all.clone() };
        fixture.check(&[all, some]);
        drop(reservation);
        drop(release);
    }
}

#[test]
fn equal_rows_rank_by_index() {
    for metric in METRICS {
        let one = numbers(Spread::Even, 1, 40, 3).as_f32().into_owned();
        let rows = Matrix::from_vec(3000, 40, one.repeat(3000)).expect("3000 copies");
        let mut fixture = Fixture::new(metric, rows, 2);
        let request = fixture.request(numbers(Spread::Even, 14, 40, 4), 37);
        fixture.check(&[request]);
    }
}

#[test]
fn zero_rows_and_zero_queries_have_scores() {
    for metric in METRICS {
        let mut rows = numbers(Spread::Even, 2000, 20, 5).as_f32().into_owned();
        rows[400..30_000].fill(0.0);
        let rows = Matrix::from_vec(2000, 20, rows).expect("2000 rows");
        let mut fixture = Fixture::new(metric, rows, 2);
        let queries = [numbers(Spread::Even, 1, 20, 6).as_f32().as_ref(), &[0.0; 20], &[-0.0; 20]].concat();
        let queries = Matrix::from_vec(3, 20, queries).expect("three queries");
        let requests = [fixture.request(queries.clone(), 700), fixture.request(queries, 2000)];
        fixture.check(&requests);
    }
}

#[test]
fn scores_past_the_range_of_floats_are_infinite_and_tie() {
    for metric in METRICS {
        let mut fixture = Fixture::new(metric, numbers(Spread::Wild, 3000, 24, 7), 2);
        let queries = numbers(Spread::Wild, 14, 24, 8);
        for k in [1, 10, 500] {
            let request = fixture.request(queries.clone(), k);
            fixture.check(&[request]);
        }
    }
}

#[test]
fn requests_of_a_batch_keep_their_own_selection_threshold_and_k() {
    for metric in METRICS {
        let rows = 6000;
        let mut fixture = Fixture::new(metric, numbers(Spread::Even, rows, 32, 9), 2);
        fixture.delete(7);
        let selections = [
            Selection::All,
            mask(rows, |row| row % 3 == 0),
            mask(2000, |row| row % 200 == 7),
            mask(rows + 500, |_| true),
            mask(rows, |_| false),
            Selection::Rows(Arc::new((0..8000).step_by(3).collect())),
            Selection::Rows(Arc::default()),
        ];
        let threshold = if matches!(metric, Metric::SquaredL2) { 18.0 } else { 0.2 };
        let requests: Vec<_> = selections
            .into_iter()
            .enumerate()
            .map(|(index, selection)| SearchRequest {
                k: 3 + 2 * index,
                threshold: (index % 2 == 0).then_some(threshold),
                selection,
                ..fixture.request(numbers(Spread::Even, 1 + 3 * index, 32, 10 + index as u64), 1)
            })
            .collect();
        fixture.check(&requests);
        let together = fixture.run(&requests);
        for (request, answer) in requests.iter().zip(together) {
            assert_eq!(fixture.run(std::slice::from_ref(request)), [answer], "a batch of n equals n batches of one");
        }
    }
}

#[test]
fn scattered_rows_are_gathered_and_ranked() {
    for metric in METRICS {
        for (spread, dim) in [(Spread::Even, 33), (Spread::Near, 96), (Spread::Few, 7)] {
            let rows = 15_000;
            let mut fixture = Fixture::new(metric, numbers(spread, rows, dim, 21), 2);
            fixture.delete(11);
            let listed = Selection::Rows(Arc::new((0..20_000).filter(|row| row % 7 < 3).collect()));
            for (queries, selection) in
                [(1, mask(rows, |row| row % 3 == 0)), (14, mask(rows, |row| row < 900)), (3, listed)]
            {
                let request = SearchRequest { selection, ..fixture.request(numbers(spread, queries, dim, 22), 10) };
                let passes = fixture.calls("search_scan");
                fixture.check(&[request]);
                assert_eq!(fixture.calls("search_scan"), passes + 1);
            }
        }
    }
}

#[test]
fn requests_share_a_pass_over_all_rows_if_that_reads_less() {
    let rows = 20_000;
    let mut fixture = Fixture::new(Metric::Dot, numbers(Spread::Even, rows, 16, 23), 2);
    let some = |every: usize| mask(rows, move |row| row % every == 0);
    // Passes over rows: a shared scan of all rows if gathering would cost more or a request needs all, else one per
    // request.
    for (selections, passes) in [
        (vec![some(2)], 1),
        (vec![some(3), some(4)], 2),
        (vec![some(2), some(2), some(3)], 1),
        (vec![Selection::All, some(2)], 1),
        (vec![Selection::All, some(4), some(50)], 2),
        (vec![some(1)], 1),
    ] {
        let request = |(index, selection)| SearchRequest {
            selection,
            ..fixture.request(numbers(Spread::Even, 12, 16, index), 10)
        };
        let requests: Vec<_> = (24_u64..).zip(selections).map(request).collect();
        let before = fixture.calls("search_scan");
        fixture.check(&requests);
        assert_eq!(fixture.calls("search_scan"), before + passes, "{} requests", requests.len());
    }
}

#[test]
fn a_threshold_is_inclusive() {
    for metric in METRICS {
        let mut fixture = Fixture::new(metric, numbers(Spread::Even, 900, 50, 11), 1);
        let queries = numbers(Spread::Even, 4, 50, 12);
        let whole = fixture.request(queries.clone(), 900);
        let ranked = fixture.expected(&whole);
        for rank in [0, 17, 899] {
            for k in [10, 900] {
                let threshold = Some(ranked[1][rank].score);
                let request = SearchRequest { threshold, ..fixture.request(queries.clone(), k) };
                fixture.check(std::slice::from_ref(&request));
                let found = fixture.run(&[request]).remove(0).lists[1].len();
                assert_eq!(found, k.min(rank + 1));
            }
        }
    }
}

/// Collects every offered bound.
struct All(Vec<(u32, f32)>);

impl Collector for All {
    fn pruning_threshold(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn offer(&mut self, row: u32, bound: f32) {
        self.0.push((row, bound));
    }

    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[test]
fn no_bound_of_any_instruction_set_is_below_its_score() {
    let worker = Worker::new(Pool::start(1).expect("a thread"));
    let spreads = [Spread::Even, Spread::Few, Spread::Near, Spread::Wild];
    for (spread, asked) in spreads.into_iter().flat_map(|a| spreads.map(|b| (a, b))) {
        for (metric, dim) in METRICS.into_iter().flat_map(|metric| [1, 17, 130, 768].map(|dim| (metric, dim))) {
            let rows = numbers(spread, 60, dim, 13);
            let queries = numbers(asked, 15, dim, 14);
            let rows = rows.as_f32();
            let queries = queries.as_f32();
            let table = Table::inline(&rows, 60, dim, metric);
            let queries: Vec<_> = queries.chunks(dim).map(|query| Query::new(query, 1, None, &Filter::All)).collect();
            for (isa, count) in Isa::all().into_iter().flat_map(|isa| [(isa, 5), (isa, 15)]) {
                let asked: Vec<_> = queries[..count].iter().collect();
                let offered = scan::scan(&table, None, &asked, &worker, isa, |_| All(vec![]));
                for (query, All(offered)) in asked.iter().zip(offered.expect("nothing cancels")) {
                    assert_eq!(offered.len(), 60, "minus infinity prunes nothing");
                    for (row, bound) in offered {
                        let row = &rows[row as usize * dim..][..dim];
                        let least = ranked_by(metric, query, row);
                        let holds = bound.is_nan() || f64::from(bound) >= least;
                        assert!(holds, "{isa:?} {metric:?} {spread:?} x {dim}: bound {bound:e}, score {least:e}");
                    }
                }
            }
        }
    }
}

/// The number that the scan bounds, up to the rounding of f64.
fn ranked_by(metric: Metric, query: &Query<'_>, row: &[f32]) -> f64 {
    let norms = query.squared_norm * f64_sums::squared_norm(row);
    match metric {
        Metric::Dot => f64_sums::dot(query.vector, row),
        Metric::SquaredL2 => f64_sums::dot(query.vector, row) - f64_sums::squared_norm(row) / 2.0,
        Metric::Cosine if norms == 0.0 => 0.0,
        Metric::Cosine => f64_sums::dot(query.vector, row) / norms.sqrt(),
    }
}

#[test]
fn the_pruning_threshold_of_a_score_admits_that_score() {
    let row = numbers(Spread::Even, 1, 40, 15);
    let row = row.as_f32();
    for metric in METRICS {
        for seed in 0..200 {
            let query = numbers(Spread::Even, 1, 40, 100 + seed);
            let query = query.as_f32();
            let query = Query::new(&query, 1, None, &Filter::All);
            let score = Table::inline(&row, 1, 40, metric).score(&query, 0).score;
            let threshold = bounds::pruning_threshold(metric, &query, score);
            assert!(f64::from(threshold) < ranked_by(metric, &query, &row), "{metric:?}");
        }
    }
}

#[test]
fn there_are_more_candidates_than_hits() {
    assert!([1, 16, 1000, 16_384].into_iter().all(|k| collectors::candidate_count(k) >= k + 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_search_equals_the_oracle(
        rows in prop_oneof![Just(1_usize), 30_usize..35, 1020_usize..1030, 1_usize..2500],
        dim in prop_oneof![Just(1_usize), Just(3), Just(127), 1_usize..70],
        queries in prop_oneof![1_usize..4, 11_usize..18, 45_usize..60],
        k in prop_oneof![1_usize..20, 1_usize..3000],
        metric in prop::sample::select(&METRICS[..]),
        spread in prop::sample::select(&[Spread::Even, Spread::Few, Spread::Near, Spread::Wild][..]),
        deleted in prop::option::of(1_usize..9),
        selected in prop::option::of(1_usize..50),
        threshold in prop::option::of(-1.0_f32..3.0),
        threads in 1_usize..4,
        seed in 0_u64..1000,
    ) {
        let mut fixture = Fixture::new(metric, numbers(spread, rows, dim, seed), threads);
        if let Some(every) = deleted {
            fixture.delete(every);
        }
        let selection = selected.map_or(Selection::All, |every| mask(rows, |row| row % every == 0));
        let queries = numbers(spread, queries, dim, seed + 1);
        let request = SearchRequest { threshold, selection, ..fixture.request(queries, k) };
        fixture.check(&[request]);
    }
}
