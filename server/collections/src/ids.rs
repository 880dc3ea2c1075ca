//! Ids of points, and how they are read from messages.

use accelerd_proto::v1::PointIds;
use accelerd_store::Ids;

use crate::error::CollectionError;

/// The id of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointId {
    /// A number.
    Number(u64),
    /// A UUID, in the byte order of RFC 9562.
    Uuid([u8; 16]),
}

/// Parses the ids of a field: all numbers, or all UUIDs. Fails with [`CollectionError::Invalid`] if several forms are
/// mixed.
pub fn parse_ids(field: &str, ids: &PointIds) -> Result<Ids, CollectionError> {
    let PointIds { numbers, uuids, packed_numbers, packed_uuids } = ids;
    let forms = [!numbers.is_empty(), !uuids.is_empty(), !packed_numbers.is_empty(), !packed_uuids.is_empty()];
    if forms.into_iter().filter(|is_set| *is_set).count() > 1 {
        let reason = "expected one of numbers, uuids, packed_numbers and packed_uuids, got several";
        return Err(CollectionError::invalid(field, reason));
    }
    if !packed_numbers.is_empty() {
        let numbers = packed(&format!("{field}.packed_numbers"), packed_numbers)?;
        return Ok(Ids::Numbers(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()));
    }
    if !packed_uuids.is_empty() {
        return Ok(Ids::Uuids(packed(&format!("{field}.packed_uuids"), packed_uuids)?.to_vec()));
    }
    if uuids.is_empty() {
        return Ok(Ids::Numbers(numbers.clone()));
    }
    let parse = |(i, text): (usize, &String)| {
        let bad = |error| CollectionError::invalid(format!("{field}.uuids[{i}]"), format!("expected a UUID: {error}"));
        uuid::Uuid::try_parse(text).map(uuid::Uuid::into_bytes).map_err(bad)
    };
    Ok(Ids::Uuids(uuids.iter().enumerate().map(parse).collect::<Result<_, _>>()?))
}

/// Splits packed ids of `N` bytes each.
fn packed<'a, const N: usize>(field: &str, bytes: &'a [u8]) -> Result<&'a [[u8; N]], CollectionError> {
    match bytes.as_chunks::<N>() {
        (ids, []) => Ok(ids),
        _ => Err(CollectionError::invalid(field, format!("expected {N} bytes per id, got {} bytes", bytes.len()))),
    }
}
