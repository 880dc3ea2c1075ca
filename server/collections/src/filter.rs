//! Filters: parsed once, resolved against a generation's dictionaries, and evaluated through field indexes by a plan
//! chosen by selectivity. Rows that are not indexed yet are tested one by one.

mod parse;
mod plan;
mod resolved;
mod row_set;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use accelerd_kernels::ops::similarity::Selection;
use accelerd_proto::v1::{self, value::Kind};
use accelerd_store::Ids;

use self::{
    parse::parse,
    plan::Plan,
    resolved::ResolvedFilter,
    row_set::{RowSet, bitmap, bitmap_rows},
};
use super::{
    index::{Indexes, MIN_ROWS, Number},
    points::Points,
};
use crate::{error::CollectionError, ids::parse_ids};

/// A selection of at most this many rows is a list whatever its selectivity.
const MIN_BITMAP_ROWS: usize = 1024;
/// A selection, or the condition that drives a plan, is selective if it matches at most one row in this many.
const SELECTIVITY_DIVISOR: usize = 50;
/// The cost of testing a row's payload relative to reading one posting.
const TEST_COST: usize = 8;

/// A validated filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    ids: Option<Ids>,
    must: Vec<Condition>,
    must_not: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    field: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    AnyOf(Vec<Kind>),
    Range(Range),
}

/// Bounds of a number, each with whether it is inclusive.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: Option<(Number, bool)>,
    high: Option<(Number, bool)>,
}

/// The live rows that match a filter.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) selection: Selection,
    pub(crate) count: usize,
}

impl Filter {
    /// Validates a filter; errors name its fields under `path`.
    pub fn parse(path: &str, filter: &v1::Filter) -> Result<Self, CollectionError> {
        // A list that is present without ids matches nothing; only an absent one matches everything.
        let ids = filter.ids.as_ref().map(|ids| parse_ids(&format!("{path}.ids"), ids)).transpose()?;
        let list = |name: &str, list: &[v1::Condition]| {
            let parsed = list.iter().enumerate().map(|(i, condition)| parse(&format!("{path}.{name}[{i}]"), condition));
            parsed.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { ids, must: list("must", &filter.must)?, must_not: list("must_not", &filter.must_not)? })
    }

    /// Returns true if every point matches: no list of ids and no conditions.
    pub fn is_empty(&self) -> bool {
        self.ids.is_none() && !self.has_conditions()
    }

    /// The ids of a filter without conditions.
    pub(crate) fn only_ids(&self) -> Option<&Ids> {
        self.ids.as_ref().filter(|_| !self.has_conditions())
    }

    /// The fields whose indexes would speed up this filter.
    pub(crate) fn indexed_fields(&self, points: &Points) -> Vec<u32> {
        if points.rows() < MIN_ROWS || self.only_ids().is_some() {
            return vec![];
        }
        self.fields().filter_map(|field| points.payloads().find_name(field)).collect()
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        self.must.iter().chain(&self.must_not).map(|condition| condition.field.as_str())
    }

    /// Matching live rows, ascending.
    pub(crate) fn rows(&self, points: &Points, indexes: &Indexes) -> Vec<u32> {
        match self.matching_rows(points, indexes) {
            RowSet::Rows(rows) => rows,
            RowSet::Bitmap(words) => bitmap_rows(&words),
        }
    }

    /// Number of matching live rows.
    pub(crate) fn count(&self, points: &Points, indexes: &Indexes) -> usize {
        self.matching_rows(points, indexes).count()
    }

    /// Matching live rows, as a list or a bitmap, whichever is cheaper to search.
    pub(crate) fn select(&self, points: &Points, indexes: &Indexes) -> Selected {
        let matching = self.matching_rows(points, indexes);
        let count = matching.count();
        let is_list = count <= (points.rows() / SELECTIVITY_DIVISOR).max(MIN_BITMAP_ROWS);
        let selection = match matching {
            RowSet::Rows(rows) if is_list => Selection::Rows(Arc::new(rows)),
            RowSet::Rows(rows) => Selection::Mask(Arc::new(bitmap(&rows, points.rows()))),
            RowSet::Bitmap(words) if is_list => Selection::Rows(Arc::new(bitmap_rows(&words))),
            RowSet::Bitmap(words) => Selection::Mask(Arc::new(words)),
        };
        Selected { selection, count }
    }

    /// Estimated cost of evaluation, in postings read.
    pub(crate) fn cost(&self, points: &Points, indexes: &Indexes) -> usize {
        if let Some(ids) = &self.ids {
            return ids.len() * TEST_COST;
        }
        let filter = ResolvedFilter::new(self, points.payloads());
        let field_indexes = filter.indexes(indexes);
        field_indexes
            .map_or(points.rows() * TEST_COST, |field_indexes| Plan::new(&filter, &field_indexes).cost(&filter, points))
    }

    fn matching_rows(&self, points: &Points, indexes: &Indexes) -> RowSet {
        let filter = ResolvedFilter::new(self, points.payloads());
        let matches = |row: &u32| filter.matches(points.payloads(), *row);
        if let Some(ids) = &self.ids {
            let mut rows: Vec<_> = points.find(ids).into_iter().map(|(_, row)| row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.retain(matches);
            return RowSet::Rows(rows);
        }
        if filter.is_unsatisfiable() {
            return RowSet::Rows(vec![]);
        }
        match filter.indexes(indexes) {
            Some(field_indexes) => Plan::new(&filter, &field_indexes).run(&filter, points),
            None => RowSet::Rows(points.live_rows().filter(matches).collect()),
        }
    }

    fn has_conditions(&self) -> bool {
        !self.must.is_empty() || !self.must_not.is_empty()
    }
}

impl Selected {
    /// The rows if the selection is a list.
    pub(crate) fn list(&self) -> Option<&[u32]> {
        match &self.selection {
            Selection::Rows(rows) => Some(rows),
            Selection::All | Selection::Mask(_) => None,
        }
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        match &self.selection {
            Selection::All => true,
            Selection::Mask(words) => words.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1),
            Selection::Rows(rows) => rows.binary_search(&row).is_ok(),
        }
    }
}
