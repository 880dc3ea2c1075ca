//! The operations of scalar functions on blocks of elements: one loop for each operation and type.
//!
//! Operations without calls are compiled for each instruction set. Elementary functions of f64, and those of f32 without a loop here, are
//! computed by their definition.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use accelerd_tensor::{
    Dtype,
    scalar::{BinaryOp, UnaryOp, math as definition},
};
use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::{
    math,
    number::{Integer, IntegerVisitor, Number, NumberVisitor, visit_integer, visit_number},
};
use crate::cpu::simd::{Isa, Lanes, WithSimd};

/// `out = f(a)`, compiled for the widest instruction set.
pub(super) fn map1<A: Pod, R: Pod>(a: &[u8], out: &mut [u8], f: impl Fn(A) -> R) {
    Isa::best().run(Map1 { a: cast_slice::<u8, A>(a), out: cast_slice_mut::<u8, R>(out), f });
}

struct Map1<'a, A, R, F> {
    a: &'a [A],
    out: &'a mut [R],
    f: F,
}

impl<A: Copy, R, F: Fn(A) -> R> WithSimd for Map1<'_, A, R, F> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, a) in self.out.iter_mut().zip(self.a) {
            *out = (self.f)(*a);
        }
    }
}

/// `out = f(a, b)`, likewise.
pub(super) fn map2<A: Pod, R: Pod>(a: &[u8], b: &[u8], out: &mut [u8], f: impl Fn(A, A) -> R) {
    let a = cast_slice::<u8, A>(a);
    let b = cast_slice::<u8, A>(b);
    Isa::best().run(Map2 { a, b, out: cast_slice_mut::<u8, R>(out), f });
}

struct Map2<'a, A, R, F> {
    a: &'a [A],
    b: &'a [A],
    out: &'a mut [R],
    f: F,
}

impl<A: Copy, R, F: Fn(A, A) -> R> WithSimd for Map2<'_, A, R, F> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, (a, b)) in self.out.iter_mut().zip(self.a.iter().zip(self.b)) {
            *out = (self.f)(*a, *b);
        }
    }
}

/// As [`map1`] of a function of f32 that is computed in f64: `fused` where multiplications and additions are fused, else `plain`, which
/// is the same function.
fn real1(a: &[u8], out: &mut [u8], fused: impl Fn(f64) -> f64, plain: impl Fn(f64) -> f64) {
    Isa::best().run(Real1 { a: cast_slice(a), out: cast_slice_mut(out), fused, plain });
}

struct Real1<'a, F, P> {
    a: &'a [f32],
    out: &'a mut [f32],
    fused: F,
    plain: P,
}

impl<F: Fn(f64) -> f64, P: Fn(f64) -> f64> WithSimd for Real1<'_, F, P> {
    type Out = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, a) in self.out.iter_mut().zip(self.a) {
            let a = f64::from(*a);
            *out = if L::HAS_FMA { (self.fused)(a) } else { (self.plain)(a) } as f32;
        }
    }
}

/// As [`real1`], for two operands.
fn real2(a: &[u8], b: &[u8], out: &mut [u8], fused: impl Fn(f64, f64) -> f64, plain: impl Fn(f64, f64) -> f64) {
    Isa::best().run(Real2 { a: cast_slice(a), b: cast_slice(b), out: cast_slice_mut(out), fused, plain });
}

struct Real2<'a, F, P> {
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut [f32],
    fused: F,
    plain: P,
}

impl<F: Fn(f64, f64) -> f64, P: Fn(f64, f64) -> f64> WithSimd for Real2<'_, F, P> {
    type Out = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, (a, b)) in self.out.iter_mut().zip(self.a.iter().zip(self.b)) {
            let a = f64::from(*a);
            let b = f64::from(*b);
            *out = if L::HAS_FMA { (self.fused)(a, b) } else { (self.plain)(a, b) } as f32;
        }
    }
}

/// A test that a condition holds for all pairs of operands.
struct All<'a, F> {
    a: &'a [f32],
    b: &'a [f32],
    holds: F,
}

