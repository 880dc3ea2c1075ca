//! The weights of an encoder, by their places: host tensors as a file holds them, or what a backend makes of them.

use bytes::Bytes;
use half::{bf16, f16};

use super::config::{EncoderConfig, NormKind, Placement, Positions, QueryNorm, invalid};
use crate::OpError;

/// How a number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl Element {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Numbers on the host: row-major, little-endian, of any alignment.
#[derive(Clone, Debug)]
pub struct Tensor {
    element: Element,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Tensor {
    /// Fails where the bytes are not those of the shape.
    pub fn new(element: Element, shape: &[usize], bytes: Bytes) -> Result<Self, OpError> {
        let expected = shape.iter().try_fold(element.bytes(), |product, &length| product.checked_mul(length));
        if expected != Some(bytes.len()) {
            return invalid(format!("a {element:?} tensor of shape {shape:?} has {} bytes", bytes.len()));
        }
        Ok(Self { element, shape: shape.to_vec(), bytes })
    }

    /// A tensor of f32.
    pub fn from_f32(shape: &[usize], numbers: &[f32]) -> Result<Self, OpError> {
        Self::new(Element::F32, shape, Bytes::copy_from_slice(bytemuck::cast_slice(numbers)))
    }

    /// How its numbers are stored.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Lengths of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many numbers.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.bytes()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its numbers as f32, which holds all of them exactly.
    pub fn to_f32(&self) -> Vec<f32> {
        let halves = || self.bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match self.element {
            Element::F32 => bytemuck::pod_collect_to_vec(&self.bytes),
            Element::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            Element::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        }
    }

    /// The same rows, the second half of them first.
    pub fn exchange_halves(&self) -> Result<Self, OpError> {
        let rows = self.shape.first().copied().unwrap_or(0);
        if rows % 2 == 1 {
            return invalid(format!("a tensor of shape {:?} has no halves", self.shape));
        }
        let (first, second) = self.bytes.split_at(self.bytes.len() / 2);
        Self::new(self.element, &self.shape, [second, first].concat().into())
    }

    /// Tensors with equal rows, one below the other. All are stored alike, or the result is f32.
    pub fn stack(parts: &[&Self]) -> Result<Self, OpError> {
        let Some(first) = parts.first() else { return invalid("no tensors to stack".to_owned()) };
        let row = first.shape.get(1..).unwrap_or_default();
        if parts.iter().any(|part| part.shape.is_empty() || part.shape[1..] != *row) {
            let shapes: Vec<_> = parts.iter().map(|part| &part.shape).collect();
            return invalid(format!("tensors of shapes {shapes:?} cannot be stacked"));
        }
        let rows = parts.iter().map(|part| part.shape[0]).sum();
        let shape: Vec<_> = std::iter::once(rows).chain(row.iter().copied()).collect();
        if parts.iter().all(|part| part.element == first.element) {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
            return Self::new(first.element, &shape, bytes.into());
        }
        Self::from_f32(&shape, &parts.iter().flat_map(|part| part.to_f32()).collect::<Vec<_>>())
    }
}

/// What a weight is for, which says how a backend should keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `[outputs, inputs]` of a linear layer.
    Matrix,
    /// Such a matrix whose first half of outputs gates the second.
    Gated,
    /// `[outputs]`, added to a product.
    Bias,
    /// A table whose rows are gathered.
    Table,
    /// Few numbers that are worth full precision: weights of norms, rotations, biases of scores.
    Exact,
}

/// `y = x * weight^T + bias`.
#[derive(Clone, Debug)]
pub struct Linear<W> {
    /// `[outputs, inputs]`.
    pub weight: W,
    /// `[outputs]`.
    pub bias: Option<W>,
    /// Numbers in a row of x.
    pub inputs: usize,
    /// Numbers in a row of y.
    pub outputs: usize,
}

/// A norm over the last dimension, of the weight's length.
#[derive(Clone, Debug)]
pub struct Norm<W> {
    /// Which.
    pub kind: NormKind,
    /// What is added to the variance.
    pub epsilon: f32,
    /// The factors.
    pub weight: W,
    /// What is added; only layer norms have it.
    pub bias: Option<W>,
}

/// What makes the first state of a token.
#[derive(Clone, Debug)]
pub struct Embeddings<W> {
    /// `[vocabulary, hidden]`.
    pub words: W,
    /// `[position_rows, hidden]`.
    pub positions: Option<W>,
    /// `[token_types, hidden]`.
    pub types: Option<W>,
    /// Normalises their sum.
    pub norm: Option<Norm<W>>,
}

/// One layer.
#[derive(Clone, Debug)]
pub struct Layer<W> {
    /// After attention, or before it: there the first layer may have none.
    pub attention_norm: Option<Norm<W>>,
    /// `[qkv_width, hidden]`: queries, keys, values, one below the other.
    pub qkv: Linear<W>,
    /// Of queries.
    pub query_norm: Option<Norm<W>>,
    /// Of keys.
    pub key_norm: Option<Norm<W>>,
    /// `[hidden, attended_width]`.
    pub output: Linear<W>,
    /// After the MLP, or before it.
    pub mlp_norm: Norm<W>,
    /// `[up_width, hidden]`; where it is gated, what passes the activation comes first.
    pub up: Linear<W>,
    /// `[hidden, intermediate]`.
    pub down: Linear<W>,
}

