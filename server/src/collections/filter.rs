//! Filters: checked once, bound to a generation's names and texts, and answered from the indexes of its fields. Rows that an
//! index does not have yet are tested one by one.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use accelerd_kernels::ops::similarity::Selection;
use accelerd_proto::v1::{self, condition, value::Kind};
use accelerd_store::Ids;

use super::{
    index::{FieldIndex, Indexes, Number, clear_bits, set_bits},
    payload::{Field, Key, Payloads},
    points::{Bits, Points},
};
use crate::{error::ApiError, grpc::convert};

/// Up to this many rows go as a list even where they are many for the collection.
const FEW_ROWS: usize = 1024;
/// One row in so many, and fewer, are a list.
const SPARSE: usize = 50;
/// The cost of testing a row's payload, where that of a row of an index is 1.
const TEST_COST: usize = 8;

/// A filter that is well-formed.
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

/// Numbers between bounds, each with whether it belongs to them.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: Option<(f64, bool)>,
    high: Option<(f64, bool)>,
}

/// What a filter selects.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    /// In the form of a search.
    pub(crate) selection: Selection,
    /// How many rows.
    pub(crate) count: usize,
}

impl Filter {
    /// Checks a filter that came in `at`.
    pub fn parse(at: &str, filter: &v1::Filter) -> Result<Self, ApiError> {
        let ids = filter.ids.as_ref().filter(|ids| **ids != v1::PointIds::default());
        let ids = ids.map(|ids| convert::ids(&format!("{at}.ids"), ids)).transpose()?;
        let list = |name: &str, list: &[v1::Condition]| {
            let parsed = list.iter().enumerate().map(|(i, condition)| parse(&format!("{at}.{name}[{i}]"), condition));
            parsed.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { ids, must: list("must", &filter.must)?, must_not: list("must_not", &filter.must_not)? })
    }

    /// Whether it lets everything pass.
    pub fn is_empty(&self) -> bool {
        self.ids.is_none() && !self.has_conditions()
    }

    /// The ids, where nothing else is asked for.
    pub(crate) fn only_ids(&self) -> Option<&Ids> {
        self.ids.as_ref().filter(|_| !self.has_conditions())
    }

    /// The fields that it asks for.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.must.iter().chain(&self.must_not).map(|condition| condition.field.as_str())
    }

    /// Live rows that pass, ascending.
    pub(crate) fn rows(&self, points: &Points, indexes: &Indexes) -> Vec<u32> {
        match self.passing(points, indexes) {
            Passing::Rows(rows) => rows,
            Passing::Mask(words) => rows_of(&words),
        }
    }

    /// How many live rows pass.
    pub(crate) fn count(&self, points: &Points, indexes: &Indexes) -> usize {
        self.passing(points, indexes).count()
    }

    /// Live rows that pass, in the form that is cheaper to search.
    pub(crate) fn select(&self, points: &Points, indexes: &Indexes) -> Selected {
        let passing = self.passing(points, indexes);
        let count = passing.count();
        let is_few = count <= (points.rows() / SPARSE).max(FEW_ROWS);
        let selection = match passing {
            Passing::Rows(rows) if is_few => Selection::Rows(Arc::new(rows)),
            Passing::Rows(rows) => Selection::Mask(Arc::new(mask(&rows, points.rows()))),
            Passing::Mask(words) if is_few => Selection::Rows(Arc::new(rows_of(&words))),
            Passing::Mask(words) => Selection::Mask(Arc::new(words)),
        };
        Selected { selection, count }
    }

    /// About what evaluating it costs, where reading a row of an index costs 1.
    pub(crate) fn cost(&self, points: &Points, indexes: &Indexes) -> usize {
        if let Some(ids) = &self.ids {
            return ids.len() * TEST_COST;
        }
        let bound = Bound::new(self, points.payloads());
        let held = bound.indexes(indexes);
        held.map_or(points.rows() * TEST_COST, |held| Plan::new(&bound, &held).cost(&bound, points))
    }

    fn passing(&self, points: &Points, indexes: &Indexes) -> Passing {
        let bound = Bound::new(self, points.payloads());
        let passes = |row: &u32| bound.passes(points.payloads(), *row);
        if let Some(ids) = &self.ids {
            let mut rows: Vec<_> = points.find(ids).into_iter().map(|(_, row)| row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.retain(passes);
            return Passing::Rows(rows);
        }
        if bound.is_unsatisfiable() {
            return Passing::Rows(vec![]);
        }
        match bound.indexes(indexes) {
            Some(held) => Plan::new(&bound, &held).run(&bound, points),
            None => Passing::Rows(points.live_rows().filter(passes).collect()),
        }
    }

    fn has_conditions(&self) -> bool {
        !self.must.is_empty() || !self.must_not.is_empty()
    }
}

