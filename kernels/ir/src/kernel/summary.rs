//! What a caller of a kernel has to know of its body.

use std::collections::HashSet;

use super::visit::each_expr;
use super::{Expr, Kernel, ParamId, Stmt};
use crate::scalar::Literal;

impl Kernel {
    /// The arrays that it writes, in the order of the parameters.
    pub fn written_arrays(&self) -> Vec<ParamId> {
        let mut written = vec![];
        add_written(&self.body, &mut written);
        written.sort_unstable();
        written.dedup();
        written
    }

    /// The constants of its body, each once, in the order of the text.
    pub fn literals(&self) -> Vec<Literal> {
        let (mut seen, mut literals) = (HashSet::new(), vec![]);
        each_expr(&self.body, &mut |expr| {
            if let Expr::Literal(literal) = expr
                && seen.insert(*literal)
            {
                literals.push(*literal);
            }
        });
        literals
    }
}

fn add_written(body: &[Stmt], written: &mut Vec<ParamId>) {
    for stmt in body {
        match stmt {
            Stmt::Store(place, _) | Stmt::Atomic { place, .. } => written.push(place.array),
            Stmt::If(_, then, otherwise) => {
                add_written(then, written);
                add_written(otherwise, written);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) | Stmt::For { body, .. } => add_written(body, written),
            Stmt::Assign(..)
            | Stmt::Load(..)
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
}
