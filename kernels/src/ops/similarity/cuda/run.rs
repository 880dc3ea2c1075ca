//! One run of a search: upload, launches, one download.

use super::{
    answer::answer,
    kernels::{
        COLLECT, FILTER, FINISH, FLOOR, GROUPED, NARROW, NO_COUNT, NO_MASK, PREPARE, RESCORE, SAMPLE, SORT, STORE,
        Shape, Status, TILED, VECTOR, Wish,
    },
    plan::{Format, Layout, Machine, Problem, Rounds, Tiling, Way},
    rows::{Rows, metric_number, small, steps},
    trace::stage,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, DevicePtr, Grid, Worker},
    ops::similarity::{Hit, Metric},
};

/// Formats of queries' copies that rows do not have.
const VECTOR_COPY: u32 = 4;
const PAIR_COPY: u32 = 5;
const NO_COPY: u32 = 6;
/// Shared memory of the warpgroup kernels besides their stages, at most: barriers, and lists of what may be candidates.
const LISTS_BYTES: usize = 8 << 10;
/// Images that a thread of the selecting kernels holds.
const HELD: usize = 32;

/// What one query asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    /// Rows of queries, and which of them this is.
    pub(super) queries: &'a [f32],
    pub(super) at: usize,
    pub(super) k: usize,
    pub(super) threshold: Option<f32>,
    /// Rows that count, a bit each; all where there is none.
    pub(super) mask: Option<&'a [u32]>,
}

/// What is searched, and with what.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) worker: &'a Worker,
    pub(super) machine: Machine,
    pub(super) rows: &'a Rows,
    /// Rows that are searched.
    pub(super) len: usize,
    pub(super) dead: Option<&'a Buffer<u32>>,
}

/// Rows to score without a scan: so many of a list in device memory, or of all where there is none.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) list: Option<&'a Buffer<u32>>,
    pub(super) count: usize,
}

/// One run: a few queries, one way.
struct Run<'a> {
    place: Place<'a>,
    problem: Problem,
    way: Way,
    listed: Listed<'a>,
    layout: Layout,
    memory: Buffer<u32>,
    /// Whether some query has a mask.
    masked: bool,
}

/// Searches in one way. `None` where that way did not come to an end, or its certificate failed.
pub(super) fn run(
    place: Place<'_>,
    asks: &[Ask<'_>],
    way: Way,
    listed: Listed<'_>,
) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
    let masks = distinct_masks(asks);
    let k = asks.iter().map(|ask| ask.k).max().unwrap_or(1);
    let Rows { dim, format, .. } = *place.rows;
    let problem = Problem { rows: place.len, dim, queries: asks.len(), k, format };
    let layout = Layout::new(&problem, way, masks.len(), listed.count);
    let memory = place.worker.alloc(layout.end / 4)?;
    let run = Run { place, problem, way, listed, layout, memory, masked: !masks.is_empty() };
    let on = place.worker;
    stage("upload", on, || run.upload(asks, &masks))?;
    stage("prepare", on, || run.prepare())?;
    match way {
        Way::Direct => {}
        Way::Vector { width, finish: true } => {
            stage("scan", on, || run.scan_vector(width))?;
            stage("finish", on, || run.finish())?;
            return stage("download", on, || run.answers(asks));
        }
        Way::Vector { width, finish: false } => {
            stage("scan", on, || run.scan_vector(width))?;
            stage("floor", on, || run.raise_floor())?;
            stage("collect", on, || run.collect())?;
        }
        Way::Stored(tiling) => {
            stage("scan", on, || run.scan_tiles(tiling, STORE, 1))?;
            stage("floor", on, || run.raise_floor())?;
            stage("collect", on, || run.collect())?;
        }
        Way::Filtered(tiling, apart) => {
            stage("sample", on, || run.scan_tiles(tiling, SAMPLE, apart))?;
            stage("floor", on, || run.raise_floor())?;
            stage("filter", on, || run.scan_tiles(tiling, FILTER, 1))?;
        }
    }
    if way != Way::Direct {
        stage("narrow", on, || run.narrow())?;
    }
    stage("rescore", on, || run.rescore())?;
    stage("sort", on, || run.sort())?;
    stage("download", on, || run.answers(asks))
}

