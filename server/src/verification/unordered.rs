//! Outputs whose order does not matter: their elements are compared by rank.
//!
//! If tolerances grow no faster than the expected numbers, elements pass in some order exactly if they pass when both sides are sorted. Where
//! they do not, one missing element shifts the pairs of all after it. So elements that both sides have are paired then, and only the others
//! by rank.

use accelerd_engine::Context;
use accelerd_ir::{Dtype, Kind, scalar::Literal};
use accelerd_kernels::ops::{
    compare::{Comparison, Pair},
    tensor::TensorInput,
};
use bytes::Bytes;

use super::{
    outputs::Output,
    service::{VerificationService, blocking},
};
use crate::{error::ApiError, ledger::RequestMemory};

/// Elements in ascending order, with NaN last.
type Sorted = Vec<Ranked>;

/// An element: its rank, by which it is compared, and its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    is_nan: bool,
    order: u64,
    bits: u64,
}

impl VerificationService {
    /// Compares outputs, those of which the order does not matter by rank. The elements of each are those of `groups`, which are sorted by
    /// themselves.
    pub(super) async fn compare_by_order(
        &self,
        outputs: &[Output],
        mut pairs: Vec<Option<Pair>>,
        groups: usize,
        context: &Context,
    ) -> Result<Vec<Option<Comparison>>, ApiError> {
        let is_unordered = |output: &Output| output.any_order && output.incomparable.is_none();
        if groups == 0 || !outputs.iter().any(is_unordered) {
            return self.compare(pairs, context.clone()).await;
        }
        let mut memory = RequestMemory::new(&self.memory);
        for pair in
            pairs.iter_mut().zip(outputs).filter_map(|(pair, output)| pair.as_mut().filter(|_| is_unordered(output)))
        {
            let bytes = memory.bytes() + pair_bytes(pair);
            memory.try_resize(bytes)?;
            for side in [&mut pair.actual, &mut pair.expected] {
                let data = match side {
                    TensorInput::Inline(data) => data.clone(),
                    TensorInput::Resident(tensor) => self.resident.read_all(tensor, context).await?,
                };
                let dtype = pair.dtype;
                *side = TensorInput::Inline(blocking(move || sorted_groups(dtype, &data, groups)).await?);
            }
        }
        let mut compared = self.compare(pairs.clone(), context.clone()).await?;
        let mut failing = vec![];
        for (nth, output) in outputs.iter().enumerate() {
            if let (true, Some(found), Some(pair)) = (is_unordered(output), &compared[nth], pairs[nth].take())
                && !found.is_equal()
            {
                let failed = found.failed_rows.clone();
                failing.push((nth, blocking(move || with_common_elements(pair, groups, &failed)).await?));
            }
        }
        let (places, pairs): (Vec<_>, Vec<_>) = failing.into_iter().map(|(nth, pair)| (nth, Some(pair))).unzip();
        for (nth, again) in places.into_iter().zip(self.compare(pairs, context.clone()).await?) {
            compared[nth] = again;
        }
        Ok(compared)
    }
}

/// Returns the bytes that sorting a pair takes: copies of both sides, and the elements of both.
fn pair_bytes(pair: &Pair) -> u64 {
    (pair.elements as u64).saturating_mul(2 * (pair.dtype.size() + size_of::<Ranked>()) as u64)
}

fn sorted(dtype: Dtype, data: &[u8]) -> Sorted {
    let mut elements: Vec<_> = data.chunks_exact(dtype.size()).map(|value| ranked(dtype, value)).collect();
    elements.sort_unstable();
    elements
}

fn ranked(dtype: Dtype, value: &[u8]) -> Ranked {
    let mut bytes = [0; 8];
    bytes[..value.len()].copy_from_slice(value);
    let bits = u64::from_le_bytes(bytes);
    let sign = 1 << (8 * dtype.size() - 1);
    let order = match dtype.kind() {
        Kind::Bool => u64::from(bits != 0),
        Kind::Integer if dtype.is_signed() => bits ^ sign,
        Kind::Integer => bits,
        Kind::Float if bits & sign == 0 => bits | sign,
        Kind::Float => !bits & (sign | (sign - 1)),
    };
    let is_nan = dtype.is_float() && Literal::from_bits(dtype, bits).as_f64().is_nan();
    Ranked { is_nan, order, bits }
}

fn append(to: &mut Vec<u8>, dtype: Dtype, elements: impl IntoIterator<Item = Ranked>) {
    for element in elements {
        to.extend_from_slice(&element.bits.to_le_bytes()[..dtype.size()]);
    }
}

