//! Rows and queries in the form that scan and rescoring share.

use std::borrow::Cow;

use crate::{
    cpu::{f64_sums, simd},
    ops::similarity::{
        corpus::View,
        metric::Metric,
        request::{Hit, Selection},
    },
};

/// Rows to search, resident or inline.
pub(super) struct Table<'a> {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) len: usize,
    deleted: Option<&'a [u32]>,
    source: Source<'a>,
}

enum Source<'a> {
    Resident(&'a View),
    Inline(&'a [f32]),
}

/// Contiguous rows.
#[derive(Clone, Copy)]
pub(super) struct RowRange<'a> {
    /// The index of the first row.
    pub(super) first: usize,
    pub(super) rows: &'a [f32],
    /// Known for resident rows only.
    pub(super) squared_norms: Option<&'a [f64]>,
}

impl RowRange<'_> {
    /// The same rows in ranges of at most `limit` rows.
    pub(super) fn split(self, dim: usize, limit: usize) -> impl Iterator<Item = Self> {
        let dim = dim.max(1);
        self.rows.chunks(limit * dim).enumerate().map(move |(index, rows)| {
            let part = index * limit..index * limit + rows.len() / dim;
            let squared_norms = self.squared_norms.map(|norms| &norms[part.clone()]);
            Self { first: self.first + part.start, rows, squared_norms }
        })
    }
}

impl<'a> Table<'a> {
    pub(super) fn resident(view: &'a View, metric: Metric) -> Self {
        Self { metric, dim: view.dim(), len: view.len(), deleted: view.deleted_bits(), source: Source::Resident(view) }
    }

    pub(super) fn inline(rows: &'a [f32], len: usize, dim: usize, metric: Metric) -> Self {
        Self { metric, dim, len, deleted: None, source: Source::Inline(rows) }
    }

    /// All rows, in ranges of at most `limit` rows.
    pub(super) fn ranges(&self, limit: usize) -> Vec<RowRange<'a>> {
        let dim = self.dim;
        match self.source {
            Source::Resident(view) => {
                let chunks = view.chunks().zip(view.norms());
                let whole =
                    chunks.map(|((first, rows), (_, norms))| RowRange { first, rows, squared_norms: Some(norms) });
                whole.flat_map(|range| range.split(dim, limit)).collect()
            }
            Source::Inline(rows) => RowRange { first: 0, rows, squared_norms: None }.split(dim, limit).collect(),
        }
    }

    pub(super) fn row(&self, row: usize) -> &'a [f32] {
        match self.source {
            Source::Resident(view) => view.row(row),
            Source::Inline(rows) => &rows[row * self.dim..][..self.dim],
        }
    }

    pub(super) fn squared_norm(&self, row: usize) -> f64 {
        match self.source {
            Source::Resident(view) => view.squared_norm(row),
            Source::Inline(_) => f64_sums::squared_norm(self.row(row)),
        }
    }

    pub(super) fn prefetch(&self, row: u32) {
        simd::prefetch(self.row(row as usize));
    }

    /// Returns true if a row is live and passes the query's filter.
    pub(super) fn matches(&self, query: &Query<'_>, row: u32) -> bool {
        let selected = match query.filter {
            Filter::Mask(bits) => is_set(bits, row),
            Filter::All | Filter::Rows(_) | Filter::Gathered(_) => true,
        };
        selected && self.deleted.is_none_or(|bits| !is_set(bits, row))
    }

    /// The row with its score, computed in f64 and rounded to f32; a zero has no sign.
    #[expect(clippy::cast_possible_truncation, reason = "scores are rounded to f32")]
    pub(super) fn score(&self, query: &Query<'_>, row: u32) -> Hit {
        let vector = self.row(row as usize);
        let score = match self.metric {
            Metric::Dot => f64_sums::dot(query.vector, vector),
            Metric::SquaredL2 => f64_sums::squared_distance(query.vector, vector),
            Metric::Cosine => match query.squared_norm * self.squared_norm(row as usize) {
                0.0 => 0.0,
                norms => f64_sums::dot(query.vector, vector) / norms.sqrt(),
            },
        };
        Hit { row, score: score as f32 + 0.0 }
    }
}

/// The queries of one request.
pub(super) struct QueryBatch<'a> {
    /// [count, dim].
    pub(super) queries: &'a [f32],
    pub(super) count: usize,
    pub(super) k: usize,
    pub(super) threshold: Option<f32>,
    pub(super) selection: &'a Selection,
}

/// The live rows that a query considers, and how they are read.
pub(super) enum Filter<'a> {
    /// All, in a pass over all rows.
    All,
    /// Those whose bit is set, in a pass over all rows.
    Mask(&'a [u32]),
    /// These, ascending; scored directly, without a scan.
    Rows(Cow<'a, [u32]>),
    /// These, ascending; scanned alone.
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
        // Adding zero turns -0 into 0, since scores have no negative zero.
        let threshold = threshold.map(|threshold| threshold + 0.0);
        Self { vector, squared_norm: f64_sums::squared_norm(vector), k, threshold, filter }
    }

    /// Returns true if a score passes the threshold.
    pub(super) fn admits(&self, metric: Metric, score: f32) -> bool {
        self.threshold.is_none_or(|threshold| metric.compare(score, threshold).is_le())
    }
}
