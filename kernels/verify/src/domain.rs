//! The values that a client allows for an input.

use std::fmt;

use accelerd_ir::Dtype;

/// A bound of a domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// For integers; floating-point inputs take it as well.
    Integer(i64),
    /// For floating-point numbers; integer inputs take it if it is an integer.
    Float(f64),
}

impl From<i64> for Bound {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Bound {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

/// The values of an input: the numbers of its type from `lower` to `upper`. The default is all numbers of the type, without NaN and infinities.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Domain {
    /// The smallest number. Zero includes -0.
    pub lower: Option<Bound>,
    /// The largest number. Zero includes +0.
    pub upper: Option<Bound>,
    /// True if NaN is a value.
    pub allow_nan: bool,
    /// True if infinities are values, each if there is no bound on its side.
    pub allow_infinity: bool,
}

/// A domain that does not go with its type. The message does not name the input.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// A bound is NaN or infinite.
    #[error("expected a finite bound, got {0}")]
    NotFinite(f64),
    /// A bound of an integer type has a fraction.
    #[error("expected an integer as a bound of {dtype}, got {got:?}")]
    NotAnInteger {
        /// Type of the input.
        dtype: Dtype,
        /// The bound.
        got: f64,
    },
    /// A bound is outside of the finite numbers of the type.
    #[error("expected a bound in the range of {dtype}, got {got}")]
    OutOfRange {
        /// Type of the input.
        dtype: Dtype,
        /// The bound.
        got: Bound,
    },
    /// The lower bound is above the upper one, or no number of the type lies between them.
    #[error("expected bounds with a value of {dtype} between them, got {lower} to {upper}")]
    Empty {
        /// Type of the input.
        dtype: Dtype,
        /// The lower bound.
        lower: Bound,
        /// The upper bound.
        upper: Bound,
    },
    /// NaN or infinities are allowed for a type that has none.
    #[error("expected a floating-point type to allow NaN or infinities, got {0}")]
    NotFloat(Dtype),
}
