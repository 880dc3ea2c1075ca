//! Elementwise operations: a table of names, types and scalar functions.
//!
//! Operations have PyTorch's names, attributes and results. Operands are promoted to a common type; scalars, in attributes, are
//! weakly typed. Functions whose results are no integers compute integers and bool in f32. Values of 16-bit floating-point types
//! are computed in f32 and rounded once.

mod activation;
mod arithmetic;
mod comparison;
mod division;
mod erfc;
mod expr;
mod operands;
mod operation;
mod power;
mod ternary;
#[cfg(test)]
mod tests;
mod typing;
mod unary;

use accelerd_ir::{Dtype, scalar::Function};
pub(crate) use expr::{Expr, Scope};
use operation::Operation;

use crate::{
    GraphError, NodeSpec,
    signature::{Results, ShapeRule, Signature},
};

/// The operations by family.
const FAMILIES: [&[Operation]; 8] = [
    unary::OPERATIONS,
    erfc::OPERATIONS,
    activation::OPERATIONS,
    arithmetic::OPERATIONS,
    comparison::OPERATIONS,
    division::OPERATIONS,
    power::OPERATIONS,
    ternary::OPERATIONS,
];

/// Other names of operations.
const ALIASES: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("arctan2", "atan2"),
    ("cast", "to"),
    ("clip", "clamp"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("sgn", "sign"),
    ("subtract", "sub"),
];

/// The function of a node from elements of its inputs, whose types are `operands`, to an element of its result; `None` if its
/// operation is not elementwise.
pub(crate) fn function(node: &NodeSpec, operands: &[Dtype]) -> Option<Result<Function, GraphError>> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == node.op);
    let name = alias.map_or(node.op.as_str(), |(_, name)| name);
    let operation = operations().find(|operation| operation.name == name)?;
    Some(operation.function(node, operands))
}

/// The names of the elementwise operations, aliases included.
pub fn names() -> impl Iterator<Item = &'static str> {
    operations().map(|operation| operation.name).chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// The facts about the operations that clients know, aliases included.
pub(crate) fn signatures() -> impl Iterator<Item = Signature> {
    let of = |name: &'static str, operation: &Operation| Signature {
        name,
        alias_of: (name != operation.name).then_some(operation.name),
        operands: operation.slots,
        accepts: operation.typing.accepts(),
        results: Results::one(ShapeRule::Broadcast, operation.typing.rule()),
    };
    let named = |name: &str| operations().find(|operation| operation.name == name);
    let aliases = ALIASES.iter().filter_map(move |(alias, name)| Some(of(alias, named(name)?)));
    operations().map(move |operation| of(operation.name, operation)).chain(aliases)
}

fn operations() -> impl Iterator<Item = &'static Operation> {
    FAMILIES.into_iter().flatten()
}
