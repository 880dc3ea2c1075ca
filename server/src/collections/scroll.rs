//! Reading a collection through, page by page in the order of its ids, and counting its points.
//!
//! A cursor is the last id of a page. Ids outlive rows: a replaced point moves to another row, and compaction and recovery
//! number all rows anew, but a point keeps its place among the ids.

use std::sync::Arc;

use accelerd_kernels::Matrix;
use accelerd_proto::v1::Payload;
use accelerd_store::Ids;

use super::{
    Collection, Filter, PointId, blocking,
    filter::Selected,
    index::Indexes,
    order::Sorted,
    points::{Generation, Points},
};
use crate::error::ApiError;

/// Most points on a page.
pub(crate) const MAX_PAGE: usize = 16_384;

/// What is asked of a page.
#[derive(Clone, Debug)]
pub struct PageSpec {
    /// Which points count.
    pub filter: Option<Filter>,
    /// Only points whose id is above this one.
    pub after: Option<PointId>,
    /// Most points, 1 to `MAX_PAGE`.
    pub limit: usize,
    /// Whether to read payloads.
    pub with_payload: bool,
    /// Whether to read vectors.
    pub with_vectors: bool,
}

/// Some points, by id.
#[derive(Clone, Debug)]
pub struct Page {
    /// Ascending.
    pub ids: Ids,
    /// One a point, when asked for.
    pub payloads: Vec<Payload>,
    /// One row a point, when asked for.
    pub vectors: Option<Matrix>,
    /// The last id, where more points follow.
    pub next: Option<PointId>,
}

impl Collection {
    /// The first points behind a cursor.
    pub async fn scroll(&self, spec: PageSpec) -> Result<Page, ApiError> {
        let (shared, generation) = (Arc::clone(self.shared()), self.shared().generation());
        let read = move || {
            if let Some(filter) = &spec.filter {
                shared.prepare(&generation, filter);
            }
            let (sorted, is_new) = generation.sorted(&shared.env.budget);
            if is_new {
                shared.recount();
            }
            page(&generation, &sorted, &spec)
        };
        blocking(read).await
    }

    /// How many points pass a filter.
    pub async fn count(&self, filter: Option<Filter>) -> Result<u64, ApiError> {
        let (shared, generation) = (Arc::clone(self.shared()), self.shared().generation());
        let Some(filter) = filter else { return Ok(generation.read().count() as u64) };
        let count = move || {
            shared.prepare(&generation, &filter);
            Ok(filter.count(&generation.read(), generation.indexes()) as u64)
        };
        blocking(count).await
    }
}

fn page(generation: &Generation, sorted: &Sorted, spec: &PageSpec) -> Result<Page, ApiError> {
    let points = generation.read();
    check_cursor(&points, spec.after)?;
    let (rows, has_more) = rows_after(&points, generation.indexes(), sorted, spec);
    let ids = points.ids_of(&rows);
    let next = rows.last().filter(|_| has_more).and_then(|row| points.id(*row));
    let payload = |row: &u32| points.payloads().get(*row);
    let payloads = if spec.with_payload { rows.iter().map(payload).collect() } else { vec![] };
    drop(points);
    // Contents of rows never change, so they need no lock.
    let vectors = spec.with_vectors.then(|| generation.corpus.gather(&rows));
    Ok(Page { ids, payloads, vectors, next })
}

fn check_cursor(points: &Points, after: Option<PointId>) -> Result<(), ApiError> {
    let expected = match (points.kind(), after) {
        (Some(Ids::Numbers(_)), Some(PointId::Uuid(_))) => "a number",
        (Some(Ids::Uuids(_)), Some(PointId::Number(_))) => "a UUID",
        _ => return Ok(()),
    };
    Err(ApiError::invalid("cursor", format!("expected the cursor of a page that ended with {expected}")))
}

/// Rows of the points behind the cursor in the order of their ids, and whether there are more.
fn rows_after(points: &Points, indexes: &Indexes, sorted: &Sorted, spec: &PageSpec) -> (Vec<u32>, bool) {
    let selected = spec.filter.as_ref().map(|filter| filter.select(points, indexes));
    let counts = |row: &u32| match &selected {
        Some(selected) => selected.contains(*row),
        None => points.is_live(*row),
    };
    let key = |row: &u32| points.id(*row);
    let mut rows: Vec<u32> = if let Some(few) = selected.as_ref().and_then(Selected::list) {
        // Where few pass, the order is not walked in search of them.
        few.iter().copied().filter(|row| key(row) > spec.after).collect()
    } else {
        let ordered = sorted.above(points, spec.after).iter().copied().filter(counts).take(spec.limit + 1);
        ordered.chain(sorted.missing(points).filter(|row| counts(row) && key(row) > spec.after)).collect()
    };
    let has_more = rows.len() > spec.limit;
    if has_more {
        rows.select_nth_unstable_by_key(spec.limit, key);
        rows.truncate(spec.limit);
    }
    rows.sort_unstable_by_key(key);
    (rows, has_more)
}
