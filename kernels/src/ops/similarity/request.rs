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

impl Selection {
    /// The number of selected rows among the first `len`, deleted ones included.
    pub(super) fn count(&self, len: usize) -> usize {
        match self {
            Self::All => len,
            Self::Mask(bits) => mask_words(bits, len).iter().map(|word| word.count_ones() as usize).sum(),
            Self::Rows(rows) => existing_rows(rows, len).len(),
        }
    }
}

/// The words of a mask that cover the first `len` rows.
pub(super) fn mask_words(bits: &[u32], len: usize) -> &[u32] {
    &bits[..bits.len().min(len.div_ceil(32))]
}

/// The rows of an ascending list that are among the first `len`.
pub(super) fn existing_rows(rows: &[u32], len: usize) -> &[u32] {
    &rows[..rows.partition_point(|&row| (row as usize) < len)]
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
    /// The metric by which rows are compared.
    pub metric: Metric,
    /// Hits per query, 1 to min(N, [`MAX_K`]).
    pub k: usize,
    /// Excludes rows with a worse score.
    pub threshold: Option<f32>,
}
