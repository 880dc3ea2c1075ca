//! From a graph to the steps of a plan.
//!
//! [`units`] decides which elementwise operations share a kernel, by merging those of [`unit_graph`]. [`lower`] turns units into steps over numbered buffers, resolving
//! views on the way. [`arena`] places the buffers.

mod along_dim;
mod arena;
mod attention;
mod indexing;
mod lower;
mod products;
mod rows;
mod steps;
mod unit_graph;
mod units;
mod windows;

use crate::{Graph, Plan};

impl Plan {
    /// Plans the execution of a graph.
    pub fn new(graph: &Graph) -> Self {
        let lowered = lower::lower(graph);
        let (arena_bytes, steps) = arena::place(lowered);
        Self { inputs: graph.inputs.clone(), outputs: graph.output_types(), arena_bytes, steps }
    }
}

#[cfg(test)]
mod tests;
