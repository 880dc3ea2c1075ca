//! Attention within each text. Keys and values are packed a stretch at a time, so that a window or causality skips the
//! stretches that no query of a block reads.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Arithmetic, Cpu, Weight,
    matrix::Matrix,
    rows::{Exponential, Rule, Same, each, sum},
    states::States,
};
use crate::{
    OpError,
    cpu::simd::{Isa, Kernel, Lanes},
    ops::encode::primitives::{Attention, Batch},
};

/// Keys that are packed together: a whole number of the widest vectors.
const KEYS: usize = 256;
/// Queries that meet the keys at a time.
const QUERIES: usize = 64;

impl Cpu {
    pub(super) fn attend(
        &self,
        batch: &Batch,
        mut qkv: States,
        how: &Attention<'_, Weight>,
    ) -> Result<States, OpError> {
        self.prepare(batch, &mut qkv, how)?;
        let (width, dim) = (how.heads * how.head_dim, how.head_dim);
        let bias = Bias::new(how)?;
        let texts = batch.starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        let heads: Vec<_> = texts.flat_map(|text| (0..how.kv_heads).map(move |head| (text.clone(), head))).collect();
        let mut out = States::new(batch.ids.len(), width);
        let group = how.heads / how.kv_heads;
        let mut place = |(text, kv_head): &(Range<usize>, usize), attended: &[f32]| {
            for (head, rows) in attended.chunks_exact((text.len() * dim).max(1)).enumerate() {
                let column = (kv_head * group + head) * dim;
                for (token, row) in text.clone().zip(rows.chunks_exact(dim)) {
                    out.numbers_mut()[token * width + column..][..dim].copy_from_slice(row);
                }
            }
        };
        let attend = |(text, kv_head): &(Range<usize>, usize)| {
            let rows = &qkv.numbers()[text.start * qkv.width()..text.end * qkv.width()];
            Heads {
                isa: self.isa,
                arithmetic: self.arithmetic,
                rows,
                width: qkv.width(),
                kv_head: *kv_head,
                how,
                bias: &bias,
            }
            .attend()
        };
        if self.spread {
            let attended: Vec<_> = heads.par_iter().map(attend).map(|states| states.numbers().to_vec()).collect();
            heads.iter().zip(&attended).for_each(|(head, attended)| place(head, attended));
        } else {
            for head in &heads {
                place(head, attend(head).numbers());
            }
        }
        Ok(out)
    }

    /// Normalises and rotates queries and keys, and scales the queries.
    fn prepare(&self, batch: &Batch, qkv: &mut States, how: &Attention<'_, Weight>) -> Result<(), OpError> {
        let norms = how.query_norm.map(|(_, queries, keys)| Ok((Rule::new(queries)?, Rule::new(keys)?)));
        let norms: Option<(Rule<'_>, Rule<'_>)> = norms.transpose()?;
        let rotary = how.rotary.map(|(table, dims)| Ok((table.numbers()?, dims))).transpose()?;
        let texts = batch.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        let positions: Vec<usize> = texts.flat_map(|tokens| 0..tokens).collect();
        let width = qkv.width();
        let split = how.heads * how.head_dim;
        let keys_end = split + how.kv_heads * how.head_dim;
        self.by_rows(qkv.numbers_mut(), width, |first, rows| {
            for (row, position) in rows.chunks_exact_mut(width).zip(&positions[first..]) {
                let (queries, keys) = row[..keys_end].split_at_mut(split);
                if let Some((of_queries, of_keys)) = &norms {
                    of_queries.apply(self.isa, queries);
                    of_keys.apply(self.isa, keys);
                }
                if let Some((table, dims)) = rotary {
                    let turn = &table[position * dims..][..dims];
                    queries.chunks_exact_mut(how.head_dim).for_each(|head| rotate(head, turn));
                    keys.chunks_exact_mut(how.head_dim).for_each(|head| rotate(head, turn));
                }
                for x in queries {
                    *x *= how.scale;
                }
            }
        });
        Ok(())
    }
}

