//! Rows on the device: the originals, the copy that is scanned, and how far a resident corpus has been brought there.

use std::sync::{Arc, Weak};

use super::{
    kernels::{QUANTISE, ROW_BYTES, ROWS_STEP, SPREAD, TILE_BYTES, TILE_ROWS},
    plan::Format,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, Device, DevicePtr, Grid, Worker},
    ops::similarity::{Corpus, Metric, Mirror, View},
};

/// Numbers that are given a pitch at a time.
const SPREAD_NUMBERS: usize = 8 << 20;

/// Rows as kernels read them. Rows are only ever added behind those that searches read.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) dim: usize,
    pub(super) metric: Metric,
    pub(super) format: Format,
    /// Room for so many, a multiple of [`ROWS_STEP`].
    capacity: usize,
    /// f32[capacity, pitch].
    pub(super) originals: Buffer<f32>,
    /// Tiles; none for f32.
    scan: Buffer<u8>,
    /// Scale, shift, error and norm of each row.
    pub(super) about: Buffer<u8>,
    /// Largest error and norm of each 128 rows.
    pub(super) peaks: Buffer<u32>,
}

impl Rows {
    /// Room for rows; `scanned` says whether they will be scanned, or only scored exactly.
    fn new(
        dim: usize,
        metric: Metric,
        format: Format,
        capacity: usize,
        scanned: bool,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let capacity = capacity.next_multiple_of(ROWS_STEP);
        let copied = if scanned { capacity } else { 0 };
        let scan = if format == Format::F32 { 0 } else { copied / TILE_ROWS * TILE_BYTES * steps(dim, format) };
        Ok(Self {
            dim,
            metric,
            format,
            capacity,
            originals: worker.alloc(capacity * pitch(dim))?,
            scan: worker.alloc(scan)?,
            about: worker.alloc(copied * ROW_BYTES)?,
            peaks: worker.alloc_zeroed(copied / TILE_ROWS * 2)?,
        })
    }

    /// Uploads rows as they came, for one search.
    pub(super) fn inline(
        rows: &[f32],
        dim: usize,
        metric: Metric,
        format: Format,
        scanned: bool,
        worker: &Worker,
    ) -> Result<Self, OpError> {
        let count = rows.len() / dim;
        let made = Self::new(dim, metric, format, count, scanned, worker)?;
        made.upload(rows, 0, worker)?;
        if scanned {
            made.copy_for_scan(0, count, worker)?;
        }
        Ok(made)
    }

