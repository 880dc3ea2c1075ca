//! The operations of scalar functions on blocks of elements: one loop for each operation and type.
//!
//! Operations without calls are compiled for each instruction set. Elementary functions of f64, and those of f32 without a loop here, are
//! computed by their definition.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use accelerd_tensor::{
    Dtype,
    scalar::{
        BinaryOp, UnaryOp,
        loops::{BinaryFunction, BinaryVisitor, UnaryFunction, UnaryVisitor, visit_binary, visit_unary},
    },
};
use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::number::{Integer, IntegerVisitor, Number, NumberVisitor, visit_integer, visit_number};
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

/// As [`map1`] of a function of f32 that is computed in f64: `fused` where products and sums are fused, else `unfused`, which is the same
/// function.
fn real1(a: &[u8], out: &mut [u8], fused: impl Fn(f64) -> f64, unfused: impl Fn(f64) -> f64) {
    Isa::best().run(Real1 { a: cast_slice(a), out: cast_slice_mut(out), fused, unfused });
}

struct Real1<'a, F, U> {
    a: &'a [f32],
    out: &'a mut [f32],
    fused: F,
    unfused: U,
}

impl<F: Fn(f64) -> f64, U: Fn(f64) -> f64> WithSimd for Real1<'_, F, U> {
    type Out = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, a) in self.out.iter_mut().zip(self.a) {
            let a = f64::from(*a);
            *out = if L::HAS_FMA { (self.fused)(a) } else { (self.unfused)(a) } as f32;
        }
    }
}

/// As [`real1`], for two operands.
fn real2(a: &[u8], b: &[u8], out: &mut [u8], fused: impl Fn(f64, f64) -> f64, unfused: impl Fn(f64, f64) -> f64) {
    Isa::best().run(Real2 { a: cast_slice(a), b: cast_slice(b), out: cast_slice_mut(out), fused, unfused });
}

struct Real2<'a, F, U> {
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut [f32],
    fused: F,
    unfused: U,
}

impl<F: Fn(f64, f64) -> f64, U: Fn(f64, f64) -> f64> WithSimd for Real2<'_, F, U> {
    type Out = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn run<L: Lanes>(self, _lanes: L) {
        for (out, (a, b)) in self.out.iter_mut().zip(self.a.iter().zip(self.b)) {
            let a = f64::from(*a);
            let b = f64::from(*b);
            *out = if L::HAS_FMA { (self.fused)(a, b) } else { (self.unfused)(a, b) } as f32;
        }
    }
}

/// An elementary function of f32.
struct Elementary1<'a> {
    a: &'a [u8],
    out: &'a mut [u8],
}

impl UnaryVisitor for Elementary1<'_> {
    type Out = ();

    fn visit<F: UnaryFunction>(self) {
        let Self { a, out } = self;
        if F::HAS_CASES && !all(a, a, |x, _| F::is_plain(x)) {
            real1(a, out, F::compute::<true, false>, F::compute::<false, false>);
        } else {
            real1(a, out, F::compute::<true, true>, F::compute::<false, true>);
        }
    }
}

/// An elementary function of two f32.
struct Elementary2<'a> {
    a: &'a [u8],
    b: &'a [u8],
    out: &'a mut [u8],
}

impl BinaryVisitor for Elementary2<'_> {
    type Out = ();

    fn visit<F: BinaryFunction>(self) {
        let Self { a, b, out } = self;
        if F::HAS_CASES && !all(a, b, F::is_plain) {
            real2(a, b, out, F::compute::<true, false>, F::compute::<false, false>);
        } else {
            real2(a, b, out, F::compute::<true, true>, F::compute::<false, true>);
        }
    }
}

