//! Search on the CPU: a scan in f32 that selects by upper bounds, a rescoring in f64, a proof, and where the proof fails a
//! second scan.
//!
//! The scan computes for every row and query a number that is provably not below the row's score ([`bound`]). The rows
//! with the largest of these numbers, some more than k, are scored in f64. If the k-th score then beats every number that
//! the scan excluded, the answer is proved. If not, a second scan scores every row whose number reaches the k-th score so
//! far, and needs no proof. Nothing depends on the other queries of the batch but time.

use rayon::prelude::*;

use super::{FindSimilarRequest, Hit, Hits, Metric, SearchRequest, Selection, View};
use crate::cpu::{Pool, Worker, exact, simd::Isa};

mod bound;
mod keep;
mod scan;
mod table;

#[cfg(test)]
mod tests;

use keep::{Candidates, Exact};
use table::{Query, Table};

/// A mask that selects fewer than one row in so many is turned into a list of rows.
const SPARSE: usize = 32;

/// Searches a resident corpus, which is the same for the whole batch.
pub(super) fn search(batch: &[&SearchRequest], worker: &Worker) -> Vec<Hits> {
    let Some(first) = batch.first() else { return vec![] };
    let view = first.corpus.view();
    let table = Table::resident(&view, first.corpus.metric());
    let queries: Vec<_> = batch.iter().map(|request| request.queries.as_f32()).collect();
    let asked = batch.iter().zip(&queries).map(|(request, queries)| Asked {
        queries,
        count: request.queries.rows(),
        k: request.k,
        threshold: request.threshold,
        selection: &request.selection,
    });
    answer(&table, &asked.collect::<Vec<_>>(), worker.pool())
}

/// Searches inline corpora, one after the other.
pub(super) fn find_similar(batch: &[&FindSimilarRequest], worker: &Worker) -> Vec<Hits> {
    let one = |request: &&FindSimilarRequest| {
        let (rows, queries) = (request.corpus.as_f32(), request.queries.as_f32());
        let table = Table::inline(&rows, request.corpus.rows(), request.corpus.cols(), request.metric);
        let asked = Asked {
            queries: &queries,
            count: request.queries.rows(),
            k: request.k,
            threshold: request.threshold,
            selection: &Selection::All,
        };
        answer(&table, &[asked], worker.pool()).pop().unwrap_or(Hits { lists: vec![] })
    };
    batch.iter().map(one).collect()
}

/// What one request asks.
struct Asked<'a> {
    queries: &'a [f32],
    count: usize,
    k: usize,
    threshold: Option<f32>,
    selection: &'a Selection,
}

/// Answers all requests in one scan.
fn answer(table: &Table<'_>, asked: &[Asked<'_>], pool: &Pool) -> Vec<Hits> {
    let filters: Vec<_> = asked.iter().map(|asked| table.filter(asked.selection, asked.k)).collect();
    let queries: Vec<_> = asked
        .iter()
        .zip(&filters)
        .flat_map(|(asked, filter)| {
            (0..asked.count).map(|at| {
                let vector = &asked.queries[at * table.dim..][..table.dim];
                Query::new(vector, asked.k, asked.threshold, filter)
            })
        })
        .collect();
    let mut lists = rank(table, &queries, pool).into_iter();
    asked.iter().map(|asked| Hits { lists: lists.by_ref().take(asked.count).collect() }).collect()
}

/// The hits of each query.
fn rank(table: &Table<'_>, queries: &[Query<'_>], pool: &Pool) -> Vec<Vec<Hit>> {
    let mut lists = vec![vec![]; queries.len()];
    let (listed, scanned): (Vec<_>, Vec<_>) = (0..queries.len()).partition(|&at| queries[at].filter.rows().is_some());
    if !listed.is_empty() {
        let found =
            pool.time("search_direct", || listed.par_iter().map(|&at| keep::listed(table, &queries[at])).collect());
        place(&mut lists, &listed, found);
    }
    if !scanned.is_empty() {
        let open = select(table, queries, &scanned, &mut lists, pool);
        if !open.is_empty() {
            select_again(table, queries, &open, &mut lists, pool);
        }
    }
    lists
}

/// Finds hits for the queries `of`, and returns those of them that could not be proved.
fn select(table: &Table<'_>, queries: &[Query<'_>], of: &[usize], lists: &mut [Vec<Hit>], pool: &Pool) -> Vec<usize> {
    let asked: Vec<_> = of.iter().map(|&at| &queries[at]).collect();
    let candidates = pool.time("search_scan", || {
        scan::scan(table, &asked, pool.threads(), Isa::best(), |at| Candidates::new(table, asked[at]))
    });
    let prove = || candidates.into_par_iter().map(Candidates::prove).unzip();
    let (hits, proved): (Vec<_>, Vec<_>) = pool.time("search_rescore", prove);
    place(lists, of, hits);
    of.iter().zip(proved).filter(|(_, proved)| !proved).map(|(&at, _)| at).collect()
}

/// Finds the hits of queries of which some hits are known.
fn select_again(table: &Table<'_>, queries: &[Query<'_>], of: &[usize], lists: &mut [Vec<Hit>], pool: &Pool) {
    let asked: Vec<_> = of.iter().map(|&at| (&queries[at], &lists[at])).collect();
    let just_queries: Vec<_> = asked.iter().map(|(query, _)| *query).collect();
    let hits = pool.time("search_rescan", || {
        let above = |at: usize| Exact::above(table, asked[at].0, asked[at].1);
        let found = scan::scan(table, &just_queries, pool.threads(), Isa::best(), above);
        found.into_par_iter().map(Exact::finish).collect()
    });
    place(lists, of, hits);
}

fn place(lists: &mut [Vec<Hit>], of: &[usize], hits: Vec<Vec<Hit>>) {
    of.iter().zip(hits).for_each(|(&at, hits)| lists[at] = hits);
}
