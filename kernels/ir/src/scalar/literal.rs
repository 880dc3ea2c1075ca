//! Typed constants, compared and hashed by their bits.

use std::fmt;

use half::{bf16, f16};

use super::round::{f64_to_odd_f32, integer_to_odd_f32};
use crate::Dtype;

/// A value of an element type: its bits, in the low bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Literal {
    dtype: Dtype,
    bits: u64,
}

impl Literal {
    /// The value with these bits; bits above the size of the type are cleared, and a bool is true if any is set.
    pub fn from_bits(dtype: Dtype, bits: u64) -> Self {
        let bits = match dtype.size() {
            _ if dtype == Dtype::Bool => u64::from(bits != 0),
            8 => bits,
            size => bits & ((1 << (8 * size)) - 1),
        };
        Self { dtype, bits }
    }

    /// The value in the first bytes of a slice, little-endian.
    ///
    /// # Panics
    /// If there are fewer bytes than the type has.
    pub fn from_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        let mut bits = [0; 8];
        bits[..dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
        Self::from_bits(dtype, u64::from_le_bytes(bits))
    }

    /// A number rounded to the type: to nearest even for floating-point types, truncated and saturated for integers.
    pub fn from_f64(dtype: Dtype, value: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as documented")]
        let bits = match dtype {
            Dtype::Bool => u64::from(value != 0.0),
            Dtype::U8 => u64::from(value as u8),
            Dtype::I8 => u64::from((value as i8).cast_unsigned()),
            Dtype::U16 => u64::from(value as u16),
            Dtype::I16 => u64::from((value as i16).cast_unsigned()),
            Dtype::U32 => u64::from(value as u32),
            Dtype::I32 => u64::from((value as i32).cast_unsigned()),
            Dtype::U64 => value as u64,
            Dtype::I64 => (value as i64).cast_unsigned(),
            Dtype::F16 => u64::from(f16::from_f32(f64_to_odd_f32(value)).to_bits()),
            Dtype::Bf16 => u64::from(bf16::from_f32(f64_to_odd_f32(value)).to_bits()),
            Dtype::F32 => u64::from((value as f32).to_bits()),
            Dtype::F64 => value.to_bits(),
        };
        Self { dtype, bits }
    }

    /// An integer: wrapped to integer types, rounded to floating-point types.
    pub fn from_i64(dtype: Dtype, value: i64) -> Self {
        Self::from_integer(dtype, value.into())
    }

    /// An integer: wrapped to integer types; one in the range of i64 or u64, rounded to floating-point types.
    pub(crate) fn from_integer(dtype: Dtype, value: i128) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "wraps, as documented")]
        let bits = match dtype {
            Dtype::F16 => u64::from(f16::from_f32(integer_to_odd_f32(value)).to_bits()),
            Dtype::Bf16 => u64::from(bf16::from_f32(integer_to_odd_f32(value)).to_bits()),
            Dtype::F32 => u64::from((value as f32).to_bits()),
            Dtype::F64 => (value as f64).to_bits(),
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64 => value as u64,
        };
        Self::from_bits(dtype, bits)
    }

    /// The value, converted to a type. A floating-point number is rounded once to a smaller floating-point type, and truncated and
    /// saturated to an integer type, where NaN is 0; an integer wraps; a bool is 0 or 1. A number is true if it is not 0.
    #[must_use]
    pub fn cast(self, to: Dtype) -> Self {
        if to == self.dtype {
            self
        } else if to == Dtype::Bool {
            Self::from_bits(to, u64::from(self.is_truthy()))
        } else if self.dtype.is_float() {
            Self::from_f64(to, self.as_f64())
        } else {
            Self::from_integer(to, self.as_integer())
        }
    }

    /// Its type.
    pub fn dtype(self) -> Dtype {
        self.dtype
    }

    /// Its bits.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Its value, exact but for integers of more than 53 bits.
    pub fn as_f64(self) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "the bits above the size are zero")]
        match self.dtype {
            Dtype::F16 => f16::from_bits(self.bits as u16).to_f64(),
            Dtype::Bf16 => bf16::from_bits(self.bits as u16).to_f64(),
            Dtype::F32 => f64::from(f32::from_bits(self.bits as u32)),
            Dtype::F64 => f64::from_bits(self.bits),
            Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64 => self.as_integer() as f64,
        }
    }

    /// The value of an integer or bool, wrapped for u64; the bits of a floating-point number.
    pub fn as_i64(self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "the bits above the size are zero")]
        match self.dtype {
            Dtype::I8 => i64::from((self.bits as u8).cast_signed()),
            Dtype::I16 => i64::from((self.bits as u16).cast_signed()),
            Dtype::I32 => i64::from((self.bits as u32).cast_signed()),
            Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::I64
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::F32
            | Dtype::F64 => self.bits.cast_signed(),
        }
    }

    /// The value of an integer or bool; the bits of a floating-point number.
    pub(crate) fn as_integer(self) -> i128 {
        if self.dtype == Dtype::U64 { self.bits.into() } else { self.as_i64().into() }
    }

    /// Returns true if it is true, or a number other than 0.
    pub fn is_truthy(self) -> bool {
        if self.dtype.is_float() { self.as_f64() != 0.0 } else { self.bits != 0 }
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dtype.is_float() {
            write!(f, "{}:{:?}", self.dtype, self.as_f64())
        } else {
            write!(f, "{}:{}", self.dtype, self.as_integer())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_bits() {
        for dtype in Dtype::ALL {
            for value in [0.0, 1.0] {
                let literal = Literal::from_f64(dtype, value);
                assert_eq!(literal.as_f64().to_bits(), f64::to_bits(value), "{dtype}");
                assert_eq!(Literal::from_bits(dtype, literal.bits()), literal);
                assert_eq!(literal.is_truthy(), value != 0.0);
            }
        }
        assert_eq!(Literal::from_i64(Dtype::I8, -3).as_i64(), -3);
        assert_eq!(Literal::from_i64(Dtype::U8, 257).as_i64(), 1, "wraps");
        assert_eq!(Literal::from_f64(Dtype::I16, 1e9).as_i64(), i64::from(i16::MAX), "saturates");
        assert_eq!(Literal::from_f64(Dtype::I32, f64::NAN).as_i64(), 0);
        assert!(Literal::from_f64(Dtype::F64, f64::NAN).is_truthy());
    }
}
