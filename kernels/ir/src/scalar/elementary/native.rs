//! Elementary functions of numbers.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use super::{
    Arithmetic, Reduction, SMALL_ANGLE, WideArithmetic, binary, estrin, large_angle, reduce_large, reduce_small, unary,
};
use crate::scalar::{BinaryOp, UnaryOp};

/// Computes at once.
///
/// `IN_LOOP` replaces branches and Estrin's scheme by what a vectorised loop computes faster, and takes the short polynomials; `FMA` fuses
/// products with sums; `PLAIN` is [`Arithmetic::IS_PLAIN`].
pub(super) struct Native<const IN_LOOP: bool, const FMA: bool, const PLAIN: bool>;

/// The sequence of operations that all emitters write.
type Exact = Native<false, false, false>;

/// An elementary function of one f32, before the result is rounded.
pub(crate) fn evaluate_unary(op: UnaryOp, x: f64) -> f64 {
    unary(&mut Exact {}, op, x.into()).value
}

/// An elementary function of two f32, before the result is rounded.
pub(crate) fn evaluate_binary(op: BinaryOp, x: f64, y: f64) -> f64 {
    binary(&mut Exact {}, op, x.into(), y.into()).value
}

/// A number, and the factors of which it is the product.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) value: f64,
    factors: Option<[f64; 2]>,
}

impl From<f64> for Term {
    #[inline(always)]
    fn from(value: f64) -> Self {
        Self { value, factors: None }
    }
}

#[expect(clippy::float_cmp, reason = "the function is defined by equality")]
impl<const IN_LOOP: bool, const FMA: bool, const PLAIN: bool> Arithmetic for Native<IN_LOOP, FMA, PLAIN> {
    type F = Term;
    type I = i64;
    type B = bool;

    const IS_SHORT: bool = IN_LOOP;
    const IS_PLAIN: bool = PLAIN;

    #[inline(always)]
    fn number(&mut self, x: f64) -> Term {
        x.into()
    }

    #[inline(always)]
    fn integer(&mut self, i: i64) -> i64 {
        i
    }

    #[inline(always)]
    fn add(&mut self, x: Term, y: Term) -> Term {
        let sum = match (x.factors, y.factors) {
            (_, Some([a, b])) if FMA => a.mul_add(b, x.value),
            (Some([a, b]), None) if FMA => a.mul_add(b, y.value),
            _ => x.value + y.value,
        };
        sum.into()
    }

    #[inline(always)]
    fn sub(&mut self, x: Term, y: Term) -> Term {
        let difference = match (x.factors, y.factors) {
            (_, Some([a, b])) if FMA => (-a).mul_add(b, x.value),
            (Some([a, b]), None) if FMA => a.mul_add(b, -y.value),
            _ => x.value - y.value,
        };
        difference.into()
    }

    #[inline(always)]
    fn mul(&mut self, x: Term, y: Term) -> Term {
        Term { value: x.value * y.value, factors: Some([x.value, y.value]) }
    }

    #[inline(always)]
    fn mul_number(&mut self, x: Term, y: f64) -> Term {
        // Its factors remain those of the product.
        if y == 1.0 { x } else { self.mul(x, y.into()) }
    }

    #[inline(always)]
    fn div(&mut self, x: Term, y: Term) -> Term {
        (x.value / y.value).into()
    }

    #[inline(always)]
    fn sqrt(&mut self, x: Term) -> Term {
        x.value.sqrt().into()
    }

    #[inline(always)]
    fn abs(&mut self, x: Term) -> Term {
        x.value.abs().into()
    }

    #[inline(always)]
    fn trunc(&mut self, x: Term) -> Term {
        x.value.trunc().into()
    }

    #[inline(always)]
    fn copysign(&mut self, x: Term, sign: Term) -> Term {
        x.value.copysign(sign.value).into()
    }

    #[inline(always)]
    fn lt(&mut self, x: Term, y: Term) -> bool {
        x.value < y.value
    }

