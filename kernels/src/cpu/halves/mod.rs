//! Products of rows with a packed matrix in bfloat16, by the tile registers of machines that have them (AMX): what
//! [`super::products`] is for f32.
//!
//! Numbers are rounded to bfloat16, to the nearest with ties to even; products are exact and summed in f32, in an order
//! that the depth alone sets. So a row's bits do not depend on the rows beside it. Numbers too small for normal ones count
//! as zero. Both factors lie in tiles of 16 lines of 32 numbers.
#![expect(clippy::unused_self, reason = "that a value exists is the proof that its instructions do")]

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    sync::OnceLock,
};

#[cfg(target_arch = "x86_64")]
use super::amx;

mod packed;
mod product;
mod rows;

pub(crate) use packed::Packed;
pub(crate) use product::Block;
pub(crate) use rows::{Part, PartMut, Rows};

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
        product_and(unit, packed, rows, &[])
    }

    fn product_and(unit: Unit, packed: &Packed, rows: &Rows, bias: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; rows.count() * packed.columns()];
        packed.multiply(unit, rows.part(0, rows.count()), bias, |block| {
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
    fn sums_begin_with_the_bias_and_go_into_rows_of_any_width() {
        if let Some(unit) = Unit::of_machine() {
            for (count, columns, dim) in [(1, 1, 33), (16, 31, 20), (31, 32, 200), (48, 70, 64), (300, 100, 40)] {
                let rows = Rows::rounded(unit, dim, &wave(count * dim, 0.37));
                let held = wave(columns * dim, 1.1);
                let packed = Packed::new(unit, dim, columns, |at| &held[at * dim..][..dim]);
                let plain = product(unit, &packed, &rows);
                let bias = packed.arrange(&wave(columns, 0.9));
                let all = product_and(unit, &packed, &rows, &bias);
                for (at, (sum, plain)) in all.iter().zip(&plain).enumerate() {
                    assert!((sum - plain - bias[at % columns]).abs() < 1e-4, "{count}x{columns}x{dim} at {at}");
                }
                for width in [columns, columns.next_multiple_of(BLOCK)] {
                    let mut out = vec![f32::NAN; count * width];
                    packed.multiply_into(unit, rows.part(0, count), &bias, &mut out, width);
                    for (out, all) in out.chunks(width).zip(all.chunks(columns)) {
                        assert_eq!(out[..columns], *all, "{count}x{columns}x{dim} in {width}");
                    }
                }
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
