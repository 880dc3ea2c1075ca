//! Records, and their encoding as the body of a log frame or a chunk.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::StoreError;

/// Bytes of a body before its ids.
const BODY_HEADER: usize = 12;

/// Ids of points, all of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Integers.
    Numbers(Vec<u64>),
    /// UUIDs, in the byte order of RFC 9562.
    Uuids(Vec<[u8; 16]>),
}

impl Ids {
    /// Number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(ids) => ids.len(),
            Self::Uuids(ids) => ids.len(),
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Numbers(_) => 1,
            Self::Uuids(_) => 2,
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Numbers(_) => 8,
            Self::Uuids(_) => 16,
        }
    }

    fn put(&self, into: &mut BytesMut) {
        match self {
            Self::Numbers(ids) => ids.iter().for_each(|id| into.put_u64_le(*id)),
            Self::Uuids(ids) => ids.iter().for_each(|id| into.put_slice(id)),
        }
    }
}

/// Inserted points: one vector per id, and one payload per id or none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upsert {
    /// Unique ids.
    pub ids: Ids,
    /// Dimensions of a vector.
    pub dim: u32,
    /// f32 `[ids, dim]`, little-endian.
    pub vectors: Bytes,
    /// Empty, or one per point; opaque to the store.
    pub payloads: Vec<Bytes>,
}

/// One change of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Inserts points or replaces those of the same ids.
    Upsert(Upsert),
    /// Deletes points.
    Delete(Ids),
}

/// A body in parts, so that large parts are written without a copy.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl Record {
    /// The kind's number in a frame.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Upsert(_) => 1,
            Self::Delete(_) => 2,
        }
    }

    /// The body of a frame.
    pub(crate) fn body(&self) -> Result<Body, StoreError> {
        match self {
            Self::Upsert(upsert) => upsert.body(),
            Self::Delete(ids) => finish(vec![header(ids, 0, false).freeze()]),
        }
    }

    /// Reads the body of a frame of a kind.
    pub(crate) fn parse(kind: u8, body: Bytes) -> Result<Self, String> {
        match kind {
            1 => Upsert::parse(body).map(Self::Upsert),
            2 => parse_delete(body).map(Self::Delete),
            other => Err(format!("kind is {other}, expected 1 or 2")),
        }
    }
}

impl Upsert {
    /// Checks that the counts agree; every body written or read passes here.
    fn check(&self) -> Result<(), String> {
        let count = self.ids.len() as u128;
        let dim = u128::from(self.dim);
        if self.vectors.len() as u128 != count * dim * 4 {
            return Err(format!(
                "{count} vectors of dim {dim} need {} bytes, got {}",
                count * dim * 4,
                self.vectors.len()
            ));
        }
        if !self.payloads.is_empty() && self.payloads.len() as u128 != count {
            return Err(format!("{count} points have {} payloads", self.payloads.len()));
        }
        Ok(())
    }

    /// The body of a frame or chunk.
    pub(crate) fn body(&self) -> Result<Body, StoreError> {
        self.check().map_err(|reason| StoreError::damaged("record", reason))?;
        let mut parts = vec![header(&self.ids, self.dim, !self.payloads.is_empty()).freeze(), self.vectors.clone()];
        if !self.payloads.is_empty() {
            parts.push(payload_block(&self.payloads)?);
        }
        finish(parts)
    }

    /// Reads the body of a frame or chunk.
    pub(crate) fn parse(mut body: Bytes) -> Result<Self, String> {
        let (kind, has_payloads, count, dim) = parse_header(&mut body)?;
        let ids = parse_ids(kind, count, &mut body)?;
        let need = u128::from(count) * u128::from(dim) * 4;
        let len = usize::try_from(need).ok().filter(|need| *need <= body.len());
        let vectors = body.split_to(len.ok_or_else(|| format!("vectors need {need} bytes, {} are left", body.len()))?);
        let payloads = if has_payloads { parse_payloads(ids.len(), &mut body)? } else { vec![] };
        expect_end(&body)?;
        Ok(Self { ids, dim, vectors, payloads })
    }
}

