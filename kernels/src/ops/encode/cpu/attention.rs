//! Attention within each sequence. Keys and values are packed in blocks, so that a window or causal mask skips the blocks
//! that no query of a block attends to.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Arithmetic, Cpu, Weight,
    hidden_states::RowBuffer,
    matrix::Matrix,
    row_kernels::{Exponential, Identity, RowNorm, map_in_place, sum},
};
use crate::{
    OpError,
    cpu::{
        simd::{Isa, Lanes, WithSimd},
        slices::{READ_COST, SLICE},
    },
    op::product,
    ops::encode::primitives::{Attention, Batch},
};

/// Keys per block: a whole number of the widest vectors.
const KV_BLOCK: usize = 256;
/// Queries per block.
const Q_BLOCK: usize = 64;

impl Cpu {
    pub(super) async fn attend(
        &mut self,
        batch: &Batch,
        mut qkv: RowBuffer,
        params: &Attention<'_, Weight>,
    ) -> Result<RowBuffer, OpError> {
        self.prepare(batch, &mut qkv, params).await?;
        let width = params.heads * params.head_dim;
        let dim = params.head_dim;
        let bias = Bias::new(params)?;
        let sequences = batch.cu_seqlens.windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        let heads: Vec<_> =
            sequences.flat_map(|text| (0..params.kv_heads).map(move |head| (text.clone(), head))).collect();
        let mut out = RowBuffer::new(batch.ids.len(), width);
        let group = params.heads / params.kv_heads;
        let mut scatter = |(text, kv_head): &(Range<usize>, usize), attended: &[f32]| {
            for (head, rows) in attended.chunks_exact((text.len() * dim).max(1)).enumerate() {
                let column = (kv_head * group + head) * dim;
                for (token, row) in text.clone().zip(rows.chunks_exact(dim)) {
                    out.numbers_mut()[token * width + column..][..dim].copy_from_slice(row);
                }
            }
        };
        let isa = self.isa;
        let arithmetic = self.arithmetic;
        let head_group = |(text, kv_head): &(Range<usize>, usize)| {
            let rows = &qkv.numbers()[text.start * qkv.width()..text.end * qkv.width()];
            HeadGroup { isa, arithmetic, rows, width: qkv.width(), kv_head: *kv_head, params, bias: &bias }
        };
        let limit = SLICE.saturating_mul(self.threads() as u64);
        let mut rest = heads.as_slice();
        while let Some(first) = rest.first() {
            let costs = rest.iter().scan(0_u64, |sum, head| {
                *sum = sum.saturating_add(head_group(head).cost());
                Some(*sum)
            });
            let taken = costs.take_while(|cost| *cost <= limit).count();
            if taken == 0 {
                scatter(first, self.attend_long(&head_group(first)).await.numbers());
                rest = &rest[1..];
                continue;
            }
            let round;
            (round, rest) = rest.split_at(taken);
            let cost = round.iter().map(|head| head_group(head).cost()).sum::<u64>();
            self.pace.spend(cost / self.threads() as u64).await;
            if self.parallel {
                let attend = |head| head_group(head).attend().numbers().to_vec();
                let attended: Vec<_> = round.par_iter().map(attend).collect();
                round.iter().zip(&attended).for_each(|(head, attended)| scatter(head, attended));
            } else {
                for head in round {
                    scatter(head, head_group(head).attend().numbers());
                }
            }
        }
        Ok(out)
    }

    /// The same as [`HeadGroup::attend`], in slices: for sequences so long that a head exceeds one.
    async fn attend_long(&mut self, heads: &HeadGroup<'_>) -> RowBuffer {
        let threads = self.threads();
        let q_block = Q_BLOCK * heads.params.head_dim;
        let kv_blocks = heads.kv_blocks();
        let mut out = RowBuffer::new(heads.count() * heads.tokens(), heads.params.head_dim);
        for (in_group, out) in out.numbers_mut().chunks_exact_mut(heads.tokens() * heads.params.head_dim).enumerate() {
            let bias = heads.bias(in_group);
            for (round, out) in out.chunks_mut(threads * q_block).enumerate() {
                self.pace.spend(heads.block_cost()).await;
                let attend = |(block, out): (usize, &mut [f32])| {
                    heads.block(heads.head(in_group), (round * threads + block) * Q_BLOCK, &kv_blocks, &bias, out);
                };
                if self.parallel {
                    out.par_chunks_mut(q_block).enumerate().for_each(attend);
                } else {
                    out.chunks_mut(q_block).enumerate().for_each(attend);
                }
            }
        }
        out
    }

