//! Policies of comparisons as messages.

use std::collections::BTreeMap;

use accelerd_kernels::ops::compare::{Close, Combination, InfinityPolicy, NanPolicy, Rules};
use accelerd_proto::v1::{self as pb, tolerance::Rule};

use crate::{
    error::ApiError,
    verification::policy::{CloseBounds, OutputPolicy, Policies, Tolerance, UnresolvedRules},
};

/// The policies of a request.
pub(super) fn policies(
    default: Option<pb::ComparisonPolicy>,
    by_output: BTreeMap<String, pb::ComparisonPolicy>,
) -> Result<Policies, ApiError> {
    let default = default.map(|policy| output_policy("policy", policy)).transpose()?.unwrap_or_default();
    let by_output = by_output.into_iter().map(|(name, policy)| {
        let policy = output_policy(&format!("output_policies[{name}]"), policy)?;
        Ok((name, policy))
    });
    Ok(Policies::new(default, by_output.collect::<Result<_, ApiError>>()?))
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
    let tolerance = |(nth, tolerance): (usize, pb::Tolerance)| {
        let rule = tolerance
            .rule
            .ok_or_else(|| ApiError::invalid(format!("{field}.tolerances[{nth}]"), "expected a rule, got none"))?;
        Ok(match rule {
            Rule::Exact(pb::ExactTolerance {}) => Tolerance::Exact,
            Rule::Close(pb::CloseTolerance { atol, rtol }) => Tolerance::Close(CloseBounds { atol, rtol }),
            Rule::Ulp(pb::UlpTolerance { max_distance }) => Tolerance::Ulp(max_distance),
            Rule::MaxNorm(pb::MaxNormTolerance { rtol }) => Tolerance::MaxNorm(rtol),
        })
    };
    let tolerances = policy.tolerances.into_iter().enumerate().map(tolerance).collect::<Result<Vec<_>, ApiError>>()?;
    let rules = UnresolvedRules::new(field, &tolerances, combination)?;
    let distinguish_zero_sign = policy.distinguish_zero_sign;
    Ok(OutputPolicy { rules, nan, infinity, distinguish_zero_sign, ignores_shape, any_order })
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
