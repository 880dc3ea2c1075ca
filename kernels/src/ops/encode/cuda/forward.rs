//! The encoder's primitives on a GPU: the forward pass of one batch, a kernel launch per primitive.

use std::rc::Rc;

use super::{
    attention::{attention, qk_norm_rope},
    device_batch::DeviceBatch,
    gemm::{
        LinearResidualNorm, LinearResidualNormParams, activation_code, launch_gemm, linear_params, linear_residual_norm,
    },
    head_dim::padded_head_dim,
    hidden_states::{HiddenStates, TensorPool},
    launch::{LaunchContext, fit},
    linear::{CLAMP_F16, LinearParams, PLAIN},
    norm::{
        EmbeddingNormParams, F32_OUT, F32_POSITION_EMBEDDINGS, F32_TOKEN_TYPE_EMBEDDINGS, F32_WORD_EMBEDDINGS, NO_NORM,
        embedding_norm, norm_params, residual_norm,
    },
    pool::OutputBuffer,
    weights::Weight,
};
use crate::{
    OpError,
    cuda::{Args, Grid, Slices, Worker},
    ops::encode::{Attention, Batch, DType, Embeddings, Epilogue, Linear, Norm, OutputRow, PooledOutput, Primitives},
};

/// The work of the first slice.
const FIRST_FLOPS: f64 = 1e11;

/// The forward pass of one batch.
pub(super) struct ForwardPass<'a> {
    launch: LaunchContext<'a>,
    /// The type of the residual stream.
    residual: DType,
    pool: Rc<TensorPool>,
    input: DeviceBatch,
    /// A captured pass has none.
    slices: Option<Slices>,
}

impl<'a> ForwardPass<'a> {
    /// Computes in `dtype` with a residual in `residual`; hidden states take at most `max_bytes`.
    pub(super) fn new(worker: &'a Worker, dtype: DType, residual: DType, input: DeviceBatch, max_bytes: usize) -> Self {
        Self {
            launch: LaunchContext::new(worker, dtype, input.rows),
            residual,
            pool: TensorPool::new(max_bytes),
            input,
            slices: None,
        }
    }

    /// The pass runs in slices.
    pub(super) fn in_slices(self) -> Self {
        Self { slices: Some(Slices::new(FIRST_FLOPS)), ..self }
    }

    /// Accounts for a product of these extents that was queued, which may end a slice.
    fn queued(&mut self, extents: [usize; 3]) -> Result<(), OpError> {
        let worker = self.launch.worker;
        let flops = 2.0 * extents.into_iter().map(|extent| extent as f64).product::<f64>();
        self.slices.as_mut().map_or(Ok(()), |slices| slices.queued(worker, flops))
    }

    pub(super) fn into_input(self) -> DeviceBatch {
        self.input
    }

    fn alloc(&self, width: usize) -> Result<HiddenStates, OpError> {
        self.alloc_as(self.launch.dtype, width)
    }

    /// As wide as a tensor of the compute type, whose tiles have at least as many columns.
    fn alloc_as(&self, dtype: DType, width: usize) -> Result<HiddenStates, OpError> {
        let mut hidden_states = self.pool.take(
            self.launch.worker,
            dtype,
            self.launch.rows,
            width.next_multiple_of(self.launch.dtype.tile_columns()),
        )?;
        hidden_states.width = width;
        Ok(hidden_states)
    }

    /// Tiles per row of a residual, in the compute type.
    fn tiles_per_row(&self, width: usize) -> Result<u32, OpError> {
        fit(width.div_ceil(self.launch.dtype.tile_columns()))
    }
}

