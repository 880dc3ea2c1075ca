//! Vectors as arrays, which the compiler lowers to the target's baseline instruction set: NEON on aarch64.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Portable;

const WIDTH: usize = 8;

impl Portable {
    #[inline(always)]
    fn each(f: impl Fn(usize) -> f32) -> [f32; WIDTH] {
        std::array::from_fn(f)
    }

    #[inline(always)]
    fn bits(f: impl Fn(usize) -> bool) -> u32 {
        (0..WIDTH).fold(0, |bits, lane| bits | (u32::from(f(lane)) << lane))
    }
}

impl Lanes for Portable {
    type Vector = [f32; WIDTH];
    const WIDTH: usize = WIDTH;
    const PANEL: usize = 2;
    const ROWS: usize = 4;
    const HAS_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; WIDTH] {
        [x; WIDTH]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; WIDTH] {
        // SAFETY: the caller promises it; an array of f32 needs no more alignment than an f32.
        unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> [f32; WIDTH] {
        // SAFETY: only the first `count` are read, as the caller allows.
        Self::each(|lane| if lane < count { unsafe { *from.add(lane) } } else { 0.0 })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: [f32; WIDTH]) {
        // SAFETY: the caller promises it.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(x) }
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; WIDTH], b: [f32; WIDTH], c: [f32; WIDTH]) -> [f32; WIDTH] {
        if Self::HAS_FMA {
            Self::each(|lane| a[lane].mul_add(b[lane], c[lane]))
        } else {
            Self::each(|lane| a[lane] * b[lane] + c[lane])
        }
    }

    #[inline(always)]
    fn add(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    fn sub(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| a[lane] - b[lane])
    }

    #[inline(always)]
    fn mul(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn div(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| a[lane] / b[lane])
    }

    #[inline(always)]
    fn round(self, a: [f32; WIDTH]) -> [f32; WIDTH] {
        // 1.5 * 2^23: adding it leaves no fraction bits. Faster than a call of the C library.
        const MAGIC: f32 = 12_582_912.0;
        Self::each(|lane| (a[lane] + MAGIC) - MAGIC)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
    fn power_of_two(self, a: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| f32::from_bits(((a[lane] as i32 + 127) << 23).cast_unsigned()))
    }

    #[inline(always)]
    fn max(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }

    #[inline(always)]
    fn min(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> [f32; WIDTH] {
        Self::each(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
    }

    #[inline(always)]
    fn sum(self, x: [f32; WIDTH]) -> f32 {
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }

    #[inline(always)]
    fn largest(self, x: [f32; WIDTH]) -> f32 {
        x.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }

    #[inline(always)]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "NaN must pass")]
    fn not_at_most(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> u32 {
        Self::bits(|lane| !(a[lane] <= b[lane]))
    }

    #[inline(always)]
    #[expect(clippy::float_cmp, reason = "the lanes are compared with a copy of one of them")]
    fn equal(self, a: [f32; WIDTH], b: [f32; WIDTH]) -> u32 {
        Self::bits(|lane| a[lane] == b[lane])
    }

    #[inline(always)]
    fn prefetch(self, _at: *const f32) {}
}
