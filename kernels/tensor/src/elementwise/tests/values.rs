//! Values that operations compute, at their edges above all.

#![expect(clippy::float_cmp, reason = "results that are exact are compared exactly")]

use super::*;
use crate::Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

/// A function as the standard library has it.
type Reference = fn(f64) -> f64;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The result for numbers of one type.
fn of(dtype: Dtype, op: &str, attributes: &[(&str, Attribute)], arguments: &[f64]) -> f64 {
    let arguments: Vec<_> = arguments.iter().map(|value| Literal::from_f64(dtype, *value)).collect();
    evaluate(op, attributes, &arguments).as_f64()
}

/// Compares f32 results: equal infinities and signs of zeros, NaN for NaN, else a few units in the last place.
fn close(got: f64, expected: f64) -> bool {
    match () {
        () if expected.is_nan() => got.is_nan(),
        () if expected == 0.0 || expected.is_infinite() => got.to_bits() == expected.to_bits(),
        () => ((got - expected) / expected).abs() < 4.0 * f64::from(f32::EPSILON),
    }
}

fn check_f32(op: &str, attributes: &[(&str, Attribute)], cases: &[(&[f64], f64)]) {
    for (arguments, expected) in cases {
        let got = of(F32, op, attributes, arguments);
        assert!(close(got, *expected), "{op}{arguments:?} {attributes:?}: {got}, expected {expected}");
    }
}

fn check_exact(dtype: Dtype, op: &str, cases: &[(&[f64], f64)]) {
    for (arguments, expected) in cases {
        let got = of(dtype, op, &[], arguments);
        assert_eq!(got.to_bits(), expected.to_bits(), "{op}{arguments:?} of {dtype}: {got}, expected {expected}");
    }
}

fn float(value: f64) -> Attribute {
    Attribute::Float(value)
}

fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

#[test]
fn unary_functions_are_those_of_their_names() {
    let functions: [(&str, Reference); 29] = [
        ("abs", f64::abs),
        ("acos", f64::acos),
        ("asin", f64::asin),
        ("asinh", f64::asinh),
        ("atan", f64::atan),
        ("atanh", f64::atanh),
        ("ceil", f64::ceil),
        ("cos", f64::cos),
        ("cosh", f64::cosh),
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("fix", f64::trunc),
        ("floor", f64::floor),
        ("log", f64::ln),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("log2", f64::log2),
        ("neg", |x| -x),
        ("positive", |x| x),
        ("reciprocal", f64::recip),
        ("round", f64::round_ties_even),
        ("rsqrt", |x| x.sqrt().recip()),
        ("sin", f64::sin),
        ("sinh", f64::sinh),
        ("sqrt", f64::sqrt),
        ("square", |x| x * x),
        ("tan", f64::tan),
        ("tanh", f64::tanh),
    ];
    for (name, function) in functions {
        for x in [0.0, 0.25, -0.75, 0.5, 1e-6, 0.999] {
            let x = Literal::from_f64(F32, x).as_f64();
            check_f32(name, &[], &[(&[x], function(x))]);
        }
    }
    check_f32("acosh", &[], &[(&[1.5], 1.5f64.acosh()), (&[0.5], NAN)]);
    check_f32("erf", &[], &[(&[0.5], 0.520_499_877_813_046_5), (&[-INF], -1.0)]);
}

#[test]
fn functions_of_integers_are_computed_in_f32() {
    assert_eq!(evaluate("exp", &[], &[Literal::from_i64(I64, 0)]), Literal::from_f64(F32, 1.0));
    assert_eq!(evaluate("div", &[], &[7, 2].map(|x| Literal::from_i64(I8, x))), Literal::from_f64(F32, 3.5));
    let tensor = [Literal::from_i64(I8, 1)];
    assert_eq!(evaluate("div", &[("other", Attribute::Int(1000))], &tensor), Literal::from_f64(F32, 1e-3));
    assert_eq!(evaluate("sqrt", &[], &[Literal::from_i64(Bool, 1)]), Literal::from_f64(F32, 1.0));
}

