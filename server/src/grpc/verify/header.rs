//! Headers of verifications.

use accelerd_engine::Context;
use accelerd_proto::v1 as pb;

use super::{
    State,
    function::Limits,
    generated::Generated,
    outcome::{CaseOutcome, OutcomePolicy},
    policy::Policies,
    sides::{Resolver, Sides},
};
use crate::error::ApiError;

/// A checked header.
pub(super) struct Header {
    pub(super) sides: Sides,
    pub(super) policies: Policies,
    pub(super) outcome_policy: OutcomePolicy,
    /// How the subject must end; `None` if the policy decides.
    pub(super) expected_outcome: Option<CaseOutcome>,
    pub(super) limits: Limits,
    pub(super) max_mismatches: usize,
    pub(super) max_counterexamples: usize,
    pub(super) case_verdicts: bool,
    pub(super) shrinks: bool,
    pub(super) checks_determinism: bool,
    /// Where generated cases run first.
    pub(super) device: pb::KernelDevice,
    pub(super) generated: Option<Generated>,
}

impl Header {
    /// How the subject must end in a case of a chunk, if its cases or all cases say it.
    pub(super) fn expected_outcome(&self, of_cases: &[Option<CaseOutcome>], case: usize) -> Option<CaseOutcome> {
        of_cases.get(case).copied().flatten().or(self.expected_outcome)
    }
}

impl State {
    /// Checks a header and compiles its functions.
    pub(super) async fn header(&self, header: pb::VerifyHeader, context: &Context) -> Result<Header, ApiError> {
        let policies = Policies::new(header.policy, header.output_policies)?;
        policies.check_chunks()?;
        let max_mismatches = self.max_mismatches("header.max_mismatches", header.max_mismatches)?;
        let max_counterexamples = self.max_counterexamples(header.max_counterexamples)?;
        let device = device(header.device)?;
        let outcome_policy = OutcomePolicy::new(header.outcome_policy)?;
        let limits = self.case_limits(header.limits)?;
        let resolver = Resolver { kernels: &self.kernels, sandboxes: &self.sandboxes, context, limits };
        let sides = resolver.sides(header.subject, header.reference).await?;
        let expected_outcome = sides.expected_outcome("header.expected_outcome", &header.expected_outcome)?;
        let generated = header
            .generator
            .map(|generator| Generated::new(generator, &sides, self.max_generated_cases))
            .transpose()?;
        Ok(Header {
            policies,
            outcome_policy,
            expected_outcome,
            limits,
            max_mismatches,
            max_counterexamples,
            case_verdicts: header.case_verdicts,
            shrinks: !header.skip_shrinking && sides.are_functions(),
            checks_determinism: header.check_determinism,
            device,
            generated,
            sides,
        })
    }
}

/// Where generated cases run first.
fn device(device: i32) -> Result<pb::KernelDevice, ApiError> {
    pb::KernelDevice::try_from(device)
        .map_err(|_| ApiError::invalid("header.device", format!("expected a device, got {device}")))
}