impl Selected {
    /// The rows, where they are a list.
    pub(crate) fn list(&self) -> Option<&[u32]> {
        match &self.selection {
            Selection::Rows(rows) => Some(rows),
            Selection::All | Selection::Mask(_) => None,
        }
    }

    /// Whether a row is among them.
    pub(crate) fn contains(&self, row: u32) -> bool {
        match &self.selection {
            Selection::All => true,
            Selection::Mask(words) => words.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1),
            Selection::Rows(rows) => rows.binary_search(&row).is_ok(),
        }
    }
}

/// Rows that pass.
enum Passing {
    /// Ascending.
    Rows(Vec<u32>),
    /// Bit `i % 32` of word `i / 32`: row i passes.
    Mask(Vec<u32>),
}

impl Passing {
    fn count(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Mask(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }
}

/// What the indexes say of each condition.
struct Plan<'a> {
    must: Vec<Matches<'a>>,
    must_not: Vec<Matches<'a>>,
    /// Rows below this are in all the indexes.
    covered: u32,
}

/// The rows that pass a condition, a list a value.
#[derive(Default)]
struct Matches<'a> {
    lists: Vec<&'a [u32]>,
    count: usize,
}

impl<'a> Plan<'a> {
    fn new(bound: &Bound, held: &'a HashMap<u32, Arc<FieldIndex>>) -> Self {
        let matches = |condition: &BoundCondition| match condition.name.and_then(|name| held.get(&name)) {
            Some(index) => condition.test.matches(index),
            None => Matches::default(),
        };
        Self {
            must: bound.must.iter().map(matches).collect(),
            must_not: bound.must_not.iter().map(matches).collect(),
            covered: held.values().map(|index| index.rows()).min().unwrap_or_default(),
        }
    }

    fn run(&self, bound: &Bound, points: &Points) -> Passing {
        match self.fewest(points) {
            Some(fewest) => Passing::Rows(self.list(fewest, bound, points)),
            None => Passing::Mask(self.mask(bound, points)),
        }
    }

    /// The condition that the fewest rows pass, where they are few.
    fn fewest(&self, points: &Points) -> Option<&Matches<'a>> {
        let fewest = self.must.iter().min_by_key(|matches| matches.count);
        fewest.filter(|fewest| fewest.count <= points.rows() / SPARSE)
    }

    fn cost(&self, bound: &Bound, points: &Points) -> usize {
        let all = self.must.iter().chain(&self.must_not).map(|matches| matches.count).sum::<usize>();
        let indexed = match self.fewest(points) {
            Some(fewest) if bound.is_single() => fewest.count,
            Some(fewest) => fewest.count * TEST_COST,
            None => points.live().len() * (1 + self.must.len()) + all,
        };
        indexed + self.rest(points).len() * TEST_COST
    }

    /// The few rows that pass one condition, those of them that pass the others.
    fn list(&self, fewest: &Matches<'_>, bound: &Bound, points: &Points) -> Vec<u32> {
        let mut rows = Vec::with_capacity(fewest.count);
        fewest.lists.iter().for_each(|list| rows.extend(list.iter().filter(|row| **row < self.covered)));
        sort(&mut rows, points.rows());
        let passes = |row: &u32| bound.passes(points.payloads(), *row);
        rows.retain(|row| points.is_live(*row) && (bound.is_single() || passes(row)));
        rows.extend(self.rest(points).filter(|row| points.is_live(*row) && passes(row)));
        rows
    }

    /// Combines all conditions, a bit a row.
    fn mask(&self, bound: &Bound, points: &Points) -> Vec<u32> {
        let mut words = points.live().to_vec();
        for matches in &self.must {
            let mut passing = vec![0; words.len()];
            matches.lists.iter().for_each(|list| set_bits(&mut passing, list));
            words.iter_mut().zip(passing).for_each(|(word, passing)| *word &= passing);
        }
        for matches in &self.must_not {
            matches.lists.iter().for_each(|list| clear_bits(&mut words, list));
        }
        for row in self.rest(points) {
            let passes = points.is_live(row) && bound.passes(points.payloads(), row);
            if passes { set_bits(&mut words, &[row]) } else { clear_bits(&mut words, &[row]) }
        }
        words
    }

    /// Rows that an index does not have.
    fn rest(&self, points: &Points) -> std::ops::Range<u32> {
        self.covered..u32::try_from(points.rows()).expect("rows of a collection are counted in 32 bits")
    }
}

