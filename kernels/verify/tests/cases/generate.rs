//! Properties of generated cases.

use std::collections::HashSet;

use accelerd_ir::{Dtype, scalar::Literal};
use accelerd_verify::{Bound, Domain, Generator, Input};
use proptest::prelude::*;

fn dtypes() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(Dtype::ALL.to_vec())
}

fn bounds(dtype: Dtype) -> BoxedStrategy<Option<Bound>> {
    let bound = match dtype {
        Dtype::Bool => (0i64..=1).prop_map(Bound::Integer).boxed(),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0i64..=255).prop_map(Bound::Integer).boxed(),
        Dtype::I8 => (-128i64..=127).prop_map(Bound::Integer).boxed(),
        Dtype::I16 | Dtype::I32 => (-32_768i64..=32_767).prop_map(Bound::Integer).boxed(),
        Dtype::I64 => any::<i64>().prop_map(Bound::Integer).boxed(),
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => {
            prop_oneof![(-1000i64..=1000).prop_map(Bound::Integer), (-1e3..1e3).prop_map(Bound::Float)].boxed()
        }
    };
    proptest::option::of(bound).boxed()
}

/// Inputs of all types with all kinds of domains.
fn inputs() -> impl Strategy<Value = Input> {
    let lengths = proptest::option::of(0u32..5);
    let domains = |dtype: Dtype| (Just(dtype), bounds(dtype), bounds(dtype), any::<bool>(), any::<bool>());
    (dtypes().prop_flat_map(domains), lengths).prop_filter_map("no values", |(domain, length)| {
        let (dtype, lower, upper, nan, infinity) = domain;
        let domain =
            Domain { lower, upper, allow_nan: nan && dtype.is_float(), allow_infinity: infinity && dtype.is_float() };
        Input::new("x", dtype, length, domain).ok()
    })
}

fn several_inputs() -> impl Strategy<Value = Vec<Input>> {
    proptest::collection::vec(inputs(), 1..4)
}

fn input(dtype: Dtype) -> Input {
    Input::new("x", dtype, None, Domain::default()).expect("the default domain has values")
}

/// The elements of a column.
fn literals(dtype: Dtype, column: &[u8]) -> Vec<Literal> {
    let bits = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    column.chunks_exact(dtype.size()).map(|bytes| Literal::from_bits(dtype, bits(bytes))).collect()
}

/// Returns true if a value is in a domain, by the definition of a domain.
fn is_in(domain: &Domain, value: Literal) -> bool {
    let number = value.as_f64();
    if number.is_nan() {
        return domain.allow_nan;
    }
    let exact = |bound: Bound| match bound {
        Bound::Integer(integer) if value.dtype() == Dtype::I64 => value.as_i64().partial_cmp(&integer),
        #[expect(clippy::cast_precision_loss, reason = "small but for i64")]
        Bound::Integer(integer) => number.partial_cmp(&(integer as f64)),
        Bound::Float(bound) => number.partial_cmp(&bound),
    };
    domain.lower.and_then(exact).is_none_or(std::cmp::Ordering::is_ge)
        && domain.upper.and_then(exact).is_none_or(std::cmp::Ordering::is_le)
        && (domain.allow_infinity || !number.is_infinite())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_are_in_their_domains(inputs in several_inputs(), seed: u64, constants in any::<([f64; 2], [i64; 2])>()) {
        let generator = Generator::new(inputs.clone(), seed).with_constants(&constants.0, &constants.1);
        let systematic = generator.systematic_cases();
        let count = 400;
        for first in [0, systematic, u64::MAX - 7] {
            let columns = generator.cases(first, count);
            for (input, column) in inputs.iter().zip(&columns) {
                prop_assert_eq!(column.len(), count * input.case_bytes());
                prop_assert!(input.contains(column));
                for value in literals(input.dtype(), column) {
                    prop_assert!(is_in(&input.domain(), value), "{value:?} is in {:?}", input.domain());
                }
            }
        }
    }

    #[test]
    fn cases_do_not_depend_on_their_chunks(inputs in several_inputs(), seed: u64, cut in 0usize..200, first in 0u64..2000) {
        let generator = Generator::new(inputs, seed);
        let whole = generator.cases(first, 200);
        let mut parts = generator.cases(first, cut);
        for (part, rest) in parts.iter_mut().zip(generator.cases(first + cut as u64, 200 - cut)) {
            part.extend(rest);
        }
        prop_assert_eq!(whole, parts);
    }
}

