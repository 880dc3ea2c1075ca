//! Inputs of a function, and the values that they may have.

use std::fmt;

use accelerd_ir::Dtype;

use crate::values::Values;

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
    /// Whether NaN is a value.
    pub allow_nan: bool,
    /// Whether infinities are values, each if there is no bound on its side.
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

/// An input of a function: a scalar, or a list whose length is the same in each case.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    name: String,
    length: Option<u32>,
    domain: Domain,
    values: Values,
}

impl Input {
    /// An input. With a length it is a list of that many elements.
    ///
    /// A bound that a floating-point type does not represent is rounded into the domain.
    pub fn new(name: impl Into<String>, dtype: Dtype, length: Option<u32>, domain: Domain) -> Result<Self, InputError> {
        Ok(Self { name: name.into(), length, domain, values: Values::new(dtype, &domain)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of the scalar, or of the elements.
    pub fn dtype(&self) -> Dtype {
        self.values.dtype()
    }

    /// Elements of the list, or `None` for a scalar.
    pub fn length(&self) -> Option<u32> {
        self.length
    }

    /// The domain that it was made with.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Bytes of a case.
    pub fn case_bytes(&self) -> usize {
        self.elements() * self.dtype().size()
    }

    /// Whether a column has whole elements, all of which are in the domain.
    pub fn contains(&self, column: &[u8]) -> bool {
        column.len().is_multiple_of(self.dtype().size())
            && self.values.decode(column).all(|value| self.values.contains(value))
    }

    pub(crate) fn elements(&self) -> usize {
        self.length.map_or(1, |length| length as usize)
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(dtype: Dtype, domain: Domain) -> String {
        Input::new("x", dtype, None, domain).expect_err("the domain is wrong").to_string()
    }

    fn between(lower: impl Into<Bound>, upper: impl Into<Bound>) -> Domain {
        Domain { lower: Some(lower.into()), upper: Some(upper.into()), ..Domain::default() }
    }

    #[test]
    fn a_wrong_domain_is_refused_with_what_was_expected() {
        assert_eq!(error(Dtype::F32, between(f64::NAN, 1.0)), "expected a finite bound, got NaN");
        assert_eq!(error(Dtype::F64, between(0, f64::INFINITY)), "expected a finite bound, got inf");
        assert_eq!(error(Dtype::I32, between(0.5, 4)), "expected an integer as a bound of i32, got 0.5");
        assert_eq!(error(Dtype::U8, between(-1, 4)), "expected a bound in the range of u8, got -1");
        let above = "expected a bound in the range of i64, got 9.223372036854776e18";
        assert_eq!(error(Dtype::I64, between(-1, 2f64.powi(63))), above);
        assert_eq!(error(Dtype::F16, between(0, 65520)), "expected a bound in the range of f16, got 65520");
        let reversed = "expected bounds with a value of i8 between them, got 3 to 2";
        assert_eq!(error(Dtype::I8, between(3, 2)), reversed);
        let inexact = "expected bounds with a value of f32 between them, got 0.1 to 0.1";
        assert_eq!(error(Dtype::F32, between(0.1, 0.1)), inexact);
        let nan = Domain { allow_nan: true, ..Domain::default() };
        assert_eq!(error(Dtype::I32, nan), "expected a floating-point type to allow NaN or infinities, got i32");
    }

    #[test]
    fn an_inexact_bound_is_rounded_into_the_domain() {
        let input = Input::new("x", Dtype::F32, None, between(0.1, 16_777_217)).expect("the domain has values");
        assert!(input.contains(&0.1f32.to_le_bytes()), "0.1 as f32 is above 0.1");
        assert!(input.contains(&16_777_216f32.to_le_bytes()));
        assert!(!input.contains(&16_777_218f32.to_le_bytes()));
        assert!(!input.contains(&0.1f32.next_down().to_le_bytes()));
    }

    #[test]
    fn a_domain_from_zero_contains_negative_zero() {
        let input = Input::new("x", Dtype::F64, None, between(0.0, 1)).expect("the domain has values");
        assert!(input.contains(&(-0f64).to_le_bytes()));
        assert!(!input.contains(&(-5e-324f64).to_le_bytes()));
        assert!(!input.contains(&[0; 9]), "no whole elements");
    }

    #[test]
    fn infinities_are_values_where_no_bound_is() {
        let domain = Domain { lower: Some(Bound::Integer(0)), allow_infinity: true, ..Domain::default() };
        let input = Input::new("x", Dtype::F16, None, domain).expect("the domain has values");
        assert!(input.contains(&0x7c00u16.to_le_bytes()));
        assert!(!input.contains(&0xfc00u16.to_le_bytes()));
        assert!(!input.contains(&0x7e00u16.to_le_bytes()), "NaN");
    }
}