fn mask(rows: &[u32], len: usize) -> Vec<u32> {
    let mut words = vec![0; len.div_ceil(32)];
    set_bits(&mut words, rows);
    words
}

/// Sorts rows of which there are `len`, and leaves each once.
fn sort(rows: &mut Vec<u32>, len: usize) {
    /// Rows are ordered by a bitmap where sorting them would take longer than reading one.
    const BITMAP: usize = 32 * 4;
    if rows.len() > len / BITMAP && !rows.is_sorted() {
        *rows = rows_of(&mask(rows, len));
    } else {
        rows.sort_unstable();
        rows.dedup();
    }
}

fn rows_of(words: &[u32]) -> Vec<u32> {
    (0u32..).zip(words).flat_map(|(i, word)| Bits(*word).map(move |bit| i * 32 + bit)).collect()
}

fn parse(at: &str, condition: &v1::Condition) -> Result<Condition, ApiError> {
    if condition.field.is_empty() {
        return Err(ApiError::invalid(format!("{at}.field"), "expected the name of a field, got none"));
    }
    let test = match &condition.test {
        None => return Err(ApiError::invalid(at, "expected equals, any_of or range, got none")),
        Some(condition::Test::Equals(value)) => Test::AnyOf(vec![kind(&format!("{at}.equals"), value)?]),
        Some(condition::Test::AnyOf(set)) => any_of(&format!("{at}.any_of"), set)?,
        Some(condition::Test::Range(range)) => Test::Range(parse_range(&format!("{at}.range"), range)?),
    };
    Ok(Condition { field: condition.field.clone(), test })
}

fn any_of(at: &str, set: &v1::ValueSet) -> Result<Test, ApiError> {
    if set.values.is_empty() {
        return Err(ApiError::invalid(format!("{at}.values"), "expected at least one value, got none"));
    }
    let values = set.values.iter().enumerate().map(|(i, value)| kind(&format!("{at}.values[{i}]"), value));
    Ok(Test::AnyOf(values.collect::<Result<_, _>>()?))
}

fn kind(at: &str, value: &v1::Value) -> Result<Kind, ApiError> {
    match &value.kind {
        None => Err(ApiError::invalid(at, "expected a value, got none")),
        Some(Kind::DoubleValue(value)) if value.is_nan() => Err(ApiError::invalid(at, "expected a number, got NaN")),
        Some(kind) => Ok(kind.clone()),
    }
}

fn parse_range(at: &str, range: &v1::Range) -> Result<Range, ApiError> {
    let bound = |exclusive: Option<f64>, inclusive: Option<f64>, names: &str| match (exclusive, inclusive) {
        (Some(_), Some(_)) => Err(ApiError::invalid(at, format!("expected one of {names}, got both"))),
        (Some(x), None) | (None, Some(x)) if x.is_nan() => Err(ApiError::invalid(at, "expected a number, got NaN")),
        (Some(x), None) => Ok(Some((x, false))),
        (None, Some(x)) => Ok(Some((x, true))),
        (None, None) => Ok(None),
    };
    Ok(Range { low: bound(range.gt, range.gte, "gt and gte")?, high: bound(range.lt, range.lte, "lt and lte")? })
}

/// A filter's conditions with names and texts looked up.
struct Bound {
    must: Vec<BoundCondition>,
    must_not: Vec<BoundCondition>,
}

struct BoundCondition {
    /// `None`: no point has such a field.
    name: Option<u32>,
    test: BoundTest,
}

enum BoundTest {
    One(Option<Key>),
    AnyOf(HashSet<Key>),
    Range(Range),
}

impl Bound {
    fn new(filter: &Filter, payloads: &Payloads) -> Self {
        let bind = |condition: &Condition| BoundCondition {
            name: payloads.find_name(&condition.field),
            test: match &condition.test {
                Test::AnyOf(values) if values.len() == 1 => BoundTest::One(payloads.find(&values[0])),
                Test::AnyOf(values) => BoundTest::AnyOf(values.iter().filter_map(|v| payloads.find(v)).collect()),
                Test::Range(range) => BoundTest::Range(*range),
            },
        };
        Self { must: filter.must.iter().map(bind).collect(), must_not: filter.must_not.iter().map(bind).collect() }
    }

