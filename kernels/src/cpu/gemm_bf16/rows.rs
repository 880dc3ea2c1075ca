//! The left-hand side of a product, rounded into tiles.

use super::{AmxToken, BLOCK_SIDE, OutputBlock, TILE_DEPTH, TILE_SIDE, Tile, Tiles};

/// The left-hand side of a product: `[count / 16][depth / 32]` tiles with one line per row. Columns past the dimension
/// are zero. Rows past the last have unspecified contents, which only reach output rows that are dropped.
pub(crate) struct Bf16Rows {
    pub(super) tiles: Tiles,
    count: usize,
    dim: usize,
}

impl Bf16Rows {
    /// Rows with unspecified contents, but zeros past the dimension.
    pub(crate) fn new(count: usize, dim: usize) -> Self {
        let mut rows = Self { tiles: Tiles::new(count.div_ceil(TILE_SIDE) * dim.div_ceil(TILE_DEPTH)), count, dim };
        rows.clear_ends();
        rows
    }

    /// Rounds rows of `dim` numbers each.
    pub(crate) fn from_f32(amx: AmxToken, dim: usize, numbers: &[f32]) -> Self {
        let mut rows = Self::new(numbers.len() / dim.max(1), dim);
        let mut all = Bf16RowsMut { depth: rows.depth(), tiles: &mut rows.tiles };
        for (row, numbers) in numbers.chunks_exact(dim.max(1)).enumerate() {
            all.write(amx, row, 0, numbers);
        }
        rows
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn depth(&self) -> usize {
        self.dim.div_ceil(TILE_DEPTH)
    }

    /// At most `limit` rows from `first` on, which is a multiple of 16.
    pub(crate) fn part(&self, first: usize, limit: usize) -> Bf16RowsView<'_> {
        let count = limit.min(self.count - first);
        let tiles = first / TILE_SIDE * self.depth()..(first + count).div_ceil(TILE_SIDE) * self.depth();
        Bf16RowsView { tiles: &self.tiles[tiles], count, dim: self.dim }
    }

    /// All rows for writing, in parts of `rows` rows, a multiple of 16.
    pub(crate) fn parts_mut(&mut self, rows: usize) -> impl Iterator<Item = Bf16RowsMut<'_>> {
        let depth = self.depth();
        self.tiles.chunks_mut((rows / TILE_SIDE * depth).max(1)).map(move |tiles| Bf16RowsMut { tiles, depth })
    }

    fn clear_ends(&mut self) {
        let depth = self.depth();
        let last = self.dim % TILE_DEPTH;
        if last > 0 {
            for tile in self.tiles.iter_mut().skip(depth - 1).step_by(depth) {
                tile.0.chunks_exact_mut(TILE_DEPTH).for_each(|line| line[last..].fill(0));
            }
        }
    }
}

/// A range of rows.
#[derive(Clone, Copy)]
pub(crate) struct Bf16RowsView<'a> {
    pub(super) tiles: &'a [Tile],
    pub(super) count: usize,
    pub(super) dim: usize,
}

/// A range of rows, mutable.
pub(crate) struct Bf16RowsMut<'a> {
    tiles: &'a mut [Tile],
    depth: usize,
}

impl Bf16RowsMut<'_> {
    /// Rounds and writes a block, which must have 32 columns.
    pub(crate) fn write_block(&mut self, amx: AmxToken, block: &OutputBlock<'_>) {
        assert!(
            block.columns.start.is_multiple_of(TILE_DEPTH) && block.columns.len() == BLOCK_SIDE,
            "numbers of whole lines"
        );
        for (first, sums) in block.rows.clone().step_by(TILE_SIDE).zip(block.sums.chunks_exact(TILE_SIDE * BLOCK_SIDE))
        {
            let tile =
                &mut self.tiles[first / TILE_SIDE * self.depth..][..self.depth][block.columns.start / TILE_DEPTH];
            // SAFETY: a tile has 16 contiguous lines of 32 numbers.
            unsafe { amx.round(sums, tile.0.as_mut_ptr(), 2 * TILE_DEPTH) };
        }
    }

    /// Rounds and writes numbers of a row from `column` on, which is a multiple of 32, or of 16 for at most 16 numbers.
    pub(crate) fn write(&mut self, amx: AmxToken, row: usize, column: usize, numbers: &[f32]) {
        assert!(
            column.is_multiple_of(if numbers.len() > TILE_SIDE { TILE_DEPTH } else { TILE_SIDE }),
            "numbers that begin a line"
        );
        assert!(column + numbers.len() <= self.depth * TILE_DEPTH, "numbers within a row");
        let tiles = &mut self.tiles[row / TILE_SIDE * self.depth..][..self.depth][column / TILE_DEPTH..];
        let Some(first) = tiles.first_mut() else { return };
        let line = first.0[row % TILE_SIDE * TILE_DEPTH + column % TILE_DEPTH..].as_mut_ptr();
        // SAFETY: the lines of this row are a tile apart, and by the assertion the tiles reach as far as the numbers.
        unsafe { amx.round(numbers, line, size_of::<Tile>()) };
    }
}
