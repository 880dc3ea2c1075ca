//! The fast exponential of encoders, and the activations that are made of it and of a fast erf, with their error bounds.
//!
//! They compute in f32. Those of [`accelerd_ir::scalar::loops`] compute in f64 and have smaller errors, but take 1.7 to 5 times as long: half
//! as many numbers fit a vector, and a polynomial of erf has twice as many terms.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::simd::Lanes;

/// Range to which [`exp`] clamps its argument. The exponential of the lower end is about the least normal number,
/// 1e-38.
const EXP_MIN: f32 = -87.0;
const EXP_MAX: f32 = 88.0;

/// `e^x`: relative error at most 2e-7 for x from -87 to 88; arguments outside are clamped to this range.
///
/// Cody and Waite's reduction to `2^n e^r` with `|r| <= ln 2 / 2` and ln 2 split in two, then a Taylor polynomial of
/// degree 7.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = lanes.min(lanes.max(x, lanes.splat(EXP_MIN)), lanes.splat(EXP_MAX));
    let n = lanes.round(lanes.mul(x, lanes.splat(std::f32::consts::LOG2_E)));
    let r = lanes.mul_add(n, lanes.splat(-LN_2_HIGH), x);
    let r = lanes.mul_add(n, lanes.splat(-LN_2_LOW), r);
    let terms = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    lanes.mul(polynomial(lanes, r, &terms), lanes.power_of_two(n))
}

/// The error function, within 5e-7: x times a rational function of x^2, fitted on [-4, 4] by weighted least squares.
/// Outside that interval erf is +-1 to the last place.
#[inline(always)]
fn erf<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    const NUMERATOR: [f32; 6] =
        [1.974_831e-6, 2.880_418_3e-4, 4.003_65e-3, 5.346_748_7e-2, 0.196_249_04, std::f32::consts::FRAC_2_SQRT_PI];
    const DENOMINATOR: [f32; 6] = [3.748_089e-5, 1.216_361_2e-3, 1.544_443_8e-2, 0.116_476_25, 0.507_252_34, 1.0];
    let x = lanes.min(lanes.max(x, lanes.splat(-4.0)), lanes.splat(4.0));
    let square = lanes.mul(x, x);
    lanes.quotient(lanes.mul(x, polynomial(lanes, square, &NUMERATOR)), polynomial(lanes, square, &DENOMINATOR))
}

/// `x / 2 * (1 + erf(x / sqrt 2))`.
#[inline(always)]
pub(crate) fn gelu<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let half = lanes.mul(x, lanes.splat(0.5));
    lanes.mul_add(half, erf(lanes, lanes.mul(x, lanes.splat(std::f32::consts::FRAC_1_SQRT_2))), half)
}

/// `x / 2 * (1 + tanh(u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, computed as `x / (1 + e^-2u)`.
#[inline(always)]
pub(crate) fn gelu_tanh<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    const TWICE: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::SQRT_2;
    let inner = lanes.mul_add(lanes.mul(x, x), lanes.splat(0.044_715), lanes.splat(1.0));
    logistic_share(lanes, x, lanes.mul(lanes.mul(x, inner), lanes.splat(TWICE)))
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn silu<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    logistic_share(lanes, x, x)
}

/// `x / (1 + e^-u)`.
#[inline(always)]
fn logistic_share<L: Lanes>(lanes: L, x: L::Vector, u: L::Vector) -> L::Vector {
    let power = exp(lanes, lanes.sub(lanes.zero(), u));
    lanes.div(x, lanes.add(power, lanes.splat(1.0)))
}

/// Horner's scheme; the coefficient of the highest power comes first.
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(lanes: L, x: L::Vector, terms: &[f32; N]) -> L::Vector {
    let mut sum = lanes.splat(terms[0]);
    for term in &terms[1..] {
        sum = lanes.mul_add(sum, x, lanes.splat(*term));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::simd::{Isa, WithSimd},
        ops::encode::oracle::erf as erf_exact,
    };

    struct Each<'a, F>(&'a mut [f32], F);

    impl<F: Fn(Which, f32) -> f64> WithSimd for Each<'_, F> {
        type Out = ();

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            for which in [Which::Exp, Which::Gelu, Which::GeluTanh, Which::Silu] {
                for chunk in self.0.chunks_exact(L::WIDTH) {
                    let mut out = [0.0; 16];
                    // SAFETY: a chunk is a vector, and no vector is wider than 16 numbers.
                    unsafe {
                        let x = lanes.load(chunk.as_ptr());
                        let y = match which {
                            Which::Exp => exp(lanes, x),
                            Which::Gelu => gelu(lanes, x),
                            Which::GeluTanh => gelu_tanh(lanes, x),
                            Which::Silu => silu(lanes, x),
                        };
                        lanes.store(out.as_mut_ptr(), y);
                    }
                    for (x, y) in chunk.iter().zip(out) {
                        let expected = self.1(which, *x);
                        let bound = match which {
                            Which::Exp => 2e-7 * expected,
                            Which::Gelu | Which::GeluTanh | Which::Silu => 1e-6 * f64::from(x.abs()),
                        };
                        assert!(
                            (f64::from(y) - expected).abs() <= bound + 1e-30,
                            "{which:?}({x}) is {expected}, got {y}"
                        );
                    }
                }
            }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Which {
        Exp,
        Gelu,
        GeluTanh,
        Silu,
    }

    fn exact(which: Which, x: f32) -> f64 {
        let x = f64::from(x);
        match which {
            Which::Exp => x.exp(),
            Which::Gelu => x / 2.0 * (1.0 + erf_exact(x / 2_f64.sqrt())),
            Which::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                x / 2.0 * (1.0 + u.tanh())
            }
            Which::Silu => x / (1.0 + (-x).exp()),
        }
    }

    #[test]
    fn functions_are_within_their_error_bounds_on_every_instruction_set() {
        let mut numbers: Vec<f32> = (-8000..8000).map(|i| i as f32 * 0.00107).collect();
        numbers.extend((-8700..8800).map(|i| i as f32 * 0.01));
        numbers.truncate(numbers.len() / 16 * 16);
        for isa in Isa::all() {
            isa.run(Each(&mut numbers, exact));
        }
    }

    struct OutOfRange;

    impl WithSimd for OutOfRange {
        type Out = ();

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            assert!(lanes.largest(exp(lanes, lanes.splat(f32::NEG_INFINITY))) < 2e-38);
            assert!(lanes.largest(exp(lanes, lanes.splat(1e30))).is_finite());
            assert!(lanes.largest(silu(lanes, lanes.splat(-1e30))) <= 0.0);
        }
    }

    #[test]
    fn arguments_out_of_range_give_finite_results() {
        for isa in Isa::all() {
            isa.run(OutOfRange);
        }
    }
}