impl<F: Fn(f32, f32) -> bool> WithSimd for All<'_, F> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> bool {
        // Without a branch for each pair the loop is vectorised.
        let failed = self.a.iter().zip(self.b).map(|(a, b)| u32::from(!(self.holds)(*a, *b)));
        failed.fold(0, |any, failed| any | failed) == 0
    }
}

/// As [`map1`], for functions that call others.
fn call1<A: Pod>(a: &[u8], out: &mut [u8], f: impl Fn(A) -> A) {
    for (out, a) in cast_slice_mut::<u8, A>(out).iter_mut().zip(cast_slice::<u8, A>(a)) {
        *out = f(*a);
    }
}

/// As [`map2`], for functions that call others.
fn call2<A: Pod>(a: &[u8], b: &[u8], out: &mut [u8], f: impl Fn(A, A) -> A) {
    let operands = cast_slice::<u8, A>(a).iter().zip(cast_slice::<u8, A>(b));
    for (out, (a, b)) in cast_slice_mut::<u8, A>(out).iter_mut().zip(operands) {
        *out = f(*a, *b);
    }
}

/// `out = a` where the condition holds, else `b`; elements of `size` bytes.
pub(super) fn select(size: usize, condition: &[u8], a: &[u8], b: &[u8], out: &mut [u8]) {
    match size {
        1 => select_of::<u8>(condition, a, b, out),
        2 => select_of::<u16>(condition, a, b, out),
        4 => select_of::<u32>(condition, a, b, out),
        _ => select_of::<u64>(condition, a, b, out),
    }
}

fn select_of<T: Pod>(condition: &[u8], a: &[u8], b: &[u8], out: &mut [u8]) {
    let operands = cast_slice::<u8, T>(a).iter().zip(cast_slice::<u8, T>(b)).zip(condition);
    for (out, ((a, b), condition)) in cast_slice_mut::<u8, T>(out).iter_mut().zip(operands) {
        *out = if *condition != 0 { *a } else { *b };
    }
}

/// `out = op(a)`; `dtype` is that of the operand.
pub(super) fn unary(op: UnaryOp, dtype: Dtype, a: &[u8], out: &mut [u8]) {
    let is_done = match dtype {
        Dtype::F32 => unary_of_f32(op, a, out) || unary_of_number(op, dtype, a, out),
        Dtype::F64 => unary_of_f64(op, a, out) || unary_of_number(op, dtype, a, out),
        Dtype::Bool => {
            map1(a, out, |a: u8| a ^ 1);
            op == UnaryOp::Not
        }
        Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64
        | Dtype::F16
        | Dtype::Bf16 => unary_of_number(op, dtype, a, out),
    };
    assert!(is_done, "the builder admits no {op:?} of {dtype}");
}

fn unary_of_number(op: UnaryOp, dtype: Dtype, a: &[u8], out: &mut [u8]) -> bool {
    visit_number(dtype, UnaryOfNumber { op, a, out }).unwrap_or(false)
}

struct UnaryOfNumber<'a> {
    op: UnaryOp,
    a: &'a [u8],
    out: &'a mut [u8],
}

