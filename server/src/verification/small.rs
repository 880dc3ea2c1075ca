//! Judges outputs of small numbers relative to the largest expected one.

use accelerd_engine::Context;
use accelerd_kernels::ops::{
    compare::{Close, Combination, Comparison, Pair, Rules},
    tensor::TensorInput,
};

use super::{
    outputs::Output,
    service::{VerificationService, blocking},
};
use crate::{
    error::ApiError,
    ledger::RequestMemory,
    small_outputs::{Magnitudes, SmallOutput, max_norm_rtol},
};

impl VerificationService {
    /// Looks at outputs that pass with errors which are large relative to the expected numbers. If most of these are smaller than the
    /// absolute tolerance, it marks the output, and compares it again if the tolerance is the default.
    pub(super) async fn judge_small(
        &self,
        outputs: &mut [Output],
        compared: &mut [Option<Comparison>],
        pair: impl Fn(&Output) -> Option<Pair>,
        context: &Context,
    ) -> Result<(), ApiError> {
        for (output, compared) in outputs.iter_mut().zip(compared) {
            let Some(close) = compared.as_ref().and_then(|compared| tolerance_to_check(output, compared)) else {
                continue;
            };
            let magnitudes = self.magnitudes(output, close, context).await?;
            let (dtype, is_default) = (output.expected.dtype, output.has_default_atol);
            let Some(small) = magnitudes.small_output(&output.name, dtype, close, is_default) else { continue };
            if let Some(rtol) = small.max_norm_rtol {
                let combination = Combination::All;
                output.policy.rules = Rules { close: Some(close), max_norm: Some(rtol), combination, max_ulps: None };
                let pairs = vec![pair(output)];
                let again = self.compare_by_order(std::slice::from_ref(&*output), pairs, 1, context).await?;
                *compared = again.into_iter().next().flatten();
            }
            output.small = Some(small);
        }
        Ok(())
    }

    async fn magnitudes(&self, output: &Output, close: Close, context: &Context) -> Result<Magnitudes, ApiError> {
        let mut memory = RequestMemory::new(&self.memory);
        let data = match output.expected_input() {
            TensorInput::Inline(data) => data.clone(),
            TensorInput::Resident(tensor) => {
                memory.try_resize(output.expected.bytes() as u64)?;
                self.resident.read_all(tensor, context).await?
            }
        };
        let dtype = output.expected.dtype;
        blocking(move || Magnitudes::of_elements(dtype, &data, close.atol)).await
    }
}

/// The tolerance of an output that passes, if an error is large relative to the largest expected number.
fn tolerance_to_check(output: &Output, compared: &Comparison) -> Option<Close> {
    let Rules { close: Some(close), max_ulps: None, max_norm: None, .. } = output.policy.rules else { return None };
    let error = compared.max_absolute?.value;
    let is_large = error > max_norm_rtol(output.expected.dtype, close, compared.norm) * compared.norm;
    (compared.is_equal() && compared.norm > 0.0 && is_large).then_some(close)
}

/// The output, if no expected number of all cases exceeds the absolute tolerance, and an error is large relative to them.
pub(super) fn small_in_all_cases(output: &Output, compared: &Comparison) -> Option<SmallOutput> {
    let close = tolerance_to_check(output, compared).filter(|close| compared.norm <= close.atol)?;
    let magnitudes = Magnitudes::of(std::iter::once(compared.norm), close.atol);
    magnitudes.small_output(&output.name, output.expected.dtype, close, output.has_default_atol)
}
