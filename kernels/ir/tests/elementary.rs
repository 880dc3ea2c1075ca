//! Elementary functions of f32 against those of f64.

use accelerd_ir::scalar::{
    BinaryOp, UnaryOp,
    math::{binary, binary_f32, unary, unary_f32},
};
use proptest::prelude::*;

/// Every exponent and sign, with `count` significands each, and the numbers around the limits of the definitions.
fn operands(count: u32) -> impl Iterator<Item = f32> {
    let significands = (0..count).map(|nth| nth.wrapping_mul(2_654_435_769) >> 9);
    let scattered =
        significands.flat_map(|bits| (0..512).map(move |exponent: u32| f32::from_bits(exponent << 23 | bits)));
    let around = [0.0, 1.0, 0.5, 2.0, 0.414_213_57, 2.414_213_7, 4.0, 131_072.0, 88.722_84, 103.972_08, 1e-20];
    let neighbours = |x: f32| (-20..20).map(move |step| f32::from_bits(x.to_bits().wrapping_add_signed(step)));
    scattered.chain(around.into_iter().flat_map(move |x| neighbours(x).chain(neighbours(-x))))
}

/// Less than a thousandth more than what rounding an exact result loses.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "rounds; most results are equal to the exact one"
)]
fn assert_close(got: f32, exact: f64, what: impl Fn() -> String) {
    if exact.is_nan() {
        return assert!(got.is_nan(), "{}: {got} instead of NaN", what());
    }
    if f64::from(got) == exact || got == exact as f32 {
        assert_eq!(got.is_sign_negative(), exact.is_sign_negative(), "{}: {got} instead of {exact}", what());
        return;
    }
    let exponent = (got.abs().to_bits() >> 23).max(1).cast_signed();
    let unit = 2.0_f64.powi(exponent - 127 - 23);
    let error = (f64::from(got) - exact).abs() / unit;
    assert!(error <= 0.501, "{}: {got} instead of {exact}, {error} units in the last place", what());
}

fn assert_unary(op: UnaryOp, x: f32) {
    assert_close(unary_f32(op, x), unary(op, x.into()), || format!("{op:?} of {x:?}"));
}

fn assert_binary(op: BinaryOp, x: f32, y: f32) {
    assert_close(binary_f32(op, x, y), binary(op, x.into(), y.into()), || format!("{op:?} of {x:?} and {y:?}"));
}

#[test]
fn functions_of_one_operand_are_rounded_almost_correctly() {
    for op in UnaryOp::elementary() {
        operands(400).for_each(|x| assert_unary(op, x));
    }
}

#[test]
fn functions_of_two_operands_are_rounded_almost_correctly() {
    for op in BinaryOp::elementary() {
        for x in operands(2).step_by(3) {
            operands(2).step_by(2).for_each(|y| assert_binary(op, x, y));
        }
    }
}

#[test]
fn powers_have_the_cases_of_c() {
    let special =
        [0.0, 0.5, 1.0, 2.0, 3.0, 1e8, 16_777_217.0, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN, 1e-45];
    let both = || special.into_iter().flat_map(|x| [x, -x]);
    for op in BinaryOp::elementary() {
        for x in both() {
            both().for_each(|y| assert_binary(op, x, y));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_operands_are_rounded_almost_correctly(x: f32, y: f32, near in -10.0_f32..10.0, positive in 0.0_f32..20.0) {
        for op in UnaryOp::elementary() {
            for x in [x, near] {
                assert_unary(op, x);
            }
        }
        for op in BinaryOp::elementary() {
            assert_binary(op, x, y);
            assert_binary(op, near, y);
            assert_binary(op, positive, near);
        }
    }
}
