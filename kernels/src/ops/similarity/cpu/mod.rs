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
mod plan;
mod scan;
mod table;

#[cfg(test)]
mod tests;

use keep::{Candidates, Exact, Keeper};
use table::{Filter, Query, Table};

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
    let filters = plan::filters(table, asked);
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
    let (mut listed, mut scanned, mut gathered) = (vec![], vec![], vec![]);
    for (at, query) in queries.iter().enumerate() {
        match query.filter {
            Filter::Rows(_) => listed.push(at),
            Filter::All | Filter::Mask(_) => scanned.push(at),
            Filter::Gathered(_) => gathered.push(at),
        }
    }
    if !listed.is_empty() {
        let rows = listed.iter().map(|&at| queries[at].filter.rows().map_or(0, <[u32]>::len)).sum();
        let score = |at: usize| keep::listed(table, &queries[at]);
        place(&mut lists, &listed, score_each(pool, "search_direct", rows, listed.clone(), score));
    }
    if !scanned.is_empty() {
        Pass { table, queries, rows: None, pool }.run(&scanned, &mut lists);
    }
    // Queries of one request share its rows.
    for of in gathered.chunk_by(|&a, &b| std::ptr::eq(queries[a].filter, queries[b].filter)) {
        Pass { table, queries, rows: queries[of[0]].filter.rows(), pool }.run(of, &mut lists);
    }
    lists
}

/// Queries that are scanned for together.
struct Pass<'a> {
    table: &'a Table<'a>,
    queries: &'a [Query<'a>],
    /// The rows to scan, ascending; all where there is no list.
    rows: Option<&'a [u32]>,
    pool: &'a Pool,
}

impl Pass<'_> {
    /// Finds the hits of the queries `of`.
    fn run(&self, of: &[usize], lists: &mut [Vec<Hit>]) {
        let open = self.select(of, lists);
        if !open.is_empty() {
            self.select_again(&open, lists);
        }
    }

    fn scan<K: Keeper>(&self, asked: &[&Query<'_>], keeper: impl Fn(usize) -> K + Sync) -> Vec<K> {
        scan::scan(self.table, self.rows, asked, self.pool, Isa::best(), keeper)
    }

    /// Finds hits for the queries `of`, and returns those of them that could not be proved.
    fn select(&self, of: &[usize], lists: &mut [Vec<Hit>]) -> Vec<usize> {
        let (table, queries, pool) = (self.table, self.queries, self.pool);
        let asked: Vec<_> = of.iter().map(|&at| &queries[at]).collect();
        let candidates = pool.time_here("search_scan", || self.scan(&asked, |at| Candidates::new(table, asked[at])));
        let rows = asked.iter().map(|query| keep::kept(query.k)).sum();
        let proved = score_each(pool, "search_rescore", rows, candidates, Candidates::prove);
        let (hits, proved): (Vec<_>, Vec<_>) = proved.into_iter().unzip();
        place(lists, of, hits);
        of.iter().zip(proved).filter(|(_, proved)| !proved).map(|(&at, _)| at).collect()
    }

    /// Finds the hits of queries of which some hits are known.
    fn select_again(&self, of: &[usize], lists: &mut [Vec<Hit>]) {
        let (table, queries, pool) = (self.table, self.queries, self.pool);
        let asked: Vec<_> = of.iter().map(|&at| (&queries[at], &lists[at])).collect();
        let just_queries: Vec<_> = asked.iter().map(|(query, _)| *query).collect();
        let above = |at: usize| Exact::above(table, asked[at].0, asked[at].1);
        let found = pool.time_here("search_rescan", || self.scan(&just_queries, above));
        place(lists, of, pool.install(|| found.into_par_iter().map(Exact::finish).collect()));
    }
}

/// Scores rows of each query: few rows on this thread, which is done with them before another would have woken up.
fn score_each<T: Send, R: Send>(
    pool: &Pool,
    kernel: &'static str,
    rows: usize,
    queries: Vec<T>,
    score: impl Fn(T) -> R + Sync + Send,
) -> Vec<R> {
    if rows <= keep::GRAIN {
        return pool.time_here(kernel, || queries.into_iter().map(score).collect());
    }
    pool.time(kernel, || queries.into_par_iter().map(score).collect())
}

fn place(lists: &mut [Vec<Hit>], of: &[usize], hits: Vec<Vec<Hit>>) {
    of.iter().zip(hits).for_each(|(&at, hits)| lists[at] = hits);
}
