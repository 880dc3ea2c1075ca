//! Mistakes that are planted in functions: they are found in few cases, and shrunk to the simplest case.

use crate::common::{Search, between, f32s, f64s, i32s, i64s, input, list, split, u8s, unbounded, with_nan};
use accelerd_ir::Dtype;
use accelerd_verify::{Domain, Generator, Input};

#[test]
fn a_comparison_that_is_off_by_one_is_found_at_the_threshold() {
    let wrong = |case: &[Vec<u8>]| (f64s(case, 0)[0] > 1000.0) != (f64s(case, 0)[0] >= 1000.0);
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[1000f64.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| (i32s(case, 0)[0] > 1000) != (i32s(case, 0)[0] >= 1000);
    Search::new([input(Dtype::I32)]).shrinks_to(wrong, &[1000i32.to_le_bytes().to_vec()]);
}

#[test]
fn a_wrong_branch_is_shrunk_to_the_first_value_beyond_its_threshold() {
    for (threshold, expected) in [(1000.0, 1001.0), (1000.5, 1001.0), (-3.0, 0.0), (1e18, 1e18 + 128.0)] {
        let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0] > threshold;
        Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[f64::to_le_bytes(expected).to_vec()]);
    }
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0] < -123_456_789_012;
    Search::new([input(Dtype::I64)]).shrinks_to(wrong, &[(-123_456_789_013i64).to_le_bytes().to_vec()]);
}

#[test]
fn a_constant_of_the_source_is_found_where_it_is_a_threshold() {
    let wrong = |case: &[Vec<u8>]| (f64s(case, 0)[0] < 0.137) != (f64s(case, 0)[0] <= 0.137);
    Search::new([input(Dtype::F64)]).constants(&[0.137], &[]).shrinks_to(wrong, &[0.137f64.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| (f32s(case, 0)[0] < 0.1) != (f32s(case, 0)[0] <= 0.1);
    Search::new([input(Dtype::F32)]).constants(&[0.1], &[]).shrinks_to(wrong, &[0.1f32.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0] == -86_399;
    Search::new([input(Dtype::I64)])
        .constants(&[], &[86_400])
        .shrinks_to(wrong, &[(-86_399i64).to_le_bytes().to_vec()]);
}

#[test]
fn another_rounding_of_ties_is_shrunk_to_the_first_tie() {
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0].round_ties_even() != f64s(case, 0)[0].round();
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[0.5f64.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| f32s(case, 0)[0].trunc() != f32s(case, 0)[0].floor();
    Search::new([input(Dtype::F32)]).shrinks_to(wrong, &[(-0.1f32).to_le_bytes().to_vec()]);
}

#[test]
fn a_sum_that_saturates_rather_than_wraps_is_shrunk_to_the_first_overflow() {
    let wrong = |case: &[Vec<u8>]| {
        let a = i32s(case, 0)[0];
        let b = i32s(case, 1)[0];
        a.wrapping_add(b) != a.saturating_add(b)
    };
    let expected = [1i32.to_le_bytes().to_vec(), i32::MAX.to_le_bytes().to_vec()];
    Search::new([input(Dtype::I32), input(Dtype::I32)]).shrinks_to(wrong, &expected);
}

#[test]
fn a_lost_sign_of_zero_is_found() {
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0] == 0.0 && f64s(case, 0)[0].is_sign_negative();
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[(-0f64).to_le_bytes().to_vec()]);
}

#[test]
fn another_sign_of_a_remainder_is_shrunk_to_the_first_one() {
    let wrong = |case: &[Vec<u8>]| {
        let a = i64s(case, 0)[0];
        let b = i64s(case, 1)[0];
        b != 0 && a.wrapping_rem(b) != a.wrapping_rem_euclid(b)
    };
    let expected = [(-1i64).to_le_bytes().to_vec(), 2i64.to_le_bytes().to_vec()];
    Search::new([input(Dtype::I64), input(Dtype::I64)]).shrinks_to(wrong, &expected);
    let wrong = |case: &[Vec<u8>]| {
        let a = i32s(case, 0)[0];
        let b = i32s(case, 1)[0];
        let floored = |rest: i32| if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest };
        b != 0 && a.wrapping_rem(b) != floored(a.wrapping_rem(b))
    };
    let expected = [1i32.to_le_bytes().to_vec(), (-2i32).to_le_bytes().to_vec()];
    Search::new([input(Dtype::I32), input(Dtype::I32)]).shrinks_to(wrong, &expected);
}

#[test]
fn an_integer_without_an_absolute_value_is_found() {
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0].checked_abs().is_none();
    Search::new([input(Dtype::I64)]).shrinks_to(wrong, &[i64::MIN.to_le_bytes().to_vec()]);
}

