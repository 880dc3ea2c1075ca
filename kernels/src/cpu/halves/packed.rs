//! Matrices to multiply rows with, rounded into tiles.

use super::{BLOCK, DEPTH, SIDE, Tile, Tiles, Unit, ZEROS};

/// A matrix to multiply rows with: `[columns / 16][depth / 32]` tiles, line `p` of which has numbers `2p` and `2p + 1` of
/// each of 16 columns. Columns are padded with zeros to whole blocks.
pub(crate) struct Packed {
    pub(super) tiles: Tiles,
    pub(super) dim: usize,
    count: usize,
    order: Order,
}

/// Which vector a column is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Given,
    /// Each block has 16 of the first half, then the same 16 of the second.
    Halves,
}

impl Order {
    /// Of so many vectors.
    fn columns(self, count: usize) -> usize {
        match self {
            Self::Given => count,
            Self::Halves => 2 * (count / 2).next_multiple_of(SIDE),
        }
    }

    fn vector(self, count: usize, column: usize) -> Option<usize> {
        match self {
            Self::Given => (column < count).then_some(column),
            Self::Halves => {
                let at = column / BLOCK * SIDE + column % SIDE;
                (at < count / 2).then_some(at + if column % BLOCK < SIDE { 0 } else { count / 2 })
            }
        }
    }
}

impl Packed {
    /// Packs the columns of a product: `vector` gives `dim` numbers of each.
    pub(crate) fn new<'a>(unit: Unit, dim: usize, count: usize, vector: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::in_order(unit, dim, count, vector, Order::Given)
    }

    /// Packs two halves so that each block has 16 columns of the first, then the same 16 of the second.
    pub(crate) fn of_halves<'a>(unit: Unit, dim: usize, count: usize, vector: impl Fn(usize) -> &'a [f32]) -> Self {
        Self::in_order(unit, dim, count, vector, Order::Halves)
    }

    fn in_order<'a>(unit: Unit, dim: usize, count: usize, vector: impl Fn(usize) -> &'a [f32], order: Order) -> Self {
        let mut packed = Self::zeros(dim, count, order);
        let depth = packed.depth();
        let mut line = Tile::default();
        for column in 0..order.columns(count) {
            let Some(vector) = order.vector(count, column).map(&vector) else { continue };
            for (tile, numbers) in packed.tiles[column / SIDE * depth..].iter_mut().zip(vector[..dim].chunks(DEPTH)) {
                line.round(unit, 0, numbers);
                for (pair, to) in line.0.chunks_exact(2).zip(tile.0.chunks_exact_mut(DEPTH)) {
                    to[column % SIDE * 2..][..2].copy_from_slice(pair);
                }
                line.0[..DEPTH].fill(0);
            }
        }
        packed
    }

    /// Packs the columns of a matrix `[dim, count]`: `row` gives `count` numbers of each row, or none for a row of zeros.
    pub(crate) fn of_columns<'a>(unit: Unit, dim: usize, count: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        let mut packed = Self::zeros(dim, count, Order::Given);
        let depth = packed.depth();
        let mut line = Tile::default();
        for pair in 0..dim.div_ceil(2) {
            let rows = [row(2 * pair), if 2 * pair + 1 < dim { row(2 * pair + 1) } else { &[] }];
            for column in (0..count).step_by(SIDE) {
                for (half, row) in rows.iter().enumerate() {
                    let there = row.get(column..).unwrap_or_default();
                    line.round(unit, half, &there[..SIDE.min(there.len())]);
                }
                let tile = &mut packed.tiles[column / SIDE * depth + 2 * pair / DEPTH];
                let to = tile.0[pair % SIDE * DEPTH..][..DEPTH].chunks_exact_mut(2);
                let (first, second) = line.0[..2 * DEPTH].split_at(DEPTH);
                for ((to, first), second) in to.zip(first).zip(second) {
                    to.copy_from_slice(&[*first, *second]);
                }
                line.0[..2 * DEPTH].fill(0);
            }
        }
        packed
    }

    fn zeros(dim: usize, count: usize, order: Order) -> Self {
        let mut tiles = Tiles::new(order.columns(count).next_multiple_of(BLOCK) / SIDE * dim.div_ceil(DEPTH));
        tiles.fill(ZEROS);
        Self { tiles, dim, count, order }
    }

    /// One number a vector, in the order of the columns and with zeros for those of padding.
    pub(crate) fn arrange(&self, numbers: &[f32]) -> Vec<f32> {
        let columns = self.order.columns(self.count).next_multiple_of(BLOCK);
        (0..columns).map(|at| self.order.vector(self.count, at).map_or(0.0, |vector| numbers[vector])).collect()
    }

    /// Columns of the product.
    pub(crate) fn columns(&self) -> usize {
        self.order.columns(self.count)
    }

    pub(super) fn depth(&self) -> usize {
        self.dim.div_ceil(DEPTH)
    }
}
