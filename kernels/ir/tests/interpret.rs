//! The interpreter computes the documented results of operations, also at the edges of every type.

use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Literal, UnaryOp, interpret},
};
use proptest::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const FLOATS: [Dtype; 2] = [Dtype::F32, Dtype::F64];

fn unary(op: UnaryOp, a: Literal) -> Literal {
    let mut builder = Builder::new(&[a.dtype()]);
    let param = builder.param(0);
    let result = builder.unary(op, param).expect("the operation takes the type");
    interpret(&builder.finish(&[result]), &[a], 0)[0]
}

fn binary(op: BinaryOp, a: Literal, b: Literal) -> Literal {
    let mut builder = Builder::new(&[a.dtype(), b.dtype()]);
    let left = builder.param(0);
    let right = builder.param(1);
    let result = builder.binary(op, left, right).expect("the operation takes the types");
    interpret(&builder.finish(&[result]), &[a, b], 0)[0]
}

/// Equal bits, or both NaN.
fn is_same(a: Literal, b: Literal) -> bool {
    a == b || (a.dtype() == b.dtype() && a.as_f64().is_nan() && b.as_f64().is_nan())
}

fn int(dtype: Dtype, value: i64) -> Literal {
    Literal::from_i64(dtype, value)
}

fn truth(value: bool) -> Literal {
    Literal::from_i64(Dtype::Bool, value.into())
}

fn integers() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|dtype| dtype.is_integer())
}

/// The least and the greatest value of an integer type.
fn range(dtype: Dtype) -> (Literal, Literal) {
    let top = 1 << (8 * dtype.size() - 1);
    let [least, greatest] = if dtype.is_signed() { [top, top - 1] } else { [0, u64::MAX] };
    (Literal::from_bits(dtype, least), Literal::from_bits(dtype, greatest))
}

#[test]
fn operations_of_a_float_hold_at_edges() {
    use UnaryOp::{
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Ceil, Cos, Cosh, Erf, Exp, Exp2, Expm1, Floor, Log, Log1p, Log2,
        Log10, Neg, Round, Sign, Sin, Sinh, Sqrt, Tan, Tanh, Trunc,
    };
    let cases = [
        (Neg, 0.0, -0.0),
        (Neg, -INF, INF),
        (Abs, -0.0, 0.0),
        (Abs, -INF, INF),
        (Sign, -0.0, 0.0),
        (Sign, -7.5, -1.0),
        (Sign, INF, 1.0),
        (Floor, -0.5, -1.0),
        (Floor, -0.0, -0.0),
        (Ceil, -0.5, -0.0),
        (Ceil, 1.25, 2.0),
        (Trunc, -1.75, -1.0),
        (Trunc, INF, INF),
        (Round, 0.5, 0.0),
        (Round, 1.5, 2.0),
        (Round, 2.5, 2.0),
        (Round, -0.5, -0.0),
        (Round, -3.5, -4.0),
        (Sqrt, -0.0, -0.0),
        (Sqrt, -1.0, NAN),
        (Sqrt, INF, INF),
        (Exp, -INF, 0.0),
        (Exp, 1e9, INF),
        (Exp2, 10.0, 1024.0),
        (Expm1, -0.0, -0.0),
        (Expm1, -INF, -1.0),
        (Log, 0.0, -INF),
        (Log, -1.0, NAN),
        (Log2, 8.0, 3.0),
        (Log10, 1000.0, 3.0),
        (Log1p, -1.0, -INF),
        (Log1p, -0.0, -0.0),
        (Sin, -0.0, -0.0),
        (Sin, INF, NAN),
        (Cos, 0.0, 1.0),
        (Cos, -INF, NAN),
        (Tan, -0.0, -0.0),
        (Asin, 1.5, NAN),
        (Acos, 1.0, 0.0),
        (Atan, -INF, -std::f64::consts::FRAC_PI_2),
        (Sinh, -INF, -INF),
        (Cosh, -INF, INF),
        (Tanh, -INF, -1.0),
        (Asinh, -INF, -INF),
        (Acosh, 1.0, 0.0),
        (Acosh, 0.5, NAN),
        (Acosh, -1_181_687.0, NAN),
        (Acosh, -INF, NAN),
        (Atanh, 1.0, INF),
        (Atanh, -0.0, -0.0),
        (Erf, -INF, -1.0),
        (Erf, -0.0, -0.0),
    ];
    for (op, x, expected) in cases {
        for dtype in FLOATS {
            let result = unary(op, Literal::from_f64(dtype, x));
            assert!(is_same(result, Literal::from_f64(dtype, expected)), "{op:?} of {x}: {result:?}, not {expected}");
        }
    }
}