/// Returns true if a condition holds for all pairs of operands.
fn all(a: &[u8], b: &[u8], holds: impl Fn(f32, f32) -> bool) -> bool {
    Isa::best().run(All { a: cast_slice(a), b: cast_slice(b), holds })
}

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

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are elementary functions, or of all numbers")]
fn unary_of_f32(op: UnaryOp, a: &[u8], out: &mut [u8]) -> bool {
    match op {
        UnaryOp::Floor => map1(a, out, f32::floor),
        UnaryOp::Ceil => map1(a, out, f32::ceil),
        UnaryOp::Trunc => map1(a, out, f32::trunc),
        UnaryOp::Round => map1(a, out, f32::round_ties_even),
        UnaryOp::Sqrt => map1(a, out, f32::sqrt),
        UnaryOp::IsNan => map1(a, out, |x: f32| u8::from(x.is_nan())),
        UnaryOp::IsInf => map1(a, out, |x: f32| u8::from(x.is_infinite())),
        UnaryOp::SignBit => map1(a, out, |x: f32| u8::from(x.is_sign_negative())),
        _ => return visit_unary(op, Elementary1 { a, out }).is_some(),
    }
    true
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are elementary functions, or of all numbers")]
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

fn binary_of_f32(op: BinaryOp, a: &[u8], b: &[u8], out: &mut [u8]) -> bool {
    if op == BinaryOp::CopySign {
        map2(a, b, out, f32::copysign);
        return true;
    }
    visit_binary(op, Elementary2 { a, b, out }).is_some()
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

#[cfg(test)]
mod tests {
    use accelerd_tensor::scalar::math;

    use super::*;

    /// The results of an operation for a block of these operands.
    fn unary_of<T: Pod + Default>(op: UnaryOp, dtype: Dtype, a: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); a.len()];
        unary(op, dtype, cast_slice(a), cast_slice_mut(&mut out));
        out
    }

    fn pow(a: &[f32], b: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; a.len()];
        binary(BinaryOp::Pow, Dtype::F32, cast_slice(a), cast_slice(b), cast_slice_mut(&mut out));
        out
    }

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|x| x.to_bits()).collect()
    }

    /// Numbers of a block that is not a whole number of vectors.
    fn block(scale: f32) -> Vec<f32> {
        (0..1003_u16).map(|i| (f32::from(i) - 400.0) * scale).collect()
    }

    #[test]
    fn elementary_functions_of_a_block_are_those_of_the_interpreter() {
        for op in UnaryOp::elementary() {
            for scale in [1e-20, 0.0021, 0.07, 1e33] {
                let a = block(scale);
                for (x, got) in a.iter().zip(unary_of(op, Dtype::F32, &a)) {
                    let expected = math::unary_f32(op, *x);
                    let is_close = (got - expected).abs() <= f32::EPSILON * expected.abs();
                    let is_same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
                    assert!(is_close || is_same, "{op:?} of {x:?}: expected {expected:?}, got {got:?}");
                }
            }
        }
    }

    #[test]
    fn an_element_has_the_same_bits_beside_a_large_angle() {
        for op in [UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Tan] {
            let mut a = block(7.3);
            let alone = unary_of(op, Dtype::F32, &a);
            a[1002] = 1e30;
            let together = unary_of(op, Dtype::F32, &a);
            assert_eq!(bits(&alone[..1002]), bits(&together[..1002]), "{op:?}");
            assert!((together[1002] - math::unary_f32(op, 1e30)).abs() < 1e-6, "{op:?}");
        }
    }

    #[test]
    fn a_power_has_the_same_bits_beside_one_of_a_negative_number() {
        let mut a: Vec<f32> = block(0.01).iter().map(|x| x.abs() + 0.3).collect();
        let b = block(0.04);
        let alone = pow(&a, &b);
        a[1002] = -3.0;
        let mut exponents = b.clone();
        exponents[1002] = 3.0;
        let together = pow(&a, &exponents);
        assert_eq!(bits(&alone[..1002]), bits(&together[..1002]));
        assert_eq!(bits(&together[1002..]), bits(&[-27.0]));
    }

    #[test]
    fn inverse_hyperbolic_cosines_of_numbers_below_one_are_nan() {
        let below = [0.999_f32, 0.0, -2.0, -1e10, -1e38, f32::NEG_INFINITY];
        assert!(unary_of(UnaryOp::Acosh, Dtype::F32, &below).iter().all(|x| x.is_nan()));
        let below = [0.999, 0.0, -2.0, -1e10, -1e300, f64::NEG_INFINITY];
        assert!(unary_of(UnaryOp::Acosh, Dtype::F64, &below).iter().all(|x| x.is_nan()));
    }

    #[test]
    fn zeros_keep_their_sign_in_odd_functions() {
        use UnaryOp::{Asin, Asinh, Atan, Atanh, Erf, Expm1, Log1p, Sin, Sinh, Tan, Tanh};
        for op in [Asin, Asinh, Atan, Atanh, Erf, Expm1, Log1p, Sin, Sinh, Tan, Tanh] {
            assert_eq!(bits(&unary_of(op, Dtype::F32, &[-0.0, 0.0])), [1 << 31, 0], "{op:?}");
        }
    }
}
