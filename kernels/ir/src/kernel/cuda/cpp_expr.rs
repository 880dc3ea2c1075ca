//! Text of expressions with what decides about parentheses and casts around it.

use crate::Dtype;
use crate::scalar::Literal;
use crate::scalar::cuda::ctype;

/// Precedence of operators of C++, the tightest highest.
pub(super) mod prec {
    pub(in crate::kernel::cuda) const PRIMARY: u8 = 15;
    pub(in crate::kernel::cuda) const UNARY: u8 = 14;
    pub(in crate::kernel::cuda) const PRODUCT: u8 = 12;
    pub(in crate::kernel::cuda) const SUM: u8 = 11;
    pub(in crate::kernel::cuda) const SHIFT: u8 = 10;
    pub(in crate::kernel::cuda) const COMPARE: u8 = 9;
    pub(in crate::kernel::cuda) const EQUAL: u8 = 8;
    pub(in crate::kernel::cuda) const BIT_AND: u8 = 7;
    pub(in crate::kernel::cuda) const BIT_XOR: u8 = 6;
    pub(in crate::kernel::cuda) const BIT_OR: u8 = 5;
    pub(in crate::kernel::cuda) const AND: u8 = 4;
    pub(in crate::kernel::cuda) const OR: u8 = 3;
    pub(in crate::kernel::cuda) const SELECT: u8 = 2;
}

/// The least and the greatest value that an integer expression can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: i128,
    pub(super) max: i128,
}

impl Range {
    /// All values of a type. A type that is not an integer has 0 and 1, as bool.
    pub(super) fn of(dtype: Dtype) -> Self {
        if !dtype.is_integer() {
            return Self { min: 0, max: 1 };
        }
        let bits = 8 * dtype.size();
        if dtype.is_signed() {
            Self { min: -(1 << (bits - 1)), max: (1 << (bits - 1)) - 1 }
        } else {
            Self { min: 0, max: (1 << bits) - 1 }
        }
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        other.min <= self.min && self.max <= other.max
    }

    pub(super) fn contains(self, value: i128) -> bool {
        self.min <= value && value <= self.max
    }

    /// The range of the exact result of an operation that is monotonous in each operand, or wraps around none.
    pub(super) fn combine(self, other: Self, op: impl Fn(i128, i128) -> i128) -> Self {
        let corners =
            [op(self.min, other.min), op(self.min, other.max), op(self.max, other.min), op(self.max, other.max)];
        let min = corners.into_iter().min().expect("four corners");
        Self { min, max: corners.into_iter().max().expect("four corners") }
    }
}

/// An expression of C++. Its value is that of the IR; its type is that of `dtype`, but `int` for integers of less than 32 bits that
/// were promoted.
#[derive(Clone, Debug)]
pub(super) struct CppExpr {
    pub(super) text: String,
    pub(super) prec: u8,
    pub(super) dtype: Dtype,
    pub(super) range: Range,
    /// The operand of the cast that the text is, if it is a signed number computed in an unsigned type.
    pub(super) modular: Option<Box<CppExpr>>,
    /// True if it is an integer that is a literal.
    pub(super) is_constant: bool,
}

impl CppExpr {
    pub(super) fn new(text: String, prec: u8, dtype: Dtype) -> Self {
        Self { text, prec, dtype, range: Range::of(dtype), modular: None, is_constant: false }
    }

    pub(super) fn within(self, range: Range) -> Self {
        Self { range, ..self }
    }

    pub(super) fn primary(text: impl Into<String>, dtype: Dtype) -> Self {
        Self::new(text.into(), prec::PRIMARY, dtype)
    }

    /// The text as an operand of an operator.
    pub(super) fn at(&self, prec: u8) -> String {
        if self.prec < prec { format!("({})", self.text) } else { self.text.clone() }
    }

