//! Element types: bit patterns, values, and the distance between two of them.
#![expect(clippy::inline_always, reason = "compiled for an instruction set only where it is inlined")]

use std::ops::{BitOr, BitXor};

use super::scaled::{SCALE, Scaled};

/// A bit pattern or a distance: u32 for elements of up to 4 bytes, else u64.
pub(super) trait Word:
    Copy + Ord + Default + Into<u64> + BitOr<Output = Self> + BitXor<Output = Self> + Send
{
    /// 2 to the power of `exponent`, which is below the number of bits.
    fn power_of_two(exponent: u32) -> Self;
    /// Position of the highest bit, from 1; 0 for zero.
    fn bit_length(self) -> u32;
}

impl Word for u32 {
    #[inline(always)]
    fn power_of_two(exponent: u32) -> Self {
        1 << exponent
    }
    #[inline(always)]
    fn bit_length(self) -> u32 {
        Self::BITS - self.leading_zeros()
    }
}

impl Word for u64 {
    #[inline(always)]
    fn power_of_two(exponent: u32) -> Self {
        1 << exponent
    }
    #[inline(always)]
    fn bit_length(self) -> u32 {
        Self::BITS - self.leading_zeros()
    }
}

/// An element type. Elements are given by their bit patterns.
pub(super) trait Element: 'static {
    /// An element in memory, little-endian and of any alignment.
    type Raw: Copy + Sync + 'static;
    /// Its bit pattern, and distances.
    type Word: Word;
    /// The type in which differences are compared with bounds.
    type Scaled: Scaled;
    /// The largest magnitude of a finite number; NaN and infinities have larger ones.
    const MAX_FINITE: Self::Word;

    /// The elements of a tensor.
    fn raw(bytes: &[u8]) -> &[Self::Raw];
    /// The bit pattern of an element. Every true `bool` is 1.
    fn bits(raw: Self::Raw) -> Self::Word;
    /// Orders finite numbers by their absolute values.
    fn magnitude(bits: Self::Word) -> Self::Word;
    /// Units in the last place between two finite numbers, or the difference of two integers.
    fn distance(a: Self::Word, b: Self::Word) -> Self::Word;
    /// A finite number, rounded to f64 if it is an integer of 64 bits.
    fn value(bits: Self::Word) -> f64;
    /// The absolute value of a finite number.
    fn absolute(bits: Self::Word) -> f64;
    /// The absolute difference of two finite numbers, rounded to f64.
    fn difference(a: Self::Word, b: Self::Word) -> f64;
    /// The absolute value of a finite number, multiplied by [`SCALE`].
    fn scaled(bits: Self::Word) -> Self::Scaled;
    /// The absolute difference of two finite numbers, multiplied by [`SCALE`]: infinite or NaN if one of them overflows.
    fn scaled_difference(a: Self::Word, b: Self::Word) -> Self::Scaled;

    /// Returns true if it is NaN or infinite.
    #[inline(always)]
    fn is_special(bits: Self::Word) -> bool {
        Self::magnitude(bits) > Self::MAX_FINITE
    }
    /// Returns true if it is NaN.
    #[inline(always)]
    fn is_nan(_bits: Self::Word) -> bool {
        false
    }
}

macro_rules! float {
    ($name:ident, $bits:ty, $word:ty, $float:ty, $infinity:literal, $value:expr) => {
        pub(super) struct $name;

        impl $name {
            #[inline(always)]
            fn float(bits: $word) -> $float {
                let float: fn($word) -> $float = $value;
                float(bits)
            }
        }

        impl Element for $name {
            type Raw = [u8; size_of::<$bits>()];
            type Word = $word;
            type Scaled = $float;
            const MAX_FINITE: $word = $infinity - 1;

            #[inline(always)]
            fn raw(bytes: &[u8]) -> &[Self::Raw] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn bits(raw: Self::Raw) -> $word {
                <$word>::from(<$bits>::from_le_bytes(raw))
            }
            #[inline(always)]
            fn magnitude(bits: $word) -> $word {
                bits & <$word>::from(<$bits>::MAX >> 1)
            }
            // Magnitudes count the numbers from zero, so that numbers of opposite signs are as far apart as their sum.
            #[inline(always)]
            fn distance(a: $word, b: $word) -> $word {
                let x = Self::magnitude(a);
                let y = Self::magnitude(b);
                if (a ^ b) > <$word>::from(<$bits>::MAX >> 1) { x + y } else { x.abs_diff(y) }
            }
            #[inline(always)]
            fn value(bits: $word) -> f64 {
                Self::float(bits).into()
            }
            #[inline(always)]
            fn absolute(bits: $word) -> f64 {
                Self::value(Self::magnitude(bits))
            }
            #[inline(always)]
            fn difference(a: $word, b: $word) -> f64 {
                (Self::value(a) - Self::value(b)).abs()
            }
            #[inline(always)]
            fn is_nan(bits: $word) -> bool {
                Self::magnitude(bits) > $infinity
            }
            #[inline(always)]
            fn scaled(bits: $word) -> $float {
                Self::float(Self::magnitude(bits)) * <$float>::from(SCALE)
            }
            #[inline(always)]
            fn scaled_difference(a: $word, b: $word) -> $float {
                (Self::float(a) * <$float>::from(SCALE) - Self::float(b) * <$float>::from(SCALE)).abs()
            }
        }
    };
}

