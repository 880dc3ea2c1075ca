//! The GEMV path: a tile of up to 4 rows by up to 4 vectors accumulates along the dimension, lane by lane.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
#![expect(clippy::needless_range_loop, reason = "ranges of constant length become registers")]

use super::{LINE, Multiply, PAD, Prefetch};
use crate::cpu::simd::Lanes;

/// Prefetch distance in numbers.
const PREFETCH_DISTANCE: usize = 2048;

impl Multiply<'_> {
    #[inline(always)]
    pub(super) fn gemv<L: Lanes>(&mut self, lanes: L) {
        let dim = self.packed.dim;
        let count = self.packed.count;
        let rows = self.rows.count;
        let pitch = self.rows.pitch;
        let groups = count.div_ceil(if L::WIDTH == 16 { 4 } else { 3 });
        let mut row = 0;
        while row < rows {
            let taken: usize = match (rows - row, L::WIDTH) {
                (4.., 16) => 4,
                (2.., _) => 2,
                _ => 1,
            };
            let share = taken.div_ceil(groups);
            for group in 0..groups {
                let first = group * count / groups;
                let end = (group + 1) * count / groups;
                let tile = GemvTile {
                    rows: self.rows.taken(row, taken, dim).as_ptr(),
                    vectors: self.packed.data[first * dim..end * dim].as_ptr(),
                    dim,
                    pitch,
                    adds: self.adds,
                    ahead: PREFETCH_DISTANCE + group * share * dim,
                    share: if self.prefetch == Prefetch::Rows { share } else { 0 },
                    tile: self.tile[row * PAD..][..taken * PAD][first..].as_mut_ptr(),
                };
                // SAFETY: the slices above are `taken` rows, `end - first` vectors and their rows of the tile, which
                // have PAD numbers since GEMV_COLUMNS <= PAD.
                unsafe { tile.run(lanes, taken, end - first) };
            }
            row += taken;
        }
    }
}

/// One tile of the product.
#[derive(Clone, Copy)]
struct GemvTile {
    rows: *const f32,
    vectors: *const f32,
    dim: usize,
    /// Distance of rows.
    pitch: usize,
    tile: *mut f32,
    adds: bool,
    /// Where to prefetch, in numbers from the first row.
    ahead: usize,
    /// Cache lines to prefetch per step.
    share: usize,
}

impl GemvTile {
    /// # Safety
    /// `rows` rows, `pitch` apart, and `vectors` vectors of `dim` numbers can be read, and `rows` rows of the tile written.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self, lanes: L, rows: usize, vectors: usize) {
        // SAFETY: the caller promises it.
        unsafe {
            match rows {
                4 => self.rows::<L, 4>(lanes, vectors),
                2 => self.rows::<L, 2>(lanes, vectors),
                _ => self.rows::<L, 1>(lanes, vectors),
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<L: Lanes, const R: usize>(self, lanes: L, vectors: usize) {
        // SAFETY: the caller promises it.
        unsafe {
            match vectors {
                4 => self.tile::<L, R, 4>(lanes),
                3 => self.tile::<L, R, 3>(lanes),
                2 => self.tile::<L, R, 2>(lanes),
                _ => self.tile::<L, R, 1>(lanes),
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, const R: usize, const V: usize>(self, lanes: L) {
        let mut sums = [[lanes.zero(); V]; R];
        let whole = self.dim - self.dim % L::WIDTH;
        let mut ahead = self.rows.wrapping_add(self.ahead);
        let mut index = 0;
        while index < whole {
            for _ in 0..self.share {
                lanes.prefetch(ahead);
                ahead = ahead.wrapping_add(LINE);
            }
            // SAFETY: `index + WIDTH` is at most `dim`.
            unsafe { self.step(lanes, &mut sums, |from| lanes.load(from.add(index))) };
            index += L::WIDTH;
        }
        if index < self.dim {
            // SAFETY: `dim - at` numbers are left, fewer than WIDTH.
            unsafe { self.step(lanes, &mut sums, |from| lanes.load_first(from.add(index), self.dim - index)) };
        }
        for r in 0..R {
            for v in 0..V {
                // SAFETY: R rows of V numbers, in tile rows of PAD.
                unsafe {
                    let to = self.tile.add(r * PAD + v);
                    let sum = lanes.sum(sums[r][v]);
                    *to = if self.adds { *to + sum } else { sum };
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const R: usize, const V: usize>(
        self,
        lanes: L,
        sums: &mut [[L::Vector; V]; R],
        load: impl Fn(*const f32) -> L::Vector,
    ) {
        let mut rows = [lanes.zero(); R];
        for r in 0..R {
            // SAFETY: the pointers stay inside the R rows.
            rows[r] = load(unsafe { self.rows.add(r * self.pitch) });
        }
        for v in 0..V {
            // SAFETY: the pointers stay inside the V vectors.
            let vector = load(unsafe { self.vectors.add(v * self.dim) });
            for r in 0..R {
                sums[r][v] = lanes.mul_add(rows[r], vector, sums[r][v]);
            }
        }
    }
}
