//! Searching a collection: resolves queries and filters, runs the search, and maps rows to points.

use std::{collections::HashSet, sync::Arc};

use accelerd_engine::Context;
use accelerd_kernels::{
    Matrix,
    ops::similarity::{Hit, Hits, MAX_K, SearchRequest, Selection},
};
use accelerd_proto::v1::Payload;
use accelerd_store::Ids;

use super::{
    Collection, Filter, PointId, Vectors, blocking,
    filter::Selected,
    generation::Generation,
    hybrid::{self, Hybrid},
    points::Points,
    prompt::TextRole,
    shared::Shared,
};
use crate::error::CollectionError;

/// Filters of at most this cost, about a tenth of a millisecond, are evaluated on the reactor.
const INLINE_FILTER_COST: usize = 64 << 10;
/// Text searches run on the reactor over at most this many rows
const INLINE_ROWS: usize = 16 << 10;
/// and with at most this many queries.
const INLINE_QUERIES: usize = 4;

/// Maximum number of texts of a text-only search.
const MAX_TEXT_QUERIES: usize = 1024;
/// Maximum bytes of a text of a text-only search.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The queries of a search.
#[derive(Clone, Debug)]
pub enum Query {
    /// Vectors, or texts to embed.
    Vectors(Vectors),
    /// The vectors of points of the collection.
    Ids(Ids),
}

/// A search.
#[derive(Clone, Debug)]
pub struct SearchSpec {
    /// The queries.
    pub query: Query,
    /// Number of hits to skip.
    pub offset: usize,
    /// Maximum number of hits to return, at least 1.
    pub limit: usize,
    /// Excludes hits with worse scores.
    pub threshold: Option<f32>,
    /// Filter of the points; `None` matches all.
    pub filter: Option<Filter>,
    /// True to return payloads.
    pub with_payload: bool,
    /// Parameters of a hybrid search; `None` searches vectors only.
    pub hybrid: Option<Hybrid>,
}

/// A hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Id of the point.
    pub id: PointId,
    /// Its score.
    pub score: f32,
    /// Its payload, if requested.
    pub payload: Option<Payload>,
}

impl SearchSpec {
    /// The text queries of a hybrid search; `None` for a vector search.
    fn texts(&self, text_field: &str) -> Result<Option<(Hybrid, &[String])>, CollectionError> {
        let Some(hybrid) = self.hybrid else { return Ok(None) };
        if text_field.is_empty() {
            let reason = "expected a collection with a text_field: this one has no text index";
            return Err(CollectionError::invalid("hybrid", reason));
        }
        if self.threshold.is_some() {
            let reason = "expected none: hybrid scores are fused from two rankings";
            return Err(CollectionError::invalid("score_threshold", reason));
        }
        match &self.query {
            Query::Vectors(Vectors::Texts(texts, _)) => Ok(Some((hybrid, texts))),
            Query::Vectors(Vectors::Rows(_)) | Query::Ids(_) => {
                Err(CollectionError::invalid("hybrid", "expected texts: vectors and ids have no terms"))
            }
        }
    }

    /// Number of hits needed from each ranking.
    fn depth(&self) -> usize {
        let count = self.offset + self.limit;
        self.hybrid.map_or(count, |hybrid| hybrid.depth(count))
    }
}

/// State captured before a search is submitted.
struct SearchState {
    /// `None` without a filter.
    selected: Option<Selected>,
    /// Length of the list of replaced rows.
    replaced: usize,
}

enum Queries {
    /// One vector per query.
    Vectors(Matrix),
    /// The number of texts of a text-only search.
    Texts(usize),
}

impl Queries {
    fn count(&self) -> usize {
        match self {
            Self::Vectors(queries) => queries.rows(),
            Self::Texts(count) => *count,
        }
    }
}

