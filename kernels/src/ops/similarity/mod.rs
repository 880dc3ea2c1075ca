//! Exact top-k: queries against a resident corpus, or against an inline one.
//!
//! An answer is the ranking of all rows that count by their score, computed in f64 from the f32 originals and rounded to
//! f32, ties to the lowest row. A scan in lower precision only selects candidates; a bound that is computed, not assumed,
//! proves that no other row belongs into the answer, and where it cannot, the scan is repeated. Scores past the range of
//! f32 are infinite, and tie.

use std::sync::Arc;

use crate::{Backend, DeviceId, Matrix, Op, OpError, Size};

mod arena;
mod corpus;
mod cpu;
pub(crate) mod cuda;
pub mod oracle;

pub use corpus::{Corpus, Mirror, View};
pub use cuda::{allow_warpgroups, trace_stages};

/// The largest k.
pub const MAX_K: usize = 16_384;

/// How two rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Cosine; 0 where a row is all zeros. Higher is nearer.
    Cosine,
    /// Inner product. Higher is nearer.
    Dot,
    /// Squared Euclidean distance. Lower is nearer.
    SquaredL2,
}

/// Precision of the copy that a GPU scans. Answers are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// The originals are scanned.
    F32,
    /// A binary16 copy is scanned.
    F16,
    /// A bfloat16 copy is scanned.
    Bf16,
    /// An int8 copy with one scale a row is scanned.
    I8,
}

/// Which rows count.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All that are alive.
    All,
    /// Those whose bit is set (bit `i % 32` of word `i / 32`) and that are alive; rows past the last word do not count.
    Mask(Arc<Vec<u32>>),
    /// These, in ascending order, as far as they are alive.
    Rows(Arc<Vec<u32>>),
}

/// The best rows of each query.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// Best first, one list a query: row and score. At most k; fewer where fewer rows count or pass the threshold.
    pub lists: Vec<Vec<Hit>>,
}

/// A row found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The row.
    pub row: u32,
    /// Its score, computed in f64 and rounded to f32.
    pub score: f32,
}

/// Queries against a resident corpus.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The corpus.
    pub corpus: Arc<Corpus>,
    /// [Q, dim], finite. Without rows the request only brings the device's copy of the corpus up to date.
    pub queries: Matrix,
    /// Hits a query, 1 to [`MAX_K`].
    pub k: usize,
    /// Leaves out worse scores.
    pub threshold: Option<f32>,
    /// Which rows count.
    pub selection: Selection,
}

/// Search in resident corpora.
#[derive(Debug)]
pub struct Search;

/// What must be equal for searches to share a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SearchKey {
    corpus: u64,
    home: DeviceId,
    /// Power of two at or above k (at least 16), so that one large k does not slow many small ones.
    k_class: u32,
}

impl Op for Search {
    const NAME: &'static str = "search";
    type Request = SearchRequest;
    type Response = Hits;
    type Key = SearchKey;

    fn key(request: &SearchRequest) -> SearchKey {
        let k_class = u32::try_from(request.k.clamp(16, MAX_K).next_power_of_two()).unwrap_or(u32::MAX);
        SearchKey { corpus: request.corpus.id(), home: request.corpus.home(), k_class }
    }

    fn size(request: &SearchRequest) -> Size {
        Size { items: items(&request.queries), bytes: query_bytes(&request.queries, request.k) }
    }

    fn home(request: &SearchRequest) -> Option<DeviceId> {
        Some(request.corpus.home())
    }

    fn run(batch: &[&SearchRequest], on: &mut Backend) -> Result<Vec<Hits>, OpError> {
        match on {
            Backend::Cpu(worker) => Ok(cpu::search(batch, worker)),
            Backend::Cuda(worker) => cuda::search(batch, worker),
        }
    }
}

/// What a search counts as in a batch.
fn items(queries: &Matrix) -> u64 {
    (queries.rows() as u64).max(1)
}

/// Bytes of the queries and of their hits.
fn query_bytes(queries: &Matrix, k: usize) -> u64 {
    let hits = (queries.rows() as u64).saturating_mul(k as u64).saturating_mul(size_of::<Hit>() as u64);
    hits.saturating_add(queries.bytes().len() as u64)
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
    /// Hits a query, 1 to min(N, [`MAX_K`]).
    pub k: usize,
    /// Leaves out worse scores.
    pub threshold: Option<f32>,
}

/// Search in inline corpora.
#[derive(Debug)]
pub struct FindSimilar;

impl Op for FindSimilar {
    const NAME: &'static str = "find_similar";
    type Request = FindSimilarRequest;
    type Response = Hits;
    type Key = ();

    fn key(_request: &FindSimilarRequest) {}

    fn size(request: &FindSimilarRequest) -> Size {
        let bytes = query_bytes(&request.queries, request.k).saturating_add(request.corpus.bytes().len() as u64);
        Size { items: items(&request.queries), bytes }
    }

    fn run(batch: &[&FindSimilarRequest], on: &mut Backend) -> Result<Vec<Hits>, OpError> {
        match on {
            Backend::Cpu(worker) => Ok(cpu::find_similar(batch, worker)),
            Backend::Cuda(worker) => cuda::find_similar(batch, worker),
        }
    }
}
