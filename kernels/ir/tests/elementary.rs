//! Elementary functions of f32 against those of f64.

use accelerd_ir::scalar::{
    BinaryOp, UnaryOp,
    loops::{BinaryFunction, BinaryVisitor, UnaryFunction, UnaryVisitor, visit_binary, visit_unary},
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

/// Units in the last place between an exact result and one of the interpreter: a thousandth more than what rounding loses.
const BOUND: f64 = 0.501;

/// As [`BOUND`], of a loop.
const BOUND_OF_LOOPS: f64 = 0.51;

/// As [`BOUND_OF_LOOPS`], of powers, whose errors are those of a logarithm times the exponent.
const BOUND_OF_POWERS: f64 = 0.52;

#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "rounds; most results are equal to the exact one"
)]
fn assert_close(got: f32, exact: f64, bound: f64, what: impl Fn() -> String) {
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
    assert!(error <= bound, "{}: {got} instead of {exact}, {error} units in the last place", what());
}

fn assert_unary(op: UnaryOp, x: f32) {
    assert_close(unary_f32(op, x), unary(op, x.into()), BOUND, || format!("{op:?} of {x:?}"));
}

fn assert_binary(op: BinaryOp, x: f32, y: f32) {
    assert_close(binary_f32(op, x, y), binary(op, x.into(), y.into()), BOUND, || format!("{op:?} of {x:?} and {y:?}"));
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

/// Operands with which functions of two operands have cases.
fn special() -> impl Iterator<Item = f32> {
    let special =
        [0.0, 0.5, 1.0, 2.0, 3.0, 1e8, 16_777_217.0, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN, 1e-45];
    special.into_iter().flat_map(|x| [x, -x])
}

#[test]
fn powers_have_the_cases_of_c() {
    for op in BinaryOp::elementary() {
        for x in special() {
            special().for_each(|y| assert_binary(op, x, y));
        }
    }
}

/// Compares the function of a loop for one operand, in all of its forms.
struct AssertLoop(f32);

impl UnaryVisitor for AssertLoop {
    type Out = ();

    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn visit<F: UnaryFunction>(self) {
        let Self(x) = self;
        let number = f64::from(x);
        let exact = unary(F::OPERATION, number);
        let assert = |got: f64, form: &str| {
            assert_close(got as f32, exact, BOUND_OF_LOOPS, || format!("{:?} of {x:?}, {form}", F::OPERATION));
        };
        let fused = F::compute::<true, false>(number);
        let unfused = F::compute::<false, false>(number);
        assert(fused, "fused");
        assert(unfused, "not fused");
        if F::is_plain(x) {
            let plain = [F::compute::<true, true>(number), F::compute::<false, true>(number)];
            let bits = [fused, unfused].map(f64::to_bits);
            assert!(fused.is_nan() || plain.map(f64::to_bits) == bits, "{:?} of plain {x:?}", F::OPERATION);
        }
    }
}

/// As [`AssertLoop`], for two operands.
struct AssertLoopOfTwo(f32, f32);

impl BinaryVisitor for AssertLoopOfTwo {
    type Out = ();

    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn visit<F: BinaryFunction>(self) {
        let Self(x, y) = self;
        let a = f64::from(x);
        let b = f64::from(y);
        let exact = binary(F::OPERATION, a, b);
        let bound = if F::OPERATION == BinaryOp::Pow { BOUND_OF_POWERS } else { BOUND_OF_LOOPS };
        let assert = |got: f64, form: &str| {
            assert_close(got as f32, exact, bound, || format!("{:?} of {x:?} and {y:?}, {form}", F::OPERATION));
        };
        let fused = F::compute::<true, false>(a, b);
        let unfused = F::compute::<false, false>(a, b);
        assert(fused, "fused");
        assert(unfused, "not fused");
        if F::is_plain(x, y) {
            let plain = [F::compute::<true, true>(a, b), F::compute::<false, true>(a, b)];
            let bits = [fused, unfused].map(f64::to_bits);
            assert!(fused.is_nan() || plain.map(f64::to_bits) == bits, "{:?} of plain {x:?} and {y:?}", F::OPERATION);
        }
    }
}

#[test]
fn loops_of_one_operand_are_within_their_bound() {
    for op in UnaryOp::elementary() {
        for x in operands(100) {
            visit_unary(op, AssertLoop(x)).expect("an elementary function");
        }
    }
}

#[test]
fn loops_of_two_operands_are_within_their_bound() {
    for op in BinaryOp::elementary() {
        for x in operands(2).step_by(3).chain(special()) {
            for y in operands(2).step_by(2).chain(special()) {
                visit_binary(op, AssertLoopOfTwo(x, y)).expect("an elementary function");
            }
        }
    }
}

#[test]
fn loops_have_no_function_of_other_operations() {
    for op in UnaryOp::ALL.into_iter().filter(|op| !op.is_elementary()) {
        assert!(visit_unary(op, AssertLoop(1.0)).is_none(), "{op:?}");
    }
    for op in BinaryOp::ALL.into_iter().filter(|op| !op.is_elementary()) {
        assert!(visit_binary(op, AssertLoopOfTwo(1.0, 1.0)).is_none(), "{op:?}");
    }
}

#[test]
fn large_angles_and_other_powers_than_plain_ones_are_told() {
    struct IsPlain(f32);
    impl UnaryVisitor for IsPlain {
        type Out = bool;

        fn visit<F: UnaryFunction>(self) -> bool {
            F::is_plain(self.0)
        }
    }
    struct ArePlain(f32, f32);
    impl BinaryVisitor for ArePlain {
        type Out = bool;

        fn visit<F: BinaryFunction>(self) -> bool {
            F::is_plain(self.0, self.1)
        }
    }
    for op in [UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Tan] {
        let is_plain = |x| visit_unary(op, IsPlain(x)) == Some(true);
        assert!(is_plain(f32::NAN) && is_plain(-1e5) && !is_plain(-2e5) && !is_plain(f32::INFINITY), "{op:?}");
    }
    assert_eq!(visit_unary(UnaryOp::Exp, IsPlain(f32::INFINITY)), Some(true));
    let is_plain = |x, y| visit_binary(BinaryOp::Pow, ArePlain(x, y)) == Some(true);
    assert!(is_plain(1e-45, -f32::MAX) && !is_plain(-1.0, 2.0) && !is_plain(0.0, 1.0) && !is_plain(f32::NAN, 1.0));
    assert!(!is_plain(2.0, f32::NEG_INFINITY) && !is_plain(2.0, f32::NAN) && !is_plain(f32::INFINITY, 1.0));
    assert_eq!(visit_binary(BinaryOp::Atan2, ArePlain(0.0, 0.0)), Some(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_operands_are_rounded_almost_correctly(x: f32, y: f32, near in -10.0_f32..10.0, positive in 0.0_f32..20.0) {
        for op in UnaryOp::elementary() {
            for x in [x, near] {
                assert_unary(op, x);
                visit_unary(op, AssertLoop(x));
            }
        }
        for op in BinaryOp::elementary() {
            visit_binary(op, AssertLoopOfTwo(x, y));
            visit_binary(op, AssertLoopOfTwo(positive, near));
            assert_binary(op, x, y);
            assert_binary(op, near, y);
            assert_binary(op, positive, near);
        }
    }
}
