//! The operations of scalar functions, and the types that they take.

use crate::{Dtype, Kind};

/// An operation of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Negation; wraps for integers.
    Neg,
    /// Absolute value; wraps for the least signed integer.
    Abs,
    /// -1, 0 or 1 by sign; 0 for -0, NaN for NaN.
    Sign,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Integer part.
    Trunc,
    /// Nearest integer, ties to even.
    Round,
    /// Square root.
    Sqrt,
    /// e to the power.
    Exp,
    /// 2 to the power.
    Exp2,
    /// e to the power, less 1, exact for small operands.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Binary logarithm.
    Log2,
    /// Decimal logarithm.
    Log10,
    /// Natural logarithm of 1 plus the operand, exact for small operands.
    Log1p,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Inverse sine.
    Asin,
    /// Inverse cosine.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// Error function.
    Erf,
    /// Complement of all bits of an integer; negation of a bool.
    Not,
    /// Whether the operand is NaN.
    IsNan,
    /// Whether the operand is infinite.
    IsInf,
    /// Whether the sign bit is set, also of -0. Operations other than negation, absolute value and `CopySign` leave the sign of a NaN
    /// undefined.
    SignBit,
}

/// An operation of two operands of equal type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Sum; wraps for integers.
    Add,
    /// Difference; wraps for integers.
    Sub,
    /// Product; wraps for integers.
    Mul,
    /// Quotient; truncated for integers, 0 if the divisor is 0.
    Div,
    /// Remainder of the truncated quotient, with the dividend's sign (C's `fmod`); 0 for integers if the divisor is 0.
    Rem,
    /// Power of floating-point numbers.
    Pow,
    /// Angle of the point (second operand, first operand).
    Atan2,
    /// The lesser; NaN if either is; -0 is less than 0.
    Min,
    /// The greater; NaN if either is; 0 is greater than -0.
    Max,
    /// Magnitude of the first, sign of the second.
    CopySign,
    /// Length of the hypotenuse, without overflow in between.
    Hypot,
    /// Both bits, or both truths.
    And,
    /// Either bit, or either truth.
    Or,
    /// Differing bits, or differing truths.
    Xor,
    /// Left shift of an integer; 0 if the second operand is negative or not below the number of bits.
    Shl,
    /// Right shift of an integer, arithmetic if signed; if the second operand is negative or not below the number of bits, no bit but
    /// the sign remains: -1 for a negative number, else 0.
    Shr,
    /// Equal; false for NaN.
    Eq,
    /// Not equal; true for NaN.
    Ne,
    /// Less; false for NaN.
    Lt,
    /// Less or equal; false for NaN.
    Le,
    /// The upper half of the product of integers, which has twice their bits.
    MulHigh,
}

impl UnaryOp {
    /// All operations.
    pub const ALL: [Self; 32] = [
        Self::Neg,
        Self::Abs,
        Self::Sign,
        Self::Floor,
        Self::Ceil,
        Self::Trunc,
        Self::Round,
        Self::Sqrt,
        Self::Exp,
        Self::Exp2,
        Self::Expm1,
        Self::Log,
        Self::Log2,
        Self::Log10,
        Self::Log1p,
        Self::Sin,
        Self::Cos,
        Self::Tan,
        Self::Asin,
        Self::Acos,
        Self::Atan,
        Self::Sinh,
        Self::Cosh,
        Self::Tanh,
        Self::Asinh,
        Self::Acosh,
        Self::Atanh,
        Self::Erf,
        Self::Not,
        Self::IsNan,
        Self::IsInf,
        Self::SignBit,
    ];

    /// The type of the result, or `None` if operands of this type are not supported.
    pub fn result(self, operand: Dtype) -> Option<Dtype> {
        if operand.compute() != operand {
            return None;
        }
        match self {
            Self::Neg => (operand != Dtype::Bool).then_some(operand),
            Self::Abs | Self::Sign => operand.is_signed().then_some(operand),
            Self::Not => (operand.kind() != Kind::Float).then_some(operand),
            Self::IsNan | Self::IsInf | Self::SignBit => operand.is_float().then_some(Dtype::Bool),
            Self::Floor
            | Self::Ceil
            | Self::Trunc
            | Self::Round
            | Self::Sqrt
            | Self::Exp
            | Self::Exp2
            | Self::Expm1
            | Self::Log
            | Self::Log2
            | Self::Log10
            | Self::Log1p
            | Self::Sin
            | Self::Cos
            | Self::Tan
            | Self::Asin
            | Self::Acos
            | Self::Atan
            | Self::Sinh
            | Self::Cosh
            | Self::Tanh
            | Self::Asinh
            | Self::Acosh
            | Self::Atanh
            | Self::Erf => operand.is_float().then_some(operand),
        }
    }
}

impl BinaryOp {
    /// All operations.
    pub const ALL: [Self; 21] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Rem,
        Self::Pow,
        Self::Atan2,
        Self::Min,
        Self::Max,
        Self::CopySign,
        Self::Hypot,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Shl,
        Self::Shr,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::MulHigh,
    ];

    /// The type of the result, or `None` if operands of this type are not supported.
    pub fn result(self, operands: Dtype) -> Option<Dtype> {
        if operands.compute() != operands {
            return None;
        }
        let kind = operands.kind();
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Rem => (kind != Kind::Bool).then_some(operands),
            Self::Min | Self::Max => Some(operands),
            Self::Pow | Self::Atan2 | Self::CopySign | Self::Hypot => operands.is_float().then_some(operands),
            Self::And | Self::Or | Self::Xor => (kind != Kind::Float).then_some(operands),
            Self::Shl | Self::Shr | Self::MulHigh => operands.is_integer().then_some(operands),
            Self::Eq | Self::Ne | Self::Lt | Self::Le => Some(Dtype::Bool),
        }
    }
}
