//! Columnar payloads: validated once, then read in place.

mod builder;
mod encode;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use accelerd_proto::v1::{self, payload_column::Values as Wire};
use bytes::Bytes;

pub use self::builder::payload_columns;
use crate::error::CollectionError;

/// Bytes of an integer or a double.
const VALUE_BYTES: usize = 8;
/// Bytes of an offset or a dictionary index.
const INDEX_BYTES: usize = 4;

/// Validated payloads of several points: buffer lengths match the number of points, and all values are valid.
#[derive(Clone, Debug, Default)]
pub struct PayloadColumns {
    columns: Vec<Column>,
    points: usize,
}

/// The values of one field.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `None` if all points have the field.
    presence: Option<Presence>,
    /// Values of the points that have the field, without gaps.
    values: Values,
}

/// The presence bitmap of a field, with rank support.
#[derive(Clone, Debug)]
struct Presence {
    /// Bit `i % 8` of byte `i / 8` is point i's.
    bits: Bytes,
    /// Number of set bits before each block.
    ranks: Vec<usize>,
}

/// Numbers are little-endian on every host.
#[derive(Clone, Debug)]
enum Values {
    Ints(Bytes),
    Doubles(Bytes),
    Bools(Bytes),
    Texts(Texts),
}

/// Concatenated strings with their offsets.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    offsets: Bytes,
    /// UTF-8; every offset is a character boundary.
    data: Bytes,
    /// Dictionary indices; `None` for one string per value.
    indices: Option<Bytes>,
}

/// One value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl PayloadColumns {
    /// Validates columns of `points` points; errors name fields under `path`.
    pub fn parse(path: &str, columns: &v1::PayloadColumns, points: usize) -> Result<Self, CollectionError> {
        let parse = |(i, column)| Column::parse(path, i, column, points);
        let columns: Vec<_> = columns.columns.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        check_names(path, &columns, points)?;
        Ok(Self { columns, points })
    }

    pub(crate) fn len(&self) -> usize {
        self.points
    }

    pub(crate) fn field_count(&self) -> usize {
        let count = |column: &Column| column.presence.as_ref().map_or(self.points, Presence::count);
        self.columns.iter().map(count).sum()
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The string value of a point's field; empty if it has none.
    pub(crate) fn text(&self, point: usize, field: &str) -> &str {
        let named = self.columns.iter().filter(|column| column.name == field);
        let texts = named.filter_map(|column| match column.get(point) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        });
        texts.last().unwrap_or_default()
    }
}

impl Column {
    fn parse(path: &str, i: usize, column: &v1::PayloadColumn, points: usize) -> Result<Self, CollectionError> {
        if column.name.is_empty() {
            return Err(CollectionError::invalid(
                format!("{path}.columns[{i}].name"),
                "expected the name of a field, got none",
            ));
        }
        let path = &format!("{path}.columns[{:?}]", column.name);
        let presence = Presence::parse(&format!("{path}.presence"), &column.presence, points)?;
        let points = presence.as_ref().map_or(points, Presence::count);
        let values = match &column.values {
            Some(Wire::Ints(ints)) => Values::Ints(check_len(&format!("{path}.ints"), ints, points, VALUE_BYTES)?),
            Some(Wire::Doubles(doubles)) => {
                Values::Doubles(check_len(&format!("{path}.doubles"), doubles, points, VALUE_BYTES)?)
            }
            Some(Wire::Bools(bools)) => Values::Bools(check_len(&format!("{path}.bools"), bools, points, 1)?),
            Some(Wire::Strings(texts)) => Values::Texts(Texts::parse(&format!("{path}.strings"), texts, points)?),
            None => return Err(CollectionError::invalid(path, "expected ints, doubles, bools or strings, got none")),
        };
        let column = Self { name: column.name.clone(), presence, values };
        column.values.check(path, points)?;
        Ok(column)
    }

    pub(crate) fn has(&self, point: usize) -> bool {
        self.presence.as_ref().is_none_or(|presence| presence.has(point))
    }

    /// The dictionary index of a point's string, if the column has a dictionary.
    pub(crate) fn dictionary_index(&self, point: usize) -> Option<usize> {
        let Values::Texts(texts) = &self.values else { return None };
        let value = self.presence.as_ref().map_or(point, |presence| presence.rank(point));
        texts.indices.as_ref().filter(|_| self.has(point)).map(|indices| read_u32(indices, value))
    }

