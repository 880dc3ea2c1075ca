//! Encoders on a GPU: a batch of requests in one pass.

mod answers;
pub(crate) mod few;
mod input;
pub(crate) mod join;
mod kernels;
mod primitives;
mod replay;
pub(crate) mod sources;
mod states;
mod weights;

use std::sync::Arc;

use answers::Answers;
use replay::Passes;
use weights::Resident;

use super::{EncodeRequest, Encoded, Encoder, Packed, Precision};
use crate::{OpError, cuda::Worker};

/// Runs a checked batch, whose requests share encoder and precision.
pub(super) fn run(batch: &[&EncodeRequest], worker: &Worker) -> Result<Vec<Encoded>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let resident = resident(&first.encoder, first.precision.on_gpu(), worker)?;
    let packed = Packed::new(batch)?;
    if packed.batch.ids.is_empty() {
        return packed.split(packed.zeros());
    }
    // Uploaded first, so that nothing stands between the states and them.
    let answers = Answers::new(worker, &packed.rows)?;
    let passes = Passes { worker, config: first.encoder.config(), resident: &resident };
    let pooled = passes.with_states(&packed.batch, |states| answers.pooled(worker, resident.format, states))?;
    packed.split(pooled)
}

/// The encoder's weights on the worker's device, uploaded when first asked for. They go when the encoder goes.
fn resident(encoder: &Arc<Encoder>, precision: Precision, worker: &Worker) -> Result<Arc<Resident>, OpError> {
    let id = encoder.id() * 3 + precision as u64;
    worker.device().residents().get_or_make(id, encoder, || Resident::new(encoder, precision, worker))
}