/// Each group in ascending order.
fn sorted_groups(dtype: Dtype, data: &[u8], groups: usize) -> Bytes {
    let mut all = Vec::with_capacity(data.len());
    for group in data.chunks_exact((data.len() / groups).max(1)) {
        append(&mut all, dtype, sorted(dtype, group));
    }
    all.into()
}

/// Pairs elements that both sides have, in the groups that failed. Sides are sorted.
fn with_common_elements(pair: Pair, groups: usize, failed: &[u8]) -> Pair {
    let (TensorInput::Inline(actual), TensorInput::Inline(expected)) = (&pair.actual, &pair.expected) else {
        return pair;
    };
    let group_bytes = (actual.len() / groups).max(1);
    let mut all = Vec::with_capacity(actual.len());
    let sides = actual.chunks_exact(group_bytes).zip(expected.chunks_exact(group_bytes));
    for (group, (actual, expected)) in sides.enumerate() {
        // Without rows there is one group.
        if failed.get(group / 8).is_none_or(|byte| byte >> (group % 8) & 1 == 1) {
            append(&mut all, pair.dtype, paired(sorted(pair.dtype, actual), &sorted(pair.dtype, expected)));
        } else {
            all.extend_from_slice(actual);
        }
    }
    Pair { actual: TensorInput::Inline(all.into()), ..pair }
}

/// The actual elements in the order of the expected ones: those that both have, and the others by rank.
fn paired(actual: Sorted, expected: &[Ranked]) -> Vec<Ranked> {
    let mut others = vec![];
    let mut next = actual.into_iter().peekable();
    let mut common: Vec<Option<Ranked>> = Vec::with_capacity(expected.len());
    for wanted in expected {
        while let Some(smaller) = next.next_if(|element| element < wanted) {
            others.push(smaller);
        }
        common.push(next.next_if(|element| element == wanted));
    }
    let mut others = others.into_iter().chain(next);
    common.into_iter().filter_map(|element| element.or_else(|| others.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(numbers: &[f64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn numbers(data: &[u8]) -> Vec<f64> {
        data.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes"))).collect()
    }

    #[test]
    fn groups_are_sorted_by_themselves_with_nan_last() {
        let data = floats(&[2.0, f64::NAN, -1.0, f64::INFINITY, -f64::NAN, f64::NEG_INFINITY, 0.0, -0.0]);
        let all = sorted_groups(Dtype::F64, &data, 2);
        let bits: Vec<_> = numbers(&all).into_iter().map(f64::to_bits).collect();
        let expected = [-1.0, 2.0, f64::INFINITY, f64::NAN, f64::NEG_INFINITY, -0.0, 0.0, -f64::NAN];
        assert_eq!(bits, expected.map(f64::to_bits));
    }

    #[test]
    fn every_type_is_sorted_by_value() {
        for (dtype, data, expected) in [
            (Dtype::I8, vec![1, 0xff, 0x80], vec![0x80, 0xff, 1]),
            (Dtype::U8, vec![0xff, 1], vec![1, 0xff]),
            (Dtype::Bool, vec![2, 0, 1], vec![0, 1, 2]),
            (Dtype::I16, vec![1, 0, 0xff, 0xff], vec![0xff, 0xff, 1, 0]),
            (Dtype::F16, vec![0, 0x3c, 0, 0xc0, 0, 0x7e], vec![0, 0xc0, 0, 0x3c, 0, 0x7e]),
        ] {
            assert_eq!(sorted_groups(dtype, &data, 1)[..], expected, "{dtype}");
        }
    }

    #[test]
    fn elements_of_both_sides_are_paired_and_the_others_by_rank() {
        let paired = |actual: &[f64], expected: &[f64]| {
            let [actual, expected] = [actual, expected].map(|side| sorted(Dtype::F64, &floats(side)));
            paired(actual, &expected).into_iter().map(|element| f64::from_bits(element.bits)).collect::<Vec<_>>()
        };
        assert_eq!(paired(&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 4.0, 5.0]), [2.0, 3.0, 4.0, 1.0]);
        assert_eq!(paired(&[1.0, 1.0, 9.0], &[1.0, 7.0, 8.0]), [1.0, 1.0, 9.0]);
        assert_eq!(paired(&[5.0, 6.0], &[1.0, 2.0]), [5.0, 6.0]);
    }
}
