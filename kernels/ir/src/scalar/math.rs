//! Elementary functions: one definition for the interpreter and for hosts of WebAssembly.
//!
//! Those of f32 are sequences of IEEE 754 operations, within 0.501 units in the last place of the exact result, and have the same bits
//! everywhere. Those of f64 are the standard library's and `libm`'s. [`loops`](super::loops) has faster ones of f32, of which the last bit
//! may differ.

use super::{
    BinaryOp, UnaryOp,
    elementary::{evaluate_binary, evaluate_unary},
};

/// The function of f64 of an operation.
///
/// # Panics
/// If the operation is no elementary function.
pub fn unary(op: UnaryOp, x: f64) -> f64 {
    let function = op.f64_function().expect("the operation is an elementary function");
    function(x)
}

/// The function of f64 of an operation.
///
/// # Panics
/// If the operation is no elementary function.
pub fn binary(op: BinaryOp, x: f64, y: f64) -> f64 {
    let function = op.f64_function().expect("the operation is an elementary function");
    function(x, y)
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is no elementary function.
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operand")]
pub fn unary_f32(op: UnaryOp, x: f32) -> f32 {
    evaluate_unary(op, x.into()) as f32
}

/// The function of f32 of an operation.
///
/// # Panics
/// If the operation is no elementary function.
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operands")]
pub fn binary_f32(op: BinaryOp, x: f32, y: f32) -> f32 {
    evaluate_binary(op, x.into(), y.into()) as f32
}

/// An elementary function by its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MathOp {
    /// A function of one operand.
    Unary(UnaryOp),
    /// A function of two operands.
    Binary(BinaryOp),
}

impl MathOp {
    /// All elementary functions.
    pub fn all() -> impl Iterator<Item = Self> {
        UnaryOp::elementary().map(Self::Unary).chain(BinaryOp::elementary().map(Self::Binary))
    }

    /// Returns true if the operation is one of them.
    pub(crate) fn is_elementary(self) -> bool {
        match self {
            Self::Unary(op) => op.is_elementary(),
            Self::Binary(op) => op.is_elementary(),
        }
    }

    /// Number of operands.
    pub fn arity(self) -> usize {
        match self {
            Self::Unary(_) => 1,
            Self::Binary(_) => 2,
        }
    }

    /// Its name, such as `sin`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
        }
    }

    /// The function of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|one| one.name() == name)
    }
}
