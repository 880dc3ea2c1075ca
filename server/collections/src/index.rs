//! Inverted indexes of payload fields: a posting list of rows per value.
//!
//! The index of a field is built when a filter first needs it. Rows of a generation are immutable, so an index only
//! grows: it covers a prefix of the rows, and the rest are tested one by one until there are enough of them to be worth
//! a merge. Postings include deleted rows; the caller masks them out.

use std::{
    cmp::Ordering,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use super::{
    budget::Budget,
    payload::Key,
    points::{self, Points},
};

/// Collections of fewer rows have no indexes.
pub(super) const MIN_ROWS: usize = 2048;
/// Rows read per acquisition of the lock.
const STEP_ROWS: usize = 1 << 16;
/// An index is extended when it lacks more than one row in this many plus `MIN_ROWS / 2`.
const LAG: usize = 64;
/// Bytes per row while an index is built, and of a posting with a distinct value.
const ENTRY_BYTES: u64 = 24;

/// Indexes of the fields that filters have used.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// Keyed by field name index.
    fields: RwLock<HashMap<u32, Arc<FieldIndex>>>,
    /// Held while an index is built, so that no two callers build the same one.
    building: Mutex<()>,
}

/// The index of one field.
#[derive(Debug, Default)]
pub(super) struct FieldIndex {
    /// The index covers the rows below this one.
    rows: u32,
    /// Keyed by string index.
    pub(super) texts: Postings<u64>,
    pub(super) numbers: Postings<Number>,
    pub(super) bools: Postings<bool>,
}

/// Posting lists by value.
#[derive(Debug)]
pub(super) struct Postings<K> {
    /// Ascending and distinct.
    keys: Vec<K>,
    /// Offsets of each key's postings in `rows`, and the end of the last.
    starts: Vec<u32>,
    /// Postings, ascending within a key.
    rows: Vec<u32>,
}

/// An integer or a double, ordered by value: the integer part, then the fraction as order-preserving bits. A double
/// outside the range of i64 saturates the integer part and keeps its whole value in `rest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    whole: i64,
    rest: u64,
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self { whole: value, rest: ordered(0.0) }
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        /// 2^63.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if value >= LIMIT {
            return Self { whole: i64::MAX, rest: ordered(value) };
        }
        if value < -LIMIT {
            return Self { whole: i64::MIN, rest: ordered(value) };
        }
        #[allow(clippy::cast_possible_truncation, reason = "the value is an integer in range")]
        let whole = value.trunc() as i64;
        // Adding zero turns -0 into +0.
        Self { whole, rest: ordered(value.fract() + 0.0) }
    }
}

/// Maps a double to bits that compare as the doubles do.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

impl Indexes {
    /// Bytes of all indexes in host memory.
    pub(super) fn host_bytes(&self) -> u64 {
        self.fields.read().unwrap_or_else(PoisonError::into_inner).values().map(|index| index.host_bytes()).sum()
    }

    pub(super) fn get(&self, name: u32) -> Option<Arc<FieldIndex>> {
        self.fields.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    fn set(&self, name: u32, index: FieldIndex) {
        self.fields.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(index));
    }

    /// Drops all indexes; filters build them again.
    pub(super) fn evict(&self) {
        let indexes = std::mem::take(&mut *self.fields.write().unwrap_or_else(PoisonError::into_inner));
        drop(indexes);
    }

    /// Creates or extends the indexes of some fields, as far as the budget allows. Returns whether any changed.
    pub(super) fn prepare(&self, fields: &[u32], points: &RwLock<Points>, budget: &Arc<Budget>) -> bool {
        let mut changed = false;
        for name in fields {
            changed |= self.prepare_field(*name, points, budget);
        }
        changed
    }

    /// Returns true if [`Self::prepare`] would create or extend an index.
    pub(super) fn lacks(&self, fields: &[u32], points: &RwLock<Points>) -> bool {
        fields.iter().any(|name| self.is_stale(*name, points))
    }

