//! Comparison on the CPU: vectorised passes over blocks, and a scalar one over blocks that do not pass as a whole.
//!
//! The first pass finds what bits differ. A block without NaN, infinity and differing zeros gets a second one, which compares differences
//! with the largest errors so far. Few pairs are usually above them, and only these are measured. If the largest errors pass, all pairs do.
//! Results do not depend on how the pairs are divided among threads.

use std::ops::Range;

use super::{
    Pair,
    block::{Block, marked},
    bounds::{Bounds, Exceed},
    comparison::Comparison,
    element::{Element, Word, dispatch},
    judge::{Judge, Rows},
    passes::{Fail, Histogram, Largest, Measure, Scan, Scanned},
    policy::{Errors, Policy},
};
use crate::{
    OpError,
    cpu::{Worker, simd::Isa, slices::READ_COST},
};

/// Pairs that are judged together. Their distances stay in the first-level cache.
const BLOCK: usize = 384;
/// Pairs of a task.
const TASK: usize = 2048 * BLOCK;
/// Pairs that are measured one by one in less time than a block by vectors.
const FEW: usize = BLOCK / 16;
/// Multiply-adds that take as long as comparing a pair (about a nanosecond).
const PAIR_COST: u64 = 2 * READ_COST;

/// Compares pairs of tensors in host memory.
pub(super) fn run(pairs: &[&Pair], worker: &Worker) -> Result<Vec<Comparison>, OpError> {
    worker.pool().time_inline("compare", || pairs.iter().map(|pair| compare(pair, worker)).collect())
}

fn compare(pair: &Pair, worker: &Worker) -> Result<Comparison, OpError> {
    let actual = pair.actual.on_host()?;
    let expected = pair.expected.on_host()?;
    dispatch!(pair.dtype, compare_as(pair, actual, expected, worker))
}

fn compare_as<T: Element>(pair: &Pair, actual: &[u8], expected: &[u8], worker: &Worker) -> Result<Comparison, OpError> {
    let actual = T::raw(actual);
    let expected = T::raw(expected);
    let judge = pair.judge(|| norm::<T>(expected, worker))?;
    let rows = pair.row_marks();
    let compare = |range: Range<usize>| {
        let mut partial = Comparison::default();
        let mut results = PairResults::new();
        for start in range.clone().step_by(BLOCK) {
            let part = start..range.end.min(start + BLOCK);
            let block = Block { actual: &actual[part.clone()], expected: &expected[part], start: start as u64 };
            compare_block::<T>(&judge, block, &mut results, &mut partial, rows.as_ref());
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

/// Results of the passes for each pair of a block.
struct PairResults<W> {
    distances: [W; BLOCK],
    marks: [bool; BLOCK],
}

impl<W: Word> PairResults<W> {
    fn new() -> Self {
        Self { distances: [W::default(); BLOCK], marks: [false; BLOCK] }
    }
}

fn compare_block<T: Element>(
    judge: &Judge,
    block: Block<'_, T>,
    results: &mut PairResults<T::Word>,
    to: &mut Comparison,
    rows: Option<&Rows>,
) {
    let distances = &mut results.distances[..block.len()];
    let marks = &mut results.marks[..block.len()];
    let scanned = Isa::best().run(Scan { block, distances });
    if scanned.has_special || scanned.has_zero_sign {
        return judge.judge(block, to, rows);
    }
    let len = block.len() as u64;
    to.norm = to.norm.max(T::absolute(scanned.largest_expected));
    if !scanned.differs {
        to.counts.equal += len;
        to.histogram[0] += len;
        return;
    }
    let histogram = Histogram { distances, max: scanned.max_distance, buckets: &mut to.histogram };
    let differing = Isa::best().run(histogram);
    to.histogram[0] += len - differing;
    to.counts.equal += len - differing;
    let errors = measure(judge, block, &scanned, marks, to);
    let passes = judge.policy.rules.accept(errors, judge.norm_bound);
    let failed = if passes {
        0
    } else {
        let Judge { policy: Policy { rules, .. }, norm_bound, .. } = *judge;
        let failed = Isa::best().run(Fail { block, distances, rules, norm_bound, marks });
        judge.list(block, marked(marks), to, rows);
        failed.into()
    };
    to.counts.within_tolerance += differing - failed;
    to.counts.mismatch += failed;
    to.failed += failed;
}

/// Raises the largest errors by those of a block, of which no error is above the returned ones.
fn measure<T: Element>(
    judge: &Judge,
    block: Block<'_, T>,
    scanned: &Scanned<T::Word>,
    marks: &mut [bool],
    to: &mut Comparison,
) -> Errors {
    let tolerances = judge.policy.rules.tolerances();
    let ulps = scanned.max_distance.into();
    let is_distance_reached = to.max_ulps.is_some_and(|reached| ulps <= reached.value);
    if is_distance_reached {
        let count = Isa::best().run(Exceed { block, bounds: Bounds::of(to, tolerances), marks: &mut *marks });
        if count as usize <= FEW {
            if count > 0 {
                judge.raise(block, marked(marks), to);
            }
            let absolute = to.max_absolute.map_or(0.0, |largest| largest.value);
            return Errors { absolute, excess: to.excess, ulps };
        }
    }
    let measured = Isa::best().run(Measure { block, tolerances });
    let is_reached = is_distance_reached
        && to.max_absolute.is_some_and(|reached| measured.absolute <= reached.value)
        && to.max_relative.is_some_and(|reached| measured.relative <= reached.value);
    if !is_reached {
        judge.raise(block, 0..block.len(), to);
    }
    to.excess = to.excess.max(measured.excess);
    to.ratio = to.ratio.max(measured.ratio);
    Errors { absolute: measured.absolute, excess: measured.excess, ulps }
}