    /// Converted to the type of `dtype` by C++, which must be able to represent the value.
    pub(super) fn convert(&self, dtype: Dtype) -> Self {
        let text = format!("({}){}", value_type(dtype), self.at(prec::UNARY));
        Self::new(text, prec::UNARY, dtype)
    }
}

/// The type of a variable.
pub(super) fn value_type(dtype: Dtype) -> &'static str {
    if dtype == Dtype::Bool { "bool" } else { ctype(dtype) }
}

/// The shortest text that has the value.
pub(super) fn literal(value: Literal) -> CppExpr {
    let dtype = value.dtype();
    if dtype.is_float() {
        return float_literal(value);
    }
    if dtype == Dtype::Bool {
        return CppExpr::primary(if value.is_truthy() { "true" } else { "false" }, dtype);
    }
    let number = if dtype == Dtype::U64 { i128::from(value.bits()) } else { i128::from(value.as_i64()) };
    integer(number, dtype)
}

/// A number within the range of an integer type.
pub(super) fn integer(number: i128, dtype: Dtype) -> CppExpr {
    let suffix = match dtype {
        Dtype::I64 => "ll",
        Dtype::U64 => "ull",
        Dtype::U32 => "u",
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::I32
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::F32
        | Dtype::F64 => "",
    };
    let is_lowest = dtype.size() >= 4 && dtype.is_signed() && number == Range::of(dtype).min;
    let text = if is_lowest {
        // The magnitude is no number of the type.
        CppExpr::new(format!("{}{suffix} - 1", number + 1), prec::SUM, dtype)
    } else {
        let prec = if number < 0 { prec::UNARY } else { prec::PRIMARY };
        CppExpr::new(format!("{number}{suffix}"), prec, dtype)
    };
    CppExpr { range: Range { min: number, max: number }, is_constant: true, ..text }
}

fn float_literal(value: Literal) -> CppExpr {
    let dtype = value.dtype();
    let bits = value.bits();
    let number = value.as_f64();
    if dtype.compute() != dtype {
        // 16-bit types are their bits.
        return CppExpr::primary(format!("{bits:#x}"), dtype);
    }
    let is_f32 = dtype == Dtype::F32;
    if !number.is_finite() {
        let f64 = format!("__longlong_as_double((long long){bits:#x}ull)");
        return CppExpr::primary(if is_f32 { format!("__uint_as_float({bits:#x}u)") } else { f64 }, dtype);
    }
    // The shortest decimal that rounds to the number.
    #[expect(clippy::cast_possible_truncation, reason = "the value of an f32")]
    let digits = if is_f32 { format!("{:?}f", number as f32) } else { format!("{number:?}") };
    let prec = if number.is_sign_negative() { prec::UNARY } else { prec::PRIMARY };
    CppExpr::new(digits, prec, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_short_and_exact() {
        let f32 = |value: f64| literal(Literal::from_f64(Dtype::F32, value)).text;
        assert_eq!(f32(2.0), "2.0f");
        assert_eq!(f32(-0.0), "-0.0f");
        assert_eq!(f32(0.1), "0.1f");
        assert_eq!(f32(1e20), "1e20f");
        assert_eq!(f32(f64::INFINITY), "__uint_as_float(0x7f800000u)");
        assert_eq!(literal(Literal::from_f64(Dtype::F64, 0.1)).text, "0.1");
        assert_eq!(literal(Literal::from_i64(Dtype::I32, i64::from(i32::MIN))).at(prec::UNARY), "(-2147483647 - 1)");
        assert_eq!(literal(Literal::from_i64(Dtype::I64, i64::MIN)).text, "-9223372036854775807ll - 1");
        assert_eq!(literal(Literal::from_i64(Dtype::I8, -128)).text, "-128");
        assert_eq!(literal(Literal::from_bits(Dtype::U64, u64::MAX)).text, "18446744073709551615ull");
        assert_eq!(literal(Literal::from_f64(Dtype::Bf16, 1.0)).text, "0x3f80");
    }
}
