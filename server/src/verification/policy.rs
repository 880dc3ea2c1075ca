//! Policies of comparisons, whose defaults depend on the element type.

use std::collections::BTreeMap;

use accelerd_kernels::ops::compare::{Close, Combination, InfinityPolicy, NanPolicy, Policy, Rules};
use accelerd_tensor::Dtype;

use crate::error::ApiError;

/// The policies of a request.
#[derive(Debug)]
pub(crate) struct Policies {
    default: OutputPolicy,
    by_output: BTreeMap<String, OutputPolicy>,
}

/// A checked policy, whose defaults depend on the element type.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputPolicy {
    /// `None` for those of the element type.
    pub(crate) rules: Option<UnresolvedRules>,
    pub(crate) nan: NanPolicy,
    pub(crate) infinity: InfinityPolicy,
    pub(crate) distinguish_zero_sign: bool,
    /// True if shapes may differ when the numbers of elements are equal.
    pub(crate) ignores_shape: bool,
    /// True if elements are compared by rank.
    pub(crate) any_order: bool,
}

/// A tolerance of a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    Exact,
    /// Fields that are not set have the value of the element type.
    Close(CloseBounds),
    /// The most representable numbers between two.
    Ulp(u64),
    /// Relative to the largest expected number.
    MaxNorm(f64),
}

/// Bounds that may be left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloseBounds {
    pub(crate) atol: Option<f64>,
    pub(crate) rtol: Option<f64>,
}

/// Tolerances of each kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnresolvedRules {
    close: Option<CloseBounds>,
    max_ulps: Option<u64>,
    max_norm: Option<f64>,
    is_exact: bool,
    combination: Combination,
}

impl Policies {
    /// The default, and those of outputs by name.
    pub(crate) fn new(default: OutputPolicy, by_output: BTreeMap<String, OutputPolicy>) -> Self {
        Self { default, by_output }
    }

    /// The policy of an output.
    pub(super) fn of(&self, output: &str) -> &OutputPolicy {
        self.by_output.get(output).unwrap_or(&self.default)
    }

    /// Refuses policies of outputs that are not there.
    pub(super) fn check_outputs(&self, is_output: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        match self.by_output.keys().find(|name| !is_output(name)) {
            None => Ok(()),
            Some(name) => Err(ApiError::invalid(format!("output_policies[{name}]"), "expected the name of an output")),
        }
    }

    /// Refuses a tolerance that depends on all elements, for outputs that arrive in chunks.
    pub(super) fn check_chunks(&self) -> Result<(), ApiError> {
        let named = self.by_output.iter().map(|(name, policy)| (format!("output_policies[{name}]"), policy));
        let mut all = named.chain([("policy".to_owned(), &self.default)]);
        let is_relative = |policy: &OutputPolicy| policy.rules.as_ref().is_some_and(|rules| rules.max_norm.is_some());
        match all.find(|(_, policy)| is_relative(policy)) {
            None => Ok(()),
            Some((field, _)) => {
                let reason = "expected a tolerance that does not depend on the maximum of all cases, got max_norm";
                Err(ApiError::invalid(format!("{field}.tolerances"), reason))
            }
        }
    }
}

impl OutputPolicy {
    /// True if two equal infinities pass.
    pub(super) fn infinities_pass(&self) -> bool {
        self.infinity == InfinityPolicy::Equal
    }

    /// True if two NaN pass, whatever their bits.
    pub(super) fn nans_pass(&self) -> bool {
        self.nan == NanPolicy::Equal
    }

    /// True if the absolute tolerance is that of the element type.
    pub(super) fn has_default_atol(&self) -> bool {
        let is_unset = |close: CloseBounds| close.atol.is_none();
        self.rules.as_ref().is_none_or(|rules| rules.close.is_some_and(is_unset))
    }

    /// The policy for an element type.
    pub(super) fn policy(&self, dtype: Dtype) -> Policy {
        let defaults = Policy::of(dtype);
        let rules = self.rules.as_ref().map_or(defaults.rules, |rules| rules.resolve(Close::of(dtype)));
        let Self { nan, infinity, distinguish_zero_sign, .. } = *self;
        Policy { rules, nan, infinity, distinguish_zero_sign }
    }
}

impl UnresolvedRules {
    /// Tolerances of the policy at `field`; `None` if there are none.
    pub(crate) fn new(
        field: &str,
        tolerances: &[Tolerance],
        combination: Combination,
    ) -> Result<Option<Self>, ApiError> {
        if tolerances.is_empty() {
            return Ok(None);
        }
        let mut rules = Self { combination, ..Self::default() };
        for (nth, tolerance) in tolerances.iter().enumerate() {
            let field = format!("{field}.tolerances[{nth}]");
            let is_second = match *tolerance {
                Tolerance::Exact => std::mem::replace(&mut rules.is_exact, true),
                Tolerance::Close(close) => {
                    check_bound(&format!("{field}.close.atol"), close.atol)?;
                    check_bound(&format!("{field}.close.rtol"), close.rtol)?;
                    rules.close.replace(close).is_some()
                }
                Tolerance::Ulp(max_distance) => rules.max_ulps.replace(max_distance).is_some(),
                Tolerance::MaxNorm(rtol) => {
                    check_bound(&format!("{field}.max_norm.rtol"), Some(rtol))?;
                    rules.max_norm.replace(rtol).is_some()
                }
            };
            if is_second {
                return Err(ApiError::invalid(field, "expected at most one tolerance of each kind, got two"));
            }
        }
        Ok(Some(rules))
    }

    fn resolve(&self, defaults: Close) -> Rules {
        if self.is_exact && self.combination == Combination::All {
            return Rules::default();
        }
        let close = self.close.map(|CloseBounds { atol, rtol }| Close {
            atol: atol.unwrap_or(defaults.atol),
            rtol: rtol.unwrap_or(defaults.rtol),
        });
        Rules { close, max_ulps: self.max_ulps, max_norm: self.max_norm, combination: self.combination }
    }
}

fn check_bound(field: &str, bound: Option<f64>) -> Result<(), ApiError> {
    match bound {
        Some(bound) if !(bound.is_finite() && bound >= 0.0) => {
            Err(ApiError::invalid(field, format!("expected a finite number of at least 0, got {bound}")))
        }
        Some(_) | None => Ok(()),
    }
}