#[test]
fn nan_propagates_through_every_operation_of_a_float() {
    for dtype in FLOATS {
        let nan = Literal::from_f64(dtype, NAN);
        for op in UnaryOp::ALL.into_iter().filter(|op| op.result(dtype) == Some(dtype)) {
            assert!(unary(op, nan).as_f64().is_nan(), "{op:?}");
        }
        let one = Literal::from_f64(dtype, 2.0);
        for op in BinaryOp::ALL.into_iter().filter(|op| op.result(dtype) == Some(dtype) && *op != BinaryOp::CopySign) {
            assert!(binary(op, nan, one).as_f64().is_nan(), "{op:?}");
            assert!(binary(op, one, nan).as_f64().is_nan(), "{op:?}");
        }
    }
}

#[test]
fn transcendental_functions_of_f32_are_within_half_a_unit_in_the_last_place() {
    use std::f64::consts::{E, FRAC_PI_3, FRAC_PI_4, FRAC_PI_6, LN_2, LOG10_2, SQRT_2};
    let cases = [
        (UnaryOp::Exp, 1.0, E),
        (UnaryOp::Exp2, 0.5, SQRT_2),
        (UnaryOp::Expm1, 1.0, E - 1.0),
        (UnaryOp::Log, 2.0, LN_2),
        (UnaryOp::Log2, 3.0, 1.584_962_500_721_156),
        (UnaryOp::Log10, 2.0, LOG10_2),
        (UnaryOp::Log1p, 1.0, LN_2),
        (UnaryOp::Sin, 1.0, 0.841_470_984_807_896_5),
        (UnaryOp::Cos, 1.0, 0.540_302_305_868_139_8),
        (UnaryOp::Tan, 1.0, 1.557_407_724_654_902_3),
        (UnaryOp::Asin, 0.5, FRAC_PI_6),
        (UnaryOp::Acos, 0.5, FRAC_PI_3),
        (UnaryOp::Atan, 1.0, FRAC_PI_4),
        (UnaryOp::Sinh, 1.0, 1.175_201_193_643_801_4),
        (UnaryOp::Cosh, 1.0, 1.543_080_634_815_243_7),
        (UnaryOp::Tanh, 1.0, 0.761_594_155_955_764_9),
        (UnaryOp::Asinh, 1.0, 0.881_373_587_019_543),
        (UnaryOp::Acosh, 2.0, 1.316_957_896_924_816_6),
        (UnaryOp::Atanh, 0.5, 0.549_306_144_334_054_8),
        (UnaryOp::Erf, 0.5, 0.520_499_877_813_046_5),
        (UnaryOp::Erf, 2.0, 0.995_322_265_018_952_7),
    ];
    for (op, x, expected) in cases {
        let result = unary(op, Literal::from_f64(Dtype::F32, x));
        assert_eq!(result, Literal::from_f64(Dtype::F32, expected), "{op:?} of {x}");
        let error = unary(op, Literal::from_f64(Dtype::F64, x)).as_f64() / expected - 1.0;
        assert!(error.abs() <= 2.0 * f64::EPSILON, "{op:?} of {x}: relative error {error:e}");
    }
}

#[test]
fn small_operands_keep_their_digits() {
    for op in [UnaryOp::Expm1, UnaryOp::Log1p, UnaryOp::Asinh, UnaryOp::Atanh] {
        assert_eq!(unary(op, Literal::from_f64(Dtype::F64, 1e-20)).as_f64().to_bits(), 1e-20_f64.to_bits(), "{op:?}");
    }
    // acosh(1 + x) is near sqrt(2 x).
    let x = 2.0_f64.powi(-40);
    let error = unary(UnaryOp::Acosh, Literal::from_f64(Dtype::F64, 1.0 + x)).as_f64() / (2.0 * x).sqrt() - 1.0;
    assert!(error.abs() < x, "{error:e}");
    let large = unary(UnaryOp::Asinh, Literal::from_f64(Dtype::F64, f64::MAX)).as_f64();
    assert!((large - f64::MAX.ln() - std::f64::consts::LN_2).abs() < 1e-12, "{large}");
}

