//! Compact payloads: interned field names and strings, and 16 bytes per field.

use std::collections::HashMap;

use accelerd_proto::v1::{Payload, Value, value::Kind};
use indexmap::IndexSet;

use super::{
    columns::{Cell, PayloadColumns},
    new_payloads::PayloadSlice,
};

/// Payloads by row, append-only.
#[derive(Debug)]
pub(crate) struct Payloads {
    names: IndexSet<Box<str>>,
    texts: IndexSet<Box<str>>,
    text_bytes: usize,
    /// Offsets of each row's fields in `fields`, and the total.
    starts: Vec<usize>,
    fields: Vec<Field>,
}

/// One field of one point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Index of the interned name.
    pub(crate) name: u32,
    kind: ValueType,
    bits: u64,
}

#[derive(Clone, Copy, Debug)]
enum ValueType {
    Text,
    Int,
    Double,
    Bool,
}

/// The canonical form of a value, for comparisons: integers and doubles by value, strings by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// Index of an interned string.
    Text(u64),
    /// An integer, or a double with an integer value.
    Int(i64),
    /// The bits of any other double.
    Double(u64),
    Bool(bool),
}

impl Payloads {
    pub(crate) fn new() -> Self {
        Self { names: IndexSet::new(), texts: IndexSet::new(), text_bytes: 0, starts: vec![0], fields: vec![] }
    }

    /// Adds the payload of the next row. Fields without a value are left out.
    pub(crate) fn push(&mut self, payload: &Payload) {
        for (name, value) in &payload.fields {
            if let Some(kind) = &value.kind {
                let name = self.name(name);
                let (kind, bits) = self.stored(kind);
                self.fields.push(Field { name, kind, bits });
            }
        }
        self.starts.push(self.fields.len());
    }

    /// Adds the payloads of the next rows.
    pub(crate) fn extend(&mut self, given: PayloadSlice<'_>, count: usize) {
        match given {
            PayloadSlice::Messages(payloads) => {
                (0..count).for_each(|i| self.push(payloads.get(i).unwrap_or(&Payload::default())));
            }
            PayloadSlice::Columns { columns, first } => self.extend_columns(columns, first, count),
        }
    }

    fn extend_columns(&mut self, columns: &PayloadColumns, first: usize, count: usize) {
        // Each string of a dictionary is interned once.
        let mut known: Vec<HashMap<usize, u64>> = vec![HashMap::new(); columns.columns().len()];
        let names: Vec<_> = columns.columns().iter().map(|column| self.name(&column.name)).collect();
        for point in first..first + count {
            for ((column, name), known) in columns.columns().iter().zip(&names).zip(&mut known) {
                let Some(cell) = column.get(point) else { continue };
                let (kind, bits) = match column.dictionary_index(point) {
                    Some(index) => (ValueType::Text, *known.entry(index).or_insert_with(|| self.stored_cell(cell).1)),
                    None => self.stored_cell(cell),
                };
                self.fields.push(Field { name: *name, kind, bits });
            }
            self.starts.push(self.fields.len());
        }
    }

    fn stored_cell(&mut self, cell: Cell<'_>) -> (ValueType, u64) {
        match cell {
            Cell::Text(text) => (ValueType::Text, intern(&mut self.texts, text, &mut self.text_bytes) as u64),
            Cell::Int(value) => (ValueType::Int, value.cast_unsigned()),
            Cell::Double(value) => (ValueType::Double, value.to_bits()),
            Cell::Bool(value) => (ValueType::Bool, u64::from(value)),
        }
    }

    pub(crate) fn fields(&self, row: u32) -> &[Field] {
        let row = row as usize;
        &self.fields[self.starts[row]..self.starts[row + 1]]
    }

    /// The canonical value of a row's field.
    pub(crate) fn key(&self, row: u32, name: u32) -> Option<Key> {
        self.fields(row).iter().find(|field| field.name == name).map(Field::key)
    }

    /// The payload of a row, as it was written.
    pub(crate) fn get(&self, row: u32) -> Payload {
        let field = |field: &Field| {
            let kind = match field.kind {
                ValueType::Text => Kind::StringValue(self.text(field.bits).to_owned()),
                ValueType::Int => Kind::IntValue(field.bits.cast_signed()),
                ValueType::Double => Kind::DoubleValue(f64::from_bits(field.bits)),
                ValueType::Bool => Kind::BoolValue(field.bits == 1),
            };
            (self.names[field.name as usize].to_string(), Value { kind: Some(kind) })
        };
        Payload { fields: self.fields(row).iter().map(field).collect() }
    }

    /// Estimated bytes of a row's encoded payload and id.
    pub(crate) fn wire_bytes(&self, row: u32) -> usize {
        let text = |field: &Field| match field.kind {
            ValueType::Text => self.text(field.bits).len(),
            ValueType::Int | ValueType::Double | ValueType::Bool => 8,
        };
        16 + self
            .fields(row)
            .iter()
            .map(|field| 16 + self.names[field.name as usize].len() + text(field))
            .sum::<usize>()
    }

