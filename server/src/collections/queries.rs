//! What callers read from collections: searches, points by id, pages and counts. Rows of requests are searched, too.

use accelerd_collections::{Fetched, Filter, Found, Fusion, Hybrid, MAX_PAGE, Page, PageSpec, Query, SearchSpec};
use accelerd_engine::Context;
use accelerd_kernels::{
    Matrix,
    ops::similarity::{self as search, FindSimilarRequest, Hits, MAX_K},
};
use accelerd_store::{Ids, Metric};
use bytes::Bytes;

use super::{
    cursor,
    service::{CollectionService, DEFAULT_METRIC},
};
use crate::{
    auth::caller::Caller,
    error::{ApiError, Decoded},
    layers::timing,
};

/// Default weight of the text score in a hybrid search.
const DEFAULT_TEXT_WEIGHT: f64 = 0.5;

/// Default page size.
const DEFAULT_PAGE: usize = 1_000;

/// A search among the rows of a request.
pub(crate) struct FindSimilarCall {
    pub(crate) queries: Matrix,
    pub(crate) corpus: Matrix,
    pub(crate) metric: Decoded<Option<Metric>>,
    /// Hits of each query.
    pub(crate) k: u32,
    pub(crate) score_threshold: Option<f32>,
}

/// A search in a collection.
pub(crate) struct SearchCall {
    /// Name of the collection.
    pub(crate) collection: String,
    pub(crate) query: Decoded<Query>,
    pub(crate) offset: u32,
    pub(crate) limit: u32,
    pub(crate) score_threshold: Option<f32>,
    pub(crate) filter: Decoded<Option<Filter>>,
    pub(crate) with_payload: bool,
    pub(crate) hybrid: HybridCall,
}

/// The parameters of a hybrid search, which also ranks by text if `is_hybrid` is set.
pub(crate) struct HybridCall {
    pub(crate) is_hybrid: bool,
    pub(crate) fusion: Decoded<Option<Fusion>>,
    pub(crate) text_weight: Option<f32>,
}

/// Points by id.
pub(crate) struct FetchCall {
    /// Name of the collection.
    pub(crate) collection: String,
    pub(crate) ids: Decoded<Ids>,
    pub(crate) with_vectors: bool,
    /// True for points that are set aside, because their vectors are not finite.
    pub(crate) set_aside: bool,
}

/// A page of points.
pub(crate) struct ScrollCall {
    /// Name of the collection.
    pub(crate) collection: String,
    pub(crate) filter: Decoded<Option<Filter>>,
    /// The cursor that came with the page before; empty for the first page.
    pub(crate) cursor: Bytes,
    /// Maximum number of points; 0 for the default.
    pub(crate) limit: u32,
    pub(crate) with_payload: bool,
    pub(crate) with_vectors: bool,
}

impl CollectionService {
    /// Finds the rows of a corpus that are most similar to each query.
    pub(crate) async fn find_similar(&self, call: FindSimilarCall, context: Context) -> Result<Hits, ApiError> {
        let request = call.request()?;
        if request.queries.rows() == 0 {
            return Ok(Hits { lists: vec![] });
        }
        let done = self.find_similar.submit(request, context).await?;
        timing::record(&done);
        Ok(done.response)
    }

    /// The best points of each query, best first.
    pub(crate) async fn search(
        &self,
        caller: &Caller,
        call: SearchCall,
        context: Context,
    ) -> Result<Vec<Vec<Found>>, ApiError> {
        let collection = self.collection(caller, &call.collection)?;
        Ok(collection.search(call.spec()?, context).await?)
    }

    /// Points by id.
    pub(crate) fn fetch(&self, caller: &Caller, call: FetchCall) -> Result<Fetched, ApiError> {
        let FetchCall { collection, ids, with_vectors, set_aside } = call;
        let collection = self.collection(caller, &collection)?;
        let ids = ids?;
        Ok(if set_aside {
            collection.fetch_set_aside(&ids, with_vectors)
        } else {
            collection.fetch(&ids, with_vectors)
        })
    }