/// Rotates the leading numbers of a head by cosines and sines.
fn rotate(head: &mut [f32], turn: &[f32]) {
    let half = turn.len() / 2;
    let (cos, sin) = turn.split_at(half);
    let (first, second) = head[..turn.len()].split_at_mut(half);
    for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// What is added to scores by head and distance.
enum Bias<'a> {
    None,
    /// `[heads, 2 * max_tokens - 1]`.
    Table(&'a [f32], usize),
    /// A slope a head.
    Slopes(&'a [f32]),
}

impl<'a> Bias<'a> {
    fn new(how: &Attention<'a, Weight>) -> Result<Self, OpError> {
        Ok(match (how.relative_bias, how.slopes) {
            (Some(table), _) => Self::Table(table.numbers()?, how.max_tokens),
            (None, Some(slopes)) => Self::Slopes(slopes.numbers()?),
            (None, None) => Self::None,
        })
    }

    /// For texts of `tokens` tokens: at `key - query + tokens - 1`; empty where there is none.
    fn of_head(&self, head: usize, tokens: usize) -> Vec<f32> {
        match self {
            Self::None => vec![],
            Self::Table(table, most) => table[head * (2 * most - 1)..][most - tokens..][..2 * tokens - 1].to_vec(),
            Self::Slopes(slopes) => {
                let distances = (1..tokens).rev().chain(0..tokens);
                distances.map(|distance| -(slopes[head] * distance as f32)).collect()
            }
        }
    }
}

/// The query heads of a text that read one head of keys and values.
struct Heads<'a> {
    isa: Isa,
    arithmetic: Arithmetic,
    /// The text's queries, keys and values.
    rows: &'a [f32],
    width: usize,
    kv_head: usize,
    how: &'a Attention<'a, Weight>,
    bias: &'a Bias<'a>,
}

/// Keys and values next to each other.
struct Stretch {
    keys: Matrix,
    /// As many rows as the scores have columns; zeros behind the values.
    values: Matrix,
    /// Which tokens.
    tokens: Range<usize>,
}

impl Heads<'_> {
    fn tokens(&self) -> usize {
        self.rows.len() / self.width
    }

    /// The numbers of a token from a column on, as many as a head has.
    fn at(&self, token: usize, column: usize) -> &[f32] {
        &self.rows[token * self.width + column..][..self.how.head_dim]
    }

    /// `[query heads, tokens, head_dim]`.
    fn attend(&self) -> States {
        let (tokens, dim) = (self.tokens(), self.how.head_dim);
        let group = self.how.heads / self.how.kv_heads;
        let stretches: Vec<_> = (0..tokens).step_by(KEYS).map(|first| self.stretch(first)).collect();
        let mut out = States::new(group * tokens, dim);
        if tokens == 0 {
            return out;
        }
        for (in_group, out) in out.numbers_mut().chunks_exact_mut(tokens * dim).enumerate() {
            let head = self.kv_head * group + in_group;
            let bias = self.bias.of_head(head, tokens);
            for (block, out) in out.chunks_mut(QUERIES * dim).enumerate() {
                self.block(head, block * QUERIES, &stretches, &bias, out);
            }
        }
        out
    }

    fn stretch(&self, first: usize) -> Stretch {
        let dim = self.how.head_dim;
        let tokens = first..(first + KEYS).min(self.tokens());
        let key = (self.how.heads + self.kv_head) * dim;
        let value = key + self.how.kv_heads * dim;
        let keys = Matrix::new(self.arithmetic, dim, tokens.len(), |at| self.at(first + at, key));
        let row = |at: usize| if at < tokens.len() { self.at(first + at, value) } else { &[] };
        let values = Matrix::of_columns(self.arithmetic, keys.columns(), dim, row);
        Stretch { keys, values, tokens }
    }

    /// Which tokens a query reads.
    fn reads(&self, query: usize) -> Range<usize> {
        let first = self.how.window.map_or(0, |distance| query.saturating_sub(distance));
        let last = if self.how.causal { 0 } else { self.how.window.unwrap_or(usize::MAX) };
        first..query.saturating_add(last).saturating_add(1).min(self.tokens())
    }

    /// Some queries from `first` on, into rows of `out`.
    fn block(&self, head: usize, first: usize, stretches: &[Stretch], bias: &[f32], out: &mut [f32]) {
        let dim = self.how.head_dim;
        let count = out.len() / dim;
        let mut queries = States::new(count, dim);
        for (at, query) in queries.numbers_mut().chunks_exact_mut(dim).enumerate() {
            query.copy_from_slice(self.at(first + at, head * dim));
        }
        let all = self.reads(first).start..self.reads(first + count - 1).end;
        let near = |stretch: &&Stretch| stretch.tokens.start < all.end && all.start < stretch.tokens.end;
        let stretches: Vec<_> = stretches.iter().filter(near).collect();
        let mut scores: Vec<_> = stretches
            .iter()
            .map(|stretch| {
                let mut scores = States::new(count, stretch.keys.columns());
                stretch.keys.multiply(dim, queries.numbers(), scores.numbers_mut());
                scores
            })
            .collect();
        let mut shares = [0.0; QUERIES];
        self.isa.run(Softmax {
            of: self,
            first,
            stretches: &stretches,
            bias,
            scores: &mut scores,
            shares: &mut shares[..count],
        });
        out.fill(0.0);
        for (stretch, scores) in stretches.iter().zip(&scores) {
            let columns = stretch.values.columns();
            let mut part = States::new(count, columns);
            stretch.values.multiply(scores.width(), scores.numbers(), part.numbers_mut());
            for (out, part) in out.chunks_exact_mut(dim).zip(part.numbers().chunks_exact(columns)) {
                out.iter_mut().zip(part).for_each(|(out, x)| *out += x);
            }
        }
        for (out, share) in out.chunks_exact_mut(dim).zip(shares) {
            for x in out {
                *x *= share;
            }
        }
    }
}

