//! Search on the CPU: an f32 scan that selects candidates by upper bounds, rescoring in f64, a certificate, and if it
//! fails a second scan.
//!
//! The scan computes for every row and query an upper bound of the row's score ([`bounds`]). The rows with the largest
//! bounds, somewhat more than k, are rescored in f64. If the k-th score beats the bound of every excluded row, the
//! result is certified. If not, a second scan rescores every row whose bound reaches the k-th score found so far; its
//! result needs no certificate. Other queries of the batch affect nothing but the time.

use rayon::prelude::*;

use self::{
    collectors::{Collector, TopCandidates, TopHits},
    table::{Filter, Query, QueryBatch, Table},
};
use super::request::{FindSimilarRequest, Hit, Hits, SearchRequest, Selection};
use crate::cpu::{Pool, Worker, simd::Isa};

mod bounds;
mod collectors;
mod plan;
mod scan;
mod table;

#[cfg(test)]
mod tests;

/// Searches a resident corpus, the same for the whole batch.
pub(super) fn search(batch: &[&SearchRequest], worker: &Worker) -> Vec<Hits> {
    let Some(first) = batch.first() else { return vec![] };
    let view = first.corpus.view();
    let table = Table::resident(&view, first.corpus.metric());
    let queries: Vec<_> = batch.iter().map(|request| request.queries.as_f32()).collect();
    let batches = batch.iter().zip(&queries).map(|(request, queries)| QueryBatch {
        queries,
        count: request.queries.rows(),
        k: request.k,
        threshold: request.threshold,
        selection: &request.selection,
    });
    search_table(&table, &batches.collect::<Vec<_>>(), worker.pool())
}

/// Searches inline corpora, one after the other.
pub(super) fn find_similar(batch: &[&FindSimilarRequest], worker: &Worker) -> Vec<Hits> {
    let one = |request: &&FindSimilarRequest| {
        let (rows, queries) = (request.corpus.as_f32(), request.queries.as_f32());
        let table = Table::inline(&rows, request.corpus.rows(), request.corpus.cols(), request.metric);
        let batch = QueryBatch {
            queries: &queries,
            count: request.queries.rows(),
            k: request.k,
            threshold: request.threshold,
            selection: &Selection::All,
        };
        search_table(&table, &[batch], worker.pool()).pop().unwrap_or(Hits { lists: vec![] })
    };
    batch.iter().map(one).collect()
}

/// Answers all requests of a batch together.
fn search_table(table: &Table<'_>, batches: &[QueryBatch<'_>], pool: &Pool) -> Vec<Hits> {
    let filters = plan::filters(table, batches);
    let queries: Vec<_> = batches
        .iter()
        .zip(&filters)
        .flat_map(|(batch, filter)| {
            (0..batch.count).map(|at| {
                let vector = &batch.queries[at * table.dim..][..table.dim];
                Query::new(vector, batch.k, batch.threshold, filter)
            })
        })
        .collect();
    let mut lists = search_queries(table, &queries, pool).into_iter();
    batches.iter().map(|batch| Hits { lists: lists.by_ref().take(batch.count).collect() }).collect()
}

/// The hits of each query.
fn search_queries(table: &Table<'_>, queries: &[Query<'_>], pool: &Pool) -> Vec<Vec<Hit>> {
    let mut lists = vec![vec![]; queries.len()];
    let (mut direct, mut scanned, mut gathered) = (vec![], vec![], vec![]);
    for (at, query) in queries.iter().enumerate() {
        match query.filter {
            Filter::Rows(_) => direct.push(at),
            Filter::All | Filter::Mask(_) => scanned.push(at),
            Filter::Gathered(_) => gathered.push(at),
        }
    }
    if !direct.is_empty() {
        let rows = direct.iter().map(|&at| queries[at].filter.rows().map_or(0, <[u32]>::len)).sum();
        let score = |at: usize| collectors::score_selected(table, &queries[at]);
        store(&mut lists, &direct, score_each(pool, "search_direct", rows, direct.clone(), score));
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

/// Queries that share a pass over the rows.
struct Pass<'a> {
    table: &'a Table<'a>,
    queries: &'a [Query<'a>],
    /// The rows to scan, ascending; all rows if `None`.
    rows: Option<&'a [u32]>,
    pool: &'a Pool,
}

impl Pass<'_> {
    /// Finds the hits of the queries `of`.
    fn run(&self, of: &[usize], lists: &mut [Vec<Hit>]) {
        let uncertified = self.search(of, lists);
        if !uncertified.is_empty() {
            self.rescan(&uncertified, lists);
        }
    }

    fn scan<C: Collector>(&self, queries: &[&Query<'_>], collector: impl Fn(usize) -> C + Sync) -> Vec<C> {
        scan::scan(self.table, self.rows, queries, self.pool, Isa::best(), collector)
    }

    /// Scan, rescoring and certificate for the queries `of`; returns those whose certificate failed.
    fn search(&self, of: &[usize], lists: &mut [Vec<Hit>]) -> Vec<usize> {
        let (table, pool) = (self.table, self.pool);
        let queries: Vec<_> = of.iter().map(|&at| &self.queries[at]).collect();
        let scan = || self.scan(&queries, |at| TopCandidates::new(table, queries[at]));
        let candidates = pool.time_inline("search_scan", scan);
        let rows = queries.iter().map(|query| collectors::candidate_count(query.k)).sum();
        let rescored = score_each(pool, "search_rescore", rows, candidates, TopCandidates::rescore);
        let (hits, certified): (Vec<_>, Vec<_>) = rescored.into_iter().unzip();
        store(lists, of, hits);
        of.iter().zip(certified).filter(|(_, certified)| !certified).map(|(&at, _)| at).collect()
    }

    /// Scans again for queries whose first hits are in `lists`.
    fn rescan(&self, of: &[usize], lists: &mut [Vec<Hit>]) {
        let (table, pool) = (self.table, self.pool);
        let queries: Vec<_> = of.iter().map(|&at| &self.queries[at]).collect();
        let known: Vec<_> = of.iter().map(|&at| &lists[at]).collect();
        let scan = || self.scan(&queries, |at| TopHits::better_than(table, queries[at], known[at]));
        let found = pool.time_inline("search_rescan", scan);
        store(lists, of, pool.install(|| found.into_par_iter().map(TopHits::finish).collect()));
    }
}

/// Scores the rows of each query. A small number of rows is scored on this thread, before another would have woken up.
fn score_each<T: Send, R: Send>(
    pool: &Pool,
    kernel: &'static str,
    rows: usize,
    queries: Vec<T>,
    score: impl Fn(T) -> R + Sync + Send,
) -> Vec<R> {
    if rows <= collectors::SCORE_GRAIN {
        return pool.time_inline(kernel, || queries.into_iter().map(score).collect());
    }
    pool.time(kernel, || queries.into_par_iter().map(score).collect())
}

fn store(lists: &mut [Vec<Hit>], of: &[usize], hits: Vec<Vec<Hit>>) {
    of.iter().zip(hits).for_each(|(&at, hits)| lists[at] = hits);
}
