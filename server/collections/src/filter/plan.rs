//! Plans: the most selective condition's postings tested against the others, or the postings of all combined in a bitmap.

use std::{collections::HashMap, sync::Arc};

use super::{
    SELECTIVITY_DIVISOR, TEST_COST,
    resolved::{ResolvedCondition, ResolvedFilter, ResolvedTest},
    row_set::{RowSet, bitmap, bitmap_rows},
};
use crate::{
    index::{FieldIndex, clear_bits, set_bits},
    payload::Key,
    points::Points,
};

/// An execution plan over the posting lists of each condition.
pub(super) struct Plan<'a> {
    must: Vec<PostingLists<'a>>,
    must_not: Vec<PostingLists<'a>>,
    /// All indexes of the plan cover the rows below this one.
    indexed_rows: u32,
}

/// The postings of a condition, one list per value.
#[derive(Default)]
struct PostingLists<'a> {
    lists: Vec<&'a [u32]>,
    count: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(filter: &ResolvedFilter, field_indexes: &'a HashMap<u32, Arc<FieldIndex>>) -> Self {
        let postings = |condition: &ResolvedCondition| match condition.name.and_then(|name| field_indexes.get(&name)) {
            Some(index) => condition.test.postings(index),
            None => PostingLists::default(),
        };
        Self {
            must: filter.must.iter().map(postings).collect(),
            must_not: filter.must_not.iter().map(postings).collect(),
            indexed_rows: field_indexes.values().map(|index| index.rows()).min().unwrap_or_default(),
        }
    }

    pub(super) fn run(&self, filter: &ResolvedFilter, points: &Points) -> RowSet {
        match self.most_selective(points) {
            Some(driver) => RowSet::Rows(self.list(driver, filter, points)),
            None => RowSet::Bitmap(self.bitmap(filter, points)),
        }
    }

    /// The most selective condition, if few enough rows match it to drive the plan.
    fn most_selective(&self, points: &Points) -> Option<&PostingLists<'a>> {
        let driver = self.must.iter().min_by_key(|postings| postings.count);
        driver.filter(|driver| driver.count <= points.rows() / SELECTIVITY_DIVISOR)
    }

    pub(super) fn cost(&self, filter: &ResolvedFilter, points: &Points) -> usize {
        let all = self.must.iter().chain(&self.must_not).map(|postings| postings.count).sum::<usize>();
        let indexed = match self.most_selective(points) {
            Some(driver) if filter.is_single() => driver.count,
            Some(driver) => driver.count * TEST_COST,
            None => points.live().len() * (1 + self.must.len()) + all,
        };
        indexed + self.unindexed(points).len() * TEST_COST
    }

    /// Tests the postings of the driving condition against the other conditions.
    fn list(&self, driver: &PostingLists<'_>, filter: &ResolvedFilter, points: &Points) -> Vec<u32> {
        let mut rows = Vec::with_capacity(driver.count);
        driver.lists.iter().for_each(|list| rows.extend(list.iter().filter(|row| **row < self.indexed_rows)));
        sort(&mut rows, points.rows());
        let matches = |row: &u32| filter.matches(points.payloads(), *row);
        rows.retain(|row| points.is_live(*row) && (filter.is_single() || matches(row)));
        rows.extend(self.unindexed(points).filter(|row| points.is_live(*row) && matches(row)));
        rows
    }

    /// Combines the postings of all conditions in a bitmap.
    fn bitmap(&self, filter: &ResolvedFilter, points: &Points) -> Vec<u32> {
        let mut words = points.live().to_vec();
        for postings in &self.must {
            let mut matching = vec![0; words.len()];
            postings.lists.iter().for_each(|list| set_bits(&mut matching, list));
            words.iter_mut().zip(matching).for_each(|(word, matching)| *word &= matching);
        }
        for postings in &self.must_not {
            postings.lists.iter().for_each(|list| clear_bits(&mut words, list));
        }
        for row in self.unindexed(points) {
            let matches = points.is_live(row) && filter.matches(points.payloads(), row);
            if matches { set_bits(&mut words, &[row]) } else { clear_bits(&mut words, &[row]) }
        }
        words
    }

    /// Rows that at least one index does not cover.
    fn unindexed(&self, points: &Points) -> std::ops::Range<u32> {
        self.indexed_rows..u32::try_from(points.rows()).expect("rows of a collection are counted in 32 bits")
    }
}

impl ResolvedTest {
    fn postings<'a>(&self, index: &'a FieldIndex) -> PostingLists<'a> {
        let mut lists = vec![];
        match self {
            Self::One(value) => lists.extend(value.map(|value| rows_with(index, value))),
            Self::AnyOf(values) => lists.extend(values.iter().map(|value| rows_with(index, *value))),
            Self::Range(range) => {
                let (first, end) = index.numbers.find_range(|number| range.compare(number));
                lists.push(index.numbers.rows(first, end));
            }
        }
        PostingLists { count: lists.iter().map(|list| list.len()).sum(), lists }
    }
}

fn rows_with(index: &FieldIndex, value: Key) -> &[u32] {
    match value {
        Key::Text(text) => index.texts.equal(text),
        Key::Int(value) => index.numbers.equal(value.into()),
        Key::Double(bits) => index.numbers.equal(f64::from_bits(bits).into()),
        Key::Bool(value) => index.bools.equal(value),
    }
}

/// Sorts and deduplicates rows below `len`.
fn sort(rows: &mut Vec<u32>, len: usize) {
    /// Above one row in this many, scanning a bitmap is faster than sorting.
    const BITMAP: usize = 32 * 4;
    if rows.len() > len / BITMAP && !rows.is_sorted() {
        *rows = bitmap_rows(&bitmap(rows, len));
    } else {
        rows.sort_unstable();
        rows.dedup();
    }
}