#[test]
fn equal_seeds_give_equal_cases_and_other_seeds_others() {
    let cases = |seed| {
        let generator = Generator::new(vec![input(Dtype::F64), input(Dtype::I32)], seed);
        generator.cases(generator.systematic_cases(), 100)
    };
    assert_eq!(cases(7), cases(7));
    for (one, other) in cases(7).iter().zip(cases(8)) {
        assert_ne!(*one, other);
    }
}

#[test]
fn inputs_of_one_type_have_different_values() {
    let generator = Generator::new(vec![input(Dtype::F64), input(Dtype::F64)], 7);
    for first in [0, generator.systematic_cases()] {
        let columns = generator.cases(first, 100);
        let pairs = columns[0].chunks_exact(8).zip(columns[1].chunks_exact(8));
        assert!(pairs.filter(|(one, other)| one == other).count() < 50);
    }
}

#[test]
fn the_first_cases_have_the_special_values_of_a_type() {
    let domain = Domain { allow_nan: true, allow_infinity: true, ..Domain::default() };
    let inputs = vec![Input::new("x", Dtype::F32, None, domain).expect("the domain has values")];
    let generator = Generator::new(inputs, 0);
    let count = usize::try_from(generator.systematic_cases()).expect("a few hundred");
    let found: HashSet<u64> =
        literals(Dtype::F32, &generator.cases(0, count)[0]).into_iter().map(Literal::bits).collect();
    let two_to_24 = 16_777_216f32;
    let signed = [
        0.0,
        1.0,
        0.5,
        2.5,
        1000.0,
        0.1,
        two_to_24,
        two_to_24.next_up(),
        two_to_24.next_down(),
        f32::MAX,
        f32::MAX.next_down(),
        f32::MIN_POSITIVE,
        f32::MIN_POSITIVE.next_down(),
        f32::from_bits(1),
        f32::EPSILON,
        f32::EPSILON.next_up(),
        1.0 + f32::EPSILON,
        1.0 - f32::EPSILON / 2.0,
        f32::INFINITY,
        f32::NAN,
        2_147_483_648.0,
        9.223_372e18,
    ];
    for special in signed.into_iter().flat_map(|special: f32| [special, -special]) {
        assert!(found.contains(&u64::from(special.to_bits())), "{special:?}");
    }

    let generator = Generator::new(vec![input(Dtype::I64)], 0);
    let count = usize::try_from(generator.systematic_cases()).expect("a few hundred");
    let found: HashSet<i64> =
        literals(Dtype::I64, &generator.cases(0, count)[0]).into_iter().map(Literal::as_i64).collect();
    let powers = (0..63).flat_map(|exponent| [1i64 << exponent, (1 << exponent) - 1, (1 << exponent) + 1]);
    for special in powers.chain([i64::MAX, i64::MAX - 1, 1000, 999, 1001]).flat_map(|special| [special, -special]) {
        assert!(found.contains(&special), "{special}");
    }
    assert!(found.contains(&i64::MIN) && found.contains(&(i64::MIN + 1)));
}

#[test]
fn a_small_domain_is_covered() {
    for (dtype, domain, expected) in [
        (Dtype::Bool, Domain::default(), 2),
        (Dtype::U8, Domain::default(), 256),
        (Dtype::I64, Domain { lower: Some((-20).into()), upper: Some(100.into()), ..Domain::default() }, 121),
    ] {
        let generator = Generator::new(vec![Input::new("x", dtype, None, domain).expect("it has values")], 0);
        assert_eq!(generator.systematic_cases(), expected);
        let count = usize::try_from(expected).expect("at most 256");
        let found: HashSet<u64> =
            literals(dtype, &generator.cases(0, count)[0]).into_iter().map(Literal::bits).collect();
        assert_eq!(found.len(), count, "{dtype}");
    }
}

