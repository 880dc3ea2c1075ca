//! Encoders on a GPU: one forward pass per batch.

mod attention;
mod device_batch;
mod forward;
mod gemm;
mod gemm_mma;
mod gemm_tiles;
mod graph_cache;
mod head_dim;
mod hidden_states;
mod launch;
mod linear;
mod norm;
mod pool;
mod weights;

use std::sync::Arc;

use graph_cache::GraphCache;
use pool::OutputBuffer;
use weights::DeviceWeights;

use super::{EncodeRequest, Encoded, Encoder, PackedBatch, Precision};
use crate::{
    OpError,
    cuda::{Module, Worker},
};

/// The encoder's kernels.
pub(crate) fn modules() -> Vec<&'static Module> {
    let single = [&weights::PACK_MODULE, &pool::POOL_MODULE];
    [&single[..], &norm::MODULES, &gemm::MODULES, &gemm_mma::MODULES, &attention::MODULES].concat()
}

/// Runs a checked batch, whose requests share encoder and precision.
pub(super) fn run(batch: &[&EncodeRequest], worker: &Worker) -> Result<Vec<Encoded>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let device_weights = device_weights(&first.encoder, first.precision.on_gpu(), worker)?;
    let packed = PackedBatch::new(batch)?;
    if packed.batch.ids.is_empty() {
        return packed.split(packed.zeros());
    }
    // Before the forward pass, so that no upload separates it from pooling.
    let output = OutputBuffer::new(worker, &packed.rows)?;
    let graphs = GraphCache { worker, config: first.encoder.config(), device_weights: &device_weights };
    let pooled = graphs.with_hidden_states(&packed.batch, |hidden_states| {
        output.pooled(worker, device_weights.dtype, hidden_states)
    })?;
    packed.split(pooled)
}

/// The encoder's weights on the worker's device: uploaded at first use, freed with the encoder.
fn device_weights(
    encoder: &Arc<Encoder>,
    precision: Precision,
    worker: &Worker,
) -> Result<Arc<DeviceWeights>, OpError> {
    let id = encoder.id() * 3 + precision as u64;
    worker.device().device_cache().get_or_create(id, encoder, || DeviceWeights::new(encoder, precision, worker))
}
