//! The architecture of an encoder: one description for BERT and its relatives, rotary encoders, and decoders used to embed.

use crate::{OpError, op::product};

/// The sizes and options of an encoder.
///
/// | family | norm | positions | MLP | attention |
/// |---|---|---|---|---|
/// | BERT, RoBERTa, XLM-R, DistilBERT | layer, post | absolute | GELU | all |
/// | MPNet | layer, post | absolute, relative bias | GELU | all |
/// | JinaBERT | layer, post | ALiBi | gated GELU | all |
/// | NomicBERT | layer, post | rotary | gated SiLU | all |
/// | ModernBERT | layer, pre | rotary, two bases | gated GELU | mostly sliding window |
/// | Qwen2, Qwen3 | RMS, pre | rotary | gated SiLU | causal, grouped queries |
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// Token ids are below it.
    pub vocabulary: usize,
    /// The width of hidden states.
    pub hidden: usize,
    /// Transformer layers. Without any, the encoder is its word embeddings.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`: query head `h` reads head `h * kv_heads / heads`.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_dim: usize,
    /// The width inside the MLP, after the gate.
    pub intermediate: usize,
    /// The most tokens of a sequence, special tokens included.
    pub max_tokens: usize,
    /// The row of the position embeddings for the first token: 0, or the id of the padding token plus 1 in the RoBERTa
    /// family, where a padding token within a text has the row of its id and does not advance the tokens after it.
    pub position_offset: usize,
    /// Rows of the token type embeddings; 0 without them.
    pub token_types: usize,
    /// The kind of norm.
    pub norm: NormKind,
    /// Added to the variance.
    pub epsilon: f32,
    /// Where a layer normalises.
    pub norm_placement: NormPlacement,
    /// The position encoding.
    pub positions: Positions,
    /// The activation of the MLP.
    pub activation: Activation,
    /// True if the MLP is gated: `activation(gate) * up`.
    pub gated: bool,
    /// True if a token attends to itself and preceding tokens only.
    pub causal: bool,
    /// Layers with sliding window attention.
    pub window: Option<SlidingWindow>,
    /// The norm of queries and keys, if any.
    pub qk_norm: Option<QkNorm>,
    /// The default pooling.
    pub pooling: Pooling,
    /// True if vectors are normalised to unit length by default.
    pub normalize: bool,
}

/// The kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias`.
    Layer,
    /// `x / sqrt(mean of squares + epsilon) * weight`.
    Rms,
}

/// Where a layer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// `x = norm(x + f(x))`.
    PostNorm,
    /// `x = x + f(norm(x))`, with a final norm after the last layer.
    PreNorm,
}

/// The position encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// No positions.
    None,
    /// Learned position embeddings, added to the word embeddings.
    Absolute,
    /// Rotary: columns `i` and `i + dims / 2` of a head, for `i < dims / 2`, are rotated by
    /// `position * theta^(-2i / dims)`.
    Rotary {
        /// The base.
        theta: f64,
        /// The base in layers with sliding window attention.
        local_theta: f64,
        /// Rotated leading columns of a head: even, at most `head_dim`.
        dims: usize,
    },
    /// Scores lose `slope * distance`; see [`super::tables::slopes`].
    Alibi,
    /// Learned position embeddings, and a bias of scores by head and bucketed distance (T5).
    RelativeBias {
        /// Buckets of the bias.
        buckets: usize,
        /// Distances from here on share the last bucket.
        max_distance: usize,
    },
}

/// The activation of the MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x / 2 * (1 + erf(x / sqrt 2))`.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `max(x, 0)`.
    Relu,
}

/// Layers with sliding window attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// The largest distance a token attends to.
    pub distance: usize,
    /// One flag per layer.
    pub layers: Vec<bool>,
}

/// The span of the norm of queries and keys, before rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head, by [`EncoderConfig::norm`] (Qwen3).
    PerHead,
    /// All heads together, by [`EncoderConfig::norm`] (Jina's code models).
    AllHeads,
}

/// The pooling of a range of tokens to one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The first token.
    Cls,
    /// The mean.
    #[default]
    Mean,
    /// The maximum of each dimension.
    Max,
    /// The mean with weight `i` for token `i`, from 1.
    WeightedMean,
    /// The last token.
    Last,
    /// A vector per token.
    None,
}

impl EncoderConfig {
    /// The width of the fused query, key and value projection.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Bytes of the hidden states of a token while a layer runs in f32.
    pub fn token_bytes(&self) -> usize {
        4 * (3 * self.hidden + self.qkv_width().max(self.mlp_up_width() + self.intermediate))
    }