/// All weights, as tensors or as a backend keeps them.
#[derive(Clone, Debug)]
pub struct Weights<W> {
    /// What makes the first states.
    pub embeddings: Embeddings<W>,
    /// f32 `[max_tokens, dims]`, of [`super::tables::rotary`].
    pub rotary: Option<W>,
    /// The same for layers that read only near tokens; `None` where the bases are equal.
    pub local_rotary: Option<W>,
    /// f32 `[heads, 2 * max_tokens - 1]`, of [`super::tables::relative_bias`].
    pub relative_bias: Option<W>,
    /// f32 `[heads]`, of [`super::tables::slopes`].
    pub slopes: Option<W>,
    /// The layers.
    pub layers: Vec<Layer<W>>,
    /// Normalises the last states, where norms come before.
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
    /// Makes a backend's weights, in the order in which a forward pass meets them.
    pub fn map<V, E>(&self, load: &mut impl FnMut(&W, Role) -> Result<V, E>) -> Result<Weights<V>, E> {
        let Embeddings { words, positions, types, norm } = &self.embeddings;
        let embeddings = Embeddings {
            words: load(words, Role::Table)?,
            positions: positions.as_ref().map(|table| load(table, Role::Table)).transpose()?,
            types: types.as_ref().map(|table| load(table, Role::Table)).transpose()?,
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
    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        let mut bytes = 0;
        let counted = self.map::<(), ()>(&mut |tensor, _| {
            bytes += tensor.bytes().len() as u64;
            Ok(())
        });
        counted.map_or(0, |_| bytes)
    }

    /// Says which tensor is missing, too many or of another shape. Both backends index memory on the strength of this.
    pub fn check(&self, config: &EncoderConfig) -> Result<(), OpError> {
        self.check_tables(config)?;
        if self.layers.len() != config.layers {
            return invalid(format!("expected {} layers, got {}", config.layers, self.layers.len()));
        }
        for (at, layer) in self.layers.iter().enumerate() {
            layer.check(config, at)?;
        }
        let before = config.placement == Placement::Before;
        if before != self.final_norm.is_some() {
            return invalid("a final norm belongs to norms before the layers, and only to them".to_owned());
        }
        check_norm("final_norm", self.final_norm.as_ref(), config.hidden)
    }

    fn check_tables(&self, config: &EncoderConfig) -> Result<(), OpError> {
        let Embeddings { words, positions, types, norm } = &self.embeddings;
        let rows = |rows: usize| (rows > 0).then_some([rows, config.hidden]);
        expect("words", Some(words), rows(config.vocabulary))?;
        expect("positions", positions.as_ref(), rows(config.position_rows()))?;
        expect("types", types.as_ref(), rows(config.token_types))?;
        check_norm("embeddings.norm", norm.as_ref(), config.hidden)?;
        let (mut rotary, mut local, mut bias, mut slopes) = (None, None, None, None);
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
    fn check(&self, config: &EncoderConfig, at: usize) -> Result<(), OpError> {
        let name = |part: &str| format!("layers[{at}].{part}");
        let products = [
            ("qkv", &self.qkv, config.qkv_width(), config.hidden),
            ("output", &self.output, config.hidden, config.attended_width()),
            ("up", &self.up, config.up_width(), config.hidden),
            ("down", &self.down, config.hidden, config.intermediate),
        ];
        for (part, linear, outputs, inputs) in products {
            expect(&name(part), Some(&linear.weight), Some([outputs, inputs]))?;
            expect(&name(part), linear.bias.as_ref(), linear.bias.is_some().then_some([outputs]))?;
            if (linear.outputs, linear.inputs) != (outputs, inputs) {
                return invalid(format!("{} is said to be [{}, {}]", name(part), linear.outputs, linear.inputs));
            }
        }
        let first = at == 0 && config.placement == Placement::Before;
        if self.attention_norm.is_none() && !first {
            return invalid(format!("{} is missing", name("attention_norm")));
        }
        check_norm(&name("attention_norm"), self.attention_norm.as_ref(), config.hidden)?;
        check_norm(&name("mlp_norm"), Some(&self.mlp_norm), config.hidden)?;
        let (of_queries, of_keys) = match config.query_norm {
            None => (0, 0),
            Some(QueryNorm::Head) => (config.head_dim, config.head_dim),
            Some(QueryNorm::All) => (config.attended_width(), config.kv_heads * config.head_dim),
        };
        let both = self.query_norm.is_some() && self.key_norm.is_some();
        if both != config.query_norm.is_some() || self.query_norm.is_some() != self.key_norm.is_some() {
            return invalid(format!("{} does not fit the configuration", name("query_norm")));
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
        (Some(tensor), Some(shape)) => invalid(format!("{name} is {shape:?}, got {:?}", tensor.shape())),
        (Some(_), None) => invalid(format!("{name} is not part of this configuration")),
        (None, Some(_)) => invalid(format!("{name} is missing")),
        (None, None) => Ok(()),
    }
}
