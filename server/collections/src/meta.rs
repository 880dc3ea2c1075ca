//! Building a generation from a collection's stored metadata and log records.

use std::{ops::Range, sync::Arc, time::SystemTime};

use accelerd_kernels::{
    DeviceId, Matrix,
    ops::similarity::{self, Corpus},
};
use accelerd_proto::v1::Payload;
use accelerd_store::{CollectionMeta, Ids, Metric, Record, Storage, StoreError};
use prost::Message as _;

use super::{
    budget::Budget,
    generation::{Generation, rows_of},
};

/// Rows of a record that are decoded at a time.
const REPLAY_ROWS: usize = 4096;

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

impl Generation {
    /// Applies a log record, which is validated like any other input although it has a checksum.
    pub(super) fn replay(&self, meta: &CollectionMeta, record: &Record) -> Result<(), StoreError> {
        let damaged = |reason: String| StoreError::Damaged { file: format!("the log of {:?}", meta.name), reason };
        let points = match record {
            Record::Delete(ids) => {
                self.delete(ids);
                return Ok(());
            }
            Record::Upsert(points) => points,
        };
        if points.dim != meta.dim {
            return Err(damaged(format!("expected vectors of dim {}, got {}", meta.dim, points.dim)));
        }
        let known = self.read().kind();
        if known.is_some_and(|known| !same_kind(&known, &points.ids)) {
            return Err(damaged("it has ids of two kinds".into()));
        }
        let vectors = Matrix::from_bytes(points.ids.len(), meta.dim as usize, points.vectors.clone());
        let vectors = vectors.map_err(|e| damaged(e.to_string()))?;
        if let Some((row, column)) = vectors.first_non_finite() {
            return Err(damaged(format!("a vector has NaN or infinity in row {row}, column {column}")));
        }
        // Decoded payloads take many times their encoded size, so a large record is applied in steps.
        for start in (0..points.ids.len()).step_by(REPLAY_ROWS) {
            let rows = start..points.ids.len().min(start + REPLAY_ROWS);
            let payloads = points.payloads.get(rows.clone()).unwrap_or_default();
            let payloads = payloads.iter().map(|payload| Payload::decode(payload.clone()));
            let payloads = payloads.collect::<Result<Vec<_>, _>>().map_err(|e| damaged(e.to_string()))?;
            self.upsert(&part_of(&points.ids, rows.clone()), &rows_of(&vectors, start, rows.end), &payloads);
        }
        Ok(())
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
