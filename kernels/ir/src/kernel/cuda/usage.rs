//! Uses of local variables in a kernel: where each is declared, and which are only the counters of loops.
//!
//! Statements are identified by their address: a kernel is borrowed while it is emitted.

use std::collections::{HashMap, HashSet};

use super::assigned::{for_each_leaf, reads_before_assignment};
use crate::kernel::{Expr, Kernel, LabelId, LocalId, ParamId, Place, Stmt};

/// Identifies a statement of the kernel that is emitted.
pub(super) type StmtKey = *const Stmt;

/// Where a local variable is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declaration {
    /// Nothing reads it, or only loops declare it.
    Nowhere,
    /// Before this statement; as zero, if the flag is set.
    Before(StmtKey, bool),
    /// By the assignment that is this statement; it is the only one, if the flag is set.
    At(StmtKey, bool),
    /// By [`Usage::make_member`]. One assignment gives it its only value, if the flag is set.
    Member(bool),
}

/// A statement on the way from the kernel to an expression.
#[derive(Clone, Copy)]
struct Step {
    list: usize,
    stmt: StmtKey,
    is_loop: bool,
}

#[derive(Default)]
struct LocalUsage {
    reads: usize,
    writes: usize,
    /// Writes as the counter of a loop.
    counts: usize,
    /// Reads within loops of which it is the counter.
    counter_reads: usize,
    /// The first statement that assigns it, other than as a counter.
    first_write: Option<StmtKey>,
    /// True if it is the counter of two nested loops.
    is_shared: bool,
    /// The way to the innermost list of statements that contains all uses. Its last step is the first statement with one.
    scope: Option<Vec<Step>>,
}

/// Facts about the local variables and parameters of a kernel.
pub(super) struct Usage {
    locals: Vec<LocalUsage>,
    declarations: Vec<Declaration>,
    /// Variables declared before a statement, in their order.
    before: HashMap<StmtKey, Vec<LocalId>>,
    /// Variables that the body of a loop assigns.
    assigned: HashMap<LabelId, HashSet<LocalId>>,
    /// Loops and blocks that a `break` of C++ does not leave everywhere.
    pub(super) far_breaks: HashSet<LabelId>,
    /// Loops that a `continue` of C++ does not continue everywhere.
    pub(super) far_continues: HashSet<LabelId>,
    /// Dimensions of the grid along which the position is read.
    pub(super) thread_axes: [bool; 4],
    /// Dimensions of arrays whose extent is read.
    pub(super) extents: HashSet<(ParamId, u8)>,
    /// Arrays that are written.
    pub(super) written: HashSet<ParamId>,
}

impl Usage {
    pub(super) fn new(kernel: &Kernel) -> Self {
        let usage = Self {
            locals: kernel.locals.iter().map(|_| LocalUsage::default()).collect(),
            declarations: vec![],
            before: HashMap::new(),
            assigned: HashMap::new(),
            far_breaks: HashSet::new(),
            far_continues: HashSet::new(),
            thread_axes: [false; 4],
            extents: HashSet::new(),
            written: HashSet::new(),
        };
        let mut visitor = Visitor { usage, path: vec![], lists: 0, loops: vec![], counters: vec![] };
        visitor.list(&kernel.body);
        let mut usage = visitor.usage;
        let zero = reads_before_assignment(kernel);
        usage.declarations = usage.locals.iter().zip(zero).map(|(local, zero)| local.declaration(zero)).collect();
        for (index, declaration) in usage.declarations.iter().enumerate() {
            if let Declaration::Before(stmt, _) = declaration {
                let local = LocalId(u32::try_from(index).expect("a checked kernel has fewer local variables"));
                usage.before.entry(*stmt).or_default().push(local);
            }
        }
        usage
    }

    pub(super) fn declaration(&self, local: LocalId) -> Declaration {
        self.declarations[local.0 as usize]
    }

    /// Leaves the declaration of a variable to the caller. Whether it must start as zero.
    pub(super) fn make_member(&mut self, local: LocalId) -> bool {
        let index = local.0 as usize;
        let declaration = self.declarations[index];
        if let Declaration::Before(stmt, _) = declaration {
            self.before.entry(stmt).or_default().retain(|declared| *declared != local);
        }
        let is_zero = matches!(declaration, Declaration::Before(_, true));
        self.declarations[index] = Declaration::Member(!is_zero && self.locals[index].writes == 1);
        is_zero
    }

    /// Variables that are declared before a statement.
    pub(super) fn declared_before(&self, stmt: &Stmt) -> &[LocalId] {
        self.before.get(&std::ptr::from_ref(stmt)).map_or(&[], Vec::as_slice)
    }

    /// Returns true if the variable exists only as the counter within loops.
    pub(super) fn is_counter(&self, local: LocalId) -> bool {
        self.locals[local.0 as usize].is_counter()
    }

    /// A variable that is assigned nothing but the position along a dimension of the grid, before all else.
    pub(super) fn position(&self, kernel: &Kernel, axis: u8) -> Option<LocalId> {
        kernel.body.iter().find_map(|stmt| {
            let Stmt::Assign(local, Expr::ThreadId(of)) = stmt else { return None };
            let is_first = *of == axis && self.declaration(*local) == Declaration::At(stmt, true);
            is_first.then_some(*local)
        })
    }

    pub(super) fn reads(&self, local: LocalId) -> usize {
        self.locals[local.0 as usize].reads
    }

