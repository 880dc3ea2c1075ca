//! From a graph to the steps of a plan.
//!
//! [`units`] decides which elementwise operations share a kernel. [`lower`] turns units into steps over numbered buffers, resolving
//! views on the way. [`arena`] places the buffers.

mod arena;
mod lower;
mod products;
mod units;

use crate::{Graph, Location, Plan};

impl Plan {
    /// Plans the execution of a graph.
    pub fn new(graph: &Graph) -> Self {
        let lowered = lower::lower(graph);
        let (arena_bytes, steps) = arena::place(lowered);
        Self { inputs: graph.inputs.clone(), outputs: graph.output_types(), arena_bytes, steps }
    }
}

/// Before buffers are placed, the arena's locations are the numbers of buffers.
fn buffer(number: usize) -> Location {
    Location::Arena(number)
}

#[cfg(test)]
mod tests;
