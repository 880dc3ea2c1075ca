//! Query planning: the plan of a search and the layout of its workspace, decided from sizes alone.

use super::kernels::{BF16, F16, F32, I8, QueryMeta, SORTED, SearchParams, SearchStatus, TILE_ROWS};
use crate::ops::similarity::metric::Storage;

/// Up to this many pairs of query and row, brute force takes fewer launches than a scan.
const BRUTE_FORCE_PAIRS: usize = 1 << 14;
/// The fewest rows and the largest k for which a sample pays.
const SAMPLED_ROWS: usize = 1 << 16;
const SAMPLED_K: usize = 1024;
/// The most columns for which sums of int8 products fit an i32.
const MAX_I8_COLUMNS: usize = 1 << 17;
/// The most queries for which the GEMV kernels scan.
const GEMV_QUERIES: usize = 4;
/// The largest k for which one block per query refines the candidates in a fused kernel.
const FUSED_K: usize = 32;
/// The most queries per launch, since they are the y dimension of a grid.
const MAX_QUERIES: usize = 1 << 14;

/// The format of the scanned copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ScanFormat {
    F32 = F32,
    F16 = F16,
    Bf16 = BF16,
    I8 = I8,
}

impl From<Storage> for ScanFormat {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::F32 => Self::F32,
            Storage::F16 => Self::F16,
            Storage::Bf16 => Self::Bf16,
            Storage::I8 => Self::I8,
        }
    }
}

impl ScanFormat {
    /// Columns in the 128 bytes of a tile's row. Tiles of f32 rows are converted to bfloat16.
    pub(super) fn tile_columns(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 64,
            Self::I8 => 128,
        }
    }

    /// Columns that a GEMV kernel takes per step.
    pub(super) fn gemv_columns(self) -> usize {
        match self {
            Self::F32 | Self::I8 => 128,
            Self::F16 | Self::Bf16 => 64,
        }
    }

    /// Bytes per column of a query's copy for a GEMV kernel.
    pub(super) fn gemv_bytes(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 4,
            Self::I8 => 2,
        }
    }

    /// Bytes per column of a query's copy in a tile.
    pub(super) fn tile_bytes(self) -> usize {
        128 / self.tile_columns()
    }
}

/// The capabilities of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceCaps {
    pub(super) sm_count: u32,
    /// Shared memory per block.
    pub(super) shared_bytes: usize,
    /// `mma.sync` of bfloat16, and `cp.async`.
    pub(super) mma: bool,
    /// `wgmma`.
    pub(super) wgmma: bool,
}

/// One query.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuerySpec<'a> {
    /// The matrix of queries, and the index of this one.
    pub(super) queries: &'a [f32],
    pub(super) at: usize,
    pub(super) k: usize,
    pub(super) threshold: Option<f32>,
    /// The selected rows, a bit each; all if `None`.
    pub(super) mask: Option<&'a [u32]>,
}

/// The size of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchProblem {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
    /// The largest k.
    pub(super) k: usize,
    pub(super) format: ScanFormat,
}

/// The plan of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchPlan {
    /// All matching rows are scored in f64.
    BruteForce,
    /// GEMV scans of `width` queries at a time write the bounds of all rows; if `fused`, one kernel does the rest.
    Gemv { width: usize, fused: bool },
    /// A tiled scan writes the bounds of all rows.
    Materialised(TileConfig),
    /// A tiled scan of every n-th tile of rows gives pruning thresholds; a second scan, of all rows, keeps those that
    /// reach them.
    Sampled(TileConfig, usize),
}

/// The tile shape and the instruction of a tiled scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileConfig {
    /// Queries per tile: 16 or 128.
    pub(super) queries: usize,
    /// `wgmma` rather than `mma.sync`.
    pub(super) wgmma: bool,
}

impl TileConfig {
    /// Rows per tile.
    pub(super) fn rows(self) -> usize {
        if self.wgmma { 2 * TILE_ROWS } else { TILE_ROWS }
    }
}

