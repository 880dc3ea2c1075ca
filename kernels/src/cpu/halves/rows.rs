//! Rows to multiply, rounded into tiles.

use super::{BLOCK, Block, DEPTH, SIDE, Tile, Tiles, Unit};

/// Rows to multiply: `[count / 16][depth / 32]` tiles, each line of which is of one row. What lies behind the last row and
/// behind the last number is zero or left over from other rows, and meets nothing but zeros or rows that nobody asked for.
pub(crate) struct Rows {
    pub(super) tiles: Tiles,
    count: usize,
    dim: usize,
}

impl Rows {
    /// Rows with whatever was there before, zeros behind each row's last number.
    pub(crate) fn new(count: usize, dim: usize) -> Self {
        let mut rows = Self { tiles: Tiles::new(count.div_ceil(SIDE) * dim.div_ceil(DEPTH)), count, dim };
        rows.clear_ends();
        rows
    }

    /// Rows of `dim` numbers each, rounded.
    pub(crate) fn rounded(unit: Unit, dim: usize, numbers: &[f32]) -> Self {
        let mut rows = Self::new(numbers.len() / dim.max(1), dim);
        let mut all = PartMut { depth: rows.depth(), tiles: &mut rows.tiles };
        for (row, numbers) in numbers.chunks_exact(dim.max(1)).enumerate() {
            all.write(unit, row, 0, numbers);
        }
        rows
    }

    /// How many rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn depth(&self) -> usize {
        self.dim.div_ceil(DEPTH)
    }

    /// Those from `first` on, a multiple of 16, at most `most` of them.
    pub(crate) fn part(&self, first: usize, most: usize) -> Part<'_> {
        let count = most.min(self.count - first);
        let tiles = first / SIDE * self.depth()..(first + count).div_ceil(SIDE) * self.depth();
        Part { tiles: &self.tiles[tiles], count, dim: self.dim }
    }

    /// All of them, to be written in parts of `rows` rows, a multiple of 16.
    pub(crate) fn parts_mut(&mut self, rows: usize) -> impl Iterator<Item = PartMut<'_>> {
        let depth = self.depth();
        self.tiles.chunks_mut((rows / SIDE * depth).max(1)).map(move |tiles| PartMut { tiles, depth })
    }

    fn clear_ends(&mut self) {
        let (depth, last) = (self.depth(), self.dim % DEPTH);
        if last > 0 {
            for tile in self.tiles.iter_mut().skip(depth - 1).step_by(depth) {
                tile.0.chunks_exact_mut(DEPTH).for_each(|line| line[last..].fill(0));
            }
        }
    }
}

/// Some rows.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(super) tiles: &'a [Tile],
    pub(super) count: usize,
    pub(super) dim: usize,
}

/// Some rows, to be written.
pub(crate) struct PartMut<'a> {
    tiles: &'a mut [Tile],
    depth: usize,
}

impl PartMut<'_> {
    /// Writes a block's numbers, rounded; its columns are 32.
    pub(crate) fn write_block(&mut self, unit: Unit, block: &Block<'_>) {
        assert!(block.columns.start.is_multiple_of(DEPTH) && block.columns.len() == BLOCK, "numbers of whole lines");
        for (first, sums) in block.rows.clone().step_by(SIDE).zip(block.sums.chunks_exact(SIDE * BLOCK)) {
            let tile = &mut self.tiles[first / SIDE * self.depth..][..self.depth][block.columns.start / DEPTH];
            // SAFETY: a tile has 16 lines of 32 numbers, one behind the other.
            unsafe { unit.round(sums, tile.0.as_mut_ptr(), 2 * DEPTH) };
        }
    }

    /// Writes numbers of a row, rounded, from `column` on: a multiple of 32, or of 16 for 16 numbers at most.
    pub(crate) fn write(&mut self, unit: Unit, row: usize, column: usize, numbers: &[f32]) {
        assert!(column.is_multiple_of(if numbers.len() > SIDE { DEPTH } else { SIDE }), "numbers that begin a line");
        assert!(column + numbers.len() <= self.depth * DEPTH, "numbers within a row");
        let tiles = &mut self.tiles[row / SIDE * self.depth..][..self.depth][column / DEPTH..];
        let Some(first) = tiles.first_mut() else { return };
        let line = first.0[row % SIDE * DEPTH + column % DEPTH..].as_mut_ptr();
        // SAFETY: the lines of this row lie a tile apart, and the tiles go as far as the numbers, as was just asserted.
        unsafe { unit.round(numbers, line, size_of::<Tile>()) };
    }
}
