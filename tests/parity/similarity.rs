//! Search against the oracle's ranking in f64: every plan returns the same rows in the same order.

use std::sync::Arc;

use accelerd_kernels::{
    Backend, Matrix,
    ops::similarity::{
        Corpus, FindSimilar, FindSimilarRequest, Hit, Hits, Metric, Search, SearchRequest, Selection, Storage, oracle,
    },
};
use accelerd_parity::{random, run_batch, with_outliers, within_ulps};
use rand::Rng;

use super::Case;

const METRICS: [(Metric, &str); 3] =
    [(Metric::Cosine, "cosine"), (Metric::Dot, "dot"), (Metric::SquaredL2, "squared_l2")];
const STORAGES: [(Storage, &str); 4] =
    [(Storage::F32, "f32"), (Storage::F16, "f16"), (Storage::Bf16, "bf16"), (Storage::I8, "i8")];

/// Rows, columns, queries, k: around warp and block edges, then for each search plan.
const SHAPES: [(usize, usize, usize, usize, &str); 12] = [
    (1, 1, 1, 1, "one_number"),
    (31, 3, 2, 5, "few_rows"),
    (33, 127, 33, 33, "all_rows"),
    (1025, 768, 1, 10, "one_query"),
    (1025, 64, 9, 256, "nine_queries"),
    (5000, 100, 31, 1000, "large_k"),
    (20_000, 32, 1, 16_384, "largest_k"),
    (70_001, 48, 17, 10, "filter_path"),
    (100_003, 65, 130, 100, "filter_path_ragged"),
    (200_000, 16, 300, 10, "many_queries"),
    (150_000, 128, 8, 10, "eight_queries"),
    (66_000, 256, 64, 1024, "filter_path_large_k"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("search::requests_without_queries_only_upload", warm),
        Case::new("search::ties_go_to_the_lowest_row", ties),
        Case::new("search::near_ties_below_bf16_are_ranked", near_ties),
        Case::new("search::rows_appended_and_deleted_between_searches", growth),
        Case::new("search::requests_of_a_batch_keep_their_own_k_mask_and_threshold", mixed_batch),
        Case::new("search::zero_rows_and_zero_queries", zeros),
        Case::new("search::huge_and_tiny_rows", scales),
        Case::new("search::selection_of_rows", row_list),
        Case::new("search::threshold_is_inclusive", threshold),
    ];
    for (metric, metric_name) in METRICS {
        for (rows, dim, queries, k, shape) in SHAPES {
            cases.push(Case::new(format!("find_similar::{shape}_{metric_name}"), move |backend| {
                inline(backend, metric, [rows, dim, queries, k])
            }));
            for (storage, storage_name) in STORAGES {
                cases.push(Case::new(format!("search::{shape}_{metric_name}_{storage_name}"), move |backend| {
                    let fixture = Fixture::new(backend, metric, storage, dim, numbers(rows, dim, 1));
                    fixture.check(backend, &[fixture.request(numbers(queries, dim, 2), k)])
                }));
            }
        }
    }
    cases
}

/// A corpus with the state that the oracle needs.
struct Fixture {
    corpus: Arc<Corpus>,
    rows: Matrix,
    deleted: Vec<u32>,
}

impl Fixture {
    fn new(on: &Backend, metric: Metric, storage: Storage, dim: usize, rows: Matrix) -> Self {
        let corpus = Corpus::new(dim, metric, storage, on.device());
        corpus.append(&rows);
        Self { corpus, rows, deleted: vec![] }
    }

    fn request(&self, queries: Matrix, k: usize) -> SearchRequest {
        SearchRequest { corpus: Arc::clone(&self.corpus), queries, k, threshold: None, selection: Selection::All }
    }

    fn check(&self, backend: &mut Backend, requests: &[SearchRequest]) -> Result<(), String> {
        let answers = run_batch::<Search>(requests, backend).map_err(|e| e.to_string())?;
        for (index, (request, answer)) in requests.iter().zip(&answers).enumerate() {
            let allowed = |row: u32| self.allows(&request.selection, row);
            let expected = oracle::search(
                &request.queries,
                &self.rows,
                self.corpus.metric(),
                request.k,
                request.threshold,
                allowed,
            );
            same(&expected, answer).map_err(|e| format!("request {index}: {e}"))?;
        }
        Ok(())
    }

