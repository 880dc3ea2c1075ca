//! Elementary functions of f32: as functions of the module, and in line for vectors.

use wasm_encoder::{InstructionSink, ValType};

use super::code::Code;
use crate::scalar::elementary::{
    Arithmetic, Reduction, SMALL_ANGLE, WideArithmetic, binary, large_angle, reduce_large, reduce_small, unary,
};
use crate::scalar::{BinaryOp, UnaryOp};

/// The body of a function of an f32; one of angles calls that of [`large_angle`] by its index.
pub(super) fn unary_function(code: &mut Code, op: UnaryOp, large_angle: Option<u32>) {
    let mut scalar = Scalar { code, large_angle };
    let x = scalar.operand(0);
    let result = unary(&mut scalar, op, x);
    code.sink().local_get(result).f32_demote_f64();
}

/// The body of a function of two f32.
pub(super) fn binary_function(code: &mut Code, op: BinaryOp) {
    let mut scalar = Scalar { code, large_angle: None };
    let x = scalar.operand(0);
    let y = scalar.operand(1);
    let result = binary(&mut scalar, op, x, y);
    code.sink().local_get(result).f32_demote_f64();
}

/// The body of [`large_angle`].
pub(super) fn large_angle_function(code: &mut Code) {
    let angle = large_angle(&mut Scalar { code, large_angle: None }, 0);
    code.sink().local_get(angle);
}

/// The function of the vector of four f32 on the stack, in line. One of angles calls the function `scalar` for each lane if an angle is large.
pub(super) fn unary_vector(code: &mut Code, op: UnaryOp, scalar: Option<u32>) {
    let x = code.scratch(ValType::V128);
    code.sink().local_set(x);
    if scalar.is_some() {
        code.sink().local_get(x).f32x4_abs().f32_const(SMALL_ANGLE.into()).f32x4_splat();
        code.sink().f32x4_le().i32x4_all_true();
        code.start_if_value(ValType::V128);
    }
    in_halves(code, [x], |pair, [half]| unary(pair, op, half));
    if let Some(function) = scalar {
        code.start_else();
        code.sink().local_get(x);
        for lane in 0..4 {
            code.sink().local_get(x).f32x4_extract_lane(lane).call(function).f32x4_replace_lane(lane);
        }
        code.end();
    }
    code.release(ValType::V128, x);
}

/// The function of the two vectors of four f32 on the stack, in line.
pub(super) fn binary_vector(code: &mut Code, op: BinaryOp) {
    let [x, y] = [(); 2].map(|()| code.scratch(ValType::V128));
    code.sink().local_set(y).local_set(x);
    in_halves(code, [x, y], |pair, [x, y]| binary(pair, op, x, y));
    for vector in [x, y] {
        code.release(ValType::V128, vector);
    }
}

/// Pushes four f32 that are computed in two halves of f64.
fn in_halves<const N: usize>(code: &mut Code, vectors: [u32; N], compute: impl Fn(&mut F64x2, [u32; N]) -> u32) {
    let mut pair = F64x2 { code, used: vec![] };
    let [low, high] = [false, true].map(|is_high| {
        let halves = vectors.map(|vector| pair.half(vector, is_high));
        compute(&mut pair, halves)
    });
    let mut sink = pair.code.sink();
    sink.local_get(low).f32x4_demote_f64x2_zero().local_get(high).f32x4_demote_f64x2_zero();
    sink.i8x16_shuffle([0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]);
    for local in pair.used {
        pair.code.release(ValType::V128, local);
    }
}

/// Computes one value. Values are variables.
struct Scalar<'c> {
    code: &'c mut Code,
    large_angle: Option<u32>,
}

impl Scalar<'_> {
    fn operand(&mut self, param: u32) -> u32 {
        self.define(ValType::F64, |sink| sink.local_get(param).f64_promote_f32())
    }

    fn define(
        &mut self,
        ty: ValType,
        push: impl for<'a, 'b> FnOnce(&'a mut InstructionSink<'b>) -> &'a mut InstructionSink<'b>,
    ) -> u32 {
        let local = self.code.local(ty);
        push(&mut self.code.sink()).local_set(local);
        local
    }
}

