//! Assembles an encoder's weights from tensors.

use accelerd_kernels::ops::encode::{
    Embeddings, EncoderConfig, Layer, Linear, Norm, NormPlacement, Positions, QkNorm, Tensor, Weights, tables,
};

use super::{
    error::LoadError,
    families::{Biases, Family, Names, Parts},
    files::Checkpoint,
};

/// Reads the weights of a family, and completes its configuration by what only the tensors show.
pub(super) fn read(family: &mut Family, checkpoint: &mut Checkpoint) -> Result<Weights<Tensor>, LoadError> {
    let named = |names: &&Names| {
        let first = match names.up {
            Parts::One(name) | Parts::Exchanged(name) => name,
            Parts::Many(parts) => parts[0],
        };
        checkpoint.holds(&format!("{}.0.{first}.weight", names.layers))
    };
    let names = *family.names.iter().find(named).unwrap_or(&family.names[0]);
    checkpoint.set_prefix(&format!("{}.weight", names.words))?;
    if checkpoint.has(&format!("{}.0.{}.weight", names.layers, names.query_norm)) && family.config.qk_norm.is_none() {
        family.config.qk_norm = Some(QkNorm::AllHeads);
    }
    family.config.check()?;
    Reader { config: &family.config, names, biases: family.biases, checkpoint }.weights(family.first_is_bare)
}

struct Reader<'a> {
    config: &'a EncoderConfig,
    names: Names,
    biases: Biases,
    checkpoint: &'a Checkpoint,
}

impl Reader<'_> {
    fn weights(&self, first_is_bare: bool) -> Result<Weights<Tensor>, LoadError> {
        let config = self.config;
        let layers = (0..config.layers).map(|index| self.layer(index, first_is_bare)).collect::<Result<_, _>>()?;
        let before = config.norm_placement == NormPlacement::PreNorm;
        let final_norm = before.then(|| self.norm(self.names.final_norm, config.hidden)).transpose()?;
        let embeddings = self.embeddings()?;
        let mut weights = Weights {
            embeddings,
            rotary: None,
            local_rotary: None,
            relative_bias: None,
            slopes: None,
            layers,
            final_norm,
        };
        let buckets = match config.positions {
            Positions::RelativeBias { buckets, .. } => {
                self.take(self.names.relative_bias, &[buckets, config.heads])?.to_f32()
            }
            Positions::None | Positions::Absolute | Positions::Rotary { .. } | Positions::Alibi => vec![],
        };
        tables::fill(config, &buckets, &mut weights)?;
        Ok(weights)
    }

    fn embeddings(&self) -> Result<Embeddings<Tensor>, LoadError> {
        let Names { words, positions, types, embedding_norm, .. } = self.names;
        let hidden = self.config.hidden;
        let table = |name: &str, rows: usize| (rows > 0).then(|| self.take(name, &[rows, hidden])).transpose();
        Ok(Embeddings {
            word_embeddings: self.take(words, &[self.config.vocabulary, hidden])?,
            position_embeddings: table(positions, self.config.position_rows())?,
            token_type_embeddings: table(types, self.config.token_types)?,
            norm: embedding_norm.map(|name| self.norm(name, hidden)).transpose()?,
        })
    }

    fn layer(&self, index: usize, first_is_bare: bool) -> Result<Layer<Tensor>, LoadError> {
        let config = self.config;
        let names = &self.names;
        let biases = &self.biases;
        let name = |part: &str| format!("{}.{index}.{part}", names.layers);
        let hidden = config.hidden;
        let keys = config.kv_heads * config.head_dim;
        let norm_widths = config.qk_norm.map(|over| match over {
            QkNorm::PerHead => (config.head_dim, config.head_dim),
            QkNorm::AllHeads => (config.attention_width(), keys),
        });
        let halves: &[usize] = if config.gated { &[config.intermediate; 2] } else { &[config.intermediate] };
        Ok(Layer {
            attention_norm: (index > 0 || !first_is_bare)
                .then(|| self.norm(&name(names.attention_norm), hidden))
                .transpose()?,
            qkv: self.joined(&name, names.qkv, &[config.attention_width(), keys, keys], hidden, biases.qkv)?,
            query_norm: norm_widths.map(|(width, _)| self.norm(&name(names.query_norm), width)).transpose()?,
            key_norm: norm_widths.map(|(_, width)| self.norm(&name(names.key_norm), width)).transpose()?,
            output: self.linear(&name(names.output), hidden, config.attention_width(), biases.output)?,
            mlp_norm: self.norm(&name(names.mlp_norm), hidden)?,
            up: self.joined(&name, names.up, halves, hidden, biases.up)?,
            down: self.linear(&name(names.down), hidden, config.intermediate, biases.down)?,
        })
    }

    fn take(&self, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        self.checkpoint.take(&format!("{name}.weight"), shape)
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize, has_bias: bool) -> Result<Linear<Tensor>, LoadError> {
        let weight = self.take(name, &[outputs, inputs])?;
        let bias = has_bias.then(|| self.checkpoint.take(&format!("{name}.bias"), &[outputs])).transpose()?;
        Ok(Linear { weight, bias, inputs, outputs })
    }

    /// A fused linear layer of parts with these numbers of outputs.
    fn joined(
        &self,
        name: &impl Fn(&str) -> String,
        parts: Parts,
        widths: &[usize],
        inputs: usize,
        has_bias: bool,
    ) -> Result<Linear<Tensor>, LoadError> {
        let outputs: usize = widths.iter().sum();
        match parts {
            Parts::One(part) => self.linear(&name(part), outputs, inputs, has_bias),
            Parts::Many(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .zip(widths)
                    .map(|(part, width)| self.linear(&name(part), *width, inputs, has_bias))
                    .collect::<Result<_, _>>()?;
                let weight = Tensor::stack(&parts.iter().map(|part| &part.weight).collect::<Vec<_>>())?;
                let biases: Vec<_> = parts.iter().filter_map(|part| part.bias.as_ref()).collect();
                let bias = has_bias.then(|| Tensor::stack(&biases)).transpose()?;
                Ok(Linear { weight, bias, inputs, outputs })
            }
            Parts::Exchanged(part) => {
                let linear = self.linear(&name(part), outputs, inputs, has_bias)?;
                let bias = linear.bias.as_ref().map(Tensor::swap_halves).transpose()?;
                Ok(Linear { weight: linear.weight.swap_halves()?, bias, inputs, outputs })
            }
        }
    }

    /// Old files name weight and bias `gamma` and `beta`.
    fn norm(&self, name: &str, width: usize) -> Result<Norm<Tensor>, LoadError> {
        let one = |new: &str, old: &str| {
            let old = format!("{name}.{old}");
            let name = if self.checkpoint.has(&old) { old } else { format!("{name}.{new}") };
            self.checkpoint.take(&name, &[width])
        };
        let weight = one("weight", "gamma")?;
        let bias = self.biases.norms.then(|| one("bias", "beta")).transpose()?;
        Ok(Norm { kind: self.config.norm, epsilon: self.config.epsilon, weight, bias })
    }
}
