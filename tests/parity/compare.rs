//! Comparisons on every backend, against the oracle: every element type and policy, sizes around tiles, special values.

use accelerd_kernels::{
    Backend,
    ops::compare::{
        Close, Combination, Compare, CompareRequest, InfinityPolicy, NanPolicy, Pair, Policy, Rules, oracle,
    },
};
use accelerd_parity::{random, run_batch};
use accelerd_tensor::Dtype;
use bytes::Bytes;
use rand::{Rng, rngs::StdRng};

use super::{
    Case,
    tensor::{elements, tensor},
};

/// Around a vector, a block of the CPU, and a tile of a GPU for elements of 8, 4, 2 and 1 byte, which is 16 KiB.
const SIZES: [usize; 12] = [0, 1, 3, 31, 33, 511, 1025, 2048, 4097, 8193, 16_385, 70_001];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("compare::batch_of_n_equals_n_batches_of_one", batch_invariance),
        Case::new("compare::large", large),
    ];
    for dtype in Dtype::ALL {
        cases.push(Case::new(format!("compare::sizes_{dtype}"), move |backend| sizes(backend, dtype)));
        cases.push(Case::new(format!("compare::policies_{dtype}"), move |backend| policies(backend, dtype)));
    }
    cases
}

/// Numbers with special values, and a copy in which about one of `every` has other low bits, and about one of 50 times as many is
/// another number.
fn pair(dtype: Dtype, count: usize, every: u32, seed: u64, policy: Policy) -> Pair {
    let mut random = random(seed);
    let expected = elements(&tensor(dtype, &[count]), &mut random);
    let mut actual = expected.to_vec();
    for element in actual.chunks_exact_mut(dtype.size()) {
        if random.random_ratio(1, every) {
            element[0] = element[0].wrapping_add(random.random_range(1..4));
        }
        if random.random_ratio(1, 50 * every) {
            random.fill(element);
        }
    }
    let rows = if count.is_multiple_of(7) { 7 } else { count };
    Pair {
        dtype,
        elements: count,
        actual: Bytes::from(actual).into(),
        expected: expected.into(),
        policy,
        max_mismatches: 20,
        rows,
    }
}

fn check(backend: &mut Backend, pair: &Pair) -> Result<(), String> {
    let expected = oracle::compare(pair);
    let got = run_batch::<Compare>(&[CompareRequest::new(vec![pair.clone()])], backend)
        .map_err(|error| error.to_string())?
        .remove(0)
        .remove(0);
    if got == expected {
        return Ok(());
    }
    let Pair { dtype, elements, policy, .. } = pair;
    Err(format!("{elements} of {dtype}, {policy:?}: expected {expected:?}, got {got:?}"))
}

fn sizes(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for (seed, count) in (0..).zip(SIZES) {
        for every in [2, 1000] {
            check(backend, &pair(dtype, count, every, seed, Policy::of(dtype)))?;
        }
    }
    Ok(())
}

fn all_policies() -> Vec<Policy> {
    let close = Some(Close { atol: 1e-3, rtol: 1e-2 });
    let mut rules = vec![Rules::default(), Rules { close, ..Rules::default() }];
    for combination in [Combination::Any, Combination::All] {
        rules.push(Rules { close, max_ulps: Some(2), max_norm: None, combination });
        rules.push(Rules { close: None, max_ulps: Some(70), max_norm: Some(1e-3), combination });
        rules.push(Rules { close, max_ulps: Some(1 << 20), max_norm: Some(1e-2), combination });
    }
    let specials = [
        (NanPolicy::Forbidden, InfinityPolicy::Equal, false),
        (NanPolicy::Equal, InfinityPolicy::Equal, true),
        (NanPolicy::SameBits, InfinityPolicy::Forbidden, true),
    ];
    let with = |rules| {
        specials.map(|(nan, infinity, distinguish_zero_sign)| Policy { rules, nan, infinity, distinguish_zero_sign })
    };
    rules.into_iter().flat_map(with).collect()
}

fn policies(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for (seed, policy) in (100..).zip(all_policies()) {
        check(backend, &pair(dtype, 9001, 3, seed, policy))?;
    }
    Ok(())
}

/// Random bits, with every kind of number among them, and equal ones in between; larger than all blocks take at once.
fn large(backend: &mut Backend) -> Result<(), String> {
    let count = 3_000_001;
    let mut random: StdRng = random(7);
    let numbers: Vec<f32> = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
    let bytes = |numbers: &[f32]| Bytes::copy_from_slice(bytemuck::cast_slice(numbers));
    let near: Vec<f32> = numbers.iter().map(|x| x * (1.0 + random.random_range(-3e-7_f32..3e-7))).collect();
    let mut pair = pair(Dtype::F32, count, 2, 8, Policy::of(Dtype::F32));
    pair.expected = bytes(&numbers).into();
    pair.actual = bytes(&near).into();
    check(backend, &pair)?;
    pair.actual = bytes(&numbers.iter().map(|x| x + 1.0).collect::<Vec<_>>()).into();
    check(backend, &pair)?;
    pair.actual = pair.expected.clone();
    check(backend, &pair)
}

fn batch_invariance(backend: &mut Backend) -> Result<(), String> {
    let pairs: Vec<_> = (200..)
        .zip([Dtype::F32, Dtype::U8, Dtype::F64, Dtype::Bool, Dtype::F16])
        .map(|(seed, dtype)| pair(dtype, 5000, 5, seed, Policy::of(dtype)))
        .collect();
    let requests: Vec<_> = pairs.chunks(2).map(|pairs| CompareRequest::new(pairs.to_vec())).collect();
    let together = run_batch::<Compare>(&requests, backend).map_err(|error| error.to_string())?.concat();
    for (pair, together) in pairs.iter().zip(&together) {
        let alone = run_batch::<Compare>(&[CompareRequest::new(vec![pair.clone()])], backend);
        if &alone.map_err(|error| error.to_string())?[0][0] != together {
            return Err(format!("{} differs in a batch", pair.dtype));
        }
    }
    Ok(())
}