/// Methods of one instruction, whose result has a type.
macro_rules! scalar {
    ($($name:ident($($operand:ident),+) -> $ty:ident: $instruction:ident;)+) => {$(
        fn $name(&mut self, $($operand: u32),+) -> u32 {
            self.define(ValType::$ty, |sink| sink$(.local_get($operand))+.$instruction())
        }
    )+};
}

impl Arithmetic for Scalar<'_> {
    type F = u32;
    type I = u32;
    type B = u32;

    scalar! {
        add(x, y) -> F64: f64_add;
        sub(x, y) -> F64: f64_sub;
        mul(x, y) -> F64: f64_mul;
        div(x, y) -> F64: f64_div;
        sqrt(x) -> F64: f64_sqrt;
        abs(x) -> F64: f64_abs;
        trunc(x) -> F64: f64_trunc;
        copysign(x, sign) -> F64: f64_copysign;
        lt(x, y) -> I32: f64_lt;
        eq(x, y) -> I32: f64_eq;
        and(a, b) -> I32: i32_and;
        bits(x) -> I64: i64_reinterpret_f64;
        reinterpret(bits) -> F64: f64_reinterpret_i64;
        add_integers(i, j) -> I64: i64_add;
        sub_integers(i, j) -> I64: i64_sub;
        xor_integers(i, j) -> I64: i64_xor;
    }

    fn number(&mut self, x: f64) -> u32 {
        self.define(ValType::F64, |sink| sink.f64_const(x.into()))
    }

    fn integer(&mut self, i: i64) -> u32 {
        self.define(ValType::I64, |sink| sink.i64_const(i))
    }

    fn select(&mut self, condition: u32, x: u32, y: u32) -> u32 {
        self.define(ValType::F64, |sink| sink.local_get(x).local_get(y).local_get(condition).select())
    }

    fn shift_left(&mut self, i: u32, by: u32) -> u32 {
        self.define(ValType::I64, |sink| sink.local_get(i).i64_const(by.into()).i64_shl())
    }

    fn shift_right(&mut self, i: u32, by: u32) -> u32 {
        self.define(ValType::I64, |sink| sink.local_get(i).i64_const(by.into()).i64_shr_u())
    }

    fn has_bit(&mut self, i: u32, bit: u32) -> u32 {
        self.define(ValType::I32, |sink| sink.local_get(i).i64_const(1 << bit).i64_and().i64_const(0).i64_ne())
    }

    fn reduce(&mut self, x: u32, reduction: Reduction) -> (u32, u32) {
        let rest = self.code.local(ValType::F64);
        let turns = self.code.local(ValType::I64);
        self.code.sink().local_get(x).f64_abs().f64_const(f64::from(SMALL_ANGLE).into()).f64_le();
        self.code.start_if();
        let small = reduce_small(self, x, reduction);
        self.code.sink().local_get(small.0).local_set(rest).local_get(small.1).local_set(turns);
        self.code.start_else();
        let large = reduce_large(self, x, reduction);
        self.code.sink().local_get(large.0).local_set(rest).local_get(large.1).local_set(turns);
        self.code.end();
        (rest, turns)
    }
}

impl WideArithmetic for Scalar<'_> {
    scalar! {
        mul_integers(i, j) -> I64: i64_mul;
        or_integers(i, j) -> I64: i64_or;
        lt_integers(i, j) -> I32: i64_lt_s;
        to_number(i) -> F64: f64_convert_i64_s;
    }

    fn shift_left_by(&mut self, i: u32, by: u32) -> u32 {
        self.define(ValType::I64, |sink| {
            sink.local_get(i).local_get(by).i64_shl().i64_const(0).local_get(by).i64_const(64).i64_lt_u().select()
        })
    }

    fn shift_right_by(&mut self, i: u32, by: u32) -> u32 {
        self.define(ValType::I64, |sink| {
            sink.local_get(i).local_get(by).i64_shr_u().i64_const(0).local_get(by).i64_const(64).i64_lt_u().select()
        })
    }

    fn large_angle(&mut self, x: u32) -> u32 {
        let function = self.large_angle.expect("functions of angles have it");
        self.define(ValType::I64, |sink| sink.local_get(x).call(function))
    }

    fn select_integer(&mut self, condition: u32, i: u32, j: u32) -> u32 {
        self.define(ValType::I64, |sink| sink.local_get(i).local_get(j).local_get(condition).select())
    }
}

