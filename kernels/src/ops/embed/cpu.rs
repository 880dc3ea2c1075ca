//! Static embeddings on the CPU: sequences are distributed over the threads, each in one pass of [`super::simd`].

use std::ops::Range;

use super::{Embed, EmbedRequest, simd};
use crate::{Op, OpError, cpu::Worker, op::product};

/// With fewer tokens, waking threads costs more than it saves (about 0.1 ms of one core).
const SPREAD_TOKENS: usize = 8192;

/// The least tokens of a task, so that a thousand short sequences are not a thousand tasks.
const STEP_TOKENS: usize = 2048;

/// Multiply-adds of f32 that take as long as those of a dimension of a token, whose row is anywhere in the table.
const LOOKUP_COST: u64 = 4;

/// Pools all sequences of a checked batch.
pub(super) fn run(batch: &[&EmbedRequest], worker: &Worker) -> Result<Vec<Vec<f32>>, OpError> {
    let tokens: usize = batch.iter().map(|request| request.ids.len() + request.sequence_count()).sum();
    let cost = batch.iter().map(|request| Embed::cost(request)).fold(0, u64::saturating_add);
    worker.pool().time_inline("embed_pool", || {
        if tokens < SPREAD_TOKENS || worker.runs_inline(cost.saturating_mul(LOOKUP_COST)) {
            // On the worker's own thread, because the pool may be busy with a long task.
            Ok(batch.iter().map(|request| embed(request)).collect())
        } else {
            embed_spread(batch, worker)
        }
    })
}

fn embed(request: &EmbedRequest) -> Vec<f32> {
    let mut vectors = vec![0.0; request.sequence_count() * request.dimensions];
    embed_texts(request, 0..request.sequence_count(), &mut vectors);
    vectors
}

/// Splits the requests between sequences, so the bits of a vector do not depend on the split.
fn embed_spread(batch: &[&EmbedRequest], worker: &Worker) -> Result<Vec<Vec<f32>>, OpError> {
    let empty = |request: &&EmbedRequest| vec![0.0; request.sequence_count() * request.dimensions];
    let mut vectors: Vec<Vec<f32>> = batch.iter().map(empty).collect();
    let mut all = vec![];
    for (request, vectors) in batch.iter().zip(&mut vectors) {
        let mut rest = vectors.as_mut_slice();
        for texts in steps(&request.offsets) {
            let (step, after) = std::mem::take(&mut rest).split_at_mut(texts.len() * request.dimensions);
            rest = after;
            all.push((*request, texts, step));
        }
    }
    let cost = |(request, texts, _): &(&EmbedRequest, Range<usize>, &mut [f32])| {
        let tokens = (request.offsets[texts.end] - request.offsets[texts.start]) as usize + texts.len();
        product([tokens, request.dimensions]).saturating_mul(LOOKUP_COST)
    };
    worker.for_each(all, cost, || (), |(), (request, texts, step)| embed_texts(request, texts, step))?;
    Ok(vectors)
}

/// Ranges of sequences with at least [`STEP_TOKENS`] tokens, where each sequence counts as one more.
fn steps(offsets: &[u32]) -> impl Iterator<Item = Range<usize>> + '_ {
    let texts = offsets.len().saturating_sub(1);
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = next;
        let mut tokens = 0;
        while next < texts && tokens < STEP_TOKENS {
            tokens += (offsets[next + 1] - offsets[next]) as usize + 1;
            next += 1;
        }
        (first < next).then_some(first..next)
    })
}

fn embed_texts(request: &EmbedRequest, texts: Range<usize>, vectors: &mut [f32]) {
    let bounds = &request.offsets[texts.start..=texts.end];
    for (bounds, vector) in bounds.windows(2).zip(vectors.chunks_exact_mut(request.dimensions)) {
        let ids = &request.ids[bounds[0] as usize..bounds[1] as usize];
        simd::sum_rows(&request.table, ids, vector);
        divide(vector, ids.len());
        if request.normalize {
            normalize(vector);
        }
    }
}

fn divide(vector: &mut [f32], tokens: usize) {
    if tokens > 0 {
        for x in vector {
            *x /= tokens as f32;
        }
    }
}

/// Scales to unit length; a zero vector stays zero.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
fn normalize(vector: &mut [f32]) {
    let length = squared_length(vector).sqrt();
    if length > 0.0 {
        let reciprocal = length.recip();
        for x in vector {
            *x = (f64::from(*x) * reciprocal) as f32;
        }
    }
}

/// Sums in 16 lanes, which the compiler vectorises, then adds the lanes in order.
fn squared_length(vector: &[f32]) -> f64 {
    let mut lanes = [0.0; 16];
    for chunk in vector.chunks(lanes.len()) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*x) * f64::from(*x);
        }
    }
    lanes.iter().sum()
}
