//! Scrolling through a collection in pages ordered by id, and counting its points.
//!
//! A cursor is the last id of a page. Ids are more stable than rows: a replaced point moves to another row, and
//! compaction and recovery renumber all rows, but a point keeps its position in the order of ids.

use std::sync::Arc;

use accelerd_kernels::Matrix;
use accelerd_proto::v1::Payload;
use accelerd_store::Ids;

use super::{
    Collection, Filter, PointId, blocking, filter::Selected, generation::Generation, index::Indexes, order::Sorted,
    points::Points,
};
use crate::error::CollectionError;

/// Maximum number of points of a page.
pub const MAX_PAGE: usize = 16_384;

/// Parameters of a page.
#[derive(Clone, Debug)]
pub struct PageSpec {
    /// Filter of the points; `None` matches all.
    pub filter: Option<Filter>,
    /// Only points whose id is greater than this one.
    pub after: Option<PointId>,
    /// Maximum number of points, 1 to `MAX_PAGE`.
    pub limit: usize,
    /// True to return payloads.
    pub with_payload: bool,
    /// True to return vectors.
    pub with_vectors: bool,
}

/// A page of points, ordered by id.
#[derive(Clone, Debug)]
pub struct Page {
    /// Ascending.
    pub ids: Ids,
    /// One per point if requested, else empty.
    pub payloads: Vec<Payload>,
    /// One row per point, if requested.
    pub vectors: Option<Matrix>,
    /// The cursor of the next page: the last id, if more points follow.
    pub next: Option<PointId>,
}

impl Collection {
    /// The first points after a cursor.
    pub async fn scroll(&self, spec: PageSpec) -> Result<Page, CollectionError> {
        let shared = Arc::clone(self.shared());
        let generation = self.shared().generation();
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

    /// Number of points that match a filter.
    pub async fn count(&self, filter: Option<Filter>) -> Result<u64, CollectionError> {
        let shared = Arc::clone(self.shared());
        let generation = self.shared().generation();
        let Some(filter) = filter else { return Ok(generation.read().count() as u64) };
        let count = move || {
            shared.prepare(&generation, &filter);
            Ok(filter.count(&generation.read(), generation.indexes()) as u64)
        };
        blocking(count).await
    }
}

fn page(generation: &Generation, sorted: &Sorted, spec: &PageSpec) -> Result<Page, CollectionError> {
    let points = generation.read();
    check_cursor(&points, spec.after)?;
    let (rows, has_more) = rows_after(&points, generation.indexes(), sorted, spec);
    let ids = points.ids_of(&rows);
    let next = rows.last().filter(|_| has_more).and_then(|row| points.id(*row));
    let payload = |row: &u32| points.payloads().get(*row);
    let payloads = if spec.with_payload { rows.iter().map(payload).collect() } else { vec![] };
    drop(points);
    // Rows are immutable, so reading vectors needs no lock.
    let vectors = spec.with_vectors.then(|| generation.corpus.gather(&rows));
    Ok(Page { ids, payloads, vectors, next })
}

fn check_cursor(points: &Points, after: Option<PointId>) -> Result<(), CollectionError> {
    let expected = match (points.kind(), after) {
        (Some(Ids::Numbers(_)), Some(PointId::Uuid(_))) => "a number",
        (Some(Ids::Uuids(_)), Some(PointId::Number(_))) => "a UUID",
        _ => return Ok(()),
    };
    Err(CollectionError::invalid("cursor", format!("expected the cursor of a page that ended with {expected}")))
}

/// Rows of the points after the cursor in the order of their ids, and whether more follow.
fn rows_after(points: &Points, indexes: &Indexes, sorted: &Sorted, spec: &PageSpec) -> (Vec<u32>, bool) {
    let selected = spec.filter.as_ref().map(|filter| filter.select(points, indexes));
    let matches = |row: &u32| match &selected {
        Some(selected) => selected.contains(*row),
        None => points.is_live(*row),
    };
    let key = |row: &u32| points.id(*row);
    let mut rows: Vec<u32> = if let Some(few) = selected.as_ref().and_then(Selected::list) {
        // Few rows match: sorting them is cheaper than scanning the order.
        few.iter().copied().filter(|row| key(row) > spec.after).collect()
    } else {
        let ordered = sorted.after(points, spec.after).iter().copied().filter(matches).take(spec.limit + 1);
        ordered.chain(sorted.unsorted(points).filter(|row| matches(row) && key(row) > spec.after)).collect()
    };
    let has_more = rows.len() > spec.limit;
    if has_more {
        rows.select_nth_unstable_by_key(spec.limit, key);
        rows.truncate(spec.limit);
    }
    rows.sort_unstable_by_key(key);
    (rows, has_more)
}
