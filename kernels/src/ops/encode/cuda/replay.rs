//! Passes of small batches, recorded for all batches of a room and replayed for each: one launch for all their kernels.

use std::{rc::Rc, sync::Arc};

use super::{
    input::{Input, Room},
    primitives::Pass,
    states::States,
    weights::Resident,
};
use crate::{
    OpError,
    cuda::{Kept, Known, Worker},
    ops::encode::{Batch, EncoderConfig, Model, forward},
};

/// What a recorded pass reads and writes, beside the weights.
struct Recorded {
    input: Input,
    states: States,
}

/// An encoder on a worker's device.
pub(super) struct Passes<'a> {
    pub(super) worker: &'a Worker,
    pub(super) config: &'a EncoderConfig,
    pub(super) resident: &'a Arc<Resident>,
}

impl Passes<'_> {
    /// Hands the last states of a batch to `then`, which waits for what it does with them.
    pub(super) fn with_states<R>(
        &self,
        batch: &Batch,
        then: impl FnOnce(&States) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        if let Some(kept) = self.recorded(batch)?
            && let Some(Recorded { input, states }) = kept.memory.downcast_ref()
        {
            input.fill(batch, self.worker)?;
            self.worker.replay(&kept.graph)?;
            return then(states);
        }
        then(&self.states(Input::new(batch, self.worker)?, batch)?)
    }

    fn states(&self, input: Input, batch: &Batch) -> Result<States, OpError> {
        let model = Model { config: self.config, weights: &self.resident.weights };
        forward(&mut self.pass(input, usize::MAX), &model, batch)
    }

    fn pass(&self, input: Input, most_bytes: usize) -> Pass<'_> {
        let format = self.resident.format;
        Pass::new(self.worker, format, format.residual(self.config.placement), input, most_bytes)
    }

    /// The graph for a batch. A room is recorded when it is needed a second time; where that fails, it never is again.
    fn recorded(&self, batch: &Batch) -> Result<Option<Rc<Kept>>, OpError> {
        let Some(room) = Room::of(batch, self.config.max_tokens).filter(|_| self.most_bytes() > 0) else {
            return Ok(None);
        };
        let shape = room.shape()?;
        let known = self.worker.graphs().look(self.resident, shape);
        match known {
            Known::Nothing | Known::Refused => Ok(None),
            Known::Graph(kept) => Ok(Some(kept)),
            Known::Seen => {
                let recorded = self.record(room, batch);
                let mut graphs = self.worker.graphs();
                if let Ok((kept, bytes)) = recorded {
                    return Ok(graphs.keep(self.resident, shape, bytes, kept));
                }
                graphs.refuse(self.resident, shape);
                Ok(None)
            }
        }
    }

    fn most_bytes(&self) -> usize {
        self.worker.graphs().most_bytes()
    }

    fn record(&self, room: Room, batch: &Batch) -> Result<(Kept, usize), OpError> {
        let model = Model { config: self.config, weights: &self.resident.weights };
        let mut pass = self.pass(Input::with_room(room, self.worker)?, self.most_bytes());
        let (graph, states) = self.worker.record(|| forward(&mut pass, &model, batch))?;
        let input = pass.into_input();
        let bytes = input.bytes() + states.shelf_bytes();
        Ok((Kept { graph, memory: Box::new(Recorded { input, states }) }, bytes))
    }
}