    /// Whether it is one condition, so that the rows an index gives for it pass.
    fn is_single(&self) -> bool {
        self.must.len() == 1 && self.must_not.is_empty()
    }

    /// Whether no point can pass: it must have a field that none has.
    fn is_unsatisfiable(&self) -> bool {
        self.must.iter().any(|condition| condition.name.is_none())
    }

    /// The indexes of all its fields; `None` where one is missing.
    fn indexes(&self, indexes: &Indexes) -> Option<HashMap<u32, Arc<FieldIndex>>> {
        let names = self.must.iter().chain(&self.must_not).filter_map(|condition| condition.name);
        let held: HashMap<_, _> = names.map(|name| Some((name, indexes.get(name)?))).collect::<Option<_>>()?;
        (!held.is_empty()).then_some(held)
    }

    fn passes(&self, payloads: &Payloads, row: u32) -> bool {
        if self.must.is_empty() && self.must_not.is_empty() {
            return true;
        }
        let fields = payloads.fields(row);
        self.must.iter().all(|condition| condition.holds(fields))
            && !self.must_not.iter().any(|condition| condition.holds(fields))
    }
}

impl BoundCondition {
    fn holds(&self, fields: &[Field]) -> bool {
        let Some(name) = self.name else { return false };
        fields.iter().any(|field| field.name == name && self.test.holds(field.key()))
    }
}

impl BoundTest {
    /// The rows that pass it.
    fn matches<'a>(&self, index: &'a FieldIndex) -> Matches<'a> {
        let mut lists = vec![];
        match self {
            Self::One(value) => lists.extend(value.map(|value| rows_with(index, value))),
            Self::AnyOf(values) => lists.extend(values.iter().map(|value| rows_with(index, *value))),
            Self::Range(range) => {
                let (first, end) = index.numbers.find_range(|number| range.compare(number));
                lists.push(index.numbers.rows(first, end));
            }
        }
        Matches { count: lists.iter().map(|list| list.len()).sum(), lists }
    }

    fn holds(&self, key: Key) -> bool {
        match self {
            Self::One(value) => *value == Some(key),
            Self::AnyOf(values) => values.contains(&key),
            Self::Range(range) => range.holds(key),
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
        let is_outside = |bound: Option<(f64, bool)>, beyond: Ordering| {
            bound.is_some_and(|(bound, inclusive)| match number.cmp(&Number::from(bound)) {
                Ordering::Equal => !inclusive,
                order @ (Ordering::Less | Ordering::Greater) => order == beyond,
            })
        };
        if is_outside(self.low, Ordering::Less) {
            return Ordering::Less;
        }
        if is_outside(self.high, Ordering::Greater) { Ordering::Greater } else { Ordering::Equal }
    }

    fn holds(&self, key: Key) -> bool {
        let compare = |bound: f64| match key {
            Key::Int(value) => Some(compare(value, bound)),
            Key::Double(bits) => f64::from_bits(bits).partial_cmp(&bound),
            Key::Text(_) | Key::Bool(_) => None,
        };
        let is_number = matches!(key, Key::Int(_) | Key::Double(_));
        let above = self.low.is_none_or(|(bound, inclusive)| match compare(bound) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Equal) => inclusive,
            Some(Ordering::Less) | None => false,
        });
        let below = self.high.is_none_or(|(bound, inclusive)| match compare(bound) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => inclusive,
            Some(Ordering::Greater) | None => false,
        });
        is_number && above && below
    }
}

