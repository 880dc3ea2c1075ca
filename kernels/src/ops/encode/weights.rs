//! The weights of an encoder, by their places: host tensors as a file holds them, or the form in which a backend holds them.

use bytes::Bytes;
use half::{bf16, f16};

use super::config::{EncoderConfig, NormKind, NormPlacement, Positions, QkNorm, invalid};
use crate::OpError;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl DType {
    /// The size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// A host tensor: row-major, little-endian, of any alignment.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Tensor {
    /// Fails if the number of bytes does not match the shape.
    pub fn new(dtype: DType, shape: &[usize], bytes: Bytes) -> Result<Self, OpError> {
        let expected = shape.iter().try_fold(dtype.bytes(), |product, &length| product.checked_mul(length));
        if expected != Some(bytes.len()) {
            return invalid(format!("a {dtype:?} tensor of shape {shape:?} has {} bytes", bytes.len()));
        }
        Ok(Self { dtype, shape: shape.to_vec(), bytes })
    }

    /// A tensor of f32.
    pub fn from_f32(shape: &[usize], numbers: &[f32]) -> Result<Self, OpError> {
        Self::new(DType::F32, shape, Bytes::copy_from_slice(bytemuck::cast_slice(numbers)))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.bytes()
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The data.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Converts to f32, which is exact.
    pub fn to_f32(&self) -> Vec<f32> {
        let halves = || self.bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match self.dtype {
            DType::F32 => bytemuck::pod_collect_to_vec(&self.bytes),
            DType::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            DType::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        }
    }

    /// Exchanges the first and second half of the rows.
    pub fn swap_halves(&self) -> Result<Self, OpError> {
        let rows = self.shape.first().copied().unwrap_or(0);
        if rows % 2 == 1 {
            return invalid(format!("a tensor of shape {:?} has an odd number of rows", self.shape));
        }
        let (first, second) = self.bytes.split_at(self.bytes.len() / 2);
        Self::new(self.dtype, &self.shape, [second, first].concat().into())
    }

    /// Concatenates along the first dimension. The result is f32 if the element types differ.
    pub fn stack(parts: &[&Self]) -> Result<Self, OpError> {
        let Some(first) = parts.first() else { return invalid("no tensors to concatenate".to_owned()) };
        let row = first.shape.get(1..).unwrap_or_default();
        if parts.iter().any(|part| part.shape.is_empty() || part.shape[1..] != *row) {
            let shapes: Vec<_> = parts.iter().map(|part| &part.shape).collect();
            return invalid(format!("tensors of shapes {shapes:?} cannot be concatenated"));
        }
        let rows = parts.iter().map(|part| part.shape[0]).sum();
        let shape: Vec<_> = std::iter::once(rows).chain(row.iter().copied()).collect();
        if parts.iter().all(|part| part.dtype == first.dtype) {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
            return Self::new(first.dtype, &shape, bytes.into());
        }
        Self::from_f32(&shape, &parts.iter().flat_map(|part| part.to_f32()).collect::<Vec<_>>())
    }
}

/// The role of a weight, by which a backend chooses its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `[outputs, inputs]` of a linear layer.
    Matrix,
    /// Such a matrix with the gate in the first half of outputs and the up projection in the second.
    Gated,
    /// `[outputs]`, added to a product.
    Bias,
    /// An embedding table.
    Table,
    /// Kept in f32: weights of norms, rotations, biases of scores.
    Exact,
}

/// `y = x * weight^T + bias`.
#[derive(Clone, Debug)]
pub struct Linear<W> {
    /// `[outputs, inputs]`.
    pub weight: W,
    /// `[outputs]`.
    pub bias: Option<W>,
    /// The width of x.
    pub inputs: usize,
    /// The width of y.
    pub outputs: usize,
}

/// A norm over the last dimension.
#[derive(Clone, Debug)]
pub struct Norm<W> {
    /// The kind.
    pub kind: NormKind,
    /// Added to the variance.
    pub epsilon: f32,
    /// The scale, `[width]`.
    pub weight: W,
    /// The shift of a layer norm, `[width]`.
    pub bias: Option<W>,
}

/// The embedding layer.
#[derive(Clone, Debug)]
pub struct Embeddings<W> {
    /// `[vocabulary, hidden]`.
    pub word_embeddings: W,
    /// `[position_rows, hidden]`.
    pub position_embeddings: Option<W>,
    /// `[token_types, hidden]`.
    pub token_type_embeddings: Option<W>,
    /// The norm of their sum.
    pub norm: Option<Norm<W>>,
}

/// A transformer layer.
#[derive(Clone, Debug)]
pub struct Layer<W> {
    /// The norm of the attention sublayer. In a pre-norm encoder the first layer may have none.
    pub attention_norm: Option<Norm<W>>,
    /// `[qkv_width, hidden]`: the projections of queries, keys and values.
    pub qkv: Linear<W>,
    /// The norm of queries.
    pub query_norm: Option<Norm<W>>,
    /// The norm of keys.
    pub key_norm: Option<Norm<W>>,
    /// `[hidden, attention_width]`: the output projection.
    pub output: Linear<W>,
    /// The norm of the MLP.
    pub mlp_norm: Norm<W>,
    /// `[mlp_up_width, hidden]`: the gate, if there is one, then the up projection.
    pub up: Linear<W>,
    /// `[hidden, intermediate]`.
    pub down: Linear<W>,
}

