//! Elementary functions of f32 as sequences of IEEE 754 operations of f64: one definition for the interpreter and all emitters, so that
//! all compute the same bits.
//!
//! A definition takes and returns f64, which the caller converts from and to f32. Its relative error is below 2^-39, so that the rounded
//! result is within 0.501 units in the last place of the exact one. The methods are those of the literature: reduction by
//! Cody and Waite (large angles by Payne and Hanek), then a minimax polynomial by Remez' algorithm; J.-M. Muller, "Elementary
//! Functions", 3rd edition, describes them.

mod angle;
mod erf;
mod exponential;
mod inverse;
mod logarithm;
mod native;

pub(crate) use angle::{Reduction, SMALL_ANGLE, large_angle, reduce_large, reduce_small};
pub(crate) use native::Native;

use super::{BinaryOp, UnaryOp};

/// What definitions compute with: numbers, or the code that computes them.
pub(crate) trait Arithmetic {
    /// An f64.
    type F: Copy;
    /// An i64, which wraps.
    type I: Copy;
    /// A condition.
    type B: Copy;

    fn number(&mut self, x: f64) -> Self::F;
    fn integer(&mut self, i: i64) -> Self::I;
    fn add(&mut self, x: Self::F, y: Self::F) -> Self::F;
    fn sub(&mut self, x: Self::F, y: Self::F) -> Self::F;
    fn mul(&mut self, x: Self::F, y: Self::F) -> Self::F;
    fn div(&mut self, x: Self::F, y: Self::F) -> Self::F;
    fn sqrt(&mut self, x: Self::F) -> Self::F;
    fn abs(&mut self, x: Self::F) -> Self::F;
    fn trunc(&mut self, x: Self::F) -> Self::F;
    /// The magnitude of `x` with the sign of `sign`.
    fn copysign(&mut self, x: Self::F, sign: Self::F) -> Self::F;
    fn lt(&mut self, x: Self::F, y: Self::F) -> Self::B;
    fn eq(&mut self, x: Self::F, y: Self::F) -> Self::B;
    fn and(&mut self, a: Self::B, b: Self::B) -> Self::B;
    /// `x` where the condition holds, else `y`.
    fn select(&mut self, condition: Self::B, x: Self::F, y: Self::F) -> Self::F;
    fn bits(&mut self, x: Self::F) -> Self::I;
    fn reinterpret(&mut self, bits: Self::I) -> Self::F;
    fn add_integers(&mut self, i: Self::I, j: Self::I) -> Self::I;
    fn sub_integers(&mut self, i: Self::I, j: Self::I) -> Self::I;
    fn xor_integers(&mut self, i: Self::I, j: Self::I) -> Self::I;
    fn shift_left(&mut self, i: Self::I, by: u32) -> Self::I;
    /// Of the unsigned number.
    fn shift_right(&mut self, i: Self::I, by: u32) -> Self::I;
    /// Whether a bit is set.
    fn has_bit(&mut self, i: Self::I, bit: u32) -> Self::B;
    /// What is left of an angle, and the turns that are left out: [`reduce_small`] or [`reduce_large`].
    fn reduce(&mut self, x: Self::F, reduction: Reduction) -> (Self::F, Self::I);

    fn add_number(&mut self, x: Self::F, y: f64) -> Self::F {
        let y = self.number(y);
        self.add(x, y)
    }

    fn mul_number(&mut self, x: Self::F, y: f64) -> Self::F {
        let y = self.number(y);
        self.mul(x, y)
    }

    /// The sum of coefficients times powers of `x`, from the constant one, by Estrin's scheme: its operations wait for fewer others than those of
    /// Horner's.
    fn polynomial(&mut self, x: Self::F, coefficients: &[f64]) -> Self::F {
        let mut terms: Vec<_> = coefficients.iter().map(|coefficient| self.number(*coefficient)).collect();
        let mut power = x;
        loop {
            let pairs = terms.chunks(2).map(|pair| match *pair {
                [low, high] => {
                    let high = self.mul(high, power);
                    self.add(low, high)
                }
                _ => pair[0],
            });
            terms = pairs.collect();
            if let [sum] = terms[..] {
                return sum;
            }
            power = self.mul(power, power);
        }
    }
}

/// What the reduction of large angles needs besides; vectors leave it to their lanes.
pub(crate) trait WideArithmetic: Arithmetic {
    fn mul_integers(&mut self, i: Self::I, j: Self::I) -> Self::I;
    fn or_integers(&mut self, i: Self::I, j: Self::I) -> Self::I;
    /// 0 if `by` is negative or not below 64.
    fn shift_left_by(&mut self, i: Self::I, by: Self::I) -> Self::I;
    /// Of the unsigned number; 0 if `by` is negative or not below 64.
    fn shift_right_by(&mut self, i: Self::I, by: Self::I) -> Self::I;
    fn select_integer(&mut self, condition: Self::B, i: Self::I, j: Self::I) -> Self::I;
    fn lt_integers(&mut self, i: Self::I, j: Self::I) -> Self::B;
    fn to_number(&mut self, i: Self::I) -> Self::F;
    /// See [`large_angle`].
    fn large_angle(&mut self, x: Self::F) -> Self::I;
}

/// Adding it to a number below 2^51 rounds that to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

const SIGNIFICAND_BITS: u32 = 52;

/// The bits of 1, whose exponent is 0.
const ONE: i64 = 1.0_f64.to_bits().cast_signed();

/// Whether a function of f32 reduces angles, and so is faster where they are small.
pub(crate) fn takes_angle(op: UnaryOp) -> bool {
    matches!(op, UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan)
}

/// An elementary function of a number that an f32 has.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub(crate) fn unary<A: Arithmetic>(a: &mut A, op: UnaryOp, x: A::F) -> A::F {
    match op {
        UnaryOp::Sin => angle::sin(a, x),
        UnaryOp::Cos => angle::cos(a, x),
        UnaryOp::Tan => angle::tan(a, x),
        UnaryOp::Exp => exponential::exp(a, x),
        UnaryOp::Exp2 => exponential::exp2(a, x),
        UnaryOp::Expm1 => exponential::expm1(a, x),
        UnaryOp::Sinh => exponential::sinh(a, x),
        UnaryOp::Cosh => exponential::cosh(a, x),
        UnaryOp::Tanh => exponential::tanh(a, x),
        UnaryOp::Log => logarithm::log(a, x),
        UnaryOp::Log2 => logarithm::log2(a, x),
        UnaryOp::Log10 => logarithm::log10(a, x),
        UnaryOp::Log1p => logarithm::log1p(a, x),
        UnaryOp::Asinh => logarithm::asinh(a, x),
        UnaryOp::Acosh => logarithm::acosh(a, x),
        UnaryOp::Atanh => logarithm::atanh(a, x),
        UnaryOp::Asin => inverse::asin(a, x),
        UnaryOp::Acos => inverse::acos(a, x),
        UnaryOp::Atan => inverse::atan(a, x),
        UnaryOp::Erf => erf::erf(a, x),
        _ => unreachable!("{op:?} is no elementary function"),
    }
}

/// An elementary function of two numbers that f32 have.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub(crate) fn binary<A: Arithmetic>(a: &mut A, op: BinaryOp, x: A::F, y: A::F) -> A::F {
    match op {
        BinaryOp::Pow => exponential::pow(a, x, y),
        BinaryOp::Atan2 => inverse::atan2(a, x, y),
        BinaryOp::Hypot => inverse::hypot(a, x, y),
        _ => unreachable!("{op:?} is no elementary function"),
    }
}