    /// QK norm and rotary embedding, and the score scale applied to the queries.
    async fn prepare(
        &mut self,
        batch: &Batch,
        qkv: &mut RowBuffer,
        params: &Attention<'_, Weight>,
    ) -> Result<(), OpError> {
        let norms: Option<(RowNorm<'_>, RowNorm<'_>)> = params
            .query_norm
            .map(|(_, queries, keys)| Ok((RowNorm::new(queries)?, RowNorm::new(keys)?)))
            .transpose()?;
        let rotary = params.rotary.map(|(table, dims)| Ok((table.numbers()?, dims))).transpose()?;
        let sequences = batch.cu_seqlens.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        let positions: Vec<usize> = sequences.flat_map(|tokens| 0..tokens).collect();
        let width = qkv.width();
        let split = params.heads * params.head_dim;
        let keys_end = split + params.kv_heads * params.head_dim;
        let isa = self.isa;
        let prepare = |first: usize, rows: &mut [f32]| {
            for (row, position) in rows.chunks_exact_mut(width).zip(&positions[first..]) {
                let (queries, keys) = row[..keys_end].split_at_mut(split);
                if let Some((of_queries, of_keys)) = &norms {
                    of_queries.apply(isa, queries);
                    of_keys.apply(isa, keys);
                }
                if let Some((table, dims)) = rotary {
                    let rotary_row = &table[position * dims..][..dims];
                    queries.chunks_exact_mut(params.head_dim).for_each(|head| rotate(head, rotary_row));
                    keys.chunks_exact_mut(params.head_dim).for_each(|head| rotate(head, rotary_row));
                }
                for x in queries {
                    *x *= params.scale;
                }
            }
        };
        self.by_rows(qkv.numbers_mut(), width, READ_COST.saturating_mul(keys_end as u64), prepare).await;
        Ok(())
    }
}

