//! The two products of attention: by the crate's GEMM for many rows of f32, and by rows otherwise.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::super::number::Real;
use crate::cpu::{
    gemm::{PackedMatrix, Prefetch},
    simd::{Isa, Lanes, WithSimd},
};

/// Fewer rows do not pay for packing.
const MIN_PACKED_ROWS: usize = 16;
/// Sums that the compiler keeps in registers.
const SUMS: usize = 16;

/// A type that attention is computed in.
pub(super) trait Products: Real + Default {
    /// `scores[row][key] = queries[row] . keys[key]`, of vectors of `dim` > 0 numbers; returns how many numbers a row has, of which those
    /// after the keys are unspecified.
    fn scores(queries: &[Self], keys: &[Self], dim: usize, scores: &mut Vec<Self>) -> usize {
        let rows = queries.len() / dim;
        let pitch = keys.len() / dim;
        scores.resize(rows * pitch, Self::ZERO);
        Isa::best().run(Dots { queries, keys, dim, scores });
        pitch
    }

    /// `part[row] = sum over keys of probabilities[row][key] * values[key]`, of rows of `pitch` probabilities and of `columns` > 0
    /// numbers; returns how many numbers a row of the result has. Probabilities after the keys are 0.
    fn weighted_values(
        probabilities: &[Self],
        pitch: usize,
        values: &[Self],
        columns: usize,
        part: &mut Vec<Self>,
    ) -> usize {
        part.clear();
        part.resize(probabilities.len() / pitch * columns, Self::ZERO);
        Isa::best().run(Combine { probabilities, pitch, values, columns, part });
        columns
    }
}

impl Products for f64 {}

impl Products for f32 {
    fn scores(queries: &[Self], keys: &[Self], dim: usize, scores: &mut Vec<Self>) -> usize {
        let rows = queries.len() / dim;
        let count = keys.len() / dim;
        if rows < MIN_PACKED_ROWS {
            scores.resize(rows * count, 0.0);
            Isa::best().run(Dots { queries, keys, dim, scores });
            return count;
        }
        let packed = PackedMatrix::new(Isa::best(), dim, count, keys);
        scores.resize(rows * packed.columns(), 0.0);
        packed.multiply(queries, scores, Prefetch::None);
        packed.columns()
    }

    fn weighted_values(
        probabilities: &[Self],
        pitch: usize,
        values: &[Self],
        columns: usize,
        part: &mut Vec<Self>,
    ) -> usize {
        let rows = probabilities.len() / pitch;
        if rows < MIN_PACKED_ROWS {
            part.clear();
            part.resize(rows * columns, 0.0);
            Isa::best().run(Combine { probabilities, pitch, values, columns, part });
            return columns;
        }
        let row = |index: usize| values.get(index * columns..(index + 1) * columns).unwrap_or_default();
        let packed = PackedMatrix::of_columns(Isa::best(), pitch, columns, row);
        part.resize(rows * packed.columns(), 0.0);
        packed.multiply(probabilities, part, Prefetch::None);
        packed.columns()
    }
}

struct Dots<'a, T> {
    queries: &'a [T],
    keys: &'a [T],
    dim: usize,
    scores: &'a mut [T],
}

impl<T: Real> WithSimd for Dots<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let keys = self.keys.len() / self.dim;
        for (query, scores) in self.queries.chunks_exact(self.dim).zip(self.scores.chunks_exact_mut(keys)) {
            for (key, score) in self.keys.chunks_exact(self.dim).zip(scores) {
                let mut sums = [T::ZERO; SUMS];
                let (a, a_rest) = query.as_chunks::<SUMS>();
                let (b, b_rest) = key.as_chunks::<SUMS>();
                for (a, b) in a.iter().zip(b) {
                    multiply_add::<T, L>(&mut sums, a, b);
                }
                multiply_add::<T, L>(&mut sums, a_rest, b_rest);
                *score = sums.into_iter().fold(T::ZERO, T::add);
            }
        }
    }
}

/// `sums += a * b`.
#[inline(always)]
fn multiply_add<T: Real, L: Lanes>(sums: &mut [T], a: &[T], b: &[T]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum = if L::HAS_FMA { a.mul_add::<true>(*b, *sum) } else { a.mul_add::<false>(*b, *sum) };
    }
}

struct Combine<'a, T> {
    probabilities: &'a [T],
    pitch: usize,
    values: &'a [T],
    columns: usize,
    part: &'a mut [T],
}

impl<T: Real> WithSimd for Combine<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let rows = self.probabilities.chunks_exact(self.pitch).zip(self.part.chunks_exact_mut(self.columns));
        for (probabilities, part) in rows {
            for (probability, values) in probabilities.iter().zip(self.values.chunks_exact(self.columns)) {
                for (sum, value) in part.iter_mut().zip(values) {
                    *sum = if L::HAS_FMA {
                        probability.mul_add::<true>(*value, *sum)
                    } else {
                        probability.mul_add::<false>(*value, *sum)
                    };
                }
            }
        }
    }
}
