//! Ids, payloads and filters.

use std::{collections::BTreeMap, fmt};

use crate::{Error, proto};

/// Id of a point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// A number.
    Number(u64),
    /// A UUID; the daemon returns it hyphenated and in lower case.
    Uuid(String),
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Uuid(uuid) => uuid.fmt(out),
        }
    }
}

impl TryFrom<Option<proto::hit::Id>> for Id {
    type Error = Error;

    fn try_from(id: Option<proto::hit::Id>) -> Result<Self, Error> {
        match id {
            Some(proto::hit::Id::Number(number)) => Ok(Self::Number(number)),
            Some(proto::hit::Id::Uuid(uuid)) => Ok(Self::Uuid(uuid)),
            None => Err(Error::Malformed("hit without an id".into())),
        }
    }
}

/// Ids of points, all numbers or all UUIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Numbers.
    Numbers(Vec<u64>),
    /// UUIDs.
    Uuids(Vec<String>),
}

impl Ids {
    /// Number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Uuids(uuids) => uuids.len(),
        }
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An id; `None` if the index is out of bounds.
    pub fn get(&self, index: usize) -> Option<Id> {
        match self {
            Self::Numbers(numbers) => numbers.get(index).copied().map(Id::Number),
            Self::Uuids(uuids) => uuids.get(index).cloned().map(Id::Uuid),
        }
    }
}

