//! Exact top-k search: queries against a resident corpus, or against an inline one.
//!
//! The result of a query is the ranking of all selected rows by their score, computed in f64 from the f32 rows and
//! rounded to f32, ties to the lowest row. A scan in lower precision computes an upper bound of every score and selects
//! candidates; the candidates are rescored in f64. A certificate from these bounds, which are computed and not assumed,
//! then proves that no other row belongs in the result; if it fails, a more expensive pass answers the query. Scores
//! past the range of f32 are infinite, and tie.

use crate::{Backend, DeviceId, Matrix, Op, OpError, Size, op::product};

mod arena;
mod corpus;
mod cpu;
pub(crate) mod cuda;
mod metric;
pub mod oracle;
mod request;

pub use corpus::{Corpus, CorpusCopy, View};
pub use cuda::{allow_wgmma, trace_stages};
pub use metric::{Metric, Storage};
pub use request::{FindSimilarRequest, Hit, Hits, MAX_K, SearchRequest, Selection};

/// Search in resident corpora.
#[derive(Debug)]
pub struct Search;

/// Searches with equal keys may share a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SearchKey {
    corpus: u64,
    device: DeviceId,
    /// k rounded up to a power of two, at least 16, so that one large k does not slow down many small ones.
    k_class: u32,
}

impl Op for Search {
    const NAME: &'static str = "search";
    type Request = SearchRequest;
    type Response = Hits;
    type Key = SearchKey;

    fn key(request: &SearchRequest) -> SearchKey {
        let k_class = u32::try_from(request.k.clamp(16, MAX_K).next_power_of_two()).unwrap_or(u32::MAX);
        SearchKey { corpus: request.corpus.id(), device: request.corpus.device(), k_class }
    }

    fn size(request: &SearchRequest) -> Size {
        Size { items: items(&request.queries), bytes: query_bytes(&request.queries, request.k) }
    }

    fn device_affinity(request: &SearchRequest) -> Option<DeviceId> {
        Some(request.corpus.device())
    }

    /// The originals of all rows are in host memory.
    fn cpu_fallback(_request: &SearchRequest) -> bool {
        true
    }

    /// Multiply-adds of the selected rows with the queries. Deleted rows are read as well.
    fn cost(request: &SearchRequest) -> u64 {
        let SearchRequest { corpus, queries, selection, .. } = request;
        product([selection.count(corpus.len()), corpus.dim(), queries.rows()]).max(1)
    }

    fn run(batch: &[&SearchRequest], on: &mut Backend) -> Result<Vec<Hits>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::search(batch, worker),
            Backend::Cuda(worker) => cuda::search(batch, worker),
        }
    }
}

/// The weight of a search in a batch.
fn items(queries: &Matrix) -> u64 {
    (queries.rows() as u64).max(1)
}

/// Bytes of the queries and of their hits.
fn query_bytes(queries: &Matrix, k: usize) -> u64 {
    let hits = (queries.rows() as u64).saturating_mul(k as u64).saturating_mul(size_of::<Hit>() as u64);
    hits.saturating_add(queries.bytes().len() as u64)
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

    /// Multiply-adds of all rows with the queries.
    fn cost(request: &FindSimilarRequest) -> u64 {
        product([request.corpus.rows(), request.corpus.cols(), request.queries.rows()]).max(1)
    }

    fn run(batch: &[&FindSimilarRequest], on: &mut Backend) -> Result<Vec<Hits>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::find_similar(batch, worker),
            Backend::Cuda(worker) => cuda::find_similar(batch, worker),
        }
    }
}
