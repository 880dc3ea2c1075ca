//! One run of a search: upload, launches, one download.

use super::{
    certificate::certified_hits,
    kernels::{
        BLOCK_ROWS, BLOCK_THREADS, BUFFER_BYTES, COMPACT, COMPACT_ROWS, KEYS_PER_THREAD, MAX_STAGES, NO_COUNT, NO_MASK,
        PRUNE, QUANTISE_QUERIES, QUERY_F32, QUERY_I8X2, QUERY_NONE, QUERY_THREADS, QueryMeta, RAISE_THRESHOLD, REFINE,
        RESCORE, SCAN_GEMV, SCAN_MMA, SCAN_WGMMA, SELECT_THREADS, SORT_THREADS, STAGE_ALIGNMENT, ScanMode, ScanShape,
        SearchParams, SearchStatus, TOP_K, WGMMA_THREADS, mma_shared_bytes, wgmma_stage_bytes,
    },
    plan::{DeviceCaps, QuerySpec, ScanFormat, SearchPlan, SearchProblem, SortRounds, TileConfig, Workspace},
    rows::{DeviceRows, k_tiles, metric_code, to_u32},
    trace::stage,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, DevicePtr, Grid, Worker},
    ops::similarity::{metric::Metric, request::Hit},
};

/// Threads of a block that selects few keys.
const FEW_THREADS: u32 = 256;

/// The rows to search, and the worker that searches them.
#[derive(Clone, Copy)]
pub(super) struct SearchContext<'a> {
    pub(super) worker: &'a Worker,
    pub(super) caps: DeviceCaps,
    pub(super) rows: &'a DeviceRows,
    /// The number of rows to search.
    pub(super) len: usize,
    pub(super) deleted: Option<&'a Buffer<u32>>,
}

/// Rows to score by brute force: `count` of a list in device memory, or of all rows without a list.
#[derive(Clone, Copy)]
pub(super) struct RowList<'a> {
    pub(super) list: Option<&'a Buffer<u32>>,
    pub(super) count: usize,
}

/// One execution of a plan for some queries.
struct Run<'a> {
    context: SearchContext<'a>,
    problem: SearchProblem,
    plan: SearchPlan,
    listed: RowList<'a>,
    layout: Workspace,
    memory: Buffer<u32>,
    /// True if any query has a mask.
    masked: bool,
}

/// Executes a plan; `None` for queries whose candidates overflowed or whose certificate failed.
pub(super) fn run(
    context: SearchContext<'_>,
    specs: &[QuerySpec<'_>],
    plan: SearchPlan,
    listed: RowList<'_>,
) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
    let masks = distinct_masks(specs);
    let k = specs.iter().map(|spec| spec.k).max().unwrap_or(1);
    let DeviceRows { dim, format, .. } = *context.rows;
    let problem = SearchProblem { rows: context.len, dim, queries: specs.len(), k, format };
    let layout = Workspace::new(&problem, plan, masks.len(), listed.count);
    let memory = context.worker.alloc(layout.end / 4)?;
    let run = Run { context, problem, plan, listed, layout, memory, masked: !masks.is_empty() };
    let on = context.worker;
    stage("upload", on, || run.upload(specs, &masks))?;
    stage("quantise", on, || run.quantise_queries())?;
    match plan {
        SearchPlan::BruteForce => {}
        SearchPlan::Gemv { width, fused: true } => {
            stage("scan", on, || run.scan_gemv(width))?;
            stage("refine", on, || run.refine())?;
            return stage("download", on, || run.hits(specs));
        }
        SearchPlan::Gemv { width, fused: false } => {
            stage("scan", on, || run.scan_gemv(width))?;
            stage("threshold", on, || run.raise_threshold())?;
            stage("compact", on, || run.compact())?;
        }
        SearchPlan::Materialised(tiling) => {
            stage("scan", on, || run.scan_tiles(tiling, ScanMode::Store, 1))?;
            stage("threshold", on, || run.raise_threshold())?;
            stage("compact", on, || run.compact())?;
        }
        SearchPlan::Sampled(tiling, tile_stride) => {
            stage("sample", on, || run.scan_tiles(tiling, ScanMode::Sample, tile_stride))?;
            stage("threshold", on, || run.raise_threshold())?;
            stage("filter", on, || run.scan_tiles(tiling, ScanMode::Filter, 1))?;
        }
    }
    if plan != SearchPlan::BruteForce {
        stage("prune", on, || run.prune())?;
    }
    stage("rescore", on, || run.rescore())?;
    stage("top-k", on, || run.top_k())?;
    stage("download", on, || run.hits(specs))
}