    pub(crate) fn get(&self, point: usize) -> Option<Cell<'_>> {
        self.has(point).then(|| self.values.get(self.presence.as_ref().map_or(point, |presence| presence.rank(point))))
    }
}

impl Values {
    /// Checks the values themselves; the lengths were checked before.
    fn check(&self, path: &str, count: usize) -> Result<(), CollectionError> {
        let first = |is_bad: &dyn Fn(usize) -> bool| (0..count).find(|&value| is_bad(value));
        let error = match self {
            Self::Ints(_) => None,
            Self::Doubles(doubles) => first(&|value| !read_f64(doubles, value).is_finite()).map(|value| {
                ("doubles", format!("expected finite numbers, got {} as value {value}", read_f64(doubles, value)))
            }),
            Self::Bools(bools) => first(&|value| bools[value] > 1)
                .map(|value| ("bools", format!("expected 0 or 1, got {} as value {value}", bools[value]))),
            Self::Texts(texts) => first(&|value| texts.index(value) >= texts.len()).map(|value| {
                let text_count = texts.len();
                let got = texts.index(value);
                (
                    "strings.indices",
                    format!("expected indices below {text_count}, the number of strings, got {got} as value {value}"),
                )
            }),
        };
        error.map_or(Ok(()), |(part, reason)| Err(CollectionError::invalid(format!("{path}.{part}"), reason)))
    }

    fn get(&self, value: usize) -> Cell<'_> {
        match self {
            Self::Ints(ints) => Cell::Int(read_u64(ints, value).cast_signed()),
            Self::Doubles(doubles) => Cell::Double(read_f64(doubles, value)),
            Self::Bools(bools) => Cell::Bool(bools[value] == 1),
            Self::Texts(texts) => Cell::Text(texts.get(texts.index(value))),
        }
    }
}

impl Presence {
    /// Points in a block.
    const BLOCK: usize = 64;

    /// Validates the bitmap of `points` points; `None` if all have the field.
    fn parse(path: &str, bits: &Bytes, points: usize) -> Result<Option<Self>, CollectionError> {
        if bits.is_empty() {
            return Ok(None);
        }
        let expected = points.div_ceil(8);
        if bits.len() != expected {
            let reason = format!("expected {expected} bytes, one bit for each of {points} points, got {}", bits.len());
            return Err(CollectionError::invalid(path, reason));
        }
        let used = points % 8;
        if used != 0 && bits[expected - 1] >> used != 0 {
            return Err(CollectionError::invalid(
                path,
                format!("expected 0 in the bits after the last of {points} points"),
            ));
        }
        let mut count = 0;
        let before = bits.chunks(Self::BLOCK / 8).map(|block| {
            let before = count;
            count += ones(block);
            before
        });
        let ranks = before.collect();
        Ok(Some(Self { bits: bits.clone(), ranks }))
    }

    fn has(&self, point: usize) -> bool {
        self.bits[point / 8] >> (point % 8) & 1 == 1
    }

    /// Number of points before this one that have the field.
    fn rank(&self, point: usize) -> usize {
        let block = point / Self::BLOCK;
        let last = self.bits[point / 8] & ((1 << (point % 8)) - 1);
        self.ranks[block] + ones(&self.bits[block * Self::BLOCK / 8..point / 8]) + last.count_ones() as usize
    }

    fn count(&self) -> usize {
        ones(&self.bits)
    }
}

fn ones(bits: &[u8]) -> usize {
    bits.iter().map(|byte| byte.count_ones() as usize).sum()
}

