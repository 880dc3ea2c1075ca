//! The forward pass, once for all backends and architectures.

use super::{
    config::{EncoderConfig, Placement, Positions},
    primitives::{Attention, Batch, Primitives, Then},
    weights::{Layer, Weights},
};
use crate::OpError;

/// An encoder to be run by a backend: its description, and its weights as the backend keeps them.
#[derive(Debug)]
pub struct Model<'a, W> {
    /// Checked, and the weights against it.
    pub config: &'a EncoderConfig,
    /// The weights.
    pub weights: &'a Weights<W>,
}

/// The last states of a batch's tokens, `[T, hidden]`.
pub fn forward<P: Primitives>(on: &mut P, model: &Model<'_, P::Weight>, batch: &Batch) -> Result<P::Tensor, OpError> {
    let states = on.embed(batch, &model.weights.embeddings, model.config.position_offset)?;
    match model.config.placement {
        Placement::After => norms_after(on, model, batch, states),
        Placement::Before => norms_before(on, model, batch, states),
    }
}

fn norms_after<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    batch: &Batch,
    mut states: P::Tensor,
) -> Result<P::Tensor, OpError> {
    for (at, layer) in model.weights.layers.iter().enumerate() {
        let attended = model.heads(on, batch, at, layer, &states)?;
        states = match &layer.attention_norm {
            Some(norm) => on.linear_add_norm(&attended, &layer.output, states, norm)?,
            None => return missing_norm(at),
        };
        drop(attended);
        let wide = model.widen(on, layer, &states)?;
        states = on.linear_add_norm(&wide, &layer.down, states, &layer.mlp_norm)?;
    }
    Ok(states)
}

/// What a layer adds to the residual is added when the next norm reads it, so that both are one pass over memory.
fn norms_before<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    batch: &Batch,
    mut residual: P::Tensor,
) -> Result<P::Tensor, OpError> {
    let mut pending = None;
    for (at, layer) in model.weights.layers.iter().enumerate() {
        let attended = match (pending.take(), &layer.attention_norm) {
            (None, None) => model.attend(on, batch, at, layer, &residual)?,
            (None, Some(norm)) => {
                let input = on.norm(&residual, norm)?;
                model.attend(on, batch, at, layer, &input)?
            }
            (Some(delta), Some(norm)) => {
                let input = on.add_then_norm(&mut residual, delta, norm)?;
                model.attend(on, batch, at, layer, &input)?
            }
            (Some(_), None) => return missing_norm(at),
        };
        let input = on.add_then_norm(&mut residual, attended, &layer.mlp_norm)?;
        pending = Some(model.think(on, layer, &input)?);
    }
    match (pending, &model.weights.final_norm) {
        (Some(delta), Some(norm)) => on.add_then_norm(&mut residual, delta, norm),
        _ => missing_norm(model.config.layers),
    }
}

fn missing_norm<T>(layer: usize) -> Result<T, OpError> {
    Err(OpError::Invalid(format!("the norm of layer {layer} is missing")))
}

impl<W> Model<'_, W> {
    /// What the heads of a layer attend to.
    fn heads<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        batch: &Batch,
        at: usize,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let qkv = on.linear(input, &layer.qkv, Then::Nothing)?;
        on.attention(batch, qkv, &self.attention(at, layer))
    }

    /// What attention adds to the residual.
    fn attend<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        batch: &Batch,
        at: usize,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let attended = self.heads(on, batch, at, layer, input)?;
        on.linear(&attended, &layer.output, Then::Nothing)
    }

    /// The wide states inside the MLP.
    fn widen<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let activation = self.config.activation;
        let then = if self.config.gated { Then::Gate(activation) } else { Then::Activate(activation) };
        on.linear(input, &layer.up, then)
    }

    /// What the MLP adds to the residual.
    fn think<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let wide = self.widen(on, layer, input)?;
        on.linear(&wide, &layer.down, Then::Nothing)
    }

    /// How layer `at` attends.
    fn attention<'a>(&'a self, at: usize, layer: &'a Layer<W>) -> Attention<'a, W> {
        let config = self.config;
        let window = config.window(at);
        let rotations = match window {
            Some(_) => self.weights.local_rotary.as_ref().or(self.weights.rotary.as_ref()),
            None => self.weights.rotary.as_ref(),
        };
        let dims = match config.positions {
            Positions::Rotary { dims, .. } => dims,
            Positions::None | Positions::Absolute | Positions::Alibi | Positions::RelativeBias { .. } => 0,
        };
        let norms = layer.query_norm.as_ref().zip(layer.key_norm.as_ref());
        Attention {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: config.scale(),
            causal: config.causal,
            window,
            query_norm: config.query_norm.zip(norms).map(|(over, (queries, keys))| (over, queries, keys)),
            rotary: rotations.map(|table| (table, dims)),
            relative_bias: self.weights.relative_bias.as_ref(),
            slopes: self.weights.slopes.as_ref(),
            max_tokens: config.max_tokens,
        }
    }
}