/// The distinct masks of the queries.
pub(super) fn distinct_masks<'a>(specs: &[QuerySpec<'a>]) -> Vec<&'a [u32]> {
    let mut masks: Vec<&[u32]> = vec![];
    for mask in specs.iter().filter_map(|spec| spec.mask) {
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

    fn deleted(&self) -> DevicePtr<u32> {
        self.context.deleted.map_or(DevicePtr::NULL, Buffer::ptr)
    }

    /// The masks, or null if no query has one.
    fn masks(&self) -> DevicePtr<u32> {
        if self.masked { self.at(self.layout.masks) } else { DevicePtr::NULL }
    }

    fn metric(&self) -> u32 {
        metric_code(self.context.rows.metric)
    }

    fn queries(&self) -> Result<u32, OpError> {
        to_u32(self.problem.queries)
    }

    /// Uploads parameters, queries and masks in one copy.
    fn upload(&self, specs: &[QuerySpec<'_>], masks: &[&[u32]]) -> Result<(), OpError> {
        let params = specs
            .iter()
            .map(|spec| {
                let slot = spec.mask.and_then(|mask| masks.iter().position(|known| same(known, mask)));
                Ok(SearchParams {
                    k: to_u32(spec.k)?,
                    mask: slot.map_or(Ok(NO_MASK), to_u32)?,
                    threshold: spec.threshold.unwrap_or(0.0),
                    has_threshold: spec.threshold.is_some().into(),
                })
            })
            .collect::<Result<Vec<_>, OpError>>()?;
        let sizes = &self.layout.sizes;
        let zeros = vec![0_u32; sizes.mask_words.max(4)];
        let mut parts: Vec<&[u32]> = vec![bytemuck::cast_slice(&params)];
        for together in specs.chunk_by(|one, next| std::ptr::eq(one.queries, next.queries) && one.at + 1 == next.at) {
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
        self.context.worker.upload_parts(parts.into_iter(), &self.memory, self.layout.params / 4).map(drop)
    }

    /// Quantises the queries for the scan.
    fn quantise_queries(&self) -> Result<(), OpError> {
        let Workspace { sizes, .. } = &self.layout;
        let format = self.problem.format;
        let tile = match format {
            ScanFormat::F32 | ScanFormat::Bf16 => ScanFormat::Bf16,
            ScanFormat::F16 | ScanFormat::I8 => format,
        };
        let (copy, rows_are_exact) = match self.plan {
            SearchPlan::BruteForce => (QUERY_NONE, false),
            SearchPlan::Gemv { .. } if format == ScanFormat::I8 => (QUERY_I8X2, false),
            SearchPlan::Gemv { .. } => (QUERY_F32, format == ScanFormat::F32),
            SearchPlan::Materialised(_) | SearchPlan::Sampled(..) => (tile as u32, false),
        };
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.at::<u8>(self.layout.copies))
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .ptr(self.at::<SearchStatus>(self.layout.statuses))
            .ptr(self.at::<u32>(self.layout.candidate_counts))
            .u32(self.queries()?)
            .u32(to_u32(sizes.pitch)?)
            .u32(to_u32(sizes.columns)?)
            .u32(to_u32(k_tiles(self.problem.dim, format))?)
            .u32(to_u32(self.plan.query_tile())?)
            .u32(copy)
            .u32(self.metric())
            .u32(rows_are_exact.into());
        self.context.worker.launch(&QUANTISE_QUERIES, Grid::x(to_u32(sizes.padded)?), QUERY_THREADS, 0, &mut args)
    }

    fn scan_gemv(&self, width: usize) -> Result<(), OpError> {
        let Workspace { sizes, .. } = &self.layout;
        let format = self.problem.format;
        let resident = self.context.caps.sm_count as usize * if width < 4 { 2 } else { 1 };
        let blocks = self.problem.rows.div_ceil(32 * BLOCK_ROWS).min(resident);
        let shared = width * sizes.columns * format.gemv_bytes();
        let kernel = &SCAN_GEMV[format as usize][width.ilog2() as usize];
        for first in (0..self.problem.queries).step_by(width) {
            let mut args = Args::new()
                .ptr(self.context.rows.scanned())
                .ptr(self.at::<u8>(self.layout.copies))
                .ptr(self.context.rows.meta.ptr())
                .ptr(self.at::<QueryMeta>(self.layout.query_meta))
                .ptr(self.at::<SearchParams>(self.layout.params))
                .ptr(self.deleted())
                .ptr(self.masks())
                .ptr(self.at::<f32>(self.layout.upper_bounds))
                .ptr(self.at::<f32>(self.layout.lower_bounds))
                .ptr(self.at::<f32>(self.layout.group_upper_bounds))
                .u32(to_u32(first)?)
                .u32(to_u32(width.min(self.problem.queries - first))?)
                .u32(to_u32(self.problem.rows)?)
                .u32(to_u32(sizes.columns / format.gemv_columns())?)
                .u32(to_u32(sizes.pitch)?)
                .u32(to_u32(sizes.columns)?)
                .u32(to_u32(sizes.mask_words)?);
            let grid = Grid::x(to_u32(blocks)?);
            self.context.worker.launch(kernel, grid, BLOCK_THREADS, to_u32(shared)?, &mut args)?;
        }
        Ok(())
    }

    fn scan_tiles(&self, tiling: TileConfig, mode: ScanMode, tile_stride: usize) -> Result<(), OpError> {
        let DeviceRows { metric, format, .. } = *self.context.rows;
        let sizes = &self.layout.sizes;
        let row_tiles = self.problem.rows.div_ceil(tiling.rows()).div_ceil(tile_stride);
        let query_tiles = sizes.padded / tiling.queries;
        let unscaled = match format {
            ScanFormat::Bf16 => metric != Metric::SquaredL2,
            ScanFormat::F32 => metric == Metric::Dot,
            ScanFormat::F16 | ScanFormat::I8 => false,
        };
        let shape = ScanShape {
            rows: to_u32(self.problem.rows)?,
            queries: self.queries()?,
            query_tiles: to_u32(query_tiles)?,
            row_tiles: to_u32(row_tiles)?,
            tile_stride: to_u32(tile_stride)?,
            k_tiles: to_u32(k_tiles(self.problem.dim, format))?,
            pitch: to_u32(sizes.pitch)?,
            row_groups: to_u32(sizes.groups)?,
            stride: to_u32(sizes.stride)?,
            capacity: to_u32(sizes.capacity)?,
            mask_words: to_u32(sizes.mask_words)?,
            mode: mode as u32,
            unscaled: unscaled.into(),
        };
        let args = Args::new()
            .ptr(self.context.rows.scanned())
            .ptr(self.at::<u8>(self.layout.copies))
            .ptr(self.context.rows.meta.ptr())
            .ptr(self.context.rows.tile_max.ptr())
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.deleted())
            .ptr(self.masks())
            .ptr(self.at::<f32>(self.layout.upper_bounds))
            .ptr(self.at::<f32>(self.layout.lower_bounds))
            .ptr(self.at::<u32>(self.layout.candidate_counts))
            .ptr(self.at::<u64>(self.layout.candidates))
            .value(shape);
        let tiles = row_tiles * query_tiles;
        let Launch { kernel, blocks, threads, shared, stages } =
            Launch::of(tiling, query_tiles, format, &self.context.caps);
        let mut args = if tiling.wgmma { args.u32(to_u32(stages)?) } else { args };
        let grid = Grid::x(to_u32(tiles.min(blocks))?);
        self.context.worker.launch(kernel, grid, threads, to_u32(shared)?, &mut args)
    }

    fn raise_threshold(&self) -> Result<(), OpError> {
        let groups = self.layout.sizes.groups;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.lower_bounds))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.at::<SearchStatus>(self.layout.statuses))
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .u32(to_u32(groups)?)
            .u32(self.metric());
        let threads = if groups <= FEW_THREADS as usize * KEYS_PER_THREAD { FEW_THREADS } else { SELECT_THREADS };
        self.context.worker.launch(&RAISE_THRESHOLD, Grid::x(self.queries()?), threads, 0, &mut args)
    }

    fn compact(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.upper_bounds))
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .ptr(self.at::<u32>(self.layout.candidate_counts))
            .ptr(self.at::<u64>(self.layout.candidates))
            .u32(to_u32(sizes.stride)?)
            .u32(to_u32(sizes.capacity)?);
        let grid = Grid::xy(to_u32(sizes.stride.div_ceil(COMPACT_ROWS))?, self.queries()?);
        self.context.worker.launch(&COMPACT, grid, BLOCK_THREADS, 0, &mut args)
    }

    fn prune(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<u64>(self.layout.candidates))
            .ptr(self.at::<u32>(self.layout.candidate_counts))
            .ptr(self.context.rows.meta.ptr())
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.at::<SearchStatus>(self.layout.statuses))
            .ptr(self.at::<u32>(self.layout.survivors))
            .u32(to_u32(sizes.capacity)?)
            .u32(to_u32(sizes.survivors)?)
            .u32(self.metric());
        let threads = if self.problem.k <= 256 { FEW_THREADS } else { SELECT_THREADS };
        self.context.worker.launch(&PRUNE, Grid::x(self.queries()?), threads, 0, &mut args)
    }

    /// Scores the pruned candidates, or all listed rows, in f64.
    fn rescore(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let direct = self.plan == SearchPlan::BruteForce;
        let listed = match self.listed.list {
            Some(list) if direct => list.ptr(),
            None if direct => DevicePtr::NULL,
            _ => self.at(self.layout.survivors),
        };
        let checked = direct && (self.masked || self.context.deleted.is_some());
        let mut args = Args::new()
            .ptr(self.context.rows.originals.ptr())
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.at::<SearchStatus>(self.layout.statuses))
            .ptr(self.deleted())
            .ptr(self.masks())
            .ptr(listed)
            .ptr(self.at::<u64>(self.layout.keys))
            .u64(if direct { 0 } else { sizes.survivors as u64 })
            .u64(sizes.survivors as u64)
            .u32(to_u32(self.problem.rows)?)
            .u32(to_u32(sizes.pitch)?)
            .u32(if direct { to_u32(self.listed.count)? } else { NO_COUNT })
            .u32(to_u32(sizes.mask_words)?)
            .u32(checked.into())
            .u32(self.metric());
        let maximum = (self.context.caps.sm_count as usize * 16).div_ceil(self.problem.queries).max(4);
        let wanted = if direct { self.listed.count.div_ceil(BLOCK_ROWS) } else { self.problem.k };
        let grid = Grid::xy(to_u32(wanted.clamp(1, maximum))?, self.queries()?);
        self.context.worker.launch(&RESCORE, grid, BLOCK_THREADS, 0, &mut args)
    }

    fn top_k(&self) -> Result<(), OpError> {
        let Workspace { sizes, .. } = &self.layout;
        let k = self.problem.k;
        let rounds = SortRounds::new(sizes.survivors, k);
        let count = if self.plan == SearchPlan::BruteForce { to_u32(self.listed.count)? } else { NO_COUNT };
        let mut keys = self.layout.keys;
        let mut stride = sizes.survivors;
        for (round, chunks) in rounds.chunks.iter().enumerate() {
            let last = round + 1 == rounds.chunks.len();
            let best = if last { self.layout.best } else { self.layout.rounds[round % 2] };
            let mut args = Args::new()
                .ptr(self.at::<u64>(keys))
                .ptr(self.at::<SearchStatus>(self.layout.statuses))
                .ptr(self.at::<u64>(self.layout.work))
                .ptr(self.at::<u64>(best))
                .u64(stride as u64)
                .u64((chunks * k) as u64)
                .u32(count)
                .u32(to_u32(rounds.chunk)?)
                .u32(to_u32(k)?)
                .u32(to_u32(round)?);
            let grid = Grid::xy(to_u32(*chunks)?, self.queries()?);
            self.context.worker.launch(&TOP_K, grid, SORT_THREADS, 0, &mut args)?;
            (keys, stride) = (best, chunks * k);
        }
        Ok(())
    }

    fn refine(&self) -> Result<(), OpError> {
        let sizes = &self.layout.sizes;
        let mut args = Args::new()
            .ptr(self.at::<f32>(self.layout.lower_bounds))
            .ptr(self.at::<f32>(self.layout.group_upper_bounds))
            .ptr(self.at::<f32>(self.layout.upper_bounds))
            .ptr(self.context.rows.originals.ptr())
            .ptr(self.context.rows.meta.ptr())
            .ptr(self.at::<f32>(self.layout.queries))
            .ptr(self.at::<QueryMeta>(self.layout.query_meta))
            .ptr(self.at::<SearchParams>(self.layout.params))
            .ptr(self.at::<SearchStatus>(self.layout.statuses))
            .ptr(self.at::<u64>(self.layout.best))
            .u32(to_u32(sizes.groups)?)
            .u32(to_u32(sizes.pitch)?)
            .u32(to_u32(self.problem.k)?)
            .u32(self.metric());
        self.context.worker.launch(&REFINE, Grid::x(self.queries()?), SELECT_THREADS, 0, &mut args)
    }

    fn hits(&self, specs: &[QuerySpec<'_>]) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
        let Workspace { statuses, best, .. } = self.layout;
        let queries = self.problem.queries;
        let k = self.problem.k;
        let words = self.context.worker.download(&self.memory, statuses / 4..best / 4 + 2 * k * queries)?;
        let (about, keys) = words.split_at((best - statuses) / 4);
        let metric = self.context.rows.metric;
        let result = |((spec, about), keys): ((&QuerySpec<'_>, &[u32]), &[u32])| {
            certified_hits(spec, bytemuck::pod_read_unaligned(bytemuck::cast_slice(about)), keys, self.plan, metric)
        };
        let status_words = size_of::<SearchStatus>() / 4;
        Ok(specs.iter().zip(about.chunks_exact(status_words)).zip(keys.chunks_exact(2 * k)).map(result).collect())
    }
}

/// The launch configuration of a tiled scan.
struct Launch {
    kernel: &'static crate::cuda::Kernel,
    blocks: usize,
    threads: u32,
    shared: usize,
    /// Stages of scans by `wgmma`, whose kernels take them as an argument.
    stages: usize,
}

impl Launch {
    fn of(tiling: TileConfig, query_tiles: usize, format: ScanFormat, caps: &DeviceCaps) -> Self {
        let size = usize::from(tiling.queries != 16);
        let sm_count = caps.sm_count as usize;
        if !tiling.wgmma {
            let shared = mma_shared_bytes(tiling.queries);
            let blocks = sm_count * if tiling.queries == 16 { 2 } else { 1 };
            let kernel = &SCAN_MMA[format as usize][size];
            return Self { kernel, blocks, threads: BLOCK_THREADS, shared, stages: 0 };
        }
        let stage = wgmma_stage_bytes(tiling.queries);
        let stages =
            (caps.shared_bytes.saturating_sub(STAGE_ALIGNMENT + BUFFER_BYTES) / stage).clamp(2, MAX_STAGES.min(8));
        let paired = size == 1 && query_tiles.is_multiple_of(2);
        let kernel = &SCAN_WGMMA[format as usize - 1][size + usize::from(paired)];
        let blocks = if paired { (sm_count / 2 * 2).max(2) } else { sm_count };
        Self { kernel, blocks, threads: WGMMA_THREADS, shared: STAGE_ALIGNMENT + stages * stage, stages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_uploaded_once() {
        let one = [1_u32];
        let other = [1_u32];
        let spec = |mask| QuerySpec { queries: &[], at: 0, k: 1, threshold: None, mask };
        let specs = [spec(Some(&one[..])), spec(None), spec(Some(&other[..])), spec(Some(&one[..]))];
        assert_eq!(distinct_masks(&specs).len(), 2);
    }

    #[test]
    fn tile_kernels_stay_within_shared_memory() {
        for (bytes, wgmma) in [(232_448, true), (101_376, false), (166_912, false)] {
            let caps = DeviceCaps { sm_count: 100, shared_bytes: bytes, mma: true, wgmma };
            for queries in [16, 128] {
                let launch = Launch::of(TileConfig { queries, wgmma }, 1, ScanFormat::Bf16, &caps);
                assert!(
                    launch.shared + if wgmma { BUFFER_BYTES } else { 512 } <= bytes,
                    "{} of {bytes}",
                    launch.shared
                );
                assert!(!wgmma || (4..=MAX_STAGES).contains(&launch.stages));
            }
        }
    }
}
