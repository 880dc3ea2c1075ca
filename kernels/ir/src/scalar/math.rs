//! Elementary functions: one definition for the interpreter and for hosts of WebAssembly.
//!
//! Those of f32 are sequences of IEEE 754 operations, within 0.501 units in the last place of the exact result, and have the same bits
//! everywhere. Those of f64 are the standard library's and `libm`'s. [`loops`](super::loops) has faster ones of f32, of which the last bit
//! may differ.

use super::{
    BinaryOp, UnaryOp,
    elementary::{evaluate_binary, evaluate_unary},
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

/// The function of f64 of an operation; `None` if it is not in [`UNARY`].
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub fn unary_function(op: UnaryOp) -> Option<fn(f64) -> f64> {
    let function: fn(f64) -> f64 = match op {
        UnaryOp::Exp => f64::exp,
        UnaryOp::Exp2 => f64::exp2,
        UnaryOp::Expm1 => f64::exp_m1,
        UnaryOp::Log => f64::ln,
        UnaryOp::Log2 => f64::log2,
        UnaryOp::Log10 => f64::log10,
        UnaryOp::Log1p => f64::ln_1p,
        UnaryOp::Sin => f64::sin,
        UnaryOp::Cos => f64::cos,
        UnaryOp::Tan => f64::tan,
        UnaryOp::Asin => f64::asin,
        UnaryOp::Acos => f64::acos,
        UnaryOp::Atan => f64::atan,
        UnaryOp::Sinh => f64::sinh,
        UnaryOp::Cosh => f64::cosh,
        UnaryOp::Tanh => f64::tanh,
        // The standard library's lose digits near 1 and overflow.
        UnaryOp::Asinh => libm::asinh,
        UnaryOp::Acosh => acosh,
        UnaryOp::Atanh => libm::atanh,
        UnaryOp::Erf => libm::erf,
        _ => return None,
    };
    Some(function)
}

fn acosh(x: f64) -> f64 {
    // That of libm has numbers for large negative operands.
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The function of f64 of an operation; `None` if it is not in [`BINARY`].
#[expect(clippy::wildcard_enum_match_arm, reason = "the other operations are no elementary functions")]
pub fn binary_function(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    let function: fn(f64, f64) -> f64 = match op {
        BinaryOp::Pow => f64::powf,
        BinaryOp::Atan2 => f64::atan2,
        BinaryOp::Hypot => f64::hypot,
        _ => return None,
    };
    Some(function)
}

/// The result of [`unary_function`].
///
/// # Panics
/// If the operation is not in [`UNARY`].
pub fn unary(op: UnaryOp, x: f64) -> f64 {
    let function = unary_function(op).unwrap_or_else(|| unreachable!("{op:?} is no elementary function"));
    function(x)
}

/// The result of [`binary_function`].
///
/// # Panics
/// If the operation is not in [`BINARY`].
pub fn binary(op: BinaryOp, x: f64, y: f64) -> f64 {
    let function = binary_function(op).unwrap_or_else(|| unreachable!("{op:?} is no elementary function"));
    function(x, y)
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is not in [`UNARY`].
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operand")]
pub fn unary_f32(op: UnaryOp, x: f32) -> f32 {
    evaluate_unary(op, x.into()) as f32
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is not in [`BINARY`].
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operands")]
pub fn binary_f32(op: BinaryOp, x: f32, y: f32) -> f32 {
    evaluate_binary(op, x.into(), y.into()) as f32
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
