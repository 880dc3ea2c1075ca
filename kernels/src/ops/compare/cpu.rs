//! Comparison on the CPU: vectorised passes over blocks, and a scalar one over blocks that do not pass as a whole.
//!
//! The first pass finds what bits differ. A block without NaN, infinity and differing zeros gets a second one, which finds the largest
//! errors. If even these pass, all of its pairs do. Results do not depend on how the pairs are divided among threads.

use std::ops::Range;

use super::{
    Pair,
    comparison::Comparison,
    element::{Element, dispatch},
    judge::{Judge, Rows},
    passes::{Bars, Histogram, LANES, Largest, Measure, Scan},
    policy::Errors,
};
use crate::{
    OpError,
    cpu::{Worker, simd::Isa, slices::READ_COST},
};

/// Pairs that are judged together. Their distances stay in the first-level cache.
const BLOCK: usize = 32 * LANES;
/// Pairs of a task.
const TASK: usize = 2048 * BLOCK;
/// Multiply-adds that take as long as comparing a pair (about a nanosecond).
const PAIR_COST: u64 = 2 * READ_COST;

/// Compares pairs of tensors in host memory.
pub(super) fn run(pairs: &[&Pair], worker: &Worker) -> Result<Vec<Comparison>, OpError> {
    worker.pool().time_inline("compare", || pairs.iter().map(|pair| compare(pair, worker)).collect())
}

fn compare(pair: &Pair, worker: &Worker) -> Result<Comparison, OpError> {
    let (actual, expected) = (pair.actual.on_host()?, pair.expected.on_host()?);
    dispatch!(pair.dtype, compare_as(pair, actual, expected, worker))
}

fn compare_as<T: Element>(pair: &Pair, actual: &[u8], expected: &[u8], worker: &Worker) -> Result<Comparison, OpError> {
    let (actual, expected) = (T::raw(actual), T::raw(expected));
    let judge = pair.judge(|| norm::<T>(expected, worker))?;
    let rows = pair.row_marks();
    let compare = |range: Range<usize>| {
        let mut partial = Comparison::default();
        for start in range.clone().step_by(BLOCK) {
            let block = start..range.end.min(start + BLOCK);
            compare_block::<T>(
                &judge,
                &actual[block.clone()],
                &expected[block],
                start as u64,
                &mut partial,
                rows.as_ref(),
            );
        }
        partial
    };
    let partials = worker.map(tasks(pair.elements), |range| range.len() as u64 * PAIR_COST, compare)?;
    let mut total = Comparison::default();
    for partial in partials {
        total.append(partial, 0, pair.max_mismatches);
    }
    total.failed_rows = rows.map(Rows::into_bytes).unwrap_or_default();
    Ok(total)
}

fn tasks(elements: usize) -> Vec<Range<usize>> {
    (0..elements).step_by(TASK).map(|start| start..elements.min(start + TASK)).collect()
}

/// The largest absolute value of the finite numbers.
fn norm<T: Element>(numbers: &[T::Raw], worker: &Worker) -> Result<f64, OpError> {
    let cost = |range: &Range<usize>| range.len() as u64 * READ_COST;
    let largest = |range: Range<usize>| Isa::best().run(Largest::<T>(&numbers[range]));
    let largest = worker.map(tasks(numbers.len()), cost, largest)?;
    Ok(T::absolute(largest.into_iter().max().unwrap_or_default()))
}

fn compare_block<T: Element>(
    judge: &Judge,
    actual: &[T::Raw],
    expected: &[T::Raw],
    start: u64,
    to: &mut Comparison,
    rows: Option<&Rows>,
) {
    let mut distances = [T::Word::default(); BLOCK];
    let distances = &mut distances[..actual.len()];
    let scanned = Isa::best().run(Scan::<T> { actual, expected, distances });
    if scanned.has_special || scanned.has_zero_sign {
        return judge.judge::<T>(actual, expected, start, to, rows);
    }
    let len = actual.len() as u64;
    to.norm = to.norm.max(T::absolute(scanned.largest_expected));
    if !scanned.differs {
        to.counts.equal += len;
        to.histogram[0] += len;
        return;
    }
    let rules = &judge.policy.rules;
    let measure = Measure::<T> { tolerances: rules.tolerances(), actual, expected, bars: Bars::of(to) };
    let measured = Isa::best().run(measure);
    let ulps = scanned.max_distance.into();
    let errors = Errors { absolute: measured.absolute, excess: measured.excess, ulps };
    if !rules.accept(errors, judge.norm_bound) {
        return judge.judge::<T>(actual, expected, start, to, rows);
    }
    let is_larger = to.max_absolute.is_none_or(|before| errors.absolute > before.value)
        || to.max_ulps.is_none_or(|before| ulps > before.value);
    if is_larger || measured.reaches_bar {
        judge.measure::<T>(actual, expected, start, to);
    }
    to.excess = to.excess.max(errors.excess);
    let histogram = Histogram { distances, max: scanned.max_distance, buckets: &mut to.histogram };
    let differing = Isa::best().run(histogram);
    to.histogram[0] += len - differing;
    to.counts.equal += len - differing;
    to.counts.within_tolerance += differing;
}