#[test]
fn integers_keep_their_values_in_rounding_and_signs() {
    for op in ["floor", "ceil", "trunc", "round", "positive"] {
        let value = Literal::from_i64(I64, i64::MAX);
        assert_eq!(evaluate(op, &[], &[value]), value, "{op}");
    }
    check_exact(I8, "abs", &[(&[-5.0], 5.0), (&[-128.0], -128.0)]);
    check_exact(U8, "abs", &[(&[200.0], 200.0)]);
    check_exact(U8, "neg", &[(&[1.0], 255.0)]);
    check_exact(U32, "sign", &[(&[7.0], 1.0), (&[0.0], 0.0)]);
    check_exact(I16, "sgn", &[(&[-7.0], -1.0)]);
    check_exact(Bool, "sign", &[(&[1.0], 1.0)]);
    check_exact(I32, "signbit", &[(&[-1.0], 1.0), (&[0.0], 0.0)]);
    check_exact(U64, "isfinite", &[(&[1.0], 1.0)]);
    check_exact(Bool, "isnan", &[(&[1.0], 0.0)]);
}

#[test]
fn classes_of_numbers_are_told_apart() {
    for (op, expected) in [("isnan", [0, 0, 0, 1]), ("isinf", [0, 1, 1, 0]), ("isfinite", [1, 0, 0, 0])] {
        for dtype in [F16, Bf16, F32, F64] {
            let got = [1.5, INF, -INF, NAN].map(|x| of(dtype, op, &[], &[x]));
            assert_eq!(got, expected.map(f64::from), "{op} of {dtype}");
        }
    }
    check_f32("signbit", &[], &[(&[-0.0], 1.0), (&[0.0], 0.0), (&[-INF], 1.0)]);
}

#[test]
fn infinities_and_nan_get_replacements_within_the_type() {
    assert_eq!([INF, -INF, NAN, 2.5].map(|x| of(F16, "nan_to_num", &[], &[x])), [65504.0, -65504.0, 0.0, 2.5]);
    assert_eq!(of(F64, "nan_to_num", &[], &[INF]), f64::MAX);
    assert!(of(Bf16, "nan_to_num", &[], &[INF]).is_finite());
    let attributes = [("nan", float(1.0)), ("posinf", float(2.0)), ("neginf", float(3.0))];
    assert_eq!([NAN, INF, -INF].map(|x| of(F32, "nan_to_num", &attributes, &[x])), [1.0, 2.0, 3.0]);
    check_exact(I8, "nan_to_num", &[(&[-3.0], -3.0)]);
}

#[test]
fn activations_follow_their_formulas_without_overflow() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu_of_1 = 0.841_344_746_068_542_9;
    check_f32("sigmoid", &[], &[(&[0.5], sigmoid(0.5)), (&[-80.0], sigmoid(-80.0)), (&[200.0], 1.0), (&[-INF], 0.0)]);
    check_f32("sigmoid", &[], &[(&[NAN], NAN), (&[INF], 1.0)]);
    check_f32("silu", &[], &[(&[-2.0], -2.0 * sigmoid(-2.0)), (&[300.0], 300.0), (&[NAN], NAN)]);
    check_f32("gelu", &[], &[(&[1.0], gelu_of_1), (&[-30.0], -0.0), (&[0.0], 0.0)]);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 0.044_715);
    check_f32("gelu", &[("approximate", text("tanh"))], &[(&[1.0], 0.5 * (1.0 + inner.tanh())), (&[30.0], 30.0)]);
    check_f32("softplus", &[], &[(&[1.0], 1f64.exp().ln_1p()), (&[25.0], 25.0), (&[-80.0], (-80f64).exp())]);
    let attributes = [("beta", float(2.0)), ("threshold", float(1e6))];
    check_f32("softplus", &attributes, &[(&[1.0], 2f64.exp().ln_1p() / 2.0), (&[1000.0], 1000.0)]);
    check_f32("elu", &[("alpha", float(2.0))], &[(&[-1e-6], 2.0 * -1e-6f64), (&[3.0], 3.0), (&[-INF], -2.0)]);
    check_f32("leaky_relu", &[], &[(&[-2.0], -0.02), (&[2.0], 2.0), (&[NAN], NAN)]);
    check_f32("leaky_relu", &[("negative_slope", float(0.5))], &[(&[-2.0], -1.0)]);
    check_f32("relu", &[], &[(&[-2.0], 0.0), (&[2.0], 2.0), (&[NAN], NAN)]);
    check_exact(I8, "relu", &[(&[-2.0], 0.0), (&[2.0], 2.0)]);
    check_f32("relu6", &[], &[(&[7.0], 6.0), (&[-1.0], 0.0)]);
    check_f32("hardtanh", &[], &[(&[7.0], 1.0), (&[-7.0], -1.0), (&[0.5], 0.5)]);
    check_exact(U8, "hardtanh", &[(&[7.0], 1.0)]);
    check_f32("softsign", &[], &[(&[-3.0], -0.75)]);
    check_f32("threshold", &[("threshold", float(0.5)), ("value", float(9.0))], &[(&[0.5], 9.0), (&[0.6], 0.6)]);
    check_f32("logit", &[], &[(&[0.75], 3f64.ln()), (&[1.0], INF), (&[2.0], NAN)]);
    check_f32("logit", &[("eps", float(0.25))], &[(&[1.0], 3f64.ln())]);
}