/// Computes two values at once, the f64 of two lanes. Its angles are small. Values are variables.
struct F64x2<'c> {
    code: &'c mut Code,
    /// The variables of the values so far.
    used: Vec<u32>,
}

impl F64x2<'_> {
    /// The low or the high two of four f32.
    fn half(&mut self, vector: u32, is_high: bool) -> u32 {
        self.define(|sink| {
            sink.local_get(vector);
            if is_high {
                sink.local_get(vector).i8x16_shuffle([8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
            }
            sink.f64x2_promote_low_f32x4()
        })
    }

    fn define(
        &mut self,
        push: impl for<'a, 'b> FnOnce(&'a mut InstructionSink<'b>) -> &'a mut InstructionSink<'b>,
    ) -> u32 {
        let local = self.code.scratch(ValType::V128);
        push(&mut self.code.sink()).local_set(local);
        self.used.push(local);
        local
    }

    fn constant(&mut self, bits: u64) -> u32 {
        let both = u128::from(bits) << 64 | u128::from(bits);
        self.define(|sink| sink.v128_const(both.cast_signed()))
    }
}

/// Methods of one instruction.
macro_rules! pair {
    ($($name:ident($($operand:ident),+): $instruction:ident;)+) => {$(
        fn $name(&mut self, $($operand: u32),+) -> u32 {
            self.define(|sink| sink$(.local_get($operand))+.$instruction())
        }
    )+};
}

impl Arithmetic for F64x2<'_> {
    type F = u32;
    type I = u32;
    type B = u32;

    pair! {
        add(x, y): f64x2_add;
        sub(x, y): f64x2_sub;
        mul(x, y): f64x2_mul;
        div(x, y): f64x2_div;
        sqrt(x): f64x2_sqrt;
        abs(x): f64x2_abs;
        trunc(x): f64x2_trunc;
        lt(x, y): f64x2_lt;
        eq(x, y): f64x2_eq;
        and(a, b): v128_and;
        add_integers(i, j): i64x2_add;
        sub_integers(i, j): i64x2_sub;
        xor_integers(i, j): v128_xor;
    }

    fn number(&mut self, x: f64) -> u32 {
        self.constant(x.to_bits())
    }

    fn integer(&mut self, i: i64) -> u32 {
        self.constant(i.cast_unsigned())
    }

    fn copysign(&mut self, x: u32, sign: u32) -> u32 {
        let mask = self.constant(1 << 63);
        self.define(|sink| sink.local_get(sign).local_get(x).local_get(mask).v128_bitselect())
    }

    fn select(&mut self, condition: u32, x: u32, y: u32) -> u32 {
        self.define(|sink| sink.local_get(x).local_get(y).local_get(condition).v128_bitselect())
    }

    fn bits(&mut self, x: u32) -> u32 {
        x
    }

    fn reinterpret(&mut self, bits: u32) -> u32 {
        bits
    }

    fn shift_left(&mut self, i: u32, by: u32) -> u32 {
        self.define(|sink| sink.local_get(i).i32_const(by.cast_signed()).i64x2_shl())
    }

    fn shift_right(&mut self, i: u32, by: u32) -> u32 {
        self.define(|sink| sink.local_get(i).i32_const(by.cast_signed()).i64x2_shr_u())
    }

    fn has_bit(&mut self, i: u32, bit: u32) -> u32 {
        let mask = self.constant(1 << bit);
        self.define(|sink| sink.local_get(i).local_get(mask).v128_and().local_get(mask).i64x2_eq())
    }

    fn reduce(&mut self, x: u32, reduction: Reduction) -> (u32, u32) {
        reduce_small(self, x, reduction)
    }
}