    fn allows(&self, selection: &Selection, row: u32) -> bool {
        let selected = match selection {
            Selection::All => true,
            Selection::Mask(words) => words.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1),
            Selection::Rows(rows) => rows.binary_search(&row).is_ok(),
        };
        selected && !self.deleted.contains(&row)
    }
}

fn numbers(rows: usize, cols: usize, seed: u64) -> Matrix {
    let data = with_outliers(&mut random(seed + 31 * rows as u64 + cols as u64), rows * cols);
    Matrix::from_vec(rows, cols, data).expect("the data was made for this shape")
}

fn same(expected: &[Vec<Hit>], got: &Hits) -> Result<(), String> {
    if expected.len() != got.lists.len() {
        return Err(format!("{} lists expected, got {}", expected.len(), got.lists.len()));
    }
    for (query, (want, got)) in expected.iter().zip(&got.lists).enumerate() {
        if want.len() != got.len() {
            return Err(format!("query {query}: {} hits expected, got {}", want.len(), got.len()));
        }
        for (rank, (w, g)) in want.iter().zip(got).enumerate() {
            if w.row != g.row || !within_ulps(w.score, g.score, 1) {
                return Err(format!("query {query}, rank {rank}: expected {w:?}, got {g:?}"));
            }
        }
    }
    Ok(())
}

fn inline(backend: &mut Backend, metric: Metric, [rows, dim, queries, k]: [usize; 4]) -> Result<(), String> {
    let queries = numbers(queries, dim, 3);
    let corpus = numbers(rows, dim, 4);
    let expected = oracle::search(&queries, &corpus, metric, k, None, |_| true);
    let request = FindSimilarRequest { queries, corpus, metric, k, threshold: None };
    let answer = run_batch::<FindSimilar>(&[request], backend).map_err(|e| e.to_string())?;
    same(&expected, &answer[0])
}

fn warm(backend: &mut Backend) -> Result<(), String> {
    let fixture = Fixture::new(backend, Metric::Cosine, Storage::Bf16, 24, numbers(500, 24, 5));
    fixture.check(backend, &[fixture.request(numbers(0, 24, 5), 3)])
}

fn ties(backend: &mut Backend) -> Result<(), String> {
    let one = numbers(1, 40, 6);
    let repeated = Matrix::from_vec(3000, 40, one.as_f32().repeat(3000)).expect("3000 copies of a row");
    for (metric, _) in METRICS {
        let fixture = Fixture::new(backend, metric, Storage::I8, 40, repeated.clone());
        fixture.check(backend, &[fixture.request(numbers(12, 40, 7), 37)])?;
    }
    Ok(())
}

/// Rows that differ by far less than bfloat16 resolves, so that only rescoring can rank them.
fn near_ties(backend: &mut Backend) -> Result<(), String> {
    let rows = 80_000;
    let dim = 96;
    let base = numbers(1, dim, 8);
    let base = base.as_f32();
    let mut random = random(8);
    let data = (0..rows * dim).map(|i| base[i % dim] * (1.0 + random.random_range(-1e-5_f32..1e-5))).collect();
    let data = Matrix::from_vec(rows, dim, data).expect("the data was made for this shape");
    for (metric, _) in METRICS {
        for (storage, _) in STORAGES {
            let fixture = Fixture::new(backend, metric, storage, dim, data.clone());
            for queries in [1, 20] {
                fixture.check(backend, &[fixture.request(numbers(queries, dim, 9), 10)])?;
            }
        }
    }
    Ok(())
}

fn growth(backend: &mut Backend) -> Result<(), String> {
    let dim = 36;
    let mut fixture = Fixture::new(backend, Metric::SquaredL2, Storage::Bf16, dim, numbers(10, dim, 10));
    for round in 0..6_usize {
        fixture.check(backend, &[fixture.request(numbers(3, dim, 11), 7), fixture.request(numbers(20, dim, 12), 9)])?;
        let more = numbers(7 << (2 * round), dim, 13 + round as u64);
        let first = fixture.corpus.append(&more) as usize;
        if first != fixture.rows.rows() {
            return Err(format!("row {} expected for the first appended, got {first}", fixture.rows.rows()));
        }
        let all = [fixture.rows.as_f32().as_ref(), more.as_f32().as_ref()].concat();
        fixture.rows = Matrix::from_vec(first + more.rows(), dim, all).expect("rows follow rows");
        let deleted: Vec<u32> = (0_u32..).take(fixture.rows.rows()).filter(|row| *row as usize % 11 == round).collect();
        fixture.corpus.delete(&deleted);
        fixture.deleted.extend(deleted);
    }
    fixture.check(backend, &[fixture.request(numbers(40, dim, 14), 16)])
}

