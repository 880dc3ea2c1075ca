//! Searching a collection: queries from vectors, texts or points; filters; rows back to points.

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
    collection::Shared,
    filter::Selected,
    hybrid::{self, Hybrid},
    points::{Generation, Points},
};
use crate::error::ApiError;

/// Filters that cost at most this much are evaluated on the reactor: about a tenth of a millisecond.
const INLINE_FILTER_COST: usize = 64 << 10;
/// Words of collections of at most this many rows are ranked on the reactor.
const INLINE_ROWS: usize = 16 << 10;
/// And at most this many texts are ranked by their words there.
const INLINE_QUERIES: usize = 4;

/// Most texts of one search by words alone.
const MAX_WORD_QUERIES: usize = 1024;

/// What to look for.
#[derive(Clone, Debug)]
pub enum Query {
    /// Vectors, or texts to embed.
    Vectors(Vectors),
    /// Points of the collection.
    Ids(Ids),
}

/// A search.
#[derive(Clone, Debug)]
pub struct SearchSpec {
    /// What to look for.
    pub query: Query,
    /// Hits to skip.
    pub offset: usize,
    /// Hits to return after that, at least 1.
    pub limit: usize,
    /// Leaves out worse scores.
    pub threshold: Option<f32>,
    /// Which points count.
    pub filter: Option<Filter>,
    /// Whether hits carry their payload.
    pub with_payload: bool,
    /// How words count as well as vectors, where they do.
    pub hybrid: Option<Hybrid>,
}

/// A point found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Which.
    pub id: PointId,
    /// Its score.
    pub score: f32,
    /// Its payload, when asked for.
    pub payload: Option<Payload>,
}

/// What was true before a search was submitted.
struct Before {
    /// `None`: there was no filter.
    selected: Option<Selected>,
    /// Length of the list of replaced rows.
    replaced: usize,
}

/// What is ranked by.
enum Queries {
    /// A vector a query, and words where the search is hybrid.
    Vectors(Matrix),
    /// The words of so many texts, and nothing else.
    Words(usize),
}

impl Queries {
    fn count(&self) -> usize {
        match self {
            Self::Vectors(queries) => queries.rows(),
            Self::Words(count) => *count,
        }
    }
}

impl Collection {
    /// The best points of each query, best first.
    pub async fn search(&self, spec: SearchSpec, context: Context) -> Result<Vec<Vec<Found>>, ApiError> {
        check_window(spec.offset, spec.limit)?;
        let queries = match spec.words(&self.meta().text_field)? {
            Some((hybrid, texts)) if hybrid.is_words_alone() => Queries::Words(check_words(texts)?),
            _ => Queries::Vectors(self.queries(spec.query.clone(), context.clone()).await?),
        };
        let spec = Arc::new(spec);
        if let Some(found) = self.attempt(&queries, &spec, &context).await? {
            return Ok(found);
        }
        // A point was replaced under this search in a way that it can see. Without the writer it cannot.
        let _turn = self.shared().applying.lock().await;
        let found = self.attempt(&queries, &spec, &context).await?;
        found.ok_or_else(|| ApiError::Unavailable("points changed under the search".into()))
    }

    async fn queries(&self, query: Query, context: Context) -> Result<Matrix, ApiError> {
        let queries = match query {
            Query::Vectors(vectors) => self.vectors("vectors", vectors, false, context).await?,
            Query::Ids(ids) => self.stored(&ids)?,
        };
        if queries.rows() == 0 {
            return Err(ApiError::invalid("query", "expected at least one query, got none"));
        }
        Ok(queries)
    }

    /// Vectors of points, all of which must be there.
    fn stored(&self, ids: &Ids) -> Result<Matrix, ApiError> {
        let generation = self.shared().generation();
        let found = generation.read().find(ids);
        if found.len() < ids.len() {
            let missing = (0..ids.len()).find(|i| found.get(*i).is_none_or(|(at, _)| at != i)).unwrap_or_default();
            return Err(ApiError::NotFound { kind: "point", name: name_of(ids, missing) });
        }
        let rows: Vec<_> = found.into_iter().map(|(_, row)| row).collect();
        Ok(generation.corpus.gather(&rows))
    }

