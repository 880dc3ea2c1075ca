//! From a graph to the steps of a plan.
//!
//! [`units`] decides which elementwise operations share a kernel. [`lower`] turns units into steps over numbered buffers, resolving
//! views on the way. [`arena`] places the buffers.

mod arena;
mod lower;
mod products;
mod steps;
mod units;

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
