//! Conversions of blocks between element types.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "wraps, rounds or saturates, as conversions are defined"
)]

use accelerd_tensor::{Dtype, scalar::Literal};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::{f16, slice::HalfFloatSliceExt};

use super::instruction::map1;

/// Elements that a two-step conversion converts at a time.
const PIECE: usize = 256;

/// `out = a`, converted. Bool is 0 or 1.
pub(super) fn cast(from: Dtype, to: Dtype, a: &[u8], out: &mut [u8]) {
    match from {
        _ if from == to => out.copy_from_slice(a),
        Dtype::Bool | Dtype::U8 => from_number::<u8>(from, to, a, out),
        Dtype::I8 => from_number::<i8>(from, to, a, out),
        Dtype::U16 => from_number::<u16>(from, to, a, out),
        Dtype::I16 => from_number::<i16>(from, to, a, out),
        Dtype::U32 => from_number::<u32>(from, to, a, out),
        Dtype::I32 => from_number::<i32>(from, to, a, out),
        Dtype::U64 => from_number::<u64>(from, to, a, out),
        Dtype::I64 => from_number::<i64>(from, to, a, out),
        Dtype::F32 => from_number::<f32>(from, to, a, out),
        Dtype::F64 => from_number::<f64>(from, to, a, out),
        Dtype::F16 if to == Dtype::F32 => cast_slice::<u8, f16>(a).convert_to_f32_slice(cast_slice_mut(out)),
        Dtype::Bf16 if to == Dtype::F32 => map1(a, out, |x: u16| u32::from(x) << 16),
        Dtype::F16 | Dtype::Bf16 => through_f32(from, to, a, out),
    }
}

/// Each conversion of a 16-bit number to f32 is exact.
fn through_f32(from: Dtype, to: Dtype, a: &[u8], out: &mut [u8]) {
    let mut wide = [0.0_f32; PIECE];
    for (a, out) in a.chunks(PIECE * from.size()).zip(out.chunks_mut(PIECE * to.size())) {
        let wide = &mut wide[..a.len() / from.size()];
        cast(from, Dtype::F32, a, cast_slice_mut(wide));
        cast(Dtype::F32, to, cast_slice(wide), out);
    }
}

/// The conversions that the language defines as needed.
trait Convert: Pod {
    fn to_u8(self) -> u8;
    fn to_i8(self) -> i8;
    fn to_u16(self) -> u16;
    fn to_i16(self) -> i16;
    fn to_u32(self) -> u32;
    fn to_i32(self) -> i32;
    fn to_u64(self) -> u64;
    fn to_i64(self) -> i64;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn is_truthy(self) -> bool;
}

macro_rules! convert {
    ($($type:ty, $zero:literal;)*) => {$(
        #[allow(clippy::unnecessary_cast, clippy::float_cmp, reason = "one of the types is the type itself")]
        impl Convert for $type {
            #[inline]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline]
            fn to_i8(self) -> i8 { self as i8 }
            #[inline]
            fn to_u16(self) -> u16 { self as u16 }
            #[inline]
            fn to_i16(self) -> i16 { self as i16 }
            #[inline]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline]
            fn to_u64(self) -> u64 { self as u64 }
            #[inline]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline]
            fn is_truthy(self) -> bool { self != $zero }
        }
    )*};
}

convert! { u8, 0; i8, 0; u16, 0; i16, 0; u32, 0; i32, 0; u64, 0; i64, 0; f32, 0.0; f64, 0.0; }

fn from_number<T: Convert>(from: Dtype, to: Dtype, a: &[u8], out: &mut [u8]) {
    match to {
        Dtype::Bool => map1(a, out, |x: T| u8::from(x.is_truthy())),
        Dtype::U8 => map1(a, out, T::to_u8),
        Dtype::I8 => map1(a, out, T::to_i8),
        Dtype::U16 => map1(a, out, T::to_u16),
        Dtype::I16 => map1(a, out, T::to_i16),
        Dtype::U32 => map1(a, out, T::to_u32),
        Dtype::I32 => map1(a, out, T::to_i32),
        Dtype::U64 => map1(a, out, T::to_u64),
        Dtype::I64 => map1(a, out, T::to_i64),
        Dtype::F32 => map1(a, out, T::to_f32),
        Dtype::F64 => map1(a, out, T::to_f64),
        Dtype::F16 if from == Dtype::F32 => cast_slice_mut::<u8, f16>(out).convert_from_f32_slice(cast_slice(a)),
        Dtype::Bf16 if from == Dtype::F32 => map1(a, out, round_to_bf16),
        // f32 holds these integers.
        Dtype::F16 | Dtype::Bf16 if from.size() <= 2 => through_f32(from, to, a, out),
        // Rounding to f32 first would round twice.
        Dtype::F16 | Dtype::Bf16 => round_once(from, to, a, out),
    }
}

/// As `bf16::from_f32`, without branches.
fn round_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

fn round_once(from: Dtype, to: Dtype, a: &[u8], out: &mut [u8]) {
    for (a, out) in a.chunks(from.size()).zip(out.chunks_mut(to.size())) {
        let mut bits = [0; 8];
        bits[..a.len()].copy_from_slice(a);
        let result = Literal::from_bits(from, u64::from_le_bytes(bits)).cast(to);
        out.copy_from_slice(&result.bits().to_le_bytes()[..to.size()]);
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn f32_rounds_to_bf16_as_its_type_says() {
        for bits in (0..u32::MAX - 65_521).step_by(65_521) {
            let x = f32::from_bits(bits);
            assert_eq!(round_to_bf16(x), bf16::from_f32(x).to_bits(), "{x}");
        }
    }
}
