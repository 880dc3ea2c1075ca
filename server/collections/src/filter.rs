//! Filters: parsed once, resolved against a generation's dictionaries, and evaluated through field indexes by a plan
//! chosen by selectivity. Rows that are not indexed yet are tested one by one.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use accelerd_kernels::ops::similarity::Selection;
use accelerd_proto::v1::{self, condition, value::Kind};
use accelerd_store::Ids;

use super::{
    index::{FieldIndex, Indexes, MIN_ROWS, Number, clear_bits, set_bits},
    payload::{Field, Key, Payloads},
    points::{Bits, Points},
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
    /// Validates a filter; errors name its fields under the path `at`.
    pub fn parse(at: &str, filter: &v1::Filter) -> Result<Self, CollectionError> {
        // A list that is present without ids matches nothing; only an absent one matches everything.
        let ids = filter.ids.as_ref().map(|ids| parse_ids(&format!("{at}.ids"), ids)).transpose()?;
        let list = |name: &str, list: &[v1::Condition]| {
            let parsed = list.iter().enumerate().map(|(i, condition)| parse(&format!("{at}.{name}[{i}]"), condition));
            parsed.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { ids, must: list("must", &filter.must)?, must_not: list("must_not", &filter.must_not)? })
    }

    /// Whether every point matches: no list of ids and no conditions.
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

/// A set of rows.
enum RowSet {
    /// Ascending.
    Rows(Vec<u32>),
    /// Bit `i % 32` of word `i / 32` is row i's.
    Bitmap(Vec<u32>),
}

impl RowSet {
    fn count(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Bitmap(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }
}

/// An execution plan over the posting lists of each condition.
struct Plan<'a> {
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
    fn new(filter: &ResolvedFilter, field_indexes: &'a HashMap<u32, Arc<FieldIndex>>) -> Self {
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

    fn run(&self, filter: &ResolvedFilter, points: &Points) -> RowSet {
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

    fn cost(&self, filter: &ResolvedFilter, points: &Points) -> usize {
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

fn bitmap(rows: &[u32], len: usize) -> Vec<u32> {
    let mut words = vec![0; len.div_ceil(32)];
    set_bits(&mut words, rows);
    words
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

fn bitmap_rows(words: &[u32]) -> Vec<u32> {
    (0u32..).zip(words).flat_map(|(i, word)| Bits(*word).map(move |bit| i * 32 + bit)).collect()
}

fn parse(at: &str, condition: &v1::Condition) -> Result<Condition, CollectionError> {
    if condition.field.is_empty() {
        return Err(CollectionError::invalid(format!("{at}.field"), "expected the name of a field, got none"));
    }
    let test = match &condition.test {
        None => {
            return Err(CollectionError::invalid(at, "expected equals, any_of, range or number_range, got none"));
        }
        Some(condition::Test::Equals(value)) => Test::AnyOf(vec![kind(&format!("{at}.equals"), value)?]),
        Some(condition::Test::AnyOf(set)) => any_of(&format!("{at}.any_of"), set)?,
        Some(condition::Test::Range(range)) => Test::Range(double_range(&format!("{at}.range"), range)?),
        Some(condition::Test::NumberRange(range)) => Test::Range(number_range(&format!("{at}.number_range"), range)?),
    };
    Ok(Condition { field: condition.field.clone(), test })
}

fn any_of(at: &str, set: &v1::ValueSet) -> Result<Test, CollectionError> {
    let values = set.values.iter().enumerate().map(|(i, value)| kind(&format!("{at}.values[{i}]"), value));
    Ok(Test::AnyOf(values.collect::<Result<_, _>>()?))
}

fn kind(at: &str, value: &v1::Value) -> Result<Kind, CollectionError> {
    match &value.kind {
        None => Err(CollectionError::invalid(at, "expected a value, got none")),
        Some(Kind::DoubleValue(value)) if value.is_nan() => {
            Err(CollectionError::invalid(at, "expected a number, got NaN"))
        }
        Some(kind) => Ok(kind.clone()),
    }
}

fn double_range(at: &str, range: &v1::Range) -> Result<Range, CollectionError> {
    let number = |bound: Option<f64>| bound.map(|bound| double(at, bound)).transpose();
    parse_range(at, [number(range.gt)?, number(range.gte)?, number(range.lt)?, number(range.lte)?])
}

fn number_range(at: &str, range: &v1::NumberRange) -> Result<Range, CollectionError> {
    let number = |name: &str, bound: &Option<v1::Value>| {
        let at = format!("{at}.{name}");
        let kind = bound.as_ref().map(|value| value.kind.as_ref());
        match kind {
            None => Ok(None),
            Some(Some(Kind::IntValue(bound))) => Ok(Some(Number::from(*bound))),
            Some(Some(Kind::DoubleValue(bound))) => double(&at, *bound).map(Some),
            Some(Some(Kind::StringValue(_) | Kind::BoolValue(_)) | None) => {
                Err(CollectionError::invalid(at, "expected an integer or a double"))
            }
        }
    };
    let (gt, gte) = (number("gt", &range.gt)?, number("gte", &range.gte)?);
    let (lt, lte) = (number("lt", &range.lt)?, number("lte", &range.lte)?);
    parse_range(at, [gt, gte, lt, lte])
}

fn double(at: &str, bound: f64) -> Result<Number, CollectionError> {
    if bound.is_nan() {
        return Err(CollectionError::invalid(at, "expected a number, got NaN"));
    }
    Ok(Number::from(bound))
}

/// The range of bounds, of which at most one on each side is set.
fn parse_range(at: &str, [gt, gte, lt, lte]: [Option<Number>; 4]) -> Result<Range, CollectionError> {
    let bound = |exclusive: Option<Number>, inclusive: Option<Number>, names: &str| match (exclusive, inclusive) {
        (Some(_), Some(_)) => Err(CollectionError::invalid(at, format!("expected one of {names}, got both"))),
        (Some(bound), None) => Ok(Some((bound, false))),
        (None, Some(bound)) => Ok(Some((bound, true))),
        (None, None) => Ok(None),
    };
    Ok(Range { low: bound(gt, gte, "gt and gte")?, high: bound(lt, lte, "lt and lte")? })
}

/// A filter's conditions, with field names and strings looked up in the dictionaries of a generation.
struct ResolvedFilter {
    must: Vec<ResolvedCondition>,
    must_not: Vec<ResolvedCondition>,
}

struct ResolvedCondition {
    /// `None`: no point has such a field.
    name: Option<u32>,
    test: ResolvedTest,
}

enum ResolvedTest {
    One(Option<Key>),
    AnyOf(HashSet<Key>),
    Range(Range),
}

impl ResolvedFilter {
    fn new(filter: &Filter, payloads: &Payloads) -> Self {
        let bind = |condition: &Condition| ResolvedCondition {
            name: payloads.find_name(&condition.field),
            test: match &condition.test {
                Test::AnyOf(values) if values.len() == 1 => ResolvedTest::One(payloads.find(&values[0])),
                Test::AnyOf(values) => ResolvedTest::AnyOf(values.iter().filter_map(|v| payloads.find(v)).collect()),
                Test::Range(range) => ResolvedTest::Range(*range),
            },
        };
        Self { must: filter.must.iter().map(bind).collect(), must_not: filter.must_not.iter().map(bind).collect() }
    }

    /// Whether the filter is one `must` condition, whose postings need no further test.
    fn is_single(&self) -> bool {
        self.must.len() == 1 && self.must_not.is_empty()
    }

    /// Whether no point can match: a `must` condition names a field that no point has.
    fn is_unsatisfiable(&self) -> bool {
        self.must.iter().any(|condition| condition.name.is_none())
    }

    /// The indexes of all its fields; `None` if any is missing.
    fn indexes(&self, indexes: &Indexes) -> Option<HashMap<u32, Arc<FieldIndex>>> {
        let names = self.must.iter().chain(&self.must_not).filter_map(|condition| condition.name);
        let field_indexes: HashMap<_, _> = names.map(|name| Some((name, indexes.get(name)?))).collect::<Option<_>>()?;
        (!field_indexes.is_empty()).then_some(field_indexes)
    }

    fn matches(&self, payloads: &Payloads, row: u32) -> bool {
        if self.must.is_empty() && self.must_not.is_empty() {
            return true;
        }
        let fields = payloads.fields(row);
        self.must.iter().all(|condition| condition.matches(fields))
            && !self.must_not.iter().any(|condition| condition.matches(fields))
    }
}

impl ResolvedCondition {
    fn matches(&self, fields: &[Field]) -> bool {
        let Some(name) = self.name else { return false };
        fields.iter().any(|field| field.name == name && self.test.matches(field.key()))
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

    fn matches(&self, key: Key) -> bool {
        match self {
            Self::One(value) => *value == Some(key),
            Self::AnyOf(values) => values.contains(&key),
            Self::Range(range) => range.matches(key),
        }
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

impl Range {
    /// `Less` below the range, `Greater` above it.
    fn compare(&self, number: Number) -> Ordering {
        let is_outside = |bound: Option<(Number, bool)>, beyond: Ordering| {
            bound.is_some_and(|(bound, inclusive)| match number.cmp(&bound) {
                Ordering::Equal => !inclusive,
                order @ (Ordering::Less | Ordering::Greater) => order == beyond,
            })
        };
        if is_outside(self.low, Ordering::Less) {
            return Ordering::Less;
        }
        if is_outside(self.high, Ordering::Greater) { Ordering::Greater } else { Ordering::Equal }
    }

    fn matches(&self, key: Key) -> bool {
        let number = match key {
            Key::Int(value) => Number::from(value),
            Key::Double(bits) => Number::from(f64::from_bits(bits)),
            Key::Text(_) | Key::Bool(_) => return false,
        };
        self.compare(number).is_eq()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::payload::tests::payload, *};

    fn value(kind: Kind) -> v1::Value {
        v1::Value { kind: Some(kind) }
    }

    fn matches(test: condition::Test, field: Kind) -> bool {
        let condition = v1::Condition { field: "f".into(), test: Some(test) };
        let filter = v1::Filter { must: vec![condition], ..v1::Filter::default() };
        let filter = Filter::parse("filter", &filter).expect("it is well-formed");
        let mut payloads = Payloads::new();
        payloads.push(&payload(&[("e", Kind::IntValue(0)), ("f", field)]));
        ResolvedFilter::new(&filter, &payloads).matches(&payloads, 0)
    }

    fn range(gt: Option<f64>, gte: Option<f64>, lt: Option<f64>, lte: Option<f64>) -> condition::Test {
        condition::Test::Range(v1::Range { gt, gte, lt, lte })
    }

    #[test]
    fn only_integers_and_doubles_are_equal_across_types() {
        let equals = |kind| condition::Test::Equals(value(kind));
        assert!(matches(equals(Kind::DoubleValue(3.0)), Kind::IntValue(3)));
        assert!(matches(equals(Kind::IntValue(3)), Kind::DoubleValue(3.0)));
        assert!(!matches(equals(Kind::IntValue(1)), Kind::BoolValue(true)));
        assert!(!matches(equals(Kind::StringValue("3".into())), Kind::IntValue(3)));
        assert!(matches(equals(Kind::StringValue("a".into())), Kind::StringValue("a".into())));
        assert!(!matches(equals(Kind::StringValue("b".into())), Kind::StringValue("a".into())));
        let two = vec![value(Kind::IntValue(9)), value(Kind::StringValue("a".into()))];
        assert!(matches(condition::Test::AnyOf(v1::ValueSet { values: two }), Kind::StringValue("a".into())));
    }

    #[test]
    fn ranges_compare_large_integers_exactly() {
        let big = 9_007_199_254_740_993; // 2^53 + 1, which no double represents
        assert!(matches(range(Some(9_007_199_254_740_992.0), None, None, None), Kind::IntValue(big)));
        assert!(matches(range(None, None, Some(9_007_199_254_740_994.0), None), Kind::IntValue(big)));
        assert!(matches(range(None, Some(3.0), None, Some(3.0)), Kind::IntValue(3)));
        assert!(!matches(range(Some(3.0), None, None, None), Kind::IntValue(3)));
        assert!(matches(range(Some(-0.5), None, Some(0.5), None), Kind::IntValue(0)));
        assert!(!matches(range(None, None, Some(-0.5), None), Kind::IntValue(0)));
        assert!(matches(range(None, Some(f64::NEG_INFINITY), None, Some(f64::INFINITY)), Kind::IntValue(i64::MAX)));
        assert!(!matches(range(None, None, None, None), Kind::StringValue("1".into())));
    }

    #[test]
    fn integer_bounds_are_not_rounded() {
        /// A time in nanoseconds: doubles near it are 256 apart.
        const TIME: i64 = 1_764_000_000_123_456_789;
        let bound = |bound: i64| Some(value(Kind::IntValue(bound)));
        let number_range = |range: v1::NumberRange| condition::Test::NumberRange(range);
        let none = v1::NumberRange::default;
        let after = |from| number_range(v1::NumberRange { gte: bound(from), ..none() });
        assert!(matches(after(TIME), Kind::IntValue(TIME)));
        assert!(!matches(after(TIME + 1), Kind::IntValue(TIME)));
        let between = |from, to| number_range(v1::NumberRange { gt: bound(from), lt: bound(to), ..none() });
        assert!(matches(between(TIME - 1, TIME + 1), Kind::IntValue(TIME)));
        assert!(!matches(between(TIME, TIME + 1), Kind::IntValue(TIME)));
        assert!(!matches(between(TIME - 1, TIME), Kind::IntValue(TIME)));
        let most = number_range(v1::NumberRange { gt: bound(i64::MAX - 1), ..none() });
        assert!(matches(most.clone(), Kind::IntValue(i64::MAX)));
        assert!(!matches(most, Kind::IntValue(i64::MAX - 1)));
        let whole = 9_007_199_254_740_992.0; // 2^53
        let above = number_range(v1::NumberRange { gte: bound(9_007_199_254_740_993), ..none() });
        assert!(!matches(above, Kind::DoubleValue(whole)));
        let mixed = v1::NumberRange { gte: bound(3), lt: Some(value(Kind::DoubleValue(3.5))), ..none() };
        assert!(matches(number_range(mixed.clone()), Kind::DoubleValue(3.25)));
        assert!(!matches(number_range(mixed), Kind::DoubleValue(3.5)));
        assert!(!matches(number_range(none()), Kind::BoolValue(true)));
    }

    #[test]
    fn lists_that_are_given_and_empty_match_nothing() {
        let empty = condition::Test::AnyOf(v1::ValueSet { values: vec![] });
        assert!(!matches(empty.clone(), Kind::IntValue(1)));
        let condition = v1::Condition { field: "f".into(), test: Some(empty) };
        let none_of = v1::Filter { must_not: vec![condition], ..v1::Filter::default() };
        let none_of = Filter::parse("filter", &none_of).expect("it is well-formed");
        let mut payloads = Payloads::new();
        payloads.push(&payload(&[("f", Kind::IntValue(1))]));
        assert!(ResolvedFilter::new(&none_of, &payloads).matches(&payloads, 0), "it equals none of no values");
        let no_ids = v1::Filter { ids: Some(v1::PointIds::default()), ..v1::Filter::default() };
        let no_ids = Filter::parse("filter", &no_ids).expect("it is well-formed");
        assert!(!no_ids.is_empty());
        assert_eq!(no_ids.only_ids().map(Ids::len), Some(0));
        assert!(Filter::parse("filter", &v1::Filter::default()).expect("it is well-formed").is_empty());
    }

    #[test]
    fn a_missing_field_matches_neither_must_nor_must_not() {
        let condition = |field: &str| v1::Condition {
            field: field.into(),
            test: Some(condition::Test::Equals(value(Kind::IntValue(1)))),
        };
        let mut payloads = Payloads::new();
        payloads.push(&payload(&[("f", Kind::IntValue(1))]));
        let matches = |must: &[&str], must_not: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| condition(name)).collect();
            let filter = v1::Filter { ids: None, must: list(must), must_not: list(must_not) };
            let filter = Filter::parse("filter", &filter).expect("it is well-formed");
            ResolvedFilter::new(&filter, &payloads).matches(&payloads, 0)
        };
        assert!(matches(&["f"], &["g"]));
        assert!(!matches(&["f", "g"], &[]));
        assert!(!matches(&[], &["f"]));
    }

    #[test]
    fn errors_of_a_filter_name_the_field() {
        let bad = |condition: v1::Condition| {
            let filter = v1::Filter { must_not: vec![condition], ..v1::Filter::default() };
            Filter::parse("filter", &filter).expect_err("it is not well-formed").to_string()
        };
        let with = |test| bad(v1::Condition { field: "f".into(), test });
        assert!(bad(v1::Condition::default()).starts_with("filter.must_not[0].field: "));
        assert!(with(None).starts_with("filter.must_not[0]: "));
        assert!(with(Some(range(Some(f64::NAN), None, None, None))).starts_with("filter.must_not[0].range: "));
        assert!(with(Some(range(Some(1.0), Some(1.0), None, None))).contains("got both"));
        let number_range = |gt: Kind, gte: Option<Kind>| {
            let (gt, gte) = (Some(value(gt)), gte.map(value));
            Some(condition::Test::NumberRange(v1::NumberRange { gt, gte, ..v1::NumberRange::default() }))
        };
        let nan = with(number_range(Kind::DoubleValue(f64::NAN), None));
        assert!(nan.starts_with("filter.must_not[0].number_range.gt: "), "{nan}");
        let text = with(number_range(Kind::StringValue("1".into()), None));
        assert!(text.ends_with("expected an integer or a double"), "{text}");
        let none = v1::NumberRange { lte: Some(v1::Value { kind: None }), ..v1::NumberRange::default() };
        let none = with(Some(condition::Test::NumberRange(none)));
        assert!(none.starts_with("filter.must_not[0].number_range.lte: "), "{none}");
        assert!(with(number_range(Kind::IntValue(1), Some(Kind::IntValue(1)))).contains("got both"));
    }
}
