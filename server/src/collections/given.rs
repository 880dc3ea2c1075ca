//! Payloads of new points, as they came: a message a point, or columns.

use accelerd_proto::v1::{Payload, value::Kind};
use bytes::Bytes;
use prost::Message as _;

use super::columns::PayloadColumns;

/// Payloads of new points.
#[derive(Clone, Debug)]
pub enum NewPayloads {
    /// None, or one a point.
    Messages(Vec<Payload>),
    /// Of all points.
    Columns(PayloadColumns),
}

/// Payloads of some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slice<'a> {
    /// None, or one a point.
    Messages(&'a [Payload]),
    /// Of the points from `first` on.
    Columns { columns: &'a PayloadColumns, first: usize },
}

impl NewPayloads {
    /// All of them.
    pub(crate) fn all(&self) -> Slice<'_> {
        match self {
            Self::Messages(payloads) => Slice::Messages(payloads),
            Self::Columns(columns) => Slice::Columns { columns, first: 0 },
        }
    }

    /// How many fields all points have together.
    pub(crate) fn field_count(&self) -> usize {
        match self {
            Self::Messages(payloads) => payloads.iter().map(|payload| payload.fields.len()).sum(),
            Self::Columns(columns) => columns.field_count(),
        }
    }

    /// Each as an encoded message; none where no point has one.
    pub(crate) fn encoded(&self) -> Vec<Bytes> {
        match self {
            Self::Messages(payloads) => payloads.iter().map(|payload| payload.encode_to_vec().into()).collect(),
            Self::Columns(columns) => columns.encoded(),
        }
    }
}

impl<'a> Slice<'a> {
    /// Those of the points from one up to another.
    pub(crate) fn part(self, start: usize, end: usize) -> Self {
        match self {
            Self::Messages(payloads) => Self::Messages(payloads.get(start..end).unwrap_or_default()),
            Self::Columns { columns, first } => Self::Columns { columns, first: first + start },
        }
    }

    /// The text that a point has in a field; empty where it has none.
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

impl<'a, T: AsRef<[Payload]> + ?Sized> From<&'a T> for Slice<'a> {
    fn from(payloads: &'a T) -> Self {
        Self::Messages(payloads.as_ref())
    }
}
