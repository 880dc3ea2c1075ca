//! Collectors of a scan: the candidates of the first pass, and the hits of a second one.

use rayon::prelude::*;

use super::{
    bounds,
    table::{Query, Table},
};
use crate::ops::similarity::request::Hit;

/// Collects the rows of one query that reach its pruning threshold.
pub(super) trait Collector: Send + Sized {
    /// Rows are offered only if their bound exceeds this. Never decreases.
    fn pruning_threshold(&self) -> f32;
    /// Takes a row and the upper bound of its score; NaN counts as infinite.
    fn offer(&mut self, row: u32, bound: f32);
    /// Merges the rows that another thread of the scan collected.
    fn merge(&mut self, other: Self);
}

/// The number of candidates for k hits: enough that a certificate rarely fails for want of candidates.
pub(super) fn candidate_count(k: usize) -> usize {
    k + k / 16 + 16
}

/// The rows with the largest upper bounds.
pub(super) struct TopCandidates<'a> {
    table: &'a Table<'a>,
    query: &'a Query<'a>,
    /// Bounds and rows; pruned to [`candidate_count`] when there are twice as many.
    found: Vec<(f32, u32)>,
    /// No row that was left out has a bound above this.
    pruning_threshold: f32,
}

impl<'a> TopCandidates<'a> {
    pub(super) fn new(table: &'a Table<'a>, query: &'a Query<'a>) -> Self {
        Self { table, query, found: vec![], pruning_threshold: score_threshold_bound(table, query) }
    }

    /// The best k of the candidates, and the certificate: whether no other row can be among the best.
    pub(super) fn rescore(mut self) -> (Vec<Hit>, bool) {
        self.prune();
        let rows: Vec<u32> = self.found.iter().map(|&(_, row)| row).collect();
        let hits = score_all(self.table, self.query, &rows);
        let required = match hits.last() {
            Some(last) if hits.len() == self.query.k => {
                bounds::pruning_threshold(self.table.metric, self.query, last.score)
            }
            _ => score_threshold_bound(self.table, self.query),
        };
        // A NaN, which a NaN as the score threshold causes, certifies nothing.
        (hits, self.pruning_threshold <= required)
    }

    fn prune(&mut self) {
        let count = candidate_count(self.query.k);
        if self.found.len() > count {
            let (_, &mut (last, _), _) = self.found.select_nth_unstable_by(count - 1, |a, b| b.0.total_cmp(&a.0));
            self.found.truncate(count);
            self.pruning_threshold = self.pruning_threshold.max(last);
        }
    }
}

impl Collector for TopCandidates<'_> {
    fn pruning_threshold(&self) -> f32 {
        self.pruning_threshold
    }

    fn offer(&mut self, row: u32, bound: f32) {
        if !self.table.matches(self.query, row) {
            return;
        }
        self.found.push((if bound.is_nan() { f32::INFINITY } else { bound }, row));
        if self.found.len() == 2 * candidate_count(self.query.k) {
            self.prune();
        }
    }

    fn merge(&mut self, other: Self) {
        self.pruning_threshold = self.pruning_threshold.max(other.pruning_threshold);
        self.found.extend(other.found);
        self.prune();
    }
}

/// The best rows by score: every offered row is scored at once.
pub(super) struct TopHits<'a> {
    table: &'a Table<'a>,
    query: &'a Query<'a>,
    hits: Vec<Hit>,
    /// A row whose bound is at most this is worse than k others, or fails the score threshold.
    pruning_threshold: f32,
}

impl<'a> TopHits<'a> {
    /// Prunes from the start by hits that are already known.
    pub(super) fn better_than(table: &'a Table<'a>, query: &'a Query<'a>, hits: &[Hit]) -> Self {
        let pruning_threshold = match hits.last() {
            Some(last) if hits.len() == query.k => bounds::pruning_threshold(table.metric, query, last.score),
            _ => score_threshold_bound(table, query),
        };
        Self { table, query, hits: vec![], pruning_threshold }
    }

    /// The number of hits so far.
    pub(super) fn len(&self) -> usize {
        self.hits.len()
    }

    /// The best k, best first.
    pub(super) fn finish(mut self) -> Vec<Hit> {
        select_top_k(self.table, self.query, &mut self.hits);
        self.hits
    }

    fn prune(&mut self) {
        select_top_k(self.table, self.query, &mut self.hits);
        if let Some(last) = self.hits.last().filter(|_| self.hits.len() == self.query.k) {
            let threshold = bounds::pruning_threshold(self.table.metric, self.query, last.score);
            self.pruning_threshold = self.pruning_threshold.max(threshold);
        }
    }
}

impl Collector for TopHits<'_> {
    fn pruning_threshold(&self) -> f32 {
        self.pruning_threshold
    }

    fn offer(&mut self, row: u32, _bound: f32) {
        if !self.table.matches(self.query, row) {
            return;
        }
        let hit = self.table.score(self.query, row);
        if self.query.admits(self.table.metric, hit.score) {
            self.hits.push(hit);
        }
        if self.hits.len() == 2 * candidate_count(self.query.k) {
            self.prune();
        }
    }

    fn merge(&mut self, other: Self) {
        self.pruning_threshold = self.pruning_threshold.max(other.pruning_threshold);
        self.hits.extend(other.hits);
        self.prune();
    }
}

/// The hits of a query whose filter lists its rows.
pub(super) fn score_selected(table: &Table<'_>, query: &Query<'_>) -> Vec<Hit> {
    let rows = query.filter.rows().unwrap_or_default();
    let existing = &rows[..rows.partition_point(|&row| (row as usize) < table.len)];
    let matching: Vec<u32> = existing.iter().copied().filter(|&row| table.matches(query, row)).collect();
    score_all(table, query, &matching)
}

/// Rows that one task scores.
pub(super) const SCORE_GRAIN: usize = 256;

/// The best k of the rows.
fn score_all(table: &Table<'_>, query: &Query<'_>, rows: &[u32]) -> Vec<Hit> {
    let score = |part: &[u32]| {
        // The rows are scattered: prefetch the next one while this one is scored.
        let next = part.iter().skip(1).map(Some).chain([None]);
        let scored = part.iter().zip(next).map(|(&row, next)| {
            next.inspect(|&&next| table.prefetch(next));
            table.score(query, row)
        });
        scored.filter(|hit| query.admits(table.metric, hit.score)).collect::<Vec<_>>()
    };
    let mut hits = if rows.len() <= SCORE_GRAIN {
        score(rows)
    } else {
        rows.par_chunks(SCORE_GRAIN).flat_map_iter(score).collect()
    };
    select_top_k(table, query, &mut hits);
    hits
}

/// Reduces hits to the best k, best first.
fn select_top_k(table: &Table<'_>, query: &Query<'_>, hits: &mut Vec<Hit>) {
    let order = |a: &Hit, b: &Hit| table.metric.compare(a.score, b.score).then(a.row.cmp(&b.row));
    if hits.len() > query.k {
        hits.select_nth_unstable_by(query.k, order);
        hits.truncate(query.k);
    }
    hits.sort_unstable_by(order);
}

/// The largest bound that proves a row to fail the query's score threshold.
fn score_threshold_bound(table: &Table<'_>, query: &Query<'_>) -> f32 {
    let bound = |threshold| bounds::pruning_threshold(table.metric, query, threshold);
    query.threshold.map_or(f32::NEG_INFINITY, bound)
}
