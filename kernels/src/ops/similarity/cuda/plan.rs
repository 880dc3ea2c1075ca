//! How a search is computed: pure decisions, made from sizes alone.

use super::kernels::{QUERY_BYTES, SORTED, TILE_ROWS};
use crate::ops::similarity::Storage;

/// Pairs of query and row up to which all are scored exactly at once: fewer launches than a scan.
const FEW_PAIRS: usize = 1 << 14;
/// Rows from which a sample pays, and the largest k for which it does.
const SAMPLED_ROWS: usize = 1 << 16;
const SAMPLED_K: usize = 1024;
/// Sums of int8 products stay within i32 up to this many columns.
const MOST_I8_COLUMNS: usize = 1 << 17;
/// Queries up to which rows are read by the vector kernels.
const VECTOR_QUERIES: usize = 4;
/// The largest k whose few candidates one block scores and sorts.
const FINISHED_K: usize = 32;
/// Queries of a launch at most: they stand along a grid's y.
const MOST_QUERIES: usize = 1 << 14;

/// Format of a scan copy; the numbers are the kernels'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32 = 0,
    F16 = 1,
    Bf16 = 2,
    I8 = 3,
}

impl From<Storage> for Format {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::F32 => Self::F32,
            Storage::F16 => Self::F16,
            Storage::Bf16 => Self::Bf16,
            Storage::I8 => Self::I8,
        }
    }
}

impl Format {
    /// Columns in 128 bytes of a row's tile. f32 rows become bfloat16 where tiles are multiplied.
    pub(super) fn tile_columns(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 64,
            Self::I8 => 128,
        }
    }

    /// Columns that a vector kernel takes in a step.
    pub(super) fn vector_columns(self) -> usize {
        match self {
            Self::F32 | Self::I8 => 128,
            Self::F16 | Self::Bf16 => 64,
        }
    }

    /// Bytes of a column of a query's copy for a vector kernel.
    pub(super) fn vector_bytes(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 4,
            Self::I8 => 2,
        }
    }

    /// Bytes of a column of a query's copy in a tile.
    pub(super) fn tile_bytes(self) -> usize {
        128 / self.tile_columns()
    }
}

/// What the device can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Multiprocessors.
    pub(super) units: u32,
    /// Shared memory of a block.
    pub(super) shared_bytes: usize,
    /// Whether there is `mma.sync` of bfloat16, and `cp.async`.
    pub(super) tensor: bool,
    /// Whether there are warpgroup products.
    pub(super) groups: bool,
}

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
    /// The largest k.
    pub(super) k: usize,
    pub(super) format: Format,
}

/// How it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Every row that counts is scored exactly.
    Direct,
    /// Bounds of all rows are written, by the vector kernels, `width` queries at a time; one launch does the rest where
    /// `finish`.
    Vector { width: usize, finish: bool },
    /// Bounds of all rows are written, by tiles.
    Stored(Tiling),
    /// A sample gives floors, every `apart`-th tile of rows; what reaches them is kept.
    Filtered(Tiling, usize),
}

/// Which tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Queries of a tile: 16 or 128.
    pub(super) queries: usize,
    /// By warpgroups.
    pub(super) groups: bool,
}

impl Tiling {
    /// Rows of a tile.
    pub(super) fn rows(self) -> usize {
        if self.groups { 2 * TILE_ROWS } else { TILE_ROWS }
    }
}

impl Problem {
    /// The fastest way. Where it does not come to an end, [`Way::after`] says what does.
    pub(super) fn way(&self, machine: &Machine) -> Way {
        if self.rows.saturating_mul(self.queries) <= FEW_PAIRS {
            return Way::Direct;
        }
        if self.format == Format::I8 && self.dim > MOST_I8_COLUMNS {
            return Way::Direct;
        }
        if self.queries <= VECTOR_QUERIES || !machine.tensor {
            return self.vector(machine);
        }
        let groups = machine.groups && self.format != Format::F32;
        let tiling = Tiling { queries: if self.queries <= 16 { 16 } else { 128 }, groups };
        if self.rows < SAMPLED_ROWS || self.k > SAMPLED_K {
            return Way::Stored(tiling);
        }
        // So many rows that candidates are few, yet a small part of all. Bounds of int8 copies let more rows through.
        let part = if self.format == Format::I8 { 16 } else { 32 };
        let sample = (self.rows / part).max((self.rows / 4).min(256 * self.k));
        Way::Filtered(tiling, self.rows / sample)
    }