    fn prepare_field(&self, name: u32, points: &RwLock<Points>, budget: &Arc<Budget>) -> bool {
        if !self.is_stale(name, points) {
            return false;
        }
        let _one_at_a_time = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        // The previous holder of the lock may have updated this one.
        if !self.is_stale(name, points) {
            return false;
        }
        let old = self.get(name).unwrap_or_default();
        let entries = points::read(points).rows() as u64 - u64::from(old.rows);
        let Some(_reservation) = budget.reserve_index(old.host_bytes() + entries * ENTRY_BYTES) else { return false };
        let extended = old.extended(name, points);
        self.set(name, extended);
        true
    }

    fn is_stale(&self, name: u32, points: &RwLock<Points>) -> bool {
        let index = self.get(name);
        let rows = points::read(points).rows();
        let missing = rows - index.as_ref().map_or(0, |index| index.rows as usize);
        missing > MIN_ROWS / 2 + rows / LAG || index.is_none()
    }
}

impl FieldIndex {
    /// This index merged with all rows that it lacks.
    fn extended(&self, name: u32, points: &RwLock<Points>) -> Self {
        let mut texts = vec![];
        let mut numbers = vec![];
        let mut bools = vec![];
        let mut next = self.rows as usize;
        let mut end = self.rows as usize + 1;
        while next < end {
            let points = points::read(points);
            end = points.rows();
            let step = end.min(next + STEP_ROWS);
            for row in next..step {
                let row = u32::try_from(row).expect("rows of a collection are counted in 32 bits");
                match points.payloads().key(row, name) {
                    None => {}
                    Some(Key::Text(text)) => texts.push((text, row)),
                    Some(Key::Int(value)) => numbers.push((Number::from(value), row)),
                    Some(Key::Double(bits)) => numbers.push((Number::from(f64::from_bits(bits)), row)),
                    Some(Key::Bool(value)) => bools.push((value, row)),
                }
            }
            next = step;
        }
        FieldIndex {
            rows: u32::try_from(next).expect("rows of a collection are counted in 32 bits"),
            texts: self.texts.merge(texts),
            numbers: self.numbers.merge(numbers),
            bools: self.bools.merge(bools),
        }
    }

    /// Number of indexed rows.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    fn host_bytes(&self) -> u64 {
        (self.texts.host_bytes() + self.numbers.host_bytes() + self.bools.host_bytes()) as u64
    }
}

impl<K> Default for Postings<K> {
    fn default() -> Self {
        Self { keys: vec![], starts: vec![], rows: vec![] }
    }
}

impl<K: Copy + Ord> Postings<K> {
    /// Merges in the entries of later rows.
    fn merge(&self, mut later: Vec<(K, u32)>) -> Self {
        let mut entries: Vec<(K, u32)> = Vec::with_capacity(self.rows.len() + later.len());
        for (at, key) in self.keys.iter().enumerate() {
            entries.extend(self.rows[self.span(at, at + 1)].iter().map(|row| (*key, *row)));
        }
        later.sort_unstable();
        entries.append(&mut later);
        // The stable sort merges the two ascending runs in linear time.
        entries.sort();
        Self::from_sorted(&entries)
    }

    /// Builds the lists from ascending entries.
    fn from_sorted(entries: &[(K, u32)]) -> Self {
        let distinct = entries.chunk_by(|a, b| a.0 == b.0).count();
        let mut keys = Vec::with_capacity(distinct);
        let mut starts = Vec::with_capacity(distinct + 1);
        let mut start = 0;
        for same in entries.chunk_by(|a, b| a.0 == b.0) {
            keys.push(same[0].0);
            starts.push(start);
            start += u32::try_from(same.len()).expect("rows of a collection are counted in 32 bits");
        }
        starts.push(start);
        Self { keys, starts, rows: entries.iter().map(|(_, row)| *row).collect() }
    }

