//! Headers of verifications.

use accelerd_engine::Context;
use accelerd_sandbox::CaseLimits;

use super::{
    function::Limits,
    generated::{CaseGenerator, Generated},
    outcome::{CaseOutcome, OutcomePolicy},
    policy::Policies,
    service::VerificationService,
    sides::{Resolver, Sides, StatedSide},
};
use crate::{
    error::{ApiError, RequestedTime},
    kernels::launch::KernelDevice,
};

/// The most iterations of all loops of a case if a request does not say how many.
const DEFAULT_LOOP_BUDGET: u64 = 1 << 32;

/// The request of a verification: its sides and its policy.
#[derive(Debug)]
pub(crate) struct VerificationRequest {
    pub(crate) subject: StatedSide,
    pub(crate) reference: StatedSide,
    pub(crate) policies: Policies,
    pub(crate) outcome_policy: OutcomePolicy,
    /// The required ends of the subject; empty if the policy decides.
    pub(crate) expected_outcome: String,
    pub(crate) limits: StatedLimits,
    pub(crate) max_mismatches: Option<u32>,
    pub(crate) max_counterexamples: Option<u32>,
    pub(crate) case_verdicts: bool,
    pub(crate) skip_shrinking: bool,
    pub(crate) check_determinism: bool,
    /// Where generated cases run first.
    pub(crate) device: KernelDevice,
    pub(crate) generator: Option<CaseGenerator>,
}

/// The limits of a case that a client sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatedLimits {
    pub(crate) timeout: RequestedTime,
    pub(crate) fuel: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) loop_budget: Option<u64>,
}

/// A checked header.
pub(super) struct Header {
    pub(super) sides: Sides,
    pub(super) policies: Policies,
    pub(super) outcome_policy: OutcomePolicy,
    /// The required end of the subject; `None` if the policy decides.
    pub(super) expected_outcome: Option<CaseOutcome>,
    pub(super) limits: Limits,
    pub(super) max_mismatches: usize,
    pub(super) max_counterexamples: usize,
    pub(super) case_verdicts: bool,
    pub(super) shrinks: bool,
    pub(super) checks_determinism: bool,
    /// Where generated cases run first.
    pub(super) device: KernelDevice,
    pub(super) generated: Option<Generated>,
}

impl Header {
    /// The required end of the subject in a case of a chunk, if its cases or all cases state it.
    pub(super) fn expected_outcome(&self, of_cases: &[Option<CaseOutcome>], case: usize) -> Option<CaseOutcome> {
        of_cases.get(case).copied().flatten().or(self.expected_outcome)
    }
}

impl VerificationService {
    /// Checks a header and compiles its functions.
    pub(super) async fn header(&self, header: VerificationRequest, context: &Context) -> Result<Header, ApiError> {
        header.policies.check_chunks()?;
        let max_mismatches = self.max_mismatches("header.max_mismatches", header.max_mismatches)?;
        let max_counterexamples = self.max_counterexamples(header.max_counterexamples)?;
        let limits = self.case_limits(header.limits)?;
        let resolver = Resolver { kernels: &self.kernels, sandboxes: &self.sandboxes, context, limits };
        let sides = resolver.sides(header.subject, header.reference).await?;
        let expected_outcome = sides.expected_outcome("header.expected_outcome", &header.expected_outcome)?;
        let generated = header
            .generator
            .map(|generator| Generated::new(generator, &sides, self.max_generated_cases))
            .transpose()?;
        Ok(Header {
            policies: header.policies,
            outcome_policy: header.outcome_policy,
            expected_outcome,
            limits,
            max_mismatches,
            max_counterexamples,
            case_verdicts: header.case_verdicts,
            shrinks: !header.skip_shrinking && sides.are_functions(),
            checks_determinism: header.check_determinism,
            device: header.device,
            generated,
            sides,
        })
    }

    fn case_limits(&self, limits: StatedLimits) -> Result<Limits, ApiError> {
        let maximum = self.sandboxes.limits();
        let defaults = CaseLimits::default();
        let refused = |got: String| {
            let reason = format!("expected more than 0 s and at most {:?}, got {got}", maximum.case_timeout);
            ApiError::invalid("header.limits.timeout", reason)
        };
        let timeout = limits.timeout.unwrap_or(Ok(defaults.timeout.min(maximum.case_timeout))).map_err(refused)?;
        if timeout.is_zero() || timeout > maximum.case_timeout {
            return Err(refused(format!("{timeout:?}")));
        }
        let memory_bytes = limits.memory_bytes.unwrap_or(defaults.memory_bytes.min(maximum.case_memory.as_u64()));
        if memory_bytes > maximum.case_memory.as_u64() {
            let reason = format!("expected at most {} bytes, got {memory_bytes}", maximum.case_memory.as_u64());
            return Err(ApiError::invalid("header.limits.memory_bytes", reason));
        }
        let case = CaseLimits { timeout, fuel: limits.fuel, memory_bytes };
        Ok(Limits { case, loop_budget: limits.loop_budget.unwrap_or(DEFAULT_LOOP_BUDGET) })
    }
}
