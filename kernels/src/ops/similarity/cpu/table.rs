//! What is searched and what is asked, in the form that the scan and the scoring share.

use std::borrow::Cow;

use super::{Hit, Metric, View, bound, exact};
use crate::cpu::simd;

/// Rows to search, resident or inline.
pub(super) struct Table<'a> {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) len: usize,
    dead: Option<&'a [u32]>,
    source: Source<'a>,
}

enum Source<'a> {
    Resident(&'a View),
    Inline(&'a [f32]),
}

/// Rows that lie one after the other.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) first: usize,
    pub(super) rows: &'a [f32],
    /// Where they are known.
    pub(super) squared_norms: Option<&'a [f64]>,
}

impl Piece<'_> {
    /// The same rows in pieces of at most so many.
    pub(super) fn split(self, dim: usize, most: usize) -> impl Iterator<Item = Self> {
        let dim = dim.max(1);
        self.rows.chunks(most * dim).enumerate().map(move |(at, rows)| {
            let part = at * most..at * most + rows.len() / dim;
            let squared_norms = self.squared_norms.map(|norms| &norms[part.clone()]);
            Self { first: self.first + part.start, rows, squared_norms }
        })
    }
}

impl<'a> Table<'a> {
    pub(super) fn resident(view: &'a View, metric: Metric) -> Self {
        Self { metric, dim: view.dim(), len: view.len(), dead: view.dead_bits(), source: Source::Resident(view) }
    }

    pub(super) fn inline(rows: &'a [f32], len: usize, dim: usize, metric: Metric) -> Self {
        Self { metric, dim, len, dead: None, source: Source::Inline(rows) }
    }

    /// All rows, in pieces of at most so many.
    pub(super) fn pieces(&self, most: usize) -> Vec<Piece<'a>> {
        let dim = self.dim;
        match self.source {
            Source::Resident(view) => {
                let chunks = view.chunks().zip(view.norms());
                let whole = chunks.map(|((first, rows), (_, norms))| Piece { first, rows, squared_norms: Some(norms) });
                whole.flat_map(|piece| piece.split(dim, most)).collect()
            }
            Source::Inline(rows) => Piece { first: 0, rows, squared_norms: None }.split(dim, most).collect(),
        }
    }

    /// One row.
    pub(super) fn row(&self, row: usize) -> &'a [f32] {
        match self.source {
            Source::Resident(view) => view.row(row),
            Source::Inline(rows) => &rows[row * self.dim..][..self.dim],
        }
    }

    /// Squared norm of one row.
    pub(super) fn squared_norm(&self, row: usize) -> f64 {
        match self.source {
            Source::Resident(view) => view.squared_norm(row),
            Source::Inline(_) => exact::squared_norm(self.row(row)),
        }
    }

    /// Asks for a row that will be scored soon.
    pub(super) fn prefetch(&self, row: u32) {
        simd::prefetch(self.row(row as usize));
    }

    fn is_alive(&self, row: u32) -> bool {
        self.dead.is_none_or(|bits| !is_set(bits, row))
    }

    /// Whether a row is among those that a query asks for.
    pub(super) fn counts(&self, query: &Query<'_>, row: u32) -> bool {
        let selected = match query.filter {
            Filter::Mask(bits) => is_set(bits, row),
            Filter::All | Filter::Rows(_) | Filter::Gathered(_) => true,
        };
        selected && self.is_alive(row)
    }

    /// The row with its score: in f64, rounded to f32, where zero has no sign.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is asked for")]
    pub(super) fn score(&self, query: &Query<'_>, row: u32) -> Hit {
        let numbers = self.row(row as usize);
        let score = match self.metric {
            Metric::Dot => exact::dot(query.vector, numbers),
            Metric::SquaredL2 => exact::squared_distance(query.vector, numbers),
            Metric::Cosine => match query.squared_norm * self.squared_norm(row as usize) {
                0.0 => 0.0,
                norms => exact::dot(query.vector, numbers) / norms.sqrt(),
            },
        };
        Hit { row, score: score as f32 + 0.0 }
    }
}

/// Which rows count, of those that are alive.
pub(super) enum Filter<'a> {
    All,
    /// Those whose bit is set.
    Mask(&'a [u32]),
    /// These, ascending. They are scored without a scan.
    Rows(Cow<'a, [u32]>),
    /// These, ascending. They alone are scanned.
    Gathered(Cow<'a, [u32]>),
}

impl Filter<'_> {
    pub(super) fn rows(&self) -> Option<&[u32]> {
        match self {
            Self::Rows(rows) | Self::Gathered(rows) => Some(rows),
            Self::All | Self::Mask(_) => None,
        }
    }
}

fn is_set(bits: &[u32], row: u32) -> bool {
    bits.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1)
}

/// One query of the batch.
pub(super) struct Query<'a> {
    pub(super) vector: &'a [f32],
    pub(super) squared_norm: f64,
    pub(super) k: usize,
    pub(super) threshold: Option<f32>,
    pub(super) filter: &'a Filter<'a>,
}

impl<'a> Query<'a> {
    pub(super) fn new(vector: &'a [f32], k: usize, threshold: Option<f32>, filter: &'a Filter<'a>) -> Self {
        // Adding zero takes the sign from a zero, as scores have none.
        let threshold = threshold.map(|threshold| threshold + 0.0);
        Self { vector, squared_norm: exact::squared_norm(vector), k, threshold, filter }
    }

    /// Whether a score passes the threshold.
    pub(super) fn admits(&self, metric: Metric, score: f32) -> bool {
        self.threshold.is_none_or(|threshold| bound::compare(metric, score, threshold).is_le())
    }
}