#[test]
fn sums_and_products_follow_the_type() {
    check_exact(U8, "add", &[(&[200.0, 100.0], 44.0)]);
    check_exact(Bool, "add", &[(&[1.0, 1.0], 1.0), (&[0.0, 0.0], 0.0)]);
    check_exact(Bool, "mul", &[(&[1.0, 0.0], 0.0)]);
    assert_eq!(of(I32, "sub", &[("alpha", Attribute::Int(3))], &[10.0, 2.0]), 4.0);
    assert_eq!(of(I32, "sub", &[("input", Attribute::Int(2))], &[5.0]), -3.0);
    assert_eq!(of(I32, "sub", &[("other", Attribute::Int(2))], &[5.0]), 3.0);
    assert_eq!(of(F64, "add", &[("other", float(0.1))], &[0.2]), 0.1 + 0.2);
    let rounded_once = of(F16, "add", &[("other", float(2f64.powi(-11)))], &[1.0 + 2f64.powi(-10)]);
    assert_eq!(rounded_once, 1.0 + 2f64.powi(-9), "a tie to even of the sum in f32");
    let mixed = [Literal::from_i64(U8, 255), Literal::from_i64(I8, -1)];
    assert_eq!(evaluate("mul", &[], &mixed), Literal::from_i64(I16, -255));
}

#[test]
fn integer_division_follows_python_and_zero_divisors_give_zero() {
    for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, -3), (0, -5), (-1, 100)] {
        let arguments = [f64::from(a), f64::from(b)];
        let floor = (arguments[0] / arguments[1]).floor();
        let expected = floor + 0.0;
        assert_eq!(of(I32, "floor_divide", &[], &arguments), expected, "{a} // {b}");
        assert_eq!(of(I32, "div", &[("rounding_mode", text("floor"))], &arguments), expected);
        assert_eq!(of(I32, "remainder", &[], &arguments), f64::from(a) - f64::from(b) * floor, "{a} % {b}");
        assert_eq!(of(I32, "fmod", &[], &arguments), f64::from(a % b));
        assert_eq!(of(I32, "div", &[("rounding_mode", text("trunc"))], &arguments), f64::from(a / b));
    }
    for op in ["floor_divide", "remainder", "fmod"] {
        assert_eq!(of(I8, op, &[], &[-7.0, 0.0]), 0.0, "{op}");
        assert_eq!(of(U16, op, &[], &[7.0, 0.0]), 0.0, "{op}");
    }
    check_exact(U8, "floor_divide", &[(&[200.0, 7.0], 28.0)]);
    check_exact(U8, "remainder", &[(&[200.0, 7.0], 4.0)]);
}

