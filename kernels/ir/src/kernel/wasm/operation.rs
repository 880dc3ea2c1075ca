//! Instructions of scalar operations on the operands on the stack.
//!
//! Integers of less than 32 bits are i32 that hold their value; a bool is 0 or 1; 16-bit floating-point numbers are i32 that hold their bits.

use wasm_encoder::{Ieee32, Ieee64, ValType};

use super::{
    code::Code,
    helper::{Functions, Helper},
};
use crate::Dtype;
use crate::scalar::math::MathOp;
use crate::scalar::{BinaryOp, Literal, UnaryOp, elementary_binary, elementary_unary};

/// The code of a function, and the functions that it may call.
pub(super) struct Emitter<'f> {
    pub(super) code: Code,
    pub(super) functions: &'f mut Functions,
}

/// The type of values of an element type.
pub(super) fn value_type(dtype: Dtype) -> ValType {
    match dtype {
        Dtype::U64 | Dtype::I64 => ValType::I64,
        Dtype::F32 => ValType::F32,
        Dtype::F64 => ValType::F64,
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::F16
        | Dtype::Bf16 => ValType::I32,
    }
}

/// Emits the instruction for the type of the values.
macro_rules! by_type {
    ($emitter:expr, $dtype:expr, $i32:ident, $i64:ident, $f32:ident, $f64:ident) => {
        match value_type($dtype) {
            ValType::I64 => {
                $emitter.code.sink().$i64();
            }
            ValType::F32 => {
                $emitter.code.sink().$f32();
            }
            ValType::F64 => {
                $emitter.code.sink().$f64();
            }
            ValType::I32 | ValType::V128 | ValType::Ref(_) => {
                $emitter.code.sink().$i32();
            }
        }
    };
}

/// Emits the instruction for integers of a width.
macro_rules! by_width {
    ($emitter:expr, $dtype:expr, $i32:ident, $i64:ident) => {
        if $dtype.size() == 8 {
            $emitter.code.sink().$i64();
        } else {
            $emitter.code.sink().$i32();
        }
    };
}

/// Emits the instruction for integers of a width and signedness.
macro_rules! by_sign {
    ($emitter:expr, $dtype:expr, $i32_s:ident, $i32_u:ident, $i64_s:ident, $i64_u:ident) => {
        if $dtype.is_signed() {
            by_width!($emitter, $dtype, $i32_s, $i64_s)
        } else {
            by_width!($emitter, $dtype, $i32_u, $i64_u)
        }
    };
}

/// Emits the instruction for floating-point numbers of a width.
macro_rules! by_float {
    ($emitter:expr, $dtype:expr, $f32:ident, $f64:ident) => {
        if $dtype == Dtype::F32 {
            $emitter.code.sink().$f32();
        } else {
            $emitter.code.sink().$f64();
        }
    };
}

