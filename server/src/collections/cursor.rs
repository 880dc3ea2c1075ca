//! Cursors of pages as opaque bytes: the last id of a page after its tag.

use accelerd_collections::PointId;
use bytes::Bytes;

use crate::error::ApiError;

/// Tags of the id in a cursor.
const NUMBER: u8 = 1;
const UUID: u8 = 2;

/// The last id of the page before a cursor; `None` for an empty cursor, which is before the first page.
pub(super) fn decode(cursor: &[u8]) -> Result<Option<PointId>, ApiError> {
    let bad = || ApiError::invalid("cursor", "expected next_cursor of a page, or none");
    match cursor {
        [] => Ok(None),
        [NUMBER, id @ ..] => {
            let id = id.try_into().map_err(|_| bad())?;
            Ok(Some(PointId::Number(u64::from_be_bytes(id))))
        }
        [UUID, id @ ..] => Ok(Some(PointId::Uuid(id.try_into().map_err(|_| bad())?))),
        _ => Err(bad()),
    }
}

/// The cursor of the next page; empty after the last.
pub(super) fn encode(next: Option<PointId>) -> Bytes {
    match next {
        None => Bytes::new(),
        Some(PointId::Number(number)) => [&[NUMBER][..], &number.to_be_bytes()].concat().into(),
        Some(PointId::Uuid(uuid)) => [&[UUID][..], &uuid].concat().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_decoded_to_the_id_that_it_was_made_of() {
        for id in [None, Some(PointId::Number(7)), Some(PointId::Uuid([3; 16]))] {
            assert_eq!(decode(&encode(id)).expect("it was made here"), id);
        }
    }

    #[test]
    fn other_bytes_are_no_cursor() {
        for bytes in [&[0][..], &[NUMBER], &[NUMBER, 1, 2], &[UUID; 16], &[3; 9]] {
            let refused = decode(bytes).expect_err("it must be refused").to_string();
            assert_eq!(refused, "cursor: expected next_cursor of a page, or none");
        }
    }
}
