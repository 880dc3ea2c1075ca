//! What an encoder looks like: one description that spans BERT and its kin, rotary encoders, and decoders used to embed.

use crate::OpError;

/// The shape of an encoder and the rules of its layers.
///
/// | family | norm | positions | MLP | attention |
/// |---|---|---|---|---|
/// | BERT, RoBERTa, XLM-R, DistilBERT | layer, after | absolute | GELU | all |
/// | MPNet | layer, after | absolute, relative bias | GELU | all |
/// | JinaBERT | layer, after | ALiBi | gated GELU | all |
/// | NomicBERT | layer, after | rotary | gated SiLU | all |
/// | ModernBERT | layer, before | rotary, two bases | gated GELU | all, mostly in windows |
/// | Qwen2, Qwen3 | RMS, before | rotary | gated SiLU | causal, fewer key heads |
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// Rows of the word table: ids are below it.
    pub vocabulary: usize,
    /// Numbers in the state of a token.
    pub hidden: usize,
    /// Layers; without any, an encoder is a table of words.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values: divides `heads`; head `h` of the queries reads head `h * kv_heads / heads`.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_dim: usize,
    /// Numbers between the two products of the MLP (after the gate, where there is one).
    pub intermediate: usize,
    /// Most tokens a text may have, special ones included.
    pub max_tokens: usize,
    /// Row of the position table that the first token takes: 0, or 2 in the RoBERTa family.
    pub position_offset: usize,
    /// Kinds of tokens that are told apart; 0 where there is no such table.
    pub token_types: usize,
    /// How states are normalised.
    pub norm: NormKind,
    /// What is added to the variance.
    pub epsilon: f32,
    /// Where in a layer.
    pub placement: Placement,
    /// How positions enter.
    pub positions: Positions,
    /// The function between the products of the MLP.
    pub activation: Activation,
    /// Whether the first product has two halves, `activation(first) * second`.
    pub gated: bool,
    /// Whether a token reads only itself and what stands before it.
    pub causal: bool,
    /// Layers that read only near tokens.
    pub window: Option<Window>,
    /// Whether queries and keys are normalised before they meet, and over what.
    pub query_norm: Option<QueryNorm>,
    /// How the tokens of a text become one vector, where the request does not say.
    pub pooling: Pooling,
    /// Whether that vector is scaled to unit length, where the request does not say.
    pub normalize: bool,
}

/// How states are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias`.
    Layer,
    /// `x / sqrt(mean of squares + epsilon) * weight`.
    Rms,
}

/// Where a layer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `x = norm(x + f(x))`.
    After,
    /// `x = x + f(norm(x))`, and the last state is normalised once more.
    Before,
}

/// How positions enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// Not at all.
    None,
    /// A table that is added to the words.
    Absolute,
    /// Queries and keys are rotated: number `i` of a head with number `i + dims / 2`, for `i < dims / 2`, by
    /// `position * theta^(-2i / dims)`.
    Rotary {
        /// The base.
        theta: f64,
        /// The base in layers that read only near tokens.
        local_theta: f64,
        /// Leading numbers of a head that are rotated: even, at most `head_dim`.
        dims: usize,
    },
    /// Scores lose `slope * distance`; see [`super::tables::slopes`].
    Alibi,
    /// A table is added to the words, and scores gain a number that depends on head and distance (T5's buckets).
    RelativeBias {
        /// Rows of the bias table.
        buckets: usize,
        /// From this distance on all share the last bucket.
        max_distance: usize,
    },
}

/// The function between the products of the MLP.
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

/// Layers that read only near tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Largest distance between a token and one it reads.
    pub distance: usize,
    /// Which layers.
    pub layers: Vec<bool>,
}

/// What queries and keys are normalised over, before rotation. Weights are of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryNorm {
    /// Each head, by [`EncoderConfig::norm`] (Qwen3).
    Head,
    /// All heads together, by [`EncoderConfig::norm`] (Jina's code models).
    All,
}

/// How tokens become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The first token's.
    Cls,
    /// The mean.
    #[default]
    Mean,
    /// The largest of each dimension.
    Max,
    /// The mean, where token `i` (from 1) counts `i` times.
    WeightedMean,
    /// The last token's.
    Last,
    /// Each token's own: as many vectors as tokens.
    None,
}

impl EncoderConfig {
    /// Width of what attention reads: all queries, then all keys, then all values, each head after head.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Bytes of the states of a token while a layer is computed in f32.
    pub fn token_bytes(&self) -> usize {
        4 * (3 * self.hidden + self.qkv_width().max(self.up_width() + self.intermediate))
    }

    /// Width of what attention writes.
    pub fn attended_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of what the first product of the MLP writes.
    pub fn up_width(&self) -> usize {
        if self.gated { 2 * self.intermediate } else { self.intermediate }
    }

    /// Rows of the position table; 0 where there is none.
    pub fn position_rows(&self) -> usize {
        match self.positions {
            Positions::Absolute | Positions::RelativeBias { .. } => self.position_offset + self.max_tokens,
            Positions::None | Positions::Rotary { .. } | Positions::Alibi => 0,
        }
    }

    /// How far a layer reads: `None` is everything (that `causal` lets it).
    pub fn window(&self, layer: usize) -> Option<usize> {
        let window = self.window.as_ref()?;
        window.layers.get(layer).copied().unwrap_or(false).then_some(window.distance)
    }

    /// What a score is multiplied with.
    pub fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }

    /// Says what is wrong with it. Both backends index memory on the strength of this.
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
        for (name, got, most) in sizes {
            if !(1..=most).contains(&got) {
                return invalid(format!("{name} is 1 to {most}, got {got}"));
            }
        }
        if self.layers > 1 << 12 {
            return invalid(format!("layers are at most 4096, got {}", self.layers));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return invalid(format!("heads are a multiple of kv_heads, got {} and {}", self.heads, self.kv_heads));
        }
        if self.position_offset > 1 << 10 || self.token_types > 1 << 10 {
            return invalid("position_offset and token_types are at most 1024".to_owned());
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return invalid(format!("epsilon is a number from 0 on, got {}", self.epsilon));
        }
        self.check_positions()
    }

    fn check_positions(&self) -> Result<(), OpError> {
        match self.positions {
            Positions::Rotary { theta, local_theta, dims } => {
                if dims == 0 || !dims.is_multiple_of(2) || dims > self.head_dim {
                    return invalid(format!("rotary dims are even and 2 to {}, got {dims}", self.head_dim));
                }
                let fits = |theta: f64| theta.is_finite() && theta > 0.0;
                if !fits(theta) || !fits(local_theta) {
                    return invalid(format!("rotary bases are above 0, got {theta} and {local_theta}"));
                }
                Ok(())
            }
            Positions::RelativeBias { buckets, max_distance } => {
                if buckets < 4 || !buckets.is_multiple_of(2) || max_distance <= buckets / 4 {
                    return invalid(format!("{buckets} buckets do not fit a largest distance of {max_distance}"));
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