impl SearchProblem {
    /// The fastest plan. It may fail for a query; [`SearchPlan::fallback`] is the next to try.
    pub(super) fn plan(&self, caps: &DeviceCaps) -> SearchPlan {
        if self.rows.saturating_mul(self.queries) <= BRUTE_FORCE_PAIRS {
            return SearchPlan::BruteForce;
        }
        if self.format == ScanFormat::I8 && self.dim > MAX_I8_COLUMNS {
            return SearchPlan::BruteForce;
        }
        if self.queries <= GEMV_QUERIES || !caps.mma {
            return self.gemv(caps);
        }
        let wgmma = caps.wgmma && self.format != ScanFormat::F32;
        let tiling = TileConfig { queries: if self.queries <= 16 { 16 } else { 128 }, wgmma };
        if self.rows < SAMPLED_ROWS || self.k > SAMPLED_K {
            return SearchPlan::Materialised(tiling);
        }
        // Large enough that candidates are few, yet a small part of all rows. The looser bounds of int8 admit more
        // rows.
        let part = if self.format == ScanFormat::I8 { 16 } else { 32 };
        let sample = (self.rows / part).max((self.rows / 4).min(256 * self.k));
        SearchPlan::Sampled(tiling, self.rows / sample)
    }

    fn gemv(&self, caps: &DeviceCaps) -> SearchPlan {
        let bytes = self.dim.next_multiple_of(self.format.gemv_columns()) * self.format.gemv_bytes();
        let limit = caps.shared_bytes.saturating_sub(1024) / bytes;
        let wanted = self.queries.next_power_of_two().min(GEMV_QUERIES);
        [4, 2, 1]
            .into_iter()
            .find(|width| *width <= limit.min(wanted))
            .map_or(SearchPlan::BruteForce, |width| SearchPlan::Gemv { width, fused: self.k <= FUSED_K })
    }

    /// Columns of a query's copy.
    pub(super) fn columns(&self, plan: SearchPlan) -> usize {
        match plan {
            SearchPlan::BruteForce => 0,
            SearchPlan::Gemv { .. } => self.dim.next_multiple_of(self.format.gemv_columns()),
            SearchPlan::Materialised(_) | SearchPlan::Sampled(..) => {
                self.dim.next_multiple_of(self.format.tile_columns())
            }
        }
    }
}

impl SearchPlan {
    /// The plan for queries whose candidates overflowed or whose certificate failed. Brute force never fails.
    pub(super) fn fallback(self) -> Self {
        match self {
            Self::Sampled(tiling, _) => Self::Materialised(tiling),
            Self::Gemv { width, fused: true } => Self::Gemv { width, fused: false },
            Self::BruteForce | Self::Gemv { .. } | Self::Materialised(_) => Self::BruteForce,
        }
    }

    /// Copies of queries are padded to a multiple of this.
    pub(super) fn query_tile(self) -> usize {
        match self {
            Self::BruteForce => 1,
            Self::Gemv { width, .. } => width,
            Self::Materialised(tiling) | Self::Sampled(tiling, _) => tiling.queries,
        }
    }
}

/// The rounds of a query's top-k selection: each sorts chunks of keys and keeps the best k of each, until one chunk is
/// left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortRounds {
    pub(super) chunk: usize,
    /// Chunks of each round; the last is 1.
    pub(super) chunks: Vec<usize>,
}

impl SortRounds {
    /// Rounds for the best `k` of at most `keys` keys.
    pub(super) fn new(keys: usize, k: usize) -> Self {
        let chunk = if k <= SORTED / 4 { SORTED } else { 8 * SORTED };
        let mut chunks = vec![keys.div_ceil(chunk).max(1)];
        while let Some(&last) = chunks.last().filter(|last| **last > 1) {
            chunks.push((last * k).div_ceil(chunk));
        }
        Self { chunk, chunks }
    }
}

/// The layout of a run's buffer in aligned byte offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workspace {
    /// Parameters, queries and masks, uploaded together.
    pub(super) params: usize,
    pub(super) queries: usize,
    pub(super) masks: usize,
    pub(super) copies: usize,
    pub(super) query_meta: usize,
    pub(super) candidate_counts: usize,
    pub(super) upper_bounds: usize,
    pub(super) lower_bounds: usize,
    pub(super) group_upper_bounds: usize,
    pub(super) candidates: usize,
    pub(super) survivors: usize,
    pub(super) keys: usize,
    pub(super) work: usize,
    pub(super) rounds: [usize; 2],
    /// Statuses and the best keys, downloaded together.
    pub(super) best: usize,
    pub(super) statuses: usize,
    pub(super) end: usize,
    pub(super) sizes: Sizes,
}