/// Rotates the leading columns of a head by a row of cosines and sines.
fn rotate(head: &mut [f32], rotary_row: &[f32]) {
    let half = rotary_row.len() / 2;
    let (cos, sin) = rotary_row.split_at(half);
    let (first, second) = head[..rotary_row.len()].split_at_mut(half);
    for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// The bias of scores by head and distance.
enum Bias<'a> {
    None,
    /// `[heads, 2 * max_tokens - 1]`.
    Table(&'a [f32], usize),
    /// ALiBi, a slope per head.
    Slopes(&'a [f32]),
}

impl<'a> Bias<'a> {
    fn new(params: &Attention<'a, Weight>) -> Result<Self, OpError> {
        Ok(match (params.relative_bias, params.slopes) {
            (Some(table), _) => Self::Table(table.numbers()?, params.max_tokens),
            (None, Some(slopes)) => Self::Slopes(slopes.numbers()?),
            (None, None) => Self::None,
        })
    }

    /// For sequences of `tokens` tokens: at `key - query + tokens - 1`; empty where there is none.
    fn of_head(&self, head: usize, tokens: usize) -> Vec<f32> {
        match self {
            Self::None => vec![],
            Self::Table(table, max_tokens) => {
                table[head * (2 * max_tokens - 1)..][max_tokens - tokens..][..2 * tokens - 1].to_vec()
            }
            Self::Slopes(slopes) => {
                let distances = (1..tokens).rev().chain(0..tokens);
                distances.map(|distance| -(slopes[head] * distance as f32)).collect()
            }
        }
    }
}

/// The query heads of a sequence that share one head of keys and values.
struct HeadGroup<'a> {
    isa: Isa,
    arithmetic: Arithmetic,
    /// The sequence's queries, keys and values.
    rows: &'a [f32],
    width: usize,
    kv_head: usize,
    params: &'a Attention<'a, Weight>,
    bias: &'a Bias<'a>,
}

struct KvBlock {
    keys: Matrix,
    /// As many rows as the scores have columns; zeros after the values.
    values: Matrix,
    tokens: Range<usize>,
}

impl HeadGroup<'_> {
    fn tokens(&self) -> usize {
        self.rows.len() / self.width
    }

    /// The numbers of a token from a column on, as many as a head has.
    fn at(&self, token: usize, column: usize) -> &[f32] {
        &self.rows[token * self.width + column..][..self.params.head_dim]
    }

    /// The query heads.
    fn count(&self) -> usize {
        self.params.heads / self.params.kv_heads
    }

    /// The number of a query head of this group.
    fn head(&self, in_group: usize) -> usize {
        self.kv_head * self.count() + in_group
    }

    /// Multiply-adds of a block of queries of one head.
    fn block_cost(&self) -> u64 {
        let near = self.params.window.map_or(usize::MAX, |distance| distance.saturating_mul(2).saturating_add(Q_BLOCK));
        product([2, Q_BLOCK, near.min(self.tokens()), self.params.head_dim])
    }

    /// Multiply-adds of all query heads.
    fn cost(&self) -> u64 {
        self.block_cost().saturating_mul(product([self.count(), self.tokens().div_ceil(Q_BLOCK)]))
    }

    /// `[query heads, tokens, head_dim]`.
    fn attend(&self) -> RowBuffer {
        let tokens = self.tokens();
        let dim = self.params.head_dim;
        let kv_blocks = self.kv_blocks();
        let mut out = RowBuffer::new(self.count() * tokens, dim);
        if tokens == 0 {
            return out;
        }
        for (in_group, out) in out.numbers_mut().chunks_exact_mut(tokens * dim).enumerate() {
            let bias = self.bias(in_group);
            for (block, out) in out.chunks_mut(Q_BLOCK * dim).enumerate() {
                self.block(self.head(in_group), block * Q_BLOCK, &kv_blocks, &bias, out);
            }
        }
        out
    }

    fn kv_blocks(&self) -> Vec<KvBlock> {
        (0..self.tokens()).step_by(KV_BLOCK).map(|first| self.kv_block(first)).collect()
    }

    /// The bias of a query head's scores.
    fn bias(&self, in_group: usize) -> Vec<f32> {
        self.bias.of_head(self.head(in_group), self.tokens())
    }

    fn kv_block(&self, first: usize) -> KvBlock {
        let dim = self.params.head_dim;
        let tokens = first..(first + KV_BLOCK).min(self.tokens());
        let key = (self.params.heads + self.kv_head) * dim;
        let value = key + self.params.kv_heads * dim;
        let keys = Matrix::new(self.arithmetic, dim, tokens.len(), |index| self.at(first + index, key));
        let row = |index: usize| if index < tokens.len() { self.at(first + index, value) } else { &[] };
        let values = Matrix::of_columns(self.arithmetic, keys.columns(), dim, row);
        KvBlock { keys, values, tokens }
    }

    /// The tokens a query attends to.
    fn visible(&self, query: usize) -> Range<usize> {
        let first = self.params.window.map_or(0, |distance| query.saturating_sub(distance));
        let last = if self.params.causal { 0 } else { self.params.window.unwrap_or(usize::MAX) };
        first..query.saturating_add(last).saturating_add(1).min(self.tokens())
    }

    /// The queries from `first`, one per row of `out`.
    fn block(&self, head: usize, first: usize, kv_blocks: &[KvBlock], bias: &[f32], out: &mut [f32]) {
        let dim = self.params.head_dim;
        let count = out.len() / dim;
        let mut queries = RowBuffer::new(count, dim);
        for (index, query) in queries.numbers_mut().chunks_exact_mut(dim).enumerate() {
            query.copy_from_slice(self.at(first + index, head * dim));
        }
        let all = self.visible(first).start..self.visible(first + count - 1).end;
        let overlaps = |kv_block: &&KvBlock| kv_block.tokens.start < all.end && all.start < kv_block.tokens.end;
        let kv_blocks: Vec<_> = kv_blocks.iter().filter(overlaps).collect();
        let mut scores: Vec<_> = kv_blocks
            .iter()
            .map(|kv_block| {
                let mut scores = RowBuffer::new(count, kv_block.keys.columns());
                kv_block.keys.multiply(dim, queries.numbers(), scores.numbers_mut());
                scores
            })
            .collect();
        let mut row_scales = [0.0; Q_BLOCK];
        self.isa.run(Softmax {
            of: self,
            first,
            kv_blocks: &kv_blocks,
            bias,
            scores: &mut scores,
            row_scales: &mut row_scales[..count],
        });
        out.fill(0.0);
        for (kv_block, scores) in kv_blocks.iter().zip(&scores) {
            let columns = kv_block.values.columns();
            let mut part = RowBuffer::new(count, columns);
            kv_block.values.multiply(scores.width(), scores.numbers(), part.numbers_mut());
            for (out, part) in out.chunks_exact_mut(dim).zip(part.numbers().chunks_exact(columns)) {
                out.iter_mut().zip(part).for_each(|(out, x)| *out += x);
            }
        }
        for (out, row_scale) in out.chunks_exact_mut(dim).zip(row_scales) {
            for x in out {
                *x *= row_scale;
            }
        }
    }
}

