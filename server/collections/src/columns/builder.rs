//! Columns of the payloads of a response.

use std::collections::{BTreeMap, HashMap};

use accelerd_proto::v1::{self, payload_column::Values as Wire, value::Kind};
use bytes::Bytes;

use crate::error::CollectionError;

/// Maximum of columns times points in a response, which bounds the size of the presence bitmaps.
const MAX_CELLS: usize = 1 << 29;

/// Converts payloads to columns of one slot per point. Fails if the payloads have too many distinct fields.
pub fn payload_columns<'a>(
    payloads: impl ExactSizeIterator<Item = &'a v1::Payload>,
) -> Result<v1::PayloadColumns, CollectionError> {
    let points = payloads.len();
    let mut columns = BTreeMap::<(&str, u8), ColumnBuilder<'a>>::new();
    for (point, payload) in payloads.enumerate() {
        for (name, value) in &payload.fields {
            let Some(kind) = &value.kind else { continue };
            let next = columns.len() + 1;
            let column = columns.entry((name, order(kind))).or_insert_with(|| ColumnBuilder::new(kind));
            if next.saturating_mul(points) > MAX_CELLS {
                let reason = format!("expected points with fewer distinct fields, got {next} for {points} points");
                return Err(CollectionError::invalid("columns", reason));
            }
            column.push(point, kind);
        }
    }
    let columns = columns.into_iter().map(|((name, _), column)| column.finish(name, points)).collect();
    Ok(v1::PayloadColumns { columns })
}

/// Orders the columns of one name by value type.
fn order(kind: &Kind) -> u8 {
    match kind {
        Kind::StringValue(_) => 0,
        Kind::IntValue(_) => 1,
        Kind::DoubleValue(_) => 2,
        Kind::BoolValue(_) => 3,
    }
}

struct ColumnBuilder<'a> {
    bits: Vec<u8>,
    count: usize,
    values: ValuesBuilder<'a>,
}

enum ValuesBuilder<'a> {
    Texts { dictionary: HashMap<&'a str, u32>, texts: Vec<&'a str>, indices: Vec<u32> },
    Ints(Vec<u8>),
    Doubles(Vec<u8>),
    Bools(Vec<u8>),
}

impl<'a> ColumnBuilder<'a> {
    fn new(kind: &Kind) -> Self {
        let values = match kind {
            Kind::StringValue(_) => ValuesBuilder::Texts { dictionary: HashMap::new(), texts: vec![], indices: vec![] },
            Kind::IntValue(_) => ValuesBuilder::Ints(vec![]),
            Kind::DoubleValue(_) => ValuesBuilder::Doubles(vec![]),
            Kind::BoolValue(_) => ValuesBuilder::Bools(vec![]),
        };
        Self { bits: vec![], count: 0, values }
    }

    fn push(&mut self, point: usize, kind: &'a Kind) {
        self.bits.resize(point / 8 + 1, 0);
        self.bits[point / 8] |= 1 << (point % 8);
        self.count += 1;
        match (&mut self.values, kind) {
            (ValuesBuilder::Texts { dictionary, texts, indices }, Kind::StringValue(text)) => {
                let next = u32::try_from(texts.len()).expect("points of a response are counted in 32 bits");
                let index = *dictionary.entry(text).or_insert(next);
                if index == next {
                    texts.push(text);
                }
                indices.push(index);
            }
            (ValuesBuilder::Ints(ints), Kind::IntValue(value)) => ints.extend(value.to_le_bytes()),
            (ValuesBuilder::Doubles(doubles), Kind::DoubleValue(value)) => doubles.extend(value.to_le_bytes()),
            (ValuesBuilder::Bools(bools), Kind::BoolValue(value)) => bools.push(u8::from(*value)),
            _ => unreachable!("a column has values of one kind"),
        }
    }

    fn finish(mut self, name: &str, points: usize) -> v1::PayloadColumn {
        self.bits.resize(points.div_ceil(8), 0);
        let presence = if self.count == points { Bytes::new() } else { self.bits.into() };
        let values = match self.values {
            ValuesBuilder::Texts { texts, indices, .. } => Wire::Strings(string_column(&texts, &indices)),
            ValuesBuilder::Ints(ints) => Wire::Ints(ints.into()),
            ValuesBuilder::Doubles(doubles) => Wire::Doubles(doubles.into()),
            ValuesBuilder::Bools(bools) => Wire::Bools(bools.into()),
        };
        v1::PayloadColumn { name: name.to_owned(), presence, values: Some(values) }
    }
}

/// Encodes strings with a dictionary if at most half of them are distinct.
fn string_column(texts: &[&str], indices: &[u32]) -> v1::StringColumn {
    if texts.len() * 2 <= indices.len() {
        let (offsets, data) = concat(texts.iter().copied());
        let indices = indices.iter().flat_map(|index| index.to_le_bytes()).collect::<Vec<_>>();
        return v1::StringColumn { offsets, data, indices: indices.into() };
    }
    let (offsets, data) = concat(indices.iter().map(|index| texts[*index as usize]));
    v1::StringColumn { offsets, data, indices: Bytes::new() }
}

fn concat<'a>(texts: impl Iterator<Item = &'a str>) -> (Bytes, Bytes) {
    let mut offsets = 0_u32.to_le_bytes().to_vec();
    let mut data = String::new();
    for text in texts {
        data.push_str(text);
        // A response of 4 GiB exceeds the message limit, so saturated offsets are never sent.
        offsets.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    (offsets.into(), data.into())
}