impl Primitives for ForwardPass<'_> {
    type Weight = Weight;
    type Tensor = HiddenStates;

    async fn embed(
        &mut self,
        _batch: &Batch,
        embeddings: &Embeddings<Weight>,
        position_offset: usize,
    ) -> Result<HiddenStates, OpError> {
        let width = embeddings.word_embeddings.width;
        let out = self.alloc_as(self.residual, width)?;
        let tiles_per_row = self.tiles_per_row(width)?;
        let f32_bit = |dtype: DType, bit| if dtype == self.launch.dtype { 0 } else { bit };
        let f32_table = |table: Option<&Weight>, bit| table.map_or(0, |table| f32_bit(table.dtype, bit));
        let address = |table: Option<&Weight>| table.map_or(0, Weight::address);
        let params = EmbeddingNormParams {
            ids: self.input.address(self.input.ids()),
            token_type_ids: self.input.token_type_ids(),
            position_rows: self.input.position_rows(),
            cu_seqlens: self.input.cu_seqlens(),
            word_embeddings: embeddings.word_embeddings.address(),
            position_embeddings: address(embeddings.position_embeddings.as_ref()),
            token_type_embeddings: address(embeddings.token_type_embeddings.as_ref()),
            out: out.address(),
            norm: embeddings.norm.as_ref().map_or(NO_NORM, norm_params),
            rows: fit(self.launch.rows)?,
            sequences: fit(self.input.sequences)?,
            tiles_per_row,
            width: fit(width)?,
            position_offset: fit(position_offset)?,
            f32_mask: f32_table(Some(&embeddings.word_embeddings), F32_WORD_EMBEDDINGS)
                | f32_table(embeddings.position_embeddings.as_ref(), F32_POSITION_EMBEDDINGS)
                | f32_table(embeddings.token_type_embeddings.as_ref(), F32_TOKEN_TYPE_EMBEDDINGS)
                | f32_bit(out.dtype, F32_OUT),
        };
        embedding_norm(&self.launch, params)?;
        Ok(out)
    }

    async fn linear(
        &mut self,
        x: &HiddenStates,
        linear: &Linear<Weight>,
        epilogue: Epilogue,
    ) -> Result<HiddenStates, OpError> {
        let mut rounded = None;
        if x.dtype != self.launch.dtype {
            let out = self.alloc(x.width)?;
            residual_norm(&self.launch, x, None, None, &out, NO_NORM)?;
            rounded = Some(out);
        }
        let x = rounded.as_ref().unwrap_or(x);
        let columns = linear.weight.rows as usize;
        let out_dtype = linear.weight.out_dtype;
        let (activation, gated) = match epilogue {
            Epilogue::Bias if out_dtype == self.launch.dtype => (PLAIN, false),
            Epilogue::Bias => (CLAMP_F16, false),
            Epilogue::Activation(activation) => (activation_code(activation), false),
            Epilogue::GatedActivation(activation) => (activation_code(activation), true),
        };
        let mut out = self.alloc_as(out_dtype, if gated { columns / 2 } else { columns })?;
        out.width = if gated { linear.outputs / 2 } else { linear.outputs };
        let layer = linear_params(self.launch.rows, x, linear, &out)?;
        launch_gemm(
            &self.launch,
            LinearParams { activation, gated: gated.into(), reverse: self.launch.direction(), ..layer },
        )?;
        self.queued([self.launch.rows, columns, linear.inputs])?;
        Ok(out)
    }

    async fn attention(
        &mut self,
        batch: &Batch,
        qkv: HiddenStates,
        params: &Attention<'_, Weight>,
    ) -> Result<HiddenStates, OpError> {
        qk_norm_rope(&self.launch, &self.input, &qkv, params)?;
        let width = params.heads * padded_head_dim(self.launch.dtype, params.head_dim);
        let out = self.alloc(width)?;
        if let Some(buffer) = out.buffer().filter(|_| !width.is_multiple_of(self.launch.dtype.tile_columns())) {
            // The columns after the last head meet zero weights, so they must be finite.
            self.launch.worker.fill_zero(buffer)?;
        }
        attention(&self.launch, &self.input, &qkv, &out, params)?;
        // Scores and weighted sums.
        self.queued([self.launch.rows, batch.max_seqlen, 2 * width])?;
        Ok(out)
    }

    async fn norm(&mut self, x: &HiddenStates, norm: &Norm<Weight>) -> Result<HiddenStates, OpError> {
        let out = self.alloc(x.width)?;
        residual_norm(&self.launch, x, None, None, &out, norm_params(norm))?;
        Ok(out)
    }

    async fn add_norm(
        &mut self,
        residual: HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        residual_norm(&self.launch, &residual, Some(&delta), None, &residual, norm_params(norm))?;
        Ok(residual)
    }

    async fn linear_add_norm(
        &mut self,
        x: &HiddenStates,
        linear: &Linear<Weight>,
        residual: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        let Some((fused, clusters)) = linear_residual_norm(&self.launch, x, linear, &residual)? else {
            let delta = self.linear(x, linear, Epilogue::Bias).await?;
            return self.add_norm(residual, delta, norm).await;
        };
        let layer =
            LinearParams { reverse: self.launch.direction(), ..linear_params(self.launch.rows, x, linear, &residual)? };
        let mut args = Args::new().value(LinearResidualNormParams {
            layer,
            residual: residual.address(),
            norm: norm_params(norm),
        });
        let kernel = fused.kernel(self.launch.dtype);
        let grid = Grid::x(fit(clusters)? * fused.cluster);
        self.launch.worker.launch_pdl(
            &kernel,
            grid,
            LinearResidualNorm::THREADS,
            LinearResidualNorm::shared_bytes()?,
            &mut args,
        )?;
        self.queued([self.launch.rows, linear.outputs, linear.inputs])?;
        Ok(residual)
    }

    async fn fused_add_norm(
        &mut self,
        residual: &mut HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        residual_norm(&self.launch, residual, Some(&delta), Some(residual), &delta, norm_params(norm))?;
        Ok(delta)
    }

    fn pool(&mut self, hidden_states: &HiddenStates, rows: &[OutputRow]) -> Result<PooledOutput, OpError> {
        OutputBuffer::new(self.launch.worker, rows)?.pooled(self.launch.worker, self.launch.dtype, hidden_states)
    }
}