    fn vector(&self, machine: &Machine) -> Way {
        let bytes = self.dim.next_multiple_of(self.format.vector_columns()) * self.format.vector_bytes();
        let most = machine.shared_bytes.saturating_sub(1024) / bytes;
        let wanted = self.queries.next_power_of_two().min(VECTOR_QUERIES);
        [4, 2, 1]
            .into_iter()
            .find(|width| *width <= most.min(wanted))
            .map_or(Way::Direct, |width| Way::Vector { width, finish: self.k <= FINISHED_K })
    }

    /// Columns of a query's copy.
    pub(super) fn columns(&self, way: Way) -> usize {
        match way {
            Way::Direct => 0,
            Way::Vector { .. } => self.dim.next_multiple_of(self.format.vector_columns()),
            Way::Stored(_) | Way::Filtered(..) => self.dim.next_multiple_of(self.format.tile_columns()),
        }
    }
}

impl Way {
    /// What to try where candidates had no room, or where a certificate failed. Direct always comes to an end.
    pub(super) fn after(self) -> Self {
        match self {
            Self::Filtered(tiling, _) => Self::Stored(tiling),
            Self::Vector { width, finish: true } => Self::Vector { width, finish: false },
            Self::Direct | Self::Vector { .. } | Self::Stored(_) => Self::Direct,
        }
    }

    /// Queries are copied in multiples of this.
    pub(super) fn query_step(self) -> usize {
        match self {
            Self::Direct => 1,
            Self::Vector { width, .. } => width,
            Self::Stored(tiling) | Self::Filtered(tiling, _) => tiling.queries,
        }
    }
}

/// How the keys of a query are sorted: pieces of so many keys, of which the best k are kept, round after round until one
/// piece is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rounds {
    pub(super) piece: usize,
    /// Pieces of each round; the last is 1.
    pub(super) pieces: Vec<usize>,
}

impl Rounds {
    /// For at most `keys` keys, of which `k` are wanted.
    pub(super) fn new(keys: usize, k: usize) -> Self {
        let piece = if k <= SORTED / 4 { SORTED } else { 8 * SORTED };
        let mut pieces = vec![keys.div_ceil(piece).max(1)];
        while let Some(&last) = pieces.last().filter(|last| **last > 1) {
            pieces.push((last * k).div_ceil(piece));
        }
        Self { piece, pieces }
    }
}

/// Where everything lies in the one buffer of a run: byte offsets, each aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Wishes, queries and masks, uploaded together.
    pub(super) wishes: usize,
    pub(super) queries: usize,
    pub(super) masks: usize,
    pub(super) copies: usize,
    pub(super) known: usize,
    pub(super) found: usize,
    pub(super) uppers: usize,
    pub(super) lows: usize,
    pub(super) highs: usize,
    pub(super) candidates: usize,
    pub(super) kept: usize,
    pub(super) keys: usize,
    pub(super) work: usize,
    pub(super) rounds: [usize; 2],
    /// The best keys, then the statuses: downloaded together.
    pub(super) best: usize,
    pub(super) statuses: usize,
    pub(super) end: usize,
    pub(super) sizes: Sizes,
}

/// Sizes that kernels are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Columns of an original, and of a query.
    pub(super) pitch: usize,
    /// Queries with those that fill the last tile.
    pub(super) padded: usize,
    /// Columns of a query's copy.
    pub(super) columns: usize,
    /// Words of a mask.
    pub(super) mask_words: usize,
    /// Bounds of a query.
    pub(super) stride: usize,
    /// Groups of rows that a floor is made from.
    pub(super) groups: usize,
    /// Room for candidates.
    pub(super) room: usize,
    /// Room for those that are left of them, or all rows for [`Way::Direct`].
    pub(super) kept: usize,
}

impl Sizes {
    fn new(problem: &Problem, way: Way, listed: usize) -> Self {
        let Problem { rows, k, queries, .. } = *problem;
        let units = rows.div_ceil(32);
        let tiles = |tiling: Tiling, apart: usize| rows.div_ceil(tiling.rows()).div_ceil(apart) * tiling.rows() / 16;
        let (stride, groups, room) = match way {
            Way::Direct => (0, 0, 0),
            Way::Vector { .. } => (units * 32, units, rows.min((64 * k).max(1 << 16))),
            Way::Stored(tiling) => (units * 32, tiles(tiling, 1), rows.min((64 * k).max(1 << 16))),
            Way::Filtered(tiling, apart) => (0, tiles(tiling, apart), (16 * k * apart).max(1 << 15)),
        };
        // Bounds of int8 copies leave many rows for each hit.
        let kept = if way == Way::Direct { listed } else { (64 * k).next_power_of_two().clamp(SORTED, 1 << 17) };
        Self {
            pitch: problem.dim.next_multiple_of(4),
            padded: queries.next_multiple_of(way.query_step()),
            columns: problem.columns(way),
            mask_words: units,
            stride,
            groups,
            room,
            kept,
        }
    }
}