impl NumberVisitor for UnaryOfNumber<'_> {
    type Out = bool;

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of one kind of numbers")]
    fn visit<T: Number>(self) -> bool {
        let Self { op, a, out } = self;
        match op {
            UnaryOp::Neg => map1(a, out, T::neg),
            UnaryOp::Abs => map1(a, out, T::magnitude),
            UnaryOp::Sign => map1(a, out, T::sign),
            UnaryOp::Not => map1(a, out, T::complement),
            _ => return false,
        }
        true
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are of all numbers")]
#[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
fn unary_of_f32(op: UnaryOp, a: &[u8], out: &mut [u8]) -> bool {
    let is_angle = || {
        let a = cast_slice(a);
        Isa::best().run(All { a, b: a, holds: |x: f32, _| x.is_nan() | (x.abs() <= math::MAX_ANGLE) })
    };
    match op {
        UnaryOp::Floor => map1(a, out, f32::floor),
        UnaryOp::Ceil => map1(a, out, f32::ceil),
        UnaryOp::Trunc => map1(a, out, f32::trunc),
        UnaryOp::Round => map1(a, out, f32::round_ties_even),
        UnaryOp::Sqrt => map1(a, out, f32::sqrt),
        UnaryOp::Exp => real1(a, out, math::exp::<true>, math::exp::<false>),
        UnaryOp::Exp2 => real1(a, out, math::exp2::<true>, math::exp2::<false>),
        UnaryOp::Expm1 => real1(a, out, math::expm1::<true>, math::expm1::<false>),
        UnaryOp::Log => real1(a, out, math::log::<true>, math::log::<false>),
        UnaryOp::Log2 => real1(a, out, math::log2::<true>, math::log2::<false>),
        UnaryOp::Log10 => real1(a, out, math::log10::<true>, math::log10::<false>),
        UnaryOp::Log1p => real1(a, out, math::log1p::<true>, math::log1p::<false>),
        UnaryOp::Sin if is_angle() => real1(a, out, math::sin::<true>, math::sin::<false>),
        UnaryOp::Cos if is_angle() => real1(a, out, math::cos::<true>, math::cos::<false>),
        UnaryOp::Tan if is_angle() => real1(a, out, math::tan::<true>, math::tan::<false>),
        UnaryOp::Sin => call1(a, out, |x: f32| f64::from(x).sin() as f32),
        UnaryOp::Cos => call1(a, out, |x: f32| f64::from(x).cos() as f32),
        UnaryOp::Tan => call1(a, out, |x: f32| f64::from(x).tan() as f32),
        UnaryOp::Asin => call1(a, out, |x: f32| f64::from(x).asin() as f32),
        UnaryOp::Acos => call1(a, out, |x: f32| f64::from(x).acos() as f32),
        UnaryOp::Atan => call1(a, out, |x: f32| f64::from(x).atan() as f32),
        UnaryOp::Sinh => real1(a, out, math::sinh::<true>, math::sinh::<false>),
        UnaryOp::Cosh => real1(a, out, math::cosh::<true>, math::cosh::<false>),
        UnaryOp::Tanh => real1(a, out, math::tanh::<true>, math::tanh::<false>),
        UnaryOp::Asinh => call1(a, out, |x: f32| libm::asinh(x.into()) as f32),
        UnaryOp::Acosh => call1(a, out, |x: f32| definition::unary(op, x.into()) as f32),
        UnaryOp::Atanh => call1(a, out, |x: f32| libm::atanh(x.into()) as f32),
        UnaryOp::Erf => real1(a, out, math::erf::<true>, math::erf::<false>),
        UnaryOp::IsNan => map1(a, out, |x: f32| u8::from(x.is_nan())),
        UnaryOp::IsInf => map1(a, out, |x: f32| u8::from(x.is_infinite())),
        UnaryOp::SignBit => map1(a, out, |x: f32| u8::from(x.is_sign_negative())),
        _ if op.is_elementary() => call1(a, out, |x| definition::unary_f32(op, x)),
        _ => return false,
    }
    true
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are of all numbers")]
fn unary_of_f64(op: UnaryOp, a: &[u8], out: &mut [u8]) -> bool {
    if let Some(function) = op.f64_function() {
        call1(a, out, function);
        return true;
    }
    match op {
        UnaryOp::Floor => map1(a, out, f64::floor),
        UnaryOp::Ceil => map1(a, out, f64::ceil),
        UnaryOp::Trunc => map1(a, out, f64::trunc),
        UnaryOp::Round => map1(a, out, f64::round_ties_even),
        UnaryOp::Sqrt => map1(a, out, f64::sqrt),
        UnaryOp::IsNan => map1(a, out, |x: f64| u8::from(x.is_nan())),
        UnaryOp::IsInf => map1(a, out, |x: f64| u8::from(x.is_infinite())),
        UnaryOp::SignBit => map1(a, out, |x: f64| u8::from(x.is_sign_negative())),
        _ => return false,
    }
    true
}

/// `out = op(a, b)`; `dtype` is that of the operands.
pub(super) fn binary(op: BinaryOp, dtype: Dtype, a: &[u8], b: &[u8], out: &mut [u8]) {
    let is_done = match dtype {
        Dtype::F32 => binary_of_f32(op, a, b, out),
        Dtype::F64 => binary_of_f64(op, a, b, out),
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64
        | Dtype::F16
        | Dtype::Bf16 => visit_integer(dtype, BinaryOfIntegers { op, a, b, out }).unwrap_or(false),
    };
    let is_done = is_done || visit_number(dtype, BinaryOfNumbers { op, a, b, out }).unwrap_or(false);
    assert!(is_done, "the builder admits no {op:?} of {dtype}");
}

struct BinaryOfNumbers<'a> {
    op: BinaryOp,
    a: &'a [u8],
    b: &'a [u8],
    out: &'a mut [u8],
}

impl NumberVisitor for BinaryOfNumbers<'_> {
    type Out = bool;

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of one kind of numbers")]
    fn visit<T: Number>(self) -> bool {
        let Self { op, a, b, out } = self;
        match op {
            BinaryOp::Add => map2(a, b, out, T::add),
            BinaryOp::Sub => map2(a, b, out, T::sub),
            BinaryOp::Mul => map2(a, b, out, T::mul),
            BinaryOp::Div => map2(a, b, out, T::div),
            BinaryOp::Rem => call2(a, b, out, T::rem),
            BinaryOp::Min => map2(a, b, out, T::minimum),
            BinaryOp::Max => map2(a, b, out, T::maximum),
            BinaryOp::Eq => map2(a, b, out, |a: T, b: T| u8::from(a == b)),
            BinaryOp::Ne => map2(a, b, out, |a: T, b: T| u8::from(a != b)),
            BinaryOp::Lt => map2(a, b, out, |a: T, b: T| u8::from(a < b)),
            BinaryOp::Le => map2(a, b, out, |a: T, b: T| u8::from(a <= b)),
            _ => return false,
        }
        true
    }
}

