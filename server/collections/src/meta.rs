//! Building a generation from a collection's stored metadata and log records.

use std::{ops::Range, sync::Arc, time::SystemTime};

use accelerd_kernels::{
    DeviceId, Matrix, ShapeError,
    ops::similarity::{self, Corpus},
};
use accelerd_proto::v1::Payload;
use accelerd_store::{CollectionMeta, Ids, Metric, Record, Storage, Upsert};
use bytes::Bytes;
use prost::Message as _;

use super::{
    budget::Budget,
    generation::{Generation, rows_of},
    row_sink::RowSink,
};

/// Rows of a record whose payloads are decoded at a time.
const REPLAY_ROWS: usize = 4096;
/// Payloads of at most this many bytes are decoded before the record is applied.
const DECODED_AHEAD: usize = 1 << 20;

fn corpus(meta: &CollectionMeta, device: DeviceId) -> Arc<Corpus> {
    let metric = match meta.metric {
        Metric::Cosine => similarity::Metric::Cosine,
        Metric::Dot => similarity::Metric::Dot,
        Metric::SquaredL2 => similarity::Metric::SquaredL2,
    };
    let storage = match meta.storage {
        Storage::F32 => similarity::Storage::F32,
        Storage::F16 => similarity::Storage::F16,
        Storage::Bf16 => similarity::Storage::Bf16,
        Storage::I8 => similarity::Storage::I8,
    };
    Corpus::new(meta.dim as usize, metric, storage, device)
}

/// An empty generation of a collection.
pub(super) fn new_generation(meta: &CollectionMeta, device: DeviceId, budget: &Budget) -> Generation {
    Generation::new(corpus(meta, device)).with_text_index(&meta.text_field, budget.writers())
}

/// Milliseconds since the Unix epoch; 0 if the clock is before it.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A record whose contents are valid.
#[derive(Debug)]
pub(super) enum Decoded {
    Upsert {
        points: Upsert,
        payloads: Payloads,
        /// Points whose vectors are not finite.
        set_aside: Option<Upsert>,
    },
    Delete(Ids),
}

/// The payloads of a record.
#[derive(Debug)]
pub(super) enum Payloads {
    Decoded(Vec<Payload>),
    /// Those of a record with many. They can be decoded.
    Encoded,
}

/// Checks and decodes a log record, which is validated like any other input although it has a checksum. Fails with a
/// reason.
pub(super) fn decode(meta: &CollectionMeta, record: Record) -> Result<Decoded, String> {
    let points = match record {
        Record::Delete(ids) => return Ok(Decoded::Delete(ids)),
        Record::Upsert(points) => points,
    };
    if points.dim != meta.dim {
        return Err(format!("expected vectors of dim {}, got {}", meta.dim, points.dim));
    }
    let vectors = matrix(&points).map_err(|e| e.to_string())?;
    let (points, set_aside) = match vectors.first_non_finite() {
        None => (points, None),
        Some(_) => partition(&points, &vectors.as_f32()),
    };
    let payloads = points.payloads.iter().map(|payload| Payload::decode(payload.clone()));
    let bytes: usize = points.payloads.iter().map(Bytes::len).sum();
    let payloads = if bytes <= DECODED_AHEAD {
        payloads.collect::<Result<_, _>>().map(Payloads::Decoded)
    } else {
        let mut payloads = payloads;
        payloads.try_for_each(|payload| payload.map(drop)).map(|()| Payloads::Encoded)
    };
    Ok(Decoded::Upsert { points, payloads: payloads.map_err(|e| e.to_string())?, set_aside })
}

fn matrix(points: &Upsert) -> Result<Matrix, ShapeError> {
    Matrix::from_bytes(points.ids.len(), points.dim as usize, points.vectors.clone())
}

/// Splits points into those with finite vectors and the others.
fn partition(points: &Upsert, vectors: &[f32]) -> (Upsert, Option<Upsert>) {
    let is_finite = |row: &usize| {
        let width = points.dim as usize;
        vectors[row * width..(row + 1) * width].iter().all(|number| number.is_finite())
    };
    let (finite, others): (Vec<_>, Vec<_>) = (0..points.ids.len()).partition(is_finite);
    (select(points, &finite), Some(select(points, &others)))
}

fn select(points: &Upsert, rows: &[usize]) -> Upsert {
    let width = points.dim as usize * size_of::<f32>();
    let vectors: Vec<u8> =
        rows.iter().flat_map(|row| &points.vectors[row * width..(row + 1) * width]).copied().collect();
    let ids = match &points.ids {
        Ids::Numbers(ids) => Ids::Numbers(rows.iter().map(|row| ids[*row]).collect()),
        Ids::Uuids(ids) => Ids::Uuids(rows.iter().map(|row| ids[*row]).collect()),
    };
    let payloads = rows.iter().filter_map(|row| points.payloads.get(*row).cloned()).collect();
    Upsert { ids, dim: points.dim, vectors: vectors.into(), payloads }
}

impl Generation {
    /// Applies a record. Fails with a reason if its ids are of another kind than those before.
    pub(super) fn replay(&self, sink: &impl RowSink, record: Decoded) -> Result<(), String> {
        let (points, payloads, set_aside) = match record {
            Decoded::Delete(ids) => {
                self.delete_from(sink, &ids);
                return Ok(());
            }
            Decoded::Upsert { points, payloads, set_aside } => (points, payloads, set_aside),
        };
        let known = self.read().kind();
        if known.is_some_and(|known| !same_kind(&known, &points.ids)) {
            return Err("it has ids of two kinds".into());
        }
        let vectors = matrix(&points).expect("decoding has checked the shape");
        match payloads {
            Payloads::Decoded(payloads) => _ = self.upsert_into(sink, &points.ids, &vectors, &payloads),
            Payloads::Encoded => self.upsert_in_steps(sink, &points, &vectors),
        }
        if let Some(points) = set_aside {
            self.set_aside(sink, &points);
        }
        Ok(())
    }

    /// Decoded payloads take many times their encoded size, so those of a large record are decoded in steps.
    fn upsert_in_steps(&self, sink: &impl RowSink, points: &Upsert, vectors: &Matrix) {
        for start in (0..points.ids.len()).step_by(REPLAY_ROWS) {
            let rows = start..points.ids.len().min(start + REPLAY_ROWS);
            let payloads = points.payloads.get(rows.clone()).unwrap_or_default();
            let decode = |payload: &Bytes| Payload::decode(payload.clone()).expect("decoding has checked it");
            let payloads: Vec<_> = payloads.iter().map(decode).collect();
            let ids = part_of(&points.ids, rows.clone());
            self.upsert_into(sink, &ids, &rows_of(vectors, start, rows.end), &payloads);
        }
    }
}

fn part_of(ids: &Ids, rows: Range<usize>) -> Ids {
    match ids {
        Ids::Numbers(ids) => Ids::Numbers(ids[rows].to_vec()),
        Ids::Uuids(ids) => Ids::Uuids(ids[rows].to_vec()),
    }
}

pub(super) fn same_kind(one: &Ids, other: &Ids) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}
