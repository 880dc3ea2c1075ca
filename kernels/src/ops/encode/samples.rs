//! Small encoders of every family with made-up weights, and requests for them: for tests of every backend.

use std::sync::Arc;

use super::{
    Activation, Embeddings, EncodeRequest, Encoder, EncoderConfig, Layer, Linear, Norm, NormKind, NormPlacement,
    OutputType, Pooling, Positions, Precision, QkNorm, SlidingWindow, Tensor, Weights, tables,
};
use crate::OpError;

/// All families, by name. Sizes straddle the widths of vectors.
pub fn all() -> Result<Vec<(&'static str, Arc<Encoder>)>, OpError> {
    let rotary = Positions::Rotary { theta: 10_000.0, local_theta: 10_000.0, dims: 16 };
    let bert = bert();
    let configs = [
        ("bert", bert.clone()),
        ("roberta", EncoderConfig { position_offset: 2, pooling: Pooling::Cls, token_types: 1, ..bert.clone() }),
        ("distilbert", EncoderConfig { token_types: 0, activation: Activation::Relu, ..bert.clone() }),
        (
            "mpnet",
            EncoderConfig {
                positions: Positions::RelativeBias { buckets: 32, max_distance: 128 },
                token_types: 0,
                ..bert.clone()
            },
        ),
        (
            "jina-bert",
            EncoderConfig { positions: Positions::Alibi, gated: true, heads: 3, kv_heads: 3, ..bert.clone() },
        ),
        (
            "jina-bert-code",
            EncoderConfig { positions: Positions::Alibi, qk_norm: Some(QkNorm::AllHeads), ..bert.clone() },
        ),
        ("nomic-bert", EncoderConfig { positions: rotary, gated: true, activation: Activation::Silu, ..bert.clone() }),
        (
            "modernbert",
            EncoderConfig {
                positions: Positions::Rotary { theta: 160_000.0, local_theta: 10_000.0, dims: 16 },
                norm_placement: NormPlacement::PreNorm,
                gated: true,
                layers: 4,
                max_tokens: 600,
                token_types: 0,
                window: Some(SlidingWindow { distance: 5, layers: vec![false, true, true, false] }),
                ..bert.clone()
            },
        ),
        (
            "qwen3",
            EncoderConfig {
                norm: NormKind::Rms,
                norm_placement: NormPlacement::PreNorm,
                positions: rotary,
                activation: Activation::Silu,
                gated: true,
                causal: true,
                heads: 4,
                kv_heads: 2,
                qk_norm: Some(QkNorm::PerHead),
                pooling: Pooling::Last,
                token_types: 0,
                ..bert.clone()
            },
        ),
        ("table", EncoderConfig { layers: 0, positions: Positions::None, token_types: 0, ..bert.clone() }),
        ("odd", EncoderConfig { hidden: 37, heads: 3, kv_heads: 1, head_dim: 10, intermediate: 51, ..bert }),
    ];
    configs.into_iter().map(|(name, config)| Ok((name, Arc::new(encoder(config)?)))).collect()
}

/// Two small layers like BERT's, for others to differ from.
pub fn bert() -> EncoderConfig {
    EncoderConfig {
        vocabulary: 101,
        hidden: 48,
        layers: 2,
        heads: 2,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 80,
        max_tokens: 300,
        position_offset: 0,
        token_types: 2,
        norm: NormKind::Layer,
        epsilon: 1e-5,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::Absolute,
        activation: Activation::Gelu,
        gated: false,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    }
}

/// An encoder of this description whose weights are made up, with biases where the family has them.
pub fn encoder(config: EncoderConfig) -> Result<Encoder, OpError> {
    let mut make = Maker { state: 1 };
    let has_bias = config.norm == NormKind::Layer;
    let table =
        |make: &mut Maker, rows: usize| (rows > 0).then(|| make.tensor(&[rows, config.hidden], 0.0, 1.0)).transpose();
    let word_embeddings = make.tensor(&[config.vocabulary, config.hidden], 0.0, 1.0)?;
    let embeddings = Embeddings {
        word_embeddings,
        position_embeddings: table(&mut make, config.position_rows())?,
        token_type_embeddings: table(&mut make, config.token_types)?,
        norm: (config.norm == NormKind::Layer).then(|| make.norm(&config, config.hidden)).transpose()?,
    };
    let mut weights = Weights {
        embeddings,
        rotary: None,
        local_rotary: None,
        relative_bias: None,
        slopes: None,
        layers: (0..config.layers).map(|index| make.layer(&config, index, has_bias)).collect::<Result<_, _>>()?,
        final_norm: (config.norm_placement == NormPlacement::PreNorm)
            .then(|| make.norm(&config, config.hidden))
            .transpose()?,
    };
    let buckets = match config.positions {
        Positions::RelativeBias { buckets, .. } => make.numbers(buckets * config.heads, 0.0, 1.0),
        Positions::None | Positions::Absolute | Positions::Rotary { .. } | Positions::Alibi => vec![],
    };
    tables::fill(&config, &buckets, &mut weights)?;
    Encoder::new(config, weights)
}

