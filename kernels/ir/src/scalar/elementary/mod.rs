//! Elementary functions of f32 as sequences of IEEE 754 operations of f64: one definition for the interpreter and all emitters, so that
//! all compute the same bits.
//!
//! A definition takes and returns f64, which the caller converts from and to f32. Its relative error is below 2^-39, so that the rounded
//! result is within 0.501 units in the last place of the exact one. The methods are those of the literature: reduction by
//! Cody and Waite (large angles by Payne and Hanek), then a minimax polynomial by Remez' algorithm; J.-M. Muller, "Elementary
//! Functions", 3rd edition, describes them.
//!
//! [`loops`] computes the same definitions in loops over tensors. Results need not have the bits of the interpreter there: products and sums
//! are fused, and polynomials are shorter.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

/// Passes the definitions of functions of one operand to a macro, after its context.
macro_rules! unary_definitions {
    ($then:ident, $context:tt) => {
        $then! {
            $context
            Sin => angle::sin,
            Cos => angle::cos,
            Tan => angle::tan,
            Exp => exponential::exp,
            Exp2 => exponential::exp2,
            Expm1 => exponential::expm1,
            Sinh => exponential::sinh,
            Cosh => exponential::cosh,
            Tanh => exponential::tanh,
            Log => logarithm::log,
            Log2 => logarithm::log2,
            Log10 => logarithm::log10,
            Log1p => logarithm::log1p,
            Asinh => logarithm::asinh,
            Acosh => logarithm::acosh,
            Atanh => logarithm::atanh,
            Asin => inverse::asin,
            Acos => inverse::acos,
            Atan => inverse::atan,
            Erf => erf::erf,
        }
    };
}

/// As [`unary_definitions`], of two operands.
macro_rules! binary_definitions {
    ($then:ident, $context:tt) => {
        $then! {
            $context
            Pow => exponential::pow,
            Atan2 => inverse::atan2,
            Hypot => inverse::hypot,
        }
    };
}

mod angle;
mod erf;
mod exponential;
mod inverse;
mod logarithm;
pub mod loops;
mod native;

pub(crate) use angle::{Reduction, SMALL_ANGLE, large_angle, reduce_large, reduce_small};
pub(crate) use native::{evaluate_binary, evaluate_unary};

use super::{BinaryOp, UnaryOp};

/// The values of definitions: numbers, or the code that computes them.
pub(crate) trait Arithmetic {
    /// An f64.
    type F: Copy;
    /// An i64, which wraps.
    type I: Copy;
    /// A condition.
    type B: Copy;

    /// True if polynomials are the short ones, which have the errors that [`loops`] states.
    const IS_SHORT: bool = false;
    /// True if angles are at most [`SMALL_ANGLE`], bases of powers are positive and finite, and their exponents are finite.
    const IS_PLAIN: bool = false;

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
    /// Returns true if a bit is set.
    fn has_bit(&mut self, i: Self::I, bit: u32) -> Self::B;
    /// The rest of an angle, and the turns that are left out: [`reduce_small`] or [`reduce_large`].
    fn reduce(&mut self, x: Self::F, reduction: Reduction) -> (Self::F, Self::I);

    /// `x`, or the limit that is nearer; NaN stays.
    fn clamp(&mut self, x: Self::F, low: f64, high: f64) -> Self::F {
        let low = self.number(low);
        let high = self.number(high);
        let is_low = self.lt(x, low);
        let is_high = self.lt(high, x);
        let x = self.select(is_low, low, x);
        self.select(is_high, high, x)
    }

    #[inline(always)]
    fn add_number(&mut self, x: Self::F, y: f64) -> Self::F {
        let y = self.number(y);
        self.add(x, y)
    }

    #[inline(always)]
    fn mul_number(&mut self, x: Self::F, y: f64) -> Self::F {
        let y = self.number(y);
        self.mul(x, y)
    }

    /// The sum of coefficients times powers of `x`, from the constant one.
    fn polynomial(&mut self, x: Self::F, coefficients: &[f64]) -> Self::F {
        estrin(self, x, coefficients)
    }
}

/// [`Arithmetic::polynomial`] by Estrin's scheme: its operations wait for fewer others than those of Horner's.
fn estrin<A: Arithmetic + ?Sized>(a: &mut A, x: A::F, coefficients: &[f64]) -> A::F {
    let mut terms: Vec<_> = coefficients.iter().map(|coefficient| a.number(*coefficient)).collect();
    let mut power = x;
    loop {
        let pairs = terms.chunks(2).map(|pair| match *pair {
            [low, high] => {
                let high = a.mul(high, power);
                a.add(low, high)
            }
            _ => pair[0],
        });
        terms = pairs.collect();
        if let [sum] = terms[..] {
            return sum;
        }
        power = a.mul(power, power);
    }
}

/// The further operations of the reduction of large angles; vectors leave it to their lanes.
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

/// Returns true if a function of f32 reduces angles, and so is faster where they are small.
pub(crate) const fn takes_angle(op: UnaryOp) -> bool {
    matches!(op, UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan)
}

macro_rules! dispatch {
    (($operation:ident, $op:ident, $arguments:tt) $($name:ident => $definition:path,)+) => {
        match $op {
            $($operation::$name => $definition $arguments,)+
            _ => unreachable!("{:?} is no elementary function", $op),
        }
    };
}

/// An elementary function of a number that an f32 has.
pub(crate) fn unary<A: Arithmetic>(a: &mut A, op: UnaryOp, x: A::F) -> A::F {
    unary_definitions!(dispatch, (UnaryOp, op, (a, x)))
}

/// An elementary function of two numbers that f32 have.
pub(crate) fn binary<A: Arithmetic>(a: &mut A, op: BinaryOp, x: A::F, y: A::F) -> A::F {
    binary_definitions!(dispatch, (BinaryOp, op, (a, x, y)))
}