impl Collection {
    /// The best points of each query, best first.
    pub async fn search(&self, spec: SearchSpec, context: Context) -> Result<Vec<Vec<Found>>, CollectionError> {
        check_window(spec.offset, spec.limit)?;
        let queries = match spec.texts(&self.meta().text_field)? {
            Some((hybrid, texts)) if hybrid.is_text_only() => Queries::Texts(check_texts(texts)?),
            _ => Queries::Vectors(self.queries(spec.query.clone(), context.clone()).await?),
        };
        let spec = Arc::new(spec);
        if let Some(found) = self.try_search(&queries, &spec, &context).await? {
            return Ok(found);
        }
        // A concurrent replacement may have affected the result: search once more while the writer is excluded.
        let _guard = self.shared().applying.lock().await;
        let results = self.try_search(&queries, &spec, &context).await?;
        results.ok_or_else(|| CollectionError::Unavailable("points changed during the search".into()))
    }

    async fn queries(&self, query: Query, context: Context) -> Result<Matrix, CollectionError> {
        let queries = match query {
            Query::Vectors(vectors) => self.vectors(TextRole::Query, vectors, false, context).await?,
            Query::Ids(ids) => self.stored_vectors(&ids)?,
        };
        if queries.rows() == 0 {
            return Err(CollectionError::invalid("query", "expected at least one query, got none"));
        }
        Ok(queries)
    }

    /// Vectors of points; fails if any does not exist.
    fn stored_vectors(&self, ids: &Ids) -> Result<Matrix, CollectionError> {
        let generation = self.shared().generation();
        let found_rows = generation.read().find(ids);
        if found_rows.len() < ids.len() {
            let missing = (0..ids.len()).find(|i| found_rows.get(*i).is_none_or(|(at, _)| at != i)).unwrap_or_default();
            return Err(CollectionError::NotFound { kind: "point", name: name_of(ids, missing) });
        }
        let rows: Vec<_> = found_rows.into_iter().map(|(_, row)| row).collect();
        Ok(generation.corpus.gather(&rows))
    }

    /// Searches the current generation; `None` if a concurrent replacement may have affected the result.
    async fn try_search(
        &self,
        queries: &Queries,
        spec: &Arc<SearchSpec>,
        context: &Context,
    ) -> Result<Option<Vec<Vec<Found>>>, CollectionError> {
        let generation = self.shared().generation();
        let state = search_state(self.shared(), &generation, spec).await?;
        if generation.corpus.is_empty() || state.selected.as_ref().is_some_and(|selected| selected.count == 0) {
            return Ok(Some(vec![vec![]; queries.count()]));
        }
        let hits = match queries {
            Queries::Texts(count) => Hits { lists: vec![vec![]; *count] },
            Queries::Vectors(queries) => {
                let selected = state.selected.as_ref();
                let request = SearchRequest {
                    corpus: Arc::clone(&generation.corpus),
                    queries: queries.clone(),
                    k: spec.depth(),
                    threshold: spec.threshold,
                    selection: selected.map_or(Selection::All, |selected| selected.selection.clone()),
                };
                self.shared().submit(request, context.clone()).await?
            }
        };
        let is_long =
            spec.hybrid.is_some() && (generation.corpus.len() > INLINE_ROWS || queries.count() > INLINE_QUERIES);
        let spec = Arc::clone(spec);
        let text_field = self.meta().text_field.clone();
        let answer = move || state.answer(&generation, hits, &spec, &text_field);
        if is_long { blocking(answer).await } else { answer() }
    }
}

/// Evaluates the filter, off the reactor if that is expensive or an index has to be built.
async fn search_state(
    shared: &Arc<Shared>,
    generation: &Arc<Generation>,
    spec: &Arc<SearchSpec>,
) -> Result<SearchState, CollectionError> {
    let Some(filter) = &spec.filter else { return Ok(SearchState::new(generation, None)) };
    if !generation.lacks_index(filter) && filter.cost(&generation.read(), generation.indexes()) <= INLINE_FILTER_COST {
        return Ok(SearchState::new(generation, Some(filter)));
    }
    let shared = Arc::clone(shared);
    let generation = Arc::clone(generation);
    let spec = Arc::clone(spec);
    let evaluate = move || {
        if let Some(filter) = &spec.filter {
            shared.prepare(&generation, filter);
        }
        Ok(SearchState::new(&generation, spec.filter.as_ref()))
    };
    blocking(evaluate).await
}