#[test]
fn a_square_that_overflows_is_shrunk_to_the_first_one() {
    let wrong = |case: &[Vec<u8>]| i32s(case, 0)[0].checked_mul(i32s(case, 0)[0]).is_none();
    Search::new([input(Dtype::I32)]).shrinks_to(wrong, &[46_341i32.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0].checked_mul(i64s(case, 0)[0]).is_none();
    Search::new([input(Dtype::I64)]).shrinks_to(wrong, &[3_037_000_500i64.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0].powi(2).is_infinite();
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[2f64.powi(512).to_le_bytes().to_vec()]);
}

#[test]
fn equal_inputs_are_found_and_stay_equal() {
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0].total_cmp(&f64s(case, 1)[0]).is_eq();
    let zero = 0f64.to_le_bytes().to_vec();
    Search::new([input(Dtype::F64), input(Dtype::F64)]).shrinks_to(wrong, &[zero.clone(), zero]);
    let wrong = |case: &[Vec<u8>]| i64s(case, 0) == i64s(case, 1) && i64s(case, 0)[0] > 10;
    let eleven = 11i64.to_le_bytes().to_vec();
    Search::new([input(Dtype::I64), input(Dtype::I64)]).shrinks_to(wrong, &[eleven.clone(), eleven]);
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0].checked_sub(i64s(case, 1)[0]) == Some(1);
    let expected = [1i64.to_le_bytes().to_vec(), 0i64.to_le_bytes().to_vec()];
    Search::new([input(Dtype::I64), input(Dtype::I64)]).shrinks_to(wrong, &expected);
}

#[test]
fn an_integer_that_a_float_does_not_hold_is_shrunk_to_the_first_one() {
    #[expect(clippy::cast_possible_truncation, reason = "the mistake")]
    let wrong = |case: &[Vec<u8>]| i64s(case, 0)[0] as f64 as i128 != i128::from(i64s(case, 0)[0]);
    let first = (1i64 << 53) + 1;
    Search::new([input(Dtype::I64)]).shrinks_to(wrong, &[first.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0] + 1.0 == f64s(case, 0)[0];
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[2f64.powi(53).to_le_bytes().to_vec()]);
    #[expect(clippy::cast_possible_truncation, reason = "the mistake")]
    let wrong =
        |case: &[Vec<u8>]| f64::from(f64s(case, 0)[0] as f32) != f64s(case, 0)[0] && f64s(case, 0)[0].fract() == 0.0;
    Search::new([input(Dtype::F64)]).shrinks_to(wrong, &[(2f64.powi(24) + 1.0).to_le_bytes().to_vec()]);
}

#[test]
fn a_maximum_that_ignores_nan_is_shrunk_to_one_nan() {
    let wrong = |case: &[Vec<u8>]| f64s(case, 0).iter().any(|x| x.is_nan());
    let mut expected = [0.0; 8];
    expected[7] = f64::NAN;
    let expected = expected.iter().flat_map(|x: &f64| x.to_le_bytes()).collect();
    Search::new([list(Dtype::F64, 8, with_nan())]).shrinks_to(wrong, &[expected]);
}

#[test]
fn a_sum_of_squares_that_overflows_is_shrunk_to_one_element() {
    let wrong =
        |case: &[Vec<u8>]| i32s(case, 0).iter().try_fold(0i32, |sum, x| sum.checked_add(x.checked_mul(*x)?)).is_none();
    let expected = [0, 0, 0, 0, 0, 46_341].iter().flat_map(|x: &i32| x.to_le_bytes()).collect();
    Search::new([list(Dtype::I32, 6, unbounded())]).shrinks_to(wrong, &[expected]);
}

#[test]
fn duplicates_in_a_list_are_found_and_shrunk() {
    let has_duplicate =
        |list: &[i64], from: i64| list.iter().enumerate().any(|(n, x)| *x >= from && list[..n].contains(x));
    let wrong = |case: &[Vec<u8>]| has_duplicate(&i64s(case, 0), 5);
    let expected = [0, 0, 0, 5, 5].iter().flat_map(|x: &i64| x.to_le_bytes()).collect();
    Search::new([list(Dtype::I64, 5, unbounded())]).shrinks_to(wrong, &[expected]);
}

#[test]
fn a_search_for_a_value_that_is_in_the_list_is_found() {
    let wrong = |case: &[Vec<u8>]| i64s(case, 1).contains(&i64s(case, 0)[0]) && i64s(case, 0)[0] > 100;
    let values = [0, 0, 101].iter().flat_map(|x: &i64| x.to_le_bytes()).collect();
    let inputs = [input(Dtype::I64), list(Dtype::I64, 3, unbounded())];
    Search::new(inputs).shrinks_to(wrong, &[101i64.to_le_bytes().to_vec(), values]);
}

#[test]
fn a_list_that_is_out_of_order_is_shrunk_to_one_step_down() {
    let wrong = |case: &[Vec<u8>]| !f32s(case, 0).is_sorted();
    let expected = [0.0, 1.0, 0.0].iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
    Search::new([list(Dtype::F32, 3, unbounded())]).shrinks_to(wrong, &[expected]);
}

