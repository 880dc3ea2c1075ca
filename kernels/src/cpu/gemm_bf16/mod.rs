//! GEMM in bfloat16 with f32 accumulation, by the tile registers of machines with AMX; the counterpart of
//! [`super::gemm`].
//!
//! Numbers are rounded to bfloat16, to nearest with ties to even. Products are exact and accumulated in f32, in an
//! order that depends on the depth alone, so the bits of a row do not depend on the other rows. Subnormal numbers count
//! as zero. Both operands are stored in tiles of 16 lines of 32 numbers.
#![expect(clippy::unused_self, reason = "the existence of a value proves that the machine has the instructions")]

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut, Range},
    sync::OnceLock,
};

#[cfg(target_arch = "x86_64")]
use super::amx;

mod multiply;
mod packed;
mod rows;

pub(crate) use packed::PackedBf16;
pub(crate) use rows::{Bf16Rows, Bf16RowsMut, Bf16RowsView};

/// Rows and columns of a tile.
pub(crate) const TILE_SIDE: usize = 16;
/// Depth of a tile.
const TILE_DEPTH: usize = 32;
/// Rows and columns of an [`OutputBlock`].
pub(crate) const BLOCK_SIDE: usize = 2 * TILE_SIDE;
/// The free list of a thread: its length, and the largest buffer it keeps in tiles (4 MiB).
const FREE_LIST_LEN: usize = 4;
const FREE_LIST_TILES: usize = 4 << 10;

/// Proof that this process may use AMX: the machine has it, and the operating system permits it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AmxToken(());

impl AmxToken {
    /// The token, if AMX is available.
    pub(crate) fn detect() -> Option<Self> {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        #[cfg(target_arch = "x86_64")]
        let available = *AVAILABLE.get_or_init(amx::is_available);
        #[cfg(not(target_arch = "x86_64"))]
        let available = *AVAILABLE.get_or_init(|| false);
        available.then_some(Self(()))
    }

    /// Rounds numbers to bfloat16: 32 of them to `to`, the next 32 to `step` bytes after that, and so on.
    ///
    /// # Safety
    /// These places are valid for writes.
    unsafe fn round(self, numbers: &[f32], to: *mut u16, step: usize) {
        // SAFETY: a token exists only if the instructions are available; the rest is the caller's promise.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            amx::round(numbers, to, step);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (numbers, to, step);
    }
}

/// 16 lines of 32 numbers as bits of bfloat16.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Tile([u16; TILE_SIDE * TILE_DEPTH]);

const ZEROS: Tile = Tile([0; TILE_SIDE * TILE_DEPTH]);

impl Default for Tile {
    fn default() -> Self {
        ZEROS
    }
}

impl Tile {
    /// Rounds at most 32 numbers into a line.
    fn round(&mut self, amx: AmxToken, line: usize, numbers: &[f32]) {
        let to = &mut self.0[line * TILE_DEPTH..][..TILE_DEPTH][..numbers.len()];
        // SAFETY: the slice above has room for the numbers.
        unsafe { amx.round(numbers, to.as_mut_ptr(), 0) };
    }
}

thread_local! {
    static FREE: RefCell<Vec<Vec<Tile>>> = const { RefCell::new(vec![]) };
}

/// Tiles in memory from the thread's free list.
struct Tiles {
    all: Vec<Tile>,
    count: usize,
}

impl Tiles {
    /// Tiles with unspecified contents.
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
        if all.capacity() <= FREE_LIST_TILES {
            FREE.with_borrow_mut(|free| {
                if free.len() < FREE_LIST_LEN {
                    free.push(all);
                }
            });
        }
    }
}

