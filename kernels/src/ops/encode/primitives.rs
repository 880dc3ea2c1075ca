//! The operations that a backend implements. [`super::forward`] is written once over them.
//!
//! All tensors are row-major with one row per token; the sequences of a batch are packed without padding. `T` is the number
//! of tokens of the batch. A backend chooses the precision of hidden states and GEMMs; norms, softmax, rotations and sums
//! are always in f32.
//!
//! Batch invariance is part of the contract: the bits of a token's row depend on its own sequence alone. The order of a sum
//! may depend on the layer and the length of the sequence, but not on the number of rows; split-K by row count violates it.

use std::future::Future;

use super::{
    config::{Activation, QkNorm},
    weights::{Embeddings, Linear, Norm},
};
use crate::OpError;

/// Packed sequences of token ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// `[T]`, each below the vocabulary size.
    pub ids: Vec<u32>,
    /// `[T]`, each below the number of token types; empty means all 0.
    pub token_type_ids: Vec<u32>,
    /// `[T]`, the rows of the position embeddings; empty means `position_offset` plus the position.
    pub position_rows: Vec<u32>,
    /// Cumulative sequence lengths: the start of each sequence, then T. A sequence has 0 to `max_tokens` tokens; row `t` of
    /// sequence `s` has position `t - cu_seqlens[s]`.
    pub cu_seqlens: Vec<u32>,
    /// The length of the longest sequence.
    pub max_seqlen: usize,
}

/// The function that a linear layer applies to the product before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// Adds the bias, if there is one; so do the others.
    Bias,
    /// `y = f(y)`.
    Activation(Activation),
    /// Halves the width: `y[i] = f(y[i]) * y[i + width / 2]`.
    GatedActivation(Activation),
}

/// The parameters of self-attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, W> {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query head `h` reads head `h * kv_heads / heads`.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_dim: usize,
    /// The factor of scores, before biases.
    pub scale: f32,
    /// True if a token attends to itself and preceding tokens only.
    pub causal: bool,
    /// The largest distance a token attends to.
    pub window: Option<usize>,
    /// The norms of queries and keys, before rotation.
    pub query_norm: Option<(QkNorm, &'a Norm<W>, &'a Norm<W>)>,
    /// f32 `[max_tokens, dims]` of [`super::tables::rotary`]: columns `i < dims / 2` and `i + dims / 2`
    /// of a head become `(a cos - b sin, b cos + a sin)`, by the row of their position. Other columns are unchanged.
    pub rotary: Option<(&'a W, usize)>,
    /// f32 `[heads, 2 * max_tokens - 1]`: entry `key - query + max_tokens - 1` is added to the score.
    pub relative_bias: Option<&'a W>,
    /// f32 `[heads]`: `slope * |key - query|` is subtracted from the score (ALiBi).
    pub slopes: Option<&'a W>,
    /// The sequence length of the tables above.
    pub max_tokens: usize,
}

/// The reduction of a range of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The mean.
    Mean,
    /// The mean with weight `i` for token `i` of the range, from 1.
    WeightedMean,
    /// The maximum of each dimension.
    Max,
}

/// The number format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputType {
    /// binary32.
    #[default]
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// `round(x / scale)` with `scale = max |x| / 127` of the row, ties to even; a row of zeros has scale 0.
    Int8,
    /// One bit per dimension, 1 where x > 0, the first dimension in the highest bit of the first byte.
    Binary,
}

impl OutputType {
    /// The size of a row in bytes.
    pub fn row_bytes(self, dimensions: usize) -> usize {
        match self {
            Self::F32 => 4 * dimensions,
            Self::F16 | Self::Bf16 => 2 * dimensions,
            Self::Int8 => dimensions,
            Self::Binary => dimensions.div_ceil(8),
        }
    }
}

/// One row of the output: tokens `from..to` of the batch are reduced, truncated, optionally normalised, and converted. An
/// empty range gives zeros. A range may span sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRow {
    /// First token.
    pub from: u32,
    /// One past the last token.
    pub to: u32,
    /// The reduction over the tokens.
    pub reduce: Reduction,
    /// Leading dimensions to keep.
    pub dimensions: u32,
    /// True to scale to unit length after truncation; zeros stay zeros.
    pub normalize: bool,
    /// The number format.
    pub output: OutputType,
}

impl OutputRow {
    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.output.row_bytes(self.dimensions as usize)
    }
}

/// The output rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PooledOutput {
    /// The rows, each [`OutputType::row_bytes`] long, one after the other without gaps.
    pub bytes: Vec<u8>,
    /// One scale per [`OutputType::Int8`] row, in order.
    pub scales: Vec<f32>,
}

/// The operations of one forward pass; a backend creates a value per batch. A backend whose work is cut into slices suspends
/// itself between them, the others never do.
pub trait Primitives {
    /// A weight as the backend keeps it; see [`super::Weights::map`] and [`super::Role`].
    type Weight;
    /// Hidden states `[T, width]` in the backend's memory, freed on drop.
    type Tensor;

    /// `[T, hidden]`: the sum of word embedding, position embedding of row `position_offset + position`, or of the batch's row
    /// if it lists rows, and token type
    /// embedding, where present, then the norm.
    fn embed(
        &mut self,
        batch: &Batch,
        embeddings: &Embeddings<Self::Weight>,
        position_offset: usize,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// `[T, inputs]` to `[T, outputs]` (`[T, outputs / 2]` where it is gated): `x * weight^T + bias`, then the epilogue.
    fn linear(
        &mut self,
        x: &Self::Tensor,
        linear: &Linear<Self::Weight>,
        epilogue: Epilogue,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// `[T, (heads + 2 * kv_heads) * head_dim]` (all queries, all keys, all values, head after head) to
    /// `[T, heads * head_dim]`: within each sequence, `softmax(scale * q k^T + bias) v` over the visible tokens.
    fn attention(
        &mut self,
        batch: &Batch,
        qkv: Self::Tensor,
        params: &Attention<'_, Self::Weight>,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// `norm(x)`, of the same shape.
    fn norm(
        &mut self,
        x: &Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// `norm(residual + delta)`, the new residual of a post-norm layer.
    fn add_norm(
        &mut self,
        residual: Self::Tensor,
        delta: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// `norm(residual + y)`, where `y` is [`Primitives::linear`] of `x`.
    fn linear_add_norm(
        &mut self,
        x: &Self::Tensor,
        linear: &Linear<Self::Weight>,
        residual: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>> {
        async {
            let delta = self.linear(x, linear, Epilogue::Bias).await?;
            self.add_norm(residual, delta, norm).await
        }
    }

    /// `residual += delta`, then `norm(residual)`, in a pre-norm layer.
    fn fused_add_norm(
        &mut self,
        residual: &mut Self::Tensor,
        delta: Self::Tensor,
        norm: &Norm<Self::Weight>,
    ) -> impl Future<Output = Result<Self::Tensor, OpError>>;

    /// Pools hidden states `[T, hidden]` to the output rows, and waits for them.
    fn pool(&mut self, hidden_states: &Self::Tensor, rows: &[OutputRow]) -> Result<PooledOutput, OpError>;
}