    #[inline(always)]
    fn eq(&mut self, x: Term, y: Term) -> bool {
        x.value == y.value
    }

    #[inline(always)]
    fn and(&mut self, a: bool, b: bool) -> bool {
        a & b
    }

    #[inline(always)]
    fn select(&mut self, condition: bool, x: Term, y: Term) -> Term {
        (if condition { x.value } else { y.value }).into()
    }

    #[inline(always)]
    fn clamp(&mut self, x: Term, low: f64, high: f64) -> Term {
        // Two instructions; NaN stays.
        let x = if x.value < low { low } else { x.value };
        (if x > high { high } else { x }).into()
    }

    #[inline(always)]
    fn bits(&mut self, x: Term) -> i64 {
        x.value.to_bits().cast_signed()
    }

    #[inline(always)]
    fn reinterpret(&mut self, bits: i64) -> Term {
        f64::from_bits(bits.cast_unsigned()).into()
    }

    #[inline(always)]
    fn add_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_add(j)
    }

    #[inline(always)]
    fn sub_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_sub(j)
    }

    #[inline(always)]
    fn xor_integers(&mut self, i: i64, j: i64) -> i64 {
        i ^ j
    }

    #[inline(always)]
    fn shift_left(&mut self, i: i64, by: u32) -> i64 {
        i << by
    }

    #[inline(always)]
    fn shift_right(&mut self, i: i64, by: u32) -> i64 {
        (i.cast_unsigned() >> by).cast_signed()
    }

    #[inline(always)]
    fn has_bit(&mut self, i: i64, bit: u32) -> bool {
        i >> bit & 1 != 0
    }

    #[inline(always)]
    fn reduce(&mut self, x: Term, reduction: Reduction) -> (Term, i64) {
        let is_small = x.value.abs() <= SMALL_ANGLE.into();
        if PLAIN {
            reduce_small(self, x, reduction)
        } else if IN_LOOP {
            let small = reduce_small(self, x, reduction);
            let large = reduce_large(self, x, reduction);
            if is_small { small } else { large }
        } else if is_small {
            reduce_small(self, x, reduction)
        } else {
            reduce_large(self, x, reduction)
        }
    }

    /// Horner's scheme has fewer operations, and those of other lanes do not wait for them.
    #[inline(always)]
    fn polynomial(&mut self, x: Term, coefficients: &[f64]) -> Term {
        if !IN_LOOP {
            return estrin(self, x, coefficients);
        }
        let mut sum = Term::from(coefficients[coefficients.len() - 1]);
        for nth in (0..coefficients.len() - 1).rev() {
            let product = self.mul(sum, x);
            sum = self.add(product, coefficients[nth].into());
        }
        sum
    }
}

impl<const IN_LOOP: bool, const FMA: bool, const PLAIN: bool> WideArithmetic for Native<IN_LOOP, FMA, PLAIN> {
    #[inline(always)]
    fn mul_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_mul(j)
    }

    #[inline(always)]
    fn or_integers(&mut self, i: i64, j: i64) -> i64 {
        i | j
    }

    #[inline(always)]
    fn shift_left_by(&mut self, i: i64, by: i64) -> i64 {
        if by.cast_unsigned() < 64 { i << (by & 63) } else { 0 }
    }

    #[inline(always)]
    fn shift_right_by(&mut self, i: i64, by: i64) -> i64 {
        if by.cast_unsigned() < 64 { (i.cast_unsigned() >> (by & 63)).cast_signed() } else { 0 }
    }

    #[inline(always)]
    fn select_integer(&mut self, condition: bool, i: i64, j: i64) -> i64 {
        if condition { i } else { j }
    }

    #[inline(always)]
    fn lt_integers(&mut self, i: i64, j: i64) -> bool {
        i < j
    }

    #[inline(always)]
    fn to_number(&mut self, i: i64) -> Term {
        (i as f64).into()
    }

    #[inline(always)]
    fn large_angle(&mut self, x: Term) -> i64 {
        large_angle(self, x)
    }
}