#[test]
fn operations_of_two_floats_hold_at_edges() {
    let cases = [
        (BinaryOp::Div, 1.0, -0.0, -INF),
        (BinaryOp::Div, 0.0, 0.0, NAN),
        (BinaryOp::Rem, -5.5, 2.0, -1.5),
        (BinaryOp::Rem, 5.5, -2.0, 1.5),
        (BinaryOp::Rem, -4.0, 2.0, -0.0),
        (BinaryOp::Rem, 1.0, 0.0, NAN),
        (BinaryOp::Rem, 3.0, INF, 3.0),
        (BinaryOp::Pow, NAN, 0.0, 1.0),
        (BinaryOp::Pow, 1.0, NAN, 1.0),
        (BinaryOp::Pow, -2.0, 3.0, -8.0),
        (BinaryOp::Pow, -8.0, 0.5, NAN),
        (BinaryOp::Pow, 0.0, -1.0, INF),
        (BinaryOp::Atan2, 0.0, -1.0, std::f64::consts::PI),
        (BinaryOp::Atan2, -1.0, 0.0, -std::f64::consts::FRAC_PI_2),
        (BinaryOp::Hypot, 3.0, 4.0, 5.0),
        (BinaryOp::Hypot, 2e38, 0.0, 2e38),
        (BinaryOp::Hypot, NAN, -INF, INF),
        (BinaryOp::Min, 0.0, -0.0, -0.0),
        (BinaryOp::Min, -0.0, 0.0, -0.0),
        (BinaryOp::Min, -INF, 1.0, -INF),
        (BinaryOp::Min, NAN, -INF, NAN),
        (BinaryOp::Max, 0.0, -0.0, 0.0),
        (BinaryOp::Max, -0.0, 0.0, 0.0),
        (BinaryOp::Max, INF, NAN, NAN),
        (BinaryOp::Max, -3.0, 2.0, 2.0),
        (BinaryOp::CopySign, 1.5, -0.0, -1.5),
        (BinaryOp::CopySign, -INF, 2.0, INF),
    ];
    for (op, x, y, expected) in cases {
        for dtype in FLOATS {
            let [a, b, expected] = [x, y, expected].map(|value| Literal::from_f64(dtype, value));
            let result = binary(op, a, b);
            assert!(is_same(result, expected), "{op:?} of {a:?} and {b:?}: {result:?}, not {expected:?}");
        }
    }
}

#[test]
fn comparisons_with_nan_are_false_but_for_ne() {
    for dtype in FLOATS {
        let [nan, one, zero, negative_zero] = [NAN, 1.0, 0.0, -0.0].map(|value| Literal::from_f64(dtype, value));
        for op in [BinaryOp::Eq, BinaryOp::Lt, BinaryOp::Le] {
            assert_eq!(binary(op, nan, nan), truth(false), "{op:?}");
            assert_eq!(binary(op, nan, one), truth(false), "{op:?}");
        }
        assert_eq!(binary(BinaryOp::Ne, nan, nan), truth(true));
        assert_eq!(binary(BinaryOp::Eq, zero, negative_zero), truth(true));
        assert_eq!(binary(BinaryOp::Lt, negative_zero, zero), truth(false));
        assert_eq!(binary(BinaryOp::Le, negative_zero, zero), truth(true));
    }
}

#[test]
fn the_sign_of_a_float_is_its_bit() {
    for dtype in FLOATS {
        let sign_bit = |value| unary(UnaryOp::SignBit, value);
        let nan = Literal::from_f64(dtype, NAN);
        let negated = unary(UnaryOp::Neg, nan);
        assert_ne!(sign_bit(nan), sign_bit(negated), "negation flips the sign of NaN");
        assert_eq!(sign_bit(unary(UnaryOp::Abs, negated)), truth(false));
        assert_eq!(sign_bit(Literal::from_f64(dtype, -0.0)), truth(true));
        assert_eq!(sign_bit(Literal::from_f64(dtype, INF)), truth(false));
        for (value, is_nan, is_inf) in [(NAN, true, false), (-INF, false, true), (0.0, false, false)] {
            let value = Literal::from_f64(dtype, value);
            assert_eq!(unary(UnaryOp::IsNan, value), truth(is_nan));
            assert_eq!(unary(UnaryOp::IsInf, value), truth(is_inf));
        }
    }
}

