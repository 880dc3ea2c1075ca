//! Graphs of tensor operations, checked and planned before anything is allocated.
//!
//! A [`GraphSpec`] is what a caller sends: nodes by name, with operations and attributes by name. [`Graph::new`] checks it and
//! infers the types of all values. [`Plan::new`] decides how it runs: which elementwise operations share a kernel, which values
//! are views, and where each buffer lives. The backends execute the steps of the plan and know neither names nor attributes.
//!
//! The crate is pure: it computes no tensor and knows no device.

mod attention;
mod attributes;
mod catalog;
mod combination;
mod convolutions;
mod dims;
mod elementwise;
mod error;
mod generators;
mod graph;
mod index_steps;
mod indexing;
mod infer;
mod key;
mod layout;
mod op;
mod operation;
mod plan;
mod planner;
mod pooling;
mod products;
mod reductions;
mod row_access;
mod row_ops;
mod scans;
mod signature;
mod spatial;
mod spec;
mod view;
mod view_ops;
mod workload;

pub use accelerd_ir::{Dtype, scalar};
pub use catalog::signatures;
pub use combination::{Combination, Reduction};
pub use elementwise::names as elementwise_names;
pub use error::GraphError;
pub use graph::Graph;
pub use index_steps::{IndexOp, IndexStep, ScanKind, ScanStep, SortStep};
pub use key::GraphKey;
pub use layout::{Layout, MAX_RANK};
pub use plan::{
    Accumulate, ArgReduction, AttentionStep, ConvStep, Divisor, MapStep, MatMulStep, NormKind, NormStep, Plan,
    PoolKind, PoolStep, PoolWindows, ReduceStep, SoftmaxStep, Step, Windows,
};
pub use row_access::RowAccess;
pub use signature::{Accepts, Condition, DtypeRule, Results, ShapeRule, Signature, Slot};
pub use spec::{Attribute, GraphSpec, NodeSpec, TensorType};
pub use view::{Location, View};
pub use workload::Workload;