/// Texts of these lengths, all other choices as the encoder has them.
pub fn request(encoder: &Arc<Encoder>, lengths: &[usize]) -> EncodeRequest {
    let config = encoder.config();
    let mut offsets = vec![0];
    let mut ids = vec![];
    for (text, &length) in (1..).zip(lengths) {
        let vocabulary = u32::try_from(config.vocabulary).unwrap_or(u32::MAX);
        ids.extend((0..).take(length).map(|i: u32| (i * i * 7 + i + 31 * text) % vocabulary));
        offsets.push(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    }
    EncodeRequest {
        encoder: Arc::clone(encoder),
        ids,
        token_type_ids: vec![],
        offsets,
        spans: None,
        pooling: config.pooling,
        dimensions: config.hidden,
        normalize: config.normalize,
        output: OutputType::F32,
        precision: Precision::F32,
        exact_gelu: true,
    }
}

/// One text of a request, alone.
pub fn sequence(request: &EncodeRequest, index: usize) -> EncodeRequest {
    let from = request.offsets[index];
    let to = request.offsets[index + 1];
    let ids = request.ids[from as usize..to as usize].to_vec();
    EncodeRequest { ids, offsets: vec![0, to - from], ..request.clone() }
}

struct Maker {
    state: u64,
}

impl Maker {
    /// Numbers spread evenly within `spread` of `middle`.
    fn numbers(&mut self, count: usize, middle: f32, spread: f32) -> Vec<f32> {
        let mut next = || {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            middle + spread * ((self.state >> 40) as f32 / (1 << 23) as f32 - 1.0)
        };
        (0..count).map(|_| next()).collect()
    }

    fn tensor(&mut self, shape: &[usize], middle: f32, spread: f32) -> Result<Tensor, OpError> {
        Tensor::from_f32(shape, &self.numbers(shape.iter().product(), middle, spread))
    }

    fn linear(&mut self, outputs: usize, inputs: usize, has_bias: bool) -> Result<Linear<Tensor>, OpError> {
        let weight = self.tensor(&[outputs, inputs], 0.0, 2.0 / (inputs as f32).sqrt())?;
        let bias = has_bias.then(|| self.tensor(&[outputs], 0.0, 0.1)).transpose()?;
        Ok(Linear { weight, bias, inputs, outputs })
    }

    fn norm(&mut self, config: &EncoderConfig, width: usize) -> Result<Norm<Tensor>, OpError> {
        let weight = self.tensor(&[width], 1.0, 0.3)?;
        let bias = (config.norm == NormKind::Layer).then(|| self.tensor(&[width], 0.0, 0.3)).transpose()?;
        Ok(Norm { kind: config.norm, epsilon: config.epsilon, weight, bias })
    }

    fn layer(&mut self, config: &EncoderConfig, index: usize, has_bias: bool) -> Result<Layer<Tensor>, OpError> {
        let widths = config.qk_norm.map(|over| match over {
            QkNorm::PerHead => (config.head_dim, config.head_dim),
            QkNorm::AllHeads => (config.attention_width(), config.kv_heads * config.head_dim),
        });
        let bare = index == 0 && config.norm_placement == NormPlacement::PreNorm && config.norm == NormKind::Layer;
        Ok(Layer {
            attention_norm: (!bare).then(|| self.norm(config, config.hidden)).transpose()?,
            qkv: self.linear(config.qkv_width(), config.hidden, has_bias)?,
            query_norm: widths.map(|(queries, _)| self.norm(config, queries)).transpose()?,
            key_norm: widths.map(|(_, keys)| self.norm(config, keys)).transpose()?,
            output: self.linear(config.hidden, config.attention_width(), has_bias)?,
            mlp_norm: self.norm(config, config.hidden)?,
            up: self.linear(config.mlp_up_width(), config.hidden, has_bias)?,
            down: self.linear(config.hidden, config.intermediate, has_bias)?,
        })
    }
}
