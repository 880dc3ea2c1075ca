//! What a backend must provide to run an encoder. [`super::forward`] is written once, over these.
//!
//! All tensors are row-major with one row a token, the texts of a batch one after the other and no padding between
//! them. `T` is the number of tokens of the batch. In which precision a backend keeps states and products is its own
//! affair; norms, softmax, rotations and sums are in f32 always.
//!
//! Batch invariance is part of the contract: the bits of a token's row depend on its own text alone. So a sum's order
//! may depend on the layer and on the text's length, but not on how many rows stand beside it; a product that splits
//! its inner dimension by the number of rows breaks it.

use super::{
    config::{Activation, QueryNorm},
    weights::{Embeddings, Linear, Norm},
};
use crate::OpError;

/// Token ids of many texts, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// `[T]`, each below the vocabulary size.
    pub ids: Vec<u32>,
    /// `[T]`, each below the number of token types; empty means all 0.
    pub types: Vec<u32>,
    /// Where each text starts, then T. A text may be empty, and has at most `max_tokens` tokens. Token `t` of text `s`
    /// has position `t - starts[s]`.
    pub starts: Vec<u32>,
    /// Tokens of the longest text.
    pub longest: usize,
}

/// What happens to a product before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The bias is added, if there is one. So in all the others.
    Nothing,
    /// `y = f(y)`.
    Activate(Activation),
    /// Halves the width: `y[i] = f(y[i]) * y[i + width / 2]`.
    Gate(Activation),
}

/// How a layer attends.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, W> {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; query head `h` reads head `h * kv_heads / heads`.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_dim: usize,
    /// Scores are multiplied with it, before anything is added to them.
    pub scale: f32,
    /// Whether a token reads only itself and what stands before it.
    pub causal: bool,
    /// Largest distance between a token and one it reads.
    pub window: Option<usize>,
    /// Normalises queries and keys, before rotation.
    pub query_norm: Option<(QueryNorm, &'a Norm<W>, &'a Norm<W>)>,
    /// f32 `[max_tokens, dims]` of [`super::tables::rotary`]: number `i < dims / 2` of a head and number
    /// `i + dims / 2` become `(a cos - b sin, b cos + a sin)`, by the row of their position. The rest of a head stays.
    pub rotary: Option<(&'a W, usize)>,
    /// f32 `[heads, 2 * max_tokens - 1]`: `key - query + max_tokens - 1` is added to the score.
    pub relative_bias: Option<&'a W>,
    /// f32 `[heads]`: `slope * |key - query|` is taken from the score.
    pub slopes: Option<&'a W>,
    /// What the tables above are laid out for.
    pub max_tokens: usize,
}

/// Over what a row of the answer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The mean.
    Mean,
    /// The mean, where token `i` of the range (from 1) counts `i` times.
    WeightedMean,
    /// The largest of each dimension.
    Max,
}

/// In what numbers an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// binary32.
    #[default]
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// `round(x / scale)` with `scale = max |x| / 127` of the row, ties to even; a row of zeros has scale 0.
    Int8,
    /// A bit a dimension, 1 where x > 0, the first dimension in the highest bit of the first byte.
    Binary,
}

impl Output {
    /// Bytes of a row.
    pub fn row_bytes(self, dimensions: usize) -> usize {
        match self {
            Self::F32 => 4 * dimensions,
            Self::F16 | Self::Bf16 => 2 * dimensions,
            Self::Int8 => dimensions,
            Self::Binary => dimensions.div_ceil(8),
        }
    }
}

/// One row of the answer: tokens `from..to` of the batch, reduced, cut to the leading dimensions, scaled to unit length
/// where asked, and written. An empty range is a row of zeros. A range may span texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First token.
    pub from: u32,
    /// Behind the last token.
    pub to: u32,
    /// Over the tokens.
    pub reduce: Reduce,
    /// Leading dimensions to keep.
    pub dimensions: u32,
    /// Whether to scale what is kept to unit length; zeros stay zeros.
    pub normalize: bool,
    /// How it is written.
    pub output: Output,
}

impl Row {
    /// Bytes it is written in.
    pub fn bytes(&self) -> usize {
        self.output.row_bytes(self.dimensions as usize)
    }
}

/// Rows of the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pooled {
    /// The rows, each [`Output::row_bytes`] long, one after the other without gaps.
    pub bytes: Vec<u8>,
    /// One number for each row that is written as [`Output::Int8`], in order.
    pub scales: Vec<f32>,
}

/// The primitives. A backend makes a value of its type for one batch.
pub trait Primitives {
    /// A weight as the backend keeps it; see [`super::Weights::map`] and [`super::Role`].
    type Weight;
    /// States `[T, width]` of the batch, in the backend's memory. Dropping it gives the memory back.
    type Tensor;

    /// `[T, hidden]`: the word's row, plus row `position_offset + position` of the position table, plus the type's row,
    /// where there are such tables, then the norm, where there is one.
    fn embed(
        &mut self,
        batch: &Batch,
        embeddings: &Embeddings<Self::Weight>,
        position_offset: usize,
    ) -> Result<Self::Tensor, OpError>;

    /// `[T, inputs]` to `[T, outputs]` (`[T, outputs / 2]` where it is gated): `x * weight^T + bias`, then `then`.
    fn linear(&mut self, x: &Self::Tensor, linear: &Linear<Self::Weight>, then: Then) -> Result<Self::Tensor, OpError>;

    /// `[T, (heads + 2 * kv_heads) * head_dim]` (all queries, all keys, all values, head after head) to
    /// `[T, heads * head_dim]`: within each text, `softmax(scale * q k^T + biases) v` over what a token may read.
    fn attention(
        &mut self,
        batch: &Batch,
        qkv: Self::Tensor,
        how: &Attention<'_, Self::Weight>,
    ) -> Result<Self::Tensor, OpError>;

    /// `norm(x)`, of the same shape.
    fn norm(&mut self, x: &Self::Tensor, norm: &Norm<Self::Weight>) -> Result<Self::Tensor, OpError>;

    /// `norm(residual + delta)`: the new residual, where norms come after.
    fn add_norm(
        &mut self,
        residual: Self::Tensor,
        delta: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> Result<Self::Tensor, OpError>;

    /// `norm(residual + y)`, where `y` is what [`Primitives::linear`] makes of `x`.
    fn linear_add_norm(
        &mut self,
        x: &Self::Tensor,
        linear: &Linear<Self::Weight>,
        residual: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> Result<Self::Tensor, OpError> {
        let delta = self.linear(x, linear, Then::Nothing)?;
        self.add_norm(residual, delta, norm)
    }

    /// `residual += delta`, then `norm(residual)`, where norms come before.
    fn add_then_norm(
        &mut self,
        residual: &mut Self::Tensor,
        delta: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> Result<Self::Tensor, OpError>;

    /// Reduces states `[T, hidden]` to the rows of the answer, and waits for them.
    fn pool(&mut self, states: &Self::Tensor, rows: &[Row]) -> Result<Pooled, OpError>;
}
