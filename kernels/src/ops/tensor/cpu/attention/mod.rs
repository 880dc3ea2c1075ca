//! Scaled dot-product attention, by blocks of queries and keys with an online softmax (Dao et al. 2022). Rows of the heads that share keys
//! are adjacent, and multiplied together.

mod products;

use std::ops::Range;

use accelerd_tensor::{AttentionStep, Dtype};

use self::products::Products;
use super::{
    lanes,
    memory::{Memory, Operand, Operands},
    rows::{Rows, vector},
};
use crate::{
    OpError,
    cpu::{
        Worker,
        slices::{READ_COST, SLICE},
    },
    op::product,
};

/// Rows and keys that are multiplied at a time.
const ROWS: usize = 256;
const KEYS: usize = 256;
/// The most numbers of queries, or of keys and values, that a block has; long vectors make blocks of fewer rows.
const BLOCK: usize = 1 << 21;
/// Multiply-adds that take as long as the exponential of a score and what else is done with it.
const SCORE_COST: usize = 64;

pub(super) fn run(step: &AttentionStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = Shape::of(step)?;
    let Shape { batch, heads, kv_heads, queries, keys, dim, value_dim } = shape;
    let shapes = [
        [batch, heads, queries, dim],
        [batch, kv_heads, keys, dim],
        [batch, kv_heads, keys, value_dim],
        [batch, heads, queries, keys],
        [batch, heads, queries, value_dim],
    ];
    let lengths_shape = [batch];
    let mut inputs: Vec<(_, &[usize])> =
        vec![(&step.query, &shapes[0]), (&step.key, &shapes[1]), (&step.value, &shapes[2])];
    inputs.extend(step.mask.as_ref().map(|mask| (mask, &shapes[3][..])));
    inputs.extend(step.lengths.as_ref().map(|lengths| (lengths, &lengths_shape[..])));
    let operands = memory.operands(&inputs, &[(&step.output, &shapes[4])], false)?;
    check_types(step)?;
    if shape.rows() == 0 || kv_heads == 0 || value_dim == 0 {
        return Ok(());
    }
    if step.query.dtype == Dtype::F64 {
        attend::<f64>(step, shape, &operands, Dtype::F64, worker)
    } else {
        attend::<f32>(step, shape, &operands, Dtype::F32, worker)
    }
}

#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
}

impl Shape {
    fn of(step: &AttentionStep) -> Result<Self, OpError> {
        let shapes = (&step.query.layout.shape[..], &step.key.layout.shape[..], &step.output.layout.shape[..]);
        match shapes {
            (&[batch, heads, queries, dim], &[_, kv_heads, keys, _], &[_, _, _, value_dim])
                if heads.checked_rem(kv_heads).unwrap_or(heads) == 0 =>
            {
                Ok(Self { batch, heads, kv_heads, queries, keys, dim, value_dim })
            }
            other => Err(OpError::Invalid(format!("expected batches of whole groups of heads, got {other:?}"))),
        }
    }

    /// The rows that read one head of keys.
    fn rows(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0) * self.queries
    }
}

fn check_types(step: &AttentionStep) -> Result<(), OpError> {
    let dtype = step.query.dtype;
    let views = [&step.key, &step.value, &step.output];
    if !dtype.is_float() || views.iter().any(|view| view.dtype != dtype) {
        let got = views.map(|view| view.dtype);
        return Err(OpError::Invalid(format!("expected one floating-point type, got {dtype} and {got:?}")));
    }
    let is_mask = |of: Dtype| [Dtype::Bool, Dtype::F32, dtype].contains(&of);
    if let Some(mask) = step.mask.as_ref().filter(|mask| !is_mask(mask.dtype)) {
        return Err(OpError::Invalid(format!("expected a mask of bool, f32 or {dtype}, got {}", mask.dtype)));
    }
    match step.lengths.as_ref().filter(|lengths| lengths.dtype != Dtype::I32) {
        Some(lengths) => Err(OpError::Invalid(format!("expected lengths of i32, got {}", lengths.dtype))),
        None => Ok(()),
    }
}