/// Hands out places in a buffer.
#[derive(Default)]
struct Places {
    end: usize,
}

impl Places {
    /// Right behind the last place.
    fn behind(&mut self, bytes: usize) -> usize {
        self.end += bytes;
        self.end - bytes
    }

    fn aligned(&mut self, bytes: usize) -> usize {
        self.end = self.end.next_multiple_of(256);
        self.behind(bytes)
    }
}

impl Layout {
    /// For a way of searching with so many distinct masks; `listed` rows are scored by [`Way::Direct`].
    pub(super) fn new(problem: &Problem, way: Way, masks: usize, listed: usize) -> Self {
        let sizes = Sizes::new(problem, way, listed);
        let Problem { queries, k, format, .. } = *problem;
        let column_bytes = match way {
            Way::Vector { .. } | Way::Direct => format.vector_bytes(),
            Way::Stored(_) | Way::Filtered(..) => format.tile_bytes(),
        };
        let rounds = Rounds::new(sizes.kept, k);
        let work = if rounds.piece > SORTED { rounds.pieces[0] * rounds.piece } else { 0 };
        let between = if rounds.pieces.len() > 1 { rounds.pieces[0] * k } else { 0 };
        let listed = if way == Way::Direct { 0 } else { sizes.kept };
        let vector = matches!(way, Way::Vector { .. });
        let mut places = Places::default();
        let layout = Self {
            wishes: places.aligned(16 * queries),
            queries: places.behind(4 * sizes.pitch * queries),
            masks: places.behind(4 * sizes.mask_words * masks),
            statuses: places.aligned(16 * queries),
            best: places.behind(8 * k * queries),
            copies: places.aligned(column_bytes * sizes.columns * sizes.padded),
            known: places.aligned(QUERY_BYTES * sizes.padded),
            found: places.aligned(4 * queries),
            uppers: places.aligned(4 * sizes.stride * queries),
            lows: places.aligned(4 * sizes.groups * queries),
            highs: places.aligned(if vector { 4 * sizes.groups * queries } else { 0 }),
            candidates: places.aligned(8 * sizes.room * queries),
            kept: places.aligned(4 * listed * queries),
            keys: places.aligned(8 * sizes.kept * queries),
            work: places.aligned(8 * work * queries),
            rounds: [places.aligned(8 * between * queries), places.aligned(8 * between * queries)],
            end: 0,
            sizes,
        };
        Self { end: places.aligned(0), ..layout }
    }
}

