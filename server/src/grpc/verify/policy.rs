//! Policies of comparisons: decoding them, and the tolerances that were applied.

use std::collections::BTreeMap;

use accelerd_kernels::ops::compare::{Close, Combination, InfinityPolicy, NanPolicy, Policy, Rules};
use accelerd_proto::v1::{self as pb, tolerance::Rule};
use accelerd_tensor::Dtype;

use crate::error::ApiError;

/// The policies of a request.
#[derive(Debug)]
pub(super) struct Policies {
    default: OutputPolicy,
    by_output: BTreeMap<String, OutputPolicy>,
}

/// A checked policy, whose defaults depend on the element type.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputPolicy {
    /// `None` for those of the element type.
    rules: Option<UnresolvedRules>,
    nan: NanPolicy,
    infinity: InfinityPolicy,
    distinguish_zero_sign: bool,
    /// Whether shapes may differ if the numbers of elements are equal.
    pub(super) ignores_shape: bool,
    /// Whether elements are compared by rank.
    pub(super) any_order: bool,
}

#[derive(Clone, Debug, Default)]
struct UnresolvedRules {
    close: Option<pb::CloseTolerance>,
    max_ulps: Option<u64>,
    max_norm: Option<f64>,
    is_exact: bool,
    combination: Combination,
}

impl Policies {
    pub(super) fn new(
        default: Option<pb::ComparisonPolicy>,
        by_output: BTreeMap<String, pb::ComparisonPolicy>,
    ) -> Result<Self, ApiError> {
        let default = default.map(|policy| output_policy("policy", policy)).transpose()?.unwrap_or_default();
        let by_output = by_output.into_iter().map(|(name, policy)| {
            let policy = output_policy(&format!("output_policies[{name}]"), policy)?;
            Ok((name, policy))
        });
        Ok(Self { default, by_output: by_output.collect::<Result<_, ApiError>>()? })
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
    /// Whether two equal infinities pass.
    pub(super) fn infinities_pass(&self) -> bool {
        self.infinity == InfinityPolicy::Equal
    }

    /// Whether two NaN pass, whatever their bits.
    pub(super) fn nans_pass(&self) -> bool {
        self.nan == NanPolicy::Equal
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
    fn resolve(&self, defaults: Close) -> Rules {
        if self.is_exact && self.combination == Combination::All {
            return Rules::default();
        }
        let close = self.close.map(|pb::CloseTolerance { atol, rtol }| Close {
            atol: atol.unwrap_or(defaults.atol),
            rtol: rtol.unwrap_or(defaults.rtol),
        });
        Rules { close, max_ulps: self.max_ulps, max_norm: self.max_norm, combination: self.combination }
    }
}

fn output_policy(field: &str, policy: pb::ComparisonPolicy) -> Result<OutputPolicy, ApiError> {
    let unknown = |name: &str, got: i32| {
        ApiError::invalid(format!("{field}.{name}"), format!("expected a number that the enum has, got {got}"))
    };
    let nan = match pb::NanPolicy::try_from(policy.nan).map_err(|_| unknown("nan", policy.nan))? {
        pb::NanPolicy::Unspecified | pb::NanPolicy::Forbidden => NanPolicy::Forbidden,
        pb::NanPolicy::Equal => NanPolicy::Equal,
        pb::NanPolicy::SameBits => NanPolicy::SameBits,
    };
    let infinity = pb::InfinityPolicy::try_from(policy.infinity).map_err(|_| unknown("infinity", policy.infinity))?;
    let infinity = match infinity {
        pb::InfinityPolicy::Unspecified | pb::InfinityPolicy::Equal => InfinityPolicy::Equal,
        pb::InfinityPolicy::Forbidden => InfinityPolicy::Forbidden,
    };
    let shape = pb::ShapePolicy::try_from(policy.shape).map_err(|_| unknown("shape", policy.shape))?;
    let ignores_shape = match shape {
        pb::ShapePolicy::Unspecified | pb::ShapePolicy::Equal => false,
        pb::ShapePolicy::SameElementCount => true,
    };
    let order = pb::ElementOrder::try_from(policy.order).map_err(|_| unknown("order", policy.order))?;
    let any_order = match order {
        pb::ElementOrder::Unspecified | pb::ElementOrder::Fixed => false,
        pb::ElementOrder::Any => true,
    };
    let combination = pb::ToleranceCombination::try_from(policy.combination);
    let combination = match combination.map_err(|_| unknown("combination", policy.combination))? {
        pb::ToleranceCombination::Unspecified | pb::ToleranceCombination::Any => Combination::Any,
        pb::ToleranceCombination::All => Combination::All,
    };
    let rules = rules(field, policy.tolerances, combination)?;
    let distinguish_zero_sign = policy.distinguish_zero_sign;
    Ok(OutputPolicy { rules, nan, infinity, distinguish_zero_sign, ignores_shape, any_order })
}

fn rules(
    field: &str,
    tolerances: Vec<pb::Tolerance>,
    combination: Combination,
) -> Result<Option<UnresolvedRules>, ApiError> {
    if tolerances.is_empty() {
        return Ok(None);
    }
    let mut rules = UnresolvedRules { combination, ..UnresolvedRules::default() };
    for (nth, tolerance) in tolerances.into_iter().enumerate() {
        let field = format!("{field}.tolerances[{nth}]");
        let is_second = match tolerance.rule {
            Some(Rule::Exact(pb::ExactTolerance {})) => std::mem::replace(&mut rules.is_exact, true),
            Some(Rule::Close(close)) => {
                check_bound(&format!("{field}.close.atol"), close.atol)?;
                check_bound(&format!("{field}.close.rtol"), close.rtol)?;
                rules.close.replace(close).is_some()
            }
            Some(Rule::Ulp(ulp)) => rules.max_ulps.replace(ulp.max_distance).is_some(),
            Some(Rule::MaxNorm(max_norm)) => {
                check_bound(&format!("{field}.max_norm.rtol"), Some(max_norm.rtol))?;
                rules.max_norm.replace(max_norm.rtol).is_some()
            }
            None => return Err(ApiError::invalid(field, "expected a rule, got none")),
        };
        if is_second {
            return Err(ApiError::invalid(field, "expected at most one tolerance of each kind, got two"));
        }
    }
    Ok(Some(rules))
}

fn check_bound(field: &str, bound: Option<f64>) -> Result<(), ApiError> {
    match bound {
        Some(bound) if !(bound.is_finite() && bound >= 0.0) => {
            Err(ApiError::invalid(field, format!("expected a finite number of at least 0, got {bound}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// The tolerances that were applied.
pub(super) fn tolerances(rules: &Rules) -> Vec<pb::Tolerance> {
    let close = |Close { atol, rtol }| Rule::Close(pb::CloseTolerance { atol: Some(atol), rtol: Some(rtol) });
    let ulp = |max_distance| Rule::Ulp(pb::UlpTolerance { max_distance });
    let max_norm = |rtol| Rule::MaxNorm(pb::MaxNormTolerance { rtol });
    let rules = [rules.close.map(close), rules.max_ulps.map(ulp), rules.max_norm.map(max_norm)];
    let mut rules: Vec<_> = rules.into_iter().flatten().collect();
    if rules.is_empty() {
        rules.push(Rule::Exact(pb::ExactTolerance {}));
    }
    rules.into_iter().map(|rule| pb::Tolerance { rule: Some(rule) }).collect()
}