/// An integer with a double that is not NaN, exactly: not by rounding the integer.
fn compare(value: i64, bound: f64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if bound >= LIMIT {
        return Ordering::Less;
    }
    if bound < -LIMIT {
        return Ordering::Greater;
    }
    #[allow(clippy::cast_possible_truncation, reason = "it is in range, and the fraction is compared after it")]
    let whole = bound.trunc() as i64;
    value.cmp(&whole).then_with(|| 0.0.partial_cmp(&bound.fract()).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::{super::payload::tests::payload, *};

    fn value(kind: Kind) -> v1::Value {
        v1::Value { kind: Some(kind) }
    }

    fn holds(test: condition::Test, field: Kind) -> bool {
        let condition = v1::Condition { field: "f".into(), test: Some(test) };
        let filter = v1::Filter { must: vec![condition], ..v1::Filter::default() };
        let filter = Filter::parse("filter", &filter).expect("it is well-formed");
        let mut payloads = Payloads::new();
        payloads.push(&payload(&[("e", Kind::IntValue(0)), ("f", field)]));
        Bound::new(&filter, &payloads).passes(&payloads, 0)
    }

    fn range(gt: Option<f64>, gte: Option<f64>, lt: Option<f64>, lte: Option<f64>) -> condition::Test {
        condition::Test::Range(v1::Range { gt, gte, lt, lte })
    }

    #[test]
    fn equality_is_by_value_and_never_across_other_kinds() {
        let equals = |kind| condition::Test::Equals(value(kind));
        assert!(holds(equals(Kind::DoubleValue(3.0)), Kind::IntValue(3)));
        assert!(holds(equals(Kind::IntValue(3)), Kind::DoubleValue(3.0)));
        assert!(!holds(equals(Kind::IntValue(1)), Kind::BoolValue(true)));
        assert!(!holds(equals(Kind::StringValue("3".into())), Kind::IntValue(3)));
        assert!(holds(equals(Kind::StringValue("a".into())), Kind::StringValue("a".into())));
        assert!(!holds(equals(Kind::StringValue("b".into())), Kind::StringValue("a".into())));
        let two = vec![value(Kind::IntValue(9)), value(Kind::StringValue("a".into()))];
        assert!(holds(condition::Test::AnyOf(v1::ValueSet { values: two }), Kind::StringValue("a".into())));
    }

    #[test]
    fn ranges_compare_large_integers_exactly() {
        let big = 9_007_199_254_740_993; // 2^53 + 1, which no double is
        assert!(holds(range(Some(9_007_199_254_740_992.0), None, None, None), Kind::IntValue(big)));
        assert!(holds(range(None, None, Some(9_007_199_254_740_994.0), None), Kind::IntValue(big)));
        assert!(holds(range(None, Some(3.0), None, Some(3.0)), Kind::IntValue(3)));
        assert!(!holds(range(Some(3.0), None, None, None), Kind::IntValue(3)));
        assert!(holds(range(Some(-0.5), None, Some(0.5), None), Kind::IntValue(0)));
        assert!(!holds(range(None, None, Some(-0.5), None), Kind::IntValue(0)));
        assert!(holds(range(None, Some(f64::NEG_INFINITY), None, Some(f64::INFINITY)), Kind::IntValue(i64::MAX)));
        assert!(!holds(range(None, None, None, None), Kind::StringValue("1".into())));
    }

    #[test]
    fn a_missing_field_passes_no_condition_but_no_prohibition_either() {
        let condition = |field: &str| v1::Condition {
            field: field.into(),
            test: Some(condition::Test::Equals(value(Kind::IntValue(1)))),
        };
        let mut payloads = Payloads::new();
        payloads.push(&payload(&[("f", Kind::IntValue(1))]));
        let passes = |must: &[&str], must_not: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| condition(name)).collect();
            let filter = v1::Filter { ids: None, must: list(must), must_not: list(must_not) };
            let filter = Filter::parse("filter", &filter).expect("it is well-formed");
            Bound::new(&filter, &payloads).passes(&payloads, 0)
        };
        assert!(passes(&["f"], &["g"]));
        assert!(!passes(&["f", "g"], &[]));
        assert!(!passes(&[], &["f"]));
    }

    #[test]
    fn bad_filters_name_their_place() {
        let bad = |condition: v1::Condition| {
            let filter = v1::Filter { must_not: vec![condition], ..v1::Filter::default() };
            Filter::parse("filter", &filter).expect_err("it is not well-formed").to_string()
        };
        let with = |test| bad(v1::Condition { field: "f".into(), test });
        assert!(bad(v1::Condition::default()).starts_with("filter.must_not[0].field: "));
        assert!(with(None).starts_with("filter.must_not[0]: "));
        assert!(with(Some(range(Some(f64::NAN), None, None, None))).starts_with("filter.must_not[0].range: "));
        assert!(with(Some(range(Some(1.0), Some(1.0), None, None))).contains("got both"));
        let empty = condition::Test::AnyOf(v1::ValueSet { values: vec![] });
        assert!(with(Some(empty)).starts_with("filter.must_not[0].any_of.values: "));
    }
}