/// Turns the scores of queries from `first` into unnormalised probabilities, zero where masked.
struct Softmax<'a> {
    of: &'a HeadGroup<'a>,
    first: usize,
    kv_blocks: &'a [&'a KvBlock],
    bias: &'a [f32],
    scores: &'a mut [RowBuffer],
    /// The reciprocal row sums.
    row_scales: &'a mut [f32],
}

impl Softmax<'_> {
    /// The sum of the exponentials of one query.
    #[inline(always)]
    fn row<L: Lanes>(&mut self, lanes: L, row: usize) -> f32 {
        let query = self.first + row;
        let visible = self.of.visible(query);
        let within = |kv_block: &KvBlock| {
            let Range { start, end } = kv_block.tokens;
            visible.start.clamp(start, end) - start..visible.end.clamp(start, end) - start
        };
        let mut row_max = f32::NEG_INFINITY;
        for (kv_block, scores) in self.kv_blocks.iter().zip(self.scores.iter_mut()) {
            let width = scores.width();
            let read = within(kv_block);
            let start = kv_block.tokens.start + read.start;
            let row = &mut scores.numbers_mut()[row * width..][..width][read];
            if !self.bias.is_empty() {
                let bias = &self.bias[start + self.of.tokens() - 1 - query..];
                row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
            }
            row_max = row_maximum(lanes, row).max(row_max);
        }
        let mut row_sum = 0.0;
        for (kv_block, scores) in self.kv_blocks.iter().zip(self.scores.iter_mut()) {
            let width = scores.width();
            let read = within(kv_block);
            let row = &mut scores.numbers_mut()[row * width..][..width];
            row[..read.start].fill(0.0);
            row[read.end..].fill(0.0);
            let row = &mut row[read];
            map_in_place(lanes, row, Exponential { row_max });
            row_sum += sum(lanes, row, Identity);
        }
        row_sum
    }
}

impl WithSimd for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        for row in 0..self.row_scales.len() {
            self.row_scales[row] = self.row(lanes, row).recip();
        }
    }
}

#[inline(always)]
fn row_maximum<L: Lanes>(lanes: L, row: &[f32]) -> f32 {
    let chunks = row.chunks_exact(L::WIDTH);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |row_max, x| row_max.max(*x));
    let mut row_max = lanes.splat(rest);
    for chunk in chunks {
        // SAFETY: a chunk is as long as a vector.
        row_max = lanes.max(row_max, unsafe { lanes.load(chunk.as_ptr()) });
    }
    lanes.largest(row_max)
}
