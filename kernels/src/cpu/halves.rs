//! Products of rows with a packed matrix in bfloat16, by the tile registers of machines that have them (AMX): what
//! [`super::products`] is for f32.
//!
//! Numbers are rounded to bfloat16, to the nearest with ties to even; products are exact and summed in f32, in an order
//! that the depth alone sets. So a row's bits do not depend on the rows beside it. Numbers too small for normal ones count
//! as zero. Both factors lie in tiles of 16 lines of 32 numbers.
#![expect(clippy::unused_self, reason = "that a value exists is the proof that its instructions do")]

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut, Range},
    sync::OnceLock,
};

#[cfg(target_arch = "x86_64")]
use super::amx;

/// Rows and columns of a tile.
pub(crate) const SIDE: usize = 16;
/// Numbers that a tile is deep.
const DEPTH: usize = 32;
/// Rows and columns of a [`Block`].
pub(crate) const BLOCK: usize = 2 * SIDE;
/// Freed buffers of rows that a thread keeps, and the largest of them in tiles: 4 MiB.
const KEPT: usize = 4;
const LARGEST: usize = 4 << 10;

/// The right to multiply tiles. Cannot be made where this machine, or the system, does not let us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit(());

impl Unit {
    /// This machine's, if it has one.
    pub(crate) fn of_machine() -> Option<Self> {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        #[cfg(target_arch = "x86_64")]
        let is_there = *IS_THERE.get_or_init(amx::is_allowed);
        #[cfg(not(target_arch = "x86_64"))]
        let is_there = *IS_THERE.get_or_init(|| false);
        is_there.then_some(Self(()))
    }
}

/// 16 lines of 32 numbers as bfloat16's bits.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Tile([u16; SIDE * DEPTH]);

const ZEROS: Tile = Tile([0; SIDE * DEPTH]);

impl Default for Tile {
    fn default() -> Self {
        ZEROS
    }
}

impl Tile {
    /// Rounds at most 32 numbers into a line.
    fn round(&mut self, unit: Unit, line: usize, numbers: &[f32]) {
        let to = &mut self.0[line * DEPTH..][..DEPTH][..numbers.len()];
        // SAFETY: the numbers have room in the line.
        unsafe { unit.round(numbers, to.as_mut_ptr(), 0) };
    }
}

thread_local! {
    static FREE: RefCell<Vec<Vec<Tile>>> = const { RefCell::new(vec![]) };
}

/// Tiles in memory that a thread uses again.
struct Tiles {
    all: Vec<Tile>,
    count: usize,
}

impl Tiles {
    /// Tiles with whatever was there before.
    fn new(count: usize) -> Self {
        let mut all = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if all.len() < count {
            all.resize(count, ZEROS);
        }
        Self { all, count }
    }
}

impl Deref for Tiles {
    type Target = [Tile];

    fn deref(&self) -> &[Tile] {
        &self.all[..self.count]
    }
}

impl DerefMut for Tiles {
    fn deref_mut(&mut self) -> &mut [Tile] {
        &mut self.all[..self.count]
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.all);
        if all.capacity() <= LARGEST {
            FREE.with_borrow_mut(|free| {
                if free.len() < KEPT {
                    free.push(all);
                }
            });
        }
    }
}

/// Rows to multiply: `[count / 16][depth / 32]` tiles, each line of which is of one row. What lies behind the last row and
/// behind the last number is zero or left over from other rows, and meets nothing but zeros or rows that nobody asked for.
pub(crate) struct Rows {
    tiles: Tiles,
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
    tiles: &'a [Tile],
    count: usize,
    dim: usize,
}

/// Some rows, to be written.
pub(crate) struct PartMut<'a> {
    tiles: &'a mut [Tile],
    depth: usize,
}

impl PartMut<'_> {
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

/// A matrix to multiply rows with: `[columns / 16][depth / 32]` tiles, line `p` of which has numbers `2p` and `2p + 1` of
/// each of 16 columns. Columns are padded with zeros to whole blocks.
pub(crate) struct Packed {
    tiles: Tiles,
    dim: usize,
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

    fn depth(&self) -> usize {
        self.dim.div_ceil(DEPTH)
    }

