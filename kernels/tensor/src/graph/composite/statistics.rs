//! Variance or standard deviation together with the mean.

use crate::{Attribute, graph::ValueId};

use super::{
    Expanded,
    expansion::{Expansion, Result},
};

pub(super) fn expand(op: &str, g: &mut Expansion<'_>) -> Expanded {
    match op {
        "var_mean" => Some(with_mean(g, "var")),
        "std_mean" => Some(with_mean(g, "std")),
        _ => None,
    }
}

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
