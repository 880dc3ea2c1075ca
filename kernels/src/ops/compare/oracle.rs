//! The oracle of a comparison: plain loops over one pair of tensors.

use accelerd_ir::Dtype;
use half::{bf16, f16};

use super::{BUCKETS, Class, Combination, Comparison, InfinityPolicy, Largest, Mismatch, NanPolicy, Pair, PairErrors};
use crate::ops::tensor::TensorInput;

/// An element: its bits, and its number.
#[derive(Clone, Copy)]
struct Element {
    bits: u64,
    number: Number,
}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    Float(f64),
    Integer(i128),
}

/// Compares inline tensors.
///
/// # Panics
/// If a tensor is resident, or its bytes do not fit the type.
pub fn compare(pair: &Pair) -> Comparison {
    let actual = elements(pair.dtype, &pair.actual);
    let expected = elements(pair.dtype, &pair.expected);
    let norm = expected
        .iter()
        .filter(|element| is_finite(element.number))
        .map(|element| magnitude(element.number))
        .fold(0.0, f64::max);
    let mut result = Comparison { norm, failed_rows: vec![0; pair.rows.div_ceil(8)], ..Comparison::default() };
    let mut histogram = [0; BUCKETS];
    for (index, (a, e)) in actual.into_iter().zip(expected).enumerate() {
        let (class, errors) = judge(pair, a, e, norm);
        *count(&mut result, class) += 1;
        if let Some(errors) = errors {
            let bucket = (0..64).find(|bucket| errors.ulps < 1 << bucket).unwrap_or(64);
            histogram[bucket] += 1;
            let position = index as u64;
            larger(&mut result.max_absolute, errors.absolute, position);
            larger(&mut result.max_relative, errors.relative, position);
            larger(&mut result.max_ulps, errors.ulps, position);
            let close = pair.policy.rules.close;
            let (atol, rtol) = close.map_or((0.0, 0.0), |close| (close.atol, close.rtol));
            result.excess = result.excess.max(exceeded(errors.absolute, rtol, magnitude(e.number)));
            result.ratio = result.ratio.max((errors.absolute - atol) / magnitude(e.number));
        } else if matches!(class, Class::Equal | Class::ZeroSign) {
            histogram[0] += 1;
        }
        let is_zero_failure = class == Class::ZeroSign && pair.policy.distinguish_zero_sign;
        if is_zero_failure || matches!(class, Class::Mismatch | Class::NanMismatch | Class::InfinityMismatch) {
            result.failed += 1;
            if result.mismatches.len() < pair.max_mismatches {
                let index = index as u64;
                let actual = a.bits;
                let expected = e.bits;
                result.mismatches.push(Mismatch { index, class, actual, expected, errors });
            }
            if let Some(row) = (index * pair.rows).checked_div(pair.elements).filter(|_| pair.rows > 0) {
                result.failed_rows[row / 8] |= 1 << (row % 8);
            }
        }
    }
    Comparison { histogram, ..result }
}

fn judge(pair: &Pair, a: Element, e: Element, norm: f64) -> (Class, Option<PairErrors>) {
    let policy = &pair.policy;
    let a_nan = is_nan(a.number);
    let e_nan = is_nan(e.number);
    if a_nan || e_nan {
        let passes = match policy.nan {
            NanPolicy::Forbidden => false,
            NanPolicy::Equal => a_nan && e_nan,
            NanPolicy::SameBits => a.bits == e.bits,
        };
        return (if passes { Class::NanEqual } else { Class::NanMismatch }, None);
    }
    if !is_finite(a.number) || !is_finite(e.number) {
        let passes = a.number == e.number && policy.infinity == InfinityPolicy::Equal;
        return (if passes { Class::Equal } else { Class::InfinityMismatch }, None);
    }
    if a.bits == e.bits {
        return (Class::Equal, None);
    }
    if a.number == e.number {
        return (Class::ZeroSign, None);
    }
    let absolute = difference(a.number, e.number);
    let magnitude = magnitude(e.number);
    let errors = PairErrors { absolute, relative: absolute / magnitude, ulps: ulps(pair.dtype, a, e) };
    let rules = &policy.rules;
    let mut verdicts = vec![];
    verdicts.extend(rules.close.map(|close| exceeded(absolute, close.rtol, magnitude) <= close.atol));
    verdicts.extend(rules.max_ulps.map(|limit| errors.ulps <= limit));
    verdicts.extend(rules.max_norm.map(|factor| absolute <= factor * norm));
    let passes = match rules.combination {
        Combination::Any => verdicts.contains(&true),
        Combination::All => !verdicts.is_empty() && !verdicts.contains(&false),
    };
    (if passes { Class::WithinTolerance } else { Class::Mismatch }, Some(errors))
}

