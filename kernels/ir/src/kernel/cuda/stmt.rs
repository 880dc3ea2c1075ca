//! Statements.

use super::access::{atomic, place_reads};
use super::assigned::for_each_leaf;
use super::cpp_expr::{CppExpr, Range, integer, prec, value_type};
use super::emitter::{Emitter, Enclosing, Form};
use super::usage::Declaration;
use crate::Dtype;
use crate::kernel::{Expr, FaultKind, LabelId, LocalId, SiteId, Stmt};

/// Longest text of a load that takes the place of its variable.
const MAX_INLINED: usize = 60;
/// Most loads that wait for the statement that reads them.
const MAX_PENDING: usize = 8;

/// A load that is emitted where its variable is read, if nothing in between changes the memory that it reads.
struct Pending {
    local: LocalId,
    /// The variables in its text.
    reads: Vec<LocalId>,
}

/// The parts of a [`Stmt::For`].
#[derive(Clone, Copy)]
struct Counted<'a> {
    label: LabelId,
    counter: LocalId,
    start: &'a Expr,
    end: &'a Expr,
    step: &'a Expr,
    body: &'a [Stmt],
}

impl Emitter<'_> {
    /// Statements that follow each other.
    pub(super) fn list(&mut self, stmts: &[Stmt]) {
        let mut pending = vec![];
        for stmt in stmts {
            self.declare_before(stmt);
            if !self.postpone(stmt, &mut pending) {
                self.load_pending(stmt, &mut pending);
                self.stmt(stmt);
            }
            if is_jump(stmt) {
                // The statements that follow never run.
                break;
            }
        }
        self.declare_loads(pending);
    }

    /// Keeps a load for the only statement that reads its variable.
    fn postpone(&mut self, stmt: &Stmt, pending: &mut Vec<Pending>) -> bool {
        let Stmt::Load(local, place) = stmt else { return false };
        let is_single = self.usage.declaration(*local) == Declaration::At(stmt, true) && self.usage.reads(*local) == 1;
        if self.form == Form::Checked || !is_single || pending.len() >= MAX_PENDING {
            return false;
        }
        let text = self.load(place);
        if text.text.len() > MAX_INLINED {
            return false;
        }
        let mut reads = place_reads(place);
        pending.retain(|load| {
            let is_nested = reads.contains(&load.local);
            if is_nested {
                reads.extend(&load.reads);
            }
            !is_nested
        });
        self.inlined.insert(*local, text);
        pending.push(Pending { local: *local, reads });
        true
    }

    /// Emits pending loads before a statement that may change their operands. Loads that the statement reads itself stay pending.
    fn load_pending(&mut self, stmt: &Stmt, pending: &mut Vec<Pending>) {
        let reads = direct_reads(stmt);
        let changed = if let Stmt::Assign(local, _) | Stmt::Load(local, _) = stmt { Some(local) } else { None };
        let mut loaded = vec![];
        for load in std::mem::take(pending) {
            if reads.contains(&load.local) {
                continue;
            }
            if changed.is_none_or(|local| load.reads.contains(local)) {
                loaded.push(load);
            } else {
                pending.push(load);
            }
        }
        self.declare_loads(loaded);
    }

    fn declare_loads(&mut self, loads: Vec<Pending>) {
        for Pending { local, .. } in loads {
            let text = self.inlined.remove(&local).expect("a pending load is inlined");
            self.define(local, &text, true);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => self.assignment(stmt, *local, value),
            Stmt::Load(local, place) => self.load_stmt(stmt, *local, place),
            Stmt::Store(place, value) => self.store(place, value),
            Stmt::Atomic { op, place, operand, expected, previous } => {
                let previous = previous.filter(|local| self.usage.reads(*local) > 0);
                let operand = self.expr(operand).text;
                let expected = expected.as_ref().map(|expected| self.expr(expected).text);
                let call = |pointer: &str, dtype| atomic(*op, dtype, pointer, &operand, expected.as_deref());
                self.atomic(stmt, place, previous, call);
            }
            Stmt::If(condition, then, otherwise) => self.branch(condition, then, otherwise),
            Stmt::Loop(label, body) => self.endless(*label, body),
            Stmt::For { label, counter, start, end, step, body } => {
                self.counted(Counted { label: *label, counter: *counter, start, end, step, body });
            }
            Stmt::Block(label, body) => {
                self.enter(*label, false);
                self.open("{");
                self.list(body);
                self.leave("}");
            }
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {
                let text = self.jump(stmt).expect("a jump");
                self.line(&text);
            }
        }
    }

    fn assignment(&mut self, stmt: &Stmt, local: LocalId, value: &Expr) {
        let is_position = matches!(value, Expr::ThreadId(axis)
            if self.leaves.threads[usize::from(*axis)] == self.names.locals[local.0 as usize]);
        if self.usage.reads(local) == 0 || is_position {
            return;
        }
        let text = self.assigned_expr(value, local);
        let name = &self.names.locals[local.0 as usize];
        match self.compound(name, value, &text.text) {
            Some(compound) => self.line(&compound),
            None => self.assign(stmt, local, &text),
        }
    }

    fn branch(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        if then.is_empty() && otherwise.is_empty() {
            return;
        }
        if then.is_empty() {
            let condition = self.negation(condition).text;
            return self.branches(&condition, otherwise, &[]);
        }
        let condition = self.expr(condition).text;
        self.branches(&condition, then, otherwise);
    }

    fn branches(&mut self, condition: &str, then: &[Stmt], otherwise: &[Stmt]) {
        if let ([only], []) = (then, otherwise)
            && let Some(jump) = self.jump(only)
        {
            return self.line(&format!("if ({condition}) {jump}"));
        }
        self.open(&format!("if ({condition}) {{"));
        self.list(then);
        let mut rest = otherwise;
        while let [only @ Stmt::If(condition, then, otherwise)] = rest
            && !then.is_empty()
            && self.usage.declared_before(only).is_empty()
        {
            let condition = self.expr(condition).text;
            self.reopen(&format!("}} else if ({condition}) {{"));
            self.list(then);
            rest = otherwise;
        }
        if !rest.is_empty() {
            self.reopen("} else {");
            self.list(rest);
        }
        self.close("}");
    }

    /// The text of a statement that ends its list.
    fn jump(&self, stmt: &Stmt) -> Option<String> {
        let innermost =
            self.enclosing.iter().rev().find(|enclosing| enclosing.is_loop).map(|enclosing| enclosing.label);
        let find = |label: &LabelId| {
            self.enclosing
                .iter()
                .rev()
                .find(|enclosing| enclosing.label == *label)
                .expect("a checked jump has its target")
        };
        let goto = |name: &Option<String>| format!("goto {};", name.as_ref().expect("a far jump has a label"));
        match stmt {
            Stmt::Break(label) if innermost == Some(*label) => Some("break;".to_owned()),
            Stmt::Break(label) => Some(goto(&find(label).end)),
            Stmt::Continue(label) if innermost == Some(*label) => Some("continue;".to_owned()),
            Stmt::Continue(label) => Some(goto(&find(label).next)),
            Stmt::Return => Some("return;".to_owned()),
            Stmt::Fault(kind, site) => Some(self.fault(*kind, *site)),
            Stmt::Assign(..)
            | Stmt::Load(..)
            | Stmt::Store(..)
            | Stmt::Atomic { .. }
            | Stmt::If(..)
            | Stmt::Loop(..)
            | Stmt::For { .. }
            | Stmt::Block(..) => None,
        }
    }

    fn fault(&self, kind: FaultKind, site: SiteId) -> String {
        if self.form == Form::Plain {
            let line = self.kernel.sites[site.0 as usize].site.line;
            return format!("__trap();  // {}, line {line}", fault_name(kind));
        }
        format!("return ir::fault(thread, ir::{}, {});", fault_constant(kind), site.0)
    }

    fn enter(&mut self, label: LabelId, is_loop: bool) {
        let end = self.usage.far_breaks.contains(&label).then(|| self.names.scope.take("done"));
        let next = self.usage.far_continues.contains(&label).then(|| self.names.scope.take("next"));
        self.enclosing.push(Enclosing { label, is_loop, end, next });
    }

    fn leave(&mut self, text: &str) {
        self.close(text);
        let left = self.enclosing.pop().expect("a loop or block was entered");
        if let Some(end) = left.end {
            self.line(&format!("{end}:;"));
        }
    }

    /// The lines of a loop: `head` with its body. If checks are emitted, iterations are counted one by one.
    fn looped(&mut self, label: LabelId, head: &str, first: Option<&str>, body: &[Stmt]) {
        if self.form == Form::Checked {
            // Each iteration is a branch in any case.
            self.line("#pragma unroll 1");
        }
        self.repeat(label, self.form == Form::Checked, head, first, body);
    }

    fn repeat(&mut self, label: LabelId, is_counted: bool, head: &str, first: Option<&str>, body: &[Stmt]) {
        self.enter(label, true);
        self.open(head);
        if is_counted {
            self.line("if (!ir::iterate(thread)) return;");
        }
        if let Some(first) = first {
            self.line(first);
        }
        match self.enclosing.last().expect("just entered").next.clone() {
            // No declaration may stand between a jump and its label.
            Some(next) => {
                self.open("{");
                self.list(body);
                self.close("}");
                self.line(&format!("{next}:;"));
            }
            None => self.list(body),
        }
        self.leave("}");
    }

    fn endless(&mut self, label: LabelId, body: &[Stmt]) {
        let condition = match body {
            // An iteration that ends at once counts.
            _ if self.form == Form::Checked => None,
            [first @ Stmt::If(condition, then, otherwise), rest @ ..]
                if self.usage.declared_before(first).is_empty() =>
            {
                let exit = [Stmt::Break(label)];
                match (then.as_slice(), otherwise.as_slice()) {
                    (then, []) if then == exit => Some((self.negation(condition).text, rest)),
                    ([], otherwise) if otherwise == exit => Some((self.expr(condition).text, rest)),
                    _ => None,
                }
            }
            _ => None,
        };
        match condition {
            Some((condition, rest)) => self.looped(label, &format!("while ({condition}) {{"), None, rest),
            None => self.looped(label, "while (true) {", None, body),
        }
    }

    fn counted(&mut self, counted: Counted) {
        let index = counted.counter.0 as usize;
        let dtype = self.kernel.locals[counted.counter.0 as usize].dtype;
        let ty = value_type(dtype);
        let is_owned = self.usage.is_counter(counted.counter);
        let name = self.names.locals[index].clone();
        let start = self.expr(counted.start);
        let step = self.expr(counted.step);
        let step_by = step.range.min;
        if !step.is_constant || step_by == 0 {
            return self.general(counted, &name, is_owned, [start.text, self.expr(counted.end).text, step.text]);
        }
        let mut end = self.expr(counted.end);
        if !self.usage.is_invariant(counted.end, counted.label) {
            let constant = self.names.scope.take(&format!("{name}_end"));
            self.line(&format!("const {ty} {constant} = {};", end.text));
            end = CppExpr::primary(constant, dtype).within(end.range);
        }
        let variable = if is_owned { name.clone() } else { self.names.scope.take(&name) };
        let values = counter_range(&start, &end, step_by, dtype);
        let update = update(&variable, &end, step_by, dtype);
        let compare = if step_by > 0 { "<" } else { ">" };
        let head = format!(
            "for ({ty} {variable} = {}; {variable} {compare} {}; {update}) {{",
            start.text,
            end.at(prec::SHIFT)
        );
        if is_owned {
            self.ranges.insert(counted.counter, values);
        }
        let copies = !is_owned && self.usage.reads(counted.counter) > 0;
        let copy = copies.then(|| format!("{name} = {variable};"));
        let first = copy.as_deref();
        if self.form == Form::Checked && runs_all(counted.body) {
            let count = format!("ir::Range<{ty}>({}, {}, {}).count", start.text, end.text, step.text);
            self.open(&format!("if (ir::take_iterations(thread, {count})) {{"));
            self.repeat(counted.label, false, &head, first, counted.body);
            self.reopen("} else {");
            self.looped(counted.label, &head, first, counted.body);
            self.close("}");
        } else {
            self.looped(counted.label, &head, first, counted.body);
        }
    }

    /// A loop whose step is not a constant.
    fn general(&mut self, counted: Counted, name: &str, is_owned: bool, [start, end, step]: [String; 3]) {
        let ty = value_type(self.kernel.locals[counted.counter.0 as usize].dtype);
        let range = self.names.scope.take(&format!("{name}_range"));
        self.line(&format!("ir::Range<{ty}> {range}({start}, {end}, {step});"));
        let head = if is_owned || self.usage.reads(counted.counter) == 0 {
            format!("for ({ty} {name}; {range}.next({name});) {{")
        } else {
            format!("while ({range}.next({name})) {{")
        };
        self.ranges.remove(&counted.counter);
        self.looped(counted.label, &head, None, counted.body);
    }
}