    /// The posting list of a key.
    pub(super) fn equal(&self, key: K) -> &[u32] {
        self.keys.binary_search(&key).map_or(&[][..], |at| self.rows(at, at + 1))
    }

    /// The range of keys that compare as `Equal`; `Less` is below it, `Greater` above.
    pub(super) fn find_range(&self, compare: impl Fn(K) -> Ordering) -> (usize, usize) {
        let first = self.keys.partition_point(|key| compare(*key).is_lt());
        (first, first.max(self.keys.partition_point(|key| compare(*key).is_le())))
    }

    /// The postings of the keys at `first..end`.
    pub(super) fn rows(&self, first: usize, end: usize) -> &[u32] {
        &self.rows[self.span(first, end)]
    }

    fn span(&self, first: usize, end: usize) -> std::ops::Range<usize> {
        if first >= end { 0..0 } else { self.starts[first] as usize..self.starts[end] as usize }
    }

    fn host_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<K>() + (self.starts.capacity() + self.rows.capacity()) * size_of::<u32>()
    }
}

/// Sets the bits of rows in a bitmap: bit `i % 32` of word `i / 32` is row i's.
pub(super) fn set_bits(words: &mut [u32], rows: &[u32]) {
    for row in rows {
        // An index may cover rows appended after the bitmap was allocated.
        if let Some(word) = words.get_mut(*row as usize / 32) {
            *word |= 1 << (row % 32);
        }
    }
}

