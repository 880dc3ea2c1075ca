//! Variables that count: those that only thread indices and ranges from a number above -1 upwards are assigned to.
//!
//! Indices of arrays that are known not to be negative need no test of whether they count from the end.

use std::collections::HashMap;

use accelerd_parser::{Field, Kind};

use crate::source::declarations::Declarations;
use crate::source::syntax::{Constant, Node, Syntax};

/// The statements of a function that may assign a negative number to a variable.
#[derive(Debug, Default)]
pub(crate) struct SignedStores {
    /// Their number for each variable, and the last one.
    by_name: HashMap<String, (usize, Node)>,
}

impl SignedStores {
    /// Collects the assignments in a function.
    pub(crate) fn of(syntax: &Syntax<'_>, declarations: &Declarations, function: Node) -> Self {
        let mut all = Self::default();
        let mut open = vec![function];
        while let Some(node) = open.pop() {
            if syntax.kind(node) == Kind::Name && syntax.is_store(node) && !is_count(syntax, declarations, node) {
                let name = syntax.name(node).unwrap_or_default();
                let entry = all.by_name.entry(name).or_insert((0, node));
                *entry = (entry.0 + 1, node);
            }
            open.extend(syntax.all_children(node));
        }
        all
    }

    /// Returns true if no assignment to a variable but the one of a target may assign a negative number.
    pub(crate) fn is_only(&self, name: &str, target: Node) -> bool {
        match self.by_name.get(name) {
            None => true,
            Some((count, node)) => *count == 1 && *node == target,
        }
    }
}

/// Returns true if a target is that of thread indices, or of a range from a number above -1 upwards.
fn is_count(syntax: &Syntax<'_>, declarations: &Declarations, target: Node) -> bool {
    let Some(parent) = syntax.parent(target) else { return false };
    let statement = match syntax.kind(parent) {
        Kind::Tuple => syntax.parent(parent).unwrap_or(parent),
        _ => parent,
    };
    match syntax.kind(statement) {
        Kind::Assign => {
            let value = syntax.required(statement, Field::Value);
            let callee = if syntax.kind(value) == Kind::Call { syntax.child(value, Field::Func) } else { None };
            callee.and_then(|callee| declarations.path(syntax, callee)).as_deref() == Some("warp.tid")
        }
        Kind::For if statement == parent => is_upward(syntax, syntax.required(statement, Field::Iter)),
        _ => false,
    }
}

/// Returns true for `range(n)`, `range(0, n)` and `range(0, n, 1)` with any literals in place of 0 and 1.
fn is_upward(syntax: &Syntax<'_>, node: Node) -> bool {
    let callee = if syntax.kind(node) == Kind::Call { syntax.child(node, Field::Func) } else { None };
    if callee.and_then(|callee| syntax.name_of(callee)).as_deref() != Some("range") {
        return false;
    }
    let arguments: Vec<_> = syntax.children(node, Field::Args).take(3).collect();
    // A literal has no sign.
    let is_literal = |node: &Node| matches!(syntax.constant_of(*node), Some(Constant::Int(_)));
    match &arguments[..] {
        [_] => true,
        [start, _] => is_literal(start),
        [start, _, step] => is_literal(start) && is_literal(step),
        _ => false,
    }
}