/// Sizes that the kernels take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Columns of originals and queries, with padding.
    pub(super) pitch: usize,
    /// Queries, with those that pad the last tile.
    pub(super) padded: usize,
    /// Columns of a query's copy.
    pub(super) columns: usize,
    /// Words of a mask.
    pub(super) mask_words: usize,
    /// Upper bounds per query.
    pub(super) stride: usize,
    /// Row groups per query, from whose bounds a threshold is selected.
    pub(super) groups: usize,
    /// Capacity for candidates per query.
    pub(super) capacity: usize,
    /// Capacity for pruned candidates per query, or all rows for [`SearchPlan::BruteForce`].
    pub(super) survivors: usize,
}

impl Sizes {
    fn new(problem: &SearchProblem, plan: SearchPlan, listed: usize) -> Self {
        let SearchProblem { rows, k, queries, .. } = *problem;
        let units = rows.div_ceil(32);
        let tiles = |tiling: TileConfig, tile_stride: usize| {
            rows.div_ceil(tiling.rows()).div_ceil(tile_stride) * tiling.rows() / 16
        };
        let (stride, groups, capacity) = match plan {
            SearchPlan::BruteForce => (0, 0, 0),
            SearchPlan::Gemv { .. } => (units * 32, units, rows.min((64 * k).max(1 << 16))),
            SearchPlan::Materialised(tiling) => (units * 32, tiles(tiling, 1), rows.min((64 * k).max(1 << 16))),
            SearchPlan::Sampled(tiling, tile_stride) => {
                (0, tiles(tiling, tile_stride), (16 * k * tile_stride).max(1 << 15))
            }
        };
        // The loose bounds of int8 leave many rows per hit.
        let kept =
            if plan == SearchPlan::BruteForce { listed } else { (64 * k).next_power_of_two().clamp(SORTED, 1 << 17) };
        Self {
            pitch: problem.dim.next_multiple_of(4),
            padded: queries.next_multiple_of(plan.query_tile()),
            columns: problem.columns(plan),
            mask_words: units,
            stride,
            groups,
            capacity,
            survivors: kept,
        }
    }
}

/// Assigns offsets in a buffer.
#[derive(Default)]
struct Allocator {
    end: usize,
}

impl Allocator {
    /// Directly after the last allocation.
    fn packed(&mut self, bytes: usize) -> usize {
        self.end += bytes;
        self.end - bytes
    }

    fn aligned(&mut self, bytes: usize) -> usize {
        self.end = self.end.next_multiple_of(256);
        self.packed(bytes)
    }
}

impl Workspace {
    /// The layout for a plan with `masks` distinct masks; [`SearchPlan::BruteForce`] scores `listed` rows.
    pub(super) fn new(problem: &SearchProblem, plan: SearchPlan, masks: usize, listed: usize) -> Self {
        let sizes = Sizes::new(problem, plan, listed);
        let SearchProblem { queries, k, format, .. } = *problem;
        let column_bytes = match plan {
            SearchPlan::Gemv { .. } | SearchPlan::BruteForce => format.gemv_bytes(),
            SearchPlan::Materialised(_) | SearchPlan::Sampled(..) => format.tile_bytes(),
        };
        let rounds = SortRounds::new(sizes.survivors, k);
        let work = if rounds.chunk > SORTED { rounds.chunks[0] * rounds.chunk } else { 0 };
        let between = if rounds.chunks.len() > 1 { rounds.chunks[0] * k } else { 0 };
        let listed = if plan == SearchPlan::BruteForce { 0 } else { sizes.survivors };
        let vector = matches!(plan, SearchPlan::Gemv { .. });
        let mut allocator = Allocator::default();
        let layout = Self {
            params: allocator.aligned(size_of::<SearchParams>() * queries),
            queries: allocator.packed(4 * sizes.pitch * queries),
            masks: allocator.packed(4 * sizes.mask_words * masks),
            statuses: allocator.aligned(size_of::<SearchStatus>() * queries),
            best: allocator.packed(8 * k * queries),
            copies: allocator.aligned(column_bytes * sizes.columns * sizes.padded),
            query_meta: allocator.aligned(size_of::<QueryMeta>() * sizes.padded),
            candidate_counts: allocator.aligned(4 * queries),
            upper_bounds: allocator.aligned(4 * sizes.stride * queries),
            lower_bounds: allocator.aligned(4 * sizes.groups * queries),
            group_upper_bounds: allocator.aligned(if vector { 4 * sizes.groups * queries } else { 0 }),
            candidates: allocator.aligned(8 * sizes.capacity * queries),
            survivors: allocator.aligned(4 * listed * queries),
            keys: allocator.aligned(8 * sizes.survivors * queries),
            work: allocator.aligned(8 * work * queries),
            rounds: [allocator.aligned(8 * between * queries), allocator.aligned(8 * between * queries)],
            end: 0,
            sizes,
        };
        Self { end: allocator.aligned(0), ..layout }
    }
}

