//! Elementary functions: one definition for the interpreter and for hosts of WebAssembly.
//!
//! Those of f32 are sequences of IEEE 754 operations, within 0.501 units in the last place of the exact result, and have the same bits
//! everywhere. Those of f64 are the standard library's and `libm`'s.

use super::{
    BinaryOp, UnaryOp,
    elementary::{self, Native},
};

/// Operations of one operand that [`unary`] computes.
pub const UNARY: [UnaryOp; 20] = [
    UnaryOp::Exp,
    UnaryOp::Exp2,
    UnaryOp::Expm1,
    UnaryOp::Log,
    UnaryOp::Log2,
    UnaryOp::Log10,
    UnaryOp::Log1p,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tan,
    UnaryOp::Asin,
    UnaryOp::Acos,
    UnaryOp::Atan,
    UnaryOp::Sinh,
    UnaryOp::Cosh,
    UnaryOp::Tanh,
    UnaryOp::Asinh,
    UnaryOp::Acosh,
    UnaryOp::Atanh,
    UnaryOp::Erf,
];

/// Operations of two operands that [`binary`] computes.
pub const BINARY: [BinaryOp; 3] = [BinaryOp::Pow, BinaryOp::Atan2, BinaryOp::Hypot];

/// The function of f64 of an operation.
///
/// # Panics
/// If the operation is not in [`UNARY`].
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub fn unary(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Exp => x.exp(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Log10 => x.log10(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Asin => x.asin(),
        UnaryOp::Acos => x.acos(),
        UnaryOp::Atan => x.atan(),
        UnaryOp::Sinh => x.sinh(),
        UnaryOp::Cosh => x.cosh(),
        UnaryOp::Tanh => x.tanh(),
        // The standard library's lose digits near 1 and overflow.
        UnaryOp::Asinh => libm::asinh(x),
        // That of libm has numbers for large negative operands.
        UnaryOp::Acosh if x < 1.0 => f64::NAN,
        UnaryOp::Acosh => libm::acosh(x),
        UnaryOp::Atanh => libm::atanh(x),
        UnaryOp::Erf => libm::erf(x),
        _ => unreachable!("{op:?} is no elementary function"),
    }
}

/// The function of f64 of an operation.
///
/// # Panics
/// If the operation is not in [`BINARY`].
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub fn binary(op: BinaryOp, x: f64, y: f64) -> f64 {
    match op {
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::Hypot => x.hypot(y),
        _ => unreachable!("{op:?} is no elementary function"),
    }
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is not in [`UNARY`].
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operand")]
pub fn unary_f32(op: UnaryOp, x: f32) -> f32 {
    elementary::unary(&mut Native, op, x.into()) as f32
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is not in [`BINARY`].
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operands")]
pub fn binary_f32(op: BinaryOp, x: f32, y: f32) -> f32 {
    elementary::binary(&mut Native, op, x.into(), y.into()) as f32
}

/// An elementary function by its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MathOp {
    /// An operation of [`UNARY`].
    Unary(UnaryOp),
    /// An operation of [`BINARY`].
    Binary(BinaryOp),
}

impl MathOp {
    /// All elementary functions.
    pub fn all() -> impl Iterator<Item = Self> {
        UNARY.into_iter().map(Self::Unary).chain(BINARY.into_iter().map(Self::Binary))
    }

    /// Whether the operation is one of them.
    pub(crate) fn is_elementary(self) -> bool {
        match self {
            Self::Unary(op) => UNARY.contains(&op),
            Self::Binary(op) => BINARY.contains(&op),
        }
    }

    /// Its name: that of the operation in lower case, such as `sin`.
    pub fn name(self) -> String {
        let name = match self {
            Self::Unary(op) => format!("{op:?}"),
            Self::Binary(op) => format!("{op:?}"),
        };
        name.to_lowercase()
    }

    /// The function of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|one| one.name() == name)
    }
}
