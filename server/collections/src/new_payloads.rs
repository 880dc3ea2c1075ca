//! Payloads of new points as received: one message per point, or columns.

use accelerd_proto::v1::{Payload, value::Kind};
use bytes::Bytes;
use prost::Message as _;

use super::columns::PayloadColumns;

/// Payloads of new points.
#[derive(Clone, Debug)]
pub enum NewPayloads {
    /// Empty, or one per point.
    Messages(Vec<Payload>),
    /// Columns of all points.
    Columns(PayloadColumns),
}

/// Borrowed payloads of a range of new points.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PayloadSlice<'a> {
    /// Empty, or one per point.
    Messages(&'a [Payload]),
    /// The points from `first` on.
    Columns { columns: &'a PayloadColumns, first: usize },
}

impl NewPayloads {
    pub(crate) fn all(&self) -> PayloadSlice<'_> {
        match self {
            Self::Messages(payloads) => PayloadSlice::Messages(payloads),
            Self::Columns(columns) => PayloadSlice::Columns { columns, first: 0 },
        }
    }

    /// Total number of fields of all points.
    pub(crate) fn field_count(&self) -> usize {
        match self {
            Self::Messages(payloads) => payloads.iter().map(|payload| payload.fields.len()).sum(),
            Self::Columns(columns) => columns.field_count(),
        }
    }

    /// One encoded message per point; empty if no point has a payload.
    pub(crate) fn encoded(&self) -> Vec<Bytes> {
        match self {
            Self::Messages(payloads) => payloads.iter().map(|payload| payload.encode_to_vec().into()).collect(),
            Self::Columns(columns) => columns.encoded(),
        }
    }
}

impl<'a> PayloadSlice<'a> {
    /// The payloads of the points `start..end`.
    pub(crate) fn part(self, start: usize, end: usize) -> Self {
        match self {
            Self::Messages(payloads) => Self::Messages(payloads.get(start..end).unwrap_or_default()),
            Self::Columns { columns, first } => Self::Columns { columns, first: first + start },
        }
    }

    /// The string value of a point's field; empty if it has none.
    pub(crate) fn text(self, point: usize, field: &str) -> &'a str {
        match self {
            Self::Messages(payloads) => {
                let value = payloads.get(point).and_then(|payload| payload.fields.get(field));
                match value.and_then(|value| value.kind.as_ref()) {
                    Some(Kind::StringValue(text)) => text,
                    _ => "",
                }
            }
            Self::Columns { columns, first } => columns.text(first + point, field),
        }
    }
}

impl<'a, T: AsRef<[Payload]> + ?Sized> From<&'a T> for PayloadSlice<'a> {
    fn from(payloads: &'a T) -> Self {
        Self::Messages(payloads.as_ref())
    }
}
