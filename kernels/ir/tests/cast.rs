//! Casts between all types: as Rust's `as` where it has the types, and rounded once to 16-bit floating-point types.

use accelerd_ir::{Dtype, scalar::Literal};
use half::{bf16, f16};
use proptest::prelude::*;

/// A 16-bit floating-point type: its values by their bits, up to infinity.
struct Storage {
    dtype: Dtype,
    infinity: u16,
}

const STORAGE: [Storage; 2] =
    [Storage { dtype: Dtype::F16, infinity: 0x7c00 }, Storage { dtype: Dtype::Bf16, infinity: 0x7f80 }];

impl Storage {
    fn value(&self, bits: u16) -> f64 {
        // The number that would follow the greatest, in place of infinity.
        if bits == self.infinity {
            let step = self.value(bits - 1) - self.value(bits - 2);
            return self.value(bits - 1) + step;
        }
        Literal::from_bits(self.dtype, bits.into()).as_f64()
    }
}

fn is_same(a: Literal, b: Literal) -> bool {
    a == b || (a.dtype() == b.dtype() && a.as_f64().is_nan() && b.as_f64().is_nan())
}

/// Compares the casts of `$value`, of type `$from`, with those of Rust.
macro_rules! check {
    ($from:expr, $bits:expr, $value:expr) => {{
        let from = Literal::from_bits($from, $bits);
        let expected = [
            (Dtype::U8, u64::from($value as u8)),
            (Dtype::I8, $value as i8 as u64),
            (Dtype::U16, u64::from($value as u16)),
            (Dtype::I16, $value as i16 as u64),
            (Dtype::U32, u64::from($value as u32)),
            (Dtype::I32, $value as i32 as u64),
            (Dtype::U64, $value as u64),
            (Dtype::I64, $value as i64 as u64),
            (Dtype::F32, u64::from(($value as f32).to_bits())),
            (Dtype::F64, ($value as f64).to_bits()),
            (Dtype::Bool, u64::from($value != Default::default())),
        ];
        for (to, bits) in expected {
            let expected = Literal::from_bits(to, bits);
            let result = from.cast(to);
            prop_assert!(is_same(result, expected), "{from:?} to {to}: {result:?}, not {expected:?}");
        }
    }};
}

/// Every bit pattern, and numbers near the ranges of integers, which random bits of an f64 rarely are.
fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any::<u32>().prop_map(|bits| f64::from(f32::from_bits(bits))),
        (any::<i64>(), 0..64_u32).prop_map(|(value, shift)| (value >> shift) as f64 + 0.5),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            -0.75,
            2.0_f64.powi(63),
            2.0_f64.powi(64)
        ]),
    ]
}

proptest! {
    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::float_cmp,
        reason = "the casts that are compared with"
    )]
    fn casts_are_those_of_rust(bits: u64, shift in 0..64_u32, float in floats()) {
        let bits = bits >> shift;
        check!(Dtype::U8, bits, bits as u8);
        check!(Dtype::I8, bits, bits as i8);
        check!(Dtype::U16, bits, bits as u16);
        check!(Dtype::I16, bits, bits as i16);
        check!(Dtype::U32, bits, bits as u32);
        check!(Dtype::I32, bits, bits as i32);
        check!(Dtype::U64, bits, bits);
        check!(Dtype::I64, bits, bits as i64);
        check!(Dtype::I64, !bits, !bits as i64);
        check!(Dtype::F32, (float as f32).to_bits().into(), float as f32);
        check!(Dtype::F64, float.to_bits(), float);
        check!(Dtype::F16, f16::from_f32(float as f32).to_bits().into(), f16::from_f32(float as f32).to_f32());
        check!(Dtype::Bf16, bf16::from_f32(float as f32).to_bits().into(), bf16::from_f32(float as f32).to_f32());
    }
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "f32 holds the tie")]
fn an_f64_is_rounded_once_to_16_bits() {
    for storage in STORAGE {
        for low in 0..storage.infinity {
            let high = low + 1;
            // Exact: one bit more than the values have.
            let middle = f64::midpoint(storage.value(low), storage.value(high));
            let even = if low % 2 == 0 { low } else { high };
            // The nearest f32 is beyond these; the one before it is the tie.
            let most_of_a_step = 0.75 * (f64::from((middle as f32).next_up()) - middle);
            let cases = [
                (middle - most_of_a_step, low),
                (middle.next_down(), low),
                (middle, even),
                (middle.next_up(), high),
                (middle + most_of_a_step, high),
            ];
            for (x, expected) in cases {
                let rounded = |x: f64| Literal::from_f64(Dtype::F64, x).cast(storage.dtype).bits();
                assert_eq!(rounded(x), expected.into(), "{x:e} to {}", storage.dtype);
                assert_eq!(rounded(-x), u64::from(expected | 0x8000), "-{x:e} to {}", storage.dtype);
            }
        }
    }
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "an integer below 2^63")]
fn an_integer_is_rounded_once_to_16_bits() {
    for storage in STORAGE {
        let mut ties = 0;
        for low in 0..storage.infinity {
            let below = storage.value(low);
            let above = storage.value(low + 1);
            // Both neighbours of the tie are then between the two values.
            if above - below < 4.0 || above > 2.0_f64.powi(62) {
                continue;
            }
            ties += 1;
            let middle = f64::midpoint(below, above) as i64;
            let even = if low % 2 == 0 { low } else { low + 1 };
            for (x, expected) in [(middle - 1, low), (middle, even), (middle + 1, low + 1)] {
                let rounded = |from, x| Literal::from_i64(from, x).cast(storage.dtype).bits();
                assert_eq!(rounded(Dtype::I64, x), expected.into(), "{x} to {}", storage.dtype);
                assert_eq!(rounded(Dtype::U64, x), expected.into(), "{x} to {}", storage.dtype);
                assert_eq!(rounded(Dtype::I64, -x), u64::from(expected | 0x8000), "{} to {}", -x, storage.dtype);
            }
        }
        assert!(ties > 1000, "the numbers of {} above its precision have integers between", storage.dtype);
    }
}

#[test]
fn bools_are_0_and_1_of_every_type() {
    for dtype in Dtype::ALL {
        for value in [false, true] {
            let truth = Literal::from_bits(Dtype::Bool, value.into());
            assert_eq!(truth.cast(dtype), Literal::from_f64(dtype, f64::from(u8::from(value))));
            assert_eq!(truth.cast(dtype).cast(Dtype::Bool), truth);
        }
    }
    for (float, expected) in [(-0.0, false), (f64::NAN, true), (5e-324, true)] {
        assert_eq!(Literal::from_f64(Dtype::F64, float).cast(Dtype::Bool).is_truthy(), expected, "{float}");
    }
}

#[test]
fn nan_stays_nan_in_floating_point_types_and_is_0_in_integers() {
    let floats = || Dtype::ALL.into_iter().filter(|dtype| dtype.is_float());
    for from in floats() {
        let nan = Literal::from_f64(from, f64::NAN);
        for to in floats() {
            assert!(nan.cast(to).as_f64().is_nan(), "{from} to {to}");
        }
        for to in Dtype::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
            assert_eq!(nan.cast(to), Literal::from_i64(to, 0), "{from} to {to}");
        }
    }
}

#[test]
fn every_16_bit_float_casts_as_its_f32() {
    for storage in STORAGE {
        for bits in 0..=u16::MAX {
            let value = Literal::from_bits(storage.dtype, bits.into());
            let widened = value.cast(Dtype::F32);
            for to in Dtype::ALL {
                assert!(is_same(value.cast(to), widened.cast(to)), "{value:?} to {to}");
            }
        }
    }
}
