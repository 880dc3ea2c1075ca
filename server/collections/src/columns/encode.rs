//! Payloads of columns as the messages that hold one point each.

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::{Cell, PayloadColumns, VALUE_BYTES};

/// Field numbers in similarity.proto: Payload.fields, key and value of a map entry, and the variants of Value.
const PAYLOAD_FIELDS: u32 = 1;
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;
const STRING_VALUE: u32 = 1;
const INT_VALUE: u32 = 2;
const DOUBLE_VALUE: u32 = 3;
const BOOL_VALUE: u32 = 4;

impl PayloadColumns {
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