impl From<Vec<u64>> for Ids {
    fn from(numbers: Vec<u64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl From<std::ops::Range<u64>> for Ids {
    fn from(numbers: std::ops::Range<u64>) -> Self {
        Self::Numbers(numbers.collect())
    }
}

impl From<Vec<String>> for Ids {
    fn from(uuids: Vec<String>) -> Self {
        Self::Uuids(uuids)
    }
}

impl From<Ids> for proto::PointIds {
    fn from(ids: Ids) -> Self {
        match ids {
            Ids::Numbers(numbers) => Self { numbers, ..Self::default() },
            Ids::Uuids(uuids) => Self { uuids, ..Self::default() },
        }
    }
}

impl From<proto::PointIds> for Ids {
    fn from(ids: proto::PointIds) -> Self {
        if ids.uuids.is_empty() { Self::Numbers(ids.numbers) } else { Self::Uuids(ids.uuids) }
    }
}

/// Value of a payload field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// UTF-8 text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A finite number.
    Double(f64),
    /// True or false.
    Bool(bool),
}

impl Value {
    /// The text, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Int(_) | Self::Double(_) | Self::Bool(_) => None,
        }
    }

    /// The integer, if the value is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Text(_) | Self::Double(_) | Self::Bool(_) => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<f64> for Value {
    fn from(double: f64) -> Self {
        Self::Double(double)
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<Value> for proto::Value {
    fn from(value: Value) -> Self {
        use proto::value::Kind;
        let kind = match value {
            Value::Text(text) => Kind::StringValue(text),
            Value::Int(int) => Kind::IntValue(int),
            Value::Double(double) => Kind::DoubleValue(double),
            Value::Bool(bool) => Kind::BoolValue(bool),
        };
        Self { kind: Some(kind) }
    }
}

/// Metadata stored with a point: values by field name.
pub type Payload = BTreeMap<String, Value>;

pub(crate) fn payload_to_wire(payload: Payload) -> proto::Payload {
    proto::Payload { fields: payload.into_iter().map(|(name, value)| (name, value.into())).collect() }
}

/// Fields with a value type that this client does not know are omitted.
pub(crate) fn payload_from_wire(payload: proto::Payload) -> Payload {
    use proto::value::Kind;
    let value = |kind| match kind {
        Kind::StringValue(text) => Value::Text(text),
        Kind::IntValue(int) => Value::Int(int),
        Kind::DoubleValue(double) => Value::Double(double),
        Kind::BoolValue(bool) => Value::Bool(bool),
    };
    payload.fields.into_iter().filter_map(|(name, wire)| Some((name, value(wire.kind?)))).collect()
}

/// Selects points. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter(proto::Filter);

impl Filter {
    /// A filter without conditions, which matches all points.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires one of these ids; without ids, no point matches.
    #[must_use]
    pub fn ids(mut self, ids: impl Into<Ids>) -> Self {
        self.0.ids = Some(ids.into().into());
        self
    }

    /// Requires a field to equal a value.
    #[must_use]
    pub fn equals(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.must(field, proto::condition::Test::Equals(value.into().into()))
    }

    /// Requires a field to equal one of these values; without values, no point matches.
    #[must_use]
    pub fn any_of<V: Into<Value>>(self, field: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.must(field, proto::condition::Test::AnyOf(value_set(values)))
    }

    /// Requires a field to equal none of these values, or to be absent.
    #[must_use]
    pub fn none_of<V: Into<Value>>(mut self, field: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        let test = proto::condition::Test::AnyOf(value_set(values));
        self.0.must_not.push(proto::Condition { field: field.into(), test: Some(test) });
        self
    }

    /// Requires a field to be a number in a range of doubles. Integers above 2^53 have no exact double:
    /// [`Self::int_range`] does not round them.
    #[must_use]
    pub fn range(self, field: impl Into<String>, range: impl std::ops::RangeBounds<f64>) -> Self {
        use std::ops::Bound::{Excluded, Included};
        let mut wire = proto::Range::default();
        match range.start_bound() {
            Included(from) => wire.gte = Some(*from),
            Excluded(from) => wire.gt = Some(*from),
            std::ops::Bound::Unbounded => {}
        }
        match range.end_bound() {
            Included(to) => wire.lte = Some(*to),
            Excluded(to) => wire.lt = Some(*to),
            std::ops::Bound::Unbounded => {}
        }
        self.must(field, proto::condition::Test::Range(wire))
    }

    /// Requires a field to be a number in a range of integers, which are compared without rounding.
    #[must_use]
    pub fn int_range(self, field: impl Into<String>, range: impl std::ops::RangeBounds<i64>) -> Self {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let value = |bound: &i64| Some(Value::Int(*bound).into());
        let mut wire = proto::NumberRange::default();
        match range.start_bound() {
            Included(from) => wire.gte = value(from),
            Excluded(from) => wire.gt = value(from),
            Unbounded => {}
        }
        match range.end_bound() {
            Included(to) => wire.lte = value(to),
            Excluded(to) => wire.lt = value(to),
            Unbounded => {}
        }
        self.must(field, proto::condition::Test::NumberRange(wire))
    }

    fn must(mut self, field: impl Into<String>, test: proto::condition::Test) -> Self {
        self.0.must.push(proto::Condition { field: field.into(), test: Some(test) });
        self
    }
}

fn value_set<V: Into<Value>>(values: impl IntoIterator<Item = V>) -> proto::ValueSet {
    proto::ValueSet { values: values.into_iter().map(|value| value.into().into()).collect() }
}

impl From<Filter> for proto::Filter {
    fn from(filter: Filter) -> Self {
        filter.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_survive_the_wire() {
        let payload = Payload::from([
            ("path".to_owned(), "a.py".into()),
            ("start_line".to_owned(), 7_i64.into()),
            ("share".to_owned(), 0.5.into()),
            ("test".to_owned(), true.into()),
        ]);
        assert_eq!(payload_from_wire(payload_to_wire(payload.clone())), payload);
    }

    #[test]
    fn a_filter_keeps_every_condition() {
        let filter = Filter::new().equals("language", "python").none_of("path", ["a", "b"]).range("line", 3.0..9.0);
        let wire = proto::Filter::from(filter);
        assert_eq!((wire.must.len(), wire.must_not.len()), (2, 1));
        let range = proto::Range { gte: Some(3.0), lt: Some(9.0), ..Default::default() };
        assert_eq!(wire.must[1].test, Some(proto::condition::Test::Range(range)));
    }

    #[test]
    fn a_list_without_ids_is_sent_as_present() {
        let none = proto::Filter::from(Filter::new().ids(Vec::<u64>::new()));
        assert_eq!(none.ids, Some(proto::PointIds::default()));
        assert_eq!(proto::Filter::from(Filter::new()).ids, None);
    }

    #[test]
    fn a_range_of_integers_keeps_them() {
        const TIME: i64 = 1_764_000_000_123_456_789;
        let int = |int: i64| Some(Value::Int(int).into());
        let wire = proto::Filter::from(Filter::new().int_range("t", TIME..=TIME + 1).int_range("t", ..TIME));
        let tests = [
            proto::NumberRange { gte: int(TIME), lte: int(TIME + 1), ..Default::default() },
            proto::NumberRange { lt: int(TIME), ..Default::default() },
        ];
        for (condition, range) in wire.must.iter().zip(tests) {
            assert_eq!(condition.test, Some(proto::condition::Test::NumberRange(range)));
        }
    }
}
