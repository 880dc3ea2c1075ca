//! Comparison on the CPU against the oracle, and its definition on single pairs.

use accelerd_ir::Dtype;
use bytes::Bytes;
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;
use crate::cpu;

fn backend(threads: usize) -> Backend {
    Backend::Cpu(cpu::Worker::new(cpu::Pool::start(threads).expect("a few threads")))
}

fn pair(dtype: Dtype, actual: &[u64], expected: &[u64], policy: Policy) -> Pair {
    let bytes = |bits: &[u64]| -> Bytes {
        bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.size())).collect()
    };
    Pair {
        dtype,
        elements: actual.len(),
        actual: TensorInput::Inline(bytes(actual)),
        expected: TensorInput::Inline(bytes(expected)),
        policy,
        max_mismatches: 5,
        rows: 0,
    }
}

fn floats(actual: &[f32], expected: &[f32], policy: Policy) -> Pair {
    let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits().into()).collect::<Vec<u64>>();
    pair(Dtype::F32, &bits(actual), &bits(expected), policy)
}

fn run(pair: &Pair) -> Comparison {
    let request = CompareRequest::new(vec![pair.clone()]);
    let mut compared = Compare::run(&[&request], &mut backend(1)).expect("it is valid");
    compared.remove(0).remove(0)
}

fn with(rules: Rules) -> Policy {
    Policy { rules, ..Policy::exact() }
}

/// Expected elements of a type, and actual ones that are equal, near, far and special.
fn elements(dtype: Dtype, count: usize, spread: u32, random: &mut StdRng) -> (Vec<u64>, Vec<u64>) {
    let mask = u64::MAX >> (64 - 8 * dtype.size());
    let specials: &[u64] = match dtype {
        Dtype::F16 => &[0x7c00, 0xfc00, 0x7e00, 0xfe01, 0, 0x8000, 1, 0x7bff],
        Dtype::Bf16 => &[0x7f80, 0xff80, 0x7fc0, 0xffc1, 0, 0x8000, 1, 0x7f7f],
        Dtype::F32 => &[0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0001, 0, 0x8000_0000, 1, 0x7f7f_ffff],
        Dtype::F64 => {
            &[0x7ff0 << 48, 0xfff0 << 48, 0x7ff8 << 48, (0xfff8 << 48) + 1, 0, 1 << 63, 1, (0x7ff0 << 48) - 1]
        }
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => &[0, 1, 2, u64::MAX, u64::MAX >> 1, 1 << 63, 0x80, 0x8000],
    };
    let one = |random: &mut StdRng| {
        if random.random_ratio(1, spread) {
            return (specials.choose(random).unwrap() & mask, specials.choose(random).unwrap() & mask);
        }
        let expected = random.random::<u64>() & mask;
        let actual = match random.random_range(0..8) {
            0 => expected.wrapping_add(random.random_range(0..4)),
            1 => expected.wrapping_sub(random.random_range(0..300)),
            2 if spread < 100 => random.random(),
            _ => expected,
        };
        (actual & mask, expected)
    };
    (0..count).map(|_| one(random)).unzip()
}

fn policies() -> Vec<Policy> {
    let close = Some(Close { atol: 1e-3, rtol: 1e-2 });
    let mut policies = vec![Policy::exact(), with(Rules { close, ..Rules::default() })];
    for combination in [Combination::Any, Combination::All] {
        policies.push(with(Rules { close, max_ulps: Some(3), max_norm: None, combination }));
        policies.push(with(Rules { close: None, max_ulps: Some(70), max_norm: Some(1e-3), combination }));
    }
    policies.push(with(Rules { max_ulps: Some(u64::MAX), ..Rules::default() }));
    policies.push(with(Rules { max_norm: Some(0.5), ..Rules::default() }));
    let others = policies.clone().into_iter().map(|policy| Policy {
        nan: NanPolicy::SameBits,
        infinity: InfinityPolicy::Forbidden,
        distinguish_zero_sign: true,
        ..policy
    });
    let nan_equal = policies.clone().into_iter().map(|policy| Policy { nan: NanPolicy::Equal, ..policy });
    policies.iter().copied().chain(others.collect::<Vec<_>>()).chain(nan_equal.collect::<Vec<_>>()).collect()
}

#[test]
fn results_are_those_of_the_oracle() {
    let mut random = StdRng::seed_from_u64(1);
    for dtype in Dtype::ALL {
        for policy in policies() {
            for (count, spread) in [(0, 2), (1, 2), (33, 5), (1300, 10), (3000, 2000)] {
                let (actual, expected) = elements(dtype, count, spread, &mut random);
                let mut pair = pair(dtype, &actual, &expected, policy);
                for rows in [0, 1, count] {
                    pair.rows = rows;
                    assert_eq!(run(&pair), oracle::compare(&pair), "{dtype}, {count} elements, {policy:?}");
                }
            }
        }
    }
}