fn attend<T: Products>(
    step: &AttentionStep,
    shape: Shape,
    operands: &Operands,
    compute: Dtype,
    worker: &Worker,
) -> Result<(), OpError> {
    let reader = |operand: &Operand| Rows::new(operand, compute);
    let optional = &operands.inputs[3..];
    let mask = step.mask.as_ref().zip(optional.first()).map(|(view, mask)| (view.dtype == Dtype::Bool, reader(mask)));
    let lengths = step.lengths.as_ref().and(optional.last()).map(|lengths| vector::<i32>(lengths, Dtype::I32));
    let attention = Attention {
        shape,
        query: reader(&operands.inputs[0]),
        key: reader(&operands.inputs[1]),
        value: reader(&operands.inputs[2]),
        mask,
        lengths,
        is_causal: step.is_causal,
        scale: f64::from_bits(step.scale_bits),
        output: reader(&operands.outputs[0]),
    };
    let columns = shape.dim + shape.value_dim;
    let maximum = (BLOCK / columns).max(1);
    let row_cost = product([shape.keys, columns + SCORE_COST]).saturating_add(READ_COST * columns as u64);
    let rows_at_once = usize::try_from(SLICE / row_cost.max(1)).unwrap_or(ROWS).clamp(1, ROWS.min(maximum));
    let blocks = |kv_head: usize| {
        let ranges = (0..shape.rows()).step_by(rows_at_once);
        ranges.map(move |first| (kv_head, first..(first + rows_at_once).min(shape.rows())))
    };
    let items = (0..shape.batch * shape.kv_heads).flat_map(blocks);
    let keys_at_once = KEYS.min(maximum);
    if row_cost > SLICE {
        // A row alone takes longer than a slice.
        let key_cost = product([columns + SCORE_COST]).max(1);
        let keys = usize::try_from(SLICE / key_cost).unwrap_or(usize::MAX).next_multiple_of(keys_at_once);
        return worker.run_in_slices(
            items.map(|(kv_head, rows)| Block::<T>::new(&attention, kv_head, rows)),
            |mut block| {
                let end = block.end.min(block.next.saturating_add(keys));
                block.add_keys_up_to(&attention, end, keys_at_once);
                if block.next < block.end {
                    return Ok(Some(block));
                }
                block.finish(&attention);
                Ok(None)
            },
        );
    }
    let cost = |(_, rows): &(usize, Range<usize>)| row_cost.saturating_mul(rows.len() as u64);
    worker.for_each_joining(items, cost, AttentionBuffers::<T>::default, |scratch, (kv_head, rows)| {
        let mut block = Block::with(&attention, kv_head, rows, std::mem::take(scratch));
        block.add_keys_up_to(&attention, block.end, keys_at_once);
        block.finish(&attention);
        *scratch = block.scratch;
    })
}

struct Attention {
    shape: Shape,
    query: Rows,
    key: Rows,
    value: Rows,
    /// The mask, and true if its elements are bools.
    mask: Option<(bool, Rows)>,
    lengths: Option<Vec<i32>>,
    is_causal: bool,
    scale: f64,
    output: Rows,
}

/// Memory of a task.
#[derive(Default)]
struct AttentionBuffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    values: Vec<T>,
    mask: Vec<T>,
    scores: Vec<T>,
    part: Vec<T>,
    /// Accumulated values, `[rows, value_dim]`.
    sums: Vec<T>,
    row_max: Vec<f64>,
    row_sum: Vec<f64>,
    native: Vec<u64>,
}

/// Rows that are computed together. They count from the first row that reads the head `kv_head` of all batches.
struct Block<T> {
    kv_head: usize,
    rows: Range<usize>,
    /// The first key that is not added yet, and the end of the keys that any of the rows reads.
    next: usize,
    end: usize,
    scratch: AttentionBuffers<T>,
}

impl<T: Products> Block<T> {
    fn new(attention: &Attention, kv_head: usize, rows: Range<usize>) -> Self {
        Self::with(attention, kv_head, rows, AttentionBuffers::default())
    }

    /// Reads the queries into memory that another block has used.
    fn with(attention: &Attention, kv_head: usize, rows: Range<usize>, mut scratch: AttentionBuffers<T>) -> Self {
        let Shape { kv_heads, dim, value_dim, .. } = attention.shape;
        let count = rows.len();
        scratch.queries.resize(count * dim, T::ZERO);
        let all = attention.rows_of(kv_head, &rows);
        // SAFETY: a step does not write what it reads.
        unsafe { attention.query.read(all, 0..dim, &mut scratch.queries, &mut scratch.native) };
        lanes::update(&mut scratch.queries, |_, x| x * attention.scale);
        refill(&mut scratch.sums, count * value_dim, T::ZERO);
        refill(&mut scratch.row_max, count, f64::NEG_INFINITY);
        refill(&mut scratch.row_sum, count, 0.0);
        let end = attention.end(kv_head / kv_heads, &rows);
        Self { kv_head, rows, next: 0, end, scratch }
    }

    fn add_keys_up_to(&mut self, attention: &Attention, end: usize, at_once: usize) {
        while self.next < end {
            let keys = self.next..(self.next + at_once).min(end);
            self.next = keys.end;
            attention.add_keys(&mut self.scratch, self.kv_head, &self.rows, keys);
        }
    }