    /// Multiplies, and gives `then` the sums block by block: all rows of some columns, then the next columns.
    pub(crate) fn multiply(&self, unit: Unit, rows: Part<'_>, mut then: impl FnMut(Block<'_>)) {
        assert_eq!(rows.dim, self.dim, "rows as deep as the matrix");
        let depth = self.depth();
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        let machine = unit.start();
        let share = (2 * depth).div_ceil(rows.count.div_ceil(BLOCK).max(1));
        for (pair, columns) in self.tiles.chunks_exact((2 * depth).max(1)).enumerate() {
            // The next columns come near while these are multiplied: a model's matrices are too many for any near cache.
            let mut next = self.tiles[(pair + 1) * 2 * depth..].chunks(share.max(1));
            for first in (0..rows.count).step_by(BLOCK) {
                machine.prefetch(next.next().unwrap_or_default());
                let tiles = &rows.tiles[first / SIDE * depth..];
                let tiles = &tiles[..tiles.len().min(2 * depth)];
                machine.multiply(depth, tiles, columns, &mut sums);
                then(Block {
                    rows: first..(first + BLOCK).min(rows.count),
                    columns: pair * BLOCK..((pair + 1) * BLOCK).min(self.columns()),
                    sums: &mut sums.0,
                });
            }
        }
    }
}

/// Sums of 32 rows by 32 columns.
pub(crate) struct Block<'a> {
    /// Which rows; those of the block that come after them are to be left alone.
    pub(crate) rows: Range<usize>,
    /// Which columns, likewise.
    pub(crate) columns: Range<usize>,
    /// `[32, 32]`.
    pub(crate) sums: &'a mut [f32; BLOCK * BLOCK],
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * BLOCK]);

/// A unit that is ready on this thread.
struct Machine {
    #[cfg(target_arch = "x86_64")]
    registers: amx::Registers,
}

impl Unit {
    fn start(self) -> Machine {
        Machine {
            // SAFETY: a unit exists only where tiles are allowed. Only a product starts a machine, and what it calls
            // meanwhile is no product.
            #[cfg(target_arch = "x86_64")]
            registers: unsafe { amx::Registers::configure() },
        }
    }

    /// Rounds numbers: 32 of them to `to`, the next 32 to `step` bytes behind it, and so on.
    ///
    /// # Safety
    /// As many numbers can be written there.
    unsafe fn round(self, numbers: &[f32], to: *mut u16, step: usize) {
        // SAFETY: a unit exists only where the instructions do; the caller's.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            amx::round(numbers, to, step);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (numbers, to, step);
    }
}

impl Machine {
    /// Asks for tiles that will be read soon.
    fn prefetch(&self, tiles: &[Tile]) {
        #[cfg(target_arch = "x86_64")]
        self.registers.prefetch(tiles.as_ptr().cast(), size_of_val(tiles));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = tiles;
    }