#[test]
fn important_special_values_meet_in_all_pairs() {
    let domain = Domain { allow_nan: true, allow_infinity: true, ..Domain::default() };
    let inputs = vec![Input::new("x", Dtype::F64, None, domain).expect("the domain has values"); 3];
    let generator = Generator::new(inputs, 0);
    let count = usize::try_from(generator.systematic_cases()).expect("a few hundred");
    let columns: Vec<Vec<Literal>> =
        generator.cases(0, count).iter().map(|column| literals(Dtype::F64, column)).collect();
    let important = [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.5];
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let pairs: HashSet<(u64, u64)> =
            columns[first].iter().zip(&columns[second]).map(|(one, other)| (one.bits(), other.bits())).collect();
        for one in important {
            for other in important {
                assert!(pairs.contains(&(one.to_bits(), other.to_bits())), "{one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn constants_and_their_neighbours_are_among_the_first_cases() {
    let generator = Generator::new(vec![input(Dtype::F64)], 0).with_constants(&[273.15], &[37]);
    let count = usize::try_from(generator.systematic_cases()).expect("a few hundred");
    let found: HashSet<u64> =
        literals(Dtype::F64, &generator.cases(0, count)[0]).into_iter().map(Literal::bits).collect();
    let near = |x: f64| [x, x.next_up(), x.next_down(), x + 1.0, x - 1.0, x + 0.5, x - 0.5];
    for special in [273.15, -273.15, 37.0, -37.0].into_iter().flat_map(near) {
        assert!(found.contains(&special.to_bits()), "{special:?}");
    }
}

#[test]
fn lists_have_the_shapes_that_functions_of_lists_are_wrong_for() {
    let list = Input::new("x", Dtype::F64, Some(8), Domain::default()).expect("the domain has values");
    let generator = Generator::new(vec![list], 0);
    let column = generator.cases(generator.systematic_cases(), 1000).swap_remove(0);
    let lists: Vec<Vec<f64>> = column
        .chunks_exact(64)
        .map(|list| literals(Dtype::F64, list).iter().map(|value| value.as_f64()).collect())
        .collect();
    let count = |has_shape: fn(&[f64]) -> bool| lists.iter().filter(|list| has_shape(list)).count();
    let distinct = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<HashSet<_>>().len();
    assert!(count(|list| list.windows(2).all(|pair| pair[0] == pair[1])) >= 20, "constant");
    assert!(count(|list| list.is_sorted() && list[0] < list[7]) >= 50, "sorted");
    assert!(count(|list| list.is_sorted_by(|a, b| a >= b) && list[0] > list[7]) >= 20, "reversed");
    assert!(lists.iter().filter(|list| (2..=3).contains(&distinct(list))).count() >= 50, "few values");
    assert!(count(|list| list.iter().filter(|x| x.abs() > 1000.0).count() == 1) >= 20, "an outlier");
    assert!(count(|list| list.iter().sum::<f64>() == 0.0 && list[0] != 0.0) >= 10, "cancelling");
}

#[test]
fn an_input_repeats_an_earlier_one_or_its_neighbour() {
    let generator = Generator::new(vec![input(Dtype::I32), input(Dtype::F64)], 0);
    let columns = generator.cases(generator.systematic_cases(), 4000);
    let first = literals(Dtype::I32, &columns[0]);
    let second = literals(Dtype::F64, &columns[1]);
    let distances: Vec<f64> = first.iter().zip(&second).map(|(one, other)| other.as_f64() - one.as_f64()).collect();
    for (distance, at_least) in [(0.0, 150), (1.0, 40), (-1.0, 40)] {
        let count = distances.iter().filter(|&&got| got == distance).count();
        assert!(count >= at_least, "{count} cases with the distance {distance}");
    }
}