    /// Index of a field name; `None` if no point has the field.
    pub(crate) fn find_name(&self, name: &str) -> Option<u32> {
        self.names.get_index_of(name).and_then(|index| u32::try_from(index).ok())
    }

    /// The canonical form of a value; `None` if no point has it.
    pub(crate) fn find(&self, value: &Kind) -> Option<Key> {
        match value {
            Kind::StringValue(text) => self.texts.get_index_of(text.as_str()).map(|index| Key::Text(index as u64)),
            Kind::IntValue(value) => Some(Key::Int(*value)),
            Kind::DoubleValue(value) => Some(double_key(*value)),
            Kind::BoolValue(value) => Some(Key::Bool(*value)),
        }
    }

    /// Bytes of the reallocations for `rows` more rows with `fields` fields in total, each with a new string.
    pub(crate) fn growth_bytes(&self, rows: usize, fields: usize) -> u64 {
        realloc_bytes(self.starts.len(), self.starts.capacity(), rows, size_of::<usize>())
            + realloc_bytes(self.fields.len(), self.fields.capacity(), fields, size_of::<Field>())
            + realloc_bytes(self.texts.len(), self.texts.capacity(), fields, 40)
    }

    /// Bytes in host memory.
    pub(crate) fn host_bytes(&self) -> u64 {
        let indexed = (self.names.capacity() + self.texts.capacity()) * 40;
        let rows = self.starts.capacity() * size_of::<usize>() + self.fields.capacity() * size_of::<Field>();
        (indexed + rows + self.text_bytes) as u64
    }

    fn name(&mut self, name: &str) -> u32 {
        let index = intern(&mut self.names, name, &mut self.text_bytes);
        u32::try_from(index).expect("4 billion field names do not fit in memory")
    }

    fn text(&self, index: u64) -> &str {
        usize::try_from(index).ok().and_then(|index| self.texts.get_index(index)).map_or("", |text| text)
    }

    fn stored(&mut self, kind: &Kind) -> (ValueType, u64) {
        match kind {
            Kind::StringValue(text) => (ValueType::Text, intern(&mut self.texts, text, &mut self.text_bytes) as u64),
            Kind::IntValue(value) => (ValueType::Int, value.cast_unsigned()),
            Kind::DoubleValue(value) => (ValueType::Double, value.to_bits()),
            Kind::BoolValue(value) => (ValueType::Bool, u64::from(*value)),
        }
    }
}

impl Field {
    pub(crate) fn key(&self) -> Key {
        match self.kind {
            ValueType::Text => Key::Text(self.bits),
            ValueType::Int => Key::Int(self.bits.cast_signed()),
            ValueType::Double => double_key(f64::from_bits(self.bits)),
            ValueType::Bool => Key::Bool(self.bits == 1),
        }
    }
}

/// Bytes of the new allocation if a table must grow; the old one is freed only after the copy.
pub(super) fn realloc_bytes(len: usize, capacity: usize, more: usize, size: usize) -> u64 {
    if len + more <= capacity { 0 } else { ((len + more).max(2 * capacity) * size) as u64 }
}

fn intern(set: &mut IndexSet<Box<str>>, text: &str, bytes: &mut usize) -> usize {
    if let Some(index) = set.get_index_of(text) {
        return index;
    }
    *bytes += text.len();
    set.insert_full(text.into()).0
}

fn double_key(value: f64) -> Key {
    /// 2^63: integers of smaller magnitude are exact as i64.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        #[allow(clippy::cast_possible_truncation, reason = "the value is an integer in range")]
        return Key::Int(value as i64);
    }
    Key::Double(value.to_bits())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn payload(fields: &[(&str, Kind)]) -> Payload {
        let value = |kind: &Kind| Value { kind: Some(kind.clone()) };
        Payload { fields: fields.iter().map(|(name, kind)| ((*name).to_owned(), value(kind))).collect() }
    }

    #[test]
    fn payloads_are_read_back_as_written() {
        let given = [
            payload(&[]),
            payload(&[("path", Kind::StringValue("a.py".into())), ("line", Kind::IntValue(-7))]),
            payload(&[("score", Kind::DoubleValue(3.0)), ("ok", Kind::BoolValue(true)), ("", Kind::IntValue(1))]),
            payload(&[("path", Kind::StringValue(String::new())), ("path2", Kind::StringValue("a.py".into()))]),
        ];
        let mut payloads = Payloads::new();
        for payload in &given {
            payloads.push(payload);
        }
        for (row, payload) in (0..).zip(&given) {
            assert_eq!(payloads.get(row), *payload);
        }
    }

    #[test]
    fn integers_and_doubles_compare_by_value() {
        assert_eq!(double_key(3.0), Key::Int(3));
        assert_eq!(double_key(-0.0), Key::Int(0));
        assert_eq!(double_key(-9_223_372_036_854_775_808.0), Key::Int(i64::MIN));
        // As a double, i64::MAX is one more than i64::MAX.
        assert_ne!(double_key(i64::MAX as f64), Key::Int(i64::MAX));
        assert_eq!(double_key(0.5), Key::Double(0.5f64.to_bits()));
    }
}
