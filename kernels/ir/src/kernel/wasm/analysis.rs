//! The analysis that decides whether and how vectors of threads run a kernel.

use std::collections::HashSet;

use crate::Dtype;
use crate::kernel::{Expr, LocalId, ParamId, Place, Stmt};

/// Operations of an elementary function, about.
const ELEMENTARY: usize = 50;

/// The number of operations of statements.
pub(super) fn operations(body: &[Stmt]) -> usize {
    let of_stmt = |stmt: &Stmt| match stmt {
        Stmt::Assign(_, value) => operations_of(value),
        Stmt::Store(_, value) => 1 + operations_of(value),
        Stmt::If(condition, then, otherwise) => operations_of(condition) + operations(then) + operations(otherwise),
        Stmt::For { body, .. } | Stmt::Loop(_, body) | Stmt::Block(_, body) => 1 + operations(body),
        Stmt::Load(..) | Stmt::Atomic { .. } | Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => 1,
    };
    body.iter().map(of_stmt).sum()
}

/// The number of operations of an expression.
fn operations_of(expr: &Expr) -> usize {
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => 0,
        Expr::Unary(op, a) => operations_of(a) + if op.is_elementary() { ELEMENTARY } else { 1 },
        Expr::Binary(op, a, b) => operations_of(a) + operations_of(b) + if op.is_elementary() { ELEMENTARY } else { 1 },
        Expr::Select(condition, a, b) => operations_of(condition) + operations_of(a) + operations_of(b) + 1,
        Expr::Cast(_, a) | Expr::Bitcast(_, a) => operations_of(a) + 1,
    }
}

/// The arrays that a kernel accesses, if all at the position of the thread.
pub(super) fn arrays(body: &[Stmt]) -> Option<Vec<ParamId>> {
    let mut accesses = Accesses { positions: positions(body), arrays: vec![] };
    accesses.body(body)?;
    Some(accesses.arrays)
}

/// The variables that are assigned the position of the thread before the first statement that could use them as an index, and nothing else.
fn positions(body: &[Stmt]) -> HashSet<LocalId> {
    let mut found = HashSet::new();
    for stmt in body {
        let Stmt::Assign(local, value) = stmt else { break };
        if matches!(value, Expr::ThreadId(0)) {
            found.insert(*local);
        }
    }
    remove_assigned(body, &mut found);
    found
}

/// Removes the variables that are assigned a value other than the position.
fn remove_assigned(body: &[Stmt], from: &mut HashSet<LocalId>) {
    for stmt in body {
        match stmt {
            Stmt::Assign(local, value) => {
                if !matches!(value, Expr::ThreadId(0)) {
                    from.remove(local);
                }
            }
            Stmt::Load(local, _) | Stmt::Atomic { previous: Some(local), .. } => {
                from.remove(local);
            }
            Stmt::If(_, then, otherwise) => {
                remove_assigned(then, from);
                remove_assigned(otherwise, from);
            }
            Stmt::For { counter, body, .. } => {
                from.remove(counter);
                remove_assigned(body, from);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) => remove_assigned(body, from),
            Stmt::Store(..)
            | Stmt::Atomic { previous: None, .. }
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
}

struct Accesses {
    /// Variables that hold the position of the thread.
    positions: HashSet<LocalId>,
    arrays: Vec<ParamId>,
}

impl Accesses {
    fn body(&mut self, body: &[Stmt]) -> Option<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Option<()> {
        match stmt {
            Stmt::Load(_, place) | Stmt::Store(place, _) => self.access(place),
            Stmt::If(_, then, otherwise) => {
                self.body(then)?;
                self.body(otherwise)
            }
            Stmt::Assign(..) | Stmt::Return => Some(()),
            Stmt::For { body, .. } => self.body(body),
            Stmt::Atomic { .. }
            | Stmt::Loop(..)
            | Stmt::Block(..)
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Fault(..) => None,
        }
    }

    fn access(&mut self, place: &Place) -> Option<()> {
        let is_position = match &place.indices[..] {
            [Expr::Local(local)] => self.positions.contains(local),
            indices => matches!(indices, [Expr::ThreadId(0)]),
        };
        if is_position && !self.arrays.contains(&place.array) {
            self.arrays.push(place.array);
        }
        is_position.then_some(())
    }
}

/// Returns true if vectors hold values of the type.
pub(super) fn has_lanes(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bool | Dtype::U32 | Dtype::I32 | Dtype::F32)
}

/// Returns true if all threads have the same value.
pub(super) fn is_uniform(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Param(..) | Expr::Extent(..) => true,
        Expr::Local(_) | Expr::ThreadId(_) => false,
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => is_uniform(a),
        Expr::Binary(_, a, b) => is_uniform(a) && is_uniform(b),
        Expr::Select(condition, a, b) => is_uniform(condition) && is_uniform(a) && is_uniform(b),
    }
}

/// Returns true if a thread may return in a statement.
pub(super) fn may_return(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Return => true,
        Stmt::If(_, then, otherwise) => then.iter().chain(otherwise).any(may_return),
        Stmt::For { body, .. } => body.iter().any(may_return),
        Stmt::Assign(..)
        | Stmt::Load(..)
        | Stmt::Store(..)
        | Stmt::Atomic { .. }
        | Stmt::Loop(..)
        | Stmt::Block(..)
        | Stmt::Break(_)
        | Stmt::Continue(_)
        | Stmt::Fault(..) => false,
    }
}