    fn finish(&mut self, attention: &Attention) {
        let value_dim = attention.shape.value_dim;
        let AttentionBuffers { sums, row_sum, native, .. } = &mut self.scratch;
        for (sums, row_sum) in sums.chunks_exact_mut(value_dim).zip(row_sum) {
            let factor = if *row_sum == 0.0 { 0.0 } else { row_sum.recip() };
            lanes::update(sums, |_, x| x * factor);
        }
        let all = attention.rows_of(self.kv_head, &self.rows);
        // SAFETY: each row is of one task, and outputs overlap no input.
        unsafe { attention.output.write(all, 0..value_dim, sums, native) };
    }
}

impl Attention {
    /// Rows of a block among those of all heads.
    fn rows_of(&self, kv_head: usize, rows: &Range<usize>) -> Range<usize> {
        let first = kv_head * self.shape.rows();
        first + rows.start..first + rows.end
    }

    /// The end of the keys that any of these rows reads.
    fn end(&self, batch: usize, rows: &Range<usize>) -> usize {
        let keys = self.shape.keys;
        let end = self.lengths.as_ref().map_or(keys, |lengths| usize::try_from(lengths[batch]).unwrap_or(0).min(keys));
        let visible = rows.clone().map(|row| self.visible(row)).max().unwrap_or(0);
        end.min(visible)
    }

    /// The end of the keys that are not after a query.
    fn visible(&self, row: usize) -> usize {
        if self.is_causal { row % self.shape.queries + 1 } else { usize::MAX }
    }

    fn add_keys<T: Products>(
        &self,
        scratch: &mut AttentionBuffers<T>,
        kv_head: usize,
        rows: &Range<usize>,
        keys: Range<usize>,
    ) {
        let Shape { dim, value_dim, .. } = self.shape;
        let count = keys.len();
        let first = kv_head * self.shape.keys;
        let of_head = first + keys.start..first + keys.end;
        let AttentionBuffers { queries, keys: key_rows, values, mask, scores, part, sums, row_max, row_sum, native } =
            scratch;
        key_rows.resize(count * dim, T::ZERO);
        values.resize(count * value_dim, T::ZERO);
        if let Some((_, reader)) = &self.mask {
            mask.resize(rows.len() * count, T::ZERO);
            // SAFETY: a step does not write what it reads.
            unsafe { reader.read(self.rows_of(kv_head, rows), keys.clone(), mask, native) };
        }
        // SAFETY: as above.
        unsafe {
            self.key.read(of_head.clone(), 0..dim, key_rows, native);
            self.value.read(of_head, 0..value_dim, values, native);
        }
        let pitch = T::scores(queries, key_rows, dim, scores);
        for (nth, row) in rows.clone().enumerate() {
            let scores = &mut scores[nth * pitch..][..pitch];
            let visible = self.visible(row).saturating_sub(keys.start).min(count);
            let (visible, hidden) = scores.split_at_mut(visible);
            hidden.fill(T::ZERO);
            if let Some((is_bool, _)) = self.mask {
                apply_mask(visible, &mask[nth * count..], is_bool);
            }
            let sums = &mut sums[nth * value_dim..][..value_dim];
            softmax(visible, sums, &mut row_max[nth], &mut row_sum[nth]);
        }
        let columns = T::weighted_values(scores, pitch, values, value_dim, part);
        for (sums, part) in sums.chunks_exact_mut(value_dim).zip(part.chunks_exact(columns)) {
            lanes::accumulate(sums, &part[..value_dim], T::add);
        }
    }
}

fn refill<T: Clone>(values: &mut Vec<T>, len: usize, value: T) {
    values.clear();
    values.resize(len, value);
}

fn apply_mask<T: Products>(scores: &mut [T], mask: &[T], is_bool: bool) {
    if is_bool {
        lanes::accumulate(scores, mask, |score, mask| if mask == T::ZERO { T::LEAST } else { score });
    } else {
        lanes::accumulate(scores, mask, T::add);
    }
}

/// Turns scores into unnormalised probabilities, and rescales sums to the new maximum. A row with NaN or +inf becomes NaN.
fn softmax<T: Products>(scores: &mut [T], sums: &mut [T], row_max: &mut f64, row_sum: &mut f64) {
    let new_max = row_max.max(lanes::fold(scores, T::LEAST, T::maximum).to_f64());
    // A fully masked row has no maximum yet; any finite one serves.
    let reference = if new_max == f64::NEG_INFINITY { 0.0 } else { new_max };
    let correction = T::exp(*row_max - reference);
    lanes::update(scores, |_, x| T::exp(x - reference));
    lanes::update(sums, |_, x| x * correction);
    *row_sum = *row_sum * correction + lanes::sum_of(scores, |x| x);
    *row_max = new_max;
}
