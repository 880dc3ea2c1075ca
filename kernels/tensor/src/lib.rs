//! Graphs of tensor operations, checked and planned before anything is allocated.
//!
//! A [`GraphSpec`] is what a caller sends: nodes by name, with operations and attributes by name. [`Graph::new`] checks it and
//! infers the types of all values. [`Plan::new`] decides how it runs: which elementwise operations share a kernel, which values
//! are views, and where each buffer lives. The backends execute the steps of the plan and know neither names nor attributes.
//!
//! The crate is pure: it computes no tensor and knows no device.

mod attributes;
mod dims;
mod elementwise;
mod error;
mod generators;
mod graph;
mod infer;
mod layout;
mod op;
mod plan;
mod planner;
mod products;
mod reductions;
mod row_ops;
mod spec;
mod view_ops;

pub use accelerd_ir::{Dtype, scalar};
pub use elementwise::names as elementwise_names;
pub use error::GraphError;
pub use graph::Graph;
pub use layout::{Layout, MAX_RANK};
pub use plan::{
    Accumulate, ArgReduction, Location, MapStep, MatMulStep, NormKind, NormStep, Plan, ReduceStep, Reduction,
    SoftmaxStep, Step, View,
};
pub use spec::{Attribute, GraphSpec, NodeSpec, TensorType};
