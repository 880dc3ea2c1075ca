//! Functions that emitted code calls: imports, and operations that take too many instructions to stand in line.

use wasm_encoder::{BlockType, ValType};

use super::{
    code::{Code, memory},
    elementary::{binary_function, large_angle_function, unary_function},
};
use crate::scalar::{BinaryOp, UnaryOp, elementary::takes_angle, math::MathOp};

/// A function of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    /// Writes the record of the first fault: thread, index, kind, site, array, axis, extent.
    Fault,
    /// Quotient of i32 or u32; 0 if the divisor is 0.
    Div32 {
        signed: bool,
    },
    /// Quotient of i64 or u64; 0 if the divisor is 0.
    Div64 {
        signed: bool,
    },
    /// Remainder of i32 or u32; 0 if the divisor is 0.
    Rem32 {
        signed: bool,
    },
    /// Remainder of i64 or u64; 0 if the divisor is 0.
    Rem64 {
        signed: bool,
    },
    /// Exact remainder of f64.
    RemF64,
    /// Upper half of the product of i64 or u64.
    MulHigh64 {
        signed: bool,
    },
    F16ToF32,
    /// Rounds to nearest even.
    F32ToF16,
    /// Rounds to nearest even.
    F32ToBf16,
    /// Rounds to odd: see `scalar::round`.
    F64ToOddF32,
    /// An integer that f64 holds exactly, and that rounds to the 16-bit types as the operand does.
    StickyI64 {
        signed: bool,
    },
    /// An elementary function.
    UnaryF32(UnaryOp),
    BinaryF32(BinaryOp),
    /// A large angle without whole turns.
    LargeAngle,
}

type Signature = (Vec<ValType>, Vec<ValType>);

/// The functions that a module has besides `run`.
pub(super) struct Functions {
    imports: Vec<MathOp>,
    helpers: Vec<(Helper, Code)>,
}

impl Functions {
    pub(super) fn new(imports: Vec<MathOp>) -> Self {
        Self { imports, helpers: vec![] }
    }

    pub(super) fn imports(&self) -> impl Iterator<Item = MathOp> + '_ {
        self.imports.iter().copied()
    }

    pub(super) fn helpers(&self) -> impl Iterator<Item = (Signature, &Code)> {
        self.helpers.iter().map(|(helper, code)| (helper.signature(), code))
    }

    pub(super) fn run_index(&self) -> u32 {
        u32::try_from(self.imports.len()).expect("few imports")
    }

    /// The index of an elementary function, which is one of the imports.
    pub(super) fn import(&self, op: MathOp) -> u32 {
        let at = self.imports.iter().position(|import| *import == op);
        u32::try_from(at.expect("the imports are those that the kernel uses")).expect("few imports")
    }

    /// The index of a helper, which becomes a part of the module.
    pub(super) fn helper(&mut self, helper: Helper) -> u32 {
        let known = self.helpers.iter().position(|(existing, _)| *existing == helper);
        let at = known.unwrap_or_else(|| {
            let code = helper.code(self);
            self.helpers.push((helper, code));
            self.helpers.len() - 1
        });
        self.run_index() + 1 + u32::try_from(at).expect("few helpers")
    }
}

impl Helper {
    fn signature(self) -> Signature {
        use ValType::{F32, F64, I32, I64};
        match self {
            Self::Fault => (vec![I64, I64, I32, I32, I32, I32, I32], vec![]),
            Self::Div32 { .. } | Self::Rem32 { .. } => (vec![I32, I32], vec![I32]),
            Self::Div64 { .. } | Self::Rem64 { .. } | Self::MulHigh64 { .. } => (vec![I64, I64], vec![I64]),
            Self::RemF64 => (vec![F64, F64], vec![F64]),
            Self::F16ToF32 => (vec![I32], vec![F32]),
            Self::F32ToF16 | Self::F32ToBf16 => (vec![F32], vec![I32]),
            Self::F64ToOddF32 => (vec![F64], vec![F32]),
            Self::StickyI64 { .. } => (vec![I64], vec![I64]),
            Self::UnaryF32(_) => (vec![F32], vec![F32]),
            Self::BinaryF32(_) => (vec![F32, F32], vec![F32]),
            Self::LargeAngle => (vec![F64], vec![I64]),
        }
    }