    /// Returns true if the body of a loop leaves the value of an expression unchanged.
    pub(super) fn is_invariant(&self, expr: &Expr, in_loop: LabelId) -> bool {
        let assigned = &self.assigned[&in_loop];
        let mut is_invariant = true;
        for_each_leaf(expr, &mut |leaf| {
            is_invariant &= !matches!(leaf, Expr::Local(local) if assigned.contains(local));
        });
        is_invariant
    }
}

impl LocalUsage {
    fn is_counter(&self) -> bool {
        self.counts > 0 && self.counts == self.writes && self.reads == self.counter_reads && !self.is_shared
    }

    fn declaration(&self, needs_zero: bool) -> Declaration {
        let Some(scope) = self.scope.as_ref().filter(|_| self.reads > 0 && !self.is_counter()) else {
            return Declaration::Nowhere;
        };
        let (first, around) = scope.split_last().expect("a use is in a statement");
        if needs_zero {
            // A value that an iteration leaves to the next one outlives the body of the loop.
            let outermost = around.iter().find(|step| step.is_loop);
            return Declaration::Before(outermost.unwrap_or(first).stmt, true);
        }
        if self.first_write == Some(first.stmt) {
            Declaration::At(first.stmt, self.writes == 1)
        } else {
            Declaration::Before(first.stmt, false)
        }
    }
}

struct Visitor {
    usage: Usage,
    path: Vec<Step>,
    lists: usize,
    /// Loops around the current statement.
    loops: Vec<LabelId>,
    /// Their counters.
    counters: Vec<LocalId>,
}

impl Visitor {
    fn list(&mut self, stmts: &[Stmt]) {
        self.lists += 1;
        let list = self.lists;
        for stmt in stmts {
            let is_loop = matches!(stmt, Stmt::Loop(..) | Stmt::For { .. });
            self.path.push(Step { list, stmt, is_loop });
            self.stmt(stmt);
            self.path.pop();
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => {
                self.expr(value);
                self.write(*local, stmt);
            }
            Stmt::Load(local, place) => {
                self.place(place);
                self.write(*local, stmt);
            }
            Stmt::Store(place, value) => {
                self.usage.written.insert(place.array);
                self.place(place);
                self.expr(value);
            }
            Stmt::Atomic { place, operand, expected, previous, .. } => {
                self.usage.written.insert(place.array);
                self.place(place);
                self.expr(operand);
                if let Some(expected) = expected {
                    self.expr(expected);
                }
                if let Some(previous) = previous {
                    self.write(*previous, stmt);
                }
            }
            Stmt::If(condition, then, otherwise) => {
                self.expr(condition);
                self.list(then);
                self.list(otherwise);
            }
            Stmt::Loop(label, body) => self.body(*label, body),
            Stmt::For { label, counter, start, end, step, body } => {
                for bound in [start, end, step] {
                    self.expr(bound);
                }
                self.write(*counter, stmt);
                self.local(*counter).counts += 1;
                self.local(*counter).is_shared |= self.counters.contains(counter);
                self.counters.push(*counter);
                self.body(*label, body);
                self.usage.assigned.entry(*label).or_default().insert(*counter);
                self.counters.pop();
            }
            Stmt::Block(_, body) => self.list(body),
            Stmt::Break(label) if self.loops.last() != Some(label) => {
                self.usage.far_breaks.insert(*label);
            }
            Stmt::Continue(label) if self.loops.last() != Some(label) => {
                self.usage.far_continues.insert(*label);
            }
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }

    fn body(&mut self, label: LabelId, body: &[Stmt]) {
        self.usage.assigned.entry(label).or_default();
        self.loops.push(label);
        self.list(body);
        self.loops.pop();
    }

    fn place(&mut self, place: &Place) {
        for index in &place.indices {
            self.expr(index);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        for_each_leaf(expr, &mut |leaf| match leaf {
            Expr::Local(local) => {
                let is_counted = self.counters.contains(local);
                self.use_at(*local);
                self.local(*local).reads += 1;
                self.local(*local).counter_reads += usize::from(is_counted);
            }
            Expr::Extent(param, axis) => {
                self.usage.extents.insert((*param, *axis));
            }
            Expr::ThreadId(axis) => self.usage.thread_axes[usize::from(*axis)] = true,
            Expr::Literal(_)
            | Expr::Param(..)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..)
            | Expr::Cast(..)
            | Expr::Bitcast(..) => {}
        });
    }

    fn local(&mut self, local: LocalId) -> &mut LocalUsage {
        &mut self.usage.locals[local.0 as usize]
    }

    fn write(&mut self, local: LocalId, stmt: &Stmt) {
        self.use_at(local);
        self.local(local).writes += 1;
        if !matches!(stmt, Stmt::For { .. }) {
            self.local(local).first_write.get_or_insert(stmt);
        }
        for label in &self.loops {
            self.usage.assigned.entry(*label).or_default().insert(local);
        }
    }

    /// Cuts the scope of a variable to what contains this use too.
    fn use_at(&mut self, local: LocalId) {
        let path = &self.path;
        let scope = &mut self.usage.locals[local.0 as usize].scope;
        match scope {
            None => *scope = Some(path.clone()),
            Some(scope) => {
                let common = scope.iter().zip(path).take_while(|(a, b)| a.list == b.list).count();
                scope.truncate(common);
            }
        }
    }
}