    /// One search of what is there now; `None` where replaced points make its answer doubtful.
    async fn attempt(
        &self,
        queries: &Queries,
        spec: &Arc<SearchSpec>,
        context: &Context,
    ) -> Result<Option<Vec<Vec<Found>>>, ApiError> {
        let generation = self.shared().generation();
        let before = before(self.shared(), &generation, spec).await?;
        if generation.corpus.is_empty() || before.selected.as_ref().is_some_and(|selected| selected.count == 0) {
            return Ok(Some(vec![vec![]; queries.count()]));
        }
        let hits = match queries {
            Queries::Words(count) => Hits { lists: vec![vec![]; *count] },
            Queries::Vectors(queries) => {
                let selected = before.selected.as_ref();
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
        let (spec, text_field) = (Arc::clone(spec), self.meta().text_field.clone());
        let answer = move || before.answer(&generation, hits, &spec, &text_field);
        if is_long { blocking(answer).await } else { answer() }
    }
}

/// Evaluates the filter; off the reactor where that, or making an index for it, takes long.
async fn before(
    shared: &Arc<Shared>,
    generation: &Arc<Generation>,
    spec: &Arc<SearchSpec>,
) -> Result<Before, ApiError> {
    let Some(filter) = &spec.filter else { return Ok(Before::new(generation, None)) };
    if !generation.lacks_index(filter) && filter.cost(&generation.read(), generation.indexes()) <= INLINE_FILTER_COST {
        return Ok(Before::new(generation, Some(filter)));
    }
    let (shared, generation, spec) = (Arc::clone(shared), Arc::clone(generation), Arc::clone(spec));
    let evaluate = move || {
        if let Some(filter) = &spec.filter {
            shared.prepare(&generation, filter);
        }
        Ok(Before::new(&generation, spec.filter.as_ref()))
    };
    blocking(evaluate).await
}

impl Before {
    fn new(generation: &Generation, filter: Option<&Filter>) -> Self {
        let points = generation.read();
        Self {
            selected: filter.map(|filter| filter.select(&points, generation.indexes())),
            replaced: points.replaced().len(),
        }
    }

    /// The points of what was found, with words where they count; `None` where replaced points make that doubtful.
    fn answer(
        &self,
        generation: &Generation,
        mut hits: Hits,
        spec: &SearchSpec,
        text_field: &str,
    ) -> Result<Option<Vec<Vec<Found>>>, ApiError> {
        let points = generation.read();
        if let (Some((hybrid, texts)), Some(words)) = (spec.words(text_field)?, generation.words()) {
            let best = hybrid::best(words, &points, self.selected.as_ref(), texts, spec.depth())?;
            hits.lists = hits.lists.iter().zip(&best).map(|(nearest, best)| hybrid.fuse(nearest, best)).collect();
        }
        Ok(self.still_holds(&points, &hits).then(|| resolve(&points, &hits, spec)))
    }

    /// Whether what was found is what a search of one state would find, each point for itself.
    fn still_holds(&self, points: &Points, hits: &Hits) -> bool {
        let replaced = &points.replaced()[self.replaced..];
        if replaced.is_empty() {
            return true;
        }
        match &self.selected {
            // The new row of such a point could not be selected, and the old one may have died before the launch.
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
        // Rows are entered under the lock in which they are appended, so each one found has its id.
        points.id(hit.row).map(|id| Found { id, score: hit.score, payload })
    };
    let list = |hits: &Vec<Hit>| hits.iter().skip(spec.offset).take(spec.limit).filter_map(found).collect();
    hits.lists.iter().map(list).collect()
}

/// How many texts are asked for by their words alone. No lane admits them, so they are bounded here.
fn check_words(texts: &[String]) -> Result<usize, ApiError> {
    match texts.len() {
        0 => Err(ApiError::invalid("query", "expected at least one query, got none")),
        count @ 1..=MAX_WORD_QUERIES => Ok(count),
        count => Err(ApiError::invalid("texts", format!("expected at most {MAX_WORD_QUERIES} texts, got {count}"))),
    }
}

fn check_window(offset: usize, limit: usize) -> Result<(), ApiError> {
    if limit == 0 {
        return Err(ApiError::invalid("limit", "expected at least 1, got 0"));
    }
    match offset.checked_add(limit) {
        Some(k) if k <= MAX_K => Ok(()),
        _ => {
            let reason = format!("expected offset + limit of at most {MAX_K}, got {offset} + {limit}");
            Err(ApiError::invalid("limit", reason))
        }
    }
}

fn name_of(ids: &Ids, at: usize) -> String {
    match ids {
        Ids::Numbers(ids) => ids[at].to_string(),
        Ids::Uuids(ids) => uuid::Uuid::from_bytes(ids[at]).to_string(),
    }
}