    /// A page of points, and the cursor of the next page, which is empty after the last.
    pub(crate) async fn scroll(&self, caller: &Caller, call: ScrollCall) -> Result<(Page, Bytes), ApiError> {
        let collection = self.collection(caller, &call.collection)?;
        let page = collection.scroll(call.spec()?).await?;
        let next = cursor::encode(page.next);
        Ok((page, next))
    }

    /// Number of points that match a filter; without one, of all.
    pub(crate) async fn count(
        &self,
        caller: &Caller,
        name: &str,
        filter: Decoded<Option<Filter>>,
    ) -> Result<u64, ApiError> {
        let collection = self.collection(caller, name)?;
        Ok(collection.count(unless_empty(filter?)).await?)
    }
}

impl FindSimilarCall {
    fn request(self) -> Result<FindSimilarRequest, ApiError> {
        let Self { queries, corpus, metric, k, score_threshold } = self;
        if corpus.rows() == 0 {
            return Err(ApiError::invalid("corpus", "expected at least one row, got none"));
        }
        if queries.cols() != corpus.cols() {
            let reason = format!("expected {} columns like the queries, got {}", queries.cols(), corpus.cols());
            return Err(ApiError::invalid("corpus.shape", reason));
        }
        let k = k as usize;
        let max = corpus.rows().min(MAX_K);
        if k == 0 || k > max {
            let what = if max == MAX_K { "the largest k" } else { "the corpus's rows" };
            return Err(ApiError::invalid("k", format!("expected 1 to {max}, {what}, got {k}")));
        }
        let metric = match metric?.unwrap_or(DEFAULT_METRIC) {
            Metric::Cosine => search::Metric::Cosine,
            Metric::Dot => search::Metric::Dot,
            Metric::SquaredL2 => search::Metric::SquaredL2,
        };
        Ok(FindSimilarRequest { queries, corpus, metric, k, threshold: threshold(score_threshold)? })
    }
}

impl SearchCall {
    fn spec(self) -> Result<SearchSpec, ApiError> {
        Ok(SearchSpec {
            query: self.query?,
            offset: self.offset as usize,
            limit: self.limit as usize,
            threshold: threshold(self.score_threshold)?,
            filter: unless_empty(self.filter?),
            with_payload: self.with_payload,
            hybrid: self.hybrid.parameters()?,
        })
    }
}

impl HybridCall {
    /// The parameters of a hybrid search, if requested.
    fn parameters(self) -> Result<Option<Hybrid>, ApiError> {
        let Self { is_hybrid, fusion, text_weight } = self;
        if !is_hybrid {
            let field = if text_weight.is_some() { "text_weight" } else { "fusion" };
            let alone = text_weight.is_some() || !matches!(fusion, Ok(None));
            return if alone { Err(ApiError::invalid(field, "expected none without hybrid")) } else { Ok(None) };
        }
        let text_weight = match text_weight {
            Some(weight) if !(0.0..=1.0).contains(&weight) => {
                return Err(ApiError::invalid("text_weight", format!("expected a number from 0 to 1, got {weight}")));
            }
            weight => weight.map_or(DEFAULT_TEXT_WEIGHT, f64::from),
        };
        Ok(Some(Hybrid { fusion: fusion?.unwrap_or(Fusion::RelativeScore), text_weight }))
    }
}

impl ScrollCall {
    fn spec(self) -> Result<PageSpec, ApiError> {
        let limit = match self.limit as usize {
            0 => DEFAULT_PAGE,
            limit @ 1..=MAX_PAGE => limit,
            limit => return Err(ApiError::invalid("limit", format!("expected at most {MAX_PAGE}, got {limit}"))),
        };
        Ok(PageSpec {
            filter: unless_empty(self.filter?),
            after: cursor::decode(&self.cursor)?,
            limit,
            with_payload: self.with_payload,
            with_vectors: self.with_vectors,
        })
    }
}