fn header(ids: &Ids, dim: u32, has_payloads: bool) -> BytesMut {
    let mut header = BytesMut::with_capacity(BODY_HEADER + ids.len() * ids.width());
    header.put_slice(&[ids.kind(), u8::from(has_payloads), 0, 0]);
    // A count above u32 cannot fit a body; `finish` refuses it by its length.
    header.put_u32_le(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    header.put_u32_le(dim);
    ids.put(&mut header);
    header
}

fn payload_block(payloads: &[Bytes]) -> Result<Bytes, StoreError> {
    let total: usize = payloads.iter().map(|payload| 4 + payload.len()).sum();
    let mut block = BytesMut::with_capacity(total);
    for payload in payloads {
        block.put_u32_le(u32::try_from(payload.len()).map_err(|_| too_large(payload.len() as u64))?);
    }
    for payload in payloads {
        block.put_slice(payload);
    }
    Ok(block.freeze())
}

fn too_large(got: u64) -> StoreError {
    StoreError::TooLarge { got, limit: u64::from(u32::MAX) }
}

fn finish(parts: Vec<Bytes>) -> Result<Body, StoreError> {
    let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let len = u32::try_from(len).map_err(|_| too_large(len))?;
    let mut crc = crc32fast::Hasher::new();
    for part in &parts {
        crc.update(part);
    }
    Ok(Body { parts, len, crc: crc.finalize() })
}

fn parse_header(body: &mut Bytes) -> Result<(u8, bool, u32, u32), String> {
    if body.len() < BODY_HEADER {
        return Err(format!("the body has {} bytes, expected at least {BODY_HEADER}", body.len()));
    }
    let kind = body.get_u8();
    let payloads = body.get_u8();
    let zeros = body.get_u16_le();
    if payloads > 1 || zeros != 0 {
        return Err("reserved bytes of the body are not zero".into());
    }
    Ok((kind, payloads == 1, body.get_u32_le(), body.get_u32_le()))
}

fn parse_ids(kind: u8, count: u32, body: &mut Bytes) -> Result<Ids, String> {
    let width = match kind {
        1 => 8,
        2 => 16,
        other => return Err(format!("id kind is {other}, expected 1 or 2")),
    };
    let need = count as usize * width;
    if body.len() < need {
        return Err(format!("{count} ids need {need} bytes, {} are left", body.len()));
    }
    let raw = body.split_to(need);
    Ok(if kind == 1 {
        Ids::Numbers(raw.as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id)).collect())
    } else {
        Ids::Uuids(raw.as_chunks::<16>().0.to_vec())
    })
}

fn parse_payloads(count: usize, body: &mut Bytes) -> Result<Vec<Bytes>, String> {
    if body.len() < count * 4 {
        return Err(format!("{count} payload lengths need {} bytes, {} are left", count * 4, body.len()));
    }
    let mut lengths = body.split_to(count * 4);
    (0..count).map(|_| take(lengths.get_u32_le() as usize, body)).collect()
}

fn take(len: usize, body: &mut Bytes) -> Result<Bytes, String> {
    if body.len() < len {
        return Err(format!("a payload needs {len} bytes, {} are left", body.len()));
    }
    Ok(body.split_to(len))
}

fn parse_delete(mut body: Bytes) -> Result<Ids, String> {
    let (kind, has_payloads, count, dim) = parse_header(&mut body)?;
    if has_payloads || dim != 0 {
        return Err("a delete has neither vectors nor payloads".into());
    }
    let ids = parse_ids(kind, count, &mut body)?;
    expect_end(&body)?;
    Ok(ids)
}

fn expect_end(body: &Bytes) -> Result<(), String> {
    if body.is_empty() { Ok(()) } else { Err(format!("{} bytes follow the body", body.len())) }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn any_ids() -> impl Strategy<Value = Ids> {
        prop_oneof![
            proptest::collection::vec(any::<u64>(), 0..6).prop_map(Ids::Numbers),
            proptest::collection::vec(any::<[u8; 16]>(), 0..6).prop_map(Ids::Uuids),
        ]
    }

    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let upsert = (any_ids(), 0..5u32, any::<bool>(), any::<u8>()).prop_map(|(ids, dim, with_payloads, fill)| {
            let vectors = Bytes::from(vec![fill; ids.len() * dim as usize * 4]);
            let payload = |i: usize| Bytes::from(vec![fill ^ 0x55; i * 3]);
            let payloads = if with_payloads { (0..ids.len()).map(payload).collect() } else { vec![] };
            Record::Upsert(Upsert { ids, dim, vectors, payloads })
        });
        prop_oneof![upsert, any_ids().prop_map(Record::Delete)]
    }

    fn joined(record: &Record) -> Bytes {
        record.body().expect("records made here are well-formed").parts.concat().into()
    }

    proptest! {
        #[test]
        fn records_round_trip(record in any_record()) {
            prop_assert_eq!(Record::parse(record.kind(), joined(&record)), Ok(record));
        }

        #[test]
        fn damaged_bodies_never_panic(record in any_record(), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
            let mut body = joined(&record).to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            if cut { body.truncate(at); }
            let _ = Record::parse(record.kind(), body.into());
        }
    }

    #[test]
    fn inconsistent_counts_are_rejected_before_writing() {
        let vectors = Bytes::from_static(&[0; 8]);
        let upsert = Upsert { ids: Ids::Numbers(vec![1]), dim: 1, vectors, payloads: vec![] };
        assert!(upsert.body().is_err());
        let vectors = Bytes::from_static(&[0; 4]);
        let upsert = Upsert { vectors, payloads: vec![Bytes::new(); 2], ..upsert };
        assert!(upsert.body().is_err());
    }
}
