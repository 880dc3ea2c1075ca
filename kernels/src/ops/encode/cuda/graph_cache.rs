//! Forward passes of small batches as CUDA graphs. A graph is captured once per shape bucket and replayed for every batch
//! of the bucket, so that a pass costs one launch.

use std::{rc::Rc, sync::Arc};

use super::{
    device_batch::{DeviceBatch, ShapeBucket},
    forward::ForwardPass,
    hidden_states::HiddenStates,
    weights::DeviceWeights,
};
use crate::{
    OpError,
    cpu::pace::complete,
    cuda::{CachedGraph, GraphLookup, Worker},
    ops::encode::{Batch, EncoderConfig, Model, forward},
};

/// The input and output buffers of a captured pass.
struct Recorded {
    input: DeviceBatch,
    hidden_states: HiddenStates,
}

/// The forward pass of one encoder on one worker, by graph where the batch has a bucket.
pub(super) struct GraphCache<'a> {
    pub(super) worker: &'a Worker,
    pub(super) config: &'a EncoderConfig,
    pub(super) device_weights: &'a Arc<DeviceWeights>,
}

impl GraphCache<'_> {
    /// Calls `then` with the last hidden states of a batch. `then` must synchronise before it returns: a replay overwrites them.
    pub(super) fn with_hidden_states<R>(
        &self,
        batch: &Batch,
        then: impl FnOnce(&HiddenStates) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        if let Some(kept) = self.recorded(batch)?
            && let Some(Recorded { input, hidden_states }) = kept.memory.downcast_ref()
        {
            input.upload(batch, self.worker)?;
            self.worker.replay(&kept.graph)?;
            return then(hidden_states);
        }
        then(&self.hidden_states(DeviceBatch::new(batch, self.worker)?, batch)?)
    }

    fn hidden_states(&self, input: DeviceBatch, batch: &Batch) -> Result<HiddenStates, OpError> {
        let model = Model { config: self.config, weights: &self.device_weights.weights };
        complete(forward(&mut self.pass(input, usize::MAX).in_slices(), &model, batch))
    }

    fn pass(&self, input: DeviceBatch, max_bytes: usize) -> ForwardPass<'_> {
        let dtype = self.device_weights.dtype;
        ForwardPass::new(self.worker, dtype, dtype.residual(self.config.norm_placement), input, max_bytes)
    }

    /// The graph for a batch. A bucket is captured at its second use; a failed capture is not retried.
    fn recorded(&self, batch: &Batch) -> Result<Option<Rc<CachedGraph>>, OpError> {
        let Some(bucket) = ShapeBucket::of(batch, self.config.max_tokens).filter(|_| self.most_bytes() > 0) else {
            return Ok(None);
        };
        let shape = bucket.shape()?;
        let known = self.worker.graphs().look(self.device_weights, shape);
        match known {
            GraphLookup::Nothing | GraphLookup::Refused => Ok(None),
            GraphLookup::Graph(kept) => Ok(Some(kept)),
            GraphLookup::Seen => {
                let recorded = self.record(bucket, batch);
                let mut graphs = self.worker.graphs();
                if let Ok((kept, bytes)) = recorded {
                    return Ok(graphs.keep(self.device_weights, shape, bytes, kept));
                }
                graphs.refuse(self.device_weights, shape);
                Ok(None)
            }
        }
    }

    fn most_bytes(&self) -> usize {
        self.worker.graphs().most_bytes()
    }

    fn record(&self, bucket: ShapeBucket, batch: &Batch) -> Result<(CachedGraph, usize), OpError> {
        let model = Model { config: self.config, weights: &self.device_weights.weights };
        let mut pass = self.pass(DeviceBatch::for_bucket(bucket, self.worker)?, self.most_bytes());
        let (graph, hidden_states) = self.worker.record(|| complete(forward(&mut pass, &model, batch)))?;
        let input = pass.into_input();
        let bytes = input.bytes() + hidden_states.pool_bytes();
        Ok((CachedGraph { graph, memory: Box::new(Recorded { input, hidden_states }) }, bytes))
    }
}