fn threshold(threshold: Option<f32>) -> Result<Option<f32>, ApiError> {
    match threshold {
        Some(threshold) if threshold.is_nan() => {
            Err(ApiError::invalid("score_threshold", "expected a number, got NaN"))
        }
        threshold => Ok(threshold),
    }
}

/// An empty filter matches all points, as none does.
fn unless_empty(filter: Option<Filter>) -> Option<Filter> {
    filter.filter(|filter| !filter.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(rows: usize, cols: usize) -> Matrix {
        Matrix::from_vec(rows, cols, vec![1.0; rows * cols]).expect("the shape fits")
    }

    fn find_similar() -> FindSimilarCall {
        FindSimilarCall { queries: ones(1, 2), corpus: ones(3, 2), metric: Ok(None), k: 3, score_threshold: None }
    }

    fn refused(call: FindSimilarCall) -> String {
        call.request().expect_err("it must be refused").to_string()
    }

    #[test]
    fn the_metric_defaults_to_cosine() {
        let request = find_similar().request().expect("it is good");
        assert_eq!((request.k, request.metric, request.threshold), (3, search::Metric::Cosine, None));
    }

    #[test]
    fn invalid_searches_name_the_field_that_is_checked_first() {
        let unknown = || Err(ApiError::invalid("metric", "expected a known metric, got 99"));
        let call = || FindSimilarCall { metric: unknown(), score_threshold: Some(f32::NAN), ..find_similar() };
        assert_eq!(refused(FindSimilarCall { k: 4, ..call() }), "k: expected 1 to 3, the corpus's rows, got 4");
        assert!(refused(FindSimilarCall { k: 0, ..call() }).starts_with("k: "));
        for columns in [0, 2] {
            let empty = FindSimilarCall { corpus: ones(0, columns), ..call() };
            assert_eq!(refused(empty), "corpus: expected at least one row, got none");
        }
        assert!(refused(FindSimilarCall { corpus: ones(2, 3), ..call() }).starts_with("corpus.shape: "));
        assert!(refused(call()).starts_with("metric: "));
        assert!(refused(FindSimilarCall { metric: Ok(None), ..call() }).starts_with("score_threshold: "));
    }

    #[test]
    fn parameters_of_a_hybrid_search_are_none_without_one() {
        let of = |is_hybrid, fusion, text_weight| {
            let call = HybridCall { is_hybrid, fusion, text_weight };
            call.parameters().map_err(|error| error.to_string())
        };
        let unknown = || Err(ApiError::invalid("fusion", "expected a known fusion, got 99"));
        assert_eq!(of(false, Ok(None), None), Ok(None));
        assert_eq!(of(false, unknown(), Some(2.0)), Err("text_weight: expected none without hybrid".to_owned()));
        assert_eq!(of(false, unknown(), None), Err("fusion: expected none without hybrid".to_owned()));
        assert_eq!(of(true, unknown(), Some(2.0)), Err("text_weight: expected a number from 0 to 1, got 2".to_owned()));
        assert_eq!(of(true, unknown(), None), Err("fusion: expected a known fusion, got 99".to_owned()));
        assert_eq!(of(true, Ok(None), None), Ok(Some(Hybrid { fusion: Fusion::RelativeScore, text_weight: 0.5 })));
    }

    #[test]
    fn a_page_has_a_default_size_and_a_maximum() {
        let call = |limit| ScrollCall {
            collection: "points".to_owned(),
            filter: Ok(None),
            cursor: Bytes::new(),
            limit,
            with_payload: false,
            with_vectors: false,
        };
        let limit = |limit| call(limit).spec().map(|spec| spec.limit).map_err(|error| error.to_string());
        assert_eq!((limit(0), limit(16_384)), (Ok(1_000), Ok(16_384)));
        assert_eq!(limit(16_385), Err("limit: expected at most 16384, got 16385".to_owned()));
    }
}