/// Clears the bits of rows.
pub(super) fn clear_bits(words: &mut [u32], rows: &[u32]) {
    for row in rows {
        if let Some(word) = words.get_mut(*row as usize / 32) {
            *word &= !(1 << (row % 32));
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::Matrix;
    use accelerd_proto::v1::{self, condition::Test, value::Kind};
    use accelerd_store::Ids;
    use proptest::prelude::*;

    use super::{
        super::{
            filter::{Filter, Selected},
            generation::{Generation, tests::generation},
            payload::tests::payload,
        },
        *,
    };

    /// 2^53, above which not every integer is representable as a double.
    const BIG: i64 = 9_007_199_254_740_992;

    /// Values that are easily confused.
    fn values() -> Vec<Kind> {
        let ints = [0, 1, -1, 7, BIG, BIG + 1, -BIG - 1, i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN + 1];
        let doubles = [0.0, -0.0, 0.5, -0.5, 1.0, 7.0, -1e-300, -1e-301, 1e300, -1e300, 9_007_199_254_740_992.0];
        let edges = [9_223_372_036_854_775_808.0, -9_223_372_036_854_775_808.0, f64::MIN_POSITIVE, f64::MAX, f64::MIN];
        let texts = ["", "1", "true", "größe", "a"];
        let ints = ints.into_iter().map(Kind::IntValue);
        let doubles = doubles.into_iter().chain(edges).map(Kind::DoubleValue);
        let texts =
            texts.into_iter().map(|text| Kind::StringValue(text.into())).chain([Kind::StringValue("x".repeat(5000))]);
        ints.chain(doubles).chain(texts).chain([false, true].map(Kind::BoolValue)).collect()
    }

    /// Adds rows: `mixed` has any value or none, `own` a unique value, `half` one of two values or none.
    fn write(generation: &Generation, first: u64, count: u64) {
        let values = values();
        let payload = |id: u64| {
            let mixed = values
                .get(usize::try_from(id).expect("few rows") * 7919 % (values.len() + 3))
                .map(|kind| ("mixed", kind.clone()));
            let own = ("own", Kind::StringValue(format!("own {id}")));
            let half = (id % 10 != 9).then_some(("half", Kind::BoolValue(id.is_multiple_of(2))));
            payload(&mixed.into_iter().chain([own]).chain(half).collect::<Vec<_>>())
        };
        let ids: Vec<u64> = (first..first + count).collect();
        let payloads: Vec<_> = ids.iter().map(|id| payload(*id)).collect();
        let vectors = Matrix::from_vec(ids.len(), 2, vec![1.0; 2 * ids.len()]).expect("two numbers a point");
        generation.upsert(&Ids::Numbers(ids), &vectors, &payloads);
    }

    fn condition(field: &str, test: Test) -> v1::Condition {
        v1::Condition { field: field.into(), test: Some(test) }
    }

    fn equals(field: &str, kind: Kind) -> v1::Condition {
        condition(field, Test::Equals(v1::Value { kind: Some(kind) }))
    }

    fn any_of(field: &str, kinds: impl IntoIterator<Item = Kind>) -> v1::Condition {
        let values = kinds.into_iter().map(|kind| v1::Value { kind: Some(kind) }).collect();
        condition(field, Test::AnyOf(v1::ValueSet { values }))
    }

    fn filters() -> Vec<v1::Filter> {
        let must = |must: Vec<v1::Condition>| v1::Filter { must, ..Default::default() };
        let must_not = |must_not: Vec<v1::Condition>| v1::Filter { must_not, ..Default::default() };
        let mut filters: Vec<_> = values().into_iter().map(|kind| must(vec![equals("mixed", kind)])).collect();
        let bounds =
            [f64::NEG_INFINITY, -1e300, -0.5, -0.0, 0.0, 0.5, 7.0, 9_007_199_254_740_992.0, 9.3e18, f64::INFINITY];
        for bound in bounds {
            let ranges = [
                v1::Range { gt: Some(bound), ..Default::default() },
                v1::Range { gte: Some(bound), ..Default::default() },
                v1::Range { lt: Some(bound), ..Default::default() },
                v1::Range { lte: Some(bound), gt: Some(-2.0), ..Default::default() },
            ];
            filters.extend(ranges.map(|range| must(vec![condition("mixed", Test::Range(range))])));
        }
        for bound in [0, BIG, BIG + 1, -BIG - 1, i64::MAX - 1, i64::MAX, i64::MIN] {
            let bound = || Some(v1::Value { kind: Some(Kind::IntValue(bound)) });
            let one = || Some(v1::Value { kind: Some(Kind::DoubleValue(0.5)) });
            let ranges = [
                v1::NumberRange { gt: bound(), ..Default::default() },
                v1::NumberRange { gte: bound(), ..Default::default() },
                v1::NumberRange { lt: bound(), gte: one(), ..Default::default() },
                v1::NumberRange { lte: bound(), ..Default::default() },
            ];
            filters.extend(ranges.map(|range| must(vec![condition("mixed", Test::NumberRange(range))])));
        }
        let even = || equals("half", Kind::BoolValue(true));
        let odd = || equals("half", Kind::BoolValue(false));
        let many = || any_of("own", (0..20_000).step_by(2).map(|i| Kind::StringValue(format!("own {i}"))));
        let twice = [Kind::IntValue(7), Kind::DoubleValue(7.0), Kind::IntValue(7), Kind::StringValue("7".into())];
        filters.extend([
            must(vec![even()]),
            must(vec![even(), odd()]),
            must(vec![even(), equals("mixed", Kind::IntValue(0))]),
            must(vec![many(), even()]),
            must(vec![any_of("mixed", twice)]),
            must(vec![equals("missing", Kind::IntValue(0))]),
            must(vec![condition("mixed", Test::Range(v1::Range::default()))]),
            must(vec![any_of("mixed", [])]),
            must_not(vec![any_of("half", [])]),
            v1::Filter { ids: Some(v1::PointIds::default()), must: vec![even()], ..Default::default() },
            must(vec![condition(
                "mixed",
                Test::Range(v1::Range { gt: Some(2.0), lt: Some(1.0), ..Default::default() }),
            )]),
            must_not(vec![even()]),
            must_not(vec![even(), odd()]),
            must_not(vec![many()]),
            must_not(vec![equals("missing", Kind::IntValue(0))]),
            v1::Filter { must: vec![even()], must_not: vec![any_of("mixed", values())], ..Default::default() },
        ]);
        filters
    }

    /// Matching rows by index and by a full scan.
    fn both_ways(generation: &Generation, filter: &Filter) -> (Vec<u32>, Vec<u32>) {
        let points = generation.read();
        let plain = filter.rows(&points, &Indexes::default());
        let indexed = filter.rows(&points, generation.indexes());
        assert_eq!(filter.count(&points, generation.indexes()), plain.len());
        let selected: Selected = filter.select(&points, generation.indexes());
        let contained = (0..u32::try_from(points.rows()).expect("few")).filter(|row| selected.contains(*row));
        assert_eq!((selected.count, contained.collect::<Vec<_>>()), (plain.len(), plain.clone()));
        (indexed, plain)
    }

    #[test]
    fn an_index_selects_what_a_full_scan_selects_through_writes_and_deletes() {
        let generation = generation();
        let filters: Vec<_> =
            filters().iter().map(|filter| Filter::parse("filter", filter).expect("it is well-formed")).collect();
        let budget = Budget::standalone(0);
        for (step, count) in [6000, 10, 3000, 1, 9000].into_iter().enumerate() {
            let first = step as u64 * 2500;
            write(&generation, first, count);
            generation.delete(&Ids::Numbers((first..first + count).step_by(5).collect()));
            for filter in &filters {
                generation.prepare(filter, &budget);
                let (indexed, plain) = both_ways(&generation, filter);
                assert_eq!(indexed, plain, "step {step}: {filter:?}");
            }
        }
        assert!(generation.indexes().get(0).is_some() && generation.indexes().host_bytes() > 100_000);
    }

    #[test]
    fn an_index_grows_only_when_enough_rows_are_missing() {
        let generation = generation();
        let filter = v1::Filter { must: vec![equals("half", Kind::BoolValue(true))], ..Default::default() };
        let filter = Filter::parse("filter", &filter).expect("it is well-formed");
        let budget = Budget::standalone(0);
        write(&generation, 0, 100);
        assert!(!generation.prepare(&filter, &budget), "few rows are tested one by one");
        write(&generation, 100, 4900);
        assert!(generation.prepare(&filter, &budget));
        assert!(!generation.prepare(&filter, &budget));
        write(&generation, 5000, 500);
        assert!(!generation.prepare(&filter, &budget));
        write(&generation, 5500, 5000);
        assert!(generation.prepare(&filter, &budget));
        let (indexed, plain) = both_ways(&generation, &filter);
        assert_eq!(indexed, plain);
    }

    #[test]
    fn without_memory_for_an_index_a_filter_scans_all_rows() {
        let generation = generation();
        write(&generation, 0, 5000);
        let filter = v1::Filter { must: vec![equals("half", Kind::BoolValue(true))], ..Default::default() };
        let filter = Filter::parse("filter", &filter).expect("it is well-formed");
        assert!(!generation.prepare(&filter, &Budget::standalone(1000)));
        assert_eq!(generation.indexes().host_bytes(), 0);
        let (indexed, plain) = both_ways(&generation, &filter);
        assert_eq!((indexed.len(), indexed), (2500, plain));
    }

    proptest! {
        #[test]
        fn numbers_order_by_value(a in any::<i64>(), b in any::<i64>(), x in any::<f64>(), y in any::<f64>()) {
            prop_assume!(!x.is_nan() && !y.is_nan());
            prop_assert_eq!(Number::from(a).cmp(&Number::from(b)), a.cmp(&b));
            prop_assert_eq!(Some(Number::from(x).cmp(&Number::from(y))), x.partial_cmp(&y));
            // Small numbers with fractions, and whole numbers of both types.
            let x = a as f64 / 1024.0;
            let y = (a / 1024) as f64;
            prop_assert_eq!(Some(Number::from(x).cmp(&Number::from(y))), x.partial_cmp(&y));
            let whole = a >> 11;
            prop_assert_eq!(Number::from(whole), Number::from(whole as f64));
        }
    }
}