/// 32 rows by 32 columns of a product.
pub(crate) struct OutputBlock<'a> {
    /// The rows of the output; further rows of the block are padding.
    pub(crate) rows: Range<usize>,
    /// The columns of the output, likewise.
    pub(crate) columns: Range<usize>,
    /// `[32, 32]`.
    pub(crate) sums: &'a mut [f32; BLOCK_SIDE * BLOCK_SIDE],
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::cpu::f64_sums;

    fn wave(len: usize, pace: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * pace).sin()).collect()
    }

    fn round(numbers: &[f32]) -> Vec<f32> {
        numbers.iter().map(|x| bf16::from_f32(*x).to_f32()).collect()
    }

    /// `[rows, columns]`.
    fn product(amx: AmxToken, packed: &PackedBf16, rows: &Bf16Rows) -> Vec<f32> {
        product_and(amx, packed, rows, &[])
    }

    fn product_and(amx: AmxToken, packed: &PackedBf16, rows: &Bf16Rows, bias: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; rows.count() * packed.columns()];
        packed.multiply(amx, rows.part(0, rows.count()), bias, |block| {
            for row in block.rows.clone() {
                let sums = &block.sums[(row - block.rows.start) * BLOCK_SIDE..][..block.columns.len()];
                out[row * packed.columns()..][block.columns.clone()].copy_from_slice(sums);
            }
        });
        out
    }

    #[test]
    fn products_are_of_rounded_numbers() {
        if let Some(amx) = AmxToken::detect() {
            for (rows, columns) in [(1, 1), (15, 16), (16, 17), (17, 31), (31, 33), (33, 64), (70, 100)] {
                for dim in [1, 2, 15, 31, 32, 33, 64, 129, 300] {
                    let data = wave(rows * dim, 0.37);
                    let held = wave(columns * dim, 1.1);
                    let packed = PackedBf16::new(amx, dim, columns, |index| &held[index * dim..][..dim]);
                    let got = product(amx, &packed, &Bf16Rows::from_f32(amx, dim, &data));
                    let data = round(&data);
                    let held = round(&held);
                    for (index, row) in data.chunks(dim).enumerate() {
                        for (v, vector) in held.chunks(dim).enumerate() {
                            let norms = (f64_sums::squared_norm(row) * f64_sums::squared_norm(vector)).sqrt();
                            let error = (f64::from(got[index * columns + v]) - f64_sums::dot(row, vector)).abs();
                            let bound = dim as f64 * f64::from(f32::EPSILON) * norms + 1e-30;
                            assert!(error <= bound, "{rows}x{columns}x{dim}: {error} above {bound}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_rounded_to_nearest_and_keep_nan_and_infinities() {
        let mut numbers =
            vec![1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 3.4e38, 1e-30];
        numbers.extend(wave(40, 0.7));
        if let Some(amx) = AmxToken::detect() {
            let rows = Bf16Rows::from_f32(amx, numbers.len(), &numbers);
            let line = |index: usize| rows.tiles[index / TILE_DEPTH].0[index % TILE_DEPTH];
            let got: Vec<_> = (0..numbers.len().next_multiple_of(TILE_DEPTH)).map(line).collect();
            let expected: Vec<_> = numbers.iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
            assert_eq!(got[..numbers.len()], expected);
            assert!(got[numbers.len()..].iter().all(|x| *x == 0), "zero padding");
            assert!(bf16::from_bits(Bf16Rows::from_f32(amx, 1, &[f32::NAN]).tiles[0].0[0]).is_nan());
        }
    }

    #[test]
    fn the_bits_of_a_row_do_not_depend_on_other_rows() {
        if let Some(amx) = AmxToken::detect() {
            let dim = 200;
            let count = 37;
            let data = wave(count * dim, 0.37);
            let held = wave(40 * dim, 1.1);
            let packed = PackedBf16::new(amx, dim, 40, |index| &held[index * dim..][..dim]);
            let together = product(amx, &packed, &Bf16Rows::from_f32(amx, dim, &data));
            for (index, row) in data.chunks(dim).enumerate() {
                let alone = product(amx, &packed, &Bf16Rows::from_f32(amx, dim, row));
                assert_eq!(alone, together[index * 40..][..40]);
            }
        }
    }

    #[test]
    fn the_bias_is_added_and_output_rows_may_be_padded() {
        if let Some(amx) = AmxToken::detect() {
            for (count, columns, dim) in [(1, 1, 33), (16, 31, 20), (31, 32, 200), (48, 70, 64), (300, 100, 40)] {
                let rows = Bf16Rows::from_f32(amx, dim, &wave(count * dim, 0.37));
                let held = wave(columns * dim, 1.1);
                let packed = PackedBf16::new(amx, dim, columns, |index| &held[index * dim..][..dim]);
                let plain = product(amx, &packed, &rows);
                let bias = packed.permute(&wave(columns, 0.9));
                let all = product_and(amx, &packed, &rows, &bias);
                for (index, (sum, plain)) in all.iter().zip(&plain).enumerate() {
                    assert!((sum - plain - bias[index % columns]).abs() < 1e-4, "{count}x{columns}x{dim} at {index}");
                }
                for width in [columns, columns.next_multiple_of(BLOCK_SIDE)] {
                    let mut out = vec![f32::NAN; count * width];
                    packed.multiply_into(amx, rows.part(0, count), &bias, &mut out, width);
                    for (out, all) in out.chunks(width).zip(all.chunks(columns)) {
                        assert_eq!(out[..columns], *all, "{count}x{columns}x{dim} in {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn interleaved_columns_alternate_between_the_halves() {
        if let Some(amx) = AmxToken::detect() {
            let dim = 33;
            let half = 21;
            let held = wave(2 * half * dim, 1.1);
            let rows = Bf16Rows::from_f32(amx, dim, &wave(3 * dim, 0.37));
            let vector = |index: usize| &held[index * dim..][..dim];
            let plain = product(amx, &PackedBf16::new(amx, dim, 2 * half, vector), &rows);
            let packed = PackedBf16::interleaved(amx, dim, 2 * half, vector);
            let interleaved = product(amx, &packed, &rows);
            for (plain, interleaved) in plain.chunks(2 * half).zip(interleaved.chunks(packed.columns())) {
                for index in 0..half {
                    let column = index / TILE_SIDE * BLOCK_SIDE + index % TILE_SIDE;
                    assert_eq!(plain[index].to_bits(), interleaved[column].to_bits());
                    assert_eq!(plain[half + index].to_bits(), interleaved[column + TILE_SIDE].to_bits());
                }
            }
        }
    }

    #[test]
    fn columns_of_a_matrix_are_multiplied_as_vectors() {
        if let Some(amx) = AmxToken::detect() {
            for (dim, count) in [(1, 1), (20, 37), (33, 16), (64, 31)] {
                let held = wave(dim * count, 1.1);
                let matrix: Vec<Vec<f32>> =
                    (0..dim).map(|d| held.iter().skip(d).step_by(dim).copied().collect()).collect();
                let rows = Bf16Rows::from_f32(amx, dim, &wave(3 * dim, 0.37));
                let plain = PackedBf16::new(amx, dim, count, |index| &held[index * dim..][..dim]);
                let transposed = PackedBf16::of_columns(amx, dim, count, |d| &matrix[d]);
                assert_eq!(product(amx, &plain, &rows), product(amx, &transposed, &rows), "{dim} {count}");
            }
        }
    }
}
