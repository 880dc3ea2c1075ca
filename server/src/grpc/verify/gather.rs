//! Comparisons of resident tensors on several devices: they run on one.

use accelerd_engine::Context;
use accelerd_kernels::ops::{compare::Pair, tensor::TensorInput};

use super::State;
use crate::{error::ApiError, ledger::RequestMemory};

impl State {
    /// Reads tensors into host memory that are not on the device of the first resident one, where the pairs are compared.
    pub(super) async fn gather(
        &self,
        pairs: &mut [Pair],
        memory: &mut RequestMemory,
        context: &Context,
    ) -> Result<(), ApiError> {
        let mut first = None;
        for side in pairs.iter_mut().flat_map(|pair| [&mut pair.actual, &mut pair.expected]) {
            let TensorInput::Resident(tensor) = side else { continue };
            if *first.get_or_insert(tensor.device()) != tensor.device() {
                self.resident.move_to_host(side, memory, context).await?;
            }
        }
        Ok(())
    }
}