/// The masks that are asked for, each once.
pub(super) fn distinct_masks<'a>(asks: &[Ask<'a>]) -> Vec<&'a [u32]> {
    let mut masks: Vec<&[u32]> = vec![];
    for mask in asks.iter().filter_map(|ask| ask.mask) {
        if !masks.iter().any(|known| same(known, mask)) {
            masks.push(mask);
        }
    }
    masks
}

fn same(a: &[u32], b: &[u32]) -> bool {
    std::ptr::eq(a, b)
}

impl Run<'_> {
    fn at<T>(&self, offset: usize) -> DevicePtr<T> {
        self.memory.ptr_at(offset / 4).cast()
    }

    fn dead(&self) -> DevicePtr<u32> {
        self.place.dead.map_or(DevicePtr::NULL, Buffer::ptr)
    }

    /// Masks, where a query has one.
    fn masks(&self) -> DevicePtr<u32> {
        if self.masked { self.at(self.layout.masks) } else { DevicePtr::NULL }
    }

    fn metric(&self) -> u32 {
        metric_number(self.place.rows.metric)
    }

    fn queries(&self) -> Result<u32, OpError> {
        small(self.problem.queries)
    }

    /// Wishes, queries and masks, in one copy.
    fn upload(&self, asks: &[Ask<'_>], masks: &[&[u32]]) -> Result<(), OpError> {
        let wishes = asks.iter().map(|ask| {
            let slot = ask.mask.and_then(|mask| masks.iter().position(|known| same(known, mask)));
            Ok(Wish {
                k: small(ask.k)?,
                mask: slot.map_or(Ok(NO_MASK), small)?,
                threshold: ask.threshold.unwrap_or(0.0),
                bounded: ask.threshold.is_some().into(),
            })
        });
        let wishes = wishes.collect::<Result<Vec<_>, OpError>>()?;
        let sizes = &self.layout.sizes;
        let zeros = vec![0_u32; sizes.mask_words.max(4)];
        let mut parts: Vec<&[u32]> = vec![bytemuck::cast_slice(&wishes)];
        for together in asks.chunk_by(|one, next| std::ptr::eq(one.queries, next.queries) && one.at + 1 == next.at) {
            let dim = self.problem.dim;
            let rows = &together[0].queries[together[0].at * dim..][..together.len() * dim];
            if dim == sizes.pitch {
                parts.push(bytemuck::cast_slice(rows));
            } else {
                let padded =
                    rows.chunks_exact(dim).flat_map(|row| [bytemuck::cast_slice(row), &zeros[..sizes.pitch - dim]]);
                parts.extend(padded);
            }
        }
        for mask in masks {
            let some = mask.len().min(sizes.mask_words);
            parts.extend([&mask[..some], &zeros[..sizes.mask_words - some]]);
        }
        self.place.worker.upload_parts(parts.into_iter(), &self.memory, self.layout.wishes / 4).map(drop)
    }

    /// Copies queries as the scan wants them.
    fn prepare(&self) -> Result<(), OpError> {
        let Layout { sizes, .. } = &self.layout;
        let format = self.problem.format;
        let tile = match format {
            Format::F32 | Format::Bf16 => Format::Bf16,
            Format::F16 | Format::I8 => format,
        };
        let (copy, rows_are_exact) = match self.way {
            Way::Direct => (NO_COPY, false),
            Way::Vector { .. } if format == Format::I8 => (PAIR_COPY, false),
            Way::Vector { .. } => (VECTOR_COPY, format == Format::F32),
            Way::Stored(_) | Way::Filtered(..) => (tile as u32, false),
        };
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.at::<u8>(self.layout.copies))
            .ptr(self.at::<u8>(self.layout.known))
            .ptr(self.at::<Status>(self.layout.statuses))
            .ptr(self.at::<u32>(self.layout.found))
            .u32(self.queries()?)
            .u32(small(sizes.pitch)?)
            .u32(small(sizes.columns)?)
            .u32(small(steps(self.problem.dim, format))?)
            .u32(small(self.way.query_step())?)
            .u32(copy)
            .u32(self.metric())
            .u32(rows_are_exact.into());
        self.place.worker.launch(&PREPARE, Grid::x(small(sizes.padded)?), 128, 0, &mut args)
    }

    fn scan_vector(&self, width: usize) -> Result<(), OpError> {
        const WARPS: usize = 8;
        let Layout { sizes, .. } = &self.layout;
        let format = self.problem.format;
        let resident = self.place.machine.units as usize * if width < 4 { 2 } else { 1 };
        let blocks = self.problem.rows.div_ceil(32 * WARPS).min(resident);
        let shared = width * sizes.columns * format.vector_bytes();
        let kernel = &VECTOR[format as usize][width.ilog2() as usize];
        for first in (0..self.problem.queries).step_by(width) {
            let mut args = Args::new()
                .ptr(self.place.rows.scanned())
                .ptr(self.at::<u8>(self.layout.copies))
                .ptr(self.place.rows.about.ptr())
                .ptr(self.at::<u8>(self.layout.known))
                .ptr(self.at::<Wish>(self.layout.wishes))
                .ptr(self.dead())
                .ptr(self.masks())
                .ptr(self.at::<f32>(self.layout.uppers))
                .ptr(self.at::<f32>(self.layout.lows))
                .ptr(self.at::<f32>(self.layout.highs))
                .u32(small(first)?)
                .u32(small(width.min(self.problem.queries - first))?)
                .u32(small(self.problem.rows)?)
                .u32(small(sizes.columns / format.vector_columns())?)
                .u32(small(sizes.pitch)?)
                .u32(small(sizes.columns)?)
                .u32(small(sizes.mask_words)?);
            self.place.worker.launch(kernel, Grid::x(small(blocks)?), 256, small(shared)?, &mut args)?;
        }
        Ok(())
    }

    fn scan_tiles(&self, tiling: Tiling, mode: u32, apart: usize) -> Result<(), OpError> {
        let Rows { metric, format, .. } = *self.place.rows;
        let sizes = &self.layout.sizes;
        let row_tiles = self.problem.rows.div_ceil(tiling.rows()).div_ceil(apart);
        let query_tiles = sizes.padded / tiling.queries;
        let plain = match format {
            Format::Bf16 => metric != Metric::SquaredL2,
            Format::F32 => metric == Metric::Dot,
            Format::F16 | Format::I8 => false,
        };
        let shape = Shape {
            n: small(self.problem.rows)?,
            queries: self.queries()?,
            query_tiles: small(query_tiles)?,
            row_tiles: small(row_tiles)?,
            apart: small(apart)?,
            steps: small(steps(self.problem.dim, format))?,
            pitch: small(sizes.pitch)?,
            groups: small(sizes.groups)?,
            stride: small(sizes.stride)?,
            room: small(sizes.room)?,
            mask_words: small(sizes.mask_words)?,
            mode,
            plain: plain.into(),
        };
        let args = Args::new()
            .ptr(self.place.rows.scanned())
            .ptr(self.at::<u8>(self.layout.copies))
            .ptr(self.place.rows.about.ptr())
            .ptr(self.place.rows.peaks.ptr())
            .ptr(self.at::<u8>(self.layout.known))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.dead())
            .ptr(self.masks())
            .ptr(self.at::<f32>(self.layout.uppers))
            .ptr(self.at::<f32>(self.layout.lows))
            .ptr(self.at::<u32>(self.layout.found))
            .ptr(self.at::<u64>(self.layout.candidates))
            .value(shape);
        let tiles = row_tiles * query_tiles;
        let Launch { kernel, blocks, threads, shared, stages } =
            Launch::of(tiling, query_tiles, format, &self.place.machine);
        let mut args = if tiling.groups { args.u32(small(stages)?) } else { args };
        let grid = Grid::x(small(tiles.min(blocks))?);
        self.place.worker.launch(kernel, grid, threads, small(shared)?, &mut args)
    }

    fn raise_floor(&self) -> Result<(), OpError> {
        let groups = self.layout.sizes.groups;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.lows))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.at::<Status>(self.layout.statuses))
            .ptr(self.at::<u8>(self.layout.known))
            .u32(small(groups)?)
            .u32(self.metric());
        let threads = if groups <= 256 * HELD { 256 } else { 1024 };
        self.place.worker.launch(&FLOOR, Grid::x(self.queries()?), threads, 0, &mut args)
    }

    fn collect(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.uppers))
            .ptr(self.at::<u8>(self.layout.known))
            .ptr(self.at::<u32>(self.layout.found))
            .ptr(self.at::<u64>(self.layout.candidates))
            .u32(small(sizes.stride)?)
            .u32(small(sizes.room)?);
        let grid = Grid::xy(small(sizes.stride.div_ceil(1024))?, self.queries()?);
        self.place.worker.launch(&COLLECT, grid, 256, 0, &mut args)
    }

    fn narrow(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<u64>(self.layout.candidates))
            .ptr(self.at::<u32>(self.layout.found))
            .ptr(self.place.rows.about.ptr())
            .ptr(self.at::<u8>(self.layout.known))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.at::<Status>(self.layout.statuses))
            .ptr(self.at::<u32>(self.layout.kept))
            .u32(small(sizes.room)?)
            .u32(small(sizes.kept)?)
            .u32(self.metric());
        let threads = if self.problem.k <= 256 { 256 } else { 1024 };
        self.place.worker.launch(&NARROW, Grid::x(self.queries()?), threads, 0, &mut args)
    }

    /// Exact scores: of what is left of the candidates, or of all that is listed.
    fn rescore(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let direct = self.way == Way::Direct;
        let listed = match self.listed.list {
            Some(list) if direct => list.ptr(),
            None if direct => DevicePtr::NULL,
            _ => self.at(self.layout.kept),
        };
        let checked = direct && (self.masked || self.place.dead.is_some());
        let mut args = Args::new()
            .ptr(self.place.rows.originals.ptr())
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.at::<Status>(self.layout.statuses))
            .ptr(self.dead())
            .ptr(self.masks())
            .ptr(listed)
            .ptr(self.at::<u64>(self.layout.keys))
            .u64(if direct { 0 } else { sizes.kept as u64 })
            .u64(sizes.kept as u64)
            .u32(small(self.problem.rows)?)
            .u32(small(sizes.pitch)?)
            .u32(if direct { small(self.listed.count)? } else { NO_COUNT })
            .u32(small(sizes.mask_words)?)
            .u32(checked.into())
            .u32(self.metric());
        let most = (self.place.machine.units as usize * 16).div_ceil(self.problem.queries).max(4);
        let wanted = if direct { self.listed.count.div_ceil(8) } else { self.problem.k };
        let grid = Grid::xy(small(wanted.clamp(1, most))?, self.queries()?);
        self.place.worker.launch(&RESCORE, grid, 256, 0, &mut args)
    }

    fn sort(&self) -> Result<(), OpError> {
        let Layout { sizes, .. } = &self.layout;
        let k = self.problem.k;
        let rounds = Rounds::new(sizes.kept, k);
        let count = if self.way == Way::Direct { small(self.listed.count)? } else { NO_COUNT };
        let (mut keys, mut stride) = (self.layout.keys, sizes.kept);
        for (round, pieces) in rounds.pieces.iter().enumerate() {
            let last = round + 1 == rounds.pieces.len();
            let best = if last { self.layout.best } else { self.layout.rounds[round % 2] };
            let mut args = Args::new()
                .ptr(self.at::<u64>(keys))
                .ptr(self.at::<Status>(self.layout.statuses))
                .ptr(self.at::<u64>(self.layout.work))
                .ptr(self.at::<u64>(best))
                .u64(stride as u64)
                .u64((pieces * k) as u64)
                .u32(count)
                .u32(small(rounds.piece)?)
                .u32(small(k)?)
                .u32(small(round)?);
            let grid = Grid::xy(small(*pieces)?, self.queries()?);
            self.place.worker.launch(&SORT, grid, 512, 0, &mut args)?;
            (keys, stride) = (best, pieces * k);
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.lows))
            .ptr(self.at::<f32>(self.layout.highs))
            .ptr(self.at::<f32>(self.layout.uppers))
            .ptr(self.place.rows.originals.ptr())
            .ptr(self.place.rows.about.ptr())
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<u8>(self.layout.known))
            .ptr(self.at::<Wish>(self.layout.wishes))
            .ptr(self.at::<Status>(self.layout.statuses))
            .ptr(self.at::<u64>(self.layout.best))
            .u32(small(sizes.groups)?)
            .u32(small(sizes.pitch)?)
            .u32(small(self.problem.k)?)
            .u32(self.metric());
        self.place.worker.launch(&FINISH, Grid::x(self.queries()?), 1024, 0, &mut args)
    }

    fn answers(&self, asks: &[Ask<'_>]) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
        let Layout { statuses, best, .. } = self.layout;
        let (queries, k) = (self.problem.queries, self.problem.k);
        let words = self.place.worker.download(&self.memory, statuses / 4..best / 4 + 2 * k * queries)?;
        let (about, keys) = words.split_at((best - statuses) / 4);
        let metric = self.place.rows.metric;
        let one = |((ask, about), keys): ((&Ask<'_>, &[u32]), &[u32])| {
            answer(ask, bytemuck::pod_read_unaligned(bytemuck::cast_slice(about)), keys, self.way, metric)
        };
        let status_words = size_of::<Status>() / 4;
        Ok(asks.iter().zip(about.chunks_exact(status_words)).zip(keys.chunks_exact(2 * k)).map(one).collect())
    }
}

/// How a tile kernel is launched.
struct Launch {
    kernel: &'static crate::cuda::Kernel,
    blocks: usize,
    threads: u32,
    shared: usize,
    stages: usize,
}

impl Launch {
    fn of(tiling: Tiling, query_tiles: usize, format: Format, machine: &Machine) -> Self {
        let size = usize::from(tiling.queries != 16);
        let units = machine.units as usize;
        if !tiling.groups {
            let shared = 3 * (16_384 + 128 * tiling.queries);
            let blocks = units * if tiling.queries == 16 { 2 } else { 1 };
            return Self { kernel: &TILED[format as usize][size], blocks, threads: 256, shared, stages: 3 };
        }
        let stage = 32_768 + 128 * tiling.queries;
        let stages = (machine.shared_bytes.saturating_sub(1024 + LISTS_BYTES) / stage).clamp(2, 8);
        let paired = size == 1 && query_tiles.is_multiple_of(2);
        let kernel = &GROUPED[format as usize - 1][size + usize::from(paired)];
        let blocks = if paired { (units / 2 * 2).max(2) } else { units };
        Self { kernel, blocks, threads: 384, shared: 1024 + stages * stage, stages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_uploaded_once() {
        let (one, other) = (vec![1_u32], vec![1_u32]);
        let ask = |mask| Ask { queries: &[], at: 0, k: 1, threshold: None, mask };
        let asks = [ask(Some(&one[..])), ask(None), ask(Some(&other[..])), ask(Some(&one[..]))];
        assert_eq!(distinct_masks(&asks).len(), 2);
    }

    #[test]
    fn tile_kernels_stay_within_shared_memory() {
        for (bytes, groups) in [(232_448, true), (101_376, false), (166_912, false)] {
            let machine = Machine { units: 100, shared_bytes: bytes, tensor: true, groups };
            for queries in [16, 128] {
                let launch = Launch::of(Tiling { queries, groups }, 1, Format::Bf16, &machine);
                assert!(
                    launch.shared + if groups { LISTS_BYTES } else { 512 } <= bytes,
                    "{} of {bytes}",
                    launch.shared
                );
                assert!(!groups || launch.stages >= 4);
            }
        }
    }
}
