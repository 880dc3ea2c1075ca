//! What a scan keeps of the rows that reach its bar.

use rayon::prelude::*;

use super::{
    Hit, bound,
    table::{Query, Table},
};

/// Takes the rows of one query that a scan offers.
pub(super) trait Keeper: Send + Sized {
    /// What the next row's bound must exceed to be offered. Never falls.
    fn bar(&self) -> f32;
    /// Takes a row and the bound of its score; a NaN counts as infinite.
    fn offer(&mut self, row: u32, bound: f32);
    /// Takes what another part of the scan kept.
    fn merge(&mut self, other: Self);
}

/// How many candidates are kept for k hits: enough that their number rarely is what the proof fails for.
pub(super) fn kept(k: usize) -> usize {
    k + k / 16 + 16
}

/// The rows with the largest bounds.
pub(super) struct Candidates<'a> {
    table: &'a Table<'a>,
    query: &'a Query<'a>,
    /// Bounds and rows; cut back to those that are kept when there are twice as many.
    found: Vec<(f32, u32)>,
    /// No row that was left out has a bound above this.
    bar: f32,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(table: &'a Table<'a>, query: &'a Query<'a>) -> Self {
        Self { table, query, found: vec![], bar: threshold_floor(table, query) }
    }

    /// The best k of the candidates, and whether no other row can be among the best.
    pub(super) fn prove(mut self) -> (Vec<Hit>, bool) {
        self.cut();
        let rows: Vec<u32> = self.found.iter().map(|&(_, row)| row).collect();
        let hits = score_all(self.table, self.query, &rows);
        let floor = match hits.last() {
            Some(last) if hits.len() == self.query.k => bound::floor(self.table.metric, self.query, last.score),
            _ => threshold_floor(self.table, self.query),
        };
        // A bar of NaN, from a threshold of NaN, proves nothing.
        (hits, self.bar <= floor)
    }

    fn cut(&mut self) {
        let kept = kept(self.query.k);
        if self.found.len() > kept {
            let (_, &mut (last, _), _) = self.found.select_nth_unstable_by(kept - 1, |a, b| b.0.total_cmp(&a.0));
            self.found.truncate(kept);
            self.bar = self.bar.max(last);
        }
    }
}

impl Keeper for Candidates<'_> {
    fn bar(&self) -> f32 {
        self.bar
    }

    fn offer(&mut self, row: u32, bound: f32) {
        if !self.table.counts(self.query, row) {
            return;
        }
        self.found.push((if bound.is_nan() { f32::INFINITY } else { bound }, row));
        if self.found.len() == 2 * kept(self.query.k) {
            self.cut();
        }
    }

    fn merge(&mut self, other: Self) {
        self.bar = self.bar.max(other.bar);
        self.found.extend(other.found);
        self.cut();
    }
}

/// The best rows by their score.
pub(super) struct Exact<'a> {
    table: &'a Table<'a>,
    query: &'a Query<'a>,
    hits: Vec<Hit>,
    /// A row whose bound is at most this is worse than k others, or than the threshold.
    bar: f32,
}

impl<'a> Exact<'a> {
    /// For a query of which some hits are known already.
    pub(super) fn above(table: &'a Table<'a>, query: &'a Query<'a>, hits: &[Hit]) -> Self {
        let bar = match hits.last() {
            Some(last) if hits.len() == query.k => bound::floor(table.metric, query, last.score),
            _ => threshold_floor(table, query),
        };
        Self { table, query, hits: vec![], bar }
    }

    /// The best k, best first.
    pub(super) fn finish(mut self) -> Vec<Hit> {
        best(self.table, self.query, &mut self.hits);
        self.hits
    }

    fn cut(&mut self) {
        best(self.table, self.query, &mut self.hits);
        if let Some(last) = self.hits.last().filter(|_| self.hits.len() == self.query.k) {
            self.bar = self.bar.max(bound::floor(self.table.metric, self.query, last.score));
        }
    }
}

impl Keeper for Exact<'_> {
    fn bar(&self) -> f32 {
        self.bar
    }

    fn offer(&mut self, row: u32, _bound: f32) {
        if !self.table.counts(self.query, row) {
            return;
        }
        let hit = self.table.score(self.query, row);
        if self.query.admits(self.table.metric, hit.score) {
            self.hits.push(hit);
        }
        if self.hits.len() == 2 * kept(self.query.k) {
            self.cut();
        }
    }

    fn merge(&mut self, other: Self) {
        self.bar = self.bar.max(other.bar);
        self.hits.extend(other.hits);
        self.cut();
    }
}

/// The hits of a query that asks for listed rows.
pub(super) fn listed(table: &Table<'_>, query: &Query<'_>) -> Vec<Hit> {
    let rows = query.filter.rows().unwrap_or_default();
    let there = &rows[..rows.partition_point(|&row| (row as usize) < table.len)];
    let counting: Vec<u32> = there.iter().copied().filter(|&row| table.counts(query, row)).collect();
    score_all(table, query, &counting)
}

/// Rows that go to one thread when they are scored.
pub(super) const GRAIN: usize = 256;

/// The best k of the rows.
fn score_all(table: &Table<'_>, query: &Query<'_>, rows: &[u32]) -> Vec<Hit> {
    let score = |part: &[u32]| {
        // They lie anywhere in memory: the next one is on its way while this one is scored.
        let next = part.iter().skip(1).map(Some).chain([None]);
        let scored = part.iter().zip(next).map(|(&row, next)| {
            next.inspect(|&&next| table.prefetch(next));
            table.score(query, row)
        });
        scored.filter(|hit| query.admits(table.metric, hit.score)).collect::<Vec<_>>()
    };
    let mut hits =
        if rows.len() <= GRAIN { score(rows) } else { rows.par_chunks(GRAIN).flat_map_iter(score).collect() };
    best(table, query, &mut hits);
    hits
}

/// Leaves the best k, best first.
fn best(table: &Table<'_>, query: &Query<'_>, hits: &mut Vec<Hit>) {
    let order = |a: &Hit, b: &Hit| bound::compare(table.metric, a.score, b.score).then(a.row.cmp(&b.row));
    if hits.len() > query.k {
        hits.select_nth_unstable_by(query.k, order);
        hits.truncate(query.k);
    }
    hits.sort_unstable_by(order);
}

/// The largest bound that proves a row to fail the threshold.
fn threshold_floor(table: &Table<'_>, query: &Query<'_>) -> f32 {
    query.threshold.map_or(f32::NEG_INFINITY, |threshold| bound::floor(table.metric, query, threshold))
}