#[test]
fn division_of_integers_is_defined_for_every_divisor() {
    for dtype in integers() {
        let (least, greatest) = range(dtype);
        let [zero, two] = [0, 2].map(|value| int(dtype, value));
        for value in [least, greatest, zero, two] {
            assert_eq!(binary(BinaryOp::Div, value, zero), zero, "{value:?}");
            assert_eq!(binary(BinaryOp::Rem, value, zero), zero, "{value:?}");
        }
        if dtype.is_signed() {
            assert_eq!(binary(BinaryOp::Div, least, int(dtype, -1)), least);
            assert_eq!(binary(BinaryOp::Rem, least, int(dtype, -1)), zero);
            assert_eq!(binary(BinaryOp::Div, int(dtype, -7), two), int(dtype, -3), "truncates");
            assert_eq!(binary(BinaryOp::Rem, int(dtype, -7), two), int(dtype, -1), "has the dividend's sign");
        }
    }
}

#[test]
fn integers_wrap_at_the_ends_of_their_ranges() {
    for dtype in integers() {
        let (least, greatest) = range(dtype);
        let one = int(dtype, 1);
        assert_eq!(binary(BinaryOp::Add, greatest, one), least);
        assert_eq!(binary(BinaryOp::Sub, least, one), greatest);
        assert_eq!(binary(BinaryOp::Mul, greatest, int(dtype, 2)), int(dtype, -2));
        assert_eq!(unary(UnaryOp::Neg, least), least);
        assert_eq!(unary(UnaryOp::Neg, one), Literal::from_bits(dtype, u64::MAX));
        assert_eq!(binary(BinaryOp::Min, least, greatest), least);
        assert_eq!(binary(BinaryOp::Max, least, greatest), greatest);
        assert_eq!(binary(BinaryOp::Lt, least, greatest), truth(true));
        if dtype.is_signed() {
            assert_eq!(unary(UnaryOp::Abs, least), least);
            assert_eq!(unary(UnaryOp::Abs, int(dtype, -5)), int(dtype, 5));
            assert_eq!(unary(UnaryOp::Sign, least), int(dtype, -1));
        }
    }
}

#[test]
fn shifts_are_defined_for_every_number_of_bits() {
    for dtype in integers() {
        let (least, greatest) = range(dtype);
        let bits = i64::try_from(8 * dtype.size()).expect("at most 64");
        let [zero, one] = [0, 1].map(|value| int(dtype, value));
        assert_eq!(binary(BinaryOp::Shl, one, int(dtype, bits - 1)), Literal::from_bits(dtype, 1 << (bits - 1)));
        assert_eq!(binary(BinaryOp::Shr, greatest, int(dtype, 1)), binary(BinaryOp::Div, greatest, int(dtype, 2)));
        for out_of_range in
            [int(dtype, bits), int(dtype, -1), greatest, least].into_iter().filter(|count| *count != zero)
        {
            assert_eq!(binary(BinaryOp::Shl, greatest, out_of_range), zero, "{out_of_range:?}");
            assert_eq!(binary(BinaryOp::Shr, greatest, out_of_range), zero, "{out_of_range:?}");
            if dtype.is_signed() {
                assert_eq!(binary(BinaryOp::Shr, least, out_of_range), int(dtype, -1), "{out_of_range:?}");
            }
        }
    }
}

#[test]
fn bools_follow_their_truth_tables() {
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let cases = [
            (BinaryOp::And, a & b),
            (BinaryOp::Or, a | b),
            (BinaryOp::Xor, a ^ b),
            (BinaryOp::Min, a & b),
            (BinaryOp::Max, a | b),
            (BinaryOp::Eq, a == b),
            (BinaryOp::Ne, a != b),
            (BinaryOp::Lt, !a & b),
            (BinaryOp::Le, a <= b),
        ];
        for (op, expected) in cases {
            assert_eq!(binary(op, truth(a), truth(b)), truth(expected), "{op:?} of {a} and {b}");
        }
        assert_eq!(unary(UnaryOp::Not, truth(a)), truth(!a));
    }
}

#[test]
fn a_function_selects_and_counts_and_returns_several_results() {
    let mut builder = Builder::new(&[Dtype::Bool, Dtype::Bf16, Dtype::Bf16]);
    let [condition, a, b] = [0, 1, 2].map(|nth| builder.param(nth));
    let selected = builder.select(condition, a, b).expect("two values of a type");
    let index = builder.index();
    let three = builder.number(Dtype::I64, 3.0);
    let offset = builder.binary(BinaryOp::Add, index, three).expect("two i64");
    let function = builder.finish(&[offset, selected, offset]);
    let [a, b] = [0.5, -0.5].map(|value| Literal::from_f64(Dtype::Bf16, value));
    let seven = int(Dtype::I64, 7);
    assert_eq!(interpret(&function, &[truth(true), a, b], 4), [seven, a, seven]);
    assert_eq!(interpret(&function, &[truth(false), a, b], 4), [seven, b, seven]);
}

