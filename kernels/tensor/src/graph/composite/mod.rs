//! Operations that are made of others, and those with several results.
//!
//! A node of the caller expands into nodes of the graph, each with one result. A composite is a function that adds them to an
//! [`Expansion`] and returns the results.

mod class_losses;
mod distances;
mod expansion;
mod extremes;
mod losses;
mod normalization;
mod optimizers;
mod philox;
mod random;
mod sorting;
mod statistics;

pub(crate) use expansion::Expansion;

use crate::{Graph, GraphError, NodeSpec, graph::ValueId, signature::Results};

/// An entry of the table of composites.
pub(crate) struct Composite {
    pub(crate) name: &'static str,
    /// The attribute with which the name means an operation of another table.
    pub(crate) unless: Option<&'static str>,
    pub(crate) results: Results,
    /// Returns at least one result.
    expand: fn(&mut Expansion<'_>) -> expansion::Result<Vec<ValueId>>,
}

const fn composite(
    name: &'static str,
    results: Results,
    expand: fn(&mut Expansion<'_>) -> expansion::Result<Vec<ValueId>>,
) -> Composite {
    Composite { name, unless: None, results, expand }
}

/// The composites by family.
const FAMILIES: [&[Composite]; 9] = [
    statistics::OPERATIONS,
    normalization::OPERATIONS,
    losses::OPERATIONS,
    class_losses::OPERATIONS,
    distances::OPERATIONS,
    extremes::OPERATIONS,
    optimizers::OPERATIONS,
    random::OPERATIONS,
    sorting::OPERATIONS,
];

pub(crate) fn operations() -> impl Iterator<Item = &'static Composite> {
    FAMILIES.into_iter().flatten()
}

/// Adds the nodes of a composite to a graph and returns its results; `None` if the operation is no composite.
pub(crate) fn expand(
    graph: &mut Graph,
    node: &NodeSpec,
    operands: &[ValueId],
) -> Option<Result<Vec<ValueId>, GraphError>> {
    let composite = operations().find(|composite| composite.name == node.op)?;
    let mut expansion = Expansion::new(graph, node, operands);
    if composite.unless.is_some_and(|attribute| expansion.attributes.get(attribute).is_some()) {
        return None;
    }
    let results = (composite.expand)(&mut expansion);
    Some(results.and_then(|results| expansion.attributes.finish().map(|()| results)))
}