/// Pairs near each other, of which all have about the same errors: with few mantissas, subnormal, at the largest numbers, and with some
/// that are zero. `one` and `infinity` are the bits of these numbers.
fn similar_errors(one: u64, infinity: u64, random: &mut StdRng) -> Vec<Vec<(u64, u64)>> {
    let mut family = |least: u64, spread: u64, distance: u64, zeros: bool| {
        let pair = |_| {
            let expected = if zeros && random.random_ratio(1, 50) { 0 } else { least + random.random_range(0..spread) };
            let actual = expected + random.random_range(0..=distance);
            (actual.min(infinity - 1), expected)
        };
        (0..4000).map(pair).collect()
    };
    vec![
        family(one, 8, 5, false),
        family(one, 64, 1, true),
        family(0, 100, 3, false),
        family(infinity - 100, 90, 3, true),
        family(one / 2, one / 2, one / 64, false),
    ]
}

#[test]
fn errors_that_were_reached_before_are_those_of_the_oracle() {
    let mut random = StdRng::seed_from_u64(3);
    let types = [
        (Dtype::F16, 0x3c00, 0x7c00),
        (Dtype::Bf16, 0x3f80, 0x7f80),
        (Dtype::F32, 0x3f80_0000, 0x7f80_0000),
        (Dtype::F64, 0x3ff0 << 48, 0x7ff0 << 48),
    ];
    for (dtype, one, infinity) in types {
        for family in similar_errors(one, infinity, &mut random) {
            let (actual, expected): (Vec<_>, Vec<_>) = family.into_iter().unzip();
            for policy in policies() {
                for (actual, expected) in [(&actual, &expected), (&expected, &actual)] {
                    let pair = Pair { rows: 40, ..pair(dtype, actual, expected, policy) };
                    assert_eq!(run(&pair), oracle::compare(&pair), "{dtype}, {policy:?}");
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_the_batch() {
    let mut random = StdRng::seed_from_u64(2);
    let policy = with(Rules { max_norm: Some(1e-9), ..Rules::default() });
    let (actual, expected) = elements(Dtype::F32, 2_500_000, 1000, &mut random);
    let large = Pair { rows: 2500, ..pair(Dtype::F32, &actual, &expected, policy) };
    let (actual, expected) = elements(Dtype::I16, 77, 3, &mut random);
    let small = pair(Dtype::I16, &actual, &expected, Policy::of(Dtype::I16));
    let requests = [
        CompareRequest::new(vec![small.clone(), large.clone(), small.clone()]),
        CompareRequest::new(vec![]),
        CompareRequest::new(vec![large.clone()]),
    ];
    let batch: Vec<_> = requests.iter().collect();
    let alone = [run(&small), run(&large)];
    assert_eq!(alone[1], oracle::compare(&large));
    for threads in [1, 3] {
        let together = Compare::run(&batch, &mut backend(threads)).expect("all are valid");
        let expected = [vec![alone[0].clone(), alone[1].clone(), alone[0].clone()], vec![], vec![alone[1].clone()]];
        assert_eq!(together[..], expected);
    }
}

#[test]
fn distances_count_the_numbers_between() {
    let tiny = f32::from_bits(1);
    let next = f32::from_bits(1.0_f32.to_bits() + 1);
    for (actual, expected, ulps) in [
        (1.0, next, 1),
        (-tiny, tiny, 2),
        (0.0, -tiny, 1),
        (f32::MAX, -f32::MAX, 2 * u64::from(f32::MAX.to_bits())),
        (2.0, 1.0, 1 << 23),
    ] {
        let compared = run(&floats(&[actual], &[expected], Policy::exact()));
        assert_eq!(compared.max_ulps.map(|largest| largest.value), Some(ulps), "{actual} and {expected}");
        assert_eq!(compared.histogram[(64 - ulps.leading_zeros()) as usize], 1);
    }
    let zeros = run(&floats(&[0.0, -0.0], &[-0.0, -0.0], Policy::exact()));
    assert_eq!((zeros.counts.zero_sign, zeros.counts.equal, zeros.max_ulps, zeros.failed), (1, 1, None, 0));
    let extremes = pair(Dtype::I64, &[1 << 63], &[u64::MAX >> 1], Policy::exact());
    assert_eq!(run(&extremes).max_ulps.map(|largest| largest.value), Some(u64::MAX));
}

#[test]
fn nan_and_infinities_pass_as_the_policy_says() {
    let nan = f32::NAN;
    let infinity = f32::INFINITY;
    let actual = [nan, nan, -nan, 1.0, infinity, infinity, -infinity, f32::MAX];
    let expected = [nan, 1.0, nan, nan, infinity, 1.0, infinity, infinity];
    let lenient = with(Rules { max_ulps: Some(u64::MAX), ..Rules::default() });
    for (policy, nan_equal, failed) in [
        (lenient, 0, 7),
        (Policy { nan: NanPolicy::Equal, ..lenient }, 2, 5),
        (Policy { nan: NanPolicy::SameBits, ..lenient }, 1, 6),
        (Policy { infinity: InfinityPolicy::Forbidden, ..lenient }, 0, 8),
    ] {
        let compared = run(&floats(&actual, &expected, policy));
        assert_eq!((compared.counts.nan_equal, compared.failed), (nan_equal, failed), "{policy:?}");
        assert_eq!((compared.max_absolute, compared.max_ulps), (None, None), "no pair is finite");
    }
}

#[test]
fn a_difference_that_overflows_is_beyond_any_tolerance() {
    let maximum = f64::MAX.to_bits();
    let minimum = (-f64::MAX).to_bits();
    let close = Some(Close { atol: f64::MAX, rtol: 2.0 });
    let compared = run(&pair(Dtype::F64, &[maximum], &[minimum], with(Rules { close, ..Rules::default() })));
    assert_eq!((compared.counts.mismatch, compared.excess), (1, f64::INFINITY));
    assert!(compared.min_rtol().is_infinite());
}

#[test]
fn requests_of_wrong_lengths_are_refused() {
    let fit = pair(Dtype::I32, &[1, 2, 3, 4], &[1, 2, 3, 4], Policy::exact());
    let short = TensorInput::Inline(Bytes::from_static(&[0; 15]));
    for unfit in [
        Pair { actual: short.clone(), ..fit.clone() },
        Pair { expected: short, ..fit.clone() },
        Pair { elements: usize::MAX, ..fit.clone() },
        Pair { rows: 3, ..fit.clone() },
    ] {
        let result = Compare::run(&[&CompareRequest::new(vec![unfit])], &mut backend(1));
        assert!(matches!(result, Err(OpError::Invalid(_))));
    }
}

#[test]
fn a_tolerance_below_the_normal_numbers_is_enough() {
    let tiny = 1;
    let maximum = f64::MAX.to_bits();
    let by_norm = |factor| with(Rules { max_norm: Some(factor), ..Rules::default() });
    let compare = |factor| run(&pair(Dtype::F64, &[tiny, maximum], &[0, maximum], by_norm(factor)));
    let minimum = compare(0.0).min_max_norm();
    assert!(minimum.is_subnormal());
    assert!(compare(minimum).is_equal());
}

proptest! {
    /// The tolerances that a comparison reports are enough, and hardly less are not.
    #[test]
    fn the_smallest_tolerances_pass(
        numbers in prop::collection::vec((any::<f64>(), -40..40_i64), 1..40),
        atol in 0.0..1e-3,
        rtol in 0.0..1e-3,
    ) {
        let expected: Vec<_> = numbers.iter().map(|(number, _)| number.to_bits()).collect();
        let actual: Vec<_> = numbers.iter().map(|(number, by)| number.to_bits().wrapping_add_signed(*by)).collect();
        let finite = |bits: &u64| f64::from_bits(*bits).is_finite();
        prop_assume!(actual.iter().chain(&expected).all(finite));
        let numbers = |bits: &[u64]| bits.iter().copied().map(f64::from_bits).collect::<Vec<_>>();
        let pairs: Vec<_> = numbers(&actual).into_iter().zip(numbers(&expected)).filter(|(a, e)| (a - e).abs() > 0.0).collect();
        let compare = |rules| run(&pair(Dtype::F64, &actual, &expected, with(rules)));
        let close = |atol, rtol| compare(Rules { close: Some(Close { atol, rtol }), ..Rules::default() });
        let compared = close(atol, rtol);
        let passes = |compared: Comparison| compared.is_equal();
        if compared.excess.is_finite() {
            prop_assert!(passes(close(compared.excess, rtol)));
            prop_assert!(compared.excess == 0.0 || !passes(close(compared.excess.next_down(), rtol)));
        }
        if compared.min_rtol().is_finite() {
            prop_assert!(passes(close(atol, compared.min_rtol())));
            // The decrease is relative to `atol` too; otherwise rounding of the errors may hide it.
            let ratio = |(actual, expected): &(f64, f64)| ((actual - expected).abs() - atol) / expected.abs();
            let largest = pairs.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let less = |(_, expected): (f64, f64)| {
                compared.ratio - 8.0 * f64::EPSILON * (compared.ratio + atol / expected.abs())
            };
            prop_assert!(compared.ratio == 0.0 || !passes(close(atol, largest.map_or(0.0, less).max(0.0))));
        }
        if let Some(largest) = compared.max_ulps {
            let ulps = |maximum| compare(Rules { max_ulps: Some(maximum), ..Rules::default() });
            prop_assert!(passes(ulps(largest.value)) && !passes(ulps(largest.value - 1)));
            let norm = |factor| compare(Rules { max_norm: Some(factor), ..Rules::default() });
            let minimum = compared.min_max_norm();
            prop_assert!(!minimum.is_finite() || passes(norm(minimum)));
        }
    }
}