fn elements(dtype: Dtype, input: &TensorInput) -> Vec<Element> {
    let TensorInput::Inline(bytes) = input else { panic!("the oracle compares inline tensors") };
    let element = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        element(dtype, u64::from_le_bytes(word))
    };
    bytes.chunks_exact(dtype.size()).map(element).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the low bits are the element")]
fn element(dtype: Dtype, bits: u64) -> Element {
    let bits = if dtype == Dtype::Bool { u64::from(bits != 0) } else { bits };
    let number = match dtype {
        Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Number::Integer(bits.into()),
        Dtype::I8 => Number::Integer((bits as i8).into()),
        Dtype::I16 => Number::Integer((bits as i16).into()),
        Dtype::I32 => Number::Integer((bits as i32).into()),
        Dtype::I64 => Number::Integer((bits as i64).into()),
        Dtype::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        Dtype::Bf16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        Dtype::F32 => Number::Float(f32::from_bits(bits as u32).into()),
        Dtype::F64 => Number::Float(f64::from_bits(bits)),
    };
    Element { bits, number }
}

fn is_nan(number: Number) -> bool {
    matches!(number, Number::Float(float) if float.is_nan())
}

fn is_finite(number: Number) -> bool {
    !matches!(number, Number::Float(float) if !float.is_finite())
}

fn magnitude(number: Number) -> f64 {
    match number {
        Number::Float(float) => float.abs(),
        Number::Integer(integer) => integer.unsigned_abs() as f64,
    }
}

fn difference(a: Number, e: Number) -> f64 {
    match (a, e) {
        (Number::Float(a), Number::Float(e)) => (a - e).abs(),
        (Number::Integer(a), Number::Integer(e)) => a.abs_diff(e) as f64,
        (Number::Float(_), Number::Integer(_)) | (Number::Integer(_), Number::Float(_)) => unreachable!("of one type"),
    }
}

fn exceeded(absolute: f64, rtol: f64, magnitude: f64) -> f64 {
    if absolute.is_infinite() { absolute } else { absolute - rtol * magnitude }
}

/// Numbers of a type are at consecutive positions: zeros at 0, and others by their bits without the sign.
fn ulps(dtype: Dtype, a: Element, e: Element) -> u64 {
    let position = |element: Element| match element.number {
        Number::Integer(integer) => integer,
        Number::Float(float) => {
            let magnitude = i128::from(element.bits & !(1 << (8 * dtype.size() - 1)));
            if float.is_sign_negative() { -magnitude } else { magnitude }
        }
    };
    u64::try_from(position(a).abs_diff(position(e))).expect("elements have at most 64 bits")
}

fn larger<T: PartialOrd>(largest: &mut Option<Largest<T>>, value: T, index: u64) {
    if largest.as_ref().is_none_or(|before| value > before.value) {
        *largest = Some(Largest { value, index });
    }
}

fn count(result: &mut Comparison, class: Class) -> &mut u64 {
    let counts = &mut result.counts;
    match class {
        Class::Equal => &mut counts.equal,
        Class::ZeroSign => &mut counts.zero_sign,
        Class::WithinTolerance => &mut counts.within_tolerance,
        Class::Mismatch => &mut counts.mismatch,
        Class::NanEqual => &mut counts.nan_equal,
        Class::NanMismatch => &mut counts.nan_mismatch,
        Class::InfinityMismatch => &mut counts.infinity_mismatch,
    }
}