    /// More room, with the first `len` rows.
    fn grown(&self, len: usize, capacity: usize, worker: &Worker) -> Result<Self, OpError> {
        let more = Self::new(self.dim, self.metric, self.format, capacity, true, worker)?;
        worker.copy(&self.originals, &more.originals, len * pitch(self.dim))?;
        worker.copy(&self.about, &more.about, len * ROW_BYTES)?;
        worker.copy(&self.peaks, &more.peaks, len.div_ceil(TILE_ROWS) * 2)?;
        if !self.scan.is_empty() {
            let bytes = len.div_ceil(TILE_ROWS) * TILE_BYTES * steps(self.dim, self.format);
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
        let at_once = (SPREAD_NUMBERS / self.dim).max(1);
        for (part, rows) in rows.chunks(at_once * self.dim).enumerate() {
            let packed = worker.upload_new(rows)?;
            let count = rows.len() / self.dim;
            let mut args = Args::new()
                .ptr(packed.ptr())
                .ptr(self.originals.ptr_at((first + part * at_once) * pitch))
                .u64(count as u64)
                .u32(small(self.dim)?)
                .u32(small(pitch)?);
            worker.launch(&SPREAD, Grid::x(small((count * pitch).div_ceil(256))?), 256, 0, &mut args)?;
        }
        Ok(())
    }

    /// Makes the scan copy of `count` rows from `first` on.
    fn copy_for_scan(&self, first: usize, count: usize, worker: &Worker) -> Result<(), OpError> {
        let mut args = Args::new()
            .ptr(self.originals.ptr())
            .ptr(self.scan.ptr())
            .ptr(self.about.ptr())
            .ptr(self.peaks.ptr())
            .u32(small(first)?)
            .u32(small(count)?)
            .u32(small(steps(self.dim, self.format))?)
            .u32(small(pitch(self.dim))?)
            .u32(metric_number(self.metric));
        let kernel = &QUANTISE[self.format as usize];
        worker.launch(kernel, Grid::x(small(count.div_ceil(8))?), 256, 0, &mut args)
    }

    /// What scans read: the copy, or the originals.
    pub(super) fn scanned(&self) -> DevicePtr<u8> {
        if self.format == Format::F32 { self.originals.ptr().cast() } else { self.scan.ptr() }
    }

    fn bytes(&self) -> u64 {
        let parts = [self.originals.size_bytes(), self.scan.len(), self.about.len(), self.peaks.size_bytes()];
        parts.iter().sum::<usize>() as u64
    }
}

/// Columns of an original.
pub(super) fn pitch(dim: usize) -> usize {
    dim.next_multiple_of(4)
}

/// Tiles that make a row.
pub(super) fn steps(dim: usize, format: Format) -> usize {
    dim.div_ceil(format.tile_columns())
}

/// The kernels' number of a metric.
pub(super) fn metric_number(metric: Metric) -> u32 {
    match metric {
        Metric::Cosine => 0,
        Metric::Dot => 1,
        Metric::SquaredL2 => 2,
    }
}

/// A number that kernels take as 32 bits.
pub(super) fn small(number: usize) -> Result<u32, OpError> {
    u32::try_from(number).map_err(|_| OpError::Invalid(format!("{number} is more than a search on a GPU can count")))
}

/// What a device has of a corpus. Never changed, only replaced; searches hold the one they read until their stream has
/// been waited for.
#[derive(Debug)]
pub(super) struct Resident {
    device: Weak<Device>,
    pub(super) rows: Arc<Rows>,
    pub(super) len: usize,
    dead_version: u64,
    /// Dead rows, a bit each, for as many rows as there is room; none where all are alive.
    pub(super) dead: Option<Arc<Buffer<u32>>>,
}

impl Resident {
    /// The device's copy of a corpus, brought up to date, and the number of rows it has. Other workers wait meanwhile.
    pub(super) fn current(corpus: &Corpus, worker: &Worker) -> Result<Arc<Self>, OpError> {
        let mut slot = corpus.device_slot();
        let view = corpus.view();
        let before = slot.as_ref().and_then(|mirror| Arc::clone(mirror).downcast::<Self>().ok());
        let before = before.filter(|resident| resident.device.ptr_eq(&Arc::downgrade(worker.device())));
        if let Some(current) = before.as_ref().filter(|one| one.len == view.len() && one.is_dead_as_in(&view)) {
            return Ok(Arc::clone(current));
        }
        let updated = Self::updated(before.as_deref(), corpus, &view, worker);
        // Other streams do not wait for this one; and after a failure, nothing may go while it is still read.
        let waited = worker.synchronize();
        let updated = Arc::new(updated?);
        waited?;
        corpus.set_device_bytes(updated.bytes());
        *slot = Some(Arc::clone(&updated) as Mirror);
        Ok(updated)
    }

    fn is_dead_as_in(&self, view: &View) -> bool {
        self.dead_version == view.dead_version()
    }

    fn updated(before: Option<&Self>, corpus: &Corpus, view: &View, worker: &Worker) -> Result<Self, OpError> {
        let len = before.map_or(0, |one| one.len);
        let room = before.map_or(0, |one| one.rows.capacity);
        let rows = match before {
            Some(one) if view.len() <= room => Arc::clone(&one.rows),
            Some(one) => Arc::new(one.rows.grown(len, view.len().max(room + room / 2), worker)?),
            None => {
                let (dim, metric, format) = (corpus.dim(), corpus.metric(), corpus.storage().into());
                Arc::new(Rows::new(dim, metric, format, view.len(), true, worker)?)
            }
        };
        for (first, new) in view.chunks() {
            let known = len.saturating_sub(first) * view.dim();
            if known < new.len() {
                rows.upload(&new[known..], first.max(len), worker)?;
            }
        }
        if view.len() > len {
            rows.copy_for_scan(len, view.len() - len, worker)?;
        }
        let kept = before.filter(|one| one.is_dead_as_in(view) && one.rows.capacity == rows.capacity);
        let dead = match (kept, view.dead_bits()) {
            (Some(one), _) => one.dead.clone(),
            (None, None) => None,
            (None, Some(bits)) => {
                let words = rows.capacity / 32;
                let buffer = worker.alloc_zeroed(words)?;
                worker.upload(&bits[..bits.len().min(words)], &buffer, 0)?;
                Some(Arc::new(buffer))
            }
        };
        let device = Arc::downgrade(worker.device());
        Ok(Self { device, rows, len: view.len(), dead_version: view.dead_version(), dead })
    }

    fn bytes(&self) -> u64 {
        self.rows.bytes() + self.dead.as_ref().map_or(0, |dead| dead.size_bytes() as u64)
    }
}
