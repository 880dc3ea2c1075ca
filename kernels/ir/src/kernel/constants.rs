//! The constants of a body.

use std::collections::HashSet;

use super::visit::each_expr;
use super::{Expr, Kernel};
use crate::scalar::Literal;

impl Kernel {
    /// The constants of its body, each once, in the order of the text.
    pub fn literals(&self) -> Vec<Literal> {
        let mut seen = HashSet::new();
        let mut literals = vec![];
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