/// The scores of some queries from `first` on, to be turned into exponentials, zeros where a query does not read.
struct Softmax<'a> {
    of: &'a Heads<'a>,
    first: usize,
    stretches: &'a [&'a Stretch],
    bias: &'a [f32],
    scores: &'a mut [States],
    /// What each query's exponentials are then to be multiplied with.
    shares: &'a mut [f32],
}

impl Softmax<'_> {
    /// The sum of the exponentials of one query.
    #[inline(always)]
    fn row<L: Lanes>(&mut self, lanes: L, row: usize) -> f32 {
        let query = self.first + row;
        let reads = self.of.reads(query);
        let within = |stretch: &Stretch| {
            let Range { start, end } = stretch.tokens;
            reads.start.clamp(start, end) - start..reads.end.clamp(start, end) - start
        };
        let mut most = f32::NEG_INFINITY;
        for (stretch, scores) in self.stretches.iter().zip(self.scores.iter_mut()) {
            let width = scores.width();
            let read = within(stretch);
            let start = stretch.tokens.start + read.start;
            let row = &mut scores.numbers_mut()[row * width..][..width][read];
            if !self.bias.is_empty() {
                let bias = &self.bias[start + self.of.tokens() - 1 - query..];
                row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
            }
            most = largest(lanes, row).max(most);
        }
        let mut total = 0.0;
        for (stretch, scores) in self.stretches.iter().zip(self.scores.iter_mut()) {
            let width = scores.width();
            let read = within(stretch);
            let row = &mut scores.numbers_mut()[row * width..][..width];
            row[..read.start].fill(0.0);
            row[read.end..].fill(0.0);
            let row = &mut row[read];
            each(lanes, row, Exponential { most });
            total += sum(lanes, row, Same);
        }
        total
    }
}

impl Kernel for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        for row in 0..self.shares.len() {
            self.shares[row] = self.row(lanes, row).recip();
        }
    }
}

#[inline(always)]
fn largest<L: Lanes>(lanes: L, row: &[f32]) -> f32 {
    let chunks = row.chunks_exact(L::WIDTH);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
    let mut most = lanes.splat(rest);
    for chunk in chunks {
        // SAFETY: a chunk is as long as a vector.
        most = lanes.max(most, unsafe { lanes.load(chunk.as_ptr()) });
    }
    lanes.largest(most)
}
