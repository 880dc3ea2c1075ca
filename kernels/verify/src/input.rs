//! Inputs of a function.

use accelerd_ir::Dtype;

use crate::{
    domain::{Domain, InputError},
    values::Values,
};

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

    /// Returns true if a column has whole elements, all of which are in the domain.
    pub fn contains(&self, column: &[u8]) -> bool {
        column.len().is_multiple_of(self.dtype().size())
            && self.values.decode(column).all(|value| self.values.contains(value))
    }

    /// Elements of a case: 1, or the length of a list.
    pub fn elements(&self) -> usize {
        self.length.map_or(1, |length| length as usize)
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Bound;

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
        let above = Domain { lower: Some(Bound::Float(65_504.5)), ..Domain::default() };
        assert_eq!(error(Dtype::F16, above), "expected a bound in the range of f16, got 65504.5");
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
