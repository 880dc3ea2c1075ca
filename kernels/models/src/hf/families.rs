//! Supported architectures: their config.json and tensor names.

use accelerd_kernels::ops::encode::{
    Activation, EncoderConfig, NormKind, NormPlacement, Pooling, Positions, QkNorm, SlidingWindow,
};

use super::{error::LoadError, fields::Fields, files::CONFIG};

/// The supported `model_type`s.
pub(super) const KNOWN: &[&str] = &[
    "bert",
    "camembert",
    "distilbert",
    "jina_bert",
    "llama",
    "mistral",
    "model2vec",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "qwen2",
    "qwen3",
    "roberta",
    "xlm-roberta",
];

/// The tensors of a fused matrix, as names relative to a layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parts {
    /// One tensor, in this order.
    One(&'static str),
    /// Separate tensors.
    Many(&'static [&'static str]),
    /// One tensor with its halves swapped.
    Exchanged(&'static str),
}

/// Tensor names without `.weight` and `.bias`. Those of a layer follow `layers` and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) words: &'static str,
    pub(super) positions: &'static str,
    pub(super) types: &'static str,
    pub(super) embedding_norm: Option<&'static str>,
    pub(super) layers: &'static str,
    pub(super) qkv: Parts,
    pub(super) query_norm: &'static str,
    pub(super) key_norm: &'static str,
    pub(super) output: &'static str,
    pub(super) attention_norm: &'static str,
    pub(super) up: Parts,
    pub(super) down: &'static str,
    pub(super) mlp_norm: &'static str,
    pub(super) final_norm: &'static str,
    pub(super) relative_bias: &'static str,
}

/// Which linear layers and norms have a bias.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by its own name")]
pub(super) struct Biases {
    pub(super) qkv: bool,
    pub(super) output: bool,
    pub(super) up: bool,
    pub(super) down: bool,
    pub(super) norms: bool,
}

const ALL_BIASES: Biases = Biases { qkv: true, output: true, up: true, down: true, norms: true };
const NO_BIASES: Biases = Biases { qkv: false, output: false, up: false, down: false, norms: false };

/// An encoder's configuration and tensor names.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) config: EncoderConfig,
    /// Alternative names; [`super::weights`] uses those that exist.
    pub(super) names: Vec<Names>,
    pub(super) biases: Biases,
    /// True if the first layer has no norm before attention.
    pub(super) first_is_bare: bool,
}

const BERT: Names = Names {
    words: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    types: "embeddings.token_type_embeddings",
    embedding_norm: Some("embeddings.LayerNorm"),
    layers: "encoder.layer",
    qkv: Parts::Many(&["attention.self.query", "attention.self.key", "attention.self.value"]),
    query_norm: "attention.self.layer_norm_q",
    key_norm: "attention.self.layer_norm_k",
    output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: Parts::Many(&["intermediate.dense"]),
    down: "output.dense",
    mlp_norm: "output.LayerNorm",
    final_norm: "",
    relative_bias: "encoder.relative_attention_bias",
};

const MPNET: Names = Names {
    qkv: Parts::Many(&["attention.attn.q", "attention.attn.k", "attention.attn.v"]),
    output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    ..BERT
};

const DISTILBERT: Names = Names {
    layers: "transformer.layer",
    qkv: Parts::Many(&["attention.q_lin", "attention.k_lin", "attention.v_lin"]),
    output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    up: Parts::Many(&["ffn.lin1"]),
    down: "ffn.lin2",
    mlp_norm: "output_layer_norm",
    ..BERT
};

const JINA: Names = Names { up: Parts::One("mlp.gated_layers"), down: "mlp.wo", mlp_norm: "mlp.layernorm", ..BERT };

const JINA_CODE: Names = Names {
    attention_norm: "layer_norm_1",
    up: Parts::Exchanged("mlp.up_gated_layer"),
    down: "mlp.down_layer",
    mlp_norm: "layer_norm_2",
    ..BERT
};