#[test]
fn division_of_floats_follows_pytorch() {
    check_f32("div", &[], &[(&[1.0, 0.0], INF), (&[-1.0, 0.0], -INF), (&[0.0, 0.0], NAN), (&[7.0, 2.0], 3.5)]);
    let floors: &[(&[f64], f64)] = &[
        (&[7.0, 2.0], 3.0),
        (&[-7.0, 2.0], -4.0),
        (&[-7.0, -2.0], 3.0),
        (&[1.0, 0.0], INF),
        (&[0.0, 0.0], NAN),
        (&[-1.0, INF], -1.0),
        (&[1.0, INF], 0.0),
        (&[INF, 1.0], NAN),
        (&[-0.0, 1.0], -0.0),
        (&[0.5, -4.0], -1.0),
    ];
    check_f32("floor_divide", &[], floors);
    assert_eq!(of(F64, "floor_divide", &[], &[1.0, 0.1]), 9.0, "0.1 is more than a tenth");
    check_f32("div", &[("rounding_mode", text("trunc"))], &[(&[-7.0, 2.0], -3.0), (&[1.0, 0.0], INF)]);
    let remainders: &[(&[f64], f64)] = &[
        (&[-7.0, 3.0], 2.0),
        (&[7.0, -3.0], -2.0),
        (&[5.0, INF], 5.0),
        (&[-5.0, INF], INF),
        (&[1.0, 0.0], NAN),
        (&[INF, 2.0], NAN),
        (&[-5.5, 2.0], 0.5),
    ];
    check_f32("remainder", &[], remainders);
    check_f32("fmod", &[], &[(&[-7.0, 3.0], -1.0), (&[7.0, -3.0], 1.0), (&[1.0, 0.0], NAN)]);
}

#[test]
fn powers_of_integers_are_exact_and_wrap() {
    let wrapping = |base: i64, exponent: u32| base.wrapping_pow(exponent);
    for base in [-3, -1, 0, 1, 2, 31, i64::MAX] {
        for exponent in [0, 1, 2, 5, 62, 63, 64, 1000] {
            let expected = Literal::from_i64(I64, wrapping(base, exponent));
            let literals = [base, i64::from(exponent)].map(|x| Literal::from_i64(I64, x));
            assert_eq!(evaluate("pow", &[], &literals), expected, "{base} ** {exponent}");
            let attribute = [("other", Attribute::Int(i64::from(exponent)))];
            assert_eq!(evaluate("pow", &attribute, &literals[..1]), expected, "{base} ** {exponent}, a scalar");
            let attribute = [("input", Attribute::Int(base))];
            assert_eq!(evaluate("pow", &attribute, &literals[1..]), expected, "a scalar {base} ** {exponent}");
        }
    }
    check_exact(I32, "pow", &[(&[2.0, -1.0], 0.0), (&[1.0, -3.0], 1.0), (&[-1.0, -3.0], -1.0), (&[-1.0, -4.0], 1.0)]);
    check_exact(I32, "pow", &[(&[0.0, -1.0], 0.0), (&[0.0, 0.0], 1.0)]);
    check_exact(U8, "pow", &[(&[3.0, 5.0], 243.0), (&[3.0, 6.0], 217.0), (&[3.0, 255.0], 171.0)]);
    let largest = [Literal::from_i64(U64, 3), Literal::from_i64(U64, -1)];
    assert_eq!(evaluate("pow", &[], &largest), Literal::from_i64(U64, 0xaaaa_aaaa_aaaa_aaab_u64.cast_signed()));
}

#[test]
fn powers_of_floats_have_shortcuts_of_the_same_value() {
    for exponent in [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5] {
        check_f32("pow", &[("other", float(exponent))], &[(&[1.7], f64::from(1.7f32).powf(exponent))]);
    }
    check_f32("pow", &[("input", float(2.0))], &[(&[0.5], 2f64.sqrt())]);
    check_f32("pow", &[], &[(&[-2.0, 0.5], NAN), (&[0.0, -1.0], INF), (&[NAN, 0.0], 1.0), (&[-2.0, 3.0], -8.0)]);
    assert_eq!(of(I32, "pow", &[("other", float(0.5))], &[9.0]), 3.0, "in f32");
}

#[test]
fn extremes_pass_nan_on_or_ignore_it() {
    check_f32("maximum", &[], &[(&[1.0, NAN], NAN), (&[NAN, 1.0], NAN), (&[1.0, 2.0], 2.0)]);
    check_f32("minimum", &[], &[(&[1.0, NAN], NAN), (&[1.0, 2.0], 1.0)]);
    check_f32("fmax", &[], &[(&[1.0, NAN], 1.0), (&[NAN, 1.0], 1.0), (&[NAN, NAN], NAN), (&[1.0, 2.0], 2.0)]);
    check_f32("fmin", &[], &[(&[1.0, NAN], 1.0), (&[NAN, -1.0], -1.0), (&[1.0, 2.0], 1.0)]);
    check_exact(I8, "fmax", &[(&[-1.0, 2.0], 2.0)]);
    check_exact(Bool, "maximum", &[(&[1.0, 0.0], 1.0)]);
}

