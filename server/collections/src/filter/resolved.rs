//! A filter against the dictionaries of a generation, and the test of a row by its payload.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Condition, Filter, Range, Test};
use crate::{
    index::{FieldIndex, Indexes, Number},
    payload::{Field, Key, Payloads},
};

/// A filter's conditions, with field names and strings looked up in the dictionaries of a generation.
pub(super) struct ResolvedFilter {
    pub(super) must: Vec<ResolvedCondition>,
    pub(super) must_not: Vec<ResolvedCondition>,
}

pub(super) struct ResolvedCondition {
    /// `None`: no point has such a field.
    pub(super) name: Option<u32>,
    pub(super) test: ResolvedTest,
}

pub(super) enum ResolvedTest {
    One(Option<Key>),
    AnyOf(HashSet<Key>),
    Range(Range),
}

impl ResolvedFilter {
    pub(super) fn new(filter: &Filter, payloads: &Payloads) -> Self {
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

    /// Returns true if the filter is one `must` condition, whose postings need no further test.
    pub(super) fn is_single(&self) -> bool {
        self.must.len() == 1 && self.must_not.is_empty()
    }

    /// Returns true if no point can match: a `must` condition names a field that no point has.
    pub(super) fn is_unsatisfiable(&self) -> bool {
        self.must.iter().any(|condition| condition.name.is_none())
    }

    /// The indexes of all its fields; `None` if any is missing.
    pub(super) fn indexes(&self, indexes: &Indexes) -> Option<HashMap<u32, Arc<FieldIndex>>> {
        let names = self.must.iter().chain(&self.must_not).filter_map(|condition| condition.name);
        let field_indexes: HashMap<_, _> = names.map(|name| Some((name, indexes.get(name)?))).collect::<Option<_>>()?;
        (!field_indexes.is_empty()).then_some(field_indexes)
    }

    pub(super) fn matches(&self, payloads: &Payloads, row: u32) -> bool {
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
    fn matches(&self, key: Key) -> bool {
        match self {
            Self::One(value) => *value == Some(key),
            Self::AnyOf(values) => values.contains(&key),
            Self::Range(range) => range.matches(key),
        }
    }
}

impl Range {
    /// `Less` below the range, `Greater` above it.
    pub(super) fn compare(&self, number: Number) -> Ordering {
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