/// Returns true if a loop with this body runs all iterations, unless its thread ends, and no other loop's between them.
fn runs_all(body: &[Stmt]) -> bool {
    body.iter().all(|stmt| match stmt {
        Stmt::If(_, then, otherwise) => runs_all(then) && runs_all(otherwise),
        Stmt::Block(..) | Stmt::Loop(..) | Stmt::For { .. } | Stmt::Break(_) | Stmt::Continue(_) => false,
        Stmt::Assign(..) | Stmt::Load(..) | Stmt::Store(..) | Stmt::Atomic { .. } | Stmt::Return | Stmt::Fault(..) => {
            true
        }
    })
}

fn is_jump(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..))
}

/// The variables that the first expressions of a statement read.
fn direct_reads(stmt: &Stmt) -> Vec<LocalId> {
    let mut reads = vec![];
    let mut read = |expr| {
        for_each_leaf(expr, &mut |leaf| {
            if let Expr::Local(local) = leaf {
                reads.push(*local);
            }
        });
    };
    match stmt {
        Stmt::Assign(_, value) | Stmt::If(value, ..) => read(value),
        Stmt::Load(_, place) => place.indices.iter().for_each(read),
        Stmt::Store(place, value) => {
            place.indices.iter().for_each(&mut read);
            read(value);
        }
        Stmt::Atomic { place, operand, expected, .. } => {
            place.indices.iter().for_each(&mut read);
            read(operand);
            expected.iter().for_each(read);
        }
        Stmt::For { .. }
        | Stmt::Loop(..)
        | Stmt::Block(..)
        | Stmt::Break(_)
        | Stmt::Continue(_)
        | Stmt::Return
        | Stmt::Fault(..) => {}
    }
    reads
}