/// The authors' names.
const NOMIC: Names = Names {
    embedding_norm: Some("emb_ln"),
    layers: "encoder.layers",
    qkv: Parts::One("attn.Wqkv"),
    output: "attn.out_proj",
    attention_norm: "norm1",
    up: Parts::Many(&["mlp.fc12", "mlp.fc11"]),
    down: "mlp.fc2",
    mlp_norm: "norm2",
    ..BERT
};

/// The names of transformers.
const NOMIC_NATIVE: Names = Names {
    layers: "layers",
    qkv: Parts::Many(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    output: "self_attn.o_proj",
    attention_norm: "post_attention_layernorm",
    up: Parts::Many(&["mlp.gate_proj", "mlp.up_proj"]),
    down: "mlp.down_proj",
    mlp_norm: "post_mlp_layernorm",
    ..BERT
};

const MODERNBERT: Names = Names {
    words: "embeddings.tok_embeddings",
    embedding_norm: Some("embeddings.norm"),
    layers: "layers",
    qkv: Parts::One("attn.Wqkv"),
    output: "attn.Wo",
    attention_norm: "attn_norm",
    up: Parts::One("mlp.Wi"),
    down: "mlp.Wo",
    mlp_norm: "mlp_norm",
    final_norm: "final_norm",
    ..BERT
};

const DECODER: Names = Names {
    words: "embed_tokens",
    embedding_norm: None,
    layers: "layers",
    qkv: Parts::Many(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    query_norm: "self_attn.q_norm",
    key_norm: "self_attn.k_norm",
    output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    up: Parts::Many(&["mlp.gate_proj", "mlp.up_proj"]),
    down: "mlp.down_proj",
    mlp_norm: "post_attention_layernorm",
    final_norm: "norm",
    ..BERT
};

impl Family {
    /// Reads config.json.
    pub(super) fn new(fields: Fields<'_>) -> Result<Self, LoadError> {
        let kind = fields.text(&["model_type"], "")?;
        fields.refuse_values(&["quantization_config", "pruned_heads"])?;
        let architectures = fields.texts(&["architectures"])?.unwrap_or_default();
        let is_jina = architectures.iter().any(|name| name.starts_with("JinaBert"));
        match kind {
            "bert" | "jina_bert" if is_jina || kind == "jina_bert" => jina(fields),
            "bert" => bert(fields, 0),
            "roberta" | "xlm-roberta" | "camembert" => {
                bert(fields, fields.count_or_none(&["pad_token_id"])?.unwrap_or(1) + 1)
            }
            "mpnet" => mpnet(fields),
            "distilbert" => distilbert(fields),
            "nomic_bert" => nomic(fields),
            "modernbert" => modernbert(fields),
            "qwen2" | "qwen3" | "llama" | "mistral" => decoder(fields, kind),
            _ => {
                let got = if kind.is_empty() { architectures.join(", ") } else { kind.to_owned() };
                Err(LoadError::UnknownArchitecture { got, known: KNOWN.to_vec() })
            }
        }
    }
}

pub(super) fn activation(name: &str) -> Result<Activation, LoadError> {
    match name {
        "gelu" | "gelu_python" | "geglu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        "silu" | "swish" | "swiglu" => Ok(Activation::Silu),
        "relu" | "reglu" => Ok(Activation::Relu),
        other => Err(LoadError::Unsupported(format!("activation \"{other}\""))),
    }
}

/// Rejects an unsupported variant.
fn refuse(is_there: bool, what: &str) -> Result<(), LoadError> {
    if is_there { Err(LoadError::Unsupported(what.to_owned())) } else { Ok(()) }
}

#[expect(clippy::cast_possible_truncation, reason = "a small constant that was written with few digits")]
fn epsilon(fields: Fields<'_>, names: &[&str], otherwise: f64) -> Result<f32, LoadError> {
    Ok(fields.number(names, otherwise)? as f32)
}

fn head_dim(hidden: usize, heads: usize) -> Result<usize, LoadError> {
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(LoadError::format(CONFIG, format!("hidden_size {hidden} is not a multiple of {heads} heads")));
    }
    Ok(hidden / heads)
}

/// BERT and RoBERTa's family, whose positions start after the padding's.
fn bert(fields: Fields<'_>, position_offset: usize) -> Result<Family, LoadError> {
    let kind = fields.text(&["position_embedding_type"], "absolute")?;
    refuse(kind != "absolute", &format!("position_embedding_type \"{kind}\""))?;
    refuse(fields.flag(&["is_decoder"], false)?, "is_decoder")?;
    refuse(fields.count_or_none(&["embedding_size"])?.is_some(), "embedding_size")?;
    let hidden = fields.count(&["hidden_size"])?;
    let heads = fields.count(&["num_attention_heads"])?;
    let rows = fields.count(&["max_position_embeddings"])?;
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers: fields.count(&["num_hidden_layers"])?,
        heads,
        kv_heads: heads,
        head_dim: head_dim(hidden, heads)?,
        intermediate: fields.count(&["intermediate_size"])?,
        max_tokens: rows.saturating_sub(position_offset),
        position_offset,
        token_types: fields.count_or_none(&["type_vocab_size"])?.unwrap_or(2),
        norm: NormKind::Layer,
        epsilon: epsilon(fields, &["layer_norm_eps"], 1e-12)?,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::Absolute,
        activation: activation(fields.text(&["hidden_act"], "gelu")?)?,
        gated: false,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    Ok(Family { config, names: vec![BERT], biases: ALL_BIASES, first_is_bare: false })
}

fn mpnet(fields: Fields<'_>) -> Result<Family, LoadError> {
    // The padding token is 1, whatever pad_token_id says.
    let family = bert(fields, 2)?;
    let buckets = fields.count_or_none(&["relative_attention_num_buckets"])?.unwrap_or(32);
    // The code of transformers numbers 32 buckets, however many there are.
    refuse(buckets != 32, &format!("relative_attention_num_buckets {buckets}"))?;
    let positions = Positions::RelativeBias { buckets, max_distance: 128 };
    let config = EncoderConfig { positions, token_types: 0, ..family.config };
    Ok(Family { config, names: vec![MPNET], ..family })
}

fn distilbert(fields: Fields<'_>) -> Result<Family, LoadError> {
    let hidden = fields.count(&["dim"])?;
    let heads = fields.count(&["n_heads"])?;
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers: fields.count(&["n_layers"])?,
        heads,
        kv_heads: heads,
        head_dim: head_dim(hidden, heads)?,
        intermediate: fields.count(&["hidden_dim"])?,
        max_tokens: fields.count(&["max_position_embeddings"])?,
        position_offset: 0,
        token_types: 0,
        norm: NormKind::Layer,
        epsilon: 1e-12,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::Absolute,
        activation: activation(fields.text(&["activation"], "gelu")?)?,
        gated: false,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    Ok(Family { config, names: vec![DISTILBERT], biases: ALL_BIASES, first_is_bare: false })
}

fn jina(fields: Fields<'_>) -> Result<Family, LoadError> {
    let positions = fields.text(&["position_embedding_type"], "alibi")?;
    refuse(positions != "alibi", &format!("position_embedding_type \"{positions}\""))?;
    let hidden = fields.count(&["hidden_size"])?;
    let heads = fields.count(&["num_attention_heads"])?;
    let forward = fields.text(&["feed_forward_type"], "original")?;
    let gated = forward != "original";
    let function = if gated { forward } else { fields.text(&["hidden_act"], "gelu")? };
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers: fields.count(&["num_hidden_layers"])?,
        heads,
        kv_heads: heads,
        head_dim: head_dim(hidden, heads)?,
        intermediate: fields.count(&["intermediate_size"])?,
        max_tokens: fields.count(&["max_position_embeddings"])?,
        position_offset: 0,
        token_types: fields.count_or_none(&["type_vocab_size"])?.unwrap_or(2),
        norm: NormKind::Layer,
        epsilon: epsilon(fields, &["layer_norm_eps"], 1e-12)?,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::Alibi,
        activation: activation(function)?,
        gated,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    let names = if gated { vec![JINA_CODE, JINA] } else { vec![BERT] };
    let biases = Biases { up: !gated, ..ALL_BIASES };
    Ok(Family { config, names, biases, first_is_bare: false })
}

fn nomic(fields: Fields<'_>) -> Result<Family, LoadError> {
    for what in ["prenorm", "parallel_block", "use_rms_norm", "rotary_emb_interleaved", "multi_query"] {
        refuse(fields.flag(&[what], false)?, what)?;
    }
    refuse(fields.number(&["rotary_emb_fraction"], 1.0)?.to_bits() != 1_f64.to_bits(), "rotary_emb_fraction below 1")?;
    refuse(fields.number(&["rotary_scaling_factor"], 0.0)? > 0.0, "rotary_scaling_factor")?;
    refuse(fields.count_or_none(&["num_experts"])?.unwrap_or(0) > 0, "a mixture of experts")?;
    fields.refuse_values(&["rotary_emb_scale_base"])?;
    let hidden = fields.count(&["n_embd", "hidden_size"])?;
    let heads = fields.count(&["n_head", "num_attention_heads"])?;
    let dim = fields.count_or_none(&["head_dim"])?.map_or_else(|| head_dim(hidden, heads), Ok)?;
    let theta = rope_theta(fields, fields.number(&["rotary_emb_base"], 1000.0)?)?;
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers: fields.count(&["n_layer", "num_hidden_layers"])?,
        heads,
        kv_heads: heads,
        head_dim: dim,
        intermediate: fields.count(&["n_inner", "intermediate_size"])?,
        max_tokens: fields.count(&["n_positions", "max_position_embeddings"])?,
        position_offset: 0,
        token_types: fields.count_or_none(&["type_vocab_size"])?.unwrap_or(2),
        norm: NormKind::Layer,
        epsilon: epsilon(fields, &["layer_norm_epsilon", "layer_norm_eps"], 1e-12)?,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::Rotary { theta, local_theta: theta, dims: dim },
        activation: activation(fields.text(&["activation_function", "hidden_act"], "silu")?)?,
        gated: true,
        causal: fields.flag(&["causal"], false)?,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    // The authors' code has biases by default, that of transformers has none.
    let by_default = fields.has("n_embd");
    let up = fields.flag(&["mlp_fc1_bias"], by_default)?;
    let qkv = fields.flag(&["qkv_proj_bias"], by_default)?;
    let biases = Biases { qkv, output: qkv, up, down: fields.flag(&["mlp_fc2_bias"], by_default)?, norms: true };
    Ok(Family { config, names: vec![NOMIC, NOMIC_NATIVE], biases, first_is_bare: false })
}

fn modernbert(fields: Fields<'_>) -> Result<Family, LoadError> {
    let hidden = fields.count(&["hidden_size"])?;
    let heads = fields.count(&["num_attention_heads"])?;
    let layers = fields.count(&["num_hidden_layers"])?;
    let dim = head_dim(hidden, heads)?;
    let every = fields.count_or_none(&["global_attn_every_n_layers"])?.unwrap_or(3).max(1);
    let near = sliding_layers(fields, layers, |layer| !layer.is_multiple_of(every))?;
    refuse_scaling(fields)?;
    let ropes = fields.object(&["rope_parameters"])?;
    let theta = |name: &str, otherwise: f64| match ropes.map(|ropes| ropes.object(&[name])).transpose()?.flatten() {
        Some(rope) => theta_of(rope, otherwise),
        None => Ok(otherwise),
    };
    let global = fields.number(&["global_rope_theta"], 160_000.0)?;
    let without_local = if fields.has("local_rope_theta") { global } else { 10_000.0 };
    let local_theta = theta("sliding_attention", fields.number(&["local_rope_theta"], without_local)?)?;
    let theta = theta("full_attention", global)?;
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers,
        heads,
        kv_heads: heads,
        head_dim: dim,
        intermediate: fields.count(&["intermediate_size"])?,
        max_tokens: fields.count(&["max_position_embeddings"])?,
        position_offset: 0,
        token_types: 0,
        norm: NormKind::Layer,
        epsilon: epsilon(fields, &["norm_eps"], 1e-5)?,
        norm_placement: NormPlacement::PreNorm,
        positions: Positions::Rotary { theta, local_theta, dims: dim },
        activation: activation(fields.text(&["hidden_activation"], "gelu")?)?,
        gated: true,
        causal: false,
        window: Some(SlidingWindow {
            distance: fields.count_or_none(&["local_attention"])?.unwrap_or(128) / 2,
            layers: near,
        }),
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    let attention = fields.flag(&["attention_bias"], false)?;
    let mlp = fields.flag(&["mlp_bias"], false)?;
    let norms = fields.flag(&["norm_bias"], false)?;
    let biases = Biases { qkv: attention, output: attention, up: mlp, down: mlp, norms };
    Ok(Family { config, names: vec![MODERNBERT], biases, first_is_bare: true })
}

/// Settings that the code of a decoder's class fixes, whatever config.json says.
struct DecoderClass {
    /// The width of a head without `head_dim`; `None`: all heads together are as wide as hidden states.
    head_dim: Option<usize>,
    /// Key and value heads without `num_key_value_heads`; `None`: as many as query heads.
    kv_heads: Option<usize>,
    qk_norm: Option<QkNorm>,
    /// Biases of queries, keys and values, and of their output.
    attention_biases: (bool, bool),
    mlp_biases: bool,
}

impl DecoderClass {
    fn of(fields: Fields<'_>, kind: &str) -> Result<Self, LoadError> {
        let plain =
            Self { head_dim: None, kv_heads: None, qk_norm: None, attention_biases: (false, false), mlp_biases: false };
        let bias = || fields.flag(&["attention_bias"], false).map(|has_bias| (has_bias, has_bias));
        Ok(match kind {
            "qwen2" => Self { attention_biases: (true, false), ..plain },
            "qwen3" => {
                let qk_norm = Some(QkNorm::PerHead);
                Self { head_dim: Some(128), qk_norm, attention_biases: bias()?, ..plain }
            }
            "mistral" => Self { kv_heads: Some(8).filter(|_| !fields.has("num_key_value_heads")), ..plain },
            _ => Self { attention_biases: bias()?, mlp_biases: fields.flag(&["mlp_bias"], false)?, ..plain },
        })
    }
}

/// Decoders trained as embedding models: causal, pooled by the last token.
fn decoder(fields: Fields<'_>, kind: &str) -> Result<Family, LoadError> {
    let class = DecoderClass::of(fields, kind)?;
    let hidden = fields.count(&["hidden_size"])?;
    let heads = fields.count(&["num_attention_heads"])?;
    let layers = fields.count(&["num_hidden_layers"])?;
    let dim = fields.count_or_none(&["head_dim"])?.or(class.head_dim);
    let dim = dim.map_or_else(|| head_dim(hidden, heads), Ok)?;
    let theta = rope_theta(fields, fields.number(&["rope_theta"], 10_000.0)?)?;
    let config = EncoderConfig {
        vocabulary: fields.count(&["vocab_size"])?,
        hidden,
        layers,
        heads,
        kv_heads: fields.count_or_none(&["num_key_value_heads"])?.or(class.kv_heads).unwrap_or(heads),
        head_dim: dim,
        intermediate: fields.count(&["intermediate_size"])?,
        max_tokens: fields.count(&["max_position_embeddings"])?,
        position_offset: 0,
        token_types: 0,
        norm: NormKind::Rms,
        epsilon: epsilon(fields, &["rms_norm_eps"], 1e-6)?,
        norm_placement: NormPlacement::PreNorm,
        positions: Positions::Rotary { theta, local_theta: theta, dims: dim },
        activation: activation(fields.text(&["hidden_act"], "silu")?)?,
        gated: true,
        causal: fields.flag(&["is_causal"], true)?,
        window: sliding_window(fields, kind, layers)?,
        qk_norm: class.qk_norm,
        pooling: Pooling::Last,
        normalize: true,
    };
    let (qkv, output) = class.attention_biases;
    let biases = Biases { qkv, output, up: class.mlp_biases, down: class.mlp_biases, ..NO_BIASES };
    Ok(Family { config, names: vec![DECODER], biases, first_is_bare: false })
}

/// In layers with a sliding window a token attends to itself and `sliding_window - 1` tokens before it. Llama has no such
/// layers, Mistral no others, and Qwen has them from one layer on, if at all.
fn sliding_window(fields: Fields<'_>, kind: &str, layers: usize) -> Result<Option<SlidingWindow>, LoadError> {
    let is_qwen = ["qwen2", "qwen3"].contains(&kind);
    let slides = kind == "mistral" || (is_qwen && fields.flag(&["use_sliding_window"], false)?);
    let size = match fields.count_or_none(&["sliding_window"])? {
        None if fields.has("sliding_window") => None,
        size => Some(size.unwrap_or(4096)),
    };
    let Some(size) = size.filter(|_| slides) else { return Ok(None) };
    let near = if is_qwen {
        let from = fields.count_or_none(&["max_window_layers"])?.unwrap_or(28);
        sliding_layers(fields, layers, |layer| layer >= from)?
    } else {
        (0..layers.min(1 << 12)).map(|_| true).collect()
    };
    Ok(Some(SlidingWindow { distance: size.saturating_sub(1), layers: near }))
}

/// Which layers have a sliding window, as listed or else by a rule.
fn sliding_layers(fields: Fields<'_>, layers: usize, by_rule: impl Fn(usize) -> bool) -> Result<Vec<bool>, LoadError> {
    let Some(kinds) = fields.texts(&["layer_types"])? else {
        return Ok((0..layers.min(1 << 12)).map(by_rule).collect());
    };
    if kinds.len() != layers {
        return Err(fields.wrong(format!("layer_types is expected to have {layers} entries, got {}", kinds.len())));
    }
    let is_near = |kind: &&str| match *kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(LoadError::Unsupported(format!("layer_types \"{other}\""))),
    };
    kinds.iter().map(is_near).collect()
}