/// All weights, as host tensors or in a backend's layout.
#[derive(Clone, Debug)]
pub struct Weights<W> {
    /// The embedding layer.
    pub embeddings: Embeddings<W>,
    /// f32 `[max_tokens, dims]`, of [`super::tables::rotary`].
    pub rotary: Option<W>,
    /// The same for sliding window layers; `None` if the bases are equal.
    pub local_rotary: Option<W>,
    /// f32 `[heads, 2 * max_tokens - 1]`, of [`super::tables::relative_bias`].
    pub relative_bias: Option<W>,
    /// f32 `[heads]`, of [`super::tables::slopes`].
    pub slopes: Option<W>,
    /// The transformer layers.
    pub layers: Vec<Layer<W>>,
    /// The final norm of a pre-norm encoder.
    pub final_norm: Option<Norm<W>>,
}

impl<W> Linear<W> {
    pub(super) fn map<V, E>(
        &self,
        role: Role,
        load: &mut impl FnMut(&W, Role) -> Result<V, E>,
    ) -> Result<Linear<V>, E> {
        Ok(Linear {
            weight: load(&self.weight, role)?,
            bias: self.bias.as_ref().map(|bias| load(bias, Role::Bias)).transpose()?,
            inputs: self.inputs,
            outputs: self.outputs,
        })
    }
}

impl<W> Norm<W> {
    fn map<V, E>(&self, load: &mut impl FnMut(&W, Role) -> Result<V, E>) -> Result<Norm<V>, E> {
        Ok(Norm {
            kind: self.kind,
            epsilon: self.epsilon,
            weight: load(&self.weight, Role::Exact)?,
            bias: self.bias.as_ref().map(|bias| load(bias, Role::Exact)).transpose()?,
        })
    }

    pub(super) fn map_option<V, E>(
        norm: Option<&Self>,
        load: &mut impl FnMut(&W, Role) -> Result<V, E>,
    ) -> Result<Option<Norm<V>>, E> {
        norm.map(|norm| norm.map(load)).transpose()
    }
}

impl<W> Weights<W> {
    /// Converts to a backend's layout, in the order of the forward pass.
    pub fn map<V, E>(&self, load: &mut impl FnMut(&W, Role) -> Result<V, E>) -> Result<Weights<V>, E> {
        let Embeddings { word_embeddings, position_embeddings, token_type_embeddings, norm } = &self.embeddings;
        let embeddings = Embeddings {
            word_embeddings: load(word_embeddings, Role::Table)?,
            position_embeddings: position_embeddings.as_ref().map(|table| load(table, Role::Table)).transpose()?,
            token_type_embeddings: token_type_embeddings.as_ref().map(|table| load(table, Role::Table)).transpose()?,
            norm: Norm::map_option(norm.as_ref(), load)?,
        };
        let mut exact = |numbers: &Option<W>| numbers.as_ref().map(|numbers| load(numbers, Role::Exact)).transpose();
        Ok(Weights {
            embeddings,
            rotary: exact(&self.rotary)?,
            local_rotary: exact(&self.local_rotary)?,
            relative_bias: exact(&self.relative_bias)?,
            slopes: exact(&self.slopes)?,
            layers: self.layers.iter().map(|layer| layer.map(load)).collect::<Result<_, _>>()?,
            final_norm: Norm::map_option(self.final_norm.as_ref(), load)?,
        })
    }
}

impl<W> Layer<W> {
    fn map<V, E>(&self, load: &mut impl FnMut(&W, Role) -> Result<V, E>) -> Result<Layer<V>, E> {
        let up = if self.up.outputs == 2 * self.down.inputs { Role::Gated } else { Role::Matrix };
        Ok(Layer {
            attention_norm: Norm::map_option(self.attention_norm.as_ref(), load)?,
            qkv: self.qkv.map(Role::Matrix, load)?,
            query_norm: Norm::map_option(self.query_norm.as_ref(), load)?,
            key_norm: Norm::map_option(self.key_norm.as_ref(), load)?,
            output: self.output.map(Role::Matrix, load)?,
            mlp_norm: self.mlp_norm.map(load)?,
            up: self.up.map(up, load)?,
            down: self.down.map(Role::Matrix, load)?,
        })
    }
}

impl Weights<Tensor> {
    /// The size of all tensors in bytes.
    pub fn bytes(&self) -> u64 {
        let mut bytes = 0;
        let counted = self.map::<(), ()>(&mut |tensor, _| {
            bytes += tensor.bytes().len() as u64;
            Ok(())
        });
        counted.map_or(0, |_| bytes)
    }

