//! Rows on the device: the originals, the quantised copy that is scanned, and the synchronisation of resident corpora.

use std::sync::{Arc, Weak};

use super::{
    kernels::{
        BLOCK_ROWS, BLOCK_THREADS, COSINE, DOT, PAD_ROWS, QUANTISE_ROWS, ROW_ALIGNMENT, RowMeta, SQUARED_L2,
        TILE_BYTES, TILE_ROWS,
    },
    plan::ScanFormat,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, Device, DevicePtr, Grid, Worker},
    ops::similarity::{
        corpus::{Corpus, CorpusCopy, View},
        metric::Metric,
    },
};

/// Numbers that are padded at a time.
const PAD_NUMBERS: usize = 8 << 20;

/// Rows as the kernels read them. Rows are only appended after those that searches read.
#[derive(Debug)]
pub(super) struct DeviceRows {
    pub(super) dim: usize,
    pub(super) metric: Metric,
    pub(super) format: ScanFormat,
    /// Allocated rows, a multiple of [`ROW_ALIGNMENT`].
    capacity: usize,
    /// f32[capacity, pitch].
    pub(super) originals: Buffer<f32>,
    /// The quantised copy in tiles; empty for f32.
    scan: Buffer<u8>,
    pub(super) meta: Buffer<RowMeta>,
    /// The largest error and norm of each 128 rows.
    pub(super) tile_max: Buffer<u32>,
}

impl DeviceRows {
    /// Allocates rows; without a quantised copy unless they are `scanned`.
    fn new(
        dim: usize,
        metric: Metric,
        format: ScanFormat,
        capacity: usize,
        scanned: bool,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let capacity = capacity.next_multiple_of(ROW_ALIGNMENT);
        let copied = if scanned { capacity } else { 0 };
        let scan = scan_bytes(dim, format, copied);
        Ok(Self {
            dim,
            metric,
            format,
            capacity,
            originals: worker.alloc(capacity * pitch(dim))?,
            scan: worker.alloc(scan)?,
            meta: worker.alloc(copied)?,
            tile_max: worker.alloc_zeroed(copied / TILE_ROWS * 2)?,
        })
    }

    /// Uploads the rows of one request.
    pub(super) fn inline(
        rows: &[f32],
        dim: usize,
        metric: Metric,
        format: ScanFormat,
        scanned: bool,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let count = rows.len() / dim;
        let made = Self::new(dim, metric, format, count, scanned, worker)?;
        made.upload(rows, 0, worker)?;
        if scanned {
            made.quantise(0, count, worker)?;
        }
        Ok(made)
    }

    /// As [`Self::new`], for rows that are scanned. It fails at once if the memory of all parts together cannot be allocated.
    fn resident(
        dim: usize,
        metric: Metric,
        format: ScanFormat,
        capacity: usize,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let rows = capacity.next_multiple_of(ROW_ALIGNMENT);
        let bytes = rows * pitch(dim) * size_of::<f32>() + scan_bytes(dim, format, rows);
        worker.check_attainable(bytes as u64)?;
        Self::new(dim, metric, format, capacity, true, worker)
    }

    /// A larger allocation with a copy of the first `len` rows.
    fn grown(&self, len: usize, capacity: usize, worker: &Worker) -> Result<Self, OpError> {
        let more = Self::resident(self.dim, self.metric, self.format, capacity, worker)?;
        worker.copy(&self.originals, &more.originals, len * pitch(self.dim))?;
        worker.copy(&self.meta, &more.meta, len)?;
        worker.copy(&self.tile_max, &more.tile_max, len.div_ceil(TILE_ROWS) * 2)?;
        if !self.scan.is_empty() {
            let bytes = len.div_ceil(TILE_ROWS) * TILE_BYTES * k_tiles(self.dim, self.format);
            worker.copy(&self.scan, &more.scan, bytes)?;
        }
        Ok(more)
    }

    /// Writes originals from row `first` on.
    fn upload(&self, rows: &[f32], first: usize, worker: &Worker) -> Result<(), OpError> {
        let pitch = pitch(self.dim);
        if pitch == self.dim {
            return worker.upload(rows, &self.originals, first * pitch);
        }
        let at_once = (PAD_NUMBERS / self.dim).max(1);
        for (part, rows) in rows.chunks(at_once * self.dim).enumerate() {
            let packed = worker.upload_new(rows)?;
            let count = rows.len() / self.dim;
            let mut args = Args::new()
                .ptr(packed.ptr())
                .ptr(self.originals.ptr_at((first + part * at_once) * pitch))
                .u64(count as u64)
                .u32(to_u32(self.dim)?)
                .u32(to_u32(pitch)?);
            worker.launch(
                &PAD_ROWS,
                Grid::x(to_u32((count * pitch).div_ceil(BLOCK_THREADS as usize))?),
                BLOCK_THREADS,
                0,
                &mut args,
            )?;
        }
        Ok(())
    }

    /// Quantises `count` rows from `first` on.
    fn quantise(&self, first: usize, count: usize, worker: &Worker) -> Result<(), OpError> {
        let mut args = Args::new()
            .ptr(self.originals.ptr())
            .ptr(self.scan.ptr())
            .ptr(self.meta.ptr())
            .ptr(self.tile_max.ptr())
            .u32(to_u32(first)?)
            .u32(to_u32(count)?)
            .u32(to_u32(k_tiles(self.dim, self.format))?)
            .u32(to_u32(pitch(self.dim))?)
            .u32(metric_code(self.metric));
        let kernel = &QUANTISE_ROWS[self.format as usize];
        worker.launch(kernel, Grid::x(to_u32(count.div_ceil(BLOCK_ROWS))?), BLOCK_THREADS, 0, &mut args)
    }