    fn code(self, functions: &mut Functions) -> Code {
        let mut code = Code::new(self.signature().0.len());
        match self {
            Self::Fault => fault(&mut code),
            Self::Div32 { signed } => div_32(&mut code, signed),
            Self::Div64 { signed } => div_64(&mut code, signed),
            Self::Rem32 { signed } => rem_32(&mut code, signed),
            Self::Rem64 { signed } => rem_64(&mut code, signed),
            Self::RemF64 => rem_f64(&mut code),
            Self::MulHigh64 { signed } => mul_high_64(&mut code, signed),
            Self::F16ToF32 => f16_to_f32(&mut code),
            Self::F32ToF16 => f32_to_f16(&mut code),
            Self::F32ToBf16 => f32_to_bf16(&mut code),
            Self::F64ToOddF32 => f64_to_odd_f32(&mut code),
            Self::StickyI64 { signed } => sticky_i64(&mut code, signed),
            Self::UnaryF32(op) => {
                let large_angle = takes_angle(op).then(|| functions.helper(Self::LargeAngle));
                unary_function(&mut code, op, large_angle);
            }
            Self::BinaryF32(op) => binary_function(&mut code, op),
            Self::LargeAngle => large_angle_function(&mut code),
        }
        code
    }
}

/// The global that `run` returns.
pub(super) const STATUS: u32 = 0;

fn fault(code: &mut Code) {
    code.sink().global_get(STATUS).i32_eqz();
    code.start_if();
    // Parameters in the order of the record: two of 8 bytes, then five of 4.
    for (local, offset) in [(0, 0), (1, 8)] {
        code.sink().i32_const(0).local_get(local).i64_store(memory(offset, 8));
    }
    for (local, offset) in [(2, 16), (3, 20), (4, 24), (5, 28), (6, 32)] {
        code.sink().i32_const(0).local_get(local).i32_store(memory(offset, 4));
    }
    code.sink().i32_const(1).global_set(STATUS);
    code.end();
}

fn div_32(code: &mut Code, signed: bool) {
    code.sink().local_get(1).i32_eqz().if_(BlockType::Empty).i32_const(0).return_().end();
    if signed {
        // The least number by -1 would trap.
        code.sink().local_get(1).i32_const(-1).i32_eq().if_(BlockType::Empty);
        code.sink().i32_const(0).local_get(0).i32_sub().return_().end();
        code.sink().local_get(0).local_get(1).i32_div_s();
    } else {
        code.sink().local_get(0).local_get(1).i32_div_u();
    }
}

fn div_64(code: &mut Code, signed: bool) {
    code.sink().local_get(1).i64_eqz().if_(BlockType::Empty).i64_const(0).return_().end();
    if signed {
        code.sink().local_get(1).i64_const(-1).i64_eq().if_(BlockType::Empty);
        code.sink().i64_const(0).local_get(0).i64_sub().return_().end();
        code.sink().local_get(0).local_get(1).i64_div_s();
    } else {
        code.sink().local_get(0).local_get(1).i64_div_u();
    }
}

fn rem_32(code: &mut Code, signed: bool) {
    code.sink().local_get(1).i32_eqz().if_(BlockType::Empty).i32_const(0).return_().end();
    code.sink().local_get(0).local_get(1);
    if signed {
        code.sink().i32_rem_s();
    } else {
        code.sink().i32_rem_u();
    }
}

fn rem_64(code: &mut Code, signed: bool) {
    code.sink().local_get(1).i64_eqz().if_(BlockType::Empty).i64_const(0).return_().end();
    code.sink().local_get(0).local_get(1);
    if signed {
        code.sink().i64_rem_s();
    } else {
        code.sink().i64_rem_u();
    }
}

const MANTISSA: i64 = (1 << 52) - 1;
const MAGNITUDE: i64 = i64::MAX;

