//! Dot products and squared distances of f32 rows in f64, summed in one fixed order on all machines.
//!
//! The product of two f32 is exact in f64, so only the additions round: the error is at most D * 2^-53 of the sum of
//! magnitudes. No intermediate result can overflow.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::simd::{Isa, Lanes, WithSimd};

/// Number of independent partial sums.
const LANES: usize = 32;

/// `sum(a * b)`.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    Isa::best().run(Sum { a, b, term: |x: f64, y: f64| x * y })
}

/// `sum(a * a)`.
pub(crate) fn squared_norm(a: &[f32]) -> f64 {
    dot(a, a)
}

/// `sum((a - b)^2)`.
pub(crate) fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    Isa::best().run(Sum { a, b, term: |x: f64, y: f64| (x - y) * (x - y) })
}

struct Sum<'a, F> {
    a: &'a [f32],
    b: &'a [f32],
    term: F,
}

impl<F: Fn(f64, f64) -> f64> WithSimd for Sum<'_, F> {
    type Out = f64;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> f64 {
        let mut sums = [0.0; LANES];
        let (a, a_rest) = self.a.as_chunks::<LANES>();
        let (b, b_rest) = self.b.as_chunks::<LANES>();
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                sums[lane] += (self.term)(f64::from(a[lane]), f64::from(b[lane]));
            }
        }
        for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
            *sum += (self.term)(f64::from(*a), f64::from(*b));
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                sums[lane] += sums[lane + width];
            }
        }
        sums[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_plain_loops() {
        for dim in [0, 1, 15, 16, 17, 100, 768] {
            let a: Vec<f32> = (0..dim).map(|i| (i as f32 * 0.7).sin()).collect();
            let b: Vec<f32> = (0..dim).map(|i| (i as f32 * 1.3).cos()).collect();
            let pairs = || a.iter().zip(&b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
            assert!((dot(&a, &b) - pairs().map(|(a, b)| a * b).sum::<f64>()).abs() < 1e-11);
            assert!((squared_distance(&a, &b) - pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>()).abs() < 1e-11);
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let a: Vec<f32> = (0..1001).map(|i| (i as f32 * 0.7).sin()).collect();
        let sums: Vec<u64> = Isa::all()
            .into_iter()
            .map(|isa| isa.run(Sum { a: &a, b: &a, term: |x: f64, y: f64| x * y }).to_bits())
            .collect();
        assert!(sums.iter().all(|sum| *sum == sums[0]));
    }
}