    /// The rows that scans read: the quantised copy, or the originals.
    pub(super) fn scanned(&self) -> DevicePtr<u8> {
        if self.format == ScanFormat::F32 { self.originals.ptr().cast() } else { self.scan.ptr() }
    }

    fn bytes(&self) -> u64 {
        let parts = [self.originals.size_bytes(), self.scan.len(), self.meta.size_bytes(), self.tile_max.size_bytes()];
        parts.iter().sum::<usize>() as u64
    }
}

/// Bytes of the quantised copy of `rows` rows.
fn scan_bytes(dim: usize, format: ScanFormat, rows: usize) -> usize {
    if format == ScanFormat::F32 { 0 } else { rows / TILE_ROWS * TILE_BYTES * k_tiles(dim, format) }
}

/// Columns of an original, with padding.
pub(super) fn pitch(dim: usize) -> usize {
    dim.next_multiple_of(4)
}

/// Tiles per row.
pub(super) fn k_tiles(dim: usize, format: ScanFormat) -> usize {
    dim.div_ceil(format.tile_columns())
}

/// The kernels' number for a metric.
pub(super) fn metric_code(metric: Metric) -> u32 {
    match metric {
        Metric::Cosine => COSINE,
        Metric::Dot => DOT,
        Metric::SquaredL2 => SQUARED_L2,
    }
}

/// A number as a 32-bit kernel argument.
pub(super) fn to_u32(number: usize) -> Result<u32, OpError> {
    u32::try_from(number).map_err(|_| OpError::Invalid(format!("{number} is more than a search on a GPU can count")))
}

/// A device's copy of a corpus. Immutable, only replaced; searches keep the one they read until their stream is
/// synchronised.
#[derive(Debug)]
pub(super) struct DeviceCorpus {
    device: Weak<Device>,
    pub(super) rows: Arc<DeviceRows>,
    pub(super) len: usize,
    deleted_version: u64,
    /// The bitmap of deleted rows, one bit per allocated row; `None` if all are live.
    pub(super) deleted: Option<Arc<Buffer<u32>>>,
}

impl DeviceCorpus {
    /// The device's copy of a corpus, brought up to date. Other workers wait during an update.
    pub(super) fn current(corpus: &Corpus, worker: &Worker) -> Result<Arc<Self>, OpError> {
        corpus.record_search();
        let mut slot = corpus.device_slot();
        let view = corpus.view();
        let before = slot
            .as_ref()
            .and_then(|corpus_copy| Arc::clone(corpus_copy).downcast::<Self>().ok())
            .filter(|corpus_copy| corpus_copy.device.ptr_eq(&Arc::downgrade(worker.device())));
        if let Some(current) = before.as_ref().filter(|one| one.len == view.len() && one.has_deletions_of(&view)) {
            return Ok(Arc::clone(current));
        }
        let mut updated = Self::updated_and_synchronised(before.as_deref(), corpus, &view, worker);
        let is_full = matches!(updated, Err(OpError::OutOfMemory { .. }));
        if let Some(before) = before.filter(|_| is_full) {
            // The old copy and a larger one do not fit at once; the larger one alone may.
            drop((before, slot.take()));
            corpus.set_device_bytes(0);
            updated = Self::updated_and_synchronised(None, corpus, &view, worker);
        }
        let updated = Arc::new(updated?);
        corpus.set_device_bytes(updated.bytes());
        *slot = Some(Arc::clone(&updated) as CorpusCopy);
        Ok(updated)
    }

    fn has_deletions_of(&self, view: &View) -> bool {
        self.deleted_version == view.deleted_version()
    }

    /// Other streams do not wait for this one, and after a failure nothing may be freed while it is still read.
    fn updated_and_synchronised(
        before: Option<&Self>,
        corpus: &Corpus,
        view: &View,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let updated = Self::updated(before, corpus, view, worker);
        let waited = worker.synchronize();
        let updated = updated?;
        waited.map(|()| updated)
    }

    fn updated(before: Option<&Self>, corpus: &Corpus, view: &View, worker: &Worker) -> Result<Self, OpError> {
        let len = before.map_or(0, |previous| previous.len);
        let capacity = before.map_or(0, |previous| previous.rows.capacity);
        let rows = match before {
            Some(previous) if view.len() <= capacity => Arc::clone(&previous.rows),
            Some(previous) => Arc::new(previous.rows.grown(len, view.len().max(capacity + capacity / 2), worker)?),
            None => {
                let dim = corpus.dim();
                let metric = corpus.metric();
                let format = corpus.storage().into();
                Arc::new(DeviceRows::resident(dim, metric, format, view.len(), worker)?)
            }
        };
        for (first, new) in view.chunks() {
            let known = len.saturating_sub(first) * view.dim();
            if known < new.len() {
                rows.upload(&new[known..], first.max(len), worker)?;
            }
        }
        if view.len() > len {
            rows.quantise(len, view.len() - len, worker)?;
        }
        let kept = before.filter(|previous| previous.has_deletions_of(view) && previous.rows.capacity == rows.capacity);
        let deleted = match (kept, view.deleted_bits()) {
            (Some(previous), _) => previous.deleted.clone(),
            (None, None) => None,
            (None, Some(bits)) => {
                let words = rows.capacity / 32;
                let buffer = worker.alloc_zeroed(words)?;
                worker.upload(&bits[..bits.len().min(words)], &buffer, 0)?;
                Some(Arc::new(buffer))
            }
        };
        let device = Arc::downgrade(worker.device());
        Ok(Self { device, rows, len: view.len(), deleted_version: view.deleted_version(), deleted })
    }

    fn bytes(&self) -> u64 {
        self.rows.bytes() + self.deleted.as_ref().map_or(0, |deleted| deleted.size_bytes() as u64)
    }
}