    /// `rows`: one or two rows of `depth` tiles; `columns`: two.
    fn multiply(&self, depth: usize, rows: &[Tile], columns: &[Tile], sums: &mut Sums) {
        assert!(depth > 0 && columns.len() == 2 * depth && (rows.len() == depth || rows.len() == 2 * depth));
        #[cfg(target_arch = "x86_64")]
        {
            const STRIDE: usize = 4 * BLOCK;
            let place = |tiles: &[Tile], at: usize| tiles[at * depth..][..depth].as_ptr().cast::<u8>();
            let columns = [place(columns, 0), place(columns, 1)];
            let out = sums.0.as_mut_ptr();
            // SAFETY: the tiles are there, as was just asserted, and the sums have 32 rows of 32 numbers.
            unsafe {
                if rows.len() == depth {
                    self.registers.one(depth, place(rows, 0), columns, out, STRIDE);
                } else {
                    self.registers.two(depth, [place(rows, 0), place(rows, 1)], columns, out, STRIDE);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (rows, sums);
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::cpu::exact;

    fn wave(len: usize, pace: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * pace).sin()).collect()
    }

    fn round(numbers: &[f32]) -> Vec<f32> {
        numbers.iter().map(|x| bf16::from_f32(*x).to_f32()).collect()
    }

    /// `[rows, columns]`.
    fn product(unit: Unit, packed: &Packed, rows: &Rows) -> Vec<f32> {
        let mut out = vec![f32::NAN; rows.count() * packed.columns()];
        packed.multiply(unit, rows.part(0, rows.count()), |block| {
            for row in block.rows.clone() {
                let sums = &block.sums[(row - block.rows.start) * BLOCK..][..block.columns.len()];
                out[row * packed.columns()..][block.columns.clone()].copy_from_slice(sums);
            }
        });
        out
    }

    #[test]
    fn products_are_those_of_rounded_numbers() {
        if let Some(unit) = Unit::of_machine() {
            for (rows, columns) in [(1, 1), (15, 16), (16, 17), (17, 31), (31, 33), (33, 64), (70, 100)] {
                for dim in [1, 2, 15, 31, 32, 33, 64, 129, 300] {
                    let (data, held) = (wave(rows * dim, 0.37), wave(columns * dim, 1.1));
                    let packed = Packed::new(unit, dim, columns, |at| &held[at * dim..][..dim]);
                    let got = product(unit, &packed, &Rows::rounded(unit, dim, &data));
                    let (data, held) = (round(&data), round(&held));
                    for (at, row) in data.chunks(dim).enumerate() {
                        for (v, vector) in held.chunks(dim).enumerate() {
                            let norms = (exact::squared_norm(row) * exact::squared_norm(vector)).sqrt();
                            let error = (f64::from(got[at * columns + v]) - exact::dot(row, vector)).abs();
                            let bound = dim as f64 * f64::from(f32::EPSILON) * norms + 1e-30;
                            assert!(error <= bound, "{rows}x{columns}x{dim}: {error} above {bound}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_rounded_to_the_nearest_and_keep_what_is_no_number() {
        let mut numbers =
            vec![1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 3.4e38, 1e-30];
        numbers.extend(wave(40, 0.7));
        if let Some(unit) = Unit::of_machine() {
            let rows = Rows::rounded(unit, numbers.len(), &numbers);
            let line = |at: usize| rows.tiles[at / DEPTH].0[at % DEPTH];
            let got: Vec<_> = (0..numbers.len().next_multiple_of(DEPTH)).map(line).collect();
            let expected: Vec<_> = numbers.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
            assert_eq!(got[..numbers.len()], expected);
            assert!(got[numbers.len()..].iter().all(|x| *x == 0), "zeros behind them");
            assert!(bf16::from_bits(Rows::rounded(unit, 1, &[f32::NAN]).tiles[0].0[0]).is_nan());
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        if let Some(unit) = Unit::of_machine() {
            let (dim, count) = (200, 37);
            let data = wave(count * dim, 0.37);
            let held = wave(40 * dim, 1.1);
            let packed = Packed::new(unit, dim, 40, |at| &held[at * dim..][..dim]);
            let together = product(unit, &packed, &Rows::rounded(unit, dim, &data));
            for (at, row) in data.chunks(dim).enumerate() {
                let alone = product(unit, &packed, &Rows::rounded(unit, dim, row));
                assert_eq!(alone, together[at * 40..][..40]);
            }
        }
    }

    #[test]
    fn halves_come_side_by_side() {
        if let Some(unit) = Unit::of_machine() {
            let (dim, half) = (33, 21);
            let held = wave(2 * half * dim, 1.1);
            let rows = Rows::rounded(unit, dim, &wave(3 * dim, 0.37));
            let vector = |at: usize| &held[at * dim..][..dim];
            let plain = product(unit, &Packed::new(unit, dim, 2 * half, vector), &rows);
            let packed = Packed::of_halves(unit, dim, 2 * half, vector);
            let halves = product(unit, &packed, &rows);
            for (plain, halves) in plain.chunks(2 * half).zip(halves.chunks(packed.columns())) {
                for at in 0..half {
                    let place = at / SIDE * BLOCK + at % SIDE;
                    assert_eq!(plain[at].to_bits(), halves[place].to_bits());
                    assert_eq!(plain[half + at].to_bits(), halves[place + SIDE].to_bits());
                }
            }
        }
    }
    #[test]
    fn columns_of_a_matrix_are_multiplied_as_vectors() {
        if let Some(unit) = Unit::of_machine() {
            for (dim, count) in [(1, 1), (20, 37), (33, 16), (64, 31)] {
                let held = wave(dim * count, 1.1);
                let matrix: Vec<Vec<f32>> =
                    (0..dim).map(|d| held.iter().skip(d).step_by(dim).copied().collect()).collect();
                let rows = Rows::rounded(unit, dim, &wave(3 * dim, 0.37));
                let plain = Packed::new(unit, dim, count, |at| &held[at * dim..][..dim]);
                let turned = Packed::of_columns(unit, dim, count, |d| &matrix[d]);
                assert_eq!(product(unit, &plain, &rows), product(unit, &turned, &rows), "{dim} {count}");
            }
        }
    }
}
