//! The right-hand side of a product, rounded and packed into tiles.

use super::{AmxToken, BLOCK_SIDE, TILE_DEPTH, TILE_SIDE, Tile, Tiles, ZEROS};

/// The right-hand side of a product: `[columns / 16][depth / 32]` tiles in AMX's VNNI layout, where line `p` has
/// numbers `2p` and `2p + 1` of each of 16 columns. Columns are padded with zeros to whole blocks.
pub(crate) struct PackedBf16 {
    pub(super) tiles: Tiles,
    pub(super) dim: usize,
    count: usize,
    order: ColumnOrder,
}

/// The order of the vectors among the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnOrder {
    Given,
    /// Each block has 16 vectors of the first half, then the corresponding 16 of the second.
    Interleaved,
}

impl ColumnOrder {
    /// The number of columns for `count` vectors.
    fn columns(self, count: usize) -> usize {
        match self {
            Self::Given => count,
            Self::Interleaved => 2 * (count / 2).next_multiple_of(TILE_SIDE),
        }
    }

    fn vector(self, count: usize, column: usize) -> Option<usize> {
        match self {
            Self::Given => (column < count).then_some(column),
            Self::Interleaved => {
                let index = column / BLOCK_SIDE * TILE_SIDE + column % TILE_SIDE;
                (index < count / 2).then_some(index + if column % BLOCK_SIDE < TILE_SIDE { 0 } else { count / 2 })
            }
        }
    }
}

impl PackedBf16 {
    /// Packs `count` vectors; `vector` returns the `dim` numbers of each.
    pub(crate) fn new<'a>(amx: AmxToken, dim: usize, count: usize, vector: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::with_order(amx, dim, count, vector, ColumnOrder::Given)
    }

    /// Packs gate and up projections, the two halves of `count` vectors: each block has 16 columns of the first half,
    /// then the corresponding 16 of the second.
    pub(crate) fn interleaved<'a>(
        amx: AmxToken,
        dim: usize,
        count: usize,
        vector: impl Fn(usize) -> &'a [f32],
    ) -> Self {
        Self::with_order(amx, dim, count, vector, ColumnOrder::Interleaved)
    }

    fn with_order<'a>(
        amx: AmxToken,
        dim: usize,
        count: usize,
        vector: impl Fn(usize) -> &'a [f32],
        order: ColumnOrder,
    ) -> Self {
        let mut packed = Self::zeros(dim, count, order);
        let depth = packed.depth();
        let mut line = Tile::default();
        for column in 0..order.columns(count) {
            let Some(vector) = order.vector(count, column).map(&vector) else { continue };
            for (tile, numbers) in
                packed.tiles[column / TILE_SIDE * depth..].iter_mut().zip(vector[..dim].chunks(TILE_DEPTH))
            {
                line.round(amx, 0, numbers);
                for (pair, to) in line.0.chunks_exact(2).zip(tile.0.chunks_exact_mut(TILE_DEPTH)) {
                    to[column % TILE_SIDE * 2..][..2].copy_from_slice(pair);
                }
                line.0[..TILE_DEPTH].fill(0);
            }
        }
        packed
    }

    /// Packs the columns of a matrix `[dim, count]`: `row` returns the `count` numbers of a row, or an empty slice for
    /// zeros.
    pub(crate) fn of_columns<'a>(amx: AmxToken, dim: usize, count: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        let mut packed = Self::zeros(dim, count, ColumnOrder::Given);
        let depth = packed.depth();
        let mut line = Tile::default();
        for pair in 0..dim.div_ceil(2) {
            let rows = [row(2 * pair), if 2 * pair + 1 < dim { row(2 * pair + 1) } else { &[] }];
            for column in (0..count).step_by(TILE_SIDE) {
                for (half, row) in rows.iter().enumerate() {
                    let there = row.get(column..).unwrap_or_default();
                    line.round(amx, half, &there[..TILE_SIDE.min(there.len())]);
                }
                let tile = &mut packed.tiles[column / TILE_SIDE * depth + 2 * pair / TILE_DEPTH];
                let to = tile.0[pair % TILE_SIDE * TILE_DEPTH..][..TILE_DEPTH].chunks_exact_mut(2);
                let (first, second) = line.0[..2 * TILE_DEPTH].split_at(TILE_DEPTH);
                for ((to, first), second) in to.zip(first).zip(second) {
                    to.copy_from_slice(&[*first, *second]);
                }
                line.0[..2 * TILE_DEPTH].fill(0);
            }
        }
        packed
    }

    fn zeros(dim: usize, count: usize, order: ColumnOrder) -> Self {
        let mut tiles =
            Tiles::new(order.columns(count).next_multiple_of(BLOCK_SIDE) / TILE_SIDE * dim.div_ceil(TILE_DEPTH));
        tiles.fill(ZEROS);
        Self { tiles, dim, count, order }
    }

    /// One number per vector in the order of the columns, with zeros for padding.
    pub(crate) fn permute(&self, numbers: &[f32]) -> Vec<f32> {
        let columns = self.order.columns(self.count).next_multiple_of(BLOCK_SIDE);
        (0..columns).map(|index| self.order.vector(self.count, index).map_or(0.0, |vector| numbers[vector])).collect()
    }

    /// The number of columns of the product.
    pub(crate) fn columns(&self) -> usize {
        self.order.columns(self.count)
    }

    pub(super) fn depth(&self) -> usize {
        self.dim.div_ceil(TILE_DEPTH)
    }
}