/// Long division of the mantissas, 11 bits at a time: a remainder has at most 53 bits.
fn rem_f64(code: &mut Code) {
    let [x, y, mx, ex, ey, bits] = [ValType::I64; 6].map(|ty| code.local(ty));
    for (param, magnitude) in [(0, x), (1, y)] {
        code.sink().local_get(param).i64_reinterpret_f64().i64_const(MAGNITUDE).i64_and().local_set(magnitude);
    }
    // NaN if the dividend is infinite, the divisor is 0, or either is NaN.
    let infinity = 0x7ff << 52;
    code.sink().local_get(x).i64_const(infinity).i64_ge_u().local_get(y).i64_const(infinity).i64_gt_u().i32_or();
    code.sink().local_get(y).i64_eqz().i32_or().if_(BlockType::Empty).f64_const(f64::NAN.into()).return_().end();
    code.sink().local_get(x).local_get(y).i64_lt_u().if_(BlockType::Empty).local_get(0).return_().end();
    // Exponents from 1, that of subnormal numbers, whose mantissa has no implicit bit.
    for (magnitude, mantissa, exponent) in [(x, mx, ex), (y, y, ey)] {
        code.sink().local_get(magnitude).i64_const(52).i64_shr_u().local_set(exponent);
        code.sink().local_get(magnitude).i64_const(MANTISSA).i64_and();
        code.sink().local_get(exponent).i64_const(0).i64_ne().i64_extend_i32_u().i64_const(52).i64_shl().i64_or();
        code.sink().local_set(mantissa);
        code.sink().local_get(exponent).local_get(exponent).i64_eqz().i64_extend_i32_u().i64_add().local_set(exponent);
    }
    code.sink().local_get(mx).local_get(y).i64_rem_u().local_set(mx);
    let done = code.block();
    let next = code.start_loop();
    code.sink().local_get(ex).local_get(ey).i64_sub().local_tee(bits).i64_eqz();
    code.branch_if(done);
    code.sink().i64_const(11).local_get(bits).local_get(bits).i64_const(11).i64_gt_u().select().local_set(bits);
    code.sink().local_get(mx).local_get(bits).i64_shl().local_get(y).i64_rem_u().local_set(mx);
    code.sink().local_get(ex).local_get(bits).i64_sub().local_set(ex);
    code.branch(next);
    code.end();
    code.end();
    // mx x 2^(ey - 1075) is exact. The power is subnormal for the exponents up to 52.
    code.sink().local_get(mx).f64_convert_i64_u();
    code.sink().local_get(ey).i64_const(52).i64_sub().i64_const(52).i64_shl();
    code.sink().i64_const(1).local_get(ey).i64_const(1).i64_sub().i64_shl();
    code.sink().local_get(ey).i64_const(52).i64_gt_u().select().f64_reinterpret_i64().f64_mul();
    code.sink().local_get(0).f64_copysign();
}

/// By halves of 32 bits.
fn mul_high_64(code: &mut Code, signed: bool) {
    const LOW: i64 = 0xffff_ffff;
    let [low, middle] = [ValType::I64; 2].map(|ty| code.local(ty));
    // middle = high(a) x low(b) + high(low(a) x low(b))
    code.sink().local_get(0).i64_const(32).i64_shr_u().local_get(1).i64_const(LOW).i64_and().i64_mul();
    code.sink().local_get(0).i64_const(LOW).i64_and().local_get(1).i64_const(LOW).i64_and().i64_mul();
    code.sink().i64_const(32).i64_shr_u().i64_add().local_set(middle);
    // low = low(a) x high(b) + low(middle)
    code.sink().local_get(0).i64_const(LOW).i64_and().local_get(1).i64_const(32).i64_shr_u().i64_mul();
    code.sink().local_get(middle).i64_const(LOW).i64_and().i64_add().local_set(low);
    code.sink().local_get(0).i64_const(32).i64_shr_u().local_get(1).i64_const(32).i64_shr_u().i64_mul();
    code.sink().local_get(middle).i64_const(32).i64_shr_u().i64_add();
    code.sink().local_get(low).i64_const(32).i64_shr_u().i64_add();
    if signed {
        // A negative operand was taken for one that is 2^64 greater.
        for (negative, other) in [(0, 1), (1, 0)] {
            code.sink().local_get(negative).i64_const(63).i64_shr_s().local_get(other).i64_and().i64_sub();
        }
    }
}

fn f16_to_f32(code: &mut Code) {
    let magnitude = code.local(ValType::I32);
    code.sink().local_get(0).i32_const(0x7fff).i32_and().local_tee(magnitude);
    code.sink().i32_const(0x400).i32_lt_u();
    code.start_if_value(ValType::F32);
    // Subnormal: a multiple of 2^-24.
    code.sink().local_get(magnitude).f32_convert_i32_u().f32_const(2.0_f32.powi(-24).into()).f32_mul();
    code.start_else();
    // The exponent's bias is 127 instead of 15; infinity and NaN have the greatest of both.
    code.sink().local_get(magnitude).i32_const(13).i32_shl();
    code.sink().i32_const(224 << 23).i32_const(112 << 23);
    code.sink().local_get(magnitude).i32_const(0x7c00).i32_ge_u().select().i32_add().f32_reinterpret_i32();
    code.end();
    code.sink().local_get(0).i32_const(16).i32_shl().f32_reinterpret_i32().f32_copysign();
}

