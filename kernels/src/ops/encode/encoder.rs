//! The forward pass, once for all backends and architectures.

use super::{
    config::{EncoderConfig, NormPlacement, Positions},
    primitives::{Attention, Batch, Epilogue, Primitives},
    weights::{Layer, Weights},
};
use crate::OpError;

/// An encoder on a backend: its configuration, and its weights in the backend's layout.
#[derive(Debug)]
pub struct Model<'a, W> {
    /// Validated, and the weights against it.
    pub config: &'a EncoderConfig,
    /// The weights.
    pub weights: &'a Weights<W>,
}

/// The last hidden states of a batch, `[T, hidden]`.
pub async fn forward<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    batch: &Batch,
) -> Result<P::Tensor, OpError> {
    let hidden_states = on.embed(batch, &model.weights.embeddings, model.config.position_offset).await?;
    match model.config.norm_placement {
        NormPlacement::PostNorm => post_norm_layers(on, model, batch, hidden_states).await,
        NormPlacement::PreNorm => pre_norm_layers(on, model, batch, hidden_states).await,
    }
}

async fn post_norm_layers<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    batch: &Batch,
    mut hidden_states: P::Tensor,
) -> Result<P::Tensor, OpError> {
    for (index, layer) in model.weights.layers.iter().enumerate() {
        let attended = model.self_attention(on, batch, index, layer, &hidden_states).await?;
        hidden_states = match &layer.attention_norm {
            Some(norm) => on.linear_add_norm(&attended, &layer.output, hidden_states, norm).await?,
            None => return missing_norm(index),
        };
        drop(attended);
        let intermediate = model.mlp_up(on, layer, &hidden_states).await?;
        hidden_states = on.linear_add_norm(&intermediate, &layer.down, hidden_states, &layer.mlp_norm).await?;
    }
    Ok(hidden_states)
}

/// A layer's output is added to the residual together with the next norm, in one pass over memory.
async fn pre_norm_layers<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    batch: &Batch,
    mut residual: P::Tensor,
) -> Result<P::Tensor, OpError> {
    let mut pending = None;
    for (index, layer) in model.weights.layers.iter().enumerate() {
        let attended = match (pending.take(), &layer.attention_norm) {
            (None, None) => model.attention_sublayer(on, batch, index, layer, &residual).await?,
            (None, Some(norm)) => {
                let input = on.norm(&residual, norm).await?;
                model.attention_sublayer(on, batch, index, layer, &input).await?
            }
            (Some(delta), Some(norm)) => {
                let input = on.fused_add_norm(&mut residual, delta, norm).await?;
                model.attention_sublayer(on, batch, index, layer, &input).await?
            }
            (Some(_), None) => return missing_norm(index),
        };
        let input = on.fused_add_norm(&mut residual, attended, &layer.mlp_norm).await?;
        pending = Some(model.mlp(on, layer, &input).await?);
    }
    match (pending, &model.weights.final_norm) {
        (Some(delta), Some(norm)) => on.fused_add_norm(&mut residual, delta, norm).await,
        _ => missing_norm(model.config.layers),
    }
}

fn missing_norm<T>(layer: usize) -> Result<T, OpError> {
    Err(OpError::Invalid(format!("the norm of layer {layer} is missing")))
}

impl<W> Model<'_, W> {
    /// The heads' outputs, before the output projection.
    async fn self_attention<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        batch: &Batch,
        index: usize,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let qkv = on.linear(input, &layer.qkv, Epilogue::Bias).await?;
        on.attention(batch, qkv, &self.attention_params(index, layer)).await
    }

    /// Self-attention with its output projection.
    async fn attention_sublayer<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        batch: &Batch,
        index: usize,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let attended = self.self_attention(on, batch, index, layer, input).await?;
        on.linear(&attended, &layer.output, Epilogue::Bias).await
    }

    /// The MLP's up projection and activation.
    async fn mlp_up<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let activation = self.config.activation;
        let epilogue =
            if self.config.gated { Epilogue::GatedActivation(activation) } else { Epilogue::Activation(activation) };
        on.linear(input, &layer.up, epilogue).await
    }

    async fn mlp<P: Primitives<Weight = W>>(
        &self,
        on: &mut P,
        layer: &Layer<W>,
        input: &P::Tensor,
    ) -> Result<P::Tensor, OpError> {
        let intermediate = self.mlp_up(on, layer, input).await?;
        on.linear(&intermediate, &layer.down, Epilogue::Bias).await
    }

    /// The attention parameters of layer `index`.
    fn attention_params<'a>(&'a self, index: usize, layer: &'a Layer<W>) -> Attention<'a, W> {
        let config = self.config;
        let window = config.window(index);
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
            query_norm: config.qk_norm.zip(norms).map(|(over, (queries, keys))| (over, queries, keys)),
            rotary: rotations.map(|table| (table, dims)),
            relative_bias: self.weights.relative_bias.as_ref(),
            slopes: self.weights.slopes.as_ref(),
            max_tokens: config.max_tokens,
        }
    }
}
