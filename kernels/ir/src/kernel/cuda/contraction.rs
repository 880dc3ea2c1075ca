//! Products that a compiler could contract with an addition to a fused multiply-add, which rounds once instead of twice.
//!
//! It could do so where a product is an operand of a sum or difference, also through local variables.

use std::collections::{HashMap, HashSet};

use crate::kernel::{Expr, Kernel, LocalId, Stmt};
use crate::scalar::{BinaryOp, UnaryOp};

/// Local variables whose value may be an operand of a sum or difference.
pub(super) fn added_locals(kernel: &Kernel) -> HashSet<LocalId> {
    let mut finder = Finder::default();
    finder.list(&kernel.body);
    let Finder { mut pending, copies, mut added } = finder;
    while let Some(local) = pending.pop() {
        if added.insert(local) {
            pending.extend(copies.get(&local).into_iter().flatten());
        }
    }
    added
}

/// Whether the operands of an operation are added to something.
pub(super) fn adds(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub)
}

#[derive(Default)]
struct Finder {
    pending: Vec<LocalId>,
    /// The variables whose value a variable may have.
    copies: HashMap<LocalId, Vec<LocalId>>,
    added: HashSet<LocalId>,
}

/// Where a value goes.
#[derive(Clone, Copy)]
enum Use {
    Added,
    Assigned(LocalId),
    Other,
}

impl Finder {
    fn list(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => self.expr(value, Use::Assigned(*local)),
            Stmt::Store(_, value) | Stmt::Atomic { operand: value, .. } => self.expr(value, Use::Other),
            Stmt::If(condition, then, otherwise) => {
                self.expr(condition, Use::Other);
                self.list(then);
                self.list(otherwise);
            }
            Stmt::Loop(_, body) | Stmt::For { body, .. } | Stmt::Block(_, body) => self.list(body),
            // What they evaluate are integers, or for an expected value compared by bits.
            Stmt::Load(..) | Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }

    fn expr(&mut self, expr: &Expr, goes: Use) {
        match (expr, goes) {
            (Expr::Local(local), Use::Added) => self.pending.push(*local),
            (Expr::Local(local), Use::Assigned(to)) => self.copies.entry(to).or_default().push(*local),
            (Expr::Unary(UnaryOp::Neg, a), _) => self.expr(a, goes),
            (Expr::Select(condition, a, b), _) => {
                self.expr(condition, Use::Other);
                self.expr(a, goes);
                self.expr(b, goes);
            }
            (Expr::Binary(op, a, b), _) => {
                let goes = if adds(*op) { Use::Added } else { Use::Other };
                self.expr(a, goes);
                self.expr(b, goes);
            }
            (Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a), _) => self.expr(a, Use::Other),
            (Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_), _) => {}
        }
    }
}