fn f32_to_f16(code: &mut Code) {
    let [magnitude, sign] = [ValType::I32; 2].map(|ty| code.local(ty));
    code.sink().local_get(0).i32_reinterpret_f32().local_tee(magnitude).i32_const(16).i32_shr_u();
    code.sink().i32_const(0x8000).i32_and().local_set(sign);
    code.sink().local_get(magnitude).i32_const(0x7fff_ffff).i32_and().local_tee(magnitude);
    code.sink().i32_const(0x4780_0000).i32_ge_u();
    code.start_if_value(ValType::I32);
    // 2^16 or more, or NaN.
    code.sink().i32_const(0x7e00).i32_const(0x7c00).local_get(magnitude).i32_const(0x7f80_0000).i32_gt_u().select();
    code.start_else();
    code.sink().local_get(magnitude).i32_const(0x3880_0000).i32_lt_u();
    code.start_if_value(ValType::I32);
    // Below 2^-14: numbers from 0.5 have the spacing of subnormal f16.
    code.sink().local_get(magnitude).f32_reinterpret_i32().f32_const(0.5_f32.into()).f32_add().i32_reinterpret_f32();
    code.sink().i32_const(0x3f00_0000).i32_sub();
    code.start_else();
    // Half of a unit, less for an even number, carries into the bits that stay.
    code.sink().local_get(magnitude).i32_const(0xfff).i32_add();
    code.sink().local_get(magnitude).i32_const(13).i32_shr_u().i32_const(1).i32_and().i32_add();
    code.sink().i32_const(13).i32_shr_u().i32_const(112 << 10).i32_sub();
    code.end();
    code.end();
    code.sink().local_get(sign).i32_or();
}

fn f32_to_bf16(code: &mut Code) {
    let bits = code.local(ValType::I32);
    code.sink().local_get(0).i32_reinterpret_f32().local_set(bits);
    code.sink().local_get(0).local_get(0).f32_ne();
    code.start_if_value(ValType::I32);
    code.sink().local_get(bits).i32_const(16).i32_shr_u().i32_const(0x40).i32_or();
    code.start_else();
    code.sink().local_get(bits).i32_const(0x7fff).i32_add();
    code.sink().local_get(bits).i32_const(16).i32_shr_u().i32_const(1).i32_and().i32_add();
    code.sink().i32_const(16).i32_shr_u();
    code.end();
}

fn f64_to_odd_f32(code: &mut Code) {
    let nearest = code.local(ValType::F32);
    let bits = code.local(ValType::I32);
    code.sink().local_get(0).f32_demote_f64().local_tee(nearest).i32_reinterpret_f32().local_set(bits);
    // Exact, or NaN.
    code.sink().local_get(nearest).f64_promote_f32().local_get(0).f64_eq();
    code.sink().local_get(0).local_get(0).f64_ne().i32_or().if_(BlockType::Empty).local_get(nearest).return_().end();
    // Towards zero, then odd.
    code.sink().local_get(bits);
    code.sink().local_get(nearest).f64_promote_f32().f64_abs().local_get(0).f64_abs().f64_gt().i32_sub();
    code.sink().i32_const(1).i32_or().f32_reinterpret_i32();
}

/// From 2^53 on, the lowest 12 bits only tell whether the number is between two multiples of 2^12.
fn sticky_i64(code: &mut Code, signed: bool) {
    code.sink().local_get(0);
    if signed {
        code.sink().i64_const(1 << 53).i64_add().i64_const(1 << 54);
    } else {
        code.sink().i64_const(1 << 53);
    }
    code.sink().i64_lt_u().if_(BlockType::Empty).local_get(0).return_().end();
    code.sink().local_get(0).i64_const(!0xfff).i64_and();
    code.sink().local_get(0).i64_const(0xfff).i64_and().i64_const(0).i64_ne().i64_extend_i32_u();
    code.sink().i64_const(11).i64_shl().i64_or();
}
