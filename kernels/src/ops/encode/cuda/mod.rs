//! Encoders on a GPU: a batch of requests in one pass.

mod answers;
mod input;
pub(crate) mod kernels;
mod primitives;
mod states;
mod weights;

use std::sync::Arc;

use primitives::Pass;
use weights::Resident;

use super::{EncodeRequest, Encoded, Encoder, Model, Packed, Precision, encode};
use crate::{OpError, cuda::Worker};

/// Runs a checked batch, whose requests share encoder and precision.
pub(super) fn run(batch: &[&EncodeRequest], worker: &Worker) -> Result<Vec<Encoded>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let resident = resident(&first.encoder, first.precision, worker)?;
    let packed = Packed::new(batch)?;
    let model = Model { config: first.encoder.config(), weights: &resident.weights };
    let residual = resident.format.residual(model.config.placement);
    let pooled = encode(&mut Pass::new(worker, resident.format, residual), &model, &packed)?;
    packed.split(pooled)
}

/// The encoder's weights on the worker's device, uploaded when first asked for. They go when the encoder goes.
fn resident(encoder: &Arc<Encoder>, precision: Precision, worker: &Worker) -> Result<Arc<Resident>, OpError> {
    let id = encoder.id() * 3 + precision as u64;
    worker.device().residents().get_or_make(id, encoder, || Resident::new(encoder, precision, worker))
}
