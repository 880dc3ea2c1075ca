//! Columnar payloads: validated once, then read in place.

use std::collections::{BTreeMap, HashMap};

use accelerd_proto::v1::{self, payload_column::Values as Wire, value::Kind};
use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use crate::error::CollectionError;

/// Bytes of an integer or a double.
const VALUE_BYTES: usize = 8;
/// Bytes of an offset or a dictionary index.
const INDEX_BYTES: usize = 4;
/// Maximum of columns times points in a response, which bounds the size of the presence bitmaps.
const MAX_CELLS: usize = 1 << 29;

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
    /// Validates columns of `points` points; errors name fields under the path `at`.
    pub fn parse(at: &str, columns: &v1::PayloadColumns, points: usize) -> Result<Self, CollectionError> {
        let parse = |(i, column)| Column::parse(at, i, column, points);
        let columns: Vec<_> = columns.columns.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        check_names(at, &columns, points)?;
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

    /// Bytes of a point's payload encoded as a message.
    pub(crate) fn encoded_len(&self, point: usize) -> usize {
        let cells = self.columns.iter().filter_map(|column| Some((column, column.get(point)?)));
        cells.map(|(column, cell)| block_len(entry_len(&column.name, cell))).sum()
    }

    pub(crate) fn encoded(&self) -> Vec<Bytes> {
        (0..self.points).map(|point| self.encode(point)).collect()
    }

    /// Encodes the payload as prost does, except for the order of its fields.
    fn encode(&self, point: usize) -> Bytes {
        let mut to = Vec::with_capacity(self.encoded_len(point));
        for column in &self.columns {
            let Some(cell) = column.get(point) else { continue };
            put_block(&mut to, PAYLOAD_FIELDS, entry_len(&column.name, cell));
            put_block(&mut to, ENTRY_KEY, column.name.len());
            to.extend_from_slice(column.name.as_bytes());
            put_block(&mut to, ENTRY_VALUE, value_len(cell));
            put_value(&mut to, cell);
        }
        to.into()
    }
}

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
    let (mut offsets, mut data) = (0_u32.to_le_bytes().to_vec(), String::new());
    for text in texts {
        data.push_str(text);
        // A response of 4 GiB exceeds the message limit, so saturated offsets are never sent.
        offsets.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    (offsets.into(), data.into())
}

/// Field numbers in similarity.proto: Payload.fields, key and value of a map entry, and the variants of Value.
const PAYLOAD_FIELDS: u32 = 1;
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;
const STRING_VALUE: u32 = 1;
const INT_VALUE: u32 = 2;
const DOUBLE_VALUE: u32 = 3;
const BOOL_VALUE: u32 = 4;

/// Bytes of an entry of a payload's map, without its length prefix.
fn entry_len(name: &str, cell: Cell<'_>) -> usize {
    block_len(name.len()) + block_len(value_len(cell))
}

/// Bytes of a Value, without its length prefix. Each field key is one byte.
fn value_len(cell: Cell<'_>) -> usize {
    match cell {
        Cell::Text(text) => block_len(text.len()),
        Cell::Int(value) => 1 + encoded_len_varint(value.cast_unsigned()),
        Cell::Double(_) => 1 + VALUE_BYTES,
        Cell::Bool(_) => 2,
    }
}

/// Bytes of a length-delimited field.
fn block_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

fn put_block(to: &mut Vec<u8>, field: u32, len: usize) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

fn put_value(to: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Text(text) => {
            put_block(to, STRING_VALUE, text.len());
            to.extend_from_slice(text.as_bytes());
        }
        Cell::Int(value) => {
            encode_key(INT_VALUE, WireType::Varint, to);
            encode_varint(value.cast_unsigned(), to);
        }
        Cell::Double(value) => {
            encode_key(DOUBLE_VALUE, WireType::SixtyFourBit, to);
            to.extend_from_slice(&value.to_le_bytes());
        }
        Cell::Bool(value) => {
            encode_key(BOOL_VALUE, WireType::Varint, to);
            encode_varint(u64::from(value), to);
        }
    }
}

