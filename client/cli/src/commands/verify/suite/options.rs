//! Options of a check: its policy of comparison, the limits of its cases, and their number.

use std::time::Duration;

use accelerd_client::{KernelDevice, NanPolicy, OutcomePolicy, Policy, Verification};
use toml::Value;

use super::fields::Fields;

/// Cases of a generator, unless a suite says how many.
const DEFAULT_COUNT: u64 = 10_000;

/// Options that hold for a check, or for all of a suite.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) count: u64,
    pub(super) seed: u64,
    pub(super) device: Option<KernelDevice>,
    pub(super) policy: PolicyFields,
    outcomes: Option<OutcomePolicy>,
    pub(super) expect: Option<Expect>,
    case_timeout: Option<Duration>,
    fuel: Option<u64>,
    memory_bytes: Option<u64>,
    loop_budget: Option<u64>,
    max_mismatches: Option<u32>,
    max_counterexamples: Option<u32>,
    shrink: bool,
    check_determinism: bool,
}

/// The expected outcome of the subject.
#[derive(Debug)]
pub(super) enum Expect {
    InAllCases(String),
    InEachCase(Vec<String>),
}

/// Which elements are equal.
#[derive(Debug)]
pub(super) struct PolicyFields {
    pub(super) policy: Policy,
    /// True if a tolerance needs all cases at once.
    pub(super) has_max_norm: bool,
    pub(super) any_order: bool,
}

/// The keys of tolerances. Those of a check replace all of the suite's.
pub(super) const TOLERANCES: [&str; 5] = ["exact", "atol", "rtol", "max_ulps", "max_norm"];

impl Options {
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let outcomes = [
            ("both_or_neither", OutcomePolicy::BothOrNeither),
            ("reference_defines", OutcomePolicy::ReferenceDefines),
            ("result_required", OutcomePolicy::ResultRequired),
        ];
        Self {
            count: fields.integer("count", 1).unwrap_or(DEFAULT_COUNT),
            seed: fields.integer("seed", 0).unwrap_or(0),
            device: fields.choice("device", &[("cpu", KernelDevice::Cpu), ("cuda", KernelDevice::Cuda)]),
            policy: PolicyFields::read(fields),
            outcomes: fields.choice("outcomes", &outcomes),
            expect: Expect::read(fields),
            case_timeout: fields.duration("case_timeout"),
            fuel: fields.integer("fuel", 1),
            memory_bytes: fields.size("memory"),
            loop_budget: fields.integer("loop_budget", 1),
            max_mismatches: fields.small_integer("max_mismatches", 0),
            max_counterexamples: fields.small_integer("max_counterexamples", 0),
            shrink: fields.flag("shrink").unwrap_or(true),
            check_determinism: fields.flag("check_determinism").unwrap_or(false),
        }
    }

    /// Sets all but what only generated cases have: their number, seed and device.
    pub(super) fn apply(&self, mut verification: Verification) -> Verification {
        verification = verification.policy(self.policy.policy.clone());
        if let Some(outcomes) = self.outcomes {
            verification = verification.outcomes(outcomes);
        }
        if let Some(Expect::InAllCases(name)) = &self.expect {
            verification = verification.expect_outcome(name);
        }
        if let Some(timeout) = self.case_timeout {
            verification = verification.case_timeout(timeout);
        }
        if let Some(instructions) = self.fuel {
            verification = verification.fuel(instructions);
        }
        if let Some(bytes) = self.memory_bytes {
            verification = verification.memory_bytes(bytes);
        }
        if let Some(iterations) = self.loop_budget {
            verification = verification.loop_budget(iterations);
        }
        if let Some(limit) = self.max_mismatches {
            verification = verification.max_mismatches(limit);
        }
        if let Some(limit) = self.max_counterexamples {
            verification = verification.max_counterexamples(limit);
        }
        if !self.shrink {
            verification = verification.skip_shrinking();
        }
        if self.check_determinism { verification.check_determinism() } else { verification }
    }
}

impl Expect {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let name = |name: &Value| name.as_str().map(str::to_owned);
        fields.read("expect", "the name of an outcome, or a list of one for each case", |value| match value {
            Value::String(name) => Some(Self::InAllCases(name.clone())),
            Value::Array(names) => names.iter().map(name).collect::<Option<_>>().map(Self::InEachCase),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => None,
        })
    }
}

impl PolicyFields {
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let mut policy = Policy::default();
        let exact = fields.flag("exact").unwrap_or(false);
        if exact {
            policy = policy.exact();
        }
        let atol = fields.tolerance("atol");
        let rtol = fields.tolerance("rtol");
        if atol.is_some() || rtol.is_some() {
            policy = policy.close(atol.unwrap_or(0.0), rtol.unwrap_or(0.0));
        }
        let max_ulps = fields.integer("max_ulps", 0);
        let max_norm = fields.tolerance("max_norm");
        if let Some(limit) = max_ulps {
            policy = policy.max_ulps(limit);
        }
        if let Some(limit) = max_norm {
            policy = policy.max_norm(limit);
        }
        if exact && (atol.or(rtol).or(max_norm).is_some() || max_ulps.is_some()) {
            fields.note("exact", "expected no other tolerance");
        }
        if fields.flag("all").unwrap_or(false) {
            policy = policy.require_all();
        }
        if fields.flag("signed_zero").unwrap_or(false) {
            policy = policy.distinguish_zero_sign();
        }
        let nan = [("none", NanPolicy::Forbidden), ("equal", NanPolicy::Equal), ("bits", NanPolicy::SameBits)];
        if let Some(nan) = fields.choice("nan", &nan) {
            policy = policy.nan(nan);
        }
        let any_order = fields.flag("any_order").unwrap_or(false);
        if any_order {
            policy = policy.any_order();
        }
        Self { policy, has_max_norm: max_norm.is_some(), any_order }
    }
}
