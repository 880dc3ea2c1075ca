//! Search on the CPU: an f32 scan that selects candidates by upper bounds, rescoring in f64, a certificate, and if it
//! fails a second scan.
//!
//! The scan computes for every row and query an upper bound of the row's score ([`bounds`]). The rows with the largest
//! bounds, somewhat more than k, are rescored in f64. If the k-th score beats the bound of every excluded row, the
//! result is certified. If not, a second scan rescores every row whose bound reaches the k-th score found so far; its
//! result needs no certificate. Other queries of the batch affect nothing but the time.

use self::{
    collectors::{Collector, TopCandidates, TopHits},
    table::{Filter, Query, QueryBatch, Table},
};
use super::request::{FindSimilarRequest, Hit, Hits, SearchRequest, Selection};
use crate::{
    OpError,
    cpu::{Worker, simd::Isa, slices::READ_COST},
    op::product,
};

mod bounds;
mod collectors;
mod plan;
mod scan;
mod table;

#[cfg(test)]
mod tests;

/// Searches a resident corpus, the same for the whole batch.
pub(super) fn search(batch: &[&SearchRequest], worker: &Worker) -> Result<Vec<Hits>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
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
    search_table(&table, &batches.collect::<Vec<_>>(), worker)
}

/// Searches inline corpora, one after the other.
pub(super) fn find_similar(batch: &[&FindSimilarRequest], worker: &Worker) -> Result<Vec<Hits>, OpError> {
    let search = |request: &&FindSimilarRequest| {
        let rows = request.corpus.as_f32();
        let queries = request.queries.as_f32();
        let table = Table::inline(&rows, request.corpus.rows(), request.corpus.cols(), request.metric);
        let batch = QueryBatch {
            queries: &queries,
            count: request.queries.rows(),
            k: request.k,
            threshold: request.threshold,
            selection: &Selection::All,
        };
        Ok(search_table(&table, &[batch], worker)?.pop().unwrap_or(Hits { lists: vec![] }))
    };
    batch.iter().map(search).collect()
}

/// Answers all requests of a batch together.
fn search_table(table: &Table<'_>, batches: &[QueryBatch<'_>], worker: &Worker) -> Result<Vec<Hits>, OpError> {
    let filters = plan::filters(table, batches);
    let queries: Vec<_> = batches
        .iter()
        .zip(&filters)
        .flat_map(|(batch, filter)| {
            (0..batch.count).map(|index| {
                let vector = &batch.queries[index * table.dim..][..table.dim];
                Query::new(vector, batch.k, batch.threshold, filter)
            })
        })
        .collect();
    let mut lists = search_queries(table, &queries, worker)?.into_iter();
    Ok(batches.iter().map(|batch| Hits { lists: lists.by_ref().take(batch.count).collect() }).collect())
}

/// The hits of each query.
fn search_queries(table: &Table<'_>, queries: &[Query<'_>], worker: &Worker) -> Result<Vec<Vec<Hit>>, OpError> {
    let mut lists = vec![vec![]; queries.len()];
    let mut direct = vec![];
    let mut scanned = vec![];
    let mut gathered = vec![];
    for (index, query) in queries.iter().enumerate() {
        match query.filter {
            Filter::Rows(_) => direct.push(index),
            Filter::All | Filter::Mask(_) => scanned.push(index),
            Filter::Gathered(_) => gathered.push(index),
        }
    }
    if !direct.is_empty() {
        let rows: Vec<_> = direct.iter().map(|&index| queries[index].filter.rows().map_or(0, <[u32]>::len)).collect();
        let score = |index: usize| collectors::score_selected(table, &queries[index]);
        let each = || score_each(worker, table.dim, &rows, direct.clone(), score);
        store(&mut lists, &direct, worker.pool().time_inline("search_direct", each)?);
    }
    if !scanned.is_empty() {
        Pass { table, queries, rows: None, worker }.run(&scanned, &mut lists)?;
    }
    // Queries of one request share its rows.
    for group in gathered.chunk_by(|&a, &b| std::ptr::eq(queries[a].filter, queries[b].filter)) {
        Pass { table, queries, rows: queries[group[0]].filter.rows(), worker }.run(group, &mut lists)?;
    }
    Ok(lists)
}

