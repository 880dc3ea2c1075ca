//! Kernels that read before they write: a thread of the device starts the reads of several threads of the grid before it waits for any.

use std::{collections::BTreeSet, slice};

use crate::kernel::{Expr, Kernel, LocalId, Stmt, races::Access, visit};

/// The most statements of a kernel that is split. Its code stands in the program once for each thread that a thread of the device runs.
const MAX_STMTS: usize = 12;

/// The two parts of the body of a kernel.
#[derive(Clone)]
pub(super) struct ReadAhead<'k> {
    /// Statements without writes, of which one reads an array.
    pub(super) reads: &'k [Stmt],
    /// The rest, from the first write on.
    pub(super) rest: &'k [Stmt],
    /// Variables that both parts use.
    pub(super) shared: BTreeSet<LocalId>,
}

impl<'k> ReadAhead<'k> {
    /// The parts of a kernel. None if it does not read before it writes, or if its time does not go into accesses: it has loops or
    /// elementary functions, or is long.
    pub(super) fn of(kernel: &'k Kernel) -> Option<Self> {
        let body = kernel.body.as_slice();
        size_without_loops(body).filter(|size| *size <= MAX_STMTS && !has_elementary(body))?;
        let first_write = body.iter().position(|stmt| accesses(stmt, |access| access != Access::Read))?;
        let (reads, rest) = body.split_at(first_write);
        reads.iter().any(|stmt| accesses(stmt, |access| access == Access::Read)).then(|| {
            let mut before = BTreeSet::new();
            let mut after = BTreeSet::new();
            add_used(reads, &mut before);
            add_used(rest, &mut after);
            Self { reads, rest, shared: before.intersection(&after).copied().collect() }
        })
    }
}

/// Number of statements; None if there are loops or blocks.
fn size_without_loops(body: &[Stmt]) -> Option<usize> {
    body.iter().try_fold(0, |size, stmt| match stmt {
        Stmt::If(_, then, otherwise) => Some(size + 1 + size_without_loops(then)? + size_without_loops(otherwise)?),
        Stmt::Loop(..) | Stmt::For { .. } | Stmt::Block(..) => None,
        Stmt::Assign(..)
        | Stmt::Load(..)
        | Stmt::Store(..)
        | Stmt::Atomic { .. }
        | Stmt::Break(_)
        | Stmt::Continue(_)
        | Stmt::Return
        | Stmt::Fault(..) => Some(size + 1),
    })
}

fn has_elementary(body: &[Stmt]) -> bool {
    let mut found = false;
    visit::each_expr(body, &mut |expr| {
        found |= matches!(expr, Expr::Unary(op, _) if op.is_elementary());
        found |= matches!(expr, Expr::Binary(op, ..) if op.is_elementary());
    });
    found
}

/// Returns true if a statement has an access of a kind.
fn accesses(stmt: &Stmt, is_meant: impl Fn(Access) -> bool) -> bool {
    let mut found = false;
    visit::each_access(slice::from_ref(stmt), &mut |_, access| found |= is_meant(access));
    found
}

/// Adds the variables that statements read or assign.
fn add_used(body: &[Stmt], used: &mut BTreeSet<LocalId>) {
    visit::each_expr(body, &mut |expr| {
        if let Expr::Local(local) = expr {
            used.insert(*local);
        }
    });
    for stmt in body {
        match stmt {
            Stmt::Assign(local, _) | Stmt::Load(local, _) | Stmt::Atomic { previous: Some(local), .. } => {
                used.insert(*local);
            }
            Stmt::If(_, then, otherwise) => {
                add_used(then, used);
                add_used(otherwise, used);
            }
            Stmt::Loop(..)
            | Stmt::For { .. }
            | Stmt::Block(..)
            | Stmt::Store(..)
            | Stmt::Atomic { previous: None, .. }
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
}