#[test]
fn functions_of_two_floats_hold_at_their_edges() {
    check_f32("logaddexp", &[], &[(&[1.0, 2.0], (1f64.exp() + 2f64.exp()).ln()), (&[500.0, 500.0], 500.0 + 2f64.ln())]);
    check_f32("logaddexp", &[], &[(&[-INF, -INF], -INF), (&[INF, INF], INF), (&[INF, -INF], INF), (&[NAN, 1.0], NAN)]);
    check_f32(
        "xlogy",
        &[],
        &[(&[0.0, 0.0], 0.0), (&[0.0, -1.0], 0.0), (&[0.0, NAN], NAN), (&[2.0, 3.0], 2.0 * 3f64.ln())],
    );
    check_f32("heaviside", &[], &[(&[0.0, 0.5], 0.5), (&[-1.0, 0.5], 0.0), (&[2.0, 0.5], 1.0)]);
    check_f32("heaviside", &[("values", float(0.25))], &[(&[0.0], 0.25)]);
    check_f32("atan2", &[], &[(&[1.0, -1.0], 1f64.atan2(-1.0)), (&[-0.0, -1.0], -std::f64::consts::PI)]);
    check_f32("hypot", &[], &[(&[3e30, 4e30], 5e30)]);
    check_f32("copysign", &[], &[(&[3.0, -0.0], -3.0)]);
    check_exact(I32, "copysign", &[(&[3.0, -1.0], -3.0)]);
}

#[test]
fn bits_shift_and_combine() {
    check_exact(I8, "bitwise_left_shift", &[(&[1.0, 7.0], -128.0), (&[1.0, 8.0], 0.0), (&[1.0, -1.0], 0.0)]);
    check_exact(I8, "bitwise_right_shift", &[(&[-128.0, 2.0], -32.0), (&[-1.0, 20.0], -1.0), (&[64.0, 20.0], 0.0)]);
    check_exact(U8, "bitwise_and", &[(&[12.0, 10.0], 8.0)]);
    check_exact(U8, "bitwise_or", &[(&[12.0, 10.0], 14.0)]);
    check_exact(U8, "bitwise_xor", &[(&[12.0, 10.0], 6.0)]);
    check_exact(U8, "bitwise_not", &[(&[12.0], 243.0)]);
    check_exact(Bool, "bitwise_not", &[(&[1.0], 0.0), (&[0.0], 1.0)]);
}

#[test]
fn comparisons_are_false_for_nan_but_inequality() {
    for (op, expected) in [
        ("eq", [0, 1, 0]),
        ("ne", [1, 0, 1]),
        ("lt", [1, 0, 0]),
        ("le", [1, 1, 0]),
        ("gt", [0, 0, 0]),
        ("ge", [0, 1, 0]),
    ] {
        let pairs = [[1.0, 2.0], [2.0, 2.0], [NAN, 2.0]];
        assert_eq!(pairs.map(|pair| of(F16, op, &[], &pair)), expected.map(f64::from), "{op}");
    }
    assert_eq!(of(F32, "gt", &[("input", Attribute::Int(3))], &[2.0]), 1.0, "3 > 2");
    assert_eq!(of(F16, "eq", &[("other", float(0.1))], &[0.1]), 1.0, "the scalar is rounded to the tensor's type");
    assert_eq!(of(I64, "lt", &[("other", float(1.5))], &[1.0]), 1.0);
}

#[test]
fn logic_takes_each_operand_for_its_truth() {
    for (op, expected) in [("logical_and", [1, 0, 0]), ("logical_or", [1, 1, 0]), ("logical_xor", [0, 1, 0])] {
        let pairs = [[0.5, NAN], [2.0, 0.0], [0.0, -0.0]];
        assert_eq!(pairs.map(|pair| of(F32, op, &[], &pair)), expected.map(f64::from), "{op}");
    }
    let without_common_type = [Literal::from_i64(U64, 4), Literal::from_i64(I8, 2)];
    assert_eq!(evaluate("logical_and", &[], &without_common_type), Literal::from_i64(Bool, 1));
    assert_eq!(of(F16, "logical_not", &[], &[0.25]), 0.0);
}

