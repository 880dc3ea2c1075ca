//! Kernels: structured programs that every thread of a grid runs over arrays.
//!
//! The language has no aggregate: vectors, matrices and structs are components of parameters and elements, and one local each. Functions
//! are inlined. Expressions are pure; whatever reads or writes memory, or can fail, is a statement, so that evaluation order is explicit.
//!
//! **Numerics.** Expressions compute what [`scalar`](crate::scalar) defines for their operations, without contraction to fused
//! multiply-adds. A dialect with other rules, such as Python's floor division, is lowered to these operations.
//!
//! **Faults.** An access outside its array, an exhausted budget and [`Stmt::Fault`] end the thread at once and are reported; the other
//! threads go on. A launch with a fault has failed, and its outputs are unspecified.
//!
//! **Memory.** Threads run in any order. Accesses of two threads to one component, at least one of which writes without being atomic, leave
//! the component unspecified.

mod argument;
mod check;
mod constants;
pub mod cuda;
mod effects;
mod fault;
pub mod interpret;
mod program;
mod races;
mod visit;
pub mod wasm;

pub use argument::{Argument, ArgumentError, ArrayArgument, Scalar};
pub use check::{
    KernelError, MAX_ELEMENT_SIZE, MAX_EXPR_DEPTH, MAX_LOCALS, MAX_NAME, MAX_NODES, MAX_PARAMS, MAX_STMT_DEPTH,
};
pub use fault::{Fault, FaultAccess, FaultRecord};
pub use program::{
    ArrayType, AtomicOp, Component, Element, Expr, FaultKind, FaultSite, Kernel, LabelId, Local, LocalId, Param,
    ParamId, ParamType, Place, Site, SiteId, Stmt,
};
pub use races::Races;