impl SearchState {
    fn new(generation: &Generation, filter: Option<&Filter>) -> Self {
        let points = generation.read();
        Self {
            selected: filter.map(|filter| filter.select(&points, generation.indexes())),
            replaced: points.replaced().len(),
        }
    }

    /// Fuses the text ranking and resolves hits to points; `None` if a concurrent replacement may have affected the
    /// result.
    fn answer(
        &self,
        generation: &Generation,
        mut hits: Hits,
        spec: &SearchSpec,
        text_field: &str,
    ) -> Result<Option<Vec<Vec<Found>>>, CollectionError> {
        let points = generation.read();
        if let (Some((hybrid, texts)), Some(index)) = (spec.texts(text_field)?, generation.text_index()) {
            let best = hybrid::search_texts(index, &points, self.selected.as_ref(), texts, spec.depth())?;
            hits.lists = hits.lists.iter().zip(&best).map(|(nearest, best)| hybrid.fuse(nearest, best)).collect();
        }
        Ok(self.is_consistent(&points, &hits).then(|| resolve(&points, &hits, spec)))
    }

    /// Returns true if each point was found in one of its states, neither twice nor missed by the filter.
    fn is_consistent(&self, points: &Points, hits: &Hits) -> bool {
        let replaced = &points.replaced()[self.replaced..];
        if replaced.is_empty() {
            return true;
        }
        match &self.selected {
            // The filter could not select the new row, and the old one may have been deleted before the launch.
            Some(selected) => !replaced.iter().any(|row| selected.contains(*row)),
            None => !hits.lists.iter().any(|list| has_a_point_twice(points, list)),
        }
    }
}

fn has_a_point_twice(points: &Points, hits: &[Hit]) -> bool {
    let mut seen = HashSet::with_capacity(hits.len());
    !hits.iter().all(|hit| seen.insert(points.id(hit.row)))
}

fn resolve(points: &Points, hits: &Hits, spec: &SearchSpec) -> Vec<Vec<Found>> {
    let found = |hit: &Hit| {
        let payload = spec.with_payload.then(|| points.payloads().get(hit.row));
        // Ids are inserted under the lock under which rows are appended, so each hit has an id.
        points.id(hit.row).map(|id| Found { id, score: hit.score, payload })
    };
    let list = |hits: &Vec<Hit>| hits.iter().skip(spec.offset).take(spec.limit).filter_map(found).collect();
    hits.lists.iter().map(list).collect()
}

/// Limits the texts of a text-only search, which bypasses admission control, and returns their number.
fn check_texts(texts: &[String]) -> Result<usize, CollectionError> {
    if let Some((at, long)) = texts.iter().enumerate().find(|(_, text)| text.len() > MAX_TEXT_BYTES) {
        let reason = format!("expected at most {MAX_TEXT_BYTES} bytes, got {}", long.len());
        return Err(CollectionError::invalid(format!("texts.values[{at}]"), reason));
    }
    match texts.len() {
        0 => Err(CollectionError::invalid("query", "expected at least one query, got none")),
        count @ 1..=MAX_TEXT_QUERIES => Ok(count),
        count => {
            Err(CollectionError::invalid("texts", format!("expected at most {MAX_TEXT_QUERIES} texts, got {count}")))
        }
    }
}

fn check_window(offset: usize, limit: usize) -> Result<(), CollectionError> {
    if limit == 0 {
        return Err(CollectionError::invalid("limit", "expected at least 1, got 0"));
    }
    match offset.checked_add(limit) {
        Some(k) if k <= MAX_K => Ok(()),
        _ => {
            let reason = format!("expected offset + limit of at most {MAX_K}, got {offset} + {limit}");
            Err(CollectionError::invalid("limit", reason))
        }
    }
}

fn name_of(ids: &Ids, index: usize) -> String {
    match ids {
        Ids::Numbers(ids) => ids[index].to_string(),
        Ids::Uuids(ids) => uuid::Uuid::from_bytes(ids[index]).to_string(),
    }
}