#[test]
fn operations_of_three_operands_take_tensors_or_scalars() {
    let condition = |value| Literal::from_i64(Bool, value);
    let branches = [Literal::from_i64(I8, -1), Literal::from_f64(F16, 0.5)];
    assert_eq!(evaluate("where", &[], &[condition(1), branches[0], branches[1]]), Literal::from_f64(F16, -1.0));
    assert_eq!(
        evaluate("where", &[("other", Attribute::Int(7))], &[condition(0), branches[0]]),
        Literal::from_i64(I8, 7)
    );
    assert_eq!(evaluate("where", &[("input", Attribute::Int(7))], &[condition(0), branches[0]]), branches[0]);
    let bounds = [("min", float(-1.0)), ("max", float(2.0))];
    check_f32("clamp", &bounds, &[(&[-3.0], -1.0), (&[3.0], 2.0), (&[NAN], NAN), (&[1.5], 1.5)]);
    check_f32("clamp", &bounds[1..], &[(&[-3.0], -3.0), (&[5.0, 4.0], 2.0)]);
    check_f32("clip", &[], &[(&[5.0, 1.0, 3.0], 3.0), (&[5.0, 4.0, 3.0], 3.0)]);
    assert_eq!(evaluate("clamp", &bounds[..1], &[Literal::from_i64(I8, -3)]), Literal::from_f64(F32, -1.0));
    check_f32("lerp", &[], &[(&[1.0, 3.0, 0.25], 1.5), (&[1.0, 3.0, 1.0], 3.0), (&[1e8, 1.0, 1.0], 1.0)]);
    check_f32("lerp", &[("weight", float(0.5))], &[(&[1.0, 3.0], 2.0)]);
    check_f32("addcmul", &[("value", float(0.5))], &[(&[1.0, 2.0, 3.0], 4.0)]);
    check_f32("addcdiv", &[("value", float(2.0))], &[(&[1.0, 3.0, 4.0], 2.5), (&[1.0, 3.0, 0.0], INF)]);
    check_exact(I32, "addcmul", &[(&[1.0, 2.0, 3.0], 7.0)]);
}

#[test]
fn casts_truncate_saturate_and_round() {
    let cast = |from, to: &str, value| of(from, "to", &[("dtype", text(to))], &[value]);
    assert_eq!(cast(F32, "i8", -3.9), -3.0);
    assert_eq!(cast(F32, "u8", 300.0), 255.0);
    assert_eq!(cast(F32, "i32", NAN), 0.0);
    assert_eq!(cast(I32, "u8", 257.0), 1.0);
    assert_eq!(cast(F16, "bool", 0.5), 1.0);
    assert_eq!(cast(F64, "f16", 1e6), INF);
    assert_eq!(cast(I64, "bf16", 257.0), 256.0);
}

#[test]
fn the_complementary_error_function_is_relatively_exact_to_its_tail() {
    let cases = [
        (0.0, 1.0),
        (0.125, 0.859_683_795_198_666_2),
        (0.5, 0.479_500_122_186_953_5),
        (1.0, 0.157_299_207_050_285_13),
        (-1.0, 1.842_700_792_949_714_8),
        (2.0, 0.004_677_734_981_047_266),
        (3.75, 1.137_272_565_697_966_5e-07),
        (5.0, 1.537_459_794_428_035e-12),
        (9.0, 4.137_031_746_513_81e-37),
        (-6.0, 2.0),
    ];
    for (x, expected) in cases {
        check_f32("erfc", &[], &[(&[x], expected)]);
        let got = of(F64, "erfc", &[], &[x]);
        assert!((got / expected - 1.0).abs() < 8.0 * f64::EPSILON, "erfc({x}): {got}, expected {expected}");
    }
    for step in -300..=900 {
        let x = Literal::from_f64(F32, f64::from(step) * 0.01).as_f64();
        check_f32("erfc", &[], &[(&[x], of(F64, "erfc", &[], &[x]))]);
    }
    for dtype in [F32, F64] {
        assert_eq!([INF, -INF, f64::MAX].map(|x| of(dtype, "erfc", &[], &[x])), [0.0, 2.0, 0.0]);
        assert!(of(dtype, "erfc", &[], &[NAN]).is_nan());
    }
}