    /// Multiply-adds of a layer's linear layers for one token.
    fn linear_multiply_adds(&self) -> u64 {
        let attention = product([self.hidden, self.qkv_width()]) + product([self.attention_width(), self.hidden]);
        attention + product([self.hidden, self.mlp_up_width()]) + product([self.intermediate, self.hidden])
    }

    /// Multiply-adds of the forward pass of a sequence, and the numbers of its embeddings.
    pub(super) fn multiply_adds(&self, tokens: usize) -> u64 {
        let windowed = (0..self.layers).filter(|layer| self.window(*layer).is_some()).count();
        let near = self.window.as_ref().map_or(tokens, |window| tokens.min(window.distance.saturating_mul(2) + 1));
        let scores = product([self.layers - windowed, tokens]).saturating_add(product([windowed, near]));
        // A causal mask hides half of the keys on average.
        let scores = if self.causal { scores.div_ceil(2) } else { scores };
        let attention = scores.saturating_mul(product([2, self.attention_width()]));
        let linear = self.linear_multiply_adds().saturating_mul(self.layers as u64);
        attention.saturating_add(linear).saturating_add(self.hidden as u64).saturating_mul(tokens as u64)
    }

    /// The width of the attention output, before its projection.
    pub fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The width of the MLP's up projection, with the gate.
    pub fn mlp_up_width(&self) -> usize {
        if self.gated { 2 * self.intermediate } else { self.intermediate }
    }

    /// Rows of the position embeddings; 0 without them.
    pub fn position_rows(&self) -> usize {
        match self.positions {
            Positions::Absolute | Positions::RelativeBias { .. } => self.position_offset + self.max_tokens,
            Positions::None | Positions::Rotary { .. } | Positions::Alibi => 0,
        }
    }

    /// The token that does not advance positions, if there is one.
    pub fn padding_id(&self) -> Option<u32> {
        let id = self.position_offset.checked_sub(1).filter(|_| self.position_rows() > 0)?;
        u32::try_from(id).ok()
    }

    /// The window of a layer; `None` for full or causal attention.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let window = self.window.as_ref()?;
        window.layers.get(layer).copied().unwrap_or(false).then_some(window.distance)
    }

    /// The factor of scores, `1 / sqrt(head_dim)`.
    pub fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }

    /// Validates all bounds that the backends rely on to index memory.
    pub fn check(&self) -> Result<(), OpError> {
        let sizes = [
            ("vocabulary", self.vocabulary, 1 << 24),
            ("hidden", self.hidden, 1 << 16),
            ("heads", self.heads, 1 << 10),
            ("kv_heads", self.kv_heads, self.heads),
            ("head_dim", self.head_dim, 1 << 10),
            ("intermediate", self.intermediate, 1 << 18),
            ("max_tokens", self.max_tokens, 1 << 20),
        ];
        for (name, got, limit) in sizes {
            if !(1..=limit).contains(&got) {
                return invalid(format!("{name} must be 1 to {limit}, got {got}"));
            }
        }
        if self.layers > 1 << 12 {
            return invalid(format!("layers must be at most 4096, got {}", self.layers));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return invalid(format!("heads must be a multiple of kv_heads, got {} and {}", self.heads, self.kv_heads));
        }
        if self.position_offset > 1 << 10 || self.token_types > 1 << 10 {
            return invalid("position_offset and token_types must be at most 1024".to_owned());
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return invalid(format!("epsilon must be finite and not negative, got {}", self.epsilon));
        }
        self.check_positions()
    }

    fn check_positions(&self) -> Result<(), OpError> {
        match self.positions {
            Positions::Rotary { theta, local_theta, dims } => {
                if dims == 0 || !dims.is_multiple_of(2) || dims > self.head_dim {
                    return invalid(format!("rotary dims must be even and 2 to {}, got {dims}", self.head_dim));
                }
                let fits = |theta: f64| theta.is_finite() && theta > 0.0;
                if !fits(theta) || !fits(local_theta) {
                    return invalid(format!("rotary bases must be positive, got {theta} and {local_theta}"));
                }
                Ok(())
            }
            Positions::RelativeBias { buckets, max_distance } => {
                if buckets < 4 || !buckets.is_multiple_of(2) || max_distance <= buckets / 4 {
                    return invalid(format!("{buckets} buckets do not fit a maximum distance of {max_distance}"));
                }
                Ok(())
            }
            Positions::None | Positions::Absolute | Positions::Alibi => Ok(()),
        }
    }
}

pub(super) fn invalid<T>(reason: String) -> Result<T, OpError> {
    Err(OpError::Invalid(reason))
}