impl Texts {
    fn parse(path: &str, texts: &v1::StringColumn, values: usize) -> Result<Self, CollectionError> {
        let v1::StringColumn { offsets, data, indices } = texts;
        let offsets_at = format!("{path}.offsets");
        if !offsets.len().is_multiple_of(INDEX_BYTES) || offsets.is_empty() {
            let reason =
                format!("expected {INDEX_BYTES} bytes per string and {INDEX_BYTES} more, got {} bytes", offsets.len());
            return Err(CollectionError::invalid(offsets_at, reason));
        }
        let given = (!indices.is_empty()).then(|| check_len(&format!("{path}.indices"), indices, values, INDEX_BYTES));
        let indices = given.transpose()?;
        let parsed = Self { offsets: offsets.clone(), data: data.clone(), indices };
        if parsed.indices.is_none() && parsed.len() != values {
            let reason = format!("expected {values} strings, one for each point, got {}", parsed.len());
            return Err(CollectionError::invalid(offsets_at, reason));
        }
        parsed.check_offsets(&offsets_at)?;
        parsed.check_utf8(path)?;
        Ok(parsed)
    }

    fn check_offsets(&self, path: &str) -> Result<(), CollectionError> {
        let first = self.offset(0);
        let last = self.offset(self.len());
        if first != 0 || last != self.data.len() {
            let reason = format!("expected 0 to {}, the length of data, got {first} to {last}", self.data.len());
            return Err(CollectionError::invalid(path, reason));
        }
        match (0..self.len()).find(|&text| self.offset(text) > self.offset(text + 1)) {
            None => Ok(()),
            Some(text) => Err(CollectionError::invalid(
                path,
                format!("expected ascending offsets, got a lower one after string {text}"),
            )),
        }
    }

    fn check_utf8(&self, path: &str) -> Result<(), CollectionError> {
        let path = || format!("{path}.data");
        let Ok(data) = std::str::from_utf8(&self.data) else {
            let broken =
                (0..self.len()).find(|&text| std::str::from_utf8(self.bytes(text)).is_err()).unwrap_or_default();
            return Err(CollectionError::invalid(path(), format!("expected UTF-8, string {broken} is not")));
        };
        match (0..self.len()).find(|&text| !data.is_char_boundary(self.offset(text))) {
            None => Ok(()),
            Some(text) => Err(CollectionError::invalid(path(), format!("string {text} begins within a character"))),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() / INDEX_BYTES - 1
    }

    /// The index of a value's string.
    pub(crate) fn index(&self, value: usize) -> usize {
        self.indices.as_ref().map_or(value, |indices| read_u32(indices, value))
    }

    pub(crate) fn get(&self, text: usize) -> &str {
        std::str::from_utf8(self.bytes(text)).unwrap_or_default()
    }

    fn bytes(&self, text: usize) -> &[u8] {
        &self.data[self.offset(text)..self.offset(text + 1)]
    }

    fn offset(&self, text: usize) -> usize {
        read_u32(&self.offsets, text)
    }
}

/// Checks that a buffer has `values` values of `width` bytes.
fn check_len(path: &str, bytes: &Bytes, values: usize, width: usize) -> Result<Bytes, CollectionError> {
    if Some(bytes.len()) == values.checked_mul(width) {
        return Ok(bytes.clone());
    }
    let reason = format!("expected {width} bytes for each of {values} points, got {} bytes", bytes.len());
    Err(CollectionError::invalid(path, reason))
}

/// Checks that no point has values in two columns of one name; a field may have one column per type.
fn check_names(path: &str, columns: &[Column], points: usize) -> Result<(), CollectionError> {
    let mut by_name = HashMap::<&str, Vec<usize>>::with_capacity(columns.len());
    for (i, column) in columns.iter().enumerate() {
        by_name.entry(&column.name).or_default().push(i);
    }
    for (name, same) in by_name.into_iter().filter(|(_, same)| same.len() > 1) {
        let mut seen = vec![false; points];
        for &i in &same {
            if let Some(point) =
                (0..points).find(|&point| columns[i].has(point) && std::mem::replace(&mut seen[point], true))
            {
                let reason = format!("expected one value per point, got a second one for point {point}");
                return Err(CollectionError::invalid(format!("{path}.columns[{name:?}]"), reason));
            }
        }
    }
    Ok(())
}

fn read_u64(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks::<VALUE_BYTES>().0[index])
}

fn read_f64(bytes: &[u8], index: usize) -> f64 {
    f64::from_bits(read_u64(bytes, index))
}

fn read_u32(bytes: &[u8], index: usize) -> usize {
    u32::from_le_bytes(bytes.as_chunks::<INDEX_BYTES>().0[index]) as usize
}