/// Rejects rotary embeddings that are scaled, unless by nothing.
fn refuse_scaling(fields: Fields<'_>) -> Result<(), LoadError> {
    let Some(scaling) = fields.object(&["rope_scaling"])? else { return Ok(()) };
    let kind = scaling.text(&["rope_type", "type"], "")?;
    refuse(kind != "default", &format!("rope_scaling of type \"{kind}\""))
}

/// `rope_theta`, in one of its places.
fn rope_theta(fields: Fields<'_>, otherwise: f64) -> Result<f64, LoadError> {
    refuse_scaling(fields)?;
    refuse_part(fields)?;
    fields.object(&["rope_parameters"])?.map_or(Ok(otherwise), |rope| theta_of(rope, otherwise))
}

fn theta_of(rope: Fields<'_>, otherwise: f64) -> Result<f64, LoadError> {
    let kind = rope.text(&["rope_type", "type"], "default")?;
    refuse(kind != "default", &format!("rope_type \"{kind}\""))?;
    refuse_part(rope)?;
    rope.number(&["rope_theta"], otherwise)
}

fn refuse_part(fields: Fields<'_>) -> Result<(), LoadError> {
    let part = fields.number(&["partial_rotary_factor"], 1.0)?;
    refuse(part.to_bits() != 1_f64.to_bits(), &format!("partial_rotary_factor {part}"))
}