#[test]
#[should_panic(expected = "arguments have the types of the parameters")]
fn arguments_of_other_types_are_rejected() {
    let mut builder = Builder::new(&[Dtype::F32]);
    let param = builder.param(0);
    interpret(&builder.finish(&[param]), &[int(Dtype::I32, 1)], 0);
}

/// Compares the arithmetic of a type of integers with Rust's, for operands with these bits.
macro_rules! check_integer {
    ($type:ty, $dtype:expr, $a:expr, $b:expr) => {{
        let (x, y) = ($a as $type, $b as $type);
        let literal = |value: $type| Literal::from_bits($dtype, value as u64);
        let a = literal(x);
        let b = literal(y);
        prop_assert_eq!(binary(BinaryOp::Add, a, b), literal(x.wrapping_add(y)));
        prop_assert_eq!(binary(BinaryOp::Sub, a, b), literal(x.wrapping_sub(y)));
        prop_assert_eq!(binary(BinaryOp::Mul, a, b), literal(x.wrapping_mul(y)));
        prop_assert_eq!(binary(BinaryOp::Div, a, b), literal(if y == 0 { 0 } else { x.wrapping_div(y) }));
        prop_assert_eq!(binary(BinaryOp::Rem, a, b), literal(if y == 0 { 0 } else { x.wrapping_rem(y) }));
        prop_assert_eq!(binary(BinaryOp::Min, a, b), literal(x.min(y)));
        prop_assert_eq!(binary(BinaryOp::Max, a, b), literal(x.max(y)));
        prop_assert_eq!(binary(BinaryOp::And, a, b), literal(x & y));
        prop_assert_eq!(binary(BinaryOp::Or, a, b), literal(x | y));
        prop_assert_eq!(binary(BinaryOp::Xor, a, b), literal(x ^ y));
        prop_assert_eq!(binary(BinaryOp::Lt, a, b), truth(x < y));
        prop_assert_eq!(binary(BinaryOp::Le, a, b), truth(x <= y));
        prop_assert_eq!(binary(BinaryOp::Eq, a, b), truth(x == y));
        prop_assert_eq!(binary(BinaryOp::Ne, a, b), truth(x != y));
        prop_assert_eq!(unary(UnaryOp::Not, a), literal(!x));
        prop_assert_eq!(unary(UnaryOp::Neg, a), literal(x.wrapping_neg()));
        let count = $b as u32 % <$type>::BITS;
        prop_assert_eq!(binary(BinaryOp::Shl, a, literal(count as $type)), literal(x << count));
        prop_assert_eq!(binary(BinaryOp::Shr, a, literal(count as $type)), literal(x >> count));
        let high = if <$type>::MIN == 0 {
            (x as u128 * y as u128 >> <$type>::BITS) as $type
        } else {
            (x as i128 * y as i128 >> <$type>::BITS) as $type
        };
        prop_assert_eq!(binary(BinaryOp::MulHigh, a, b), literal(high));
    }};
}

proptest! {
    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss, trivial_numeric_casts)]
    fn integers_compute_as_wrapping_integers_of_rust(a: u64, b: u64) {
        check_integer!(u8, Dtype::U8, a, b);
        check_integer!(i8, Dtype::I8, a, b);
        check_integer!(u16, Dtype::U16, a, b);
        check_integer!(i16, Dtype::I16, a, b);
        check_integer!(u32, Dtype::U32, a, b);
        check_integer!(i32, Dtype::I32, a, b);
        check_integer!(u64, Dtype::U64, a, b);
        check_integer!(i64, Dtype::I64, a, b);
    }

    #[test]
    fn arithmetic_of_f32_is_rounded_once(a: u32, b: u32) {
        let x = f32::from_bits(a);
        let y = f32::from_bits(b);
        let literal = |value: f32| Literal::from_bits(Dtype::F32, value.to_bits().into());
        let cases = [
            (BinaryOp::Add, x + y),
            (BinaryOp::Sub, x - y),
            (BinaryOp::Mul, x * y),
            (BinaryOp::Div, x / y),
            (BinaryOp::Rem, x % y),
        ];
        for (op, expected) in cases {
            let result = binary(op, literal(x), literal(y));
            prop_assert!(is_same(result, literal(expected)), "{op:?} of {x} and {y}: {result:?}, not {expected}");
        }
        prop_assert!(is_same(unary(UnaryOp::Sqrt, literal(x)), literal(x.sqrt())), "square root of {x}");
    }
}