impl Column {
    fn parse(at: &str, i: usize, column: &v1::PayloadColumn, points: usize) -> Result<Self, CollectionError> {
        if column.name.is_empty() {
            return Err(CollectionError::invalid(
                format!("{at}.columns[{i}].name"),
                "expected the name of a field, got none",
            ));
        }
        let at = &format!("{at}.columns[{:?}]", column.name);
        let presence = Presence::parse(&format!("{at}.presence"), &column.presence, points)?;
        let points = presence.as_ref().map_or(points, Presence::count);
        let values = match &column.values {
            Some(Wire::Ints(ints)) => Values::Ints(check_len(&format!("{at}.ints"), ints, points, VALUE_BYTES)?),
            Some(Wire::Doubles(doubles)) => {
                Values::Doubles(check_len(&format!("{at}.doubles"), doubles, points, VALUE_BYTES)?)
            }
            Some(Wire::Bools(bools)) => Values::Bools(check_len(&format!("{at}.bools"), bools, points, 1)?),
            Some(Wire::Strings(texts)) => Values::Texts(Texts::parse(&format!("{at}.strings"), texts, points)?),
            None => return Err(CollectionError::invalid(at, "expected ints, doubles, bools or strings, got none")),
        };
        let column = Self { name: column.name.clone(), presence, values };
        column.values.check(at, points)?;
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
    fn check(&self, at: &str, count: usize) -> Result<(), CollectionError> {
        let first = |is_bad: &dyn Fn(usize) -> bool| (0..count).find(|&value| is_bad(value));
        let error = match self {
            Self::Ints(_) => None,
            Self::Doubles(doubles) => first(&|value| !read_f64(doubles, value).is_finite()).map(|value| {
                ("doubles", format!("expected finite numbers, got {} as value {value}", read_f64(doubles, value)))
            }),
            Self::Bools(bools) => first(&|value| bools[value] > 1)
                .map(|value| ("bools", format!("expected 0 or 1, got {} as value {value}", bools[value]))),
            Self::Texts(texts) => first(&|value| texts.index(value) >= texts.len()).map(|value| {
                let (most, got) = (texts.len(), texts.index(value));
                (
                    "strings.indices",
                    format!("expected indices below {most}, the number of strings, got {got} as value {value}"),
                )
            }),
        };
        error.map_or(Ok(()), |(part, reason)| Err(CollectionError::invalid(format!("{at}.{part}"), reason)))
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
    fn parse(at: &str, bits: &Bytes, points: usize) -> Result<Option<Self>, CollectionError> {
        if bits.is_empty() {
            return Ok(None);
        }
        let expected = points.div_ceil(8);
        if bits.len() != expected {
            let reason = format!("expected {expected} bytes, one bit for each of {points} points, got {}", bits.len());
            return Err(CollectionError::invalid(at, reason));
        }
        let used = points % 8;
        if used != 0 && bits[expected - 1] >> used != 0 {
            return Err(CollectionError::invalid(
                at,
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
    fn parse(at: &str, texts: &v1::StringColumn, values: usize) -> Result<Self, CollectionError> {
        let v1::StringColumn { offsets, data, indices } = texts;
        let offsets_at = format!("{at}.offsets");
        if !offsets.len().is_multiple_of(INDEX_BYTES) || offsets.is_empty() {
            let reason =
                format!("expected {INDEX_BYTES} bytes per string and {INDEX_BYTES} more, got {} bytes", offsets.len());
            return Err(CollectionError::invalid(offsets_at, reason));
        }
        let given = (!indices.is_empty()).then(|| check_len(&format!("{at}.indices"), indices, values, INDEX_BYTES));
        let indices = given.transpose()?;
        let parsed = Self { offsets: offsets.clone(), data: data.clone(), indices };
        if parsed.indices.is_none() && parsed.len() != values {
            let reason = format!("expected {values} strings, one for each point, got {}", parsed.len());
            return Err(CollectionError::invalid(offsets_at, reason));
        }
        parsed.check_offsets(&offsets_at)?;
        parsed.check_utf8(at)?;
        Ok(parsed)
    }

    fn check_offsets(&self, at: &str) -> Result<(), CollectionError> {
        let (first, last) = (self.offset(0), self.offset(self.len()));
        if first != 0 || last != self.data.len() {
            let reason = format!("expected 0 to {}, the length of data, got {first} to {last}", self.data.len());
            return Err(CollectionError::invalid(at, reason));
        }
        match (0..self.len()).find(|&text| self.offset(text) > self.offset(text + 1)) {
            None => Ok(()),
            Some(text) => Err(CollectionError::invalid(
                at,
                format!("expected ascending offsets, got a lower one after string {text}"),
            )),
        }
    }

    fn check_utf8(&self, at: &str) -> Result<(), CollectionError> {
        let at = || format!("{at}.data");
        let Ok(data) = std::str::from_utf8(&self.data) else {
            let broken =
                (0..self.len()).find(|&text| std::str::from_utf8(self.bytes(text)).is_err()).unwrap_or_default();
            return Err(CollectionError::invalid(at(), format!("expected UTF-8, string {broken} is not")));
        };
        match (0..self.len()).find(|&text| !data.is_char_boundary(self.offset(text))) {
            None => Ok(()),
            Some(text) => Err(CollectionError::invalid(at(), format!("string {text} begins within a character"))),
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
fn check_len(at: &str, bytes: &Bytes, values: usize, width: usize) -> Result<Bytes, CollectionError> {
    if Some(bytes.len()) == values.checked_mul(width) {
        return Ok(bytes.clone());
    }
    let reason = format!("expected {width} bytes for each of {values} points, got {} bytes", bytes.len());
    Err(CollectionError::invalid(at, reason))
}

/// Checks that no point has values in two columns of one name; a field may have one column per type.
fn check_names(at: &str, columns: &[Column], points: usize) -> Result<(), CollectionError> {
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
                return Err(CollectionError::invalid(format!("{at}.columns[{name:?}]"), reason));
            }
        }
    }
    Ok(())
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks::<VALUE_BYTES>().0[at])
}

fn read_f64(bytes: &[u8], at: usize) -> f64 {
    f64::from_bits(read_u64(bytes, at))
}

fn read_u32(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes.as_chunks::<INDEX_BYTES>().0[at]) as usize
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn signed(point: usize) -> i64 {
        i64::try_from(point).expect("tests have few points")
    }

    fn ints(values: &[i64]) -> Wire {
        Wire::Ints(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Points of which every third has no `n`, and every seventh has a double instead of an integer.
    fn columns(points: usize) -> (PayloadColumns, Vec<v1::Payload>) {
        let payload = |point: usize| {
            let number = if point.is_multiple_of(7) {
                Kind::DoubleValue(point as f64 / 2.0)
            } else {
                Kind::IntValue(-signed(point))
            };
            let text = Kind::StringValue(["", "größe", "rust"][point % 3].into());
            let fields =
                [("n", Some(number)), ("lang", Some(text)), ("ok", Some(Kind::BoolValue(point.is_multiple_of(2))))];
            let there = |(name, kind): (&str, Option<Kind>)| {
                (name != "n" || !point.is_multiple_of(3)).then(|| (name.into(), v1::Value { kind }))
            };
            v1::Payload { fields: fields.into_iter().filter_map(there).collect() }
        };
        let payloads: Vec<_> = (0..points).map(payload).collect();
        let wire = payload_columns(payloads.iter()).expect("few fields");
        (PayloadColumns::parse("at", &wire, points).expect("they are well-formed"), payloads)
    }

    #[test]
    fn columns_are_encoded_like_the_messages_they_came_from() {
        for points in [0, 1, 7, 8, 9, 63, 64, 65, 500] {
            let (columns, payloads) = columns(points);
            let encoded = columns.encoded();
            assert_eq!(encoded.len(), points);
            for (point, (bytes, payload)) in encoded.iter().zip(&payloads).enumerate() {
                assert_eq!(v1::Payload::decode(bytes.clone()).as_ref(), Ok(payload), "point {point} of {points}");
                assert_eq!((bytes.len(), columns.encoded_len(point)), (payload.encoded_len(), payload.encoded_len()));
            }
        }
    }

    #[test]
    fn too_many_distinct_fields_are_rejected() {
        let value = v1::Value { kind: Some(Kind::BoolValue(true)) };
        let payload = |point: usize| v1::Payload { fields: [(point.to_string(), value.clone())].into() };
        let payloads: Vec<_> = (0..30_000).map(payload).collect();
        let error =
            payload_columns(payloads.iter()).expect_err("30,000 columns of 30,000 points exceed the limit").to_string();
        assert!(error.starts_with("columns: "), "{error}");
        assert!(payload_columns(payloads[..1000].iter()).is_ok());
    }

    #[test]
    fn a_value_is_found_after_any_number_of_missing_ones() {
        let present = |point: usize| point % 5 == 2 || point > 190;
        let mut presence = vec![0; 25];
        (0..200).filter(|&point| present(point)).for_each(|point| presence[point / 8] |= 1 << (point % 8));
        let values: Vec<_> = (0..200).filter(|&point| present(point)).map(signed).collect();
        let column = v1::PayloadColumn { name: "f".into(), presence: presence.into(), values: Some(ints(&values)) };
        let columns = v1::PayloadColumns { columns: vec![column] };
        let columns = PayloadColumns::parse("at", &columns, 200).expect("they are well-formed");
        for point in 0..200 {
            assert_eq!(columns.columns()[0].get(point), present(point).then_some(Cell::Int(signed(point))));
        }
    }
}