/// The number of a problem's queries that run at once, such that the workspace fits `budget` bytes: equal parts of at
/// least a tile.
pub(super) fn queries_at_once(
    problem: &SearchProblem,
    plan: SearchPlan,
    masks: usize,
    listed: usize,
    budget: usize,
) -> usize {
    let mut parts = problem.queries.div_ceil(MAX_QUERIES);
    loop {
        let queries =
            problem.queries.div_ceil(parts.max(1)).next_multiple_of(plan.query_tile()).min(problem.queries).max(1);
        let end = Workspace::new(&SearchProblem { queries, ..*problem }, plan, masks, listed).end;
        if end <= budget || queries <= plan.query_tile() {
            return queries;
        }
        parts = (parts * 2).max(parts * end / budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceCaps = DeviceCaps { sm_count: 132, shared_bytes: 232_448, mma: true, wgmma: true };
    const T4: DeviceCaps = DeviceCaps { sm_count: 40, shared_bytes: 65_536, mma: false, wgmma: false };

    fn problem(rows: usize, dim: usize, queries: usize, k: usize, format: ScanFormat) -> SearchProblem {
        SearchProblem { rows, dim, queries, k, format }
    }

    #[test]
    fn few_pairs_are_scored_at_once_and_large_searches_are_filtered() {
        let plan = |rows, queries, k| problem(rows, 768, queries, k, ScanFormat::Bf16).plan(&H200);
        assert_eq!(plan(16_384, 1, 10), SearchPlan::BruteForce);
        assert_eq!(plan(1_000_000, 1, 10), SearchPlan::Gemv { width: 1, fused: true });
        assert_eq!(plan(1_000_000, 3, 33), SearchPlan::Gemv { width: 4, fused: false });
        assert_eq!(plan(1_000_000, 16, 10), SearchPlan::Sampled(TileConfig { queries: 16, wgmma: true }, 32));
        assert_eq!(plan(1_000_000, 17, 10), SearchPlan::Sampled(TileConfig { queries: 128, wgmma: true }, 32));
        assert_eq!(plan(1_000_000, 17, 1024), SearchPlan::Sampled(TileConfig { queries: 128, wgmma: true }, 4));
        assert_eq!(plan(1_000_000, 17, 1025), SearchPlan::Materialised(TileConfig { queries: 128, wgmma: true }));
        assert_eq!(plan(65_535, 17, 10), SearchPlan::Materialised(TileConfig { queries: 128, wgmma: true }));
    }

    #[test]
    fn a_device_without_tensor_cores_or_memory_for_a_query_still_finds_a_way() {
        let plan = |dim, format, caps| problem(1_000_000, dim, 100, 10, format).plan(caps);
        assert_eq!(plan(768, ScanFormat::F16, &T4), SearchPlan::Gemv { width: 4, fused: true });
        assert_eq!(plan(8192, ScanFormat::F16, &T4), SearchPlan::Gemv { width: 1, fused: true });
        assert_eq!(plan(20_000, ScanFormat::F16, &T4), SearchPlan::BruteForce);
        assert_eq!(plan(20_000, ScanFormat::I8, &T4), SearchPlan::Gemv { width: 1, fused: true });
        assert_eq!(plan(200_000, ScanFormat::I8, &H200), SearchPlan::BruteForce);
        assert_eq!(
            plan(768, ScanFormat::F32, &H200),
            SearchPlan::Sampled(TileConfig { queries: 128, wgmma: false }, 32)
        );
    }

    #[test]
    fn every_way_ends_in_direct() {
        let tiling = TileConfig { queries: 16, wgmma: true };
        for plan in [
            SearchPlan::BruteForce,
            SearchPlan::Gemv { width: 2, fused: true },
            SearchPlan::Materialised(tiling),
            SearchPlan::Sampled(tiling, 16),
        ] {
            assert_eq!(plan.fallback().fallback().fallback(), SearchPlan::BruteForce);
        }
    }

    #[test]
    fn rounds_end_with_one_piece_and_never_lose_a_key_that_counts() {
        for (keys, k) in [(0, 1), (1, 10), (4096, 1024), (4097, 1024), (1 << 20, 1), (1 << 20, 1024), (1 << 20, 16_384)]
        {
            let rounds = SortRounds::new(keys, k);
            assert!(rounds.chunk >= 2 * k, "{rounds:?}");
            assert_eq!(rounds.chunks.last(), Some(&1));
            let mut left = keys;
            for chunks in &rounds.chunks {
                assert!(chunks * rounds.chunk >= left && *chunks <= left.div_ceil(rounds.chunk).max(1));
                left = chunks * k;
            }
        }
        assert_eq!(SortRounds::new(4096, 1024).chunks, [1]);
        assert_eq!(SortRounds::new(1_000_000, 10).chunks, [245, 1]);
    }

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        for (rows, dim, queries, k) in [(1_000_000, 768, 1024, 10), (100_000, 3, 5, 1024), (70_000, 1, 1, 16_384)] {
            let problem = problem(rows, dim, queries, k, ScanFormat::I8);
            let plans = [problem.plan(&H200), problem.plan(&T4), SearchPlan::BruteForce];
            for plan in plans {
                let layout = Workspace::new(&problem, plan, 2, rows);
                let mut starts = vec![
                    layout.statuses,
                    layout.copies,
                    layout.query_meta,
                    layout.candidate_counts,
                    layout.upper_bounds,
                    layout.lower_bounds,
                    layout.group_upper_bounds,
                    layout.candidates,
                    layout.survivors,
                    layout.keys,
                    layout.work,
                    layout.rounds[0],
                    layout.rounds[1],
                ];
                assert!(starts.iter().all(|index| index.is_multiple_of(256)) && starts.is_sorted(), "{layout:?}");
                starts.push(layout.end);
                assert!(
                    layout.queries.is_multiple_of(16)
                        && layout.masks.is_multiple_of(16)
                        && layout.best.is_multiple_of(8)
                );
                assert!(layout.masks + 8 * layout.sizes.mask_words <= layout.statuses);
                assert!(layout.copies - layout.best >= 8 * k * queries);
                assert!(layout.work - layout.keys >= 8 * layout.sizes.survivors * queries);
            }
        }
    }

    #[test]
    fn groups_of_a_sample_cover_its_tiles() {
        let tiling = TileConfig { queries: 128, wgmma: true };
        let problem = problem(1_000_001, 768, 100, 10, ScanFormat::Bf16);
        let sizes = Workspace::new(&problem, SearchPlan::Sampled(tiling, 16), 0, 0).sizes;
        assert_eq!(sizes.groups, 245 * 16, "3907 tiles of 256 rows, every sixteenth, 16 groups each");
        let sizes = Workspace::new(&problem, SearchPlan::Materialised(tiling), 0, 0).sizes;
        assert_eq!((sizes.groups, sizes.stride), (3907 * 16, 1_000_032));
    }

    #[test]
    fn queries_are_split_until_they_fit() {
        let problem = problem(1_000_000, 768, 1024, 10, ScanFormat::Bf16);
        let stored = SearchPlan::Materialised(TileConfig { queries: 128, wgmma: true });
        assert_eq!(queries_at_once(&problem, stored, 0, 0, usize::MAX), 1024);
        let at_once = queries_at_once(&problem, stored, 0, 0, 1 << 30);
        assert!(at_once < 1024 && at_once.is_multiple_of(128), "{at_once}");
        assert_eq!(queries_at_once(&problem, stored, 0, 0, 1), 128);
        assert_eq!(queries_at_once(&problem, SearchPlan::BruteForce, 0, 1_000_000, 1), 1);
    }
}