#[test]
fn lists_of_one_element_and_of_none_are_cases() {
    let wrong = |case: &[Vec<u8>]| case[0].is_empty();
    Search::new([list(Dtype::F64, 0, unbounded())]).shrinks_to(wrong, &[Vec::new()]);
    let wrong = |case: &[Vec<u8>]| u8s(case, 0)[0] > 200;
    Search::new([list(Dtype::U8, 1, unbounded())]).shrinks_to(wrong, &[vec![201]]);
}

#[test]
fn a_mistake_is_found_in_a_domain_and_shrunk_inside_it() {
    let wrong = |case: &[Vec<u8>]| f64s(case, 0)[0] < 0.25;
    let unit = Input::new("x", Dtype::F64, None, between(0.125, 0.75)).expect("the domain has values");
    Search::new([unit]).shrinks_to(wrong, &[0.2f64.to_le_bytes().to_vec()]);
    let wrong = |case: &[Vec<u8>]| i32s(case, 0)[0] > 1_000_000;
    let large = Input::new("x", Dtype::I32, None, between(500, i64::from(i32::MAX))).expect("the domain has values");
    Search::new([large]).shrinks_to(wrong, &[1_000_001i32.to_le_bytes().to_vec()]);
}

/// The number of 10,000 cases that fail, with each of three seeds.
fn failing(inputs: &[Input], fails: impl Fn(&[Vec<u8>]) -> bool) -> [usize; 3] {
    [0, 1, 2].map(|seed| {
        let columns = Generator::new(inputs.to_vec(), seed).cases(0, 10_000);
        split(inputs, &columns, 10_000).iter().filter(|case| fails(case)).count()
    })
}

fn degrees(name: &str, limit: f64) -> Input {
    Input::new(name, Dtype::F64, None, between(-limit, limit)).expect("the domain has values")
}

#[test]
fn opposite_points_of_a_sphere_are_found() {
    let inputs = [degrees("lat1", 90.0), degrees("lon1", 180.0), degrees("lat2", 90.0), degrees("lon2", 180.0)];
    let haversine = |case: &[Vec<u8>]| {
        let [lat1, lon1, lat2, lon2] = [0, 1, 2, 3].map(|input| f64s(case, input)[0].to_radians());
        let across = ((lat2 - lat1) / 2.0).sin();
        let along = ((lon2 - lon1) / 2.0).sin();
        across * across + lat1.cos() * lat2.cos() * along * along
    };
    // Without a clamp, the square root of 1 - h is NaN.
    let found = failing(&inputs, |case| haversine(case) > 1.0);
    assert!(found.iter().all(|count| *count > 0), "{found:?}");
    let exact = |case: &[Vec<u8>]| {
        f64s(case, 2)[0] == -f64s(case, 0)[0] && (f64s(case, 3)[0] - f64s(case, 1)[0]).abs() == 180.0
    };
    let found = failing(&inputs, exact);
    assert!(found.iter().all(|count| *count >= 30), "{found:?}");
}

#[test]
fn inputs_half_a_domain_apart_are_found_whatever_their_types_and_bounds() {
    let apart = |case: &[Vec<u8>]| (f64s(case, 1)[0] - f64s(case, 0)[0]).abs() == 180.0;
    for inputs in [
        [degrees("a", 180.0), degrees("b", 180.0)],
        [0, 1].map(|_| Input::new("x", Dtype::F64, None, between(0, 360)).expect("the domain has values")),
        [input(Dtype::F64), input(Dtype::F64)],
    ] {
        let found = failing(&inputs, apart);
        assert!(found.iter().all(|count| *count >= 50), "{found:?}");
    }
    let hours = [0, 1].map(|_| Input::new("x", Dtype::I32, None, between(0, 86_399)).expect("the domain has values"));
    let found = failing(&hours, |case| (i32s(case, 1)[0] - i32s(case, 0)[0]).abs() == 43_200);
    assert!(found.iter().all(|count| *count >= 50), "{found:?}");
    let found = failing(&hours, |case| i32s(case, 1)[0] == 86_399 - i32s(case, 0)[0]);
    assert!(found.iter().all(|count| *count >= 50), "{found:?}");
    let words = [input(Dtype::I32), input(Dtype::I32)];
    let found = failing(&words, |case| i32s(case, 1)[0] ^ i32s(case, 0)[0] == i32::MIN);
    assert!(found.iter().all(|count| *count >= 50), "{found:?}");
}

#[test]
fn infinity_minus_infinity_is_found_where_infinities_are_values() {
    let wrong = |case: &[Vec<u8>]| (f64s(case, 0)[0] - f64s(case, 1)[0]).is_nan();
    let domain = Domain { allow_infinity: true, ..Domain::default() };
    let inputs = ["x", "y"].map(|name| Input::new(name, Dtype::F64, None, domain).expect("the domain has values"));
    let infinity = f64::INFINITY.to_le_bytes().to_vec();
    Search::new(inputs).shrinks_to(wrong, &[infinity.clone(), infinity]);
}