/// How many of a problem's queries run at once, so that what they need fits `budget` bytes: equal parts, a tile at least.
pub(super) fn queries_at_once(problem: &Problem, way: Way, masks: usize, listed: usize, budget: usize) -> usize {
    let mut parts = problem.queries.div_ceil(MOST_QUERIES);
    loop {
        let queries =
            problem.queries.div_ceil(parts.max(1)).next_multiple_of(way.query_step()).min(problem.queries).max(1);
        let end = Layout::new(&Problem { queries, ..*problem }, way, masks, listed).end;
        if end <= budget || queries <= way.query_step() {
            return queries;
        }
        parts = (parts * 2).max(parts * end / budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Machine = Machine { units: 132, shared_bytes: 232_448, tensor: true, groups: true };
    const T4: Machine = Machine { units: 40, shared_bytes: 65_536, tensor: false, groups: false };

    fn problem(rows: usize, dim: usize, queries: usize, k: usize, format: Format) -> Problem {
        Problem { rows, dim, queries, k, format }
    }

    #[test]
    fn few_pairs_are_scored_at_once_and_large_searches_are_filtered() {
        let way = |rows, queries, k| problem(rows, 768, queries, k, Format::Bf16).way(&H200);
        assert_eq!(way(16_384, 1, 10), Way::Direct);
        assert_eq!(way(1_000_000, 1, 10), Way::Vector { width: 1, finish: true });
        assert_eq!(way(1_000_000, 3, 33), Way::Vector { width: 4, finish: false });
        assert_eq!(way(1_000_000, 16, 10), Way::Filtered(Tiling { queries: 16, groups: true }, 32));
        assert_eq!(way(1_000_000, 17, 10), Way::Filtered(Tiling { queries: 128, groups: true }, 32));
        assert_eq!(way(1_000_000, 17, 1024), Way::Filtered(Tiling { queries: 128, groups: true }, 4));
        assert_eq!(way(1_000_000, 17, 1025), Way::Stored(Tiling { queries: 128, groups: true }));
        assert_eq!(way(65_535, 17, 10), Way::Stored(Tiling { queries: 128, groups: true }));
    }

    #[test]
    fn a_device_without_tensor_cores_or_memory_for_a_query_still_finds_a_way() {
        let way = |dim, format, machine| problem(1_000_000, dim, 100, 10, format).way(machine);
        assert_eq!(way(768, Format::F16, &T4), Way::Vector { width: 4, finish: true });
        assert_eq!(way(8192, Format::F16, &T4), Way::Vector { width: 1, finish: true });
        assert_eq!(way(20_000, Format::F16, &T4), Way::Direct);
        assert_eq!(way(20_000, Format::I8, &T4), Way::Vector { width: 1, finish: true });
        assert_eq!(way(200_000, Format::I8, &H200), Way::Direct);
        assert_eq!(way(768, Format::F32, &H200), Way::Filtered(Tiling { queries: 128, groups: false }, 32));
    }

    #[test]
    fn every_way_ends_in_direct() {
        let tiling = Tiling { queries: 16, groups: true };
        for way in [Way::Direct, Way::Vector { width: 2, finish: true }, Way::Stored(tiling), Way::Filtered(tiling, 16)]
        {
            assert_eq!(way.after().after().after(), Way::Direct);
        }
    }

    #[test]
    fn rounds_end_with_one_piece_and_never_lose_a_key_that_counts() {
        for (keys, k) in [(0, 1), (1, 10), (4096, 1024), (4097, 1024), (1 << 20, 1), (1 << 20, 1024), (1 << 20, 16_384)]
        {
            let rounds = Rounds::new(keys, k);
            assert!(rounds.piece >= 2 * k, "{rounds:?}");
            assert_eq!(rounds.pieces.last(), Some(&1));
            let mut left = keys;
            for pieces in &rounds.pieces {
                assert!(pieces * rounds.piece >= left && *pieces <= left.div_ceil(rounds.piece).max(1));
                left = pieces * k;
            }
        }
        assert_eq!(Rounds::new(4096, 1024).pieces, [1]);
        assert_eq!(Rounds::new(1_000_000, 10).pieces, [245, 1]);
    }

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        for (rows, dim, queries, k) in [(1_000_000, 768, 1024, 10), (100_000, 3, 5, 1024), (70_000, 1, 1, 16_384)] {
            let problem = problem(rows, dim, queries, k, Format::I8);
            let ways = [problem.way(&H200), problem.way(&T4), Way::Direct];
            for way in ways {
                let layout = Layout::new(&problem, way, 2, rows);
                let mut starts = vec![
                    layout.statuses,
                    layout.copies,
                    layout.known,
                    layout.found,
                    layout.uppers,
                    layout.lows,
                    layout.highs,
                    layout.candidates,
                    layout.kept,
                    layout.keys,
                    layout.work,
                    layout.rounds[0],
                    layout.rounds[1],
                ];
                assert!(starts.iter().all(|at| at.is_multiple_of(256)) && starts.is_sorted(), "{layout:?}");
                starts.push(layout.end);
                assert!(
                    layout.queries.is_multiple_of(16)
                        && layout.masks.is_multiple_of(16)
                        && layout.best.is_multiple_of(8)
                );
                assert!(layout.masks + 8 * layout.sizes.mask_words <= layout.statuses);
                assert!(layout.copies - layout.best >= 8 * k * queries);
                assert!(layout.work - layout.keys >= 8 * layout.sizes.kept * queries);
            }
        }
    }

    #[test]
    fn groups_of_a_sample_cover_its_tiles() {
        let tiling = Tiling { queries: 128, groups: true };
        let problem = problem(1_000_001, 768, 100, 10, Format::Bf16);
        let sizes = Layout::new(&problem, Way::Filtered(tiling, 16), 0, 0).sizes;
        assert_eq!(sizes.groups, 245 * 16, "3907 tiles of 256 rows, every sixteenth, 16 groups each");
        let sizes = Layout::new(&problem, Way::Stored(tiling), 0, 0).sizes;
        assert_eq!((sizes.groups, sizes.stride), (3907 * 16, 1_000_032));
    }

    #[test]
    fn queries_are_split_until_they_fit() {
        let problem = problem(1_000_000, 768, 1024, 10, Format::Bf16);
        let stored = Way::Stored(Tiling { queries: 128, groups: true });
        assert_eq!(queries_at_once(&problem, stored, 0, 0, usize::MAX), 1024);
        let at_once = queries_at_once(&problem, stored, 0, 0, 1 << 30);
        assert!(at_once < 1024 && at_once.is_multiple_of(128), "{at_once}");
        assert_eq!(queries_at_once(&problem, stored, 0, 0, 1), 128);
        assert_eq!(queries_at_once(&problem, Way::Direct, 0, 1_000_000, 1), 1);
    }
}
