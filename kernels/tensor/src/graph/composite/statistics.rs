//! Variance or standard deviation together with the mean.

use crate::{
    Attribute,
    graph::ValueId,
    signature::{DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result},
};

pub(super) const OPERATIONS: &[Composite] =
    &[composite("var_mean", RESULTS, |g| with_mean(g, "var")), composite("std_mean", RESULTS, |g| with_mean(g, "std"))];

const RESULTS: Results = Results::two(ShapeRule::Reduced, [DtypeRule::Spread; 2]);

/// The results are that of the reduction `name`, and the mean.
fn with_mean(g: &mut Expansion<'_>, name: &str) -> Result<Vec<ValueId>> {
    let mut common: Vec<(&str, Attribute)> = vec![];
    for name in ["dim", "keepdim"] {
        common.extend(g.attributes.get(name).map(|value| (name, value.clone())));
    }
    let correction = g.attributes.get("correction").map(|value| ("correction", value.clone()));
    let with_correction: Vec<_> = common.iter().cloned().chain(correction).collect();
    let spread = g.op(name, g.operands(), &with_correction)?;
    let mean = g.op("mean", g.operands(), &common)?;
    Ok(vec![spread, mean])
}
