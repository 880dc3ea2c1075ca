//! Results of comparisons, and how many bytes of a response they need.

use accelerd_kernels::ops::compare::{BUCKETS, Comparison, Rules};
use accelerd_tensor::TensorType;

use super::{
    outputs::{Output, OutputVerdict},
    service::VerificationService,
};
use crate::{error::ApiError, small_outputs::SmallOutput};

/// Maximum size of the differences, without mismatches and rows.
const DIFFERENCES_BYTES: usize = 10 * BUCKETS + 460;

/// The most bytes of a mismatch.
const MISMATCH_BYTES: usize = 96;

/// The report of an output.
#[derive(Debug)]
pub(crate) struct OutputReport {
    pub(crate) name: String,
    pub(crate) verdict: OutputVerdict,
    pub(crate) actual: TensorType,
    pub(crate) expected: TensorType,
    /// The tolerances that were applied.
    pub(crate) rules: Rules,
    /// The number of elements, and how they differ, if they were compared.
    pub(crate) compared: Option<(u64, Comparison)>,
    /// Set if the absolute tolerance accepts errors that are large relative to the expected numbers.
    pub(crate) small: Option<SmallOutput>,
}

impl OutputReport {
    /// `compared` comes with the number of elements.
    pub(super) fn new(
        output: &Output,
        [actual, expected]: [TensorType; 2],
        verdict: OutputVerdict,
        compared: Option<(u64, Comparison)>,
    ) -> Self {
        let (name, small) = (output.name.clone(), output.small.clone());
        Self { name, verdict, actual, expected, rules: output.policy.rules, compared, small }
    }
}

impl VerificationService {
    /// Refuses reports of outputs that would exceed the maximum message size, whatever differs. Returns the bytes that are left.
    pub(super) fn check_response(
        &self,
        outputs: &[Output],
        max_mismatches: usize,
        rows: impl Fn(&Output) -> usize,
    ) -> Result<usize, ApiError> {
        let bytes = outputs.iter().fold(0_usize, |bytes, output| {
            let dims = output.actual.shape.len() + output.expected.shape.len();
            let mismatches = max_mismatches.min(output.expected.elements()) * MISMATCH_BYTES;
            let described = DIFFERENCES_BYTES + 2 * output.name.len() + 10 * dims;
            bytes.saturating_add(described + mismatches + rows(output).div_ceil(8))
        });
        let limit = self.max_message;
        limit.checked_sub(bytes).ok_or(ApiError::OutputsTooLarge { bytes, limit })
    }
}

pub(super) fn verdict(incomparable: Option<OutputVerdict>, compared: Option<&Comparison>) -> OutputVerdict {
    match (incomparable, compared) {
        (Some(verdict), _) => verdict,
        (None, Some(compared)) if !compared.is_equal() => OutputVerdict::Mismatch,
        (None, _) => OutputVerdict::Passed,
    }
}
