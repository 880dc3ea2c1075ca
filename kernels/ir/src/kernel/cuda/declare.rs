//! Declarations of and assignments to local variables.

use super::cpp_expr::{CppExpr, literal, value_type};
use super::emitter::Emitter;
use super::usage::Declaration;
use crate::kernel::{Expr, LocalId, Stmt};
use crate::scalar::Literal;

impl Emitter<'_> {
    /// Declares the variables that are first used within a statement.
    pub(super) fn declare_before(&mut self, stmt: &Stmt) {
        for local in self.usage.declared_before(stmt).to_vec() {
            let is_zero = matches!(self.usage.declaration(local), Declaration::Before(_, true));
            self.declare(local, is_zero);
        }
    }

    /// Declares a variable without a value, or as zero.
    pub(super) fn declare(&mut self, local: LocalId, is_zero: bool) {
        let dtype = self.kernel.locals[local.0 as usize].dtype;
        let ty = value_type(dtype);
        let name = &self.names.locals[local.0 as usize];
        let zero = literal(Literal::from_bits(dtype, 0)).text;
        let value = if is_zero { format!(" = {zero}") } else { String::new() };
        self.line(&format!("{ty} {name}{value};"));
    }

    /// Declares a variable with its value.
    pub(super) fn define(&mut self, local: LocalId, value: &CppExpr, is_single: bool) {
        let index = local.0 as usize;
        let constant = if is_single { "const " } else { "" };
        let ty = value_type(self.kernel.locals[index].dtype);
        self.line(&format!("{constant}{ty} {} = {};", self.names.locals[index], value.text));
        if is_single {
            self.ranges.insert(local, value.range);
        }
    }

    /// Assigns to a variable, which the assignment may declare.
    pub(super) fn assign(&mut self, stmt: &Stmt, local: LocalId, value: &CppExpr) {
        match self.usage.declaration(local) {
            Declaration::At(place, is_single) if place == std::ptr::from_ref(stmt) => {
                self.define(local, value, is_single);
            }
            Declaration::Nowhere | Declaration::Before(..) | Declaration::At(..) | Declaration::Member(false) => {
                self.line(&format!("{} = {};", self.names.locals[local.0 as usize], value.text));
            }
            Declaration::Member(true) => {
                self.line(&format!("{} = {};", self.names.locals[local.0 as usize], value.text));
                self.ranges.insert(local, value.range);
            }
        }
    }

    /// `x += y;` for `x = x + y;`, where `target` is the text of `x`.
    pub(super) fn compound(&self, target: &str, value: &Expr, text: &str) -> Option<String> {
        let Expr::Binary(_, left, _) = value else { return None };
        let Expr::Local(left) = **left else { return None };
        if self.local(left).text != target {
            return None;
        }
        let (op, operand) = text.strip_prefix(target)?.strip_prefix(' ')?.split_once(' ')?;
        let is_operator = matches!(op, "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "<<" | ">>");
        is_operator.then(|| format!("{target} {op}= {operand};"))
    }
}
