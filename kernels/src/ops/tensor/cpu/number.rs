//! Arithmetic of the types that functions compute in, and the dispatch from [`Dtype`] to them.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use accelerd_tensor::{
    Dtype,
    scalar::loops::{Exp, UnaryFunction as _},
};

/// A type that functions compute in. Bool computes as u8 of 0 and 1.
pub(super) trait Number: bytemuck::Pod + PartialOrd + Send + Sync {
    const ZERO: Self;
    const ONE: Self;
    /// No value is greater.
    const LEAST: Self;
    /// No value is less.
    const GREATEST: Self;
    /// True if 0 and -0 are equal and have different bits.
    const HAS_SIGNED_ZEROS: bool;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// `self * b + c`, fused if `FMA` and the type has it.
    fn mul_add<const FMA: bool>(self, b: Self, c: Self) -> Self;
    /// 0 for integers if the divisor is 0.
    fn div(self, other: Self) -> Self;
    /// As [`Self::div`].
    fn rem(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn magnitude(self) -> Self;
    /// All bits of an integer inverted; no operation of floating-point numbers.
    fn complement(self) -> Self;
    /// -1, 0 or 1; NaN for NaN.
    fn sign(self) -> Self;
    fn is_nan(self) -> bool;

    /// The lesser; NaN if either is. -0 is less than 0.
    fn minimum(self, other: Self) -> Self;
    /// The greater; NaN if either is.
    fn maximum(self, other: Self) -> Self;
}

/// Integers, and bool as u8.
pub(super) trait Integer: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// 0 if the distance is negative or not below the number of bits.
    fn shl(self, distance: Self) -> Self;
    /// Only the sign remains if the distance is negative or not below the number of bits.
    fn shr(self, distance: Self) -> Self;
    /// The upper half of the product.
    fn mul_high(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty, $wide:ty, $sign:expr, $abs:expr;)*) => {$(
        impl Number for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const HAS_SIGNED_ZEROS: bool = false;
            const GREATEST: Self = Self::MAX;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn mul_add<const FMA: bool>(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                let abs: fn(Self) -> Self = $abs;
                abs(self)
            }
            #[inline(always)]
            fn complement(self) -> Self {
                !self
            }
            #[inline(always)]
            fn sign(self) -> Self {
                let sign: fn(Self) -> Self = $sign;
                sign(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                if self < other { self } else { other }
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
        }

        impl Integer for $type {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn shl(self, distance: Self) -> Self {
                u32::try_from(distance).ok().and_then(|by| self.checked_shl(by)).unwrap_or(0)
            }
            #[inline(always)]
            fn shr(self, distance: Self) -> Self {
                let by = u32::try_from(distance).ok();
                by.and_then(|by| self.checked_shr(by)).unwrap_or((self >> (Self::BITS - 1)) >> 1)
            }
            #[inline(always)]
            fn mul_high(self, other: Self) -> Self {
                ((<$wide>::from(self) * <$wide>::from(other)) >> Self::BITS) as $type
            }
        }
    )*};
}

integers! {
    u8, u16, |x| Ord::min(x, 1), |x| x;
    u16, u32, |x| Ord::min(x, 1), |x| x;
    u32, u64, |x| Ord::min(x, 1), |x| x;
    u64, u128, |x| Ord::min(x, 1), |x| x;
    i8, i16, i8::signum, i8::wrapping_abs;
    i16, i32, i16::signum, i16::wrapping_abs;
    i32, i64, i32::signum, i32::wrapping_abs;
    i64, i128, i64::signum, i64::wrapping_abs;
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        #[expect(clippy::float_cmp, reason = "equality of the exact values is meant")]
        impl Number for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const HAS_SIGNED_ZEROS: bool = true;
            const GREATEST: Self = Self::INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn mul_add<const FMA: bool>(self, b: Self, c: Self) -> Self {
                if FMA { <$type>::mul_add(self, b, c) } else { self * b + c }
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                <$type>::abs(self)
            }
            #[inline(always)]
            fn complement(self) -> Self {
                self
            }
            #[inline(always)]
            fn sign(self) -> Self {
                let sign = if self > 0.0 { 1.0 } else { self };
                let sign = if self < 0.0 { -1.0 } else { sign };
                // +0 for -0.
                if self == 0.0 { 0.0 } else { sign }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                // Equal numbers have equal bits, but for the sign of 0.
                let other = if self == other { Self::from_bits(self.to_bits() | other.to_bits()) } else { other };
                if <$type>::is_nan(self) | (self < other) { self } else { other }
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                let other = if self == other { Self::from_bits(self.to_bits() & other.to_bits()) } else { other };
                if <$type>::is_nan(self) | (self > other) { self } else { other }
            }
        }
    )*};
}

floats!(f32, f64);

/// A floating-point type.
pub(super) trait Real: Number {
    fn to_f64(self) -> f64;
    /// Rounds.
    fn from_f64(x: f64) -> Self;
    /// `e^x` to the precision of the type.
    fn exp(x: f64) -> f64;
}

impl Real for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "rounds")]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        Exp::compute::<false, true>(x)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        x.exp()
    }
}

/// A function that is generic over the Rust type of an element type.
pub(super) trait NumberVisitor {
    type Out;
    fn visit<T: Number>(self) -> Self::Out;
}

/// As [`NumberVisitor`], for integers.
pub(super) trait IntegerVisitor {
    type Out;
    fn visit<T: Integer>(self) -> Self::Out;
}

/// Visits the type that computes `dtype`; `None` for the 16-bit floating-point types, which are storage types.
pub(super) fn visit_number<V: NumberVisitor>(dtype: Dtype, visitor: V) -> Option<V::Out> {
    Some(match dtype {
        Dtype::Bool | Dtype::U8 => visitor.visit::<u8>(),
        Dtype::I8 => visitor.visit::<i8>(),
        Dtype::U16 => visitor.visit::<u16>(),
        Dtype::I16 => visitor.visit::<i16>(),
        Dtype::U32 => visitor.visit::<u32>(),
        Dtype::I32 => visitor.visit::<i32>(),
        Dtype::U64 => visitor.visit::<u64>(),
        Dtype::I64 => visitor.visit::<i64>(),
        Dtype::F32 => visitor.visit::<f32>(),
        Dtype::F64 => visitor.visit::<f64>(),
        Dtype::F16 | Dtype::Bf16 => return None,
    })
}

/// As [`visit_number`]; `None` for floating-point types.
pub(super) fn visit_integer<V: IntegerVisitor>(dtype: Dtype, visitor: V) -> Option<V::Out> {
    Some(match dtype {
        Dtype::Bool | Dtype::U8 => visitor.visit::<u8>(),
        Dtype::I8 => visitor.visit::<i8>(),
        Dtype::U16 => visitor.visit::<u16>(),
        Dtype::I16 => visitor.visit::<i16>(),
        Dtype::U32 => visitor.visit::<u32>(),
        Dtype::I32 => visitor.visit::<i32>(),
        Dtype::U64 => visitor.visit::<u64>(),
        Dtype::I64 => visitor.visit::<i64>(),
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => return None,
    })
}