    /// Validates the presence and shape of every tensor, on which the backends rely to index memory.
    pub fn check(&self, config: &EncoderConfig) -> Result<(), OpError> {
        self.check_tables(config)?;
        if self.layers.len() != config.layers {
            return invalid(format!("expected {} layers, got {}", config.layers, self.layers.len()));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            layer.check(config, index)?;
        }
        let pre_norm = config.norm_placement == NormPlacement::PreNorm;
        if pre_norm != self.final_norm.is_some() {
            return invalid("a final norm is required in a pre-norm encoder, and only there".to_owned());
        }
        check_norm("final_norm", self.final_norm.as_ref(), config.hidden)
    }

    fn check_tables(&self, config: &EncoderConfig) -> Result<(), OpError> {
        let Embeddings { word_embeddings, position_embeddings, token_type_embeddings, norm } = &self.embeddings;
        let rows = |rows: usize| (rows > 0).then_some([rows, config.hidden]);
        expect("word_embeddings", Some(word_embeddings), rows(config.vocabulary))?;
        expect("position_embeddings", position_embeddings.as_ref(), rows(config.position_rows()))?;
        expect("token_type_embeddings", token_type_embeddings.as_ref(), rows(config.token_types))?;
        check_norm("embeddings.norm", norm.as_ref(), config.hidden)?;
        let mut rotary = None;
        let mut local = None;
        let mut bias = None;
        let mut slopes = None;
        match config.positions {
            Positions::Rotary { theta, local_theta, dims } => {
                rotary = Some([config.max_tokens, dims]);
                local =
                    (config.window.is_some() && theta.to_bits() != local_theta.to_bits()).then_some(rotary).flatten();
            }
            Positions::Alibi => slopes = Some([config.heads]),
            Positions::RelativeBias { .. } => bias = Some([config.heads, 2 * config.max_tokens - 1]),
            Positions::None | Positions::Absolute => {}
        }
        expect("rotary", self.rotary.as_ref(), rotary)?;
        expect("local_rotary", self.local_rotary.as_ref(), local)?;
        expect("relative_bias", self.relative_bias.as_ref(), bias)?;
        expect("slopes", self.slopes.as_ref(), slopes)
    }
}

impl Layer<Tensor> {
    fn check(&self, config: &EncoderConfig, index: usize) -> Result<(), OpError> {
        let name = |part: &str| format!("layers[{index}].{part}");
        let products = [
            ("qkv", &self.qkv, config.qkv_width(), config.hidden),
            ("output", &self.output, config.hidden, config.attention_width()),
            ("up", &self.up, config.mlp_up_width(), config.hidden),
            ("down", &self.down, config.hidden, config.intermediate),
        ];
        for (part, linear, outputs, inputs) in products {
            expect(&name(part), Some(&linear.weight), Some([outputs, inputs]))?;
            expect(&name(part), linear.bias.as_ref(), linear.bias.is_some().then_some([outputs]))?;
            if (linear.outputs, linear.inputs) != (outputs, inputs) {
                return invalid(format!("{} declares [{}, {}]", name(part), linear.outputs, linear.inputs));
            }
        }
        let first = index == 0 && config.norm_placement == NormPlacement::PreNorm;
        if self.attention_norm.is_none() && !first {
            return invalid(format!("{} is missing", name("attention_norm")));
        }
        check_norm(&name("attention_norm"), self.attention_norm.as_ref(), config.hidden)?;
        check_norm(&name("mlp_norm"), Some(&self.mlp_norm), config.hidden)?;
        let (of_queries, of_keys) = match config.qk_norm {
            None => (0, 0),
            Some(QkNorm::PerHead) => (config.head_dim, config.head_dim),
            Some(QkNorm::AllHeads) => (config.attention_width(), config.kv_heads * config.head_dim),
        };
        let both = self.query_norm.is_some() && self.key_norm.is_some();
        if both != config.qk_norm.is_some() || self.query_norm.is_some() != self.key_norm.is_some() {
            return invalid(format!("{} does not match the configuration", name("query_norm")));
        }
        check_norm(&name("query_norm"), self.query_norm.as_ref(), of_queries)?;
        check_norm(&name("key_norm"), self.key_norm.as_ref(), of_keys)
    }
}

pub(super) fn check_norm(name: &str, norm: Option<&Norm<Tensor>>, width: usize) -> Result<(), OpError> {
    let Some(norm) = norm else { return Ok(()) };
    expect(name, Some(&norm.weight), Some([width]))?;
    expect(name, norm.bias.as_ref(), norm.bias.is_some().then_some([width]))
}

pub(super) fn expect<const N: usize>(
    name: &str,
    tensor: Option<&Tensor>,
    shape: Option<[usize; N]>,
) -> Result<(), OpError> {
    match (tensor, shape) {
        (Some(tensor), Some(shape)) if tensor.shape() == shape => Ok(()),
        (Some(tensor), Some(shape)) => invalid(format!("{name} must be {shape:?}, got {:?}", tensor.shape())),
        (Some(_), None) => invalid(format!("{name} is not part of this configuration")),
        (None, Some(_)) => invalid(format!("{name} is missing")),
        (None, None) => Ok(()),
    }
}
