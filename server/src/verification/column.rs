//! Columns: the values of an input or output of all cases of a chunk, and conversions between the types of both sides.

use std::fmt;

use accelerd_ir::{Dtype, Kind, scalar::Literal};
use accelerd_tensor::TensorType;
use bytes::Bytes;

/// Parameter or result of a function for a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) extent: Extent,
}

/// Number of values of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// One.
    Scalar,
    /// A list: of this many values, or of any number that is the same for all cases of a chunk.
    List(Option<u32>),
}

/// The values of all cases, little-endian.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) dtype: Dtype,
    /// Values of a case, if it is a list.
    pub(super) length: Option<usize>,
    pub(super) data: Bytes,
}

/// As in an annotation of Python: `x: f64`, `xs: list[f64]`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, dtype, .. } = self;
        match self.extent {
            Extent::Scalar => write!(f, "{name}: {dtype}"),
            Extent::List(None) => write!(f, "{name}: list[{dtype}]"),
            Extent::List(Some(length)) => write!(f, "{name}: list[{dtype}] of {length}"),
        }
    }
}

impl Column {
    /// Bytes of a case.
    pub(super) fn case_bytes(&self) -> usize {
        self.length.unwrap_or(1) * self.dtype.size()
    }

    pub(super) fn tensor_type(&self, cases: usize) -> TensorType {
        TensorType { dtype: self.dtype, shape: [cases].into_iter().chain(self.length).collect() }
    }

    /// The values of a case.
    pub(super) fn case(&self, case: usize) -> Bytes {
        let bytes = self.case_bytes();
        self.data.slice(case * bytes..(case + 1) * bytes)
    }

    /// A column for each element of a list; a scalar as it is.
    pub(super) fn elements(self) -> Vec<Self> {
        let Some(length) = self.length else { return vec![self] };
        let size = self.dtype.size();
        let element = |nth: usize| {
            let values = self.data.chunks_exact((length * size).max(1));
            let data: Vec<u8> = values.flat_map(|case| &case[nth * size..(nth + 1) * size]).copied().collect();
            Self { dtype: self.dtype, length: None, data: data.into() }
        };
        (0..length).map(element).collect()
    }

    /// The column in another type; integers wrap and floating-point numbers are rounded where they do not fit.
    pub(super) fn convert(&self, to: Dtype) -> Self {
        if self.dtype == to {
            return self.clone();
        }
        let mut data = Vec::with_capacity(self.data.len() / self.dtype.size() * to.size());
        for value in self.data.chunks_exact(self.dtype.size()) {
            let mut bits = [0; 8];
            bits[..value.len()].copy_from_slice(value);
            let converted = Literal::from_bits(self.dtype, u64::from_le_bytes(bits)).cast(to);
            data.extend_from_slice(&converted.bits().to_le_bytes()[..to.size()]);
        }
        Self { dtype: to, data: data.into(), ..*self }
    }

    /// Replaces the values of some cases by zero.
    pub(super) fn clear(&mut self, is_cleared: &[bool]) {
        let bytes = self.case_bytes();
        let mut data = Vec::from(std::mem::take(&mut self.data));
        for (nth, _) in is_cleared.iter().enumerate().filter(|(_, is_cleared)| **is_cleared) {
            data[nth * bytes..(nth + 1) * bytes].fill(0);
        }
        self.data = data.into();
    }
}

/// Returns true if every value of a type is one of another type.
pub(super) fn contains(wide: Dtype, narrow: Dtype) -> bool {
    match (wide.kind(), narrow.kind()) {
        _ if wide == narrow => true,
        (Kind::Integer | Kind::Float, Kind::Bool) => true,
        (Kind::Integer, Kind::Integer) => match (wide.is_signed(), narrow.is_signed()) {
            (true, false) => wide.size() > narrow.size(),
            (false, true) => false,
            (true, true) | (false, false) => wide.size() >= narrow.size(),
        },
        (Kind::Float, Kind::Integer) => narrow.size() * 8 <= mantissa_bits(wide),
        (Kind::Float, Kind::Float) => wide.size() > narrow.size(),
        (Kind::Bool, _) | (Kind::Integer, Kind::Float) => false,
    }
}