struct BinaryOfIntegers<'a> {
    op: BinaryOp,
    a: &'a [u8],
    b: &'a [u8],
    out: &'a mut [u8],
}

impl IntegerVisitor for BinaryOfIntegers<'_> {
    type Out = bool;

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of all numbers")]
    fn visit<T: Integer>(self) -> bool {
        let Self { op, a, b, out } = self;
        match op {
            BinaryOp::And => map2(a, b, out, T::and),
            BinaryOp::Or => map2(a, b, out, T::or),
            BinaryOp::Xor => map2(a, b, out, T::xor),
            BinaryOp::Shl => map2(a, b, out, T::shl),
            BinaryOp::Shr => map2(a, b, out, T::shr),
            BinaryOp::MulHigh => map2(a, b, out, T::mul_high),
            _ => return false,
        }
        true
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are of all numbers")]
#[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
fn binary_of_f32(op: BinaryOp, a: &[u8], b: &[u8], out: &mut [u8]) -> bool {
    let is_plain = || Isa::best().run(All { a: cast_slice(a), b: cast_slice(b), holds: math::pow_is_plain });
    match op {
        BinaryOp::Pow if is_plain() => real2(a, b, out, math::pow::<true>, math::pow::<false>),
        BinaryOp::Pow => call2(a, b, out, |a: f32, b: f32| f64::from(a).powf(b.into()) as f32),
        BinaryOp::Atan2 => call2(a, b, out, |a: f32, b: f32| f64::from(a).atan2(b.into()) as f32),
        BinaryOp::Hypot => map2(a, b, out, |a: f32, b: f32| {
            let a = f64::from(a);
            let b = f64::from(b);
            let is_infinite = a.is_infinite() | b.is_infinite();
            if is_infinite { f32::INFINITY } else { (a * a + b * b).sqrt() as f32 }
        }),
        BinaryOp::CopySign => map2(a, b, out, f32::copysign),
        _ if op.is_elementary() => call2(a, b, out, |a, b| definition::binary_f32(op, a, b)),
        _ => return false,
    }
    true
}

fn binary_of_f64(op: BinaryOp, a: &[u8], b: &[u8], out: &mut [u8]) -> bool {
    if let Some(function) = op.f64_function() {
        call2(a, b, out, function);
        return true;
    }
    if op == BinaryOp::CopySign {
        map2(a, b, out, f64::copysign);
        return true;
    }
    false
}
