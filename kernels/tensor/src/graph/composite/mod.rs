//! Operations that are made of others, and those with several results.
//!
//! A node of the caller expands into nodes of the graph, each with one result. A family of composites is a function that adds them to an
//! [`Expansion`] and returns the results; it says nothing of operations that are not its own.

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

use crate::{Graph, GraphError, NodeSpec, graph::ValueId};

/// The results of a composite, at least one; `None` if the name is not one of the family's operations.
type Expanded = Option<expansion::Result<Vec<ValueId>>>;

const FAMILIES: [fn(&str, &mut Expansion<'_>) -> Expanded; 9] = [
    statistics::expand,
    normalization::expand,
    losses::expand,
    class_losses::expand,
    distances::expand,
    extremes::expand,
    optimizers::expand,
    random::expand,
    sorting::expand,
];

/// Adds the nodes of a composite to a graph and returns its results; `None` if the operation is no composite.
pub(crate) fn expand(
    graph: &mut Graph,
    node: &NodeSpec,
    operands: &[ValueId],
) -> Option<Result<Vec<ValueId>, GraphError>> {
    let mut expansion = Expansion::new(graph, node, operands);
    let results = FAMILIES.into_iter().find_map(|family| family(&node.op, &mut expansion))?;
    Some(results.and_then(|results| expansion.attributes.finish().map(|()| results)))
}