/// Bits of the integers that a floating-point type has, all of them.
fn mantissa_bits(dtype: Dtype) -> usize {
    match dtype {
        Dtype::F64 => 53,
        Dtype::F32 => 24,
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => 0,
    }
}

/// The type in which results of two types are compared: integers in one that has the values of both, since a result that wrapped must not
/// look equal, and floating-point numbers in the one with fewer bits. `None` if there is none.
pub(super) fn compared_in(actual: Dtype, expected: Dtype) -> Option<Dtype> {
    match (actual.kind(), expected.kind()) {
        (Kind::Float, Kind::Float) => [actual, expected].into_iter().min_by_key(|dtype| dtype.size()),
        (Kind::Float, _) | (_, Kind::Float) => None,
        (Kind::Bool | Kind::Integer, Kind::Bool | Kind::Integer) => [actual, expected, Dtype::I64]
            .into_iter()
            .find(|dtype| contains(*dtype, actual) && contains(*dtype, expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(dtype: Dtype, data: &[u8]) -> Column {
        Column { dtype, length: None, data: Bytes::copy_from_slice(data) }
    }

    #[test]
    fn a_type_contains_another_if_it_has_all_of_its_values() {
        let cases = [
            (Dtype::I64, Dtype::I32, true),
            (Dtype::I64, Dtype::U32, true),
            (Dtype::I64, Dtype::U64, false),
            (Dtype::U64, Dtype::I8, false),
            (Dtype::F64, Dtype::I32, true),
            (Dtype::F64, Dtype::I64, false),
            (Dtype::F32, Dtype::I32, false),
            (Dtype::F32, Dtype::I16, true),
            (Dtype::F64, Dtype::F32, true),
            (Dtype::F16, Dtype::Bf16, false),
            (Dtype::F32, Dtype::F64, false),
            (Dtype::U8, Dtype::Bool, true),
            (Dtype::Bool, Dtype::U8, false),
            (Dtype::I64, Dtype::F32, false),
        ];
        for (wide, narrow, expected) in cases {
            assert_eq!(contains(wide, narrow), expected, "{wide} and {narrow}");
        }
    }

    #[test]
    fn integers_are_compared_in_the_wider_type_and_floats_in_the_narrower() {
        assert_eq!(compared_in(Dtype::I32, Dtype::I64), Some(Dtype::I64));
        assert_eq!(compared_in(Dtype::U32, Dtype::I32), Some(Dtype::I64));
        assert_eq!(compared_in(Dtype::U64, Dtype::I64), None);
        assert_eq!(compared_in(Dtype::Bool, Dtype::I32), Some(Dtype::I32));
        assert_eq!(compared_in(Dtype::F64, Dtype::F32), Some(Dtype::F32));
        assert_eq!(compared_in(Dtype::F64, Dtype::I64), None);
    }

    #[test]
    fn values_keep_their_number_in_a_type_that_has_it() {
        let narrow = column(Dtype::I8, &[0xff, 5]);
        assert_eq!(narrow.convert(Dtype::I16).data[..], [0xff, 0xff, 5, 0]);
        assert_eq!(narrow.convert(Dtype::F32).data[..], [(-1_f32).to_le_bytes(), 5_f32.to_le_bytes()].concat());
    }

    #[test]
    fn only_the_given_cases_are_cleared() {
        let mut lists = Column { length: Some(2), ..column(Dtype::U8, &[1, 2, 3, 4, 5, 6]) };
        lists.clear(&[true, false, true]);
        assert_eq!(lists.data[..], [0, 0, 3, 4, 0, 0]);
        assert_eq!(lists.case(1)[..], [3, 4]);
        assert_eq!(lists.tensor_type(3).shape, [3, 2]);
    }
}
