//! Definite assignment: which local variables may be read before they are assigned, and so must start as zero.

use std::collections::HashMap;

use crate::kernel::{Expr, Kernel, LabelId, LocalId, Place, Stmt};

/// Calls a function with each expression without operands.
pub(super) fn for_each_leaf<'a>(expr: &'a Expr, leaf: &mut impl FnMut(&'a Expr)) {
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => leaf(expr),
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => for_each_leaf(a, leaf),
        Expr::Binary(_, a, b) => {
            for_each_leaf(a, leaf);
            for_each_leaf(b, leaf);
        }
        Expr::Select(condition, a, b) => {
            for_each_leaf(condition, leaf);
            for_each_leaf(a, leaf);
            for_each_leaf(b, leaf);
        }
    }
}

/// For each local variable, whether it may be read before it is assigned: since the kernel began, or since the iteration began of a
/// loop that contains all its uses.
pub(super) fn reads_before_assignment(kernel: &Kernel) -> Vec<bool> {
    let count = kernel.locals.len();
    let state = Some(Assigned(vec![0; count.div_ceil(64)]));
    let mut flow = Flow { found: vec![false; count], state, exits: HashMap::new() };
    flow.list(&kernel.body);
    flow.found
}

/// A set of local variables.
#[derive(Clone)]
struct Assigned(Vec<u64>);

impl Assigned {
    fn contains(&self, local: LocalId) -> bool {
        self.0[local.0 as usize / 64] >> (local.0 % 64) & 1 == 1
    }

    fn insert(&mut self, local: LocalId) {
        self.0[local.0 as usize / 64] |= 1 << (local.0 % 64);
    }
}

/// The variables assigned where two paths meet; `None` stands for a path that is not taken.
fn meet(a: Option<Assigned>, b: Option<Assigned>) -> Option<Assigned> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Assigned(a.0.iter().zip(b.0).map(|(a, b)| a & b).collect())),
        (a, b) => a.or(b),
    }
}

/// A forward walk. The state at the start of each iteration is that before the loop: later iterations have assigned no less.
struct Flow {
    found: Vec<bool>,
    state: Option<Assigned>,
    /// States in which loops and blocks are left.
    exits: HashMap<LabelId, Assigned>,
}

impl Flow {
    fn list(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => {
                self.read(value);
                self.assign(*local);
            }
            Stmt::Load(local, place) => {
                self.read_place(place);
                self.assign(*local);
            }
            Stmt::Store(place, value) => {
                self.read_place(place);
                self.read(value);
            }
            Stmt::Atomic { place, operand, expected, previous, .. } => {
                self.read_place(place);
                self.read(operand);
                if let Some(expected) = expected {
                    self.read(expected);
                }
                if let Some(previous) = previous {
                    self.assign(*previous);
                }
            }
            Stmt::If(condition, then, otherwise) => {
                self.read(condition);
                let before = self.state.clone();
                self.list(then);
                let after_then = std::mem::replace(&mut self.state, before);
                self.list(otherwise);
                self.state = meet(after_then, self.state.take());
            }
            Stmt::Loop(label, body) => {
                self.list(body);
                self.state = self.exits.remove(label);
            }
            Stmt::For { label, counter, start, end, step, body } => {
                for bound in [start, end, step] {
                    self.read(bound);
                }
                let before = self.state.clone();
                self.assign(*counter);
                self.list(body);
                self.state = meet(before, self.exits.remove(label));
            }
            Stmt::Block(label, body) => {
                self.list(body);
                self.state = meet(self.state.take(), self.exits.remove(label));
            }
            Stmt::Break(label) => {
                if let Some(state) = meet(self.state.take(), self.exits.remove(label)) {
                    self.exits.insert(*label, state);
                }
            }
            Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => self.state = None,
        }
    }

    fn assign(&mut self, local: LocalId) {
        self.state.iter_mut().for_each(|state| state.insert(local));
    }

    fn read_place(&mut self, place: &Place) {
        for index in &place.indices {
            self.read(index);
        }
    }

    fn read(&mut self, expr: &Expr) {
        let Some(state) = &self.state else { return };
        for_each_leaf(expr, &mut |leaf| {
            if let Expr::Local(local) = leaf {
                self.found[local.0 as usize] |= !state.contains(*local);
            }
        });
    }
}