float!(F32, u32, u32, f32, 0x7f80_0000, f32::from_bits);
float!(Bf16, u16, u32, f32, 0x7f80, |bits| f32::from_bits(bits << 16));
float!(F16, u16, u32, f32, 0x7c00, f16_value);
float!(F64, u64, u64, f64, 0x7ff0_0000_0000_0000, f64::from_bits);

/// A finite number: moves exponent and mantissa to those of f32, and corrects the exponent by a product, which is exact, also of subnormal
/// numbers.
#[inline(always)]
fn f16_value(bits: u32) -> f32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * SCALE;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

macro_rules! integer {
    ($name:ident, $type:ty, $unsigned:ty, $word:ty) => {
        pub(super) struct $name;

        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            reason = "words hold the bits of elements"
        )]
        impl Element for $name {
            type Raw = [u8; size_of::<$type>()];
            type Word = $word;
            type Scaled = f64;
            const MAX_FINITE: $word = <$word>::MAX;

            #[inline(always)]
            fn raw(bytes: &[u8]) -> &[Self::Raw] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn bits(raw: Self::Raw) -> $word {
                <$word>::from(<$unsigned>::from_le_bytes(raw))
            }
            #[inline(always)]
            fn magnitude(bits: $word) -> $word {
                let number = bits as $type;
                number.abs_diff(0).into()
            }
            #[inline(always)]
            fn distance(a: $word, b: $word) -> $word {
                let (a, b) = (a as $type, b as $type);
                a.abs_diff(b).into()
            }
            #[inline(always)]
            fn value(bits: $word) -> f64 {
                (bits as $type) as f64
            }
            #[inline(always)]
            fn absolute(bits: $word) -> f64 {
                Self::magnitude(bits) as f64
            }
            #[inline(always)]
            fn difference(a: $word, b: $word) -> f64 {
                Self::distance(a, b) as f64
            }
            #[inline(always)]
            fn scaled(bits: $word) -> f64 {
                Self::absolute(bits) * f64::from(SCALE)
            }
            #[inline(always)]
            fn scaled_difference(a: $word, b: $word) -> f64 {
                Self::difference(a, b) * f64::from(SCALE)
            }
        }
    };
}

integer!(U8, u8, u8, u32);
integer!(I8, i8, u8, u32);
integer!(U16, u16, u16, u32);
integer!(I16, i16, u16, u32);
integer!(U32, u32, u32, u32);
integer!(I32, i32, u32, u32);
integer!(U64, u64, u64, u64);
integer!(I64, i64, u64, u64);

/// Truth values: 0, and any other byte as 1.
pub(super) struct Bool;

impl Element for Bool {
    type Raw = [u8; 1];
    type Word = u32;
    type Scaled = f64;
    const MAX_FINITE: u32 = u32::MAX;

    #[inline(always)]
    fn raw(bytes: &[u8]) -> &[[u8; 1]] {
        bytes.as_chunks().0
    }
    #[inline(always)]
    fn bits(raw: [u8; 1]) -> u32 {
        u32::from(raw[0] != 0)
    }
    #[inline(always)]
    fn magnitude(bits: u32) -> u32 {
        bits
    }
    #[inline(always)]
    fn distance(a: u32, b: u32) -> u32 {
        a ^ b
    }
    #[inline(always)]
    fn value(bits: u32) -> f64 {
        f64::from(bits)
    }
    #[inline(always)]
    fn absolute(bits: u32) -> f64 {
        f64::from(bits)
    }
    #[inline(always)]
    fn difference(a: u32, b: u32) -> f64 {
        f64::from(a ^ b)
    }
    #[inline(always)]
    fn scaled(bits: u32) -> f64 {
        Self::absolute(bits) * f64::from(SCALE)
    }
    #[inline(always)]
    fn scaled_difference(a: u32, b: u32) -> f64 {
        Self::difference(a, b) * f64::from(SCALE)
    }
}

/// Calls a function that is generic over the element type: `dispatch!(dtype, function(arguments))`.
macro_rules! dispatch {
    ($dtype:expr, $function:ident $arguments:tt) => {{
        use accelerd_ir::Dtype;
        use $crate::ops::compare::element as of;
        match $dtype {
            Dtype::Bool => $function::<of::Bool> $arguments,
            Dtype::U8 => $function::<of::U8> $arguments,
            Dtype::I8 => $function::<of::I8> $arguments,
            Dtype::U16 => $function::<of::U16> $arguments,
            Dtype::I16 => $function::<of::I16> $arguments,
            Dtype::U32 => $function::<of::U32> $arguments,
            Dtype::I32 => $function::<of::I32> $arguments,
            Dtype::U64 => $function::<of::U64> $arguments,
            Dtype::I64 => $function::<of::I64> $arguments,
            Dtype::F16 => $function::<of::F16> $arguments,
            Dtype::Bf16 => $function::<of::Bf16> $arguments,
            Dtype::F32 => $function::<of::F32> $arguments,
            Dtype::F64 => $function::<of::F64> $arguments,
        }
    }};
}
pub(super) use dispatch;
