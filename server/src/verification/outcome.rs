//! Outcomes of a function's cases.

use std::collections::BTreeMap;

use accelerd_ir::kernel::FaultKind;
use accelerd_sandbox::Outcome;

use crate::error::ApiError;

/// Outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseOutcome {
    /// By a result, a trap or a limit.
    Module(Outcome),
    /// By a fault of a function in Python.
    Fault(FaultKind),
}

const FAULTS: [FaultKind; 5] = [
    FaultKind::OutOfBounds,
    FaultKind::DivisionByZero,
    FaultKind::Assertion,
    FaultKind::InvalidValue,
    FaultKind::BudgetExhausted,
];

/// Meaning of a side without a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutcomePolicy {
    /// The other side must have none either.
    #[default]
    BothOrNeither,
    /// If it is the reference, the case passes.
    ReferenceDefines,
    /// The case fails.
    ResultRequired,
}

/// Numbers of cases by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutcomeCounts(pub(crate) BTreeMap<&'static str, u64>);

impl CaseOutcome {
    pub(super) const OK: Self = Self::Module(Outcome::Ok);

    /// Outcomes of functions in Python, besides faults.
    const OF_KERNELS: [Self; 3] = [Self::OK, Self::Module(Outcome::OutOfMemory), Self::Module(Outcome::Timeout)];

    pub(super) fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// The outcome of this name. `is_kernel` says whether that of a function in Python is meant, or that of a module's.
    pub(super) fn of_name(field: &str, name: &str, is_kernel: bool) -> Result<Self, ApiError> {
        let faults = FAULTS.into_iter().map(Self::Fault).filter(|_| is_kernel);
        let ends = Outcome::ALL.into_iter().map(Self::Module);
        let ends = ends.filter(|outcome| !is_kernel || Self::OF_KERNELS.contains(outcome));
        let all: Vec<_> = faults.chain(ends).collect();
        all.iter().find(|outcome| outcome.name() == name).copied().ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|outcome| outcome.name()).collect();
            let shown: String = name.chars().take(64).collect();
            ApiError::invalid(field, format!("expected an outcome of [{}], got {shown:?}", names.join(", ")))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Module(outcome) => outcome.name(),
            Self::Fault(FaultKind::OutOfBounds) => "out_of_bounds",
            Self::Fault(FaultKind::DivisionByZero) => "division_by_zero",
            Self::Fault(FaultKind::Assertion) => "assertion",
            Self::Fault(FaultKind::InvalidValue) => "invalid_value",
            Self::Fault(FaultKind::BudgetExhausted) => "loop_budget",
        }
    }
}

impl OutcomePolicy {
    /// Returns true if a case fails whatever the results are.
    pub(super) fn rejects(self, subject: CaseOutcome, reference: CaseOutcome) -> bool {
        match self {
            Self::BothOrNeither => subject.is_ok() != reference.is_ok(),
            Self::ReferenceDefines => reference.is_ok() && !subject.is_ok(),
            Self::ResultRequired => !(subject.is_ok() && reference.is_ok()),
        }
    }
}

impl OutcomeCounts {
    pub(super) fn add(&mut self, outcomes: &[CaseOutcome]) {
        // Most cases end as the one before.
        for run in outcomes.chunk_by(PartialEq::eq) {
            *self.0.entry(run[0].name()).or_default() += run.len() as u64;
        }
    }

    /// Adds cases of one outcome.
    pub(super) fn add_equal(&mut self, outcome: CaseOutcome, cases: u64) {
        if cases > 0 {
            *self.0.entry(outcome.name()).or_default() += cases;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_reject_cases_without_results() {
        let ok = CaseOutcome::OK;
        let trap = CaseOutcome::Module(Outcome::Unreachable);
        let fault = CaseOutcome::Fault(FaultKind::DivisionByZero);
        for (policy, rejected) in [
            (OutcomePolicy::BothOrNeither, [false, true, true, false]),
            (OutcomePolicy::ReferenceDefines, [false, true, false, false]),
            (OutcomePolicy::ResultRequired, [false, true, true, true]),
        ] {
            let pairs = [(ok, ok), (trap, ok), (ok, fault), (trap, fault)];
            assert_eq!(pairs.map(|(subject, reference)| policy.rejects(subject, reference)), rejected, "{policy:?}");
        }
    }

    #[test]
    fn outcomes_are_found_by_their_name() {
        for outcome in Outcome::ALL.map(CaseOutcome::Module) {
            assert_eq!(CaseOutcome::of_name("field", outcome.name(), false).expect("a name of a module"), outcome);
        }
        let fault = CaseOutcome::Fault(FaultKind::DivisionByZero);
        assert_eq!(CaseOutcome::of_name("field", "division_by_zero", true).expect("a name of a kernel"), fault);
        for (name, is_kernel) in [("division_by_zero", false), ("unreachable", true), ("", true)] {
            let refused = CaseOutcome::of_name("field", name, is_kernel).expect_err("unknown").to_string();
            assert!(refused.contains("field") && refused.contains("timeout"), "{refused}");
        }
    }

    #[test]
    fn outcomes_are_counted_by_name() {
        let mut counts = OutcomeCounts::default();
        counts.add(&[CaseOutcome::OK, CaseOutcome::Fault(FaultKind::Assertion), CaseOutcome::OK]);
        assert_eq!(counts.0, BTreeMap::from([("assertion", 1), ("ok", 2)]));
    }
}