fn mask(rows: usize, keep: impl Fn(usize) -> bool) -> Selection {
    let mut words = vec![0_u32; rows.div_ceil(32)];
    (0..rows).filter(|row| keep(*row)).for_each(|row| words[row / 32] |= 1 << (row % 32));
    Selection::Mask(Arc::new(words))
}

fn mixed_batch(backend: &mut Backend) -> Result<(), String> {
    let rows = 90_000;
    let dim = 32;
    let fixture = Fixture::new(backend, Metric::Cosine, Storage::Bf16, dim, numbers(rows, dim, 15));
    let selections = [
        Selection::All,
        mask(rows, |row| row % 3 == 0),
        mask(50_000, |row| row % 1000 == 7),
        mask(rows, |_| false),
        mask(rows, |row| row == 89_999),
    ];
    let requests = selections.into_iter().enumerate().map(|(index, selection)| SearchRequest {
        k: 3 + index,
        threshold: (index % 2 == 1).then_some(0.25),
        selection,
        ..fixture.request(numbers(1 + 3 * index, dim, 16 + index as u64), 1)
    });
    fixture.check(backend, &requests.collect::<Vec<_>>())
}

fn zeros(backend: &mut Backend) -> Result<(), String> {
    let mut data = numbers(300, 20, 17).as_f32().into_owned();
    data[..60].fill(0.0);
    data[2000..2020].fill(0.0);
    let queries = [numbers(1, 20, 18).as_f32().as_ref(), &[0.0; 20]].concat();
    for (metric, _) in METRICS {
        for (storage, _) in STORAGES {
            let rows = Matrix::from_vec(300, 20, data.clone()).expect("300 rows");
            let fixture = Fixture::new(backend, metric, storage, 20, rows);
            let queries = Matrix::from_vec(2, 20, queries.clone()).expect("two queries");
            fixture.check(backend, &[fixture.request(queries, 300)])?;
        }
    }
    Ok(())
}

fn scales(backend: &mut Backend) -> Result<(), String> {
    let rows = 70_000;
    let dim = 24;
    let mut data = numbers(rows, dim, 19).as_f32().into_owned();
    for (row, values) in data.chunks_mut(dim).enumerate() {
        let scale = [1.0, 1e-12, 1e12, 1e-30, 3e15][row % 5];
        for value in values {
            *value *= scale;
        }
    }
    let data = Matrix::from_vec(rows, dim, data).expect("the data was made for this shape");
    for (metric, _) in METRICS {
        for (storage, _) in STORAGES {
            let fixture = Fixture::new(backend, metric, storage, dim, data.clone());
            for queries in [2, 12] {
                fixture.check(backend, &[fixture.request(numbers(queries, dim, 20), 10)])?;
            }
        }
    }
    Ok(())
}

fn row_list(backend: &mut Backend) -> Result<(), String> {
    let mut fixture = Fixture::new(backend, Metric::Dot, Storage::F16, 33, numbers(4000, 33, 21));
    fixture.deleted = vec![40, 80];
    fixture.corpus.delete(&fixture.deleted);
    let lists = [vec![], vec![5], (0..4000).step_by(40).collect(), (0..4000).collect::<Vec<u32>>()];
    let requests = lists.into_iter().map(|rows| SearchRequest {
        selection: Selection::Rows(Arc::new(rows)),
        ..fixture.request(numbers(3, 33, 22), 50)
    });
    fixture.check(backend, &requests.collect::<Vec<_>>())
}

fn threshold(backend: &mut Backend) -> Result<(), String> {
    let queries = numbers(4, 50, 23);
    let rows = numbers(900, 50, 24);
    for (metric, _) in METRICS {
        let exact = oracle::search(&queries, &rows, metric, 900, None, |_| true);
        let fixture = Fixture::new(backend, metric, Storage::Bf16, 50, rows.clone());
        for rank in [0, 17, 899] {
            let request =
                SearchRequest { threshold: Some(exact[1][rank].score), ..fixture.request(queries.clone(), 900) };
            fixture.check(backend, &[request])?;
        }
    }
    Ok(())
}
