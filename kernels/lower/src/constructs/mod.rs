//! Lowering of statements and expressions with inference of types: functions are inlined, aggregates become scalars.

mod array_parts;
pub(crate) mod calls;
mod constructors;
mod expressions;
mod functions;
mod low_bits;
pub(crate) mod overloads;
mod parts;
mod queries;
pub(crate) mod statements;
mod statics;