/// The values of a counter within its loop.
fn counter_range(start: &CppExpr, end: &CppExpr, step: i128, dtype: Dtype) -> Range {
    let all = Range::of(dtype);
    if step > 0 {
        Range { min: start.range.min, max: (end.range.max - 1).max(start.range.min) }
    } else {
        Range { min: (end.range.min + 1).min(start.range.max).max(all.min), max: start.range.max }
    }
}

/// The next value of a counter; one that would leave its type becomes the end.
fn update(variable: &str, end: &CppExpr, step: i128, dtype: Dtype) -> String {
    let last = if step > 0 { end.range.max - 1 } else { end.range.min + 1 };
    let is_small = step.abs() <= i128::from(i32::MAX);
    match step {
        1 => format!("{variable}++"),
        -1 => format!("{variable}--"),
        _ if is_small && Range::of(dtype).contains(last + step) => {
            let op = if step > 0 { "+=" } else { "-=" };
            format!("{variable} {op} {}", integer(step.abs(), dtype).text)
        }
        _ => {
            let ty = value_type(dtype);
            format!("{variable} = ir::advance<{ty}>({variable}, {}, {})", integer(step, dtype).text, end.text)
        }
    }
}

/// A description of a fault, for readers.
pub(super) fn fault_name(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::OutOfBounds => "index out of bounds",
        FaultKind::DivisionByZero => "division by zero",
        FaultKind::Assertion => "failed assertion",
        FaultKind::InvalidValue => "invalid value",
        FaultKind::BudgetExhausted => "budget exhausted",
    }
}

fn fault_constant(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::OutOfBounds => "OUT_OF_BOUNDS",
        FaultKind::DivisionByZero => "DIVISION_BY_ZERO",
        FaultKind::Assertion => "ASSERTION",
        FaultKind::InvalidValue => "INVALID_VALUE",
        FaultKind::BudgetExhausted => "BUDGET_EXHAUSTED",
    }
}