impl Emitter<'_> {
    pub(super) fn call(&mut self, helper: Helper) {
        let index = self.functions.helper(helper);
        self.code.sink().call(index);
    }

    #[expect(clippy::cast_possible_truncation, reason = "the bits of a type of at most 32")]
    pub(super) fn literal(&mut self, literal: Literal) {
        let bits = literal.bits();
        let mut sink = self.code.sink();
        match literal.dtype() {
            Dtype::U64 | Dtype::I64 => sink.i64_const(bits.cast_signed()),
            Dtype::F32 => sink.f32_const(Ieee32::new(bits as u32)),
            Dtype::F64 => sink.f64_const(Ieee64::new(bits)),
            Dtype::I8 | Dtype::I16 => sink.i32_const(literal.as_i64() as i32),
            Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::I32 | Dtype::F16 | Dtype::Bf16 => {
                sink.i32_const((bits as u32).cast_signed())
            }
        };
    }

    /// An integer as a constant of a type.
    fn constant(&mut self, dtype: Dtype, value: i64) {
        self.literal(Literal::from_i64(dtype, value));
    }

    /// Wraps an i32 to the range of a smaller integer.
    fn narrow(&mut self, dtype: Dtype) {
        let mut sink = self.code.sink();
        match dtype {
            Dtype::I8 => sink.i32_extend8_s(),
            Dtype::I16 => sink.i32_extend16_s(),
            Dtype::U8 => sink.i32_const(0xff).i32_and(),
            Dtype::U16 => sink.i32_const(0xffff).i32_and(),
            Dtype::Bool
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::F32
            | Dtype::F64 => return,
        };
    }

    /// Moves the value on the stack to a variable, while `emit` runs.
    fn with_operand(&mut self, dtype: Dtype, emit: impl FnOnce(&mut Self, u32)) {
        let ty = value_type(dtype);
        let x = self.code.scratch(ty);
        self.code.sink().local_set(x);
        emit(self, x);
        self.code.release(ty, x);
    }

    /// As [`Self::with_operand`], for two operands.
    fn with_operands(&mut self, dtype: Dtype, emit: impl FnOnce(&mut Self, u32, u32)) {
        self.with_operand(dtype, |emitter, b| emitter.with_operand(dtype, |emitter, a| emit(emitter, a, b)));
    }

    pub(super) fn unary(&mut self, op: UnaryOp, dtype: Dtype) {
        match op {
            UnaryOp::Neg if dtype.is_float() => {
                by_float!(self, dtype, f32_neg, f64_neg);
            }
            UnaryOp::Neg => {
                self.constant(dtype, -1);
                by_width!(self, dtype, i32_mul, i64_mul);
                self.narrow(dtype);
            }
            UnaryOp::Abs if dtype.is_float() => {
                by_float!(self, dtype, f32_abs, f64_abs);
            }
            UnaryOp::Abs => self.abs_of_integer(dtype),
            UnaryOp::Sign => self.sign(dtype),
            UnaryOp::Not if dtype == Dtype::Bool => {
                self.code.sink().i32_eqz();
            }
            UnaryOp::Not => {
                self.constant(dtype, -1);
                by_width!(self, dtype, i32_xor, i64_xor);
            }
            UnaryOp::IsNan => self.with_operand(dtype, |emitter, x| {
                emitter.code.sink().local_get(x).local_get(x);
                by_float!(emitter, dtype, f32_ne, f64_ne);
            }),
            UnaryOp::IsInf => {
                by_float!(self, dtype, f32_abs, f64_abs);
                self.literal(Literal::from_f64(dtype, f64::INFINITY));
                by_float!(self, dtype, f32_eq, f64_eq);
            }
            UnaryOp::SignBit if dtype == Dtype::F32 => {
                self.code.sink().i32_reinterpret_f32().i32_const(31).i32_shr_u();
            }
            UnaryOp::SignBit => {
                self.code.sink().i64_reinterpret_f64().i64_const(63).i64_shr_u().i32_wrap_i64();
            }
            UnaryOp::Floor => {
                by_float!(self, dtype, f32_floor, f64_floor);
            }
            UnaryOp::Ceil => {
                by_float!(self, dtype, f32_ceil, f64_ceil);
            }
            UnaryOp::Trunc => {
                by_float!(self, dtype, f32_trunc, f64_trunc);
            }
            UnaryOp::Round => {
                by_float!(self, dtype, f32_nearest, f64_nearest);
            }
            UnaryOp::Sqrt => {
                by_float!(self, dtype, f32_sqrt, f64_sqrt);
            }
            elementary_unary!() => self.math_unary(op, dtype),
        }
    }

    fn abs_of_integer(&mut self, dtype: Dtype) {
        self.with_operand(dtype, |emitter, x| {
            emitter.constant(dtype, 0);
            emitter.code.sink().local_get(x);
            by_width!(emitter, dtype, i32_sub, i64_sub);
            emitter.code.sink().local_get(x).local_get(x);
            emitter.constant(dtype, 0);
            by_width!(emitter, dtype, i32_lt_s, i64_lt_s);
            emitter.code.sink().select();
        });
        self.narrow(dtype);
    }

    /// (x > 0) - (x < 0); a NaN stays.
    fn sign(&mut self, dtype: Dtype) {
        self.with_operand(dtype, |emitter, x| {
            emitter.constant(dtype, 1);
            emitter.constant(dtype, -1);
            if dtype.is_float() {
                emitter.constant(dtype, 0);
                emitter.code.sink().local_get(x).local_get(x);
                emitter.constant(dtype, 0);
                by_float!(emitter, dtype, f32_eq, f64_eq);
                emitter.code.sink().select();
            } else {
                emitter.code.sink().local_get(x);
            }
            emitter.code.sink().local_get(x);
            emitter.constant(dtype, 0);
            by_type!(emitter, dtype, i32_lt_s, i64_lt_s, f32_lt, f64_lt);
            emitter.code.sink().select();
            emitter.code.sink().local_get(x);
            emitter.constant(dtype, 0);
            by_type!(emitter, dtype, i32_gt_s, i64_gt_s, f32_gt, f64_gt);
            emitter.code.sink().select();
        });
    }

    fn math_unary(&mut self, op: UnaryOp, dtype: Dtype) {
        if dtype == Dtype::F32 {
            self.call(Helper::UnaryF32(op));
        } else {
            let function = self.functions.import(MathOp::Unary(op));
            self.code.sink().call(function);
        }
    }

    fn math_binary(&mut self, op: BinaryOp, dtype: Dtype) {
        if dtype == Dtype::F32 {
            self.call(Helper::BinaryF32(op));
        } else {
            let function = self.functions.import(MathOp::Binary(op));
            self.code.sink().call(function);
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, dtype: Dtype) {
        match op {
            BinaryOp::Add => {
                by_type!(self, dtype, i32_add, i64_add, f32_add, f64_add);
                self.narrow(dtype);
            }
            BinaryOp::Sub => {
                by_type!(self, dtype, i32_sub, i64_sub, f32_sub, f64_sub);
                self.narrow(dtype);
            }
            BinaryOp::Mul => {
                by_type!(self, dtype, i32_mul, i64_mul, f32_mul, f64_mul);
                self.narrow(dtype);
            }
            BinaryOp::Div if dtype.is_float() => {
                by_float!(self, dtype, f32_div, f64_div);
            }
            BinaryOp::Div => {
                let signed = dtype.is_signed();
                self.call(if dtype.size() == 8 { Helper::Div64 { signed } } else { Helper::Div32 { signed } });
                self.narrow(dtype);
            }
            BinaryOp::Rem if dtype == Dtype::F32 => {
                // The remainder of two f32 is one.
                self.with_operand(dtype, |emitter, b| {
                    emitter.code.sink().f64_promote_f32().local_get(b).f64_promote_f32();
                });
                self.call(Helper::RemF64);
                self.code.sink().f32_demote_f64();
            }
            BinaryOp::Rem if dtype == Dtype::F64 => self.call(Helper::RemF64),
            BinaryOp::Rem => {
                let signed = dtype.is_signed();
                self.call(if dtype.size() == 8 { Helper::Rem64 { signed } } else { Helper::Rem32 { signed } });
            }
            elementary_binary!() => self.math_binary(op, dtype),
            BinaryOp::Min if dtype.is_float() => {
                by_float!(self, dtype, f32_min, f64_min);
            }
            BinaryOp::Max if dtype.is_float() => {
                by_float!(self, dtype, f32_max, f64_max);
            }
            BinaryOp::Min | BinaryOp::Max => self.with_operands(dtype, |emitter, a, b| {
                let (kept, other) = if op == BinaryOp::Min { (a, b) } else { (b, a) };
                emitter.code.sink().local_get(kept).local_get(other).local_get(a).local_get(b);
                by_sign!(emitter, dtype, i32_lt_s, i32_lt_u, i64_lt_s, i64_lt_u);
                emitter.code.sink().select();
            }),
            BinaryOp::CopySign => {
                by_float!(self, dtype, f32_copysign, f64_copysign);
            }
            BinaryOp::And => {
                by_width!(self, dtype, i32_and, i64_and);
            }
            BinaryOp::Or => {
                by_width!(self, dtype, i32_or, i64_or);
            }
            BinaryOp::Xor => {
                by_width!(self, dtype, i32_xor, i64_xor);
            }
            BinaryOp::Shl => self.with_operands(dtype, |emitter, a, b| emitter.shift_left(dtype, a, b)),
            BinaryOp::Shr => self.with_operands(dtype, |emitter, a, b| emitter.shift_right(dtype, a, b)),
            BinaryOp::Eq => {
                by_type!(self, dtype, i32_eq, i64_eq, f32_eq, f64_eq);
            }
            BinaryOp::Ne => {
                by_type!(self, dtype, i32_ne, i64_ne, f32_ne, f64_ne);
            }
            BinaryOp::Lt if dtype.is_float() => {
                by_float!(self, dtype, f32_lt, f64_lt);
            }
            BinaryOp::Lt => {
                by_sign!(self, dtype, i32_lt_s, i32_lt_u, i64_lt_s, i64_lt_u);
            }
            BinaryOp::Le if dtype.is_float() => {
                by_float!(self, dtype, f32_le, f64_le);
            }
            BinaryOp::Le => {
                by_sign!(self, dtype, i32_le_s, i32_le_u, i64_le_s, i64_le_u);
            }
            BinaryOp::MulHigh => self.mul_high(dtype),
        }
    }

    /// Emits a test that the variable `b`, unsigned, is below the number of bits.
    fn is_shift(&mut self, dtype: Dtype, b: u32) {
        self.code.sink().local_get(b);
        self.constant(if dtype.size() == 8 { Dtype::U64 } else { Dtype::U32 }, bits(dtype));
        by_width!(self, dtype, i32_lt_u, i64_lt_u);
    }

    fn shift_left(&mut self, dtype: Dtype, a: u32, b: u32) {
        self.code.sink().local_get(a).local_get(b);
        by_width!(self, dtype, i32_shl, i64_shl);
        self.constant(dtype, 0);
        self.is_shift(dtype, b);
        self.code.sink().select();
        self.narrow(dtype);
    }

    /// A signed number keeps its sign bit, an unsigned one becomes 0.
    fn shift_right(&mut self, dtype: Dtype, a: u32, b: u32) {
        self.code.sink().local_get(a).local_get(b);
        if dtype.is_signed() {
            self.constant(dtype, bits(dtype) - 1);
            self.is_shift(dtype, b);
            self.code.sink().select();
            by_width!(self, dtype, i32_shr_s, i64_shr_s);
        } else {
            by_width!(self, dtype, i32_shr_u, i64_shr_u);
            self.constant(dtype, 0);
            self.is_shift(dtype, b);
            self.code.sink().select();
        }
    }

    fn mul_high(&mut self, dtype: Dtype) {
        let signed = dtype.is_signed();
        match dtype.size() {
            8 => self.call(Helper::MulHigh64 { signed }),
            4 => {
                self.with_operand(dtype, |emitter, b| {
                    emitter.widen(signed);
                    emitter.code.sink().local_get(b);
                    emitter.widen(signed);
                });
                self.code.sink().i64_mul().i64_const(32).i64_shr_u().i32_wrap_i64();
            }
            _ => {
                self.code.sink().i32_mul();
                self.constant(Dtype::I32, bits(dtype));
                by_sign!(self, dtype, i32_shr_s, i32_shr_u, i64_shr_s, i64_shr_u);
            }
        }
    }

    /// An i32 or u32 as i64 or u64.
    fn widen(&mut self, signed: bool) {
        if signed {
            self.code.sink().i64_extend_i32_s();
        } else {
            self.code.sink().i64_extend_i32_u();
        }
    }

    /// An operation whose second operand is a constant for which one instruction is enough; `false` if it is not emitted.
    pub(super) fn binary_with_constant(&mut self, op: BinaryOp, b: Literal) -> bool {
        let dtype = b.dtype();
        if !dtype.is_integer() {
            return false;
        }
        let value = b.as_i64();
        let is_divisor = value != 0 && !(dtype.is_signed() && value == -1);
        let is_shift = (0..bits(dtype)).contains(&value);
        if op == BinaryOp::Div && is_divisor {
            self.literal(b);
            by_sign!(self, dtype, i32_div_s, i32_div_u, i64_div_s, i64_div_u);
        } else if op == BinaryOp::Rem && is_divisor {
            self.literal(b);
            by_sign!(self, dtype, i32_rem_s, i32_rem_u, i64_rem_s, i64_rem_u);
        } else if op == BinaryOp::Shl && is_shift {
            self.literal(b);
            by_width!(self, dtype, i32_shl, i64_shl);
            self.narrow(dtype);
        } else if op == BinaryOp::Shr && is_shift {
            self.literal(b);
            by_sign!(self, dtype, i32_shr_s, i32_shr_u, i64_shr_s, i64_shr_u);
        } else {
            return false;
        }
        true
    }

    pub(super) fn cast(&mut self, from: Dtype, to: Dtype) {
        if from == to {
            return;
        }
        match from {
            Dtype::F16 => {
                self.call(Helper::F16ToF32);
                self.cast(Dtype::F32, to);
            }
            Dtype::Bf16 => {
                self.code.sink().i32_const(16).i32_shl().f32_reinterpret_i32();
                self.cast(Dtype::F32, to);
            }
            Dtype::F32 | Dtype::F64 => self.cast_float(from, to),
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64 => self.cast_integer(from, to),
        }
    }

    fn cast_float(&mut self, from: Dtype, to: Dtype) {
        match to {
            Dtype::Bool => {
                self.constant(from, 0);
                by_float!(self, from, f32_ne, f64_ne);
            }
            Dtype::I64 => {
                by_float!(self, from, i64_trunc_sat_f32_s, i64_trunc_sat_f64_s);
            }
            Dtype::U64 => {
                by_float!(self, from, i64_trunc_sat_f32_u, i64_trunc_sat_f64_u);
            }
            Dtype::I8 | Dtype::I16 | Dtype::I32 => {
                by_float!(self, from, i32_trunc_sat_f32_s, i32_trunc_sat_f64_s);
                self.clamp(to);
            }
            Dtype::U8 | Dtype::U16 | Dtype::U32 => {
                by_float!(self, from, i32_trunc_sat_f32_u, i32_trunc_sat_f64_u);
                self.clamp(to);
            }
            Dtype::F16 | Dtype::Bf16 => {
                if from == Dtype::F64 {
                    self.call(Helper::F64ToOddF32);
                }
                self.call(if to == Dtype::F16 { Helper::F32ToF16 } else { Helper::F32ToBf16 });
            }
            Dtype::F32 => {
                self.code.sink().f32_demote_f64();
            }
            Dtype::F64 => {
                self.code.sink().f64_promote_f32();
            }
        }
    }

    /// Saturates an i32 or u32 to a smaller type of its signedness.
    fn clamp(&mut self, to: Dtype) {
        let bits = bits(to);
        if bits == 32 {
            return;
        }
        let (wide, limit) =
            if to.is_signed() { (Dtype::I32, (1 << (bits - 1)) - 1) } else { (Dtype::U32, (1 << bits) - 1) };
        self.constant(wide, limit);
        self.binary(BinaryOp::Min, wide);
        if to.is_signed() {
            self.constant(wide, -limit - 1);
            self.binary(BinaryOp::Max, wide);
        }
    }

    fn cast_integer(&mut self, from: Dtype, to: Dtype) {
        match to {
            Dtype::Bool => {
                self.constant(from, 0);
                by_width!(self, from, i32_ne, i64_ne);
            }
            Dtype::F32 => {
                by_sign!(self, from, f32_convert_i32_s, f32_convert_i32_u, f32_convert_i64_s, f32_convert_i64_u);
            }
            Dtype::F64 => {
                by_sign!(self, from, f64_convert_i32_s, f64_convert_i32_u, f64_convert_i64_s, f64_convert_i64_u);
            }
            Dtype::F16 | Dtype::Bf16 => {
                if from.size() == 8 {
                    self.call(Helper::StickyI64 { signed: from.is_signed() });
                }
                self.cast_integer(from, Dtype::F64);
                self.cast_float(Dtype::F64, to);
            }
            Dtype::I64 | Dtype::U64 if from.size() < 8 => self.widen(from.is_signed()),
            Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::U32 | Dtype::I32 | Dtype::U64 | Dtype::I64 => {
                if from.size() == 8 && to.size() < 8 {
                    self.code.sink().i32_wrap_i64();
                }
                self.narrow(to);
            }
        }
    }

    pub(super) fn bitcast(&mut self, from: Dtype, to: Dtype) {
        match (value_type(from), value_type(to)) {
            (ValType::F32, ValType::I32) => {
                self.code.sink().i32_reinterpret_f32();
            }
            (ValType::I32, ValType::F32) => {
                self.code.sink().f32_reinterpret_i32();
            }
            (ValType::F64, ValType::I64) => {
                self.code.sink().i64_reinterpret_f64();
            }
            (ValType::I64, ValType::F64) => {
                self.code.sink().f64_reinterpret_i64();
            }
            _ if to.is_float() && to.size() == 2 => self.narrow(Dtype::U16),
            _ => self.narrow(to),
        }
    }
}

/// The number of bits of a type.
fn bits(dtype: Dtype) -> i64 {
    8 * i64::try_from(dtype.size()).expect("a scalar has at most 8 bytes")
}
