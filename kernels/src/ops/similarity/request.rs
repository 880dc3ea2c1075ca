//! Requests of both search operations, and their result.

use std::sync::Arc;

use super::{corpus::Corpus, metric::Metric};
use crate::Matrix;

/// The largest k.
pub const MAX_K: usize = 16_384;

/// The rows that a search considers. Deleted rows are never considered.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All rows.
    All,
    /// Rows whose bit is set (bit `i % 32` of word `i / 32`); rows past the last word are not selected.
    Mask(Arc<Vec<u32>>),
    /// These rows, in ascending order; rows past the end of the corpus are ignored.
    Rows(Arc<Vec<u32>>),
}

/// The best rows of each query.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// One list per query, best first: at most k hits, fewer if fewer rows are selected or pass the threshold.
    pub lists: Vec<Vec<Hit>>,
}

/// A row found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The row's index.
    pub row: u32,
    /// Its score, computed in f64 and rounded to f32.
    pub score: f32,
}

/// Queries against a resident corpus.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The corpus to search.
    pub corpus: Arc<Corpus>,
    /// [Q, dim], finite. With Q = 0 the request only updates the device's copy of the corpus.
    pub queries: Matrix,
    /// Hits per query, 1 to [`MAX_K`].
    pub k: usize,
    /// Excludes rows with a worse score.
    pub threshold: Option<f32>,
    /// The rows to consider.
    pub selection: Selection,
}

/// Inline queries against an inline corpus.
#[derive(Clone, Debug)]
pub struct FindSimilarRequest {
    /// [Q, D], finite.
    pub queries: Matrix,
    /// [N, D], finite.
    pub corpus: Matrix,
    /// How rows are compared.
    pub metric: Metric,
    /// Hits per query, 1 to min(N, [`MAX_K`]).
    pub k: usize,
    /// Excludes rows with a worse score.
    pub threshold: Option<f32>,
}
