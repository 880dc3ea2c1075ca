//! Properties of shrinking.

use crate::common::{between, f64s, i32s, input, list, shrink, split, unbounded};
use std::collections::HashSet;

use accelerd_ir::Dtype;
use accelerd_verify::{CaseError, Domain, Generator, Input, Shrinker};
use proptest::prelude::*;

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let input = (proptest::sample::select(Dtype::ALL.to_vec()), proptest::option::of(0u32..6), any::<bool>());
    let input = input.prop_map(|(dtype, length, is_narrow)| {
        let domain = if is_narrow { between(1, if dtype == Dtype::Bool { 1 } else { 100 }) } else { Domain::default() };
        let special = dtype.is_float() && !is_narrow;
        Input::new("x", dtype, length, Domain { allow_nan: special, allow_infinity: special, ..domain })
            .expect("the domain has values")
    });
    proptest::collection::vec(input, 1..4)
}

/// A verdict that depends on all bytes, without any order.
fn erratic(case: &[Vec<u8>], salt: u64) -> bool {
    let mixed = case
        .iter()
        .flatten()
        .fold(salt, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23));
    mixed % 3 == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_search_ends_in_its_domains_with_a_case_that_fails(inputs in inputs(), number in 0u64..5000, salt: u64, limit in 1usize..300) {
        let case: Vec<Vec<u8>> = Generator::new(inputs.clone(), 0).cases(number, 1);
        let fails = |candidate: &[Vec<u8>]| candidate == case || erratic(candidate, salt);
        let shrunk = shrink(&inputs, &case, limit, fails);
        prop_assert!(fails(&shrunk));
        prop_assert_eq!(&shrunk, &shrink(&inputs, &case, limit, fails), "the same again");
    }

    #[test]
    fn candidates_are_distinct_and_never_come_back(inputs in inputs(), number in 0u64..5000, salt: u64) {
        let case = Generator::new(inputs.clone(), 0).cases(number, 1);
        let mut shrinker = Shrinker::new(&inputs, &case).expect("the case goes with the inputs");
        let mut seen = HashSet::from([case]);
        loop {
            let columns = shrinker.candidates(64);
            if columns.is_empty() {
                break;
            }
            let candidates = split(&inputs, &columns, shrinker.pending());
            for candidate in &candidates {
                prop_assert!(seen.insert(candidate.clone()));
            }
            shrinker.record(&candidates.iter().map(|case| erratic(case, salt)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_threshold_is_found_exactly(threshold in 0i32..i32::MAX, above in 1i32..i32::MAX) {
        let start = threshold.saturating_add(above).to_le_bytes().to_vec();
        prop_assume!(threshold < i32::MAX);
        let shrunk = shrink(&[input(Dtype::I32)], &[start], 1024, |case| i32s(case, 0)[0] > threshold);
        prop_assert_eq!(shrunk, [(threshold + 1).to_le_bytes()]);
    }
}

#[test]
fn a_threshold_is_found_in_few_rounds() {
    let inputs = [input(Dtype::F64)];
    let mut shrinker =
        Shrinker::new(&inputs, &[1.234e300f64.to_le_bytes().to_vec()]).expect("the case goes with the inputs");
    loop {
        let columns = shrinker.candidates(1024);
        if columns.is_empty() {
            break;
        }
        shrinker.record(&f64s(&columns, 0).iter().map(|&x| x > 1000.0).collect::<Vec<_>>());
    }
    assert_eq!(f64s(&shrinker.case(), 0), [1001.0]);
    assert!(shrinker.rounds() <= 8, "{} rounds", shrinker.rounds());
    assert!(shrinker.steps() < shrinker.rounds());
}

/// A century that is no leap year, though a function takes it as one.
fn is_wrong_century(year: f64) -> bool {
    year > 0.0 && year % 100.0 == 0.0 && year % 400.0 != 0.0
}

#[test]
fn a_fault_of_years_is_shrunk_to_the_first_one() {
    for start in [100, 200, 1000, 1700, 2100, 2300, 9900, 123_400, 2_000_000_100] {
        let year = |case: &[Vec<u8>]| is_wrong_century(i32s(case, 0)[0].into());
        let shrunk = shrink(&[input(Dtype::I32)], &[i32::to_le_bytes(start).to_vec()], 1024, year);
        assert_eq!(i32s(&shrunk, 0), [100], "from {start}");
        let float = |case: &[Vec<u8>]| is_wrong_century(f64s(case, 0)[0]);
        let shrunk = shrink(&[input(Dtype::F64)], &[f64::from(start).to_le_bytes().to_vec()], 1024, float);
        assert_eq!(f64s(&shrunk, 0), [100.0], "from {start}");
    }
}

#[test]
fn a_fault_of_remainders_is_shrunk_to_the_smallest_in_the_domain() {
    let years = [Input::new("year", Dtype::I32, None, between(1583, 9999)).expect("the domain has values")];
    for (period, rest, start, expected) in
        [(400, 100, 9700, 1700), (7, 3, 5001, 1585), (12, 11, 4007, 1583), (365, 200, 9690, 1660), (97, 5, 2721, 1654)]
    {
        assert_eq!(start % period, rest);
        let fails = |case: &[Vec<u8>]| i32s(case, 0)[0] % period == rest;
        let shrunk = shrink(&years, &[i32::to_le_bytes(start).to_vec()], 1024, fails);
        assert_eq!(i32s(&shrunk, 0), [expected], "of {start} modulo {period}");
    }
}

#[test]
fn two_inputs_are_shrunk_together_in_a_bounded_number_of_rounds() {
    let fails = |case: &[Vec<u8>]| {
        let (year, day) = (i32s(case, 0)[0], i32s(case, 1)[0]);
        is_wrong_century(year.into()) && day % 60 == 59
    };
    let start = [i32::to_le_bytes(2100).to_vec(), i32::to_le_bytes(7919 * 60 + 59).to_vec()];
    let shrunk = shrink(&[input(Dtype::I32), input(Dtype::I32)], &start, 1024, fails);
    assert_eq!([i32s(&shrunk, 0)[0], i32s(&shrunk, 1)[0]], [100, 59]);
}

#[test]
fn nothing_is_simpler_than_zeros() {
    let inputs = [input(Dtype::F64), list(Dtype::I32, 4, unbounded())];
    let mut shrinker = Shrinker::new(&inputs, &[vec![0; 8], vec![0; 16]]).expect("the case goes with the inputs");
    assert!(shrinker.candidates(1024).is_empty());
    assert_eq!((shrinker.steps(), shrinker.rounds(), shrinker.pending()), (0, 0, 0));
}

#[test]
fn candidates_without_a_verdict_pass() {
    let inputs = [input(Dtype::I32)];
    let case = [77i32.to_le_bytes().to_vec()];
    let mut shrinker = Shrinker::new(&inputs, &case).expect("the case goes with the inputs");
    assert!(!shrinker.candidates(4).is_empty());
    shrinker.record(&[false]);
    assert!(!shrinker.candidates(4).is_empty());
    assert!(!shrinker.candidates(4).is_empty());
    shrinker.record(&[false; 9]);
    assert_eq!(shrinker.case(), case);
    assert_eq!(shrinker.steps(), 0);
}

#[test]
fn a_case_outside_of_its_domain_is_shrunk_into_it() {
    let input = Input::new("x", Dtype::F64, None, between(2, 9)).expect("the domain has values");
    let shrunk = shrink(&[input], &[f64::NAN.to_le_bytes().to_vec()], 1024, |case| {
        let x = f64s(case, 0)[0];
        x.is_nan() || x > 3.0
    });
    assert_eq!(f64s(&shrunk, 0), [4.0]);
}

#[test]
fn a_domain_without_simple_values_has_a_simplest_one() {
    for (lower, upper, start, expected) in [
        (1e300, 1.5e300, f64::NAN, 2f64.powi(997)),
        (-1.5e300, -1e300, f64::NAN, -(2f64.powi(997))),
        (1e300, 1.5e300, -5.0, -5.0),
        (0.3, 0.7, f64::NAN, 0.3),
    ] {
        let input = Input::new("x", Dtype::F64, None, between(lower, upper)).expect("the domain has values");
        let shrunk = shrink(&[input], &[f64::to_le_bytes(start).to_vec()], 1024, |_| true);
        assert_eq!(f64s(&shrunk, 0), [expected]);
    }
}

#[test]
fn long_lists_are_shrunk() {
    let inputs = [list(Dtype::I64, 5000, unbounded())];
    let case = Generator::new(inputs.to_vec(), 0).cases(100_000, 1);
    let wrong = |case: &[Vec<u8>]| case[0][8 * 3333..8 * 3334] != [0; 8];
    assert!(wrong(&case));
    let mut expected = vec![0; 8 * 5000];
    expected[8 * 3333] = 1;
    assert_eq!(shrink(&inputs, &case, 256, wrong), [expected]);
}

#[test]
fn a_case_that_does_not_go_with_the_inputs_is_refused() {
    let inputs = [Input::new("weights", Dtype::F32, Some(3), unbounded()).expect("the domain has values")];
    let error = |case: &[Vec<u8>]| Shrinker::new(&inputs, case).map(|_| ()).expect_err("the case is wrong");
    assert_eq!(error(&[]), CaseError::Columns { expected: 1, got: 0 });
    assert_eq!(error(&[]).to_string(), "expected 1 columns, got 0");
    assert_eq!(error(&[vec![0; 13]]).to_string(), "expected 12 bytes for `weights`, got 13");
}
