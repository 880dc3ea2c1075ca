//! Compares the outputs of a request, all at once.

use accelerd_engine::Context;

use super::{
    outputs::{NamedSource, Output, OutputVerdict},
    policy::Policies,
    report::{OutputReport, verdict},
    service::VerificationService,
};
use crate::{auth::caller::Caller, error::ApiError};

/// Outputs to compare.
#[derive(Debug)]
pub(crate) struct OutputsRequest {
    pub(crate) actual: Vec<NamedSource>,
    pub(crate) expected: Vec<NamedSource>,
    pub(crate) policies: Policies,
    /// The most mismatches to list of each output.
    pub(crate) max_mismatches: Option<u32>,
    /// True if the report lists the rows that fail.
    pub(crate) row_verdicts: bool,
}

impl VerificationService {
    /// Compares outputs. All pass if each report says so.
    pub(crate) async fn compare_outputs(
        &self,
        caller: &Caller,
        context: Context,
        request: OutputsRequest,
    ) -> Result<Vec<OutputReport>, ApiError> {
        let OutputsRequest { actual, expected, policies, max_mismatches, row_verdicts } = request;
        let max_mismatches = self.max_mismatches("max_mismatches", max_mismatches)?;
        let mut decoded = self.decoder(caller, &policies, "").outputs(actual, expected)?;
        policies.check_outputs(|name| decoded.outputs.iter().any(|output| output.name == name))?;
        let rows = |output: &Output| if row_verdicts && !output.any_order { output.rows() } else { 0 };
        self.check_response(&decoded.outputs, max_mismatches, rows)?;
        let pair = |output: &Output| output.pair(max_mismatches, rows(output));
        let pairs = decoded.outputs.iter().map(pair).collect();
        let mut compared = self.compare_by_order(&decoded.outputs, pairs, 1, &context).await?;
        self.judge_small(&mut decoded.outputs, &mut compared, pair, &context).await?;
        let report = |(output, compared): (&Output, Option<_>)| {
            let elements = output.expected.elements() as u64;
            let verdict = verdict(output.incomparable, compared.as_ref());
            let types = [output.actual.clone(), output.expected.clone()];
            OutputReport::new(output, types, verdict, compared.map(|all| (elements, all)))
        };
        Ok(decoded.outputs.iter().zip(compared).map(report).collect())
    }
}

/// Returns true if all outputs pass.
pub(crate) fn all_pass(reports: &[OutputReport]) -> bool {
    reports.iter().all(|report| report.verdict == OutputVerdict::Passed)
}
