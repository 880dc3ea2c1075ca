//! Vectors of the machine at hand: kernels are written once, over [`Lanes`], and compiled for each instruction set.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::sync::OnceLock;

/// An instruction set that this machine has. Cannot be made for one it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// Code to be compiled for every instruction set. `run` must be `#[inline(always)]`, and so must all it calls.
pub(crate) trait Kernel {
    /// What it computes.
    type Out;
    /// Computes it with the vectors of one instruction set.
    fn run<L: Lanes>(self, lanes: L) -> Self::Out;
}

impl Isa {
    /// The best of this machine.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::all()[0])
    }

    /// All of this machine, the best first.
    pub(crate) fn all() -> Vec<Self> {
        let mut found = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                found.push(Self(Kind::Avx512));
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                found.push(Self(Kind::Avx2));
            }
        }
        found.push(Self(Kind::Portable));
        found
    }

    /// Runs a kernel with these vectors.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Out {
        match self.0 {
            // SAFETY: the value exists only where the machine was found to have the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { super::x86::with_avx512(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { super::x86::with_avx2(kernel) },
            Kind::Portable => kernel.run(Portable),
        }
    }
}

/// Asks for numbers that will be read soon.
pub(crate) fn prefetch(numbers: &[f32]) {
    Isa::best().run(Prefetch(numbers));
}

struct Prefetch<'a>(&'a [f32]);

impl Kernel for Prefetch<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        prefetch_with(lanes, self.0);
    }
}

/// Likewise, inside a kernel.
#[inline(always)]
pub(crate) fn prefetch_with<L: Lanes>(lanes: L, numbers: &[f32]) {
    numbers.chunks(16).for_each(|line| lanes.prefetch(line.as_ptr()));
}

/// Vectors of f32. A value of this type is the proof that the machine has them.
pub(crate) trait Lanes: Copy {
    /// One vector.
    type Vector: Copy;
    /// Numbers in a vector: 8 or 16.
    const WIDTH: usize;
    /// Vectors of columns in the tile of [`super::products`] that fills the registers: at most 3.
    const PANEL: usize;
    /// Rows in that tile: 8, 6, 4, 2 or 1.
    const ROWS: usize;

    /// All zeros.
    #[inline(always)]
    fn zero(self) -> Self::Vector {
        self.splat(0.0)
    }
    /// The same number in all lanes.
    fn splat(self, x: f32) -> Self::Vector;
    /// # Safety
    /// `WIDTH` numbers can be read there.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// The first `count` numbers, zeros after them.
    /// # Safety
    /// `count` < `WIDTH` numbers can be read there.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::Vector;
    /// # Safety
    /// `WIDTH` numbers can be written there.
    unsafe fn store(self, to: *mut f32, x: Self::Vector);
    /// `a * b + c`, rounded once or twice.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a + b`.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b`.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`.
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b` within two units of the last place, for b from 2^-60 to 2^60.
    fn quotient(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        self.div(a, b)
    }
    /// The nearest integer, ties to even, for |a| < 2^22.
    fn round(self, a: Self::Vector) -> Self::Vector;
    /// `2^a`, for integers from -126 to 127.
    fn power_of_two(self, a: Self::Vector) -> Self::Vector;
    /// The larger of each pair; `b` where one is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller of each pair; `b` where one is NaN.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The sum of all lanes, by a fixed tree.
    fn sum(self, x: Self::Vector) -> f32;
    /// The largest lane.
    fn largest(self, x: Self::Vector) -> f32;
    /// A bit for each lane where `a` is not at most `b`: greater, or one is NaN.
    fn not_at_most(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// A bit for each lane where they are equal.
    fn equal(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// Asks for a cache line to come into the second cache; the address need not be readable.
    fn prefetch(self, at: *const f32);
}

/// Arrays, which compilers turn into the vectors of the target's baseline: NEON on aarch64.
#[derive(Clone, Copy)]
struct Portable;

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

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; WIDTH] {
        [x; WIDTH]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; WIDTH] {
        // SAFETY: the caller's; an array of f32 needs no more alignment than an f32.
        unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> [f32; WIDTH] {
        // SAFETY: only the first `count` are read, as the caller allows.
        Self::each(|lane| if lane < count { unsafe { *from.add(lane) } } else { 0.0 })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: [f32; WIDTH]) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(x) }
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; WIDTH], b: [f32; WIDTH], c: [f32; WIDTH]) -> [f32; WIDTH] {
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
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
        // So large that no fraction is left; a call of the C library would take longer.
        const WHOLE: f32 = 12_582_912.0;
        Self::each(|lane| (a[lane] + WHOLE) - WHOLE)
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

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "small integers are exact")]
mod tests {
    use super::*;

    struct Check;

    impl Kernel for Check {
        type Out = ();

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let numbers: Vec<f32> = (0_u8..16).map(|i| f32::from(i) - 3.0).collect();
            let at = numbers.as_ptr();
            let width = L::WIDTH;
            // SAFETY: 16 numbers are there, and no vector is wider.
            let (x, part) = unsafe { (lanes.load(at), lanes.load_first(at, width - 1)) };
            assert_eq!(lanes.sum(x), numbers[..width].iter().sum::<f32>());
            assert_eq!(lanes.sum(part), numbers[..width - 1].iter().sum::<f32>());
            assert_eq!(lanes.largest(x), numbers[width - 1]);
            assert_eq!(lanes.equal(x, lanes.splat(-1.0)), 1 << 2);
            assert_eq!(lanes.not_at_most(lanes.splat(0.5), x), 0b1111);
            assert_eq!(lanes.not_at_most(lanes.splat(f32::NAN), x).count_ones() as usize, width, "NaN passes");
            assert_eq!(lanes.sum(lanes.max(lanes.zero(), lanes.splat(2.0))), 2.0 * width as f32);
            assert_eq!(lanes.sum(lanes.min(lanes.zero(), lanes.splat(2.0))), 0.0);
            assert_eq!(lanes.sum(lanes.sub(x, lanes.splat(1.0))), lanes.sum(x) - width as f32);
            assert_eq!(lanes.sum(lanes.mul(x, lanes.splat(2.0))), 2.0 * lanes.sum(x));
            assert_eq!(lanes.sum(lanes.div(x, lanes.splat(2.0))), lanes.sum(x) / 2.0);
            for (a, b) in [(1.0, 3.0), (-7.3e20, 1e-9), (5e-20, 7e15), (0.0, 2.0_f32)] {
                let got = lanes.largest(lanes.quotient(lanes.splat(a), lanes.splat(b)));
                assert!((got - a / b).abs() <= (a / b).abs() * f32::EPSILON, "{a} / {b} = {got}");
            }
            for (number, rounded) in [(2.5, 2.0), (-3.5, -4.0), (0.49, 0.0)] {
                assert_eq!(lanes.largest(lanes.round(lanes.splat(number))), rounded);
            }
            for power in [-126.0, -1.0, 0.0, 127.0_f32] {
                assert_eq!(lanes.largest(lanes.power_of_two(lanes.splat(power))), power.exp2());
            }
            let mut out = [0.0; 16];
            // SAFETY: 16 numbers have room.
            unsafe { lanes.store(out.as_mut_ptr(), lanes.mul_add(x, lanes.splat(2.0), lanes.splat(1.0))) };
            assert_eq!(out[3], 1.0);
            assert_eq!(out[4], 3.0);
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same() {
        for isa in Isa::all() {
            isa.run(Check);
        }
    }
}
