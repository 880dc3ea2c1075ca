//! The interface between vectorised code and instruction sets: [`WithSimd`], and the vectors of f32 that it is generic over.
#![expect(clippy::inline_always, reason = "code is compiled for an instruction set only where it is inlined")]

/// Code that is compiled for every instruction set. `run` and everything it calls must be `#[inline(always)]`.
pub(crate) trait WithSimd {
    /// The result.
    type Out;
    /// Runs it with the vectors of one instruction set.
    fn run<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// The f32 vectors of an instruction set. A value of the implementing type proves that the machine has it.
pub(crate) trait Lanes: Copy {
    /// One vector.
    type Vector: Copy;
    /// Numbers in a vector: 8 or 16.
    const WIDTH: usize;
    /// Columns of the GEMM's register tile, in vectors: at most 3.
    const PANEL: usize;
    /// Rows of the GEMM's register tile: 8, 6, 4, 2 or 1.
    const ROWS: usize;
    /// True if `f32::mul_add` and `f64::mul_add` are instructions rather than calls.
    const HAS_FMA: bool;

    /// All zeros.
    #[inline(always)]
    fn zero(self) -> Self::Vector {
        self.splat(0.0)
    }
    /// `x` in all lanes.
    fn splat(self, x: f32) -> Self::Vector;
    /// # Safety
    /// `from` is valid for reads of `WIDTH` numbers.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// Loads `count` numbers and fills the other lanes with zeros.
    /// # Safety
    /// `count` < `WIDTH`, and `from` is valid for reads of `count` numbers.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::Vector;
    /// # Safety
    /// `to` is valid for writes of `WIDTH` numbers.
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
    /// The sum of all lanes, by a fixed reduction tree.
    fn sum(self, x: Self::Vector) -> f32;
    /// The largest lane.
    fn largest(self, x: Self::Vector) -> f32;
    /// A mask of the lanes with `a > b` or a NaN in either.
    fn not_at_most(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// A mask of the lanes with `a == b`.
    fn equal(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// Prefetches a cache line into the second-level cache; the address need not be valid.
    fn prefetch(self, at: *const f32);
}
