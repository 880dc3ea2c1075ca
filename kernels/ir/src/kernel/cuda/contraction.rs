//! Products that a compiler could contract with an addition to a fused multiply-add, which rounds once instead of twice.
//!
//! It could do so where a product is an operand of a sum or difference, also through local variables, and through memory that the
//! same thread reads back.

use std::collections::{HashMap, HashSet};

use crate::kernel::{Expr, Kernel, LocalId, ParamId, Stmt};
use crate::scalar::{BinaryOp, UnaryOp};

/// Values that may be an operand of a sum or difference.
#[derive(Default)]
pub(super) struct Added {
    pub(super) locals: HashSet<LocalId>,
    /// Arrays, for the values stored to them.
    pub(super) arrays: HashSet<ParamId>,
}

impl Added {
    pub(super) fn new(kernel: &Kernel) -> Self {
        let mut reads = Reads::default();
        reads.list(&kernel.body);
        let mut finder = Finder { arrays: reads.read_back(), ..Finder::default() };
        finder.list(&kernel.body);
        let Finder { mut pending, copies, arrays } = finder;
        let mut locals = HashSet::new();
        while let Some(local) = pending.pop() {
            if locals.insert(local) {
                pending.extend(copies.get(&local).into_iter().flatten());
            }
        }
        Self { locals, arrays }
    }
}

/// The order of accesses to arrays, by the position of statements in the text.
#[derive(Default)]
struct Reads {
    position: usize,
    /// Where the outermost loop around the current statement starts.
    loop_start: Option<usize>,
    last_load: HashMap<ParamId, usize>,
    /// A load from here on may follow the first store.
    first_store: HashMap<ParamId, usize>,
}

impl Reads {
    /// Arrays of which a load may follow a store.
    fn read_back(self) -> HashSet<ParamId> {
        let Self { last_load, first_store, .. } = self;
        let is_read_back = |array: &ParamId| last_load.get(array).is_some_and(|last| *last >= first_store[array]);
        first_store.keys().copied().filter(is_read_back).collect()
    }

    fn list(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.position += 1;
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Load(_, place) => {
                self.last_load.insert(place.array, self.position);
            }
            Stmt::Store(place, _) => {
                let from = self.loop_start.unwrap_or(self.position);
                self.first_store.entry(place.array).or_insert(from);
            }
            Stmt::If(_, then, otherwise) => {
                self.list(then);
                self.list(otherwise);
            }
            Stmt::Loop(_, body) | Stmt::For { body, .. } => {
                let outermost = self.loop_start;
                self.loop_start = outermost.or(Some(self.position));
                self.list(body);
                self.loop_start = outermost;
            }
            Stmt::Block(_, body) => self.list(body),
            Stmt::Assign(..)
            | Stmt::Atomic { .. }
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
}

/// Returns true if the operands of an operation are added to something.
pub(super) fn adds(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub)
}

#[derive(Default)]
struct Finder {
    pending: Vec<LocalId>,
    /// The variables whose value a variable may have.
    copies: HashMap<LocalId, Vec<LocalId>>,
    arrays: HashSet<ParamId>,
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
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => self.expr(value, Use::Assigned(*local)),
            Stmt::Store(place, value) => {
                let is_added = self.arrays.contains(&place.array);
                self.expr(value, if is_added { Use::Added } else { Use::Other });
            }
            Stmt::Atomic { operand, .. } => self.expr(operand, Use::Other),
            Stmt::If(condition, then, otherwise) => {
                self.expr(condition, Use::Other);
                self.list(then);
                self.list(otherwise);
            }
            Stmt::Loop(_, body) | Stmt::For { body, .. } | Stmt::Block(_, body) => self.list(body),
            // Their operands are integers, or for an expected value compared by bits.
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
