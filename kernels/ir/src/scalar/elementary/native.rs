//! Elementary functions of numbers.

use super::{Arithmetic, Reduction, SMALL_ANGLE, WideArithmetic, large_angle, reduce_large, reduce_small};

/// Computes at once.
pub(crate) struct Native;

impl Arithmetic for Native {
    type F = f64;
    type I = i64;
    type B = bool;

    fn number(&mut self, x: f64) -> f64 {
        x
    }

    fn integer(&mut self, i: i64) -> i64 {
        i
    }

    fn add(&mut self, x: f64, y: f64) -> f64 {
        x + y
    }

    fn sub(&mut self, x: f64, y: f64) -> f64 {
        x - y
    }

    fn mul(&mut self, x: f64, y: f64) -> f64 {
        x * y
    }

    fn div(&mut self, x: f64, y: f64) -> f64 {
        x / y
    }

    fn sqrt(&mut self, x: f64) -> f64 {
        x.sqrt()
    }

    fn abs(&mut self, x: f64) -> f64 {
        x.abs()
    }

    fn trunc(&mut self, x: f64) -> f64 {
        x.trunc()
    }

    fn copysign(&mut self, x: f64, sign: f64) -> f64 {
        x.copysign(sign)
    }

    fn lt(&mut self, x: f64, y: f64) -> bool {
        x < y
    }

    fn eq(&mut self, x: f64, y: f64) -> bool {
        x == y
    }

    fn and(&mut self, a: bool, b: bool) -> bool {
        a && b
    }

    fn select(&mut self, condition: bool, x: f64, y: f64) -> f64 {
        if condition { x } else { y }
    }

    fn bits(&mut self, x: f64) -> i64 {
        x.to_bits().cast_signed()
    }

    fn reinterpret(&mut self, bits: i64) -> f64 {
        f64::from_bits(bits.cast_unsigned())
    }

    fn add_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_add(j)
    }

    fn sub_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_sub(j)
    }

    fn xor_integers(&mut self, i: i64, j: i64) -> i64 {
        i ^ j
    }

    fn shift_left(&mut self, i: i64, by: u32) -> i64 {
        i << by
    }

    fn shift_right(&mut self, i: i64, by: u32) -> i64 {
        (i.cast_unsigned() >> by).cast_signed()
    }

    fn has_bit(&mut self, i: i64, bit: u32) -> bool {
        i >> bit & 1 != 0
    }

    fn reduce(&mut self, x: f64, reduction: Reduction) -> (f64, i64) {
        if x.abs() <= SMALL_ANGLE.into() { reduce_small(self, x, reduction) } else { reduce_large(self, x, reduction) }
    }
}

impl WideArithmetic for Native {
    fn mul_integers(&mut self, i: i64, j: i64) -> i64 {
        i.wrapping_mul(j)
    }

    fn or_integers(&mut self, i: i64, j: i64) -> i64 {
        i | j
    }

    fn shift_left_by(&mut self, i: i64, by: i64) -> i64 {
        u32::try_from(by).ok().and_then(|by| i.checked_shl(by)).unwrap_or(0)
    }

    fn shift_right_by(&mut self, i: i64, by: i64) -> i64 {
        u32::try_from(by).ok().and_then(|by| i.cast_unsigned().checked_shr(by)).unwrap_or(0).cast_signed()
    }

    fn select_integer(&mut self, condition: bool, i: i64, j: i64) -> i64 {
        if condition { i } else { j }
    }

    fn lt_integers(&mut self, i: i64, j: i64) -> bool {
        i < j
    }

    fn to_number(&mut self, i: i64) -> f64 {
        i as f64
    }

    fn large_angle(&mut self, x: f64) -> i64 {
        large_angle(self, x)
    }
}