/// Queries that share a pass over the rows.
struct Pass<'a> {
    table: &'a Table<'a>,
    queries: &'a [Query<'a>],
    /// The rows to scan, ascending; all rows if `None`.
    rows: Option<&'a [u32]>,
    worker: &'a Worker,
}

impl Pass<'_> {
    /// Finds the hits of the queries `group`.
    fn run(&self, group: &[usize], lists: &mut [Vec<Hit>]) -> Result<(), OpError> {
        let uncertified = self.search(group, lists)?;
        if uncertified.is_empty() { Ok(()) } else { self.rescan(&uncertified, lists) }
    }

    /// Scans for groups of queries, sized so that the rows of one thread fit a slice.
    fn scan<C: Collector>(
        &self,
        kernel: &'static str,
        queries: &[&Query<'_>],
        collector: impl Fn(usize) -> C + Sync,
    ) -> Result<Vec<C>, OpError> {
        self.worker.pool().time_inline(kernel, || {
            let mut collectors = Vec::with_capacity(queries.len());
            for (pass, queries) in queries.chunks(scan::PASS_QUERIES).enumerate() {
                let collector = |index: usize| collector(pass * scan::PASS_QUERIES + index);
                collectors.extend(scan::scan(self.table, self.rows, queries, self.worker, Isa::best(), collector)?);
            }
            Ok(collectors)
        })
    }

    /// Scan, rescoring and certificate for the queries `group`; returns those whose certificate failed.
    fn search(&self, group: &[usize], lists: &mut [Vec<Hit>]) -> Result<Vec<usize>, OpError> {
        let table = self.table;
        let worker = self.worker;
        let queries: Vec<_> = group.iter().map(|&index| &self.queries[index]).collect();
        let candidates = self.scan("search_scan", &queries, |index| TopCandidates::new(table, queries[index]))?;
        let rows: Vec<_> = queries.iter().map(|query| collectors::candidate_count(query.k)).collect();
        let rescore = || score_each(worker, table.dim, &rows, candidates, TopCandidates::rescore);
        let rescored = worker.pool().time_inline("search_rescore", rescore)?;
        let (hits, certified): (Vec<_>, Vec<_>) = rescored.into_iter().unzip();
        store(lists, group, hits);
        Ok(group.iter().zip(certified).filter(|(_, certified)| !certified).map(|(&index, _)| index).collect())
    }

    /// Scans again for queries whose first hits are in `lists`.
    fn rescan(&self, group: &[usize], lists: &mut [Vec<Hit>]) -> Result<(), OpError> {
        let table = self.table;
        let queries: Vec<_> = group.iter().map(|&index| &self.queries[index]).collect();
        let known: Vec<_> = group.iter().map(|&index| &lists[index]).collect();
        let found =
            self.scan("search_rescan", &queries, |index| TopHits::better_than(table, queries[index], known[index]))?;
        let cost = |hits: &TopHits<'_>| READ_COST.saturating_mul(hits.len() as u64);
        store(lists, group, self.worker.map(found, cost, TopHits::finish)?);
        Ok(())
    }
}

/// Scores `rows` rows of each query. A small number of rows is scored on this thread, before another would have woken up.
fn score_each<T: Send, R: Send>(
    worker: &Worker,
    dim: usize,
    rows: &[usize],
    queries: Vec<T>,
    score: impl Fn(T) -> R + Sync + Send,
) -> Result<Vec<R>, OpError> {
    let cost = |rows: usize| READ_COST.saturating_mul(product([rows, dim]));
    let total = rows.iter().copied().fold(0, usize::saturating_add);
    // More rows of one query are distributed over the threads of the pool.
    let on_one_thread = rows.iter().all(|&rows| rows <= collectors::SCORE_GRAIN);
    if on_one_thread && (total <= collectors::SCORE_GRAIN || worker.runs_inline(cost(total))) {
        return Ok(queries.into_iter().map(score).collect());
    }
    let queries = queries.into_iter().zip(rows).collect();
    worker.map(queries, |(_, rows)| cost(**rows).max(1), |(query, _)| score(query))
}

fn store(lists: &mut [Vec<Hit>], group: &[usize], hits: Vec<Vec<Hit>>) {
    group.iter().zip(hits).for_each(|(&index, hits)| lists[index] = hits);
}
